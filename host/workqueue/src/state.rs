//! The rules of the queue, as a pure state machine: no clock, no randomness of its own, no waiting.
//!
//! Every method takes the current time as its first argument; a time before an earlier one is replaced by
//! that one. Every method first makes the due keys ready, in the order of their due times. The caller then
//! reads from [`State::claimable`], [`State::next_due`] and [`State::phase`] which claimers to wake.
//!
//! This file has the life of a key: it is added, claimed and finished. The submodules hold the rest: a key
//! that runs again, changes of queued keys, closing, suspending, failures, and queries.
//!
//! **Invariants.** An entry is in exactly one place: the timers, the list of its band, the list of running
//! keys, or the list of parked keys. Its key is in the index for as long as the entry exists. An entry exists
//! only for a key that has a run or has failed.

mod change;
mod closing;
mod holding;
mod inspect;
mod requeue;
mod trouble;

use std::{sync::Arc, time::Duration};

use crate::{
    AddError, AddOutcome, Counters, DuringDelay, FinishOutcome, Key, Moment, Next, Options, Priority, SharedCapacity,
    ShutdownPhase,
    bands::{Bands, IntrusiveList},
    capacity::CapacityUse,
    item::{Hash, Index, Item, ItemState, NextRun},
    slab::Slab,
    timers::{Timer, Timers},
};

use closing::CloseRecord;
use holding::Suspension;

/// All keys of one queue and their states.
pub struct State<K> {
    options: Options,
    /// The latest time that a caller passed.
    now: Moment,
    slab: Slab<Item<K>>,
    index: Index,
    timers: Timers,
    bands: Bands,
    /// In the order of their claims, so the first has run longest.
    running: IntrusiveList,
    parked: IntrusiveList,
    /// Running keys that are dirty.
    dirty: usize,
    /// The sum of the claim times of the running keys, in nanoseconds.
    running_since: u128,
    suspension: Suspension,
    phase: ShutdownPhase,
    closing: CloseRecord<K>,
    counters: Counters,
    capacity: CapacityUse,
}

/// Proof that one worker alone holds a key. [`State::finish`] or [`State::give_back`] consumes it.
///
/// It belongs to the state that issued it; another state panics on it or confuses keys.
#[derive(Debug)]
#[must_use = "a key that is neither finished nor given back stays running for ever"]
pub struct ClaimToken<K> {
    pub(crate) slot: u32,
    /// The key.
    pub key: K,
    /// Its failures in a row so far.
    pub failures: u32,
    /// The band it was in.
    pub priority: Priority,
    /// How long it was ready before the claim.
    pub queued_for: Duration,
    /// Only an add without an event asked for this run.
    pub without_event: bool,
}

impl<K: Key> State<K> {
    /// Returns a queue without keys.
    pub fn new(options: Options) -> State<K> {
        State::with(options, CapacityUse::of(None))
    }

    /// Creates an empty queue that shares its capacity with other queues.
    pub fn within(room: Arc<SharedCapacity>, options: Options) -> State<K> {
        State::with(options, CapacityUse::of(Some(room)))
    }

    fn with(options: Options, share: CapacityUse) -> State<K> {
        State {
            options,
            now: Moment::ZERO,
            slab: Slab::new(),
            index: Index::new(),
            timers: Timers::new(),
            bands: Bands::new(),
            running: IntrusiveList::new(),
            parked: IntrusiveList::new(),
            dirty: 0,
            running_since: 0,
            suspension: Suspension::Nothing,
            phase: ShutdownPhase::Open,
            closing: CloseRecord::default(),
            counters: Counters::default(),
            capacity: share,
        }
    }

    /// Changes the settings. Due times and bands of queued keys stay unchanged.
    pub fn configure(&mut self, options: Options) {
        self.options = options;
    }

    /// Adds a key that runs now.
    ///
    /// # Errors
    /// [`AddError::Closed`] when the queue takes no new keys; while it drains, ready and running keys still
    /// merge. [`AddError::Full`] when there is no capacity for one more key.
    pub fn add(&mut self, now: Moment, key: K, priority: Priority) -> Result<AddOutcome, AddError> {
        self.add_with(|| now, key, priority)
    }

