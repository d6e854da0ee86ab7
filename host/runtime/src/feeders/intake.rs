//! The intake: the way of a key from a feeder to the queue. It decides which keys enter, in which band, and
//! from when on workers may claim them.

use std::sync::Arc;
use std::time::Duration;

use homeostat_component::{Disclosure, Severity};
use homeostat_store::{Key, Kind, Revision};
use homeostat_workqueue::{AddError, AddOutcome, Delay, Priority, Queue};
use jiff::Timestamp;

use super::{Capacity, DeletionState, FeederError, FeederId, RoomWait, SuspendFilter, SyncBarrier};
use crate::context::Context;
use crate::feeder_tally::FeederTally;
use crate::mapping::ManagedKind;
use crate::slot::Audience;

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

/// The way from a feeder to the queue.
#[derive(Clone)]
pub struct Intake {
    pub(super) deletions: Arc<SuspendFilter>,
    audience: Arc<dyn Audience>,
    manages: ManagedKind,
    barrier: SyncBarrier,
    id: FeederId,
    /// The controller, and where to record its events.
    told: Option<(Arc<str>, Arc<Context>)>,
    /// The counts of a declared feeder.
    tally: Option<Arc<FeederTally>>,
}

impl Intake {
    pub(crate) fn new(
        deletions: Arc<SuspendFilter>,
        audience: Arc<dyn Audience>,
        manages: ManagedKind,
        gate: SyncBarrier,
        ticket: FeederId,
    ) -> Self {
        Self { deletions, audience, manages, barrier: gate, id: ticket, told: None, tally: None }
    }

    /// Returns the same intake, which records an event of the controller when the queue is full.
    pub(crate) fn telling(self, controller: Arc<str>, context: Arc<Context>) -> Self {
        Self { told: Some((controller, context)), ..self }
    }

    /// Returns the same intake, which counts for the status of a declared feeder.
    pub(crate) fn counting(self, tally: Option<Arc<FeederTally>>) -> Self {
        Self { tally, ..self }
    }

    /// Records that the feeder adds keys from now on.
    pub(super) fn note_run(&self, now: Timestamp) {
        self.count(|tally| tally.ran(now));
    }

    /// Records when the feeder adds keys next.
    pub(super) fn note_next(&self, next: Timestamp) {
        self.count(|tally| tally.scheduled(next));
    }

    /// Counts missed runs of a schedule.
    pub(super) fn note_missed(&self, runs: u64) {
        self.count(|tally| tally.missed(runs));
    }

    /// Counts a request without a valid signature or token.
    pub(super) fn note_denied(&self) {
        self.count(FeederTally::denied);
    }

    /// Counts messages that were dropped because too many waited.
    pub(super) fn note_lost(&self, messages: u64) {
        self.count(|tally| tally.lost(messages));
    }

    /// Records the number of keys in the inbox.
    pub(super) fn note_inbox(&self, keys: u64) {
        self.count(|tally| tally.stored(keys));
    }

    /// Counts a message for whose keys the queue has no room.
    pub(super) fn note_full(&self) {
        self.count(FeederTally::full);
    }

    /// Counts a message that makes no key.
    pub(super) fn note_rejected(&self) {
        self.count(FeederTally::rejected);
    }

    fn count(&self, what: impl FnOnce(&FeederTally)) {
        if let Some(tally) = &self.tally {
            what(tally);
        }
    }

    /// Returns the managed kind.
    pub fn manages(&self) -> &Kind {
        &self.manages.kind
    }

    /// Returns whether this host may queue a key. It drops the keys of which another host has the lease.
    pub fn has(&self, key: &Key) -> bool {
        self.audience.has(key)
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

    /// Adds one key that becomes due after `delay`. If the delay is a floor, no event shortens it. Otherwise as
    /// [`Intake::add`].
    ///
    /// # Errors
    /// As [`Intake::add`].
    pub fn add_delayed(&self, key: Key, delay: Delay, priority: Priority) -> Result<(), IntakeError> {
        self.put(key, priority, |queue, key, priority| queue.add_delayed(key, delay, priority))
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

    pub(super) fn place(&self) -> Capacity {
        self.deletions.place()
    }

    fn put(
        &self,
        key: Key,
        priority: Priority,
        add: impl FnOnce(&Queue<Key>, Key, Priority) -> Result<AddOutcome, AddError>,
    ) -> Result<(), IntakeError> {
        let Some(key) = self.ours(key) else {
            self.count(FeederTally::rejected);
            return Err(IntakeError::OtherKind);
        };
        // Its holder has the same events. This host lists when it becomes the holder.
        if !self.audience.has(&key) {
            return Ok(());
        }
        match self.deletions.add(key, priority, add) {
            Ok(_) => {
                self.count(FeederTally::added);
                Ok(())
            }
            Err(AddError::Closed) => Err(IntakeError::Closed),
            Err(AddError::Full) => {
                self.count(FeederTally::full);
                Err(IntakeError::Full)
            }
        }
    }

    /// Reports a full queue in an event and in the controller's status.
    pub(crate) fn report_full(&self) {
        let feeder = &self.id.feeder;
        let why = "limit keys: the queue is full and refuses new keys; the feeder adds them again when there is room";
        self.barrier.mark_failed(&self.id, why);
        self.count(|tally| tally.trouble(why));
        self.emit_event(Severity::Warning, "LimitExceeded", &format!("{feeder}: {why}"));
    }

    pub(super) fn emit_event(&self, severity: Severity, reason: &str, message: &str) {
        if let Some((controller, context)) = &self.told {
            context.event(controller, None, severity, reason, message);
        }
    }

    /// Returns whether the grants of the controller let it receive this key because `of` has changed.
    pub(super) fn may_learn(&self, key: &Key, of: &Key, reveals: Disclosure) -> bool {
        self.audience.may_learn(key, of, reveals)
    }

    /// Records whether a managed resource is being deleted.
    pub(super) fn record_deletion(&self, key: &Key, revision: Revision, fate: DeletionState) {
        if let Some(key) = self.ours(key.clone()) {
            self.deletions.record(&key, revision, fate);
        }
    }

    /// Lets the key of a managed resource that is gone run while only deletions may run.
    pub(super) fn mark_deleted(&self, key: &Key) {
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
    pub(super) fn refusal(&self, key: &Key) -> Option<String> {
        self.manages.refusal(key).or_else(|| {
            let (kind, place) = (&self.manages.kind, key.namespace());
            (!self.audience.may_get(key))
                .then(|| format!("a key of {kind} in namespace {place:?}, which no grant lets the controller watch"))
        })
    }

    /// Reports that the first full list is queued. Repeating it does nothing.
    pub fn listed(&self) {
        self.barrier.mark_synced(&self.id);
    }

    pub(super) fn mark_failed(&self, error: &FeederError) {
        self.barrier.mark_failed(&self.id, &error.0);
        self.count(|tally| tally.failed(&error.0));
    }

    pub(super) fn mark_healthy(&self) {
        self.barrier.mark_healthy(&self.id);
        self.count(FeederTally::healthy);
    }
}

/// Adds keys that a guest returned. Drops keys that no managed resource can have or that no grant covers, and
/// reports them to `refuse`. Returns whether the queue had room for all others; a full queue is reported.
///
/// `of` is the resource whose document the keys were made from. The version that would get a key must be
/// allowed to read it.
pub(super) fn add_answered(
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
