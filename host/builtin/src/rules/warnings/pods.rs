//! Warnings about pods and the templates of pods.

mod paths;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::addresses::{address_warning, of_addresses};
use super::storage::of_claim_spec;
use super::{fraction_warning, name_warning, nodes};
use crate::rules::pods::{APP_ARMOR_PREFIX, CONTAINERS, SECCOMP_POD, SECCOMP_PREFIX, app_armor_profile};
use crate::rules::report::{items, text};

/// Annotations that have no effect, with the version that removed them and the field that took their place.
const REMOVED_ANNOTATIONS: [(&str, &str, &str); 3] = [
    ("scheduler.alpha.kubernetes.io/critical-pod", "v1.16", "priorityClassName"),
    ("security.alpha.kubernetes.io/sysctls", "v1.11", "sysctls"),
    ("security.alpha.kubernetes.io/unsafe-sysctls", "v1.11", "sysctls"),
];

/// Sources of volumes that no longer work, with the words of their warnings. That of claims stands between them.
const REMOVED_SOURCES: [(&str, &str); 9] = [
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];
/// Number of the sources above that come before that of claims.
const BEFORE_CLAIMS: usize = 7;

const SECCOMP_ADVICE: &str = "non-functional in v1.27+; use the \"seccompProfile\" field instead";
const APP_ARMOR_ADVICE: &str = "deprecated since v1.30; use the \"appArmorProfile\" field instead";
const SELECTS_NOTHING: &str = "a null labelSelector results in matching no pod";

/// Returns the warnings of a new pod.
pub(super) fn of_pod(pod: &Value) -> Vec<String> {
    let name = name_warning(&pod["metadata"]["name"], "the Pod's hostname");
    name.into_iter().chain(of_template(pod, "")).collect()
}

/// Returns the warnings of a template of pods. The path of a pod is empty.
pub(super) fn of_template(template: &Value, path: &str) -> Vec<String> {
    let prefix = if path.is_empty() { String::new() } else { format!("{path}.") };
    let pod = PodTemplate {
        spec: &template["spec"],
        annotations: &template["metadata"]["annotations"],
        is_pod: path.is_empty(),
        spec_path: format!("{prefix}spec"),
        annotations_path: format!("{prefix}metadata.annotations"),
    };
    pod.warnings()
}

/// A pod, or a template of pods.
struct PodTemplate<'t> {
    spec: &'t Value,
    annotations: &'t Value,
    is_pod: bool,
    spec_path: String,
    annotations_path: String,
}

impl<'t> PodTemplate<'t> {
    /// Returns the warnings of all parts, up to a bound.
    fn warnings(&self) -> Vec<String> {
        let mut found = self.node_warnings();
        found.extend(self.annotation_warnings());
        found.extend(self.volume_warnings());
        found.extend(paths::of_volumes(&self.spec["volumes"]));
        found.extend(self.repeated("hostAliases", "ip"));
        found.extend(self.repeated("imagePullSecrets", "name"));
        found.extend(self.nameless_secrets());
        for name in ["memory", "ephemeral-storage"] {
            found.extend(fraction_warning(&self.spec["overhead"][name], &self.path(&format!("overhead[{name}]"))));
        }
        if self.spec["securityContext"]["seccompProfile"].is_null() {
            found.extend(self.annotation_warning(SECCOMP_POD, SECCOMP_ADVICE));
        }
        for (path, container) in self.containers() {
            found.extend(self.container_warnings(container, &path));
        }
        found.extend(self.port_warnings());
        found.extend(self.port_name_warnings());
        if self.spec["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0) {
            let advice = "must be >= 0; negative values are invalid and will be treated as 1";
            found.push(format!("{}: {advice}", self.path("terminationGracePeriodSeconds")));
        }
        found.extend(self.affinity_warnings());
        found.extend(of_addresses(&self.spec["dnsConfig"]["nameservers"], &self.path("dnsConfig.nameservers")));
        for (at, alias) in items(&self.spec["hostAliases"]).iter().enumerate() {
            found.extend(address_warning(&alias["ip"], &self.path(&format!("hostAliases[{at}].ip"))));
        }
        found.truncate(WARNINGS_MAX);
        found
    }

    /// Returns the path of a part of the specification.
    fn path(&self, part: &str) -> String {
        format!("{}.{part}", self.spec_path)
    }

    /// Returns all containers with their paths, in the order in which they start.
    fn containers(&self) -> impl Iterator<Item = (String, &'t Value)> {
        CONTAINERS.into_iter().flat_map(move |name| {
            let containers = items(&self.spec[name]).iter().enumerate();
            containers.map(move |(at, container)| (self.path(&format!("{name}[{at}]")), container))
        })
    }

    fn annotation_warning(&self, name: &str, advice: &str) -> Option<String> {
        (!self.annotations[name].is_null()).then(|| format!("{}[{name}]: {advice}", self.annotations_path))
    }

