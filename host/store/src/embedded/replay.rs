//! Replays the write-ahead log after a crash.

use std::time::Duration;

use redb::Durability;

use super::CheckpointState;
use super::codec::Meta;
use super::location::OpenFile;
use super::tables::Tables;
use super::wal::{self, CutOff, UnappliedEntries};
use super::writer::{EngineResult, engine_error, read_meta};
use crate::Revision;
use crate::history::Bounds;

/// The changes of a file that are only in its write-ahead log.
pub(super) struct WalReplay {
    /// The revision of its pages.
    after: Revision,
    wal: UnappliedEntries,
}

impl WalReplay {
    /// Reads the write-ahead log.
    ///
    /// # Errors
    /// Errors of redb and of the disk; `Corrupted` when a part is missing.
    pub(super) fn read(open: &OpenFile) -> EngineResult<Self> {
        let after = read_meta(&open.database)?.revision;
        let found = wal::entries(&*open.file, open.layout, after).map_err(engine_error)?;
        let journal = found.map_err(|reason| Box::new(redb::Error::Corrupted(reason)))?;
        Ok(Self { after, wal: journal })
    }

    /// Refreshes the result after the file was closed and opened. It reads the log again only if another
    /// process had the file open meanwhile: opening a file first replays the log or starts a round.
    ///
    /// # Errors
    /// As [`WalReplay::read`].
    pub(super) fn refresh(self, open: &OpenFile) -> EngineResult<Self> {
        let is_begun = || wal::has_round(&*open.file, open.layout, self.after).map_err(engine_error);
        let is_same =
            read_meta(&open.database)?.revision == self.after && (!self.wal.entries.is_empty() || !is_begun()?);
        if is_same { Ok(self) } else { Self::read(open) }
    }

    /// Returns whether there are changes to replay.
    pub(super) fn has_changes(&self) -> bool {
        !self.wal.entries.is_empty()
    }

    /// Returns the incomplete entry, if there is one.
    pub(super) fn cut_off(&self) -> Option<CutOff> {
        self.wal.cut_off
    }

    /// Replays the log into the pages, up to a revision; returns the number of changes.
    ///
    /// # Errors
    /// Errors of redb and of the disk; `Corrupted` for a malformed row.
    pub(super) fn apply(&self, open: &OpenFile, through: Revision) -> EngineResult<u64> {
        let entries = self.wal.entries.partition_point(|entry| entry.last <= through);
        let entries = &self.wal.entries[..entries];
        let mut meta = read_meta(&open.database)?;
        let first = meta.revision;
        if entries.is_empty() {
            return Ok(0);
        }
        let mut transaction = open.database.begin_write().map_err(engine_error)?;
        transaction.set_durability(Durability::Immediate).map_err(engine_error)?;
        let mut tables = Tables::open(&transaction)?;
        for entry in entries {
            let entry = entry.read(&*open.file, open.layout).map_err(engine_error)?;
            let Some(entry) = entry else {
                return Err(Box::new(redb::Error::Corrupted(
                    "its write-ahead log changed while it was read".to_owned(),
                )));
            };
            let (mut revision, mut bytes) = (entry.first, 0);
            for row in &entry.rows {
                bytes += tables.reapply(row, revision)?;
                revision = revision.next();
            }
            let count = entry.rows.len() as u64;
            // Compacts history exactly as recorded at the time.
            let events_max = entry.last().0.saturating_sub(entry.compacted.0);
            let bounds = Bounds { events_max, bytes_max: u64::MAX, age_max: Duration::MAX };
            let cut_max = (entry.compacted.0, entry.compacted);
            if let Some((reached, measure)) = tables.write_meta(&meta, (count, bytes), cut_max, entry.at_ms, &bounds)? {
                let CheckpointState { revision, compacted, compact_target: _ } = reached;
                meta = Meta { revision, compacted, measure: Some(measure), ..meta };
            }
        }
        drop(tables);
        transaction.commit().map_err(engine_error)?;
        Ok(meta.revision.0 - first.0)
    }
}

/// Replays the write-ahead log of a file into its pages, up to a revision; returns the number of changes.
///
/// # Errors
/// Errors of redb and of the disk; `Corrupted` when a part is missing.
pub(super) fn replay(open: &OpenFile, through: Revision) -> EngineResult<u64> {
    WalReplay::read(open)?.apply(open, through)
}
