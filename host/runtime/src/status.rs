//! The status of a controller as plain data, computed on request.

use homeostat_component::{Component, Tier};
use homeostat_store::{Key, Kind};
use serde::Serialize;

use crate::LeaseStatus;
use crate::feeder_tally::FeederStatus;

/// The phase of a controller's life.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ControllerState {
    /// The start hook has not succeeded yet.
    Starting,
    /// Some watches have not had their first full list. No key is reconciled.
    Syncing,
    /// The controller reconciles.
    Ready,
    /// The controller keeps its keys and reconciles none.
    Suspended,
    /// Another host holds the lease of the controller, or nobody does.
    Standby,
    /// The controller is being removed, or the host is stopping.
    Stopping,
}

/// The status of one controller.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ControllerStatus {
    /// Its name.
    pub name: String,
    /// The phase of its life.
    pub state: ControllerState,
    /// Why the controller is not ready, or the error of a feeder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Digest of the component that the next key runs on.
    pub digest: String,
    /// The code of that component.
    pub code: CodeStatus,
    /// Number of components that this controller has had; 1 is the first.
    pub generation: u64,
    /// The version that the last reconcile ran on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered: Option<VersionInfo>,
    /// The kind whose keys it reconciles.
    pub manages: Kind,
    /// The other kinds that it watches.
    pub watches: Vec<Kind>,
    /// Reconciles that may run at once.
    pub concurrency: u32,
    /// Keys by state.
    pub counts: QueueCounts,
    /// Finished reconciles since the controller was added.
    pub reconciles: u64,
    /// Failed reconciles since the controller was added.
    pub failures: u64,
    /// The last swap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_swap: Option<SwapRecord>,
    /// Its leases, by shard; none where no other host can have its keys.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub leases: Vec<LeaseStatus>,
    /// The feeders of its manifest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub feeders: Vec<FeederStatus>,
}

/// The code that a component runs on.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CodeStatus {
    /// The quality of the code: `baseline` until the optimised code of a large component is compiled.
    pub tier: Tier,
    /// Why no optimised code will replace baseline code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl CodeStatus {
    pub(crate) fn of(component: &Component) -> Self {
        Self { tier: component.tier(), error: component.optimisation_error().map(str::to_owned) }
    }
}

/// The version that a reconcile ran on: the current one, a canary, or the one before a swap.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VersionInfo {
    /// Digest of its component.
    pub digest: String,
    /// The component's number among those that the controller has had.
    pub generation: u64,
    /// Its revision number in the controller's history; `None` if it has no revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
}

/// Keys of a queue by state.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueCounts {
    /// Due later.
    pub waiting: usize,
    /// Due now.
    pub ready: usize,
    /// With a worker.
    pub running: usize,
    /// Given up until the resource changes or a person retries.
    pub parked: usize,
}

/// One completed swap.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SwapRecord {
    /// Time of the swap, RFC 3339.
    pub time: String,
    /// Digest of the old component.
    pub from: String,
    /// Digest of the new component.
    pub to: String,
    /// The generation of the new component.
    pub generation: u64,
}

/// One entry of a queue.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueEntry {
    /// The key.
    pub key: Key,
    /// `waiting`, `ready`, `running`, `dirty` (running, with a re-run pending) or `parked`.
    pub state: String,
    /// Consecutive failures.
    pub failures: u32,
    /// Milliseconds until a waiting key is due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_in_ms: Option<u64>,
    /// Whether no event makes the key due earlier, because `hold` was asked for with its delay.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// Its priority band: `lowest` to `highest`.
    pub priority: &'static str,
    /// The error of the last failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Milliseconds since the key became ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_for_ms: Option<u64>,
    /// Milliseconds since a worker claimed the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running_for_ms: Option<u64>,
}

impl From<homeostat_workqueue::Entry<Key>> for QueueEntry {
    fn from(entry: homeostat_workqueue::Entry<Key>) -> Self {
        let millis = |duration: std::time::Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self {
            key: entry.key,
            state: entry.state.to_string(),
            failures: entry.failures,
            due_in_ms: entry.due_in.map(millis),
            held: entry.is_held,
            priority: entry.priority.as_str(),
            last_error: entry.last_error.as_deref().map(str::to_owned),
            ready_for_ms: entry.ready_for.map(millis),
            running_for_ms: entry.running_for.map(millis),
        }
    }
}
