//! The promises of the queue for one key. The order of keys, the fairness of bands and the closing of the
//! queue concern many keys: [`super`] checks them.

use super::*;

/// A requested run: its time and its band.
pub(super) type Run = (Moment, Priority);

/// One key: its next run, the start of its current run, the band of its claim, its failures, and the end of
/// its backoff.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyModel {
    pub(super) run: Option<Run>,
    /// No add makes the next run due earlier.
    pub(super) floor: bool,
    pub(super) held: Option<Moment>,
    pub(super) band: Priority,
    pub(super) failures: u32,
    pub(super) until: Moment,
}

impl KeyModel {
    pub(super) fn state(&self, now: Moment) -> KeyState {
        match (self.held, self.run) {
            (Some(_), None) => KeyState::Running,
            (Some(_), Some(_)) => KeyState::Dirty,
            (None, None) => KeyState::Parked,
            (None, Some((due, _))) => {
                if due > now {
                    KeyState::Waiting
                } else {
                    KeyState::Ready
                }
            }
        }
    }

    /// The earlier of two runs, unless the old one has a delay that is held; the higher of their bands.
    pub(super) fn add(&mut self, now: Moment, due: Moment, band: Priority, hold: bool) {
        let (old, its) = self.run.unwrap_or((due, band));
        let due = if (hold || self.floor) && old > now { old } else { old.min(due) };
        self.run = Some((due, its.max(band)));
    }

    /// Replaces a delay that is no floor by one that is.
    pub(super) fn add_held(&mut self, now: Moment, due: Moment, band: Priority, hold: bool) {
        let is_new = self.run.is_none();
        let free = !hold && !self.is_floor(now) && self.run.is_some_and(|(old, _)| old > now);
        self.add(now, due, band, hold);
        if is_new || free {
            (self.run, self.floor) = (self.run.map(|(_, band)| (due, band)), due > now);
        }
    }

    pub(super) fn is_floor(&self, now: Moment) -> bool {
        self.floor && self.run.is_some_and(|(due, _)| due > now)
    }

    pub(super) fn claim(&mut self, now: Moment) {
        let (_, band) = self.run.take().unwrap();
        (self.held, self.band, self.floor) = (Some(now), band, false);
    }

    pub(super) fn finish(&mut self, now: Moment, next: Option<&Next>, options: Options) {
        self.floor = self.is_floor(now) && next.is_some();
        let (began, added, backoff) = (self.held.take(), self.run.take(), options.backoff);
        match next {
            Some(Next::Retry { .. } | Next::Park { .. }) => self.failures += u32::from(began >= Some(self.until)),
            Some(_) => (self.failures, self.until) = (0, Moment::ZERO),
            None => {}
        }
        let wish = match next {
            None | Some(Next::Again) => Some((now, self.band)),
            Some(Next::After(delay)) => Some((now.after(*delay), self.band)),
            Some(Next::Retry { at_least, .. }) if !backoff.used_up(self.failures) => {
                self.until = now.after(backoff.delay(self.failures, 0).max(at_least.unwrap_or_default()));
                Some((self.until, self.band))
            }
            Some(_) => None,
        };
        // A key whose run had no result has already waited.
        let hold = self.floor || options.during_delay == DuringDelay::Hold && next.is_some();
        let merge = |wish: Run, added: Run| {
            let due = if hold { wish.0.max(added.0) } else { wish.0.min(added.0) };
            (due, wish.1.max(added.1))
        };
        let added = added.filter(|_| next != Some(&Next::Drop));
        self.run = wish.map_or(added, |wish| Some(added.map_or(wish, |added| merge(wish, added))));
    }
}
