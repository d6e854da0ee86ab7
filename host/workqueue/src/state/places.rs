//! Moves of an entry from one place to another.

use super::{State, is_live};
use crate::item::ItemState;
use crate::{Key, Moment, Priority};

impl<K: Key> State<K> {
    /// Puts a detached entry in its band or, if it is not due yet, in the timers.
    #[inline]
    pub(super) fn enqueue(&mut self, slot: u32, due: Moment) {
        if due <= self.now {
            let item = &mut self.slab[slot];
            item.stage = ItemState::Ready { since: due };
            let priority = item.priority;
            self.bands.push(&mut self.slab, slot, priority);
        } else {
            let order = self.timers.push(due, slot);
            self.slab[slot].stage = ItemState::Waiting { due, order };
        }
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
    /// a ready entry must not have changed.
    pub(super) fn reschedule(&mut self, slot: u32, due: Moment) {
        self.detach(slot);
        self.enqueue(slot, due);
    }

    /// Moves a ready entry to the tail of another band. Its ready time stays.
    pub(super) fn change_band(&mut self, slot: u32, priority: Priority) {
        let old = self.slab[slot].priority;
        self.bands.remove(&mut self.slab, slot, old);
        self.slab[slot].priority = priority;
        self.bands.push(&mut self.slab, slot, priority);
    }

    /// Removes a detached entry.
    #[inline]
    pub(super) fn remove(&mut self, slot: u32) {
        self.release_error(slot);
        self.capacity.release_key();
        self.index.remove(self.slab[slot].hash, slot);
        self.slab.remove(slot);
    }
}
