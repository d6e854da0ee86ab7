//! The rules of the queue, as a pure state machine: no clock, no randomness of its own, no waiting.
//!
//! Every method takes the present as its first argument; a present that lies before an earlier one is taken for that.
//! Keys whose due time has come become ready first, in the order of their due times, whatever the method. What a
//! method did to the sleeping claimers' business is read afterwards from [`State::claimable`], [`State::next_due`] and
//! [`State::phase`].
//!
//! The sibling modules hold the rest of it: [`finish`](State::finish), closing, suspending, where entries stand, their failures, and what can be asked.
//!
//! **Invariants.** An entry is in exactly one place: the timers, the line of its band, the line of the running or of
//! the parked ones. Its key is in the index as long as the entry exists. No entry exists for a key that has nothing to
//! do and has not failed.

mod closing;
mod finish;
mod holding;
mod inspect;
mod places;
mod trouble;

use std::{sync::Arc, time::Duration};

use crate::{
    Added, Counters, DuringDelay, Key, Moment, Options, Phase, Priority, Refused, Room, Verdict,
    bands::{Bands, Line},
    index::{Hash, Index},
    item::{Dirty, Item, Place},
    room::Share,
    slab::Slab,
    timers::{Timer, Timers},
};

use closing::Closing;
use holding::Held;

/// All keys of one queue and where they are.
pub struct State<K> {
    options: Options,
    /// The latest present that was told.
    now: Moment,
    slab: Slab<Item<K>>,
    index: Index,
    timers: Timers,
    bands: Bands,
    /// In the order of claiming, so the first has run longest.
    running: Line,
    parked: Line,
    /// How many of the running ones are dirty.
    dirty: usize,
    /// The sum of the nanoseconds at which the running ones were claimed.
    running_since: u128,
    held: Held,
    phase: Phase,
    closing: Closing<K>,
    counters: Counters,
    share: Share,
}

/// Proof that one worker alone holds a key; [`State::finish`] or [`State::give_back`] takes it.
///
/// It belongs to the state that handed it out; another one panics on it or confuses keys.
#[derive(Debug)]
#[must_use = "a key that is neither finished nor given back stays running for ever"]
pub struct Claimed<K> {
    pub(crate) slot: u32,
    /// Which key.
    pub key: K,
    /// Its failures in a row so far.
    pub failures: u32,
    /// The band it was in.
    pub priority: Priority,
    /// How long it was ready.
    pub queued_for: Duration,
    /// Nothing but a second look asked for this run.
    pub is_look: bool,
}

impl<K: Key> State<K> {
    /// Returns a queue without keys.
    pub fn new(options: Options) -> State<K> {
        State::with(options, Share::of(None))
    }

    /// Returns a queue without keys that shares the room for them with others.
    pub fn within(room: Arc<Room>, options: Options) -> State<K> {
        State::with(options, Share::of(Some(room)))
    }

    fn with(options: Options, share: Share) -> State<K> {
        State {
            options,
            now: Moment::ZERO,
            slab: Slab::new(),
            index: Index::new(),
            timers: Timers::new(),
            bands: Bands::new(),
            running: Line::new(),
            parked: Line::new(),
            dirty: 0,
            running_since: 0,
            held: Held::Nothing,
            phase: Phase::Open,
            closing: Closing::default(),
            counters: Counters::default(),
            share,
        }
    }

    /// Changes the settings. Due times and bands of queued keys stay as they are.
    pub fn configure(&mut self, options: Options) {
        self.options = options;
    }

    /// Adds a key that is to run now.
    ///
    /// # Errors
    /// [`Refused::Closed`] when the queue takes no new keys; while it drains, keys that are ready or running still merge.
    /// [`Refused::Full`] when there is no room for one more key.
    pub fn add(&mut self, now: Moment, key: K, priority: Priority) -> Result<Added, Refused> {
        self.add_with(|| now, key, priority)
    }

