//! The three ways of closing: stop, drain, abort.

use super::State;
use crate::{CloseReport, Key, Moment, ShutdownPhase, item::ItemState};

/// Data for the report.
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
    /// Drops the queued keys and hands out no more keys. Running keys may finish.
    pub fn stop(&mut self, now: Moment) -> CloseReport<K> {
        self.close(now, ShutdownPhase::Stopped)
    }

    /// As [`State::stop`], and asks running work to end at once.
    pub fn abort(&mut self, now: Moment) -> CloseReport<K> {
        self.close(now, ShutdownPhase::Aborted)
    }

    /// Drops the waiting keys, takes no new keys, and stops by itself once no key is ready or running.
    ///
    /// Suspended keys cannot be handed out: they are dropped when the last run has ended.
    pub fn drain(&mut self, now: Moment) {
        self.tick(now);
        if self.phase == ShutdownPhase::Open {
            self.phase = ShutdownPhase::Draining;
            self.drop_where(|place| matches!(place, ItemState::Waiting { .. } | ItemState::Parked));
            self.timers.clear();
        }
        self.stop_if_drained();
    }

    /// Returns the phase of the shutdown.
    pub fn phase(&self) -> ShutdownPhase {
        self.phase
    }

    /// Returns the result of the closing so far.
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

    /// Stops a draining queue once no key is running or claimable.
    #[inline]
    pub(super) fn stop_if_drained(&mut self) {
        if self.phase != ShutdownPhase::Draining || self.running.len() > 0 {
            return;
        }
        if self.claimable_ready() == 0 {
            self.close(self.now, ShutdownPhase::Stopped);
        }
    }

    /// Drops the keys in the matching states; counts those that had a queued run as dropped.
    fn drop_where(&mut self, such: impl Fn(&ItemState) -> bool) {
        let slots: Vec<u32> = self.slab.iter().filter(|(_, item)| such(&item.stage)).map(|(slot, _)| slot).collect();
        for slot in slots {
            let parked = matches!(self.slab[slot].stage, ItemState::Parked);
            self.detach(slot);
            if parked { self.remove(slot) } else { self.drop_run(slot) }
        }
    }

    /// Removes a detached entry, and records that its queued run was dropped.
    pub(super) fn drop_run(&mut self, slot: u32) {
        self.counters.dropped += 1;
        self.closing.dropped.push(self.slab[slot].key.clone());
        self.remove(slot);
    }
}
