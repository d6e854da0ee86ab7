//! What the queue promises of one key. The order of keys, the fairness of bands and the closing of the whole queue are
//! sentences about many keys: [`super`] checks them.

use super::*;

/// A run that a key is to have: when, in which band, and whether events leave its delay alone where delays are held.
pub(super) type Run = (Moment, Priority, bool);

/// One key: its next run, since when it runs, the band it was claimed from, its failures, and until when it backs off.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    pub(super) run: Option<Run>,
    pub(super) held: Option<Moment>,
    pub(super) band: Priority,
    pub(super) failures: u32,
    pub(super) until: Moment,
}

/// Of two runs the earlier, unless the old one is held, in the higher band.
fn merge(old: Run, new: Run, hold: bool) -> Run {
    let (due, _, floor) = if new.0 < old.0 && !(hold && old.2) { new } else { old };
    (due, old.1.max(new.1), floor)
}

impl Known {
    pub(super) fn state(&self, now: Moment) -> KeyState {
        match (self.held, self.run) {
            (Some(_), None) => KeyState::Running,
            (Some(_), Some(_)) => KeyState::Dirty,
            (None, None) => KeyState::Parked,
            (None, Some((due, ..))) => {
                if due > now {
                    KeyState::Waiting
                } else {
                    KeyState::Ready
                }
            }
        }
    }

    pub(super) fn add(&mut self, due: Moment, band: Priority, hold: bool) {
        let new = (due, band, false);
        self.run = Some(self.run.map_or(new, |old| merge(old, new, hold)));
    }

    pub(super) fn claim(&mut self, now: Moment) {
        let (_, band, _) = self.run.take().unwrap();
        (self.held, self.band) = (Some(now), band);
    }

    pub(super) fn finish(&mut self, now: Moment, next: Option<&Next>, options: Options) {
        let (began, added, backoff) = (self.held.take(), self.run.take(), options.backoff);
        match next {
            Some(Next::Retry { .. } | Next::Park { .. }) => self.failures += u32::from(began >= Some(self.until)),
            Some(_) => (self.failures, self.until) = (0, Moment::ZERO),
            None => {}
        }
        let wish = match next {
            None | Some(Next::Again) => Some((now, self.band, false)),
            Some(Next::After(delay)) => Some((now.after(*delay), self.band, !delay.is_zero())),
            Some(Next::Retry { at_least, .. }) if !backoff.used_up(self.failures) => {
                self.until = now.after(backoff.delay(self.failures, 0).max(at_least.unwrap_or_default()));
                Some((self.until, self.band, true))
            }
            Some(_) => None,
        };
        let (hold, added) = (options.during_delay == DuringDelay::Hold, added.filter(|_| next != Some(&Next::Drop)));
        self.run = wish.map_or(added, |wish| Some(added.map_or(wish, |added| merge(wish, added, hold))));
    }
}
