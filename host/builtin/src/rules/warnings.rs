//! Warnings about valid resources, in the words of Kubernetes: fields that are deprecated, have no effect, or hide each other.
//!
//! Source: `WarningsOnCreate` and `WarningsOnUpdate` in `pkg/registry/*/strategy.go`, and `pkg/api` of Kubernetes.

mod addresses;
mod nodes;
mod pods;
mod storage;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use homeostat_cel::names::DNS_1123_LABEL;
use homeostat_store::schema::quantity_in_nanos;
use homeostat_store::{Resource, Subresource};
use serde_json::Value;

use super::amounts::NANOS;
use super::report::{items, text};
use crate::BuiltInKind;

/// Returns what a client should know of a resource that it has written. `old` is the resource before, and `part` the subresource
/// that the write was about. The documents of kinds without warnings are not parsed.
pub fn warnings(
    kind: &BuiltInKind,
    resource: &Resource,
    old: Option<&Resource>,
    part: Option<Subresource>,
) -> Vec<String> {
    let written = WrittenResource { resource, old };
    match part {
        None => written.warnings((&kind.group, &kind.name)),
        Some(Subresource::Status) => written.status_warnings((&kind.group, &kind.name)),
        Some(_) => Vec::new(),
    }
}

/// A resource that a client has written.
struct WrittenResource<'w> {
    resource: &'w Resource,
    /// The resource before; `None` for a new one.
    old: Option<&'w Resource>,
}

impl<'w> WrittenResource<'w> {
    fn warnings(&self, kind: (&str, &str)) -> Vec<String> {
        match kind {
            ("", "Pod") if self.old.is_none() => pods::of_pod(self.document()),
            ("" | "apps" | "batch", "ReplicationController" | "DaemonSet" | "Deployment" | "ReplicaSet" | "Job") => {
                let found = self.name_warning(kind.1 != "DaemonSet");
                found.into_iter().chain(self.template_warnings(kind.1, "spec")).collect()
            }
            ("batch", "CronJob") => self.schedule_warnings(),
            ("apps", "StatefulSet") => self.stateful_set_warnings(),
            ("", "PodTemplate") if self.is_respecified() => pods::of_template(self.at("/template"), "template"),
            ("", "Service") => addresses::of_service(self.document()),
            ("", "Endpoints") => addresses::of_endpoints(self.document()),
            ("discovery.k8s.io", "EndpointSlice") => addresses::of_slice(self.document(), self.old.is_none()),
            ("networking.k8s.io", "NetworkPolicy") => addresses::of_network_policy(self.at("/spec")),
            ("networking.k8s.io", "Ingress") => self.ingress_warnings(),
            ("", "Node") => nodes::of_node(self.at("/spec")),
            ("node.k8s.io", "RuntimeClass") => nodes::of_runtime_class(self.document()),
            ("", "PersistentVolume") => storage::of_volume(self.document()),
            ("", "PersistentVolumeClaim") => storage::of_claim(self.document()),
            ("storage.k8s.io", "StorageClass") => storage::of_class(self.document()),
            ("storage.k8s.io", "CSIStorageCapacity") => nodes::of_selector(self.at("/nodeTopology"), "nodeTopology"),
            ("storage.k8s.io", "CSIDriver") => storage::of_driver(self.at("/spec"), self.old.map(Resource::document)),
            ("resource.k8s.io", "ResourceSlice") => storage::of_device_driver(self.at("/spec/driver")),
            ("", "ResourceQuota") if self.old.is_none() => quota_warnings(self.at("/spec/hard")),
            ("", "Secret") => secret_warnings(self.document()),
            ("", "ServiceAccount") => self.account_warnings(),
            ("admissionregistration.k8s.io", _) => self.reserved_name_warnings(),
            _ => Vec::new(),
        }
    }

