//! The subjects of requests for certificates: none for a client of the API is of the group that may do everything.
//!
//! Source: the admission plug-in `CertificateSubjectRestriction` of Kubernetes.

use homeostat_builtin::requests_group;
use homeostat_store::Kind;
use serde_json::Value;

use crate::Error;
use crate::new_resource::NewResource;

/// The signer of certificates for clients of the API.
const SIGNER: &str = "kubernetes.io/kube-apiserver-client";
const MASTERS: &str = "system:masters";

/// Returns the kind of requests for certificates.
pub(crate) fn requests() -> Kind {
    Kind::new("certificates.k8s.io", "v1", "CertificateSigningRequest")
}

/// Checks the subject of a new request, and leaves resources of other kinds alone.
///
/// # Errors
/// [`Error::Forbidden`].
pub(crate) fn admit(new: NewResource<'_>, document: &Value) -> Result<(), Error> {
    let spec = &document["spec"];
    if !new.target.kind.same_type(&requests()) || spec["signerName"] != SIGNER {
        return Ok(());
    }
    if requests_group(spec["request"].as_str().unwrap_or_default(), MASTERS) {
        let reason = format!("use of {SIGNER} signer with {MASTERS} group is not allowed");
        let name = new.target.name.as_deref().unwrap_or_default();
        return Err(Error::forbidden("certificatesigningrequests.certificates.k8s.io", name, &reason));
    }
    Ok(())
}