    /// Returns the warnings of the selectors of nodes, and of the constraints that spread pods over them.
    fn node_warnings(&self) -> Vec<String> {
        let of_labels = nodes::deprecated_labels(&self.spec["nodeSelector"]);
        let mut found: Vec<String> =
            of_labels.map(|(label, why)| format!("{}: {why}", self.path(&format!("nodeSelector[{label}]")))).collect();
        let affinity = &self.spec["affinity"]["nodeAffinity"];
        let path = self.path("affinity.nodeAffinity");
        let required = &affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
        for (at, term) in items(required).iter().enumerate() {
            let path = format!("{path}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[{at}]");
            found.extend(nodes::of_term(term, false, &path));
        }
        let preferred = &affinity["preferredDuringSchedulingIgnoredDuringExecution"];
        for (at, term) in items(preferred).iter().enumerate() {
            let path = format!("{path}.preferredDuringSchedulingIgnoredDuringExecution[{at}].preference");
            found.extend(nodes::of_term(&term["preference"], true, &path));
        }
        for (at, constraint) in items(&self.spec["topologySpreadConstraints"]).iter().enumerate() {
            let (key, path) =
                (text(&constraint["topologyKey"]), self.path(&format!("topologySpreadConstraints[{at}]")));
            found.extend(nodes::deprecation(key).map(|why| format!("{path}.topologyKey: {key} is {why}")));
            found.extend(selector_warning(constraint, &path));
        }
        found
    }

    fn annotation_warnings(&self) -> Vec<String> {
        let advice = |version, field| format!("non-functional in {version}+; use the {field:?} field instead");
        let warning = |(name, version, field)| self.annotation_warning(name, &advice(version, field));
        REMOVED_ANNOTATIONS.into_iter().filter_map(warning).collect()
    }

    fn volume_warnings(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (at, volume) in items(&self.spec["volumes"]).iter().enumerate() {
            let path = self.path(&format!("volumes[{at}]"));
            let removed = |sources: &[(&str, &str)]| -> Vec<String> {
                let used = sources.iter().filter(|(name, _)| volume[*name].is_object());
                used.map(|(name, advice)| format!("{path}.{name}: {advice}")).collect()
            };
            let (before, after) = REMOVED_SOURCES.split_at(BEFORE_CLAIMS);
            found.extend(removed(before));
            let claim = &volume["ephemeral"]["volumeClaimTemplate"]["spec"];
            found.extend(of_claim_spec(claim, &format!("{path}.ephemeral.volumeClaimTemplate.spec")));
            found.extend(removed(after));
        }
        found
    }

    /// Returns a warning for each item of a list that has the same value in a field as one before it.
    fn repeated(&self, list: &str, field: &str) -> Vec<String> {
        let mut known = BTreeSet::new();
        let values = items(&self.spec[list]).iter().map(|item| text(&item[field])).enumerate();
        let repeated = values.filter(|(_, value)| !known.insert(*value)).take(WARNINGS_MAX);
        repeated
            .map(|(at, value)| format!("{}: duplicate {field} {value:?}", self.path(&format!("{list}[{at}].{field}"))))
            .collect()
    }

    fn nameless_secrets(&self) -> Vec<String> {
        let secrets = items(&self.spec["imagePullSecrets"]).iter().enumerate();
        let nameless = secrets.filter(|(_, secret)| text(&secret["name"]).is_empty()).take(WARNINGS_MAX);
        let path = |at| self.path(&format!("imagePullSecrets[{at}].name"));
        nameless.map(|(at, _)| format!("{}: invalid empty name \"\"", path(at))).collect()
    }

    fn container_warnings(&self, container: &Value, path: &str) -> Vec<String> {
        let (name, context) = (text(&container["name"]), &container["securityContext"]);
        let mut found = Vec::new();
        if context["seccompProfile"].is_null() {
            found.extend(self.annotation_warning(&format!("{SECCOMP_PREFIX}{name}"), SECCOMP_ADVICE));
        }
        let key = format!("{APP_ARMOR_PREFIX}{name}");
        // An API server gives a new pod the field, and warns before.
        if !self.is_pod && context["appArmorProfile"].is_null() && !self.says_the_same(&self.annotations[&key]) {
            found.extend(self.annotation_warning(&key, APP_ARMOR_ADVICE));
        }
        for name in ["memory", "ephemeral-storage"] {
            for part in ["limits", "requests"] {
                let path = format!("{path}.resources.{part}[{name}]");
                found.extend(fraction_warning(&container["resources"][part][name], &path));
            }
        }
        found.extend(variable_warnings(&container["env"], path));
        found
    }

    /// Returns whether the pod has the profile that an annotation of a container names.
    fn says_the_same(&self, annotation: &Value) -> bool {
        let profile = &self.spec["securityContext"]["appArmorProfile"];
        app_armor_profile(text(annotation)).is_some_and(|named| named == *profile)
    }

