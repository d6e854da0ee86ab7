//! The description of a component: the host's checked form of `describe`.

use std::time::Duration;

use homeostat_store::Kind;
use serde::{Deserialize, Serialize};

use crate::millis;

/// The description of a controller. The manifest may override all of it but `changes` and schemas.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ControllerSpec {
    /// The kind whose keys `reconcile` receives.
    pub manages: KindDeclaration,
    /// Which changes of resources of that kind count.
    pub changes: Changes,
    /// At most 32, with different names.
    pub watches: Vec<Watch>,
    /// The period of `poller.poll`: 100 ms to 365 days. Only with the export `poller`.
    #[serde(rename = "pollEveryMs", with = "millis::option")]
    pub poll_every: Option<Duration>,
    /// The period of the resync, which reconciles every key again: 1 s to 365 days. `None` for the host's
    /// default.
    #[serde(rename = "resyncEveryMs", with = "millis::option")]
    pub resync_every: Option<Duration>,
    /// `None` for the host's default.
    pub backoff: Option<BackoffSpec>,
    /// Concurrent reconciles, each for another key: 1 to 1024. `None` for the host's default.
    pub concurrency: Option<u32>,
    /// The effect of an event on a key that waits for a delay.
    pub during_delay: DuringDelay,
}

/// A kind that a controller works with, and its names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KindDeclaration {
    /// Group, version and name.
    pub kind: Kind,
    /// The plural in lower case: `deployments`.
    pub plural: String,
    /// Whether resources of this kind live in a namespace.
    pub namespaced: bool,
    /// The host stores no resources of this kind: its keys come from a feeder.
    pub keys_only: bool,
    /// A JSON schema of the document; `None` accepts any.
    pub schema: Option<serde_json::Value>,
}

/// A further kind whose changes a controller reacts to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Watch {
    /// Names the watch in `mapper.map`, in logs and in metrics. 1 to 63 bytes.
    pub name: String,
    /// The watched kind.
    pub of: KindDeclaration,
    /// How a change maps to keys of the managed kind.
    pub mapping: Mapping,
    /// Which changes count. Not [`Changes::ButStatus`] when the mapping reads the status.
    pub changes: Changes,
    /// The relation of the kind to the controller.
    pub role: Role,
}

/// How a change of a watched resource maps to keys of the managed kind. Only `Annotation`, `Field` and `Guest`
/// lead from a cluster-scoped resource to a namespaced one, because they can name its namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Mapping {
    /// The owner references of the changed resource that name the managed kind.
    Owner,
    /// The name of the changed resource.
    SameName,
    /// The value of this label.
    Label(String),
    /// The reference, or each reference of the JSON list, in this annotation.
    Annotation(String),
    /// The reference, or each reference of the list, at this JSON pointer.
    Field(String),
    /// The component's own `mapper.map`.
    Guest,
}

/// Which changes of a watched resource queue keys. New and deleted resources and resyncs always do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Changes {
    /// Every change.
    All,
    /// All changes except those of `status` alone.
    ButStatus,
}

/// The relation of a watched kind to a controller. The same in all its watches of that kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// The controller writes resources of this kind, as far as its grants allow it.
    Secondary,
    /// The controller reads them only: see [`crate::layers::Roles`].
    Tertiary,
}

/// The delay after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BackoffSpec {
    /// The delay after the first failure; doubled with each failure in a row. At least 1 ms.
    #[serde(rename = "baseMs", with = "millis")]
    pub base: Duration,
    /// The maximum delay. At least `base`, at most 365 days.
    #[serde(rename = "maxMs", with = "millis")]
    pub max: Duration,
    /// The number of retries in a row after which the key is parked; `None` for no limit.
    pub retries_max: Option<u32>,
}

/// The effect of an event on a key that waits, regardless of the origin of the delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DuringDelay {
    /// The key runs now, and the delay is dropped.
    RunNow,
    /// The key keeps waiting: the delay is a minimum.
    Hold,
}
