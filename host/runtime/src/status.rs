//! What a controller looks like from outside: plain data, made when it is asked for.

use homeostat_store::{Key, Kind};
use serde::Serialize;

/// Where a controller is in its life.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ControllerState {
    /// Its start hook has not succeeded yet.
    Starting,
    /// Some of its watches lack their first full list. Nothing is reconciled.
    Syncing,
    /// It reconciles.
    Ready,
    /// It keeps its keys and reconciles nothing.
    Suspended,
    /// It is being removed, or the host stops.
    Stopping,
}

/// One controller now.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ControllerStatus {
    /// Its name.
    pub name: String,
    /// Where it is in its life.
    pub state: ControllerState,
    /// Why it is not ready, or what is wrong with a feeder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Digest of the component that takes the next key.
    pub digest: String,
    /// Counts the components that this controller has had; 1 is the first.
    pub generation: u64,
    /// What answered the last reconcile.
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
    /// Reconciles ended since the controller was added.
    pub reconciles: u64,
    /// How many of them failed.
    pub failures: u64,
    /// What the last swap was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_swap: Option<SwapRecord>,
}

/// The definition that answered a reconcile: what runs, or what is tried beside it, or what ran before a swap.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VersionInfo {
    /// Digest of its component.
    pub digest: String,
    /// Counts the components that the controller has had.
    pub generation: u64,
    /// Its number in the history of the controller; `None` where it stands in none.
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
    /// Given up until something changes.
    pub parked: usize,
}

/// One swap that happened, or was refused.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SwapRecord {
    /// When, RFC 3339.
    pub time: String,
    /// Digest before.
    pub from: String,
    /// Digest after.
    pub to: String,
    /// The generation that began with it.
    pub generation: u64,
}

/// One key on a queue now.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueEntry {
    /// Which.
    pub key: Key,
    /// `waiting`, `ready`, `running`, `dirty` (running, and to run again) or `parked`.
    pub state: String,
    /// Failures in a row.
    pub failures: u32,
    /// Milliseconds until it is due, when it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_in_ms: Option<u64>,
    /// Its priority band: `lowest` to `highest`.
    pub priority: &'static str,
    /// What the last failure said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Milliseconds since it became ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_for_ms: Option<u64>,
    /// Milliseconds since a worker took it.
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
            priority: entry.priority.as_str(),
            last_error: entry.last_error.as_deref().map(str::to_owned),
            ready_for_ms: entry.ready_for.map(millis),
            running_for_ms: entry.running_for.map(millis),
        }
    }
}
