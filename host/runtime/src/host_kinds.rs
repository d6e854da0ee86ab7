//! The host's own kinds: controllers, their revisions and stored declarations of kinds, which configure it,
//! hosts, and the requests that the inboxes of webhooks keep.

use homeostat_store::Kind;

/// The API group of the host's own kinds.
pub const GROUP: &str = "homeostat.dev";
/// The `apiVersion` of a controller's manifest.
pub const API_VERSION: &str = "homeostat.dev/v1alpha1";
/// The `kind` of a controller's manifest.
pub const KIND: &str = "Controller";
/// The plural of the kind in URLs.
pub const PLURAL: &str = "controllers";

/// Replaces header values wherever a controller is shown. Refused in manifests.
pub const HIDDEN: &str = "***";

/// The annotation that restarts a controller: any text; each new text is a new restart.
pub(crate) const RESTARTED: &str = "homeostat.dev/restartedAt";

/// The label of a controller that another one has created: the name of the latter. The host sets it. A person who
/// removes it makes the controller one of their own.
pub(crate) const CREATED_BY: &str = "homeostat.dev/created-by";

/// The name of the kind of revisions.
pub const REVISION_KIND: &str = "ControllerRevision";

/// The name of the kind of stored declarations.
pub(crate) const DECLARATION_KIND: &str = "KindDeclaration";

/// The name of the kind of hosts.
pub const HOST_KIND: &str = "Host";

/// The name of the kind of requests that the inbox of a webhook keeps.
pub(crate) const DELIVERY_KIND: &str = "WebhookDelivery";

/// Returns the kind of controllers.
pub(crate) fn controllers() -> Kind {
    of_host(KIND)
}

/// Returns the kind of their revisions.
pub fn revisions() -> Kind {
    of_host(REVISION_KIND)
}

fn of_host(name: &str) -> Kind {
    let (group, version) = API_VERSION.split_once('/').expect("it has a group");
    Kind::new(group, version, name)
}

/// Returns the kind of stored declarations.
pub(crate) fn declarations() -> Kind {
    of_host(DECLARATION_KIND)
}

/// Returns the kind of hosts.
pub(crate) fn hosts() -> Kind {
    of_host(HOST_KIND)
}

/// Returns the kind of requests that the inbox of a webhook keeps.
pub(crate) fn deliveries() -> Kind {
    of_host(DELIVERY_KIND)
}

/// Returns whether the host alone writes resources of a kind, in any version.
pub(crate) fn is_written_by_host_alone(kind: &Kind) -> bool {
    [declarations(), hosts(), deliveries()].iter().any(|own| kind.same_type(own))
}

/// Returns whether a kind, in any version, is reserved because it configures the host.
pub(crate) fn is_reserved(kind: &Kind) -> bool {
    [controllers(), revisions(), declarations(), deliveries()].iter().any(|own| kind.same_type(own))
}
