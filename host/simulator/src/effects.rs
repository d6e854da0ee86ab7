//! The layers of the simulator: virtual time below, injected faults above, and the sink of events, lines and follows.

use std::sync::Arc;

use async_trait::async_trait;
use homeostat_component::layers::{EnqueuedKey, FollowTarget, GuestEvent, GuestLogLine, Sink};
use homeostat_component::{Answer, Call, Effect, Effects, HttpError, Level, Severity, StoreError};
use homeostat_store::{Key, Kind};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::clock::VirtualClock;

/// Events, lines and follows that are kept at most, each. Later ones are dropped.
const RECORDS_MAX: usize = 10_000;

/// The reading of the monotonic clock at the start. The runtime of Go refuses to start with a clock that reads zero.
const MONOTONIC_START_NS: u64 = 1_000_000_000;

/// An event that the controller emitted.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedEvent {
    /// The severity.
    pub severity: Severity,
    /// One word.
    pub reason: String,
    /// The text.
    pub message: String,
    /// The resource that it is about.
    pub regarding: Option<Key>,
}

/// A log line that the controller wrote.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedLine {
    /// The level.
    pub level: Level,
    /// The text.
    pub message: String,
    /// Names and values.
    pub fields: Vec<(String, String)>,
}

/// An operation on the store that a fault concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Every operation.
    Any,
    /// Reading one resource.
    Get,
    /// Reading resources of a kind.
    List,
    /// Every write.
    Write,
    /// Creating.
    Create,
    /// Replacing.
    Update,
    /// Replacing the status.
    UpdateStatus,
    /// Changing in place.
    Patch,
    /// Server-side apply.
    Apply,
    /// Deleting.
    Delete,
}

/// A fault of the store, as an answer to the controller.
#[derive(Clone, Debug, PartialEq)]
pub struct InjectedFault {
    /// The operations that fail.
    pub operation: Operation,
    /// The name of the kind whose resources are concerned, as `Deployment`; `None` for every kind.
    pub kind: Option<String>,
    /// The answer.
    pub error: StoreError,
    /// The operations that still fail; `None` for all.
    pub times: Option<u32>,
    /// Whether a write happens although its answer is lost.
    pub after_write: bool,
}

impl InjectedFault {
    fn concerns(&self, effect: &Effect) -> bool {
        let verb = match effect {
            Effect::Get { .. } => "get",
            Effect::List { .. } => "list",
            Effect::Write(write) => write.verb(),
            _ => return false,
        };
        let fits = match self.operation {
            Operation::Any => true,
            Operation::Write => matches!(effect, Effect::Write(_)),
            Operation::Get => verb == "get",
            Operation::List => verb == "list",
            Operation::Create => verb == "create",
            Operation::Update => verb == "update",
            Operation::UpdateStatus => verb == "update-status",
            Operation::Patch => verb == "patch",
            Operation::Apply => verb == "apply",
            Operation::Delete => verb == "delete",
        };
        let kind = match effect {
            Effect::Get { key, .. } => Some(key.kind().name.clone()),
            Effect::List { query, .. } => Some(query.kind.name.clone()),
            Effect::Write(write) => write.target().ok().map(|target| target.kind.name),
            _ => None,
        };
        fits && self.times != Some(0) && (self.kind.is_none() || self.kind == kind)
    }
}

/// Everything that a controller told, and the faults that are to come.
#[derive(Default)]
pub(crate) struct Records {
    pub(crate) events: Mutex<Vec<RecordedEvent>>,
    pub(crate) lines: Mutex<Vec<RecordedLine>>,
    /// The follows of the reconcile that runs.
    pub(crate) follows: Mutex<Vec<FollowTarget>>,
    /// The keys that the reconcile that runs enqueued.
    pub(crate) enqueued: Mutex<Vec<EnqueuedKey>>,
    pub(crate) faults: Mutex<Vec<InjectedFault>>,
}

