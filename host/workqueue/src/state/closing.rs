//! The three ways of closing: stop, drain, abort.

use super::State;
use crate::{Key, Moment, Phase, Report, item::Place};

/// What is kept for the report.
pub(super) struct Closing<K> {
    pub(super) finished: u64,
    pub(super) dropped: Vec<K>,
}

impl<K> Default for Closing<K> {
    fn default() -> Closing<K> {
        Closing { finished: 0, dropped: Vec::new() }
    }
}

impl<K: Key> State<K> {
    /// Drops what is queued and hands nothing out any more. What runs may finish.
    pub fn stop(&mut self, now: Moment) -> Report<K> {
        self.close(now, Phase::Stopped)
    }

    /// As [`State::stop`], and asks what runs to end at once.
    pub fn abort(&mut self, now: Moment) -> Report<K> {
        self.close(now, Phase::Aborted)
    }

    /// Drops what is waiting, takes no new keys, and stops by itself as soon as nothing is ready or running.
    ///
    /// What a suspension holds back cannot be handed out: it is dropped when the last run has ended.
    pub fn drain(&mut self, now: Moment) {
        self.tick(now);
        if self.phase == Phase::Open {
            self.phase = Phase::Draining;
            self.drop_where(|place| matches!(place, Place::Waiting { .. } | Place::Parked));
            self.timers.clear();
        }
        self.wind_up();
    }

    /// Returns how far the closing is.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Returns how the closing has gone so far.
    pub fn report(&self) -> Report<K> {
        Report {
            finished: self.closing.finished,
            dropped: self.closing.dropped.clone(),
            running: self.running.iter(&self.slab).map(|slot| self.slab[slot].key.clone()).collect(),
        }
    }

    fn close(&mut self, now: Moment, phase: Phase) -> Report<K> {
        self.tick(now);
        if !self.phase.is_closed() {
            self.drop_where(|place| !matches!(place, Place::Running { .. }));
            self.timers.clear();
        }
        self.phase = self.phase.max(phase);
        self.report()
    }

    /// Stops a draining queue that has nothing left to do.
    #[inline]
    pub(super) fn wind_up(&mut self) {
        if self.phase != Phase::Draining || self.running.len() > 0 {
            return;
        }
        if self.not_held() == 0 {
            self.close(self.now, Phase::Stopped);
        }
    }

    /// Takes the keys off whose place is such; those that had a run queued are lost.
    fn drop_where(&mut self, such: impl Fn(&Place) -> bool) {
        let slots: Vec<u32> = self.slab.iter().filter(|(_, item)| such(&item.place)).map(|(slot, _)| slot).collect();
        for slot in slots {
            let parked = matches!(self.slab[slot].place, Place::Parked);
            self.detach(slot);
            if parked { self.remove(slot) } else { self.lose(slot) }
        }
    }

    /// Forgets an entry that is nowhere, and notes that its queued run will not happen.
    pub(super) fn lose(&mut self, slot: u32) {
        self.counters.dropped += 1;
        self.closing.dropped.push(self.slab[slot].key.clone());
        self.remove(slot);
    }
}
