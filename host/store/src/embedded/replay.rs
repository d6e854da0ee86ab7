//! Making the changes again that a crash has left in the journal alone.

use std::time::Duration;

use redb::Durability;

use super::CheckpointState;
use super::codec::Meta;
use super::journal::{self, CutOff, UnappliedEntries};
use super::place::OpenFile;
use super::tables::Tables;
use super::writer::{EngineResult, engine_error, read_meta};
use crate::Revision;
use crate::history::Bounds;

/// What a place has in its journal alone.
pub(super) struct WalReplay {
    /// The revision up to which its pages are.
    after: Revision,
    wal: UnappliedEntries,
}

impl WalReplay {
    /// Reads the journal.
    ///
    /// # Errors
    /// What the disk answers; `Corrupted` when something is missing.
    pub(super) fn read(open: &OpenFile) -> EngineResult<Self> {
        let after = read_meta(&open.database)?.revision;
        let found = journal::entries(&*open.file, open.layout, after).map_err(engine_error)?;
        let journal = found.map_err(|reason| Box::new(redb::Error::Corrupted(reason)))?;
        Ok(Self { after, wal: journal })
    }

    /// Returns what is there when the place was closed and opened in between. Only where somebody else had it meanwhile is it read again:
    /// whoever opens a place brings its pages up to what waits before anything else, or begins a round.
    ///
    /// # Errors
    /// As [`WalReplay::read`].
    pub(super) fn refresh(self, open: &OpenFile) -> EngineResult<Self> {
        let is_begun = || journal::has_round(&*open.file, open.layout, self.after).map_err(engine_error);
        let is_same =
            read_meta(&open.database)?.revision == self.after && (!self.wal.entries.is_empty() || !is_begun()?);
        if is_same { Ok(self) } else { Self::read(open) }
    }

    /// Returns whether there is anything.
    pub(super) fn has_changes(&self) -> bool {
        !self.wal.entries.is_empty()
    }

    /// Returns the entry that is not whole, if there is one.
    pub(super) fn cut_off(&self) -> Option<CutOff> {
        self.wal.cut_off
    }

    /// Brings the pages of the place up to the journal, but not beyond a revision; returns how many changes that were.
    ///
    /// # Errors
    /// What the disk answers; `Corrupted` when a row cannot be read.
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
                return Err(Box::new(redb::Error::Corrupted("its journal is not what it was a moment ago".to_owned())));
            };
            let (mut revision, mut bytes) = (entry.first, 0);
            for row in &entry.rows {
                bytes += tables.reapply(row, revision)?;
                revision = revision.next();
            }
            let count = entry.rows.len() as u64;
            // History is cut as it was then, and not further.
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

/// Brings the pages of a place up to its journal, but not beyond a revision; returns how many changes that were.
///
/// # Errors
/// What the disk answers; `Corrupted` when something is missing.
pub(super) fn replay(open: &OpenFile, through: Revision) -> EngineResult<u64> {
    WalReplay::read(open)?.apply(open, through)
}
