//! Warnings about volumes, their claims, and drivers.

use serde_json::Value;

use super::{fraction_warning, nodes};
use crate::rules::report::{items, text};

const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
const BETA_OPTIONS: &str = "volume.beta.kubernetes.io/mount-options";
const CLASS_ADVICE: &str = "deprecated since v1.8; use \"storageClassName\" attribute instead";
const OPTIONS_ADVICE: &str = "deprecated since v1.31; use \"mountOptions\" attribute instead";

/// Sources of persistent volumes that no longer work, with the versions that deprecated and removed them.
const REMOVED: [(&str, &str, &str); 6] = [
    ("cephfs", "v1.28", "v1.31"),
    ("photonPersistentDisk", "v1.11", "v1.16"),
    ("scaleIO", "v1.16", "v1.22"),
    ("storageOS", "v1.22", "v1.25"),
    ("glusterfs", "v1.25", "v1.26"),
    ("rbd", "v1.28", "v1.31"),
];

/// Returns the warnings of a persistent volume.
pub(super) fn of_volume(volume: &Value) -> Vec<String> {
    let (spec, annotations) = (&volume["spec"], &volume["metadata"]["annotations"]);
    let mut found = Vec::new();
    for (name, advice) in [(BETA_CLASS, CLASS_ADVICE), (BETA_OPTIONS, OPTIONS_ADVICE)] {
        if !annotations[name].is_null() {
            found.push(format!("metadata.annotations[{name}]: {advice}"));
        }
    }
    if spec["persistentVolumeReclaimPolicy"] == "Recycle" {
        let advice = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic \
            provisioning.";
        found.push(format!("spec.persistentVolumeReclaimPolicy: {advice}"));
    }
    for (at, term) in items(&spec["nodeAffinity"]["required"]["nodeSelectorTerms"]).iter().enumerate() {
        found.extend(nodes::of_term(term, false, &format!("spec.nodeAffinity.required.nodeSelectorTerms[{at}]")));
    }
    for (name, deprecated, removed) in REMOVED.into_iter().filter(|(name, ..)| spec[*name].is_object()) {
        found.push(format!("spec.{name}: deprecated in {deprecated}, non-functional in {removed}+"));
    }
    found
}

/// Returns the warnings of a claim of a volume.
pub(super) fn of_claim(claim: &Value) -> Vec<String> {
    let has_beta_class = !claim["metadata"]["annotations"][BETA_CLASS].is_null();
    let found = has_beta_class.then(|| format!("metadata.annotations[{BETA_CLASS}]: {CLASS_ADVICE}"));
    found.into_iter().chain(of_claim_spec(&claim["spec"], "spec")).collect()
}

/// Returns the warnings of the specification of a claim.
pub(super) fn of_claim_spec(spec: &Value, path: &str) -> Vec<String> {
    let of = |part: &str| {
        fraction_warning(&spec["resources"][part]["storage"], &format!("{path}.resources.{part}[storage]"))
    };
    ["requests", "limits"].into_iter().filter_map(of).collect()
}

/// Returns the warnings of a storage class.
pub(super) fn of_class(class: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for (at, topology) in items(&class["allowedTopologies"]).iter().enumerate() {
        for (index, requirement) in items(&topology["matchLabelExpressions"]).iter().enumerate() {
            let path = format!("allowedTopologies[{at}].matchLabelExpressions[{index}].key");
            found.extend(nodes::deprecation(text(&requirement["key"])).map(|reason| format!("{path}: {reason}")));
        }
    }
    found
}

/// Returns the warning of a driver that wants tokens of service accounts, and does not say where.
pub(super) fn of_driver(spec: &Value, old: Option<&Value>) -> Vec<String> {
    let requests = &spec["tokenRequests"];
    let is_same = old.is_some_and(|old| old["spec"]["tokenRequests"] == *requests);
    if is_same || items(requests).is_empty() || !spec["serviceAccountTokenInSecrets"].is_null() {
        return Vec::new();
    }
    let advice =
        "if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes";
    vec![format!("spec.serviceAccountTokenInSecrets is unset; {advice}")]
}

/// Returns the warning of a driver of devices whose name has capital letters.
pub(super) fn of_device_driver(driver: &Value) -> Vec<String> {
    let has_capitals = text(driver).to_lowercase() != text(driver);
    let warning =
        format!("spec.driver: driver names should be lowercase; {:?} contains uppercase characters", text(driver));
    has_capitals.then_some(warning).into_iter().collect()
}
