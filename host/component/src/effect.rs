//! All requests out of a sandbox and their replies, as data, and the one narrow trait that carries them.
//!
//! An [`Effect`] is a request of a guest, an [`Answer`] is the reply. Both are plain values with a stable
//! JSON form. So a trace is a list of pairs, a replay is a table lookup, and an injected fault is a different
//! answer.
//!
//! Invariant: a guest can observe the outside world only through an `Effect`, except for the passing of time.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use homeostat_store::{Key, Kind, Query, Selector, View, Write};
use serde::{Deserialize, Serialize};

mod answer;
mod blob;
mod class;
mod exchange;
mod size;
mod wasi_resource;

pub use answer::{Answer, HttpError, HttpResponse, PageData, ResourceData, StoreError, WriteData};
pub use blob::Blob;
pub use class::EffectClass;
pub use exchange::Exchange;
pub use wasi_resource::WasiResource;

/// A request of a guest to the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Effect {
    /// Reads one resource. Answer: [`Answer::Resource`].
    Get {
        /// The resource.
        key: Key,
        /// The part to read.
        view: View,
        /// Whether to read past every cache of the host.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        live: bool,
    },
    /// Reads resources of one kind. Answer: [`Answer::Page`].
    List {
        /// The selection and the start of the page. The limit is 1 to 500, always set.
        query: Query,
        /// The part of each to read.
        view: View,
    },
    /// Changes one resource. Answer: [`Answer::Written`].
    Write(Write),
    /// Requeues the key when `target` changes. Answer: [`Answer::Done`].
    Follow {
        /// The resource to follow.
        target: Key,
    },
    /// Requeues the key when a resource changes that the selector matches. Answer: [`Answer::Done`].
    FollowAll {
        /// The kind of the resources.
        kind: Kind,
        /// The selector.
        selector: Selector,
    },
    /// Puts a key of the managed kind on the controller's own queue. Answer: [`Answer::Done`].
    #[serde(rename_all = "camelCase")]
    Enqueue {
        /// The key.
        key: Key,
        /// The delay in milliseconds, at most 365 days. 0 is now.
        after_ms: u64,
        /// The band.
        priority: QueuePriority,
        /// Whether no event shortens the delay.
        hold: bool,
    },
    /// Emits an event about a resource. Answer: [`Answer::Unit`].
    Emit {
        /// The severity.
        severity: Severity,
        /// One word, at most 128 bytes.
        reason: String,
        /// At most 1024 bytes.
        message: String,
        /// The resource it is about; `None` for the key of the call.
        regarding: Option<Key>,
    },
    /// Writes a log line. Answer: [`Answer::Unit`].
    Log {
        /// The level.
        level: Level,
        /// At most 4096 bytes.
        message: String,
        /// At most 16 names and values.
        fields: Vec<(String, String)>,
    },
    /// Reads the controller's settings. Answer: [`Answer::Config`], or [`Answer::Done`] with an error where
    /// there are none yet (in `describe`).
    Config {
        /// One setting; `None` for all.
        key: Option<String>,
    },
    /// Sends an HTTP request. Answer: [`Answer::Http`].
    Http(HttpRequest),
    /// Reads the wall clock. Answer: [`Answer::Nanoseconds`] since 1970.
    WallClock,
    /// Reads the monotonic clock. Answer: [`Answer::Nanoseconds`] since a moment chosen by the host.
    MonotonicClock,
    /// Draws random bytes. Answer: [`Answer::Bytes`] of that length.
    Random {
        /// The number of bytes: at most 65 536.
        bytes: u32,
    },
    /// Tries to use a file, an address or a host name. Answer: [`Answer::Done`], always `forbidden`; the
    /// guest gets its interface's error for a missing object.
    Reach(WasiResource),
}

impl Effect {
    /// Returns the import that makes this request, as guests know it: `store.get`.
    pub fn import(&self) -> &'static str {
        match self {
            Self::Get { live: false, .. } => "store.get",
            Self::Get { live: true, .. } => "store.get-live",
            Self::List { query, .. } if query.live => "store.list-live",
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
            Self::Enqueue { .. } => "queue.enqueue",
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

/// The priority band of a key that a guest enqueues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum QueuePriority {
    /// After everything else.
    Lowest,
    /// The band of initial lists and resyncs.
    Low,
    /// The band of changes.
    Normal,
    /// Before changes.
    High,
    /// Before everything else.
    Highest,
}

/// The severity of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// A normal operation.
    Normal,
    /// A problem that needs attention.
    Warning,
}

/// The level of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Level {
    /// Every step.
    Trace,
    /// Details for debugging.
    Debug,
    /// Information for operators. Standard output has this level.
    Info,
    /// A suspicious condition. Standard error has this level.
    Warn,
    /// A failure.
    Error,
}

/// One HTTP request, its body read to the end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpRequest {
    /// The method in capitals: `GET`.
    pub method: String,
    /// The whole URL: `https://api.example.com/v1/items?all=1`.
    pub url: String,
    /// In the guest's order, names in lower case.
    pub headers: Vec<(String, Blob)>,
    /// At most `http_body_bytes_max` bytes.
    pub body: Blob,
    /// The guest's timeout in milliseconds; `None` for the rest of its deadline.
    pub timeout_ms: Option<u64>,
}

/// The call on whose behalf an effect is performed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Call {
    /// Unique in this process.
    pub id: u64,
    /// The controller's name.
    pub controller: Arc<str>,
    /// The function that is being called.
    pub entry: EntryPoint,
    /// The key being reconciled; `None` for other entry points.
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
    /// `converter.convert`.
    Convert,
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
            Self::Convert => "convert",
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
/// Implementations wrap one another: grants around recorders around the world, and any further layer. The
/// effects of one call arrive one after another, except for HTTP requests, which a guest may have in flight
/// concurrently.
///
/// *Cancel safety*: when a call is stopped at its deadline, the future of the effect in flight is dropped. An
/// implementation that must finish its work does so in a task of its own.
#[async_trait]
pub trait Effects: Send + Sync + 'static {
    /// Performs `effect` on behalf of `call`.
    ///
    /// The answer must be of the kind documented at the effect; any other kind ends the call as a trap.
    /// Failures are answers.
    async fn perform(&self, call: &Call, effect: Effect) -> Answer;
}

/// Returns the inner future itself: an `async` wrapper would allocate another one for each effect.
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
