//! Making the changes again that a crash has left in the journal alone.

use std::time::Duration;

use redb::Durability;

use super::journal;
use super::place::OpenFile;
use super::writer::{Engine, Tables, engine, meta};
use crate::Revision;
use crate::history::Bounds;

/// What was made again.
pub(super) struct Replayed {
    /// How many changes that were.
    pub(super) changes: u64,
    /// The revision up to which the pages are now, on the disk.
    pub(super) last: Revision,
}

/// Brings the pages up to the journal, but not beyond a revision.
///
/// # Errors
/// What the disk answers; `Corrupted` when something is missing.
pub(super) fn replay(open: &OpenFile, through: Revision) -> Engine<Replayed> {
    let mut meta = meta(&open.database)?;
    let entries = journal::entries(&*open.file, open.layout, meta.revision).map_err(engine)?;
    let mut entries = entries.map_err(|reason| Box::new(redb::Error::Corrupted(reason)))?;
    entries.retain(|entry| entry.last() <= through);
    if entries.is_empty() {
        return Ok(Replayed { changes: 0, last: meta.revision });
    }
    let first = meta.revision;
    let mut transaction = open.database.begin_write().map_err(engine)?;
    transaction.set_durability(Durability::Immediate).map_err(engine)?;
    let mut tables = Tables::open(&transaction)?;
    for entry in entries {
        let (mut revision, mut bytes) = (entry.first, 0);
        for row in &entry.rows {
            bytes += tables.redo(row, revision)?;
            revision = revision.next();
        }
        let count = entry.rows.len() as u64;
        // History is cut as it was then, and not further.
        let events_max = entry.last().0.saturating_sub(entry.compacted.0);
        let bounds = Bounds { events_max, bytes_max: u64::MAX, age_max: Duration::MAX };
        meta = tables.finish(&meta, (count, bytes), entry.compacted.0, entry.at_ms, &bounds)?.unwrap_or(meta);
    }
    drop(tables);
    transaction.commit().map_err(engine)?;
    Ok(Replayed { changes: meta.revision.0 - first.0, last: meta.revision })
}