    /// As [`State::add`], for callers whose clock is expensive. Calls `now` at most once, and only if the add
    /// changes more than a counter.
    ///
    /// # Errors
    /// As [`State::add`].
    pub fn add_with(
        &mut self,
        now: impl FnOnce() -> Moment,
        key: K,
        priority: Priority,
    ) -> Result<AddOutcome, AddError> {
        let hash = self.index.hash(&key);
        let slot = self.index.find(hash, |slot| self.slab[slot].key == key);
        if slot.is_some_and(|slot| self.already_covers(slot, priority)) && !self.phase.is_closed() {
            self.counters.merges += 1;
            return Ok(AddOutcome::Merged);
        }
        let due = self.tick(now());
        self.add_run(slot, hash, key, NextRun::new(due, priority))
    }

    /// Returns whether an entry already has a queued run that is no later than an add now.
    fn already_covers(&self, slot: u32, priority: Priority) -> bool {
        let item = &self.slab[slot];
        match item.stage {
            ItemState::Ready { .. } => item.priority >= priority && !item.without_event,
            ItemState::Running { dirty: Some(dirty), .. } => {
                dirty.due <= self.now && dirty.priority >= priority && !dirty.without_event
            }
            _ => false,
        }
    }

    /// Adds a key that runs after `delay`, counted from `now`.
    ///
    /// # Errors
    /// As [`State::add`]; while the queue drains, every delay is refused.
    pub fn add_after(
        &mut self,
        now: Moment,
        key: K,
        delay: Duration,
        priority: Priority,
    ) -> Result<AddOutcome, AddError> {
        let due = self.tick(now).after(delay);
        let hash = self.index.hash(&key);
        let slot = self.index.find(hash, |slot| self.slab[slot].key == key);
        self.add_run(slot, hash, key, NextRun::new(due, priority))
    }

    /// Adds a key that runs after `delay`, counted from `now`, and makes that delay a floor: no later add makes
    /// the key due earlier, even with [`DuringDelay::RunNow`].
    ///
    /// The delay replaces a shorter or longer one that is no floor. It changes neither an earlier floor, so that
    /// repeated calls do not postpone the key for ever, nor a run that is due already. If a run ends with a
    /// longer delay, the longer one wins, and is a floor too.
    ///
    /// Source: simple-controller-runtime's `EnqueueAfter`.
    ///
    /// # Errors
    /// As [`State::add_after`].
    pub fn add_held(
        &mut self,
        now: Moment,
        key: K,
        delay: Duration,
        priority: Priority,
    ) -> Result<AddOutcome, AddError> {
        let due = self.tick(now).after(delay);
        let hash = self.index.hash(&key);
        let slot = self.index.find(hash, |slot| self.slab[slot].key == key);
        let is_floor = due > self.now;
        self.add_run(slot, hash, key, NextRun { is_floor, ..NextRun::new(due, priority) })
    }

    fn add_run(&mut self, slot: Option<u32>, hash: Hash, key: K, run: NextRun) -> Result<AddOutcome, AddError> {
        let NextRun { due, priority, without_event, is_floor } = run;
        self.check_open(slot, due <= self.now)?;
        let added = match slot {
            Some(slot) => self.add_known(slot, run),
            None => {
                if !self.capacity.reserve_key(self.options.keys_max) {
                    self.counters.refused += 1;
                    return Err(AddError::Full);
                }
                let slot = self.slab.insert(Item::new(key, hash, priority));
                self.index.insert(hash, slot);
                self.slab[slot].without_event = without_event;
                self.enqueue(slot, due, is_floor);
                self.ready_or(slot, AddOutcome::Waiting)
            }
        };
        match added {
            AddOutcome::Merged | AddOutcome::Held => self.counters.merges += 1,
            AddOutcome::Ready if slot.is_some() => self.counters.merges += 1,
            _ => self.counters.adds += 1,
        }
        Ok(added)
    }

