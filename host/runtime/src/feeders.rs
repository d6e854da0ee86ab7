//! Whatever puts keys on a queue.
//!
//! A feeder is one small trait. The runtime brings its own for watches, polls and resyncs; whoever embeds the runtime writes more in
//! Rust. A feeder that fails is started again with backoff, alone: no other feeder waits for it, and none is reset by it.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use homeostat_component::{Disclosure, Severity};
use homeostat_store::{Key, Kind, Revision};
use homeostat_workqueue::{AddError, AddOutcome, Priority, Queue};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::mapping::ManagedKind;

mod audience;
mod deletions;
mod follow;
mod gate;
mod guest_map;
mod missed;
mod poll;
mod resync;
mod room;
mod shared;
mod watch;

pub(crate) use audience::Audience;
pub(crate) use deletions::{DELETIONS_BAND, DeletionState, SuspendFilter};
pub(crate) use follow::FollowFeeder;
pub(crate) use gate::{FeederId, SyncBarrier};
pub(crate) use guest_map::{GuestMap, MAPPED_KEYS_MAX, SlotGuest, WAITING_BYTES_MAX};
pub(crate) use missed::UNDELIVERED_KEYS_MAX;
pub(crate) use poll::PollFeeder;
pub(crate) use resync::ResyncFeeder;
pub(crate) use room::{Capacity, RoomWait};
pub(crate) use shared::{BYTES_MAX as SHARED_BYTES_MAX, EVENTS_MAX as SHARED_EVENTS_MAX, SharedWatches};
pub(crate) use watch::{KeyMapper, WatchFeeder};

/// The wait before a feeder that failed is started again: after the first failure, and at most.
const RESTART: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));
/// A feeder that failed and has not said since that it listed is taken for well when it has run so long: longer than any wait.
const WELL_AFTER: Duration = Duration::from_secs(40);
/// A feeder that ran this long without failing starts with the first wait again.
const HEALTHY_AFTER: Duration = Duration::from_secs(120);

/// Why a feeder ended.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct FeederError(
    /// What a person reads.
    pub String,
);

impl From<homeostat_store::Error> for FeederError {
    fn from(error: homeostat_store::Error) -> Self {
        Self(error.to_string())
    }
}

/// Why a key was not put on the queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum IntakeError {
    /// No resource that the controller manages can have it: its kind is another one, or lives elsewhere.
    #[error("no resource that the controller manages can have it")]
    OtherKind,
    /// The controller is ending.
    #[error("the queue is closed")]
    Closed,
    /// The queue, or all queues of the host, have as many keys as they may have, and this is another one. [`Intake::room`] waits.
    #[error("limit keys: the queue has as many keys as it may have")]
    Full,
}

/// Puts keys on one controller's queue.
#[async_trait]
pub trait Feeder: Send + Sync + 'static {
    /// Returns what it is called in events and logs. Unique in its controller.
    fn name(&self) -> &str;

    /// Returns whether nothing may be reconciled before it said [`Intake::listed`].
    fn lists_first(&self) -> bool {
        false
    }

    /// Feeds until there is nothing more to feed.
    ///
    /// *Cancel safety*: the future is dropped when the controller is removed or the host stops.
    ///
    /// # Errors
    /// Whatever keeps it from going on. It is told in an event, and the feeder is run again after a while.
    async fn run(&self, intake: &Intake) -> Result<(), FeederError>;
}

/// Where a feeder puts its keys.
#[derive(Clone)]
pub struct Intake {
    deletions: Arc<SuspendFilter>,
    audience: Arc<dyn Audience>,
    manages: ManagedKind,
    barrier: SyncBarrier,
    id: FeederId,
    /// Whose it is, and where that is told.
    told: Option<(Arc<str>, Arc<Context>)>,
}

impl Intake {
    pub(crate) fn new(
        deletions: Arc<SuspendFilter>,
        audience: Arc<dyn Audience>,
        manages: ManagedKind,
        gate: SyncBarrier,
        ticket: FeederId,
    ) -> Self {
        Self { deletions, audience, manages, barrier: gate, id: ticket, told: None }
    }

