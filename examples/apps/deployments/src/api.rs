//! The part of `apps/v1` that a Deployment's controller reads or writes.

use homeostat_sdk::LabelSelector;
use homeostat_sdk::prelude::*;
use serde_json::Value;

/// `spec` of a Deployment. Only read.
#[derive(Debug, Clone, Resource, Serialize, Deserialize)]
#[resource(group = "apps", version = "v1", status = DeploymentStatus, schema = "disabled")]
#[serde(rename_all = "camelCase")]
pub(crate) struct Deployment {
    #[serde(default = "one")]
    pub(crate) replicas: u32,
    pub(crate) selector: LabelSelector,
    /// The controller reads only its labels.
    pub(crate) template: Value,
    #[serde(default)]
    pub(crate) strategy: Strategy,
    #[serde(default)]
    pub(crate) min_ready_seconds: u32,
    #[serde(default = "ten")]
    pub(crate) revision_history_limit: usize,
    #[serde(default = "ten_minutes")]
    pub(crate) progress_deadline_seconds: u32,
    #[serde(default)]
    pub(crate) paused: bool,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Strategy {
    #[serde(rename = "type")]
    pub(crate) kind: StrategyKind,
    pub(crate) rolling_update: Option<RollingUpdate>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum StrategyKind {
    #[default]
    RollingUpdate,
    Recreate,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RollingUpdate {
    pub(crate) max_surge: Share,
    pub(crate) max_unavailable: Share,
}

/// A number of replicas, or a percentage of the desired ones: `2` or `25%`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub(crate) enum Share {
    Number(u32),
    Percent(u32),
}

impl Default for Share {
    fn default() -> Self {
        Self::Percent(25)
    }
}

impl TryFrom<Value> for Share {
    type Error = String;

    fn try_from(value: Value) -> std::result::Result<Self, String> {
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok()).map(Self::Number);
        let percent = || value.as_str()?.strip_suffix('%')?.parse().ok().map(Self::Percent);
        number.or_else(percent).ok_or_else(|| format!("{value} is neither a number nor a percentage like \"25%\""))
    }
}

impl From<Share> for Value {
    fn from(share: Share) -> Self {
        match share {
            Share::Number(number) => number.into(),
            Share::Percent(percent) => format!("{percent}%").into(),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DeploymentStatus {
    pub(crate) observed_generation: u64,
    pub(crate) replicas: u32,
    pub(crate) updated_replicas: u32,
    pub(crate) ready_replicas: u32,
    pub(crate) available_replicas: u32,
    pub(crate) unavailable_replicas: u32,
    /// The number of name collisions of new ReplicaSets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) collision_count: Option<u32>,
    pub(crate) conditions: Conditions,
}

/// `spec` of a ReplicaSet.
#[derive(Debug, Clone, Resource, Serialize, Deserialize)]
#[resource(group = "apps", version = "v1", status = ReplicaSetStatus, schema = "disabled")]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReplicaSet {
    #[serde(default = "one")]
    pub(crate) replicas: u32,
    #[serde(default)]
    pub(crate) min_ready_seconds: u32,
    pub(crate) selector: LabelSelector,
    pub(crate) template: Value,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ReplicaSetStatus {
    pub(crate) observed_generation: u64,
    pub(crate) replicas: u32,
    pub(crate) ready_replicas: u32,
    pub(crate) available_replicas: u32,
    /// Pods that are being deleted. They are not among `replicas`.
    pub(crate) terminating_replicas: u32,
}

fn one() -> u32 {
    1
}

fn ten() -> usize {
    10
}

fn ten_minutes() -> u32 {
    600
}