    fn status_warnings(&self, kind: (&str, &str)) -> Vec<String> {
        match kind {
            ("", "Service") | ("networking.k8s.io", "Ingress") => {
                let path = |at| format!("status.loadBalancer.ingress[{at}]");
                addresses::of_list(self.at("/status/loadBalancer/ingress"), "ip", path)
            }
            ("", "Pod") => {
                let of = |name: &str| {
                    let path = |at| format!("status.{name}[{at}].ip");
                    addresses::of_list(self.at(&format!("/status/{name}")), "ip", path)
                };
                [of("podIPs"), of("hostIPs")].concat()
            }
            _ => Vec::new(),
        }
    }

    fn document(&self) -> &'w Value {
        self.resource.document()
    }

    fn at(&self, pointer: &str) -> &'w Value {
        self.document().pointer(pointer).unwrap_or(&Value::Null)
    }

    fn annotations(&self) -> &'w Value {
        self.at("/metadata/annotations")
    }

    /// Returns whether the write has changed more than metadata and status.
    fn is_respecified(&self) -> bool {
        self.old.is_none_or(|old| old.generation() != self.resource.generation())
    }

    /// Returns a warning for the name of a new resource that becomes part of the names of its pods.
    fn name_warning(&self, is_in_names: bool) -> Option<String> {
        name_warning(self.at("/metadata/name"), "Pod names and hostnames").filter(|_| is_in_names && self.old.is_none())
    }

    /// Returns the warnings of the pods that a resource makes. `path` is that of the object with the template.
    fn template_warnings(&self, kind: &str, path: &str) -> Vec<String> {
        // The strategy of daemon sets compares a counter of templates, and the others the generation.
        if !self.is_respecified() || (kind == "DaemonSet" && self.has_same_template()) {
            return Vec::new();
        }
        let owner = self.at(&format!("/{}", path.replace('.', "/")));
        let found = (kind == "Job").then(|| job_warning(owner, path)).flatten();
        // Source: the strategy of replication controllers confuses the old template and the new one.
        let template = match self.old.filter(|_| kind == "ReplicationController") {
            Some(old) => &old.document()["spec"]["template"],
            None => &owner["template"],
        };
        found.into_iter().chain(pods::of_template(template, &format!("{path}.template"))).collect()
    }

    fn has_same_template(&self) -> bool {
        self.old.is_some_and(|old| old.document()["spec"]["template"] == *self.at("/spec/template"))
    }

    fn schedule_warnings(&self) -> Vec<String> {
        let mut found: Vec<String> = self.name_warning(true).into_iter().collect();
        found.extend(self.template_warnings("Job", "spec.jobTemplate.spec"));
        if self.old.is_some() && text(self.at("/spec/schedule")).contains("TZ") {
            found.push(
                "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see \
                 https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
                    .to_owned(),
            );
        }
        found
    }

    fn stateful_set_warnings(&self) -> Vec<String> {
        let mut found = self.template_warnings("StatefulSet", "spec");
        // As there, the path leaves out a part, or writes it in another way.
        let part = if self.old.is_some() { ".Spec" } else { "" };
        for (at, claim) in items(self.at("/spec/volumeClaimTemplates")).iter().enumerate() {
            found.extend(storage::of_claim_spec(&claim["spec"], &format!("spec.volumeClaimTemplates[{at}]{part}")));
        }
        if self.at("/spec/revisionHistoryLimit").as_i64().is_some_and(|limit| limit < 0) {
            found.push(
                "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
                    .to_owned(),
            );
        }
        found
    }

    fn ingress_warnings(&self) -> Vec<String> {
        const CLASS: &str = "kubernetes.io/ingress.class";
        let is_named_twice = !self.at("/spec/ingressClassName").is_null();
        if self.old.is_some() || is_named_twice || self.annotations()[CLASS].is_null() {
            return Vec::new();
        }
        vec![format!("annotation {CLASS:?} is deprecated, please use 'spec.ingressClassName' instead")]
    }

    /// Returns a warning for a name that an API server reserves for configurations in its files.
    fn reserved_name_warnings(&self) -> Vec<String> {
        const SUFFIX: &str = ".static.k8s.io";
        let is_reserved = text(self.at("/metadata/name")).ends_with(SUFFIX);
        let reason = "are reserved for static manifest-based configurations and cannot be managed via the API";
        is_reserved.then(|| format!("metadata.name: names ending with {SUFFIX:?} {reason}")).into_iter().collect()
    }

    fn account_warnings(&self) -> Vec<String> {
        const ENFORCES: &str = "kubernetes.io/enforce-mountable-secrets";
        let enforces = |account: &Resource| !account.document()["metadata"]["annotations"][ENFORCES].is_null();
        if self.old.is_some_and(enforces) || !enforces(self.resource) {
            return Vec::new();
        }
        let advice = "prefer separate namespaces to isolate access to mounted secrets";
        vec![format!("metadata.annotations[{ENFORCES}]: deprecated in v1.32+; {advice}")]
    }
}

