//! The effect of a change on the tables of the file.

use std::borrow::Cow;

use redb::{ReadableTable, Table, WriteTransaction};

use super::codec::{
    LOG, LogRow, META, META_COMPACTED, META_FORMAT, META_INDEXED, META_MEASURE, META_REVISION, Measure, Meta, OWNERS,
    RESOURCES, TIMES,
};
use super::indexes::IndexTables;
use super::retention::{Compaction, LogTables};
use super::writer::{EngineResult, engine_error};
use super::{CheckpointState, FORMAT};
use crate::history::Bounds;
use crate::model::{Path, owner_prefix};
use crate::{Error, Event, EventType, Resource, Revision};

/// The tables, open for writing.
pub(super) struct Tables<'a> {
    resources: Table<'a, &'static [u8], &'static [u8]>,
    log: Table<'a, u64, &'static [u8]>,
    owners: Table<'a, &'static [u8], ()>,
    /// `None` for a file that has no declared indexes.
    indexes: Option<IndexTables<'a>>,
    times: Table<'a, u64, u64>,
    meta: Table<'a, &'static str, &'static str>,
}

impl<'a> Tables<'a> {
    pub(super) fn open(transaction: &'a WriteTransaction) -> EngineResult<Self> {
        let indexes = IndexTables::open(transaction)?;
        Ok(Self {
            indexes,
            resources: transaction.open_table(RESOURCES).map_err(engine_error)?,
            log: transaction.open_table(LOG).map_err(engine_error)?,
            owners: transaction.open_table(OWNERS).map_err(engine_error)?,
            times: transaction.open_table(TIMES).map_err(engine_error)?,
            meta: transaction.open_table(META).map_err(engine_error)?,
        })
    }

    /// Applies a change, and stores its log row; returns the length of that row.
    pub(super) fn apply(&mut self, row: &LogRow<'_>, event: &Event) -> EngineResult<u64> {
        let path = Path(row.path.to_vec());
        for entry in event.previous.iter().flat_map(|previous| owner_entries(previous, &path)) {
            self.owners.remove(entry.as_slice()).map_err(engine_error)?;
        }
        let bytes = {
            let before = if event.kind == EventType::Deleted {
                self.resources.remove(row.path).map_err(engine_error)?
            } else {
                self.resources.insert(row.path, row.document).map_err(engine_error)?
            };
            let previous = before.as_ref().map_or(Cow::default(), |before| Cow::Borrowed(before.value()));
            LogRow { previous, ..*row }.encode()
        };
        if event.kind != EventType::Deleted {
            for entry in owner_entries(&event.resource, &path) {
                self.owners.insert(entry.as_slice(), ()).map_err(engine_error)?;
            }
        }
        if let Some(indexes) = &mut self.indexes {
            indexes.apply(row.path, event)?;
        }
        self.log.insert(event.revision.0, bytes.as_slice()).map_err(engine_error)?;
        Ok(bytes.len() as u64)
    }

    /// Reapplies a change of the write-ahead log; returns the length of its log row.
    pub(super) fn reapply(&mut self, row: &[u8], revision: Revision) -> EngineResult<u64> {
        let damaged = |error: Error| Box::new(redb::Error::Corrupted(error.to_string()));
        let row = LogRow::decode(row).map_err(damaged)?;
        let before = self.resources.get(row.path).map_err(engine_error)?.map(|document| document.value().to_vec());
        let row = LogRow { previous: before.unwrap_or_default().into(), ..row };
        let event = row.event(revision).map_err(damaged)?;
        self.apply(&row, &event)
    }

    /// Records the revision of the store, and compacts a piece of the log that is too long, too old or too
    /// large. `cut_max` bounds the compaction: rows beyond those added, and the last revision to remove.
    ///
    /// Returns the new state of the pages; `None` when there is nothing to record.
    pub(super) fn write_meta(
        &mut self,
        meta: &Meta,
        added: (u64, u64),
        cut_max: (u64, Revision),
        now_ms: u64,
        bounds: &Bounds,
    ) -> EngineResult<Option<(CheckpointState, Measure)>> {
        let mut rows = LogTables { log: &mut self.log, times: &mut self.times };
        let Compaction { compacted, compact_target: wanted, measure } =
            rows.compact(meta, added, cut_max, now_ms, bounds)?;
        if added.0 == 0 && compacted == meta.compacted && meta.measure == Some(measure) {
            return Ok(None);
        }
        let revision = Revision(meta.revision.0 + added.0);
        // Older programs cannot read the added rows.
        self.meta.insert(META_FORMAT, FORMAT.to_string().as_str()).map_err(engine_error)?;
        self.meta.insert(META_REVISION, revision.to_string().as_str()).map_err(engine_error)?;
        if self.indexes.is_some() {
            self.meta.insert(META_INDEXED, revision.to_string().as_str()).map_err(engine_error)?;
        }
        self.meta.insert(META_COMPACTED, compacted.to_string().as_str()).map_err(engine_error)?;
        self.meta.insert(META_MEASURE, measure.encode(revision).as_str()).map_err(engine_error)?;
        Ok(Some((CheckpointState { revision, compacted, compact_target: wanted }, measure)))
    }
}

/// Returns a resource's rows in the owner index.
pub(super) fn owner_entries(resource: &Resource, path: &Path) -> impl Iterator<Item = Vec<u8>> {
    resource.owners().iter().map(|owner| {
        let mut entry = owner_prefix(&owner.uid);
        entry.extend(&path.0);
        entry
    })
}
