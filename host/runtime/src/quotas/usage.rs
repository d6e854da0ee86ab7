//! The amounts that a resource uses of a quota. Pure.

use homeostat_store::schema::Quantity;
use serde_json::Value;

use crate::amounts::{AmountMap, amounts_in, of_pod, sum};

/// The part of a name before the amount that it limits, as in `requests.cpu`.
const REQUESTS: &str = "requests.";
const HUGE_PAGES: &str = "hugepages-";
const OF_STORAGE_CLASS: &str = ".storageclass.storage.k8s.io/";
const OF_DEVICE_CLASS: &str = ".deviceclass.resource.k8s.io/devices";
const IMPLICIT_DEVICES: &str = "requests.deviceclass.resource.kubernetes.io/";
/// The devices that a request for all devices can get. Source: `AllocationResultsMaxSize` of Kubernetes.
const DEVICES_MAX: u32 = 32;

/// The amounts of pods that have quotas under their own name, as requests and as limits.
const NATIVE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// A kind whose resources quotas count.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CountedKind {
    /// The name in messages, as `deployments.apps`.
    resource: String,
    usage: Usage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Usage {
    Pod,
    Service,
    VolumeClaim,
    DeviceClaim,
    /// The number of resources, which has a second name for some kinds.
    Number(Option<&'static str>),
}

impl CountedKind {
    /// Returns how the resources of a kind are counted; `None` for events, which have no quotas.
    pub(super) fn new(group: &str, plural: &str) -> Option<Self> {
        let usage = match (group, plural) {
            ("" | "events.k8s.io", "events") => return None,
            ("", "pods") => Usage::Pod,
            ("", "services") => Usage::Service,
            ("", "persistentvolumeclaims") => Usage::VolumeClaim,
            ("resource.k8s.io", "resourceclaims") => Usage::DeviceClaim,
            ("", "configmaps") => Usage::Number(Some("configmaps")),
            ("", "resourcequotas") => Usage::Number(Some("resourcequotas")),
            ("", "replicationcontrollers") => Usage::Number(Some("replicationcontrollers")),
            ("", "secrets") => Usage::Number(Some("secrets")),
            _ => Usage::Number(None),
        };
        let resource = if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") };
        Some(Self { resource, usage })
    }

    pub(super) fn resource(&self) -> &str {
        &self.resource
    }

    pub(super) fn is_pod(&self) -> bool {
        self.usage == Usage::Pod
    }

    pub(super) fn is_volume_claim(&self) -> bool {
        self.usage == Usage::VolumeClaim
    }

    /// Returns whether a later write can count for more than the creation did.
    pub(super) fn has_updates(&self) -> bool {
        !matches!(self.usage, Usage::Number(_))
    }

    /// Returns whether a change is counted. A pod counts anew when the quotas for pods with a deadline begin or end to apply.
    pub(super) fn changes(&self, old: &Value, new: &Value) -> bool {
        !self.is_pod() || has_deadline(old) != has_deadline(new)
    }

    /// Returns whether a quota's limit of this name is for this kind.
    pub(super) fn is_limited_by(&self, name: &str) -> bool {
        if name.strip_prefix("count/") == Some(&self.resource) {
            return true;
        }
        match self.usage {
            Usage::Pod => {
                let amount = name.strip_prefix(REQUESTS).or(name.strip_prefix("limits.")).unwrap_or(name);
                let is_extended = name.starts_with(REQUESTS) && is_extended(name);
                let is_huge_pages = name.starts_with(HUGE_PAGES)
                    || name.strip_prefix(REQUESTS).is_some_and(|name| name.starts_with(HUGE_PAGES));
                name == "pods" || NATIVE.contains(&amount) || is_huge_pages || is_extended
            }
            Usage::Service => matches!(name, "services" | "services.nodeports" | "services.loadbalancers"),
            Usage::VolumeClaim => {
                let of_class = name.find(OF_STORAGE_CLASS).map(|at| &name[at + OF_STORAGE_CLASS.len()..]);
                matches!(of_class.unwrap_or(name), "persistentvolumeclaims" | "requests.storage")
            }
            Usage::DeviceClaim => name.ends_with(OF_DEVICE_CLASS),
            Usage::Number(other) => other == Some(name),
        }
    }

    /// Returns what a resource counts for.
    pub(super) fn usage(&self, document: &Value) -> AmountMap {
        let one = |name: &str| (name.to_owned(), Quantity::whole(1));
        let mut usage = AmountMap::from([one(&format!("count/{}", self.resource))]);
        match self.usage {
            Usage::Pod => usage.extend(of_running_pod(document)),
            Usage::Service => usage.extend(of_service(&document["spec"])),
            Usage::VolumeClaim => usage.extend(of_volume_claim(document)),
            Usage::DeviceClaim => usage = sum(usage, &of_device_claim(&document["spec"])),
            Usage::Number(other) => usage.extend(other.map(one)),
        }
        usage
    }
}

/// Returns whether a pod ends at a deadline: Kubernetes' scope `Terminating`.
pub(super) fn has_deadline(pod: &Value) -> bool {
    pod["spec"]["activeDeadlineSeconds"].as_i64().is_some_and(|seconds| seconds >= 0)
}

fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/") || name.starts_with(IMPLICIT_DEVICES)
}

