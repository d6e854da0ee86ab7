//! The newest changes of a store, in memory, bounded.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use crate::{Error, Event, Options, Result, Revision, Scope};

/// Events scanned by one read at most: it holds a lock that writers need, too.
const SCAN_MAX: usize = 1024;

/// The bounds of the history. It is compacted at whichever bound is reached first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// At least 1.
    pub(crate) events_max: u64,
    /// In bytes. The last event is kept whatever its size.
    pub(crate) bytes_max: u64,
    /// At least one millisecond.
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

/// An event, its size in bytes, and its time.
#[derive(Debug)]
struct HistoryEntry {
    event: Event,
    bytes: u64,
    at: SystemTime,
}

/// A ring of events. Their revisions grow, and may have gaps.
#[derive(Debug)]
pub(crate) struct History {
    events: VecDeque<HistoryEntry>,
    /// The history up to here is gone. Below the revision of the first event.
    cut: Revision,
    /// Every event up to here is known. At or above the revision of the last event.
    newest: Revision,
    bytes: u64,
    bounds: Bounds,
}

impl History {
    /// Creates an empty history that starts after a revision.
    pub(crate) fn new(start: Revision, bounds: Bounds) -> Self {
        Self { events: VecDeque::new(), cut: start, newest: start, bytes: 0, bounds }
    }

    /// Returns the oldest revision from which this history can be read.
    pub(crate) fn oldest(&self) -> Revision {
        self.cut
    }

    /// Returns the revision up to which every event is known.
    pub(crate) fn newest(&self) -> Revision {
        self.newest
    }

    /// Appends the next event, and removes the oldest ones if the history exceeds its count or size.
    pub(crate) fn push(&mut self, event: Event, bytes: u64, at: SystemTime) {
        debug_assert!(event.revision > self.newest, "revisions grow");
        self.newest = event.revision;
        self.events.push_back(HistoryEntry { event, bytes, at });
        self.bytes += bytes;
        let Bounds { events_max, bytes_max, age_max: _ } = self.bounds;
        while self.events.len() as u64 > events_max || (self.bytes > bytes_max && self.events.len() > 1) {
            self.forget_first();
        }
    }

    /// Records that there is no further event up to a revision.
    pub(crate) fn advance(&mut self, through: Revision) {
        self.newest = self.newest.max(through);
    }

    /// Removes events that are too old. An event with a time in the future, from before the clock went back,
    /// stays until it is old.
    pub(crate) fn expire(&mut self, now: SystemTime) {
        let too_old = |kept: &HistoryEntry| now.duration_since(kept.at).is_ok_and(|age| age >= self.bounds.age_max);
        let count = self.events.iter().take_while(|kept| too_old(kept)).count();
        (0..count).for_each(|_| self.forget_first());
    }

    /// Removes every event up to and including a revision.
    pub(crate) fn forget(&mut self, through: Revision) {
        while self.events.front().is_some_and(|kept| kept.event.revision <= through) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some(HistoryEntry { event, bytes, at: _ }) = self.events.pop_front() {
            self.bytes -= bytes;
            self.cut = event.revision;
        }
    }

    /// Returns the place of the first event after a revision that is not below the cut.
    fn place_after(&self, after: Revision) -> usize {
        let count = self.events.len();
        let bounded = |number: u64| usize::try_from(number).unwrap_or(usize::MAX).min(count);
        // Revisions are distinct, which bounds the place on both sides: without gaps, to one place.
        let mut high = bounded(after.0 - self.cut.0);
        let mut low = count - bounded(self.newest.0.saturating_sub(after.0));
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.events[middle].event.revision <= after {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Returns every event after a revision. `Expired` when some of them are gone.
    pub(crate) fn after(&self, after: Revision) -> Result<impl Iterator<Item = &Event>> {
        if after < self.cut {
            return Err(Error::Expired { oldest: self.cut });
        }
        Ok(self.events.range(self.place_after(after)..).map(|kept| &kept.event))
    }

    /// Adds the events of a scope after a revision to `found`, up to the limit of one read, and returns the
    /// end of the read. `Expired` when some of them are gone.
    pub(crate) fn read(&self, scope: &Scope, after: Revision, found: &mut impl Extend<Event>) -> Result<Revision> {
        if after < self.cut {
            return Err(Error::Expired { oldest: self.cut });
        }
        let first = self.place_after(after);
        let end = self.events.len().min(first + SCAN_MAX);
        let events = self.events.range(first..end).map(|kept| &kept.event);
        found.extend(events.filter(|event| scope.includes(event.resource.key().kind())).cloned());
        Ok(match self.events.get(end) {
            Some(_) => self.events[end - 1].event.revision,
            None => self.newest.max(after),
        })
    }
}

/// Checks that a watch can start at a revision.
pub(crate) fn check_start(from: Revision, oldest: Revision, newest: Revision) -> Result<()> {
    if from > newest {
        return Err(Error::FutureRevision { asked: from, current: newest });
    }
    if from < oldest {
        return Err(Error::Expired { oldest });
    }
    Ok(())
}