    /// Returns the same, which tells by events of the controller when keys find no room.
    pub(crate) fn telling(self, controller: Arc<str>, context: Arc<Context>) -> Self {
        Self { told: Some((controller, context)), ..self }
    }

    /// Returns the kind whose keys are wanted.
    pub fn manages(&self) -> &Kind {
        &self.manages.kind
    }

    /// Adds one key. While the controller is suspended but for deletions, the highest priority is that of theirs, and no other key has
    /// it.
    ///
    /// # Errors
    /// [`IntakeError`]; [`IntakeError::OtherKind`] is for every key that no managed resource can have: also one without a namespace where the kind
    /// lives in namespaces, and one with a namespace where it does not. With [`IntakeError::Full`] the feeder has to come back to what it was
    /// about to tell: wait for [`Intake::room`], or tell it all again after a while.
    pub fn add(&self, key: Key, priority: Priority) -> Result<(), IntakeError> {
        self.put(key, priority, |queue, key, priority| queue.add(key, priority))
    }

    /// Adds one key that becomes due after `delay`, counted from now. Otherwise as [`Intake::add`].
    ///
    /// # Errors
    /// As [`Intake::add`].
    pub fn add_after(&self, key: Key, delay: Duration, priority: Priority) -> Result<(), IntakeError> {
        self.put(key, priority, |queue, key, priority| queue.add_after(key, delay, priority))
    }

    /// Adds one key for a second look, which is no event: a key that waits or is parked stays as it is. Otherwise as [`Intake::add`].
    ///
    /// # Errors
    /// As [`Intake::add`].
    pub fn resync(&self, key: Key, priority: Priority) -> Result<(), IntakeError> {
        self.put(key, priority, |queue, key, priority| queue.add_without_event(key, priority, false))
    }

    /// Waits until there is room for new keys again, enough to be worth a look at what was refused.
    ///
    /// *Cancel safety*: it takes nothing.
    pub async fn wait_for_room(&self) {
        RoomWait::begin().wait(|| vec![self.place()]).await;
        self.mark_healthy();
    }

    fn place(&self) -> Capacity {
        self.deletions.place()
    }

    fn put(
        &self,
        key: Key,
        priority: Priority,
        add: impl FnOnce(&Queue<Key>, Key, Priority) -> Result<AddOutcome, AddError>,
    ) -> Result<(), IntakeError> {
        let key = self.ours(key).ok_or(IntakeError::OtherKind)?;
        self.deletions.add(key, priority, add).map(drop).map_err(|refused| match refused {
            AddError::Closed => IntakeError::Closed,
            AddError::Full => IntakeError::Full,
        })
    }

    /// Tells that keys found no room, by an event and in the status of the controller.
    pub(crate) fn report_full(&self) {
        let feeder = &self.id.feeder;
        let why = "limit keys: the queue has as many keys as it may have, and newer ones are refused; it comes back to them when there is room";
        self.barrier.mark_failed(&self.id, why);
        self.emit_event(Severity::Warning, "LimitExceeded", &format!("{feeder}: {why}"));
    }

    fn emit_event(&self, severity: Severity, reason: &str, message: &str) {
        if let Some((controller, context)) = &self.told {
            context.event(controller, None, severity, reason, message);
        }
    }

    /// Returns whether the controller's grants let it get this key because `of` has changed.
    fn may_learn(&self, key: &Key, of: &Key, reveals: Disclosure) -> bool {
        self.audience.may_learn(key, of, reveals)
    }

    /// Takes note of what becomes of a managed resource.
    fn record_deletion(&self, key: &Key, revision: Revision, fate: DeletionState) {
        if let Some(key) = self.ours(key.clone()) {
            self.deletions.record(&key, revision, fate);
        }
    }

    /// Returns the key in the version that the controller manages: what differs in the version alone is one resource, and one key.
    fn ours(&self, key: Key) -> Option<Key> {
        if self.refusal(&key).is_some() {
            return None;
        }
        let kind = &self.manages.kind;
        Some(if key.kind() == kind { key } else { Key::new(kind.clone(), key.namespace(), key.name()) })
    }

