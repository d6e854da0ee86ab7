//! Suspending the queue, or all of it but its highest bands.

use super::State;
use crate::{Key, Moment, Priority};

/// What is held back by a suspension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Suspension {
    Nothing,
    /// The bands below this one.
    Below(Priority),
    Everything,
}

impl<K: Key> State<K> {
    /// Hands nothing out until [`State::resume`]. Adds are kept and due times pass.
    pub fn suspend(&mut self, now: Moment) {
        self.set_suspension(now, Suspension::Everything);
    }

    /// As [`State::suspend`], but for the keys in the band `floor` and above: these are handed out, the highest band first. No band ages
    /// meanwhile, and none counts as passed over.
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

    /// Says whether the queue is suspended, be it for some bands alone.
    pub fn is_suspended(&self) -> bool {
        self.suspension != Suspension::Nothing
    }

    /// How many ready keys are not held back.
    #[inline]
    pub(super) fn claimable_ready(&self) -> usize {
        match self.suspension {
            Suspension::Nothing => self.bands.len(),
            Suspension::Below(floor) => self.bands.len_from(floor),
            Suspension::Everything => 0,
        }
    }
}
