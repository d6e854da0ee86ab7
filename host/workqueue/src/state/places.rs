//! Where an entry stands, and how it comes from one place to another.

use super::{State, is_live};
use crate::item::Place;
use crate::{Key, Moment, Priority};

impl<K: Key> State<K> {
    /// Puts an entry that is nowhere in its band or, if it is not due yet, in the timers.
    #[inline]
    pub(super) fn place(&mut self, slot: u32, due: Moment) {
        if due <= self.now {
            let item = &mut self.slab[slot];
            item.place = Place::Ready { since: due };
            let priority = item.priority;
            self.bands.push(&mut self.slab, slot, priority);
        } else {
            let order = self.timers.push(due, slot);
            self.slab[slot].place = Place::Waiting { due, order };
        }
    }

    /// Takes a waiting, ready or parked entry from where it is; the caller puts it elsewhere at once.
    pub(super) fn detach(&mut self, slot: u32) {
        let item = &mut self.slab[slot];
        let priority = item.priority;
        match item.place {
            Place::Waiting { .. } => {
                item.place = Place::Parked;
                let slab = &self.slab;
                self.timers.forget(|timer| is_live(slab, timer));
            }
            Place::Ready { .. } => self.bands.leave(&mut self.slab, slot, priority),
            Place::Parked => self.parked.leave(&mut self.slab, slot),
            Place::Running { .. } => unreachable!("a running key stays where it is until its claim ends"),
        }
    }

    /// Gives a waiting, ready or parked entry another due time. Its band is the one that its priority names; of a ready
    /// one that must not have changed.
    pub(super) fn move_to(&mut self, slot: u32, due: Moment) {
        self.detach(slot);
        self.place(slot, due);
    }

    /// Moves a ready entry to the tail of another band. It has been ready since it was.
    pub(super) fn change_band(&mut self, slot: u32, priority: Priority) {
        let old = self.slab[slot].priority;
        self.bands.leave(&mut self.slab, slot, old);
        self.slab[slot].priority = priority;
        self.bands.push(&mut self.slab, slot, priority);
    }

    /// Forgets an entry that is nowhere.
    #[inline]
    pub(super) fn remove(&mut self, slot: u32) {
        self.give_error_back(slot);
        self.share.give_key_back();
        self.index.remove(self.slab[slot].hash, slot);
        self.slab.remove(slot);
    }
}
