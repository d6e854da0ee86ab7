//! The most recent changes of a store, in memory, bounded.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use crate::{Error, Event, Options, Result, Revision, Scope};

/// Events that one read looks at, at most: it is done under a lock that writers need too.
const SCAN_MAX: u64 = 1024;

/// How much history is kept. Whichever bound is hit first cuts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// From 1.
    pub(crate) events_max: u64,
    /// The last event is kept whatever its size.
    pub(crate) bytes_max: u64,
    /// From one millisecond.
    pub(crate) age_max: Duration,
}

impl Bounds {
    pub(crate) fn of(options: &Options) -> Self {
        let Options { history_max, history_age_max, history_bytes_max, wal_bytes: _, clock: _ } = options;
        Self {
            events_max: (*history_max).max(1),
            bytes_max: *history_bytes_max,
            age_max: (*history_age_max).max(Duration::from_millis(1)),
        }
    }
}

/// An event, the bytes that it counts for, and when it happened.
#[derive(Debug)]
struct HistoryEntry {
    event: Event,
    bytes: u64,
    at: SystemTime,
}

/// A ring of events whose revisions follow one another without a gap.
#[derive(Debug)]
pub(crate) struct History {
    events: VecDeque<HistoryEntry>,
    /// The revision before that of the first event: everything up to here is gone.
    cut: Revision,
    bytes: u64,
    bounds: Bounds,
}

impl History {
    /// Begins an empty history at a revision.
    pub(crate) fn new(start: Revision, bounds: Bounds) -> Self {
        Self { events: VecDeque::new(), cut: start, bytes: 0, bounds }
    }

    /// Returns the oldest revision from which this history can be read.
    pub(crate) fn oldest(&self) -> Revision {
        self.cut
    }

    /// Returns the revision of the last event.
    pub(crate) fn newest(&self) -> Revision {
        Revision(self.cut.0 + self.events.len() as u64)
    }

    /// Adds the next event, and forgets the oldest when there are too many or they are too large.
    pub(crate) fn push(&mut self, event: Event, bytes: u64, at: SystemTime) {
        debug_assert_eq!(event.revision, self.newest().next(), "revisions follow one another");
        self.events.push_back(HistoryEntry { event, bytes, at });
        self.bytes += bytes;
        let Bounds { events_max, bytes_max, age_max: _ } = self.bounds;
        while self.events.len() as u64 > events_max || (self.bytes > bytes_max && self.events.len() > 1) {
            self.forget_first();
        }
    }

    /// Forgets what is too old by now. An event from the future, of a clock that went back, waits until it is old.
    pub(crate) fn expire(&mut self, now: SystemTime) {
        let too_old = |kept: &HistoryEntry| now.duration_since(kept.at).is_ok_and(|age| age >= self.bounds.age_max);
        let count = self.events.iter().take_while(|kept| too_old(kept)).count();
        (0..count).for_each(|_| self.forget_first());
    }

    /// Forgets every event up to and including a revision.
    pub(crate) fn forget(&mut self, through: Revision) {
        while self.cut < through && !self.events.is_empty() {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some(HistoryEntry { bytes, .. }) = self.events.pop_front() {
            self.bytes -= bytes;
            self.cut = self.cut.next();
        }
    }

    /// Returns every event after a revision. `Expired` when some of them are gone.
    pub(crate) fn after(&self, after: Revision) -> Result<impl Iterator<Item = &Event>> {
        if after < self.cut {
            return Err(Error::Expired { oldest: self.cut });
        }
        let skipped = usize::try_from(after.0 - self.cut.0).unwrap_or(usize::MAX).min(self.events.len());
        Ok(self.events.range(skipped..).map(|kept| &kept.event))
    }

    /// Adds the events of a scope after a revision to `found`, as far as one read goes; returns how far that was. `Expired` when some of
    /// them are gone.
    pub(crate) fn read(&self, scope: &Scope, after: Revision, found: &mut impl Extend<Event>) -> Result<Revision> {
        let events = self.after(after)?.take(usize::try_from(SCAN_MAX).unwrap_or(usize::MAX));
        found.extend(events.filter(|event| scope.includes(event.resource.key().kind())).cloned());
        Ok(self.newest().min(Revision(after.0.saturating_add(SCAN_MAX))).max(after))
    }
}

/// Checks that a watch can be opened from a revision.
pub(crate) fn check_start(from: Revision, oldest: Revision, newest: Revision) -> Result<()> {
    if from > newest {
        return Err(Error::FutureRevision { asked: from, current: newest });
    }
    if from < oldest {
        return Err(Error::Expired { oldest });
    }
    Ok(())
}