/// Returns a warning for a name that is no label of DNS, and becomes part of `names`.
fn name_warning(name: &Value, names: &str) -> Option<String> {
    let faults = DNS_1123_LABEL.faults(text(name));
    (!faults.is_empty()).then(|| {
        format!(
            "metadata.name: this is used in {names}, which can result in surprising behavior; a DNS label is recommended: [{}]",
            faults.join(" ")
        )
    })
}

/// Returns a warning for a job whose failures are too many to be kept.
fn job_warning(spec: &Value, path: &str) -> Option<String> {
    const COMPLETIONS_MAX: i64 = 100_000;
    const PARALLELISM_MAX: i64 = 10_000;
    let exceeds = |name: &str, max: i64| spec[name].as_i64().is_some_and(|number| number > max);
    let is_large = exceeds("completions", COMPLETIONS_MAX) && exceeds("parallelism", PARALLELISM_MAX);
    (spec["completionMode"] == "Indexed" && is_large).then(|| {
        format!(
            "{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, \
             Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
        )
    })
}

/// Returns a warning for an amount of bytes that is no whole number.
fn fraction_warning(amount: &Value, path: &str) -> Option<String> {
    let nanos = quantity_in_nanos(amount)?;
    let is_fraction = nanos % NANOS != 0;
    is_fraction.then(|| format!("{path}: fractional byte value {amount} is invalid, must be an integer"))
}

/// Returns a warning for each amount of which a quota allows more to be requested than to be used.
fn quota_warnings(hard: &Value) -> Vec<String> {
    let of = |resource: &str| {
        let (requests, limits) = (format!("requests.{resource}"), format!("limits.{resource}"));
        let is_short = matches!(resource, "cpu" | "memory") && hard[&requests].is_null();
        let requests = if is_short { resource.to_owned() } else { requests };
        let [request, limit] = [&hard[&requests], &hard[&limits]];
        let exceeds = quantity_in_nanos(request)? > quantity_in_nanos(limit)?;
        exceeds.then(|| {
            format!("ResourceQuota {requests} ({}) should be less than {limits} ({})", text(request), text(limit))
        })
    };
    ["cpu", "memory", "storage", "ephemeral-storage"].into_iter().filter_map(of).collect()
}

/// Returns a warning for a certificate or a key in which no PEM is. That they fit each other is not checked.
fn secret_warnings(secret: &Value) -> Vec<String> {
    if secret["type"] != "kubernetes.io/tls" {
        return Vec::new();
    }
    let has_pem = |name: &str| {
        let data = STANDARD.decode(text(&secret["data"][name])).unwrap_or_default();
        data.windows(b"-----BEGIN ".len()).any(|window| window == b"-----BEGIN ")
    };
    let lacking = match (has_pem("tls.crt"), has_pem("tls.key")) {
        (false, _) => "certificate",
        (true, false) => "key",
        (true, true) => return Vec::new(),
    };
    vec![format!("tls: failed to find any PEM data in {lacking} input")]
}

#[cfg(test)]
mod tests;
