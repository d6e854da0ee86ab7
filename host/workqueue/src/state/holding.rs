//! Suspends the queue, or all of it but its highest bands.

use super::State;
use crate::{Key, Moment, Priority};

/// The part of the queue that is suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Suspension {
    Nothing,
    /// The bands below this one.
    Below(Priority),
    Everything,
}

impl<K: Key> State<K> {
    /// Suspends the queue until [`State::resume`]: no key is handed out. Adds are kept and due times pass.
    pub fn suspend(&mut self, now: Moment) {
        self.set_suspension(now, Suspension::Everything);
    }

    /// As [`State::suspend`], except for the keys in the band `floor` and above. These are handed out, the
    /// highest band first. No band ages meanwhile, and none counts as passed over.
    pub fn suspend_below(&mut self, now: Moment, floor: Priority) {
        self.set_suspension(now, Suspension::Below(floor));
    }

    fn set_suspension(&mut self, now: Moment, held: Suspension) {
        self.tick(now);
        self.suspension = held;
        self.stop_if_drained();
    }

    /// Ends a suspension.
    pub fn resume(&mut self, now: Moment) {
        self.set_suspension(now, Suspension::Nothing);
    }

    /// Returns whether the queue is suspended, in whole or in part.
    pub fn is_suspended(&self) -> bool {
        self.suspension != Suspension::Nothing
    }

    /// Returns how many ready keys are not suspended.
    #[inline]
    pub(super) fn claimable_ready(&self) -> usize {
        match self.suspension {
            Suspension::Nothing => self.bands.len(),
            Suspension::Below(floor) => self.bands.len_from(floor),
            Suspension::Everything => 0,
        }
    }
}