    /// As [`State::add`], for those who pay for the present: it is asked for only when the add changes more than a
    /// counter, and then once.
    ///
    /// # Errors
    /// As [`State::add`].
    pub fn add_with(&mut self, now: impl FnOnce() -> Moment, key: K, priority: Priority) -> Result<Added, Refused> {
        let hash = self.index.hash(&key);
        let slot = self.index.find(hash, |slot| self.slab[slot].key == key);
        if slot.is_some_and(|slot| self.absorbs(slot, priority)) && !self.phase.is_closed() {
            self.counters.merges += 1;
            return Ok(Added::Merged);
        }
        let due = self.tick(now());
        self.add_due(slot, hash, key, due, priority, false)
    }

    /// Says whether an entry has a run queued that comes no later than one that is added now.
    fn absorbs(&self, slot: u32, priority: Priority) -> bool {
        let item = &self.slab[slot];
        match item.place {
            Place::Ready { .. } => item.priority >= priority && !item.is_look,
            Place::Running { dirty: Some(dirty), .. } => {
                dirty.due <= self.now && dirty.priority >= priority && !dirty.is_look
            }
            _ => false,
        }
    }

    /// Adds a key that is to run after `delay`, counted from `now`.
    ///
    /// # Errors
    /// As [`State::add`]; while the queue drains, every delay is refused.
    pub fn add_after(&mut self, now: Moment, key: K, delay: Duration, priority: Priority) -> Result<Added, Refused> {
        let due = self.tick(now).after(delay);
        let hash = self.index.hash(&key);
        let slot = self.index.find(hash, |slot| self.slab[slot].key == key);
        self.add_due(slot, hash, key, due, priority, false)
    }

    fn add_due(
        &mut self,
        slot: Option<u32>,
        hash: Hash,
        key: K,
        due: Moment,
        priority: Priority,
        is_look: bool,
    ) -> Result<Added, Refused> {
        self.admit(slot, due <= self.now)?;
        let added = match slot {
            Some(slot) => self.add_known(slot, due, priority, is_look),
            None => {
                if !self.share.take_key(self.options.keys_max) {
                    self.counters.refused += 1;
                    return Err(Refused::Full);
                }
                let slot = self.slab.insert(Item::new(key, hash, priority));
                self.index.insert(hash, slot);
                self.slab[slot].is_look = is_look;
                self.place(slot, due);
                self.ready_or(slot, Added::Waiting)
            }
        };
        match added {
            Added::Merged | Added::Held => self.counters.merges += 1,
            Added::Ready if slot.is_some() => self.counters.merges += 1,
            _ => self.counters.adds += 1,
        }
        Ok(added)
    }

    /// Adds a key that is to run now, for a second look, which is no event: a key with a due time keeps that, and only its priority may
    /// rise. A parked key stays parked unless `unpark` says otherwise.
    ///
    /// # Errors
    /// As [`State::add`].
    pub fn look_again(&mut self, now: Moment, key: K, priority: Priority, unpark: bool) -> Result<Added, Refused> {
        let now = self.tick(now);
        let hash = self.index.hash(&key);
        let slot = self.index.find(hash, |slot| self.slab[slot].key == key);
        if let Some(slot) = slot {
            let stays = match self.slab[slot].place {
                Place::Waiting { .. } => true,
                Place::Parked => !unpark,
                _ => false,
            };
            if stays {
                self.admit(Some(slot), false)?;
                let item = &mut self.slab[slot];
                item.priority = item.priority.max(priority);
                self.counters.merges += 1;
                return Ok(Added::Merged);
            }
        }
        self.add_due(slot, hash, key, now, priority, true)
    }

    /// Refuses what a closing queue does not take.
    fn admit(&self, slot: Option<u32>, at_once: bool) -> Result<(), Refused> {
        let known = slot.is_some_and(|slot| !matches!(self.slab[slot].place, Place::Waiting { .. } | Place::Parked));
        match self.phase {
            Phase::Open => Ok(()),
            Phase::Draining if known && at_once => Ok(()),
            Phase::Draining | Phase::Stopped | Phase::Aborted => Err(Refused::Closed),
        }
    }