    /// Adds a key that runs now, without an event. A waiting key keeps its due time; only its priority may
    /// rise. A parked key stays parked unless `unpark` is set.
    ///
    /// # Errors
    /// As [`State::add`].
    pub fn add_without_event(
        &mut self,
        now: Moment,
        key: K,
        priority: Priority,
        unpark: bool,
    ) -> Result<AddOutcome, AddError> {
        let now = self.tick(now);
        let hash = self.index.hash(&key);
        let slot = self.index.find(hash, |slot| self.slab[slot].key == key);
        if let Some(slot) = slot {
            let stays = match self.slab[slot].stage {
                ItemState::Waiting { .. } => true,
                ItemState::Parked => !unpark,
                _ => false,
            };
            if stays {
                self.check_open(Some(slot), false)?;
                let item = &mut self.slab[slot];
                item.priority = item.priority.max(priority);
                self.counters.merges += 1;
                return Ok(AddOutcome::Merged);
            }
        }
        self.add_run(slot, hash, key, NextRun { without_event: true, ..NextRun::new(now, priority) })
    }

    /// Refuses an add that a closing queue does not take.
    fn check_open(&self, slot: Option<u32>, at_once: bool) -> Result<(), AddError> {
        let known =
            slot.is_some_and(|slot| !matches!(self.slab[slot].stage, ItemState::Waiting { .. } | ItemState::Parked));
        match self.phase {
            ShutdownPhase::Open => Ok(()),
            ShutdownPhase::Draining if known && at_once => Ok(()),
            ShutdownPhase::Draining | ShutdownPhase::Stopped | ShutdownPhase::Aborted => Err(AddError::Closed),
        }
    }

    fn add_known(&mut self, slot: u32, run: NextRun) -> AddOutcome {
        let NextRun { due, priority, without_event, is_floor } = run;
        let hold = self.options.during_delay == DuringDelay::Hold;
        let item = &mut self.slab[slot];
        match &mut item.stage {
            ItemState::Waiting { due: old, is_floor: held, .. } => {
                let (moves, held) = (due < *old || is_floor, *held);
                item.priority = item.priority.max(priority);
                if hold || held {
                    return AddOutcome::Held;
                }
                if moves {
                    self.reschedule(slot, due, is_floor);
                }
                self.ready_or(slot, AddOutcome::Merged)
            }
            ItemState::Ready { .. } => {
                item.without_event &= without_event;
                if priority > item.priority {
                    self.change_band(slot, priority);
                }
                AddOutcome::Merged
            }
            ItemState::Running { dirty: Some(dirty), .. } => {
                dirty.priority = dirty.priority.max(priority);
                dirty.without_event &= without_event;
                if (hold || dirty.is_floor) && dirty.due > self.now {
                    return AddOutcome::Held;
                }
                if is_floor && dirty.due > self.now {
                    (dirty.due, dirty.is_floor) = (due, true);
                } else {
                    dirty.due = dirty.due.min(due);
                }
                AddOutcome::Merged
            }
            ItemState::Running { dirty, .. } => {
                *dirty = Some(run);
                self.dirty += 1;
                AddOutcome::Dirty
            }
            ItemState::Parked => {
                item.priority = priority;
                item.without_event = without_event;
                self.reschedule(slot, due, is_floor);
                AddOutcome::Unparked
            }
        }
    }

    #[inline]
    fn ready_or(&self, slot: u32, otherwise: AddOutcome) -> AddOutcome {
        if matches!(self.slab[slot].stage, ItemState::Ready { .. }) { AddOutcome::Ready } else { otherwise }
    }

    /// Claims the next key; `None` when no key is ready and allowed to run.
    #[inline]
    pub fn claim(&mut self, now: Moment) -> Option<ClaimToken<K>> {
        let now = self.tick(now);
        if self.claimable() == 0 {
            return None;
        }
        let slot = match self.suspension {
            Suspension::Below(floor) => self.bands.pop_from(&mut self.slab, floor)?,
            _ => self.bands.pop(&mut self.slab, self.options.ageing_claims.get())?,
        };
        self.running.push(&mut self.slab, slot);
        self.running_since += u128::from(now.nanos());
        self.counters.claims += 1;
        let item = &mut self.slab[slot];
        let ItemState::Ready { since } = item.stage else { unreachable!("the bands hold ready keys only") };
        item.stage = ItemState::Running { since: now, dirty: None };
        Some(ClaimToken {
            slot,
            key: item.key.clone(),
            failures: item.failures(),
            priority: item.priority,
            queued_for: now.since(since),
            without_event: item.without_event,
        })
    }

