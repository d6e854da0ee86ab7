//! Feeders: the sources of keys for a queue.
//!
//! A feeder implements one small trait. The runtime has feeders for watches, polls and resyncs; embedders can
//! add their own in Rust. A failed feeder is restarted with backoff and does not affect other feeders.

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

use crate::audience::Audience;
use crate::context::Context;
use crate::mapping::ManagedKind;

mod follow;
mod guest_map;
mod poll;
mod resync;
mod room;
mod suspend_filter;
mod sync_barrier;
mod undelivered;
mod watch;

pub(crate) use follow::FollowFeeder;
pub(crate) use guest_map::{GuestMap, MAPPED_KEYS_MAX, SlotGuest, WAITING_BYTES_MAX};
pub(crate) use poll::PollFeeder;
pub(crate) use resync::ResyncFeeder;
pub(crate) use room::{Capacity, RoomWait};
pub(crate) use suspend_filter::{DELETIONS_BAND, DeletionState, SuspendFilter};
pub(crate) use sync_barrier::{FeederId, SyncBarrier};
pub(crate) use undelivered::UNDELIVERED_KEYS_MAX;
pub(crate) use watch::{KeyMapper, WatchFeeder};

/// The backoff of failed feeders: the first wait, and the maximum.
const RESTART: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));
/// A failed feeder that has not listed since counts as healthy after running this long, which is longer than
/// any wait.
const WELL_AFTER: Duration = Duration::from_secs(40);
/// A feeder that ran this long without failing starts over with the first wait.
const HEALTHY_AFTER: Duration = Duration::from_secs(120);

/// Why a feeder failed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct FeederError(
    /// The reason, for a person.
    pub String,
);

impl From<homeostat_store::Error> for FeederError {
    fn from(error: homeostat_store::Error) -> Self {
        Self(error.to_string())
    }
}

/// Why a key was not queued.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum IntakeError {
    /// No managed resource can have the key: its kind differs, or its namespace does not fit the kind's
    /// scope.
    #[error("no managed resource can have this key")]
    OtherKind,
    /// The controller is ending.
    #[error("the queue is closed")]
    Closed,
    /// The queue, or all queues of the host together, are full, and the key is not queued yet.
    /// [`Intake::wait_for_room`] waits.
    #[error("limit keys: the queue is full")]
    Full,
}

/// A source of keys for one controller's queue.
#[async_trait]
pub trait Feeder: Send + Sync + 'static {
    /// Returns the feeder's name in events and logs, unique within its controller.
    fn name(&self) -> &str;

    /// Returns whether reconciles must wait until the feeder has called [`Intake::listed`].
    fn lists_first(&self) -> bool {
        false
    }

    /// Adds keys until there are no more to add.
    ///
    /// *Cancel safety*: the future is dropped when the controller is removed or the host stops.
    ///
    /// # Errors
    /// Any reason that keeps it from going on. It is reported in an event, and the feeder is restarted with
    /// backoff.
    async fn run(&self, intake: &Intake) -> Result<(), FeederError>;
}

/// The way from a feeder to the queue.
#[derive(Clone)]
pub struct Intake {
    deletions: Arc<SuspendFilter>,
    audience: Arc<dyn Audience>,
    manages: ManagedKind,
    barrier: SyncBarrier,
    id: FeederId,
    /// The controller, and where to record its events.
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

    /// Returns the same intake, which records an event of the controller when the queue is full.
    pub(crate) fn telling(self, controller: Arc<str>, context: Arc<Context>) -> Self {
        Self { told: Some((controller, context)), ..self }
    }

    /// Returns the managed kind.
    pub fn manages(&self) -> &Kind {
        &self.manages.kind
    }

    /// Adds one key. While the controller is suspended except for deletions, the highest priority is reserved
    /// for their keys.
    ///
    /// # Errors
    /// [`IntakeError::OtherKind`] if no managed resource can have the key. That includes a key without a
    /// namespace for a namespaced kind, and a key with one for a cluster-scoped kind. After
    /// [`IntakeError::Full`] the feeder must add the key again later: wait for [`Intake::wait_for_room`], or
    /// list again after a while.
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