impl Records {
    fn fault(&self, effect: &Effect) -> Option<InjectedFault> {
        let mut faults = self.faults.lock();
        let fault = faults.iter_mut().find(|fault| fault.concerns(effect))?;
        fault.times = fault.times.map(|times| times - 1);
        Some(fault.clone())
    }
}

fn push<T>(to: &Mutex<Vec<T>>, item: T) {
    let mut to = to.lock();
    if to.len() < RECORDS_MAX {
        to.push(item);
    }
}

/// Receives what a controller tells.
pub(crate) struct RecordingSink(pub(crate) Arc<Records>);

impl Sink for RecordingSink {
    fn event(&self, call: &Call, event: GuestEvent) {
        let GuestEvent { severity, reason, message, regarding } = event;
        let regarding = regarding.or_else(|| call.key.clone());
        push(&self.0.events, RecordedEvent { severity, reason, message, regarding });
    }

    fn line(&self, _: &Call, line: GuestLogLine) {
        let GuestLogLine { level, message, fields } = line;
        push(&self.0.lines, RecordedLine { level, message, fields });
    }

    fn follow(&self, _: &Call, followed: FollowTarget) -> Result<(), StoreError> {
        push(&self.0.follows, followed);
        Ok(())
    }

    fn enqueue(&self, _: &Call, enqueued: EnqueuedKey) -> Result<(), StoreError> {
        push(&self.0.enqueued, enqueued);
        Ok(())
    }
}

/// Answers with injected faults, with virtual time, with the same randomness in each run, and without a
/// network. Passes on everything else.
pub(crate) struct Virtual<E> {
    pub(crate) clock: Arc<VirtualClock>,
    pub(crate) records: Arc<Records>,
    /// The declared kinds: a guest cannot use another one.
    pub(crate) kinds: Arc<Mutex<Vec<Kind>>>,
    pub(crate) inner: E,
}

impl<E> Virtual<E> {
    fn unknown(&self, kind: &Kind) -> Option<StoreError> {
        let known = self.kinds.lock().iter().any(|known| known.same_type(kind));
        (!known).then(|| StoreError::NotFound(format!("the kind {kind}")))
    }
}

/// Returns the answer that tells an error of an effect on the store.
fn failed(effect: &Effect, error: StoreError) -> Answer {
    match effect {
        Effect::Get { .. } => Answer::Resource(Err(error)),
        Effect::List { .. } => Answer::Page(Err(error)),
        Effect::Write(_) => Answer::Written(Err(error)),
        _ => Answer::Done(Err(error)),
    }
}

#[async_trait]
impl<E: Effects> Effects for Virtual<E> {
    async fn perform(&self, call: &Call, effect: Effect) -> Answer {
        let unknown = match &effect {
            Effect::Get { key, .. } | Effect::Follow { target: key } => self.unknown(key.kind()),
            Effect::List { query, .. } => self.unknown(&query.kind),
            Effect::FollowAll { kind, .. } => self.unknown(kind),
            Effect::Write(write) => write.target().ok().and_then(|target| self.unknown(&target.kind)),
            Effect::WallClock => return Answer::Nanoseconds(self.clock.unix_nanoseconds()),
            Effect::MonotonicClock => {
                let elapsed = u64::try_from(self.clock.elapsed().as_nanos()).unwrap_or(u64::MAX);
                return Answer::Nanoseconds(elapsed.saturating_add(MONOTONIC_START_NS));
            }
            Effect::Random { bytes } => return Answer::Bytes(self.clock.fill(*bytes).into()),
            Effect::Http(request) => {
                let reason = format!("{} {}: a test has no network", request.method, request.url);
                return Answer::Http(Err(HttpError::Unreachable(reason)));
            }
            _ => None,
        };
        if let Some(error) = unknown {
            return failed(&effect, error);
        }
        let Some(fault) = self.records.fault(&effect) else { return self.inner.perform(call, effect).await };
        let answer = failed(&effect, fault.error);
        if fault.after_write && matches!(effect, Effect::Write(_)) {
            let _lost = self.inner.perform(call, effect).await;
        }
        answer
    }
}
