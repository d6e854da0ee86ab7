//! `apps/v1` ReplicaSets, and the part of Pods that their controller reads or writes.

use homeostat_sdk::LabelSelector;
use homeostat_sdk::prelude::*;
use serde_json::Value;

/// `spec` of a ReplicaSet. Only read.
#[derive(Debug, Clone, Resource, Serialize, Deserialize)]
#[resource(group = "apps", version = "v1", status = ReplicaSetStatus, schema = "disabled")]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReplicaSet {
    #[serde(default = "one")]
    pub(crate) replicas: u32,
    #[serde(default)]
    pub(crate) min_ready_seconds: u32,
    pub(crate) selector: LabelSelector,
    #[serde(default)]
    pub(crate) template: Template,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Template {
    pub(crate) metadata: Metadata,
    pub(crate) spec: Value,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ReplicaSetStatus {
    pub(crate) observed_generation: u64,
    pub(crate) replicas: u32,
    /// Pods that have all labels of the template.
    pub(crate) fully_labeled_replicas: u32,
    pub(crate) ready_replicas: u32,
    pub(crate) available_replicas: u32,
    /// Pods that are being deleted. They are not among `replicas`.
    pub(crate) terminating_replicas: u32,
}

/// `spec` of a Pod, copied from the template.
#[derive(Debug, Clone, Resource, Serialize, Deserialize)]
#[resource(group = "", version = "v1", status = PodStatus, schema = "disabled")]
#[serde(transparent)]
pub(crate) struct Pod(pub(crate) Value);

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodStatus {
    pub(crate) phase: String,
    pub(crate) conditions: Conditions,
}

fn one() -> u32 {
    1
}
