//! Making the changes again that a crash has left in the journal alone.

use std::time::Duration;

use redb::Durability;

use super::Reached;
use super::codec::Meta;
use super::journal::{self, CutOff, Found};
use super::place::OpenFile;
use super::tables::Tables;
use super::writer::{Engine, engine, meta};
use crate::Revision;
use crate::history::Bounds;

/// What a place has in its journal alone.
pub(super) struct Waiting {
    /// The revision up to which its pages are.
    after: Revision,
    journal: Found,
}

impl Waiting {
    /// Reads the journal.
    ///
    /// # Errors
    /// What the disk answers; `Corrupted` when something is missing.
    pub(super) fn read(open: &OpenFile) -> Engine<Self> {
        let after = meta(&open.database)?.revision;
        let found = journal::entries(&*open.file, open.layout, after).map_err(engine)?;
        let journal = found.map_err(|reason| Box::new(redb::Error::Corrupted(reason)))?;
        Ok(Self { after, journal })
    }

    /// Returns what is there when the place was closed and opened in between. Only where somebody else had it meanwhile is it read again:
    /// whoever opens a place brings its pages up to what waits before anything else, or begins a round.
    ///
    /// # Errors
    /// As [`Waiting::read`].
    pub(super) fn still(self, open: &OpenFile) -> Engine<Self> {
        let is_begun = || journal::is_begun(&*open.file, open.layout, self.after).map_err(engine);
        let is_same =
            meta(&open.database)?.revision == self.after && (!self.journal.entries.is_empty() || !is_begun()?);
        if is_same { Ok(self) } else { Self::read(open) }
    }

    /// Returns whether there is anything.
    pub(super) fn is_any(&self) -> bool {
        !self.journal.entries.is_empty()
    }

    /// Returns the entry that is not whole, if there is one.
    pub(super) fn cut_off(&self) -> Option<CutOff> {
        self.journal.cut_off
    }

    /// Brings the pages of the place up to the journal, but not beyond a revision; returns how many changes that were.
    ///
    /// # Errors
    /// What the disk answers; `Corrupted` when a row cannot be read.
    pub(super) fn redo(&self, open: &OpenFile, through: Revision) -> Engine<u64> {
        let entries = self.journal.entries.partition_point(|entry| entry.last <= through);
        let entries = &self.journal.entries[..entries];
        let mut meta = meta(&open.database)?;
        let first = meta.revision;
        if entries.is_empty() {
            return Ok(0);
        }
        let mut transaction = open.database.begin_write().map_err(engine)?;
        transaction.set_durability(Durability::Immediate).map_err(engine)?;
        let mut tables = Tables::open(&transaction)?;
        for entry in entries {
            let entry = entry.read(&*open.file, open.layout).map_err(engine)?;
            let Some(entry) = entry else {
                return Err(Box::new(redb::Error::Corrupted("its journal is not what it was a moment ago".to_owned())));
            };
            let (mut revision, mut bytes) = (entry.first, 0);
            for row in &entry.rows {
                bytes += tables.redo(row, revision)?;
                revision = revision.next();
            }
            let count = entry.rows.len() as u64;
            // History is cut as it was then, and not further.
            let events_max = entry.last().0.saturating_sub(entry.compacted.0);
            let bounds = Bounds { events_max, bytes_max: u64::MAX, age_max: Duration::MAX };
            let cut_max = (entry.compacted.0, entry.compacted);
            if let Some((reached, measure)) = tables.finish(&meta, (count, bytes), cut_max, entry.at_ms, &bounds)? {
                let Reached { revision, compacted, wanted: _ } = reached;
                meta = Meta { revision, compacted, measure: Some(measure), ..meta };
            }
        }
        drop(tables);
        transaction.commit().map_err(engine)?;
        Ok(meta.revision.0 - first.0)
    }
}

/// Brings the pages of a place up to its journal, but not beyond a revision; returns how many changes that were.
///
/// # Errors
/// What the disk answers; `Corrupted` when something is missing.
pub(super) fn replay(open: &OpenFile, through: Revision) -> Engine<u64> {
    Waiting::read(open)?.redo(open, through)
}
