//! Every word that goes out of a sandbox and comes back, as data, and the one narrow trait that carries them.
//!
//! An [`Effect`] is a request of a guest, an [`Answer`] is the reply. Both are plain values with a stable JSON form, so that a
//! trace is a list of pairs, a replay is a table look-up, and a fault is a different answer.
//!
//! Invariant: whatever is not an `Effect` cannot be seen from inside a sandbox, but for the passing of time.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use homeostat_store::{Key, Kind, Query, Selector, View, Write};
use serde::{Deserialize, Serialize};

mod absent;
mod answer;
mod blob;
mod class;
mod exchange;
mod size;

pub use absent::WasiResource;
pub use answer::{Answer, HttpError, HttpResponse, PageData, ResourceData, StoreError, WriteData};
pub use blob::Blob;
pub use class::EffectClass;
pub use exchange::Exchange;

/// What a guest asks of the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Effect {
    /// Reads one resource. Answer: [`Answer::Resource`].
    Get {
        /// Which one.
        key: Key,
        /// How much of it.
        view: View,
    },
    /// Reads resources of one kind. Answer: [`Answer::Page`].
    List {
        /// Which ones, and from where on. The limit is 1 to 500, always set.
        query: Query,
        /// How much of each.
        view: View,
    },
    /// Changes one resource. Answer: [`Answer::WriteData`].
    Write(Write),
    /// Brings the key back when `target` changes. Answer: [`Answer::Done`].
    Follow {
        /// What to follow.
        target: Key,
    },
    /// Brings the key back when a resource that the selector means changes. Answer: [`Answer::Done`].
    FollowAll {
        /// Of which kind.
        kind: Kind,
        /// Which ones.
        selector: Selector,
    },
    /// Tells a person something about a resource. Answer: [`Answer::Unit`].
    Emit {
        /// How bad it is.
        severity: Severity,
        /// One word, at most 128 bytes.
        reason: String,
        /// At most 1024 bytes.
        message: String,
        /// What it is about; `None`: the key of the call.
        regarding: Option<Key>,
    },
    /// Writes a line into the log. Answer: [`Answer::Unit`].
    Log {
        /// How important it is.
        level: Level,
        /// At most 4096 bytes.
        message: String,
        /// At most 16 names and values.
        fields: Vec<(String, String)>,
    },
    /// Reads the controller's settings. Answer: [`Answer::Config`], or [`Answer::Done`] with an error where there are none yet.
    Config {
        /// One of them; `None`: all.
        key: Option<String>,
    },
    /// Sends an HTTP request. Answer: [`Answer::Http`].
    Http(HttpRequest),
    /// Reads the clock on the wall. Answer: [`Answer::Nanoseconds`] since 1970.
    WallClock,
    /// Reads the clock that never goes back. Answer: [`Answer::Nanoseconds`] since a moment of the host's choice.
    MonotonicClock,
    /// Draws random bytes. Answer: [`Answer::Bytes`] of that length.
    Random {
        /// How many: at most 65 536.
        bytes: u32,
    },
    /// Reaches for a file, an address or a name. Answer: [`Answer::Done`], always `forbidden`; the guest is told the error that its interface
    /// has for what is not there.
    Reach(WasiResource),
}

impl Effect {
    /// Returns the import that asks for this, as guests know it: `store.get`.
    pub fn import(&self) -> &'static str {
        match self {
            Self::Get { .. } => "store.get",
            Self::List { .. } => "store.list",
            Self::Write(write) => match write {
                Write::Create { .. } => "store.create",
                Write::Update { .. } => "store.update",
                Write::UpdateStatus { .. } | Write::PatchStatus { .. } | Write::ApplyStatus { .. } => {
                    "store.update-status"
                }
                Write::Patch { .. } => "store.patch",
                Write::Apply { .. } => "store.apply",
                Write::Delete { .. } => "store.delete",
            },
            Self::Follow { .. } => "watches.follow",
            Self::FollowAll { .. } => "watches.follow-all",
            Self::Emit { .. } => "events.emit",
            Self::Log { .. } => "log.write",
            Self::Config { .. } => "wasi:config/store",
            Self::Http(_) => "wasi:http/outgoing-handler",
            Self::WallClock => "wasi:clocks/wall-clock",
            Self::MonotonicClock => "wasi:clocks/monotonic-clock",
            Self::Random { .. } => "wasi:random",
            Self::Reach(WasiResource::File(_)) => "wasi:filesystem",
            Self::Reach(WasiResource::Address(_) | WasiResource::Name(_)) => "wasi:sockets",
        }
    }
}

/// How bad an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// All is well.
    Normal,
    /// Somebody should look.
    Warning,
}

/// How important a line of the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Level {
    /// For who follows every step.
    Trace,
    /// For who looks for a fault.
    Debug,
    /// For who operates the controller. Standard output comes in here.
    Info,
    /// Something is odd. Standard error comes in here.
    Warn,
    /// Something failed.
    Error,
}

/// One HTTP request, its body read to the end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpRequest {
    /// In capitals: `GET`.
    pub method: String,
    /// The whole address: `https://api.example.com/v1/items?all=1`.
    pub url: String,
    /// In the guest's order, names in lower case.
    pub headers: Vec<(String, Blob)>,
    /// At most as long as the limits say.
    pub body: Blob,
    /// How long the guest is willing to wait, in milliseconds; `None`: for as long as its deadline lets it.
    pub timeout_ms: Option<u64>,
}

/// On whose behalf an effect is performed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Call {
    /// Unique in this process.
    pub id: u64,
    /// The controller's name.
    pub controller: Arc<str>,
    /// What is being called.
    pub entry: EntryPoint,
    /// The key being reconciled; `None` for the other entries.
    pub key: Option<Key>,
}

/// A function that a guest exports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EntryPoint {
    /// `reconciler.describe`.
    Describe,
    /// `reconciler.reconcile`.
    Reconcile,
    /// `mapper.map`.
    Map,
    /// `poller.poll`.
    Poll,
    /// `lifecycle.start`.
    Start,
    /// `lifecycle.stop`.
    Stop,
}

impl EntryPoint {
    /// Returns the name as users see it: `reconcile`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Describe => "describe",
            Self::Reconcile => "reconcile",
            Self::Map => "map",
            Self::Poll => "poll",
            Self::Start => "start",
            Self::Stop => "stop",
        }
    }
}

impl fmt::Display for EntryPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The only way out of a sandbox.
///
/// Implementations wrap one another: grants around recorders around the world, and whatever else somebody needs. Effects of one
/// call come one after another, but for HTTP requests, which a guest may have under way side by side.
///
/// *Cancel safety*: a call that is stopped at its deadline drops the future of the effect that is under way. An implementation that
/// must finish what it began does that in a task of its own.
#[async_trait]
pub trait Effects: Send + Sync + 'static {
    /// Performs `effect` on behalf of `call`.
    ///
    /// The answer must be of the kind that the effect names; another kind ends the call as a trap. Failures are answers.
    async fn perform(&self, call: &Call, effect: Effect) -> Answer;
}

/// Hands on the future itself: one that waits for it would be put into memory of its own for each effect.
impl<T: Effects + ?Sized> Effects for Arc<T> {
    fn perform<'effects, 'call, 'performed>(
        &'effects self,
        call: &'call Call,
        effect: Effect,
    ) -> Pin<Box<dyn Future<Output = Answer> + Send + 'performed>>
    where
        'effects: 'performed,
        'call: 'performed,
        Self: 'performed,
    {
        (**self).perform(call, effect)
    }
}

#[cfg(test)]
mod tests;