    /// Says why a key is not wanted: it can be none of a managed resource, or the grants of whoever would get it cover no watch of it.
    fn refusal(&self, key: &Key) -> Option<String> {
        let ManagedKind { kind, namespaced } = &self.manages;
        if !key.kind().same_type(kind) {
            Some(format!("a key of {}, and not of {kind}", key.kind()))
        } else if !self.manages.has_place_of(key) {
            Some(if *namespaced {
                format!("a key of {kind} without a namespace, and its resources live in namespaces")
            } else {
                format!("a key of {kind} with a namespace, and its resources live outside of namespaces")
            })
        } else if !self.audience.may_get(key) {
            let place = key.namespace();
            Some(format!("a key of {kind} in namespace {place:?}, which no grant lets the controller watch"))
        } else {
            None
        }
    }

    /// Says that the first full list is on the queue. Saying it again does nothing.
    pub fn listed(&self) {
        self.barrier.mark_synced(&self.id);
    }

    fn mark_failed(&self, error: &FeederError) {
        self.barrier.mark_failed(&self.id, &error.0);
    }

    fn mark_healthy(&self) {
        self.barrier.mark_healthy(&self.id);
    }
}

/// Adds keys that a guest answered. Those that no managed resource can have, and those that its grants cover no watch of, are dropped, and told
/// to `refuse`. Returns whether there was room for all others; that there was none is told.
///
/// `of`: the resource whose document they were made of. Where another version would get a key, it must be one that may read that.
fn add_answered(
    intake: &Intake,
    keys: impl IntoIterator<Item = Key>,
    of: Option<&Key>,
    asked: &str,
    refuse: impl Fn(&str),
) -> bool {
    let mut fits = true;
    for key in keys {
        if let Some(refusal) = intake.refusal(&key) {
            refuse(&format!("{asked} answered {refusal}: it is dropped"));
        } else if of.is_none_or(|of| intake.may_learn(&key, of, Disclosure::Content)) {
            // Behind one that was refused there may be some that are on the queue already.
            fits &= intake.add(key, Priority::NORMAL) != Err(IntakeError::Full);
        }
    }
    if fits {
        intake.mark_healthy()
    } else {
        intake.report_full()
    }
    fits
}

/// Runs a feeder, and runs it again after it failed, until it ends or `stop` is cancelled.
pub(crate) async fn supervise(
    feeder: Arc<dyn Feeder>,
    intake: Intake,
    controller: Arc<str>,
    context: Arc<Context>,
    stop: CancellationToken,
) {
    let mut failures = 0;
    loop {
        let started = Instant::now();
        let ended = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            ended = AssertUnwindSafe(feeder.run(&intake)).catch_unwind() => {
                ended.unwrap_or_else(|_| Err(FeederError("it panicked".into())))
            }
            never = well_after_a_while(&intake), if failures > 0 => match never {},
        };
        let Err(error) = ended else { break };
        if started.elapsed() >= HEALTHY_AFTER {
            failures = 0;
        }
        let delay = restart_delay(failures);
        failures += 1;
        intake.mark_failed(&error);
        let message = format!("{} failed: {error}", feeder.name());
        context.event(&controller, None, Severity::Warning, "FeederFailed", &message);
        tracing::warn!(%controller, feeder = feeder.name(), %error, ?delay, "feeder failed, it is started again after a while");
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            () = tokio::time::sleep(delay) => {}
        }
    }
    intake.mark_healthy();
}

/// Notes that a feeder is well when it has not failed for a while, and never ends.
async fn well_after_a_while(intake: &Intake) -> Infallible {
    tokio::time::sleep(WELL_AFTER).await;
    intake.mark_healthy();
    std::future::pending().await
}

/// Returns the wait after this many failures before the last one. Doubles; never above the cap.
fn restart_delay(failures_before: u32) -> Duration {
    let (base, max) = RESTART;
    base.saturating_mul(2_u32.saturating_pow(failures_before)).min(max)
}

#[cfg(test)]
pub(crate) mod tests;