    fn add_known(&mut self, slot: u32, due: Moment, priority: Priority, is_look: bool) -> Added {
        let hold = self.options.during_delay == DuringDelay::Hold;
        let item = &mut self.slab[slot];
        match &mut item.place {
            Place::Waiting { due: old, .. } => {
                let sooner = due < *old;
                item.priority = item.priority.max(priority);
                if hold {
                    return Added::Held;
                }
                if sooner {
                    self.move_to(slot, due);
                }
                self.ready_or(slot, Added::Merged)
            }
            Place::Ready { .. } => {
                item.is_look &= is_look;
                if priority > item.priority {
                    self.change_band(slot, priority);
                }
                Added::Merged
            }
            Place::Running { dirty: Some(dirty), .. } => {
                dirty.priority = dirty.priority.max(priority);
                dirty.is_look &= is_look;
                if hold && dirty.due > self.now {
                    return Added::Held;
                }
                dirty.due = dirty.due.min(due);
                Added::Merged
            }
            Place::Running { dirty, .. } => {
                *dirty = Some(Dirty { due, priority, is_look });
                self.dirty += 1;
                Added::Dirty
            }
            Place::Parked => {
                item.priority = priority;
                item.is_look = is_look;
                self.move_to(slot, due);
                Added::Unparked
            }
        }
    }

    #[inline]
    fn ready_or(&self, slot: u32, otherwise: Added) -> Added {
        if matches!(self.slab[slot].place, Place::Ready { .. }) { Added::Ready } else { otherwise }
    }

    /// Moves a queued key's due time to `delay` from `now`, sooner or later. Of a running key it moves the run that
    /// follows. A parked key stays parked.
    pub fn postpone(&mut self, now: Moment, key: &K, delay: Duration) -> Verdict {
        let now = self.tick(now);
        let due = now.after(delay);
        let Some(slot) = self.find(key) else { return Verdict::Absent };
        match &mut self.slab[slot].place {
            Place::Waiting { .. } | Place::Ready { .. } => self.move_to(slot, due),
            Place::Running { dirty: Some(dirty), .. } => dirty.due = due,
            Place::Running { dirty: None, .. } | Place::Parked => return Verdict::Unchanged,
        }
        self.wind_up();
        Verdict::Done
    }

    /// Takes a key off the queue, parked or not, and forgets its failures. Of a running key it takes off the run that
    /// follows.
    pub fn cancel(&mut self, now: Moment, key: &K) -> Verdict {
        self.tick(now);
        let Some(slot) = self.find(key) else { return Verdict::Absent };
        match &mut self.slab[slot].place {
            Place::Waiting { .. } | Place::Ready { .. } | Place::Parked => {
                self.detach(slot);
                self.remove(slot);
            }
            Place::Running { dirty: dirty @ Some(_), .. } => {
                *dirty = None;
                self.dirty -= 1;
            }
            Place::Running { dirty: None, .. } => return Verdict::Unchanged,
        }
        self.counters.cancelled += 1;
        self.wind_up();
        Verdict::Done
    }

    /// Makes a waiting, ready or parked key ready in the highest band, whatever delay it has; failures are kept. Of a
    /// running key it expedites the run that follows.
    pub fn expedite(&mut self, now: Moment, key: &K) -> Verdict {
        let now = self.tick(now);
        let Some(slot) = self.find(key) else { return Verdict::Absent };
        let item = &mut self.slab[slot];
        match &mut item.place {
            Place::Waiting { .. } | Place::Parked => {
                item.is_look = false;
                item.priority = Priority::HIGHEST;
                self.move_to(slot, now);
            }
            Place::Ready { .. } if item.priority == Priority::HIGHEST => return Verdict::Unchanged,
            Place::Ready { .. } => self.change_band(slot, Priority::HIGHEST),
            Place::Running { dirty: Some(dirty), .. } => {
                *dirty = Dirty { due: now, priority: Priority::HIGHEST, is_look: false }
            }
            Place::Running { dirty: None, .. } => return Verdict::Unchanged,
        }
        Verdict::Done
    }

