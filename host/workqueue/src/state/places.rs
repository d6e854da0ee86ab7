//! Where an entry stands, and how it comes from one place to another.

use super::{State, is_live};
use crate::item::ItemState;
use crate::{Key, Moment, Priority};

impl<K: Key> State<K> {
    /// Puts an entry that is nowhere in its band or, if it is not due yet, in the timers.
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

    /// Takes a waiting, ready or parked entry from where it is; the caller puts it elsewhere at once.
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

    /// Gives a waiting, ready or parked entry another due time. Its band is the one that its priority names; of a ready
    /// one that must not have changed.
    pub(super) fn reschedule(&mut self, slot: u32, due: Moment) {
        self.detach(slot);
        self.enqueue(slot, due);
    }

    /// Moves a ready entry to the tail of another band. It has been ready since it was.
    pub(super) fn change_band(&mut self, slot: u32, priority: Priority) {
        let old = self.slab[slot].priority;
        self.bands.remove(&mut self.slab, slot, old);
        self.slab[slot].priority = priority;
        self.bands.push(&mut self.slab, slot, priority);
    }

    /// Forgets an entry that is nowhere.
    #[inline]
    pub(super) fn remove(&mut self, slot: u32) {
        self.release_error(slot);
        self.capacity.release_key();
        self.index.remove(self.slab[slot].hash, slot);
        self.slab.remove(slot);
    }
}
