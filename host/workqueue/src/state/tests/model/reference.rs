//! The queue as one would write it in an hour: a map that is searched from end to end for everything.

use super::super::*;
use std::collections::BTreeMap;

/// One key. `due`: when it runs next; parked, or running and clean, without. `held`: the band it was claimed from, and
/// whether a failure counts. `rank` orders the keys of a band: when the key came to stand there, and after how many.
#[derive(Clone, Copy, Default)]
pub(super) struct Known {
    pub(super) due: Option<Moment>,
    pub(super) band: Priority,
    floor: bool,
    rank: (Moment, u64),
    pub(super) held: Option<(Priority, bool)>,
    pub(super) failures: u32,
    pub(super) until: Moment,
}

#[derive(Default)]
pub(super) struct Model {
    pub(super) now: Moment,
    pub(super) keys: BTreeMap<u8, Known>,
    pub(super) suspended: bool,
    pub(super) phase: Phase,
    pub(super) options: Options,
    pub(super) ranks: u64,
    pub(super) passes: [u32; 5],
}

impl Model {
    pub(super) fn state(&self, key: u8) -> Option<KeyState> {
        let known = self.keys.get(&key)?;
        Some(match (known.held, known.due) {
            (Some(_), due) => {
                if due.is_some() {
                    KeyState::Dirty
                } else {
                    KeyState::Running
                }
            }
            (None, None) => KeyState::Parked,
            (None, Some(due)) => {
                if due <= self.now {
                    KeyState::Ready
                } else {
                    KeyState::Waiting
                }
            }
        })
    }

    pub(super) fn queue(&mut self, key: u8, due: Moment, band: Priority, floor: bool) {
        self.ranks += 1;
        let (rank, known) = ((due.max(self.now), self.ranks), self.keys.entry(key).or_default());
        *known = Known { due: Some(due), band, floor, rank, ..*known };
    }

    pub(super) fn add(&mut self, key: u8, due: Moment, band: Priority) -> bool {
        let (state, known) = (self.state(key), self.keys.get(&key).copied().unwrap_or_default());
        let late = due > self.now || matches!(state, None | Some(KeyState::Waiting | KeyState::Parked));
        if self.phase > Phase::Draining || self.phase == Phase::Draining && late {
            return false;
        }
        let (raised, old) = (band.max(known.band), known.due.unwrap_or(Moment::NEVER));
        let held = known.floor && self.options.during_delay == DuringDelay::Hold;
        match state {
            None | Some(KeyState::Parked | KeyState::Running) => self.queue(key, due, band, false),
            Some(KeyState::Dirty) => self.queue(key, due.min(old), raised, false),
            Some(KeyState::Ready) if band > known.band => self.queue(key, old, band, false),
            Some(KeyState::Waiting) if due < old && !held => self.queue(key, due, raised, false),
            Some(KeyState::Ready | KeyState::Waiting) => self.keys.entry(key).or_default().band = raised,
        }
        true
    }

    pub(super) fn claim(&mut self) -> Option<u8> {
        let ready = self.keys.iter().filter(|(key, _)| self.state(**key) == Some(KeyState::Ready));
        let ready: Vec<(u8, Known)> = ready.map(|(key, known)| (*key, *known)).collect();
        let full = |band: &Priority| ready.iter().any(|(_, known)| known.band == *band);
        let passes = |band: &Priority| self.passes[band.index()];
        let aged = |band: &Priority| full(band) && passes(band) >= self.options.ageing_claims.get();
        let aged = Priority::ALL.into_iter().rev().filter(aged).max_by_key(passes);
        let band =
            aged.or(Priority::ALL.into_iter().rfind(full)).filter(|_| !self.suspended && !self.phase.is_closed())?;
        self.passes = Priority::ALL.map(|other| if other != band && full(&other) { passes(&other) + 1 } else { 0 });
        let first = ready.iter().filter(|(_, known)| known.band == band).min_by_key(|(_, known)| known.rank)?;
        let known = self.keys.entry(first.0).or_default();
        (known.due, known.held) = (None, Some((band, self.now >= known.until)));
        Some(first.0)
    }

    pub(super) fn finish(&mut self, key: u8, next: Option<Next>) {
        let mut known = self.keys.remove(&key).unwrap();
        let ((band, counts), dirty) = (known.held.take().unwrap(), known.due.take());
        let (failed, dropped) =
            (matches!(next, Some(Next::Retry { .. } | Next::Park { .. })), matches!(next, Some(Next::Drop)));
        match &next {
            Some(_) if failed => known.failures += u32::from(counts),
            Some(_) => (known.failures, known.until) = (0, Moment::ZERO),
            None => {}
        }
        let wish = match next {
            None | Some(Next::Again) => Some((self.now, band, false)),
            Some(Next::After(delay)) => Some((self.now.after(delay), band, !delay.is_zero())),
            Some(Next::Resync(delay)) => Some((self.now.after(delay), band.min(Priority::LOW), false)),
            Some(Next::Retry { at_least, .. }) if !self.options.backoff.used_up(known.failures) => {
                let delay = self.options.backoff.delay(known.failures, 0).max(at_least.unwrap_or_default());
                known.until = self.now.after(delay);
                Some((known.until, band, true))
            }
            Some(_) => None,
        };
        let hold = self.options.during_delay == DuringDelay::Hold;
        let plan = match (wish, dirty.filter(|_| !dropped)) {
            (None, dirty) => dirty.map(|due| (due, known.band, false)),
            (Some((due, band, floor)), Some(early)) if early < due && !(floor && hold) => {
                Some((early, band.max(known.band), false))
            }
            (Some((due, band, floor)), dirty) => {
                Some((due, if dirty.is_some() { band.max(known.band) } else { band }, floor))
            }
        };
        let last =
            self.phase.is_closed() || self.phase == Phase::Draining && plan.is_none_or(|(due, ..)| due > self.now);
        match plan {
            _ if last => {}
            Some((due, band, floor)) => {
                self.keys.insert(key, known);
                self.queue(key, due, band, floor);
            }
            None if failed => drop(self.keys.insert(key, Known { band, ..known })),
            None => {}
        }
    }

    /// What the closing takes off: `drain` the waiting and parked keys, `stop` those that are ready too.
    pub(super) fn close(&mut self, phase: Phase) {
        if phase > self.phase {
            self.phase = phase;
            let ready = |known: &Known| phase == Phase::Draining && known.due.is_some_and(|due| due <= self.now);
            self.keys.retain(|_, known| known.held.is_some() || ready(known));
        }
        let busy =
            |known: &Known| known.held.is_some() || !self.suspended && known.due.is_some_and(|due| due <= self.now);
        if self.phase == Phase::Draining && !self.keys.values().any(busy) {
            self.close(Phase::Stopped);
        }
    }
}
