//! The three ways of closing: stop, drain, abort.

use super::State;
use crate::{CloseReport, Key, Moment, ShutdownPhase, item::ItemState};

/// What is kept for the report.
pub(super) struct CloseRecord<K> {
    pub(super) finished: u64,
    pub(super) dropped: Vec<K>,
}

impl<K> Default for CloseRecord<K> {
    fn default() -> CloseRecord<K> {
        CloseRecord { finished: 0, dropped: Vec::new() }
    }
}

impl<K: Key> State<K> {
    /// Drops what is queued and hands nothing out any more. What runs may finish.
    pub fn stop(&mut self, now: Moment) -> CloseReport<K> {
        self.close(now, ShutdownPhase::Stopped)
    }

    /// As [`State::stop`], and asks what runs to end at once.
    pub fn abort(&mut self, now: Moment) -> CloseReport<K> {
        self.close(now, ShutdownPhase::Aborted)
    }

    /// Drops what is waiting, takes no new keys, and stops by itself as soon as nothing is ready or running.
    ///
    /// What a suspension holds back cannot be handed out: it is dropped when the last run has ended.
    pub fn drain(&mut self, now: Moment) {
        self.tick(now);
        if self.phase == ShutdownPhase::Open {
            self.phase = ShutdownPhase::Draining;
            self.drop_where(|place| matches!(place, ItemState::Waiting { .. } | ItemState::Parked));
            self.timers.clear();
        }
        self.stop_if_drained();
    }

    /// Returns how far the closing is.
    pub fn phase(&self) -> ShutdownPhase {
        self.phase
    }

    /// Returns how the closing has gone so far.
    pub fn report(&self) -> CloseReport<K> {
        CloseReport {
            finished: self.closing.finished,
            dropped: self.closing.dropped.clone(),
            running: self.running.iter(&self.slab).map(|slot| self.slab[slot].key.clone()).collect(),
        }
    }

    fn close(&mut self, now: Moment, phase: ShutdownPhase) -> CloseReport<K> {
        self.tick(now);
        if !self.phase.is_closed() {
            self.drop_where(|place| !matches!(place, ItemState::Running { .. }));
            self.timers.clear();
        }
        self.phase = self.phase.max(phase);
        self.report()
    }

    /// Stops a draining queue that has nothing left to do.
    #[inline]
    pub(super) fn stop_if_drained(&mut self) {
        if self.phase != ShutdownPhase::Draining || self.running.len() > 0 {
            return;
        }
        if self.claimable_ready() == 0 {
            self.close(self.now, ShutdownPhase::Stopped);
        }
    }

    /// Takes the keys off whose place is such; those that had a run queued are lost.
    fn drop_where(&mut self, such: impl Fn(&ItemState) -> bool) {
        let slots: Vec<u32> = self.slab.iter().filter(|(_, item)| such(&item.stage)).map(|(slot, _)| slot).collect();
        for slot in slots {
            let parked = matches!(self.slab[slot].stage, ItemState::Parked);
            self.detach(slot);
            if parked { self.remove(slot) } else { self.drop_run(slot) }
        }
    }

    /// Forgets an entry that is nowhere, and notes that its queued run will not happen.
    pub(super) fn drop_run(&mut self, slot: u32) {
        self.counters.dropped += 1;
        self.closing.dropped.push(self.slab[slot].key.clone());
        self.remove(slot);
    }
}
