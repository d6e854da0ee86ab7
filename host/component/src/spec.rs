//! What a component says about itself: the host's side of `describe`, checked.

use std::time::Duration;

use homeostat_store::Kind;
use serde::{Deserialize, Serialize};

use crate::millis;

/// What a controller is. The manifest may override everything but the kinds and the mappings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ControllerSpec {
    /// The kind whose keys `reconcile` gets.
    pub manages: KindDeclaration,
    /// Which changes of resources of that kind count.
    pub changes: Changes,
    /// At most 32, with different names.
    pub watches: Vec<Watch>,
    /// How often `poller.poll` is called: 100 ms to 365 days. Only with the export `poller`.
    #[serde(rename = "pollEveryMs", with = "millis::option")]
    pub poll_every: Option<Duration>,
    /// How often every key is looked at again: 1 s to 365 days. `None`: the component leaves it to the host.
    #[serde(rename = "resyncEveryMs", with = "millis::option")]
    pub resync_every: Option<Duration>,
    /// `None`: the component leaves it to the host.
    pub backoff: Option<BackoffSpec>,
    /// Reconciles at once, each for another key: 1 to 1024. `None`: the component leaves it to the host.
    pub concurrency: Option<u32>,
    /// What an event does while its key waits for a delay.
    pub during_delay: DuringDelay,
}

/// A kind that a controller works with, and how to call it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KindDeclaration {
    /// Group, version and name.
    pub kind: Kind,
    /// The plural in lower case: `deployments`.
    pub plural: String,
    /// Whether resources of this kind live in a namespace.
    pub namespaced: bool,
    /// The host stores nothing of this kind: its keys come from a feeder.
    pub keys_only: bool,
    /// A JSON schema of the document; `None` accepts any.
    pub schema: Option<serde_json::Value>,
}

/// One more kind whose changes matter to a controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Watch {
    /// Names the watch in `mapper.map`, in logs and in metrics. 1 to 63 bytes.
    pub name: String,
    /// What is watched.
    pub of: KindDeclaration,
    /// How a change becomes keys of the managed kind.
    pub mapping: Mapping,
    /// Which changes count. Not [`Changes::ButStatus`] when the mapping reads the status.
    pub changes: Changes,
    /// What the kind is to the controller.
    pub role: Role,
}

/// How a change of a watched resource becomes keys of the managed kind. Never from outside of namespaces into one, but for `Guest`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Mapping {
    /// The owner references of the changed resource that name the managed kind.
    Owner,
    /// The name of the changed resource.
    SameName,
    /// The value of this label.
    Label(String),
    /// The string, or each string of the list, at this JSON pointer.
    Field(String),
    /// The component's own `mapper.map`.
    Guest,
}

/// Which changes of a watched resource bring keys. First sights, deletions and second looks do so in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Changes {
    /// Every change.
    All,
    /// Not those that leave everything but `status` as it was.
    ButStatus,
}

/// What a watched kind is to a controller. The same in all its watches of that kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// The controller writes resources of this kind, as far as its grants let it.
    Secondary,
    /// The controller reads them only: see [`crate::layers::Roles`].
    Tertiary,
}

/// The wait after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BackoffSpec {
    /// After the first failure; doubled by each failure in a row. At least 1 ms.
    #[serde(rename = "baseMs", with = "millis")]
    pub base: Duration,
    /// Never above this. At least `base`, at most 365 days.
    #[serde(rename = "maxMs", with = "millis")]
    pub max: Duration,
    /// After this many retries in a row the key is parked; `None` never gives up.
    pub retries_max: Option<u32>,
}

/// What an event does while its key waits, whoever asked for the delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DuringDelay {
    /// It runs now, and the delay is forgotten.
    RunNow,
    /// It waits: the delay is a floor.
    Hold,
}