    /// Requeues a key without an event: a waiting or parked key stays as it is. Otherwise as [`Intake::add`].
    ///
    /// # Errors
    /// As [`Intake::add`].
    pub fn resync(&self, key: Key, priority: Priority) -> Result<(), IntakeError> {
        self.put(key, priority, |queue, key, priority| queue.add_without_event(key, priority, false))
    }

    /// Waits until the queue has enough room for new keys to retry those that were refused.
    ///
    /// *Cancel safety*: nothing is lost.
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

    /// Reports a full queue in an event and in the controller's status.
    pub(crate) fn report_full(&self) {
        let feeder = &self.id.feeder;
        let why = "limit keys: the queue is full and refuses new keys; the feeder adds them again when there is room";
        self.barrier.mark_failed(&self.id, why);
        self.emit_event(Severity::Warning, "LimitExceeded", &format!("{feeder}: {why}"));
    }

    fn emit_event(&self, severity: Severity, reason: &str, message: &str) {
        if let Some((controller, context)) = &self.told {
            context.event(controller, None, severity, reason, message);
        }
    }

    /// Returns whether the grants of the controller let it receive this key because `of` has changed.
    fn may_learn(&self, key: &Key, of: &Key, reveals: Disclosure) -> bool {
        self.audience.may_learn(key, of, reveals)
    }

    /// Records whether a managed resource is being deleted.
    fn record_deletion(&self, key: &Key, revision: Revision, fate: DeletionState) {
        if let Some(key) = self.ours(key.clone()) {
            self.deletions.record(&key, revision, fate);
        }
    }

    /// Lets the key of a managed resource that is gone run while only deletions may run.
    fn mark_deleted(&self, key: &Key) {
        if let Some(key) = self.ours(key.clone()) {
            self.deletions.mark_deleted(&key);
        }
    }

    /// Returns the key in the managed version of the kind. Keys that differ only in the version are one key.
    fn ours(&self, key: Key) -> Option<Key> {
        if self.refusal(&key).is_some() {
            return None;
        }
        let kind = &self.manages.kind;
        Some(if key.kind() == kind { key } else { Key::new(kind.clone(), key.namespace(), key.name()) })
    }

    /// Returns why a key is rejected: no managed resource can have it, or the version that would reconcile it
    /// has no grant for it.
    fn refusal(&self, key: &Key) -> Option<String> {
        let ManagedKind { kind, namespaced } = &self.manages;
        if !key.kind().same_type(kind) {
            Some(format!("a key of {}, not of {kind}", key.kind()))
        } else if !self.manages.has_place_of(key) {
            Some(if *namespaced {
                format!("a key of {kind} without a namespace, but the kind is namespaced")
            } else {
                format!("a key of {kind} with a namespace, but the kind is cluster-scoped")
            })
        } else if !self.audience.may_get(key) {
            let place = key.namespace();
            Some(format!("a key of {kind} in namespace {place:?}, which no grant lets the controller watch"))
        } else {
            None
        }
    }

    /// Reports that the first full list is queued. Repeating it does nothing.
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

/// Adds keys that a guest returned. Drops keys that no managed resource can have or that no grant covers, and
/// reports them to `refuse`. Returns whether the queue had room for all others; a full queue is reported.
///
/// `of` is the resource whose document the keys were made from. The version that would get a key must be
/// allowed to read it.
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
            // Keys after a refused one may be queued already.
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

/// Runs a feeder and restarts it after failures, until it ends or `stop` is cancelled.
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
        tracing::warn!(%controller, feeder = feeder.name(), %error, ?delay, "feeder failed, it will be restarted");
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            () = tokio::time::sleep(delay) => {}
        }
    }
    intake.mark_healthy();
}

/// Marks a feeder as healthy when it has run for a while without failing. Never returns.
async fn well_after_a_while(intake: &Intake) -> Infallible {
    tokio::time::sleep(WELL_AFTER).await;
    intake.mark_healthy();
    std::future::pending().await
}

/// Returns the wait after this many earlier failures. Doubles up to the cap.
fn restart_delay(failures_before: u32) -> Duration {
    let (base, max) = RESTART;
    base.saturating_mul(2_u32.saturating_pow(failures_before)).min(max)
}

#[cfg(test)]
pub(crate) mod tests;