/// Returns what a pod counts for until it has ended.
fn of_running_pod(pod: &Value) -> AmountMap {
    if matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded")) {
        return AmountMap::new();
    }
    let amounts = of_pod(&pod["spec"]);
    let overhead = amounts_in(&pod["spec"]["overhead"]);
    let requests = sum(amounts.requests, &overhead);
    let limited = overhead.into_iter().filter(|(name, _)| amounts.limits.get(name).is_some_and(|it| it.nanos() != 0));
    let limits = sum(amounts.limits.clone(), &limited.collect());
    let mut usage = of_container(&requests, &limits);
    usage.insert("pods".to_owned(), Quantity::whole(1));
    usage
}

/// Returns requests and limits under the names that they have in quotas.
pub(super) fn of_container(requests: &AmountMap, limits: &AmountMap) -> AmountMap {
    let mut usage = AmountMap::new();
    for (name, amount) in requests {
        if NATIVE.contains(&name.as_str()) || name.starts_with(HUGE_PAGES) {
            usage.insert(name.clone(), *amount);
            usage.insert(format!("{REQUESTS}{name}"), *amount);
        } else if is_extended(name) {
            usage.insert(format!("{REQUESTS}{name}"), *amount);
        }
    }
    for (name, amount) in limits.iter().filter(|(name, _)| NATIVE.contains(&name.as_str())) {
        usage.insert(format!("limits.{name}"), *amount);
    }
    usage
}

fn of_service(spec: &Value) -> AmountMap {
    let ports = spec["ports"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_of_balancer = spec["type"] == "LoadBalancer";
    let are_chosen = is_of_balancer && spec["allocateLoadBalancerNodePorts"] == false;
    let on_nodes = match spec["type"].as_str() {
        Some("NodePort" | "LoadBalancer") => {
            ports.iter().filter(|port| !are_chosen || port["nodePort"].as_u64().unwrap_or(0) != 0).count()
        }
        _ => 0,
    };
    let number = |number: usize| Quantity::whole(u32::try_from(number).unwrap_or(u32::MAX));
    AmountMap::from([
        ("services".to_owned(), number(1)),
        ("services.nodeports".to_owned(), number(on_nodes)),
        ("services.loadbalancers".to_owned(), number(usize::from(is_of_balancer))),
    ])
}

fn of_volume_claim(claim: &Value) -> AmountMap {
    let annotated = &claim["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"];
    let class = annotated.as_str().or(claim["spec"]["storageClassName"].as_str()).filter(|class| !class.is_empty());
    let storage = |resources: &Value| Quantity::of(&resources["storage"]).map(Quantity::rounded_up);
    let wanted = storage(&claim["spec"]["resources"]["requests"]);
    // The storage of a claim that is being enlarged.
    let wanted = wanted.map(|wanted| storage(&claim["status"]["allocatedResources"]).unwrap_or(wanted).max(wanted));
    let amounts = [("persistentvolumeclaims", Some(Quantity::whole(1))), ("requests.storage", wanted)];
    let mut usage = AmountMap::new();
    for (name, amount) in amounts.into_iter().filter_map(|(name, amount)| Some((name, amount?))) {
        usage.extend(class.map(|class| (format!("{class}{OF_STORAGE_CLASS}{name}"), amount)));
        usage.insert(name.to_owned(), amount);
    }
    usage
}

/// Returns the devices of each class. Of alternatives, the one with the most devices of a class counts.
fn of_device_claim(spec: &Value) -> AmountMap {
    let devices = |request: &Value| {
        let number = match request["allocationMode"].as_str() {
            Some("ExactCount") => request["count"].as_u64().and_then(|count| u32::try_from(count).ok()).unwrap_or(0),
            Some("All") => DEVICES_MAX,
            _ => 0,
        };
        let class = request["deviceClassName"].as_str().unwrap_or_default();
        (format!("{class}{OF_DEVICE_CLASS}"), Quantity::whole(number))
    };
    let mut usage = AmountMap::new();
    for request in spec["devices"]["requests"].as_array().into_iter().flatten() {
        let mut most = AmountMap::new();
        let alternatives = request["firstAvailable"].as_array().map(Vec::as_slice).unwrap_or_default();
        let exactly = request.get("exactly").filter(|_| alternatives.is_empty());
        for (name, number) in alternatives.iter().chain(exactly).map(devices) {
            most.entry(name).and_modify(|known| *known = number.max(*known)).or_insert(number);
        }
        usage = sum(usage, &most);
    }
    usage
}
