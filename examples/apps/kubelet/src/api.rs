//! The part of `v1` Pods that a node reads or writes.

use homeostat_sdk::prelude::*;

/// `spec` of a Pod. Only read.
#[derive(Debug, Clone, Default, Resource, Serialize, Deserialize)]
#[resource(group = "", version = "v1", status = PodStatus, schema = "disabled")]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Pod {
    /// Empty for a pod that no scheduler has given a node.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) node_name: String,
    pub(crate) restart_policy: RestartPolicy,
    pub(crate) containers: Vec<Container>,
}

/// Says whether the node starts a container again that has ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RestartPolicy {
    #[default]
    Always,
    OnFailure,
    Never,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Container {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) image: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodStatus {
    pub(crate) phase: Phase,
    /// The time when the node first saw the pod with its current images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) start_time: Option<Time>,
    pub(crate) conditions: Conditions,
    pub(crate) container_statuses: Vec<ContainerStatus>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Phase {
    #[default]
    Pending,
    Running,
    Succeeded,
    Failed,
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ContainerStatus {
    pub(crate) name: String,
    pub(crate) image: String,
    /// The pulled image; empty before the pull. Clients require the field.
    #[serde(rename = "imageID", default)]
    pub(crate) image_id: String,
    pub(crate) ready: bool,
    pub(crate) started: bool,
    pub(crate) restart_count: u32,
    pub(crate) state: State,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum State {
    Waiting {
        reason: String,
        /// A server of Kubernetes leaves it out if it is empty.
        #[serde(default)]
        message: String,
    },
    #[serde(rename_all = "camelCase")]
    Running { started_at: Time },
    #[serde(rename_all = "camelCase")]
    Terminated {
        exit_code: i32,
        /// Others may leave out these.
        #[serde(default)]
        reason: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        started_at: Option<Time>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        finished_at: Option<Time>,
    },
}
