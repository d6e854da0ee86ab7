//! Requests for certificates: who makes them.

use homeostat_runtime::KindInfo;
use serde_json::Value;

use crate::caller::Caller;
use crate::reviews;

/// Says in a new request for a certificate who makes it, and leaves resources of other kinds as they are. A client cannot
/// say so itself.
///
/// Source: `pkg/registry/certificates/certificates/strategy.go` of Kubernetes.
pub(crate) fn set_requester(info: &KindInfo, document: &mut Value, caller: Option<&Caller>) {
    let kind = info.built_in().map(|known| (known.group.as_str(), known.name.as_str()));
    if kind != Some(("certificates.k8s.io", "CertificateSigningRequest")) {
        return;
    }
    let user = reviews::user(caller);
    let Some(spec) = document.pointer_mut("/spec").and_then(Value::as_object_mut) else { return };
    for name in ["username", "uid", "groups", "extra"] {
        spec.remove(name);
        if let Some(value) = user.get(name) {
            spec.insert(name.to_owned(), value.clone());
        }
    }
}
