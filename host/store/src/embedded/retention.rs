//! How long the log may get: what is cut off its beginning, and when there will be something to cut again.
//!
//! The number of rows follows from the revisions, their size is kept as a fact, and their age is known to the minute from a sparse table of
//! times: a row says by when a revision had been reached, so everything up to it is at least that old. A program that does not keep
//! these makes history look younger, and so live longer; it never makes a cut come too early.

use std::time::{Duration, SystemTime};

use redb::{ReadableTable, Table};

use super::codec::{Measure, Meta};
use super::writer::{EngineResult, engine_error};
use crate::Revision;
use crate::history::Bounds;

/// Rows of the log that one transaction removes beyond those that it adds, so that no commit is held up by much.
pub(super) const CUT_EXTRA_MAX: u64 = 64;
/// Rows that one transaction removes when nobody writes.
pub(super) const CUT_IDLE_MAX: u64 = 512;
/// Bytes of rows after which one transaction removes no more, beyond those that it adds.
const CUT_BYTES_MAX: u64 = 4 << 20;
/// Time between two rows of the table of times, at least.
const TIMES_STEP_MS: u64 = 60_000;
/// The writer thread sleeps at least this long when what is due next is a matter of time.
pub(super) const SLEEP_MIN: Duration = Duration::from_secs(1);
/// It looks again after this long: the clock of the store may run differently from the one it sleeps by.
pub(super) const SLEEP_MAX: Duration = Duration::from_secs(600);

/// The log and the times, open for writing.
pub(super) struct LogTables<'t, 'a> {
    pub(super) log: &'t mut Table<'a, u64, &'static [u8]>,
    pub(super) times: &'t mut Table<'a, u64, u64>,
}

/// Where the log begins after a cut, and what is known of it.
pub(super) struct Compaction {
    pub(super) compacted: Revision,
    /// Where it should begin, by the bounds alone. Never before `compacted`.
    pub(super) compact_target: Revision,
    pub(super) measure: Measure,
}

