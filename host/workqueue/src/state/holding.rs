//! Suspending the queue, or all of it but its highest bands.

use super::State;
use crate::{Key, Moment, Priority};

/// What is held back by a suspension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    Nothing,
    /// The bands below this one.
    Below(Priority),
    Everything,
}

impl<K: Key> State<K> {
    /// Hands nothing out until [`State::resume`]. Adds are kept and due times pass.
    pub fn suspend(&mut self, now: Moment) {
        self.hold(now, Held::Everything);
    }

    /// As [`State::suspend`], but for the keys in the band `floor` and above: these are handed out, the highest band first. No band ages
    /// meanwhile, and none counts as passed over.
    pub fn suspend_below(&mut self, now: Moment, floor: Priority) {
        self.hold(now, Held::Below(floor));
    }

    fn hold(&mut self, now: Moment, held: Held) {
        self.tick(now);
        self.held = held;
        self.wind_up();
    }

    /// Ends a suspension.
    pub fn resume(&mut self, now: Moment) {
        self.hold(now, Held::Nothing);
    }

    /// Says whether the queue is suspended, be it for some bands alone.
    pub fn is_suspended(&self) -> bool {
        self.held != Held::Nothing
    }

    /// How many ready keys are not held back.
    #[inline]
    pub(super) fn not_held(&self) -> usize {
        match self.held {
            Held::Nothing => self.bands.len(),
            Held::Below(floor) => self.bands.len_from(floor),
            Held::Everything => 0,
        }
    }
}