    /// Moves a key to another band, up or down, whatever its state: a ready one stands at the tail there, one that is there already stays
    /// where it is. Of a running key it moves the run that follows too.
    pub fn prioritize(&mut self, now: Moment, key: &K, priority: Priority) -> Verdict {
        self.tick(now);
        let Some(slot) = self.find(key) else { return Verdict::Absent };
        let item = &mut self.slab[slot];
        let stays = item.priority == priority;
        match &mut item.place {
            Place::Running { dirty: Some(dirty), .. } if dirty.priority != priority => dirty.priority = priority,
            _ if stays => return Verdict::Unchanged,
            Place::Ready { .. } => {
                self.change_band(slot, priority);
                self.wind_up();
                return Verdict::Done;
            }
            Place::Waiting { .. } | Place::Running { .. } | Place::Parked => {}
        }
        self.slab[slot].priority = priority;
        Verdict::Done
    }

    /// Gives a key a fresh start: its failures are forgotten, and a parked or waiting key is ready now, in its band. A
    /// running key runs once more.
    pub fn retry(&mut self, now: Moment, key: &K) -> Verdict {
        let now = self.tick(now);
        let Some(slot) = self.find(key) else { return Verdict::Absent };
        let item = &mut self.slab[slot];
        let priority = item.priority;
        match &mut item.place {
            Place::Running { .. } if self.phase.is_closed() => return Verdict::Unchanged,
            // Also where delays are floors.
            Place::Running { dirty: Some(dirty), .. } => {
                *dirty = Dirty { due: dirty.due.min(now), priority: dirty.priority.max(priority), is_look: false };
            }
            Place::Running { dirty: None, .. } => {
                self.add_known(slot, now, priority, false);
            }
            Place::Ready { .. } => self.succeed(slot),
            Place::Waiting { .. } | Place::Parked => {
                self.succeed(slot);
                self.slab[slot].is_look = false;
                self.move_to(slot, now);
            }
        }
        Verdict::Done
    }

    /// Hands out the key whose turn it is; `None` when none is ready, or none may be handed out.
    #[inline]
    pub fn claim(&mut self, now: Moment) -> Option<Claimed<K>> {
        let now = self.tick(now);
        if self.claimable() == 0 {
            return None;
        }
        let slot = match self.held {
            Held::Below(floor) => self.bands.pop_from(&mut self.slab, floor)?,
            _ => self.bands.pop(&mut self.slab, self.options.ageing_claims.get())?,
        };
        self.running.push(&mut self.slab, slot);
        self.running_since += u128::from(now.nanos());
        self.counters.claims += 1;
        let item = &mut self.slab[slot];
        let Place::Ready { since } = item.place else { unreachable!("the bands hold ready keys only") };
        item.place = Place::Running { since: now, dirty: None };
        Some(Claimed {
            slot,
            key: item.key.clone(),
            failures: item.failures(),
            priority: item.priority,
            queued_for: now.since(since),
            is_look: item.is_look,
        })
    }

    /// Returns how many keys could be claimed now, by as many workers.
    #[inline]
    pub fn claimable(&self) -> usize {
        if self.phase.is_closed() { 0 } else { self.not_held() }
    }

    /// Returns when the next waiting key is due; `None` when none waits or none would be handed out.
    pub fn next_due(&mut self) -> Option<Moment> {
        if self.held == Held::Everything || self.phase.is_closed() {
            return None;
        }
        let slab = &self.slab;
        self.timers.first(|timer| is_live(slab, timer))
    }

    /// Makes the keys ready whose due time has come, and returns the present.
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
            item.place = Place::Ready { since: timer.due };
            let priority = item.priority;
            self.bands.push(&mut self.slab, timer.slot, priority);
        }
    }

    fn find(&self, key: &K) -> Option<u32> {
        self.index.find(self.index.hash(key), |slot| self.slab[slot].key == *key)
    }
}

/// Says whether a timer is the present one of its entry.
fn is_live<K>(slab: &Slab<Item<K>>, timer: &Timer) -> bool {
    match slab.get(timer.slot).map(|item| item.place) {
        Some(Place::Waiting { due, order }) => due == timer.due && order == timer.order,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
