//! Changes of a queued key: its due time, its band, its failures, or its end.

use std::time::Duration;

use super::{State, is_live};
use crate::{
    ChangeOutcome, Key, Moment, Priority,
    item::{ItemState, NextRun},
};

impl<K: Key> State<K> {
    /// Moves a queued key's due time to `delay` from `now`, earlier or later. For a running key, moves its
    /// next run. A parked key stays parked.
    pub fn postpone(&mut self, now: Moment, key: &K, delay: Duration) -> ChangeOutcome {
        let now = self.tick(now);
        let due = now.after(delay);
        let Some(slot) = self.find(key) else { return ChangeOutcome::Absent };
        match &mut self.slab[slot].stage {
            ItemState::Waiting { is_floor, .. } => {
                let is_floor = *is_floor;
                self.reschedule(slot, due, is_floor);
            }
            ItemState::Ready { .. } => self.reschedule(slot, due, false),
            ItemState::Running { dirty: Some(dirty), .. } => {
                (dirty.is_floor, dirty.due) = (dirty.is_floor && dirty.due > now, due);
            }
            ItemState::Running { dirty: None, .. } | ItemState::Parked => return ChangeOutcome::Unchanged,
        }
        self.stop_if_drained();
        ChangeOutcome::Done
    }

    /// Removes a key from the queue, parked or not, and resets its failures. For a running key, cancels its
    /// next run.
    pub fn cancel(&mut self, now: Moment, key: &K) -> ChangeOutcome {
        self.tick(now);
        let Some(slot) = self.find(key) else { return ChangeOutcome::Absent };
        let outcome = self.cancel_slot(slot);
        self.stop_if_drained();
        outcome
    }

    /// Cancels all keys for which `keep` is false, as [`State::cancel`] does. Returns how many.
    pub fn retain(&mut self, now: Moment, keep: impl Fn(&K) -> bool) -> usize {
        self.tick(now);
        let slots: Vec<u32> = self.slab.iter().filter(|(_, item)| !keep(&item.key)).map(|(slot, _)| slot).collect();
        let cancelled = slots.into_iter().filter(|slot| self.cancel_slot(*slot) == ChangeOutcome::Done).count();
        self.stop_if_drained();
        cancelled
    }

    fn cancel_slot(&mut self, slot: u32) -> ChangeOutcome {
        match &mut self.slab[slot].stage {
            ItemState::Waiting { .. } | ItemState::Ready { .. } | ItemState::Parked => {
                self.detach(slot);
                self.remove(slot);
            }
            ItemState::Running { dirty: dirty @ Some(_), .. } => {
                *dirty = None;
                self.dirty -= 1;
            }
            ItemState::Running { dirty: None, .. } => return ChangeOutcome::Unchanged,
        }
        self.counters.cancelled += 1;
        ChangeOutcome::Done
    }

    /// Makes a waiting, ready or parked key ready in the highest band and discards its delay; failures are
    /// kept. For a running key, expedites its next run.
    pub fn expedite(&mut self, now: Moment, key: &K) -> ChangeOutcome {
        let now = self.tick(now);
        let Some(slot) = self.find(key) else { return ChangeOutcome::Absent };
        let item = &mut self.slab[slot];
        match &mut item.stage {
            ItemState::Waiting { .. } | ItemState::Parked => {
                item.without_event = false;
                item.priority = Priority::HIGHEST;
                self.reschedule(slot, now, false);
            }
            ItemState::Ready { .. } if item.priority == Priority::HIGHEST => return ChangeOutcome::Unchanged,
            ItemState::Ready { .. } => self.change_band(slot, Priority::HIGHEST),
            ItemState::Running { dirty: Some(dirty), .. } => *dirty = NextRun::new(now, Priority::HIGHEST),
            ItemState::Running { dirty: None, .. } => return ChangeOutcome::Unchanged,
        }
        ChangeOutcome::Done
    }

    /// Moves a key to another band, up or down, in any state. A ready key goes to the tail of the new band;
    /// in its own band it keeps its place. For a running key, moves its next run too.
    pub fn prioritize(&mut self, now: Moment, key: &K, priority: Priority) -> ChangeOutcome {
        self.tick(now);
        let Some(slot) = self.find(key) else { return ChangeOutcome::Absent };
        let item = &mut self.slab[slot];
        let stays = item.priority == priority;
        match &mut item.stage {
            ItemState::Running { dirty: Some(dirty), .. } if dirty.priority != priority => dirty.priority = priority,
            _ if stays => return ChangeOutcome::Unchanged,
            ItemState::Ready { .. } => {
                self.change_band(slot, priority);
                self.stop_if_drained();
                return ChangeOutcome::Done;
            }
            ItemState::Waiting { .. } | ItemState::Running { .. } | ItemState::Parked => {}
        }
        self.slab[slot].priority = priority;
        ChangeOutcome::Done
    }

    /// Resets the failures of a key. A parked or waiting key is ready now, in its band. A running key runs
    /// once more.
    pub fn retry(&mut self, now: Moment, key: &K) -> ChangeOutcome {
        let now = self.tick(now);
        let Some(slot) = self.find(key) else { return ChangeOutcome::Absent };
        let item = &mut self.slab[slot];
        let priority = item.priority;
        match &mut item.stage {
            ItemState::Running { .. } if self.phase.is_closed() => return ChangeOutcome::Unchanged,
            // Even if delays are floors.
            ItemState::Running { dirty: Some(dirty), .. } => {
                *dirty = NextRun::new(dirty.due.min(now), dirty.priority.max(priority));
            }
            ItemState::Running { dirty: None, .. } => {
                self.add_known(slot, NextRun::new(now, priority));
            }
            ItemState::Ready { .. } => self.forget_failures(slot),
            ItemState::Waiting { .. } | ItemState::Parked => {
                self.forget_failures(slot);
                self.slab[slot].without_event = false;
                self.reschedule(slot, now, false);
            }
        }
        ChangeOutcome::Done
    }

    /// Detaches a waiting, ready or parked entry; the caller puts it in another place at once.
    pub(super) fn detach(&mut self, slot: u32) {
        let item = &mut self.slab[slot];
        let priority = item.priority;
        match item.stage {
            ItemState::Waiting { .. } => {
                item.stage = ItemState::Parked;
                let slab = &self.slab;
                self.timers.mark_dead(|timer| is_live(slab, timer));
            }
            ItemState::Ready { .. } => self.bands.remove(&mut self.slab, slot, priority),
            ItemState::Parked => self.parked.remove(&mut self.slab, slot),
            ItemState::Running { .. } => unreachable!("a running key stays where it is until its claim ends"),
        }
    }

    /// Gives a waiting, ready or parked entry another due time. Its priority names its band; the priority of
    /// a ready entry must not have changed. `is_floor`: no add makes it due earlier.
    pub(super) fn reschedule(&mut self, slot: u32, due: Moment, is_floor: bool) {
        self.detach(slot);
        self.enqueue(slot, due, is_floor);
    }

    /// Moves a ready entry to the tail of another band. Its ready time stays.
    pub(super) fn change_band(&mut self, slot: u32, priority: Priority) {
        let old = self.slab[slot].priority;
        self.bands.remove(&mut self.slab, slot, old);
        self.slab[slot].priority = priority;
        self.bands.push(&mut self.slab, slot, priority);
    }
}
