//! Retention of the change log: how much of it to compact, and when.
//!
//! The number of rows follows from the revisions, and their size is recorded in the metadata. Their age is
//! known to the minute, from a sparse table of times. A row has the time by which a revision had been
//! reached; all changes up to it are at least that old. A program that does not maintain these makes history
//! look younger, so it is kept longer; it never causes an early compaction.

use std::time::{Duration, SystemTime};

use redb::{ReadableTable, Table};

use super::codec::{Measure, Meta};
use super::writer::{EngineResult, engine_error};
use crate::Revision;
use crate::history::Bounds;

/// Log rows that one transaction removes beyond those that it adds, so that no commit is delayed by much.
pub(super) const CUT_EXTRA_MAX: u64 = 64;
/// Rows that one transaction of an idle store removes.
pub(super) const CUT_IDLE_MAX: u64 = 512;
/// Bytes of rows after which one transaction stops removing, beyond those that it adds.
const CUT_BYTES_MAX: u64 = 4 << 20;
/// Minimum time between two rows of the table of times.
const TIMES_STEP_MS: u64 = 60_000;
/// Shortest sleep of the checkpointer until the next compaction that is due by time.
pub(super) const SLEEP_MIN: Duration = Duration::from_secs(1);
/// Longest sleep: the clock of the store may differ from the one that the thread sleeps by.
pub(super) const SLEEP_MAX: Duration = Duration::from_secs(600);

/// The log and the table of times, open for writing.
pub(super) struct LogTables<'t, 'a> {
    pub(super) log: &'t mut Table<'a, u64, &'static [u8]>,
    pub(super) times: &'t mut Table<'a, u64, u64>,
}

/// The start of the log after a compaction, with its size and age.
pub(super) struct Compaction {
    pub(super) compacted: Revision,
    /// The start by the bounds alone. Never before `compacted`.
    pub(super) compact_target: Revision,
    pub(super) measure: Measure,
}

/// Returns milliseconds since 1970; 0 for earlier times.
pub(super) fn milliseconds(now: SystemTime) -> u64 {
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the time until the next compaction; `None` when the log is empty.
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
    /// Accounts for the added rows, and compacts a piece of the log if a bound is exceeded.
    ///
    /// `meta` is from before the transaction; `added` are rows and bytes; `rows_max` bounds the rows removed
    /// beyond those added. Nothing after `limit` is removed.
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
        // The bytes removed now, up to `limit`.
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

    /// Records when the revision before this transaction was reached, unless a recent enough row exists.
    fn record_time(&mut self, meta: &Meta, now_ms: u64) -> EngineResult<()> {
        let before = |last: Option<(redb::AccessGuard<'_, u64>, redb::AccessGuard<'_, u64>)>| {
            last.map(|(revision, at)| (revision.value(), at.value()))
        };
        let Some(Measure { bytes: _, at_ms }) = meta.measure else { return Ok(()) };
        let mut last = before(self.times.last().map_err(engine_error)?);
        // The clock went back: the new row covers the rows with later times.
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

    /// Returns the start of the log by count and age.
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

    /// Sums the rows of a log whose size is not recorded.
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