/// Returns milliseconds since 1970, which is also what every earlier time is.
pub(super) fn milliseconds(now: SystemTime) -> u64 {
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Returns how long the writer thread may sleep before it cuts; `None` when there is nothing to cut.
pub(super) fn sleep_until_compaction(
    meta: &Meta,
    oldest_ms: Option<u64>,
    now_ms: u64,
    bounds: &Bounds,
) -> Option<Duration> {
    let count = meta.revision.0.saturating_sub(meta.compacted.0);
    if count == 0 {
        return None;
    }
    let Some(measure) = meta.measure else {
        return Some(Duration::ZERO);
    };
    if count > bounds.events_max || (measure.bytes > bounds.bytes_max && count > 1) {
        return Some(Duration::ZERO);
    }
    let oldest_ms = oldest_ms.unwrap_or(measure.at_ms).min(measure.at_ms);
    let due_ms = oldest_ms.saturating_add(age_ms(bounds)).saturating_sub(now_ms);
    Some(if due_ms == 0 { Duration::ZERO } else { Duration::from_millis(due_ms).clamp(SLEEP_MIN, SLEEP_MAX) })
}

impl LogTables<'_, '_> {
    /// Takes the rows that were just added into account, and cuts a piece off the beginning where a bound is exceeded.
    ///
    /// `meta` is from before the transaction; `added` are rows and bytes; `rows_max` bounds what is cut beyond the rows that were added.
    /// Nothing behind `limit` is cut.
    pub(super) fn compact(
        &mut self,
        meta: &Meta,
        added: (u64, u64),
        (rows_max, limit): (u64, Revision),
        now_ms: u64,
        bounds: &Bounds,
    ) -> EngineResult<Compaction> {
        let (rows_added, bytes_added) = added;
        let newest = Revision(meta.revision.0 + rows_added);
        let mut measure = match meta.measure {
            Some(Measure { bytes, at_ms }) => Measure { bytes: bytes + bytes_added, at_ms },
            None => Measure { bytes: self.bytes()?, at_ms: now_ms },
        };
        if rows_added > 0 {
            self.record_time(meta, now_ms)?;
            measure.at_ms = now_ms;
        }
        let target = self.target(meta.compacted, newest, measure, now_ms, bounds)?;
        let over = |bytes: u64, revision: u64| bytes > bounds.bytes_max && revision < newest.0;
        let (mut left, mut freed, mut wanted) = (rows_added + rows_max, 0, meta.compacted);
        // Of that, what is cut now.
        let mut cut = 0;
        let mut stopped = false;
        for row in self.log.range(wanted.0 + 1..).map_err(engine_error)? {
            let (revision, row) = row.map_err(engine_error)?;
            let is_wanted = revision.value() <= target.0 || over(measure.bytes - freed, revision.value());
            if !is_wanted || left == 0 || freed > bytes_added + CUT_BYTES_MAX {
                stopped = true;
                break;
            }
            wanted = Revision(revision.value());
            (left, freed) = (left - 1, measure.bytes.min(freed + row.value().len() as u64));
            if wanted <= limit {
                cut = freed;
            }
        }
        if !stopped {
            wanted = wanted.max(target);
        }
        measure.bytes -= cut;
        let compacted = wanted.min(limit).max(meta.compacted);
        if compacted > meta.compacted {
            self.log.retain_in(..=compacted.0, |_, _| false).map_err(engine_error)?;
        }
        self.times.retain_in(..=compacted.0, |_, _| false).map_err(engine_error)?;
        Ok(Compaction { compacted, compact_target: wanted, measure })
    }

    /// Notes when the revision before this transaction was reached, unless there is a row that is as good.
    fn record_time(&mut self, meta: &Meta, now_ms: u64) -> EngineResult<()> {
        let before = |last: Option<(redb::AccessGuard<'_, u64>, redb::AccessGuard<'_, u64>)>| {
            last.map(|(revision, at)| (revision.value(), at.value()))
        };
        let Some(Measure { bytes: _, at_ms }) = meta.measure else { return Ok(()) };
        let mut last = before(self.times.last().map_err(engine_error)?);
        // A clock that went back: what was noted with a later time is covered by the row to come.
        while let Some((revision, at)) = last
            && at > at_ms
        {
            self.times.remove(revision).map_err(engine_error)?;
            last = before(self.times.last().map_err(engine_error)?);
        }
        let covered =
            last.is_some_and(|(revision, at)| revision >= meta.revision.0 || now_ms.saturating_sub(at) < TIMES_STEP_MS);
        if !covered && meta.revision > meta.compacted {
            self.times.insert(meta.revision.0, at_ms).map_err(engine_error)?;
        }
        Ok(())
    }

    /// Returns how far number and age ask for the log to be cut.
    fn target(
        &self,
        compacted: Revision,
        newest: Revision,
        measure: Measure,
        now_ms: u64,
        bounds: &Bounds,
    ) -> EngineResult<Revision> {
        let mut target = compacted.0.max(newest.0.saturating_sub(bounds.events_max));
        let Some(cutoff_ms) = now_ms.checked_sub(age_ms(bounds)) else { return Ok(Revision(target)) };
        for row in self.times.iter().map_err(engine_error)? {
            let (revision, at) = row.map_err(engine_error)?;
            if at.value() > cutoff_ms {
                break;
            }
            target = target.max(revision.value().min(newest.0));
        }
        if measure.at_ms <= cutoff_ms {
            target = newest.0;
        }
        Ok(Revision(target))
    }

    /// Adds up the rows of a log of which nobody kept the size.
    fn bytes(&self) -> EngineResult<u64> {
        let mut bytes = 0;
        for row in self.log.iter().map_err(engine_error)? {
            bytes += row.map_err(engine_error)?.1.value().len() as u64;
        }
        Ok(bytes)
    }
}

fn age_ms(bounds: &Bounds) -> u64 {
    u64::try_from(bounds.age_max.as_millis()).unwrap_or(u64::MAX)
}
