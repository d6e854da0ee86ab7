//! The range of the addresses of services, as the resource that clients read it from.

use homeostat_builtin::SERVICE_RANGE;
use homeostat_store::{Kind, Result};
use serde_json::json;

use crate::NamespacePolicy;
use crate::context::Context;
use crate::initial_resources::create_missing;

/// Creates the range, unless another server has its kind, or the host is to have nothing from its start
/// ([`NamespacePolicy::Any`]).
///
/// # Errors
/// Those of the store.
pub(crate) async fn create_initial(context: &Context) -> Result<()> {
    let kind = Kind::new("networking.k8s.io", "v1", "ServiceCIDR");
    let is_managed = context.kinds.has_built_in_schema(&kind) && !context.stores.is_far(&kind);
    if !is_managed || context.admission.namespaces.policy() == NamespacePolicy::Any {
        return Ok(());
    }
    let (address, length) = SERVICE_RANGE;
    let document = json!({
        "apiVersion": kind.api_version(), "kind": kind.name, "metadata": { "name": "kubernetes" },
        "spec": { "cidrs": [format!("{address}/{length}")] },
    });
    create_missing(&*context.store, document).await
}