    /// Ends a run. `next` decides the next state of the key. `random` is any 64 bits, for the jitter of the
    /// backoff.
    pub fn finish(&mut self, now: Moment, claimed: ClaimToken<K>, next: Next, random: u64) -> FinishOutcome {
        self.finish_slot(now, claimed.slot, next, random)
    }

    /// As [`State::finish`], for callers that keep the token.
    pub(crate) fn finish_slot(&mut self, now: Moment, slot: u32, next: Next, random: u64) -> FinishOutcome {
        let now = self.tick(now);
        let (began, dirty) = self.end_run(slot);
        self.closing.finished += u64::from(self.phase != ShutdownPhase::Open);
        if matches!(next, Next::Done) && dirty.is_none() {
            // The common case: no run to merge and no failure to record.
            self.counters.finished.done += 1;
            self.remove(slot);
            self.stop_if_drained();
            return FinishOutcome { state: None, failures: 0, due_in: None, dropped: false };
        }
        self.requeue_after(now, slot, next, (began, dirty), random)
    }

    /// Removes the key from the running keys. Returns the start of its run, and the next run that was added
    /// meanwhile.
    fn end_run(&mut self, slot: u32) -> (Moment, Option<NextRun>) {
        let ItemState::Running { since, dirty } = self.slab[slot].stage else {
            unreachable!("a claimed key is running until its claim ends")
        };
        self.running.remove(&mut self.slab, slot);
        self.running_since -= u128::from(since.nanos());
        self.dirty -= usize::from(dirty.is_some());
        (since, dirty)
    }

    /// Returns how many keys could be claimed now, by as many workers.
    #[inline]
    pub fn claimable(&self) -> usize {
        if self.phase.is_closed() { 0 } else { self.claimable_ready() }
    }

    /// Returns the due time of the next waiting key; `None` when no key waits or none would be handed out.
    pub fn next_due(&mut self) -> Option<Moment> {
        if self.suspension == Suspension::Everything || self.phase.is_closed() {
            return None;
        }
        let slab = &self.slab;
        self.timers.first(|timer| is_live(slab, timer))
    }

    /// Makes the due keys ready, and returns the current time.
    #[inline]
    fn tick(&mut self, now: Moment) -> Moment {
        self.now = self.now.max(now);
        if self.timers.may_be_due(self.now) {
            self.make_ready();
        }
        self.now
    }

    fn make_ready(&mut self) {
        loop {
            let slab = &self.slab;
            let Some(timer) = self.timers.pop_due(self.now, |timer| is_live(slab, timer)) else { return };
            let item = &mut self.slab[timer.slot];
            item.stage = ItemState::Ready { since: timer.due };
            let priority = item.priority;
            self.bands.push(&mut self.slab, timer.slot, priority);
        }
    }

    /// Puts a detached entry in its band or, if it is not due yet, in the timers. `is_floor`: no add makes it due
    /// earlier.
    #[inline]
    fn enqueue(&mut self, slot: u32, due: Moment, is_floor: bool) {
        if due <= self.now {
            let item = &mut self.slab[slot];
            item.stage = ItemState::Ready { since: due };
            let priority = item.priority;
            self.bands.push(&mut self.slab, slot, priority);
        } else {
            let order = self.timers.push(due, slot);
            self.slab[slot].stage = ItemState::Waiting { due, order, is_floor };
        }
    }

    /// Removes a detached entry.
    #[inline]
    fn remove(&mut self, slot: u32) {
        self.release_error(slot);
        self.capacity.release_key();
        self.index.remove(self.slab[slot].hash, slot);
        self.slab.remove(slot);
    }

    fn find(&self, key: &K) -> Option<u32> {
        self.index.find(self.index.hash(key), |slot| self.slab[slot].key == *key)
    }
}

/// Returns whether a timer is the current one of its entry.
fn is_live<K>(slab: &Slab<Item<K>>, timer: &Timer) -> bool {
    match slab.get(timer.slot).map(|item| item.stage) {
        Some(ItemState::Waiting { due, order, .. }) => due == timer.due && order == timer.order,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