    /// Returns a warning for each port that is the same as one before it, or overlaps one.
    fn port_warnings(&self) -> Vec<String> {
        let (mut found, mut known) = (Vec::new(), BTreeMap::<_, Vec<(String, &Value)>>::new());
        for (path, container) in self.containers() {
            for (at, port) in items(&container["ports"]).iter().enumerate() {
                let path = format!("{path}.ports[{at}]");
                if !text(&port["hostIP"]).is_empty() && host_port(port) == 0 {
                    found.push(format!("{path}: hostIP set without hostPort: {}", shown_port(port)));
                }
                let others = known.entry((port["containerPort"].as_i64(), text(&port["protocol"]))).or_default();
                found.extend(others.iter().filter_map(|(other_path, other)| {
                    overlap(port, other).map(|how| format!("{path}: {how} port definition with {other_path}"))
                }));
                if others.len() < OTHERS_MAX {
                    others.push((path, port));
                }
                if found.len() >= WARNINGS_MAX {
                    return found;
                }
            }
        }
        found
    }

    fn port_name_warnings(&self) -> Vec<String> {
        let (mut found, mut known) = (Vec::new(), BTreeMap::new());
        for (path, container) in self.containers() {
            for (at, port) in items(&container["ports"]).iter().enumerate() {
                let (name, path) = (text(&port["name"]), format!("{path}.ports[{at}]"));
                if name.is_empty() {
                    continue;
                }
                match known.get(name) {
                    None => drop(known.insert(name, path)),
                    Some(other) => found.push(format!(
                        "{path}: duplicate port name {name:?} with {other}, services and probes that select ports by name will use {other}"
                    )),
                }
            }
        }
        found
    }

    fn affinity_warnings(&self) -> Vec<String> {
        let mut found = Vec::new();
        for name in ["podAffinity", "podAntiAffinity"] {
            let (affinity, path) = (&self.spec["affinity"][name], self.path(&format!("affinity.{name}")));
            let required = "requiredDuringSchedulingIgnoredDuringExecution";
            for (at, term) in items(&affinity[required]).iter().enumerate() {
                found.extend(selector_warning(term, &format!("{path}.{required}[{at}]")));
            }
            let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
            for (at, term) in items(&affinity[preferred]).iter().enumerate() {
                let path = format!("{path}.{preferred}[{at}].podAffinityTerm");
                found.extend(selector_warning(&term["podAffinityTerm"], &path));
            }
        }
        found
    }
}

/// Ports of one number that a later port is compared with.
const OTHERS_MAX: usize = 64;
/// Warnings of a pod, and of each part of it that can have many. A response has fewer.
const WARNINGS_MAX: usize = 512;

/// Returns a warning for a term without a selector of pods.
fn selector_warning(term: &Value, path: &str) -> Option<String> {
    term["labelSelector"].is_null().then(|| format!("{path}.labelSelector: {SELECTS_NOTHING}"))
}

/// Returns a warning for each variable that hides one before it.
fn variable_warnings(variables: &Value, path: &str) -> Vec<String> {
    let (mut found, mut known) = (Vec::new(), BTreeSet::new());
    for (at, variable) in items(variables).iter().enumerate() {
        let (name, value) = (text(&variable["name"]), text(&variable["value"]));
        if known.insert(name) {
            continue;
        }
        let reference = format!("$({name})");
        // A value that extends the former one does not hide it.
        if variable["valueFrom"].is_object() || value == reference || !value.contains(&reference) {
            found.push(format!(
                "{path}.env[{at}]: hides previous definition of {name:?}, which may be dropped when using apply"
            ));
        }
    }
    found
}

/// Returns how two ports with the same number and protocol disagree.
fn overlap(port: &Value, other: &Value) -> Option<&'static str> {
    let [(host, address), (other_host, other_address)] =
        [port, other].map(|port| (host_port(port), text(&port["hostIP"])));
    if (host, address) == (other_host, other_address) {
        return Some("duplicate");
    }
    if host == 0 || other_host == 0 {
        return Some("overlapping");
    }
    (host == other_host && address.is_empty() != other_address.is_empty()).then_some("dangerously ambiguous")
}

/// Returns the port of the host; zero for none.
fn host_port(port: &Value) -> i64 {
    port["hostPort"].as_i64().unwrap_or_default()
}

/// Returns a port as Go prints it.
fn shown_port(port: &Value) -> String {
    let (number, name) = (port["containerPort"].as_i64().unwrap_or_default(), text(&port["name"]));
    let (protocol, address) = (text(&port["protocol"]), text(&port["hostIP"]));
    format!("{{Name:{name} HostPort:{} ContainerPort:{number} Protocol:{protocol} HostIP:{address}}}", host_port(port))
}
