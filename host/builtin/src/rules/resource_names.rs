//! The names of the resources that containers use and quotas bound.
//!
//! Source: `pkg/apis/core/helper/helpers.go` of Kubernetes.

use homeostat_cel::names::qualified_faults;

use super::report::Report;

/// Resources of a container, besides huge pages and those with a domain in their name.
const OF_CONTAINERS: [&str; 3] = ["cpu", "ephemeral-storage", "memory"];
/// Resources that have no domain in their name, besides those that are counted.
const STANDARD: [&str; 11] = [
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
    "storage",
];
/// Resources that are counted.
const COUNTED: [&str; 9] = [
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];
pub(super) const HUGE_PAGES: &str = "hugepages-";
const REQUESTS: &str = "requests.";

/// Checks the name of a resource: one without a domain is known.
pub(super) fn check(report: &mut Report<'_>, name: &str, path: &str) {
    let faults = qualified_faults(name);
    if faults.is_empty() && !name.contains('/') && !is_standard(name) {
        report.invalid(path, &name.into(), "must be a standard resource type or fully qualified");
    }
    report.faults(path, &name.into(), faults);
}

/// Checks the name of a resource that a container may ask for.
pub(super) fn check_container_resource(report: &mut Report<'_>, name: &str, path: &str) {
    check(report, name, path);
    if !name.contains('/') && !OF_CONTAINERS.contains(&name) && !name.starts_with(HUGE_PAGES) {
        report.invalid(path, &name.into(), "must be a standard resource for containers");
    } else if !is_native(name) && !is_extended(name) {
        report.invalid(path, &name.into(), "doesn't follow extended resource name standard");
    }
}

/// Returns whether a name without a domain is that of a resource.
fn is_standard(name: &str) -> bool {
    let is_huge_pages = name.strip_prefix(REQUESTS).unwrap_or(name).starts_with(HUGE_PAGES);
    is_huge_pages || STANDARD.contains(&name) || COUNTED.contains(&name)
}

/// Returns whether a name without a domain is that of a resource that a quota can bound.
pub(super) fn is_of_quota(name: &str) -> bool {
    is_standard(name) && name != "storage"
}

/// Returns whether a resource is one of Kubernetes.
pub(super) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Returns whether a resource is one of a device plug-in.
pub(super) fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with(REQUESTS) && qualified_faults(&format!("{REQUESTS}{name}")).is_empty()
}

/// Returns whether the amounts of a resource are whole numbers.
pub(super) fn is_counted(name: &str) -> bool {
    COUNTED.contains(&name) || is_extended(name)
}
