//! The range of the addresses of services, as the resource that clients read it from.

use homeostat_store::{Error, Kind, Result, Write};
use serde_json::json;

use crate::NamespacePolicy;
use crate::context::Context;

/// The range that the rules of services take addresses from.
const RANGE: &str = "10.96.0.0/12";

/// Creates the range, unless another server has its kind, or the host is to have nothing from its start
/// ([`NamespacePolicy::Any`]).
///
/// # Errors
/// Those of the store.
pub(crate) async fn create_initial(context: &Context) -> Result<()> {
    let kind = Kind::new("networking.k8s.io", "v1", "ServiceCIDR");
    let is_managed = context.kinds.has_built_in_schema(&kind) && !context.stores.is_far(&kind);
    if !is_managed || context.namespaces.policy() == NamespacePolicy::Any {
        return Ok(());
    }
    let document = json!({
        "apiVersion": kind.api_version(), "kind": kind.name, "metadata": { "name": "kubernetes" },
        "spec": { "cidrs": [RANGE] },
    });
    match context.store.write(Write::Create { document }).await {
        Ok(_) | Err(Error::AlreadyExists { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}
