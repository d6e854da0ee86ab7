//! The most recent changes of a store, in memory, bounded.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use crate::watch::Batch;
use crate::{Error, Event, Result, Revision, Scope};

/// Events that one read looks at, at most: it is done under a lock that writers need too.
const SCAN_MAX: u64 = 1024;

/// A ring of events whose revisions follow one another without a gap.
#[derive(Debug)]
pub(crate) struct History {
    /// Events with the bytes they count for.
    events: VecDeque<(Event, u64)>,
    /// The revision before that of the first event: everything up to here is gone.
    cut: Revision,
    bytes: u64,
    events_max: u64,
    bytes_max: u64,
}

impl History {
    /// Begins an empty history at a revision. It keeps `events_max` events, or fewer when they come to more than `bytes_max`; but the
    /// last one always.
    pub(crate) fn new(start: Revision, events_max: u64, bytes_max: u64) -> Self {
        Self { events: VecDeque::new(), cut: start, bytes: 0, events_max: events_max.max(1), bytes_max }
    }

    /// Returns the oldest revision from which this history can be read.
    pub(crate) fn oldest(&self) -> Revision {
        self.cut
    }

    /// Returns the revision of the last event.
    pub(crate) fn newest(&self) -> Revision {
        Revision(self.cut.0 + self.events.len() as u64)
    }

    /// Adds the next event, and forgets the oldest when there are too many.
    pub(crate) fn push(&mut self, event: Event, bytes: u64) {
        debug_assert_eq!(event.revision, self.newest().next(), "revisions follow one another");
        self.events.push_back((event, bytes));
        self.bytes += bytes;
        while self.events.len() as u64 > self.events_max || (self.bytes > self.bytes_max && self.events.len() > 1) {
            let Some((_, bytes)) = self.events.pop_front() else { break };
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
        Ok(self.events.range(skipped..).map(|(event, _)| event))
    }

    /// Reads on after a revision, as far as one read goes.
    pub(crate) fn read(&self, scope: &Scope, after: Revision) -> Result<Batch> {
        let events = self.after(after)?.take(usize::try_from(SCAN_MAX).unwrap_or(usize::MAX));
        let events = events.filter(|event| scope.includes(event.resource.key().kind())).cloned().collect();
        let through = self.newest().min(Revision(after.0.saturating_add(SCAN_MAX))).max(after);
        Ok(Batch { events, through })
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
