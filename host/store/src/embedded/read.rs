//! Reads a snapshot of the file.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

use async_trait::async_trait;
use redb::{Database, ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable, TableError};

use super::SharedStore;
use super::codec::{
    self, INDEX_ENTRIES, INDEXES, LOG, LogRow, META, META_COMPACTED, META_ID, META_INDEXED, META_MEASURE,
    META_REVISION, Measure, Meta, OWNERS, RESOURCES, TIMES,
};
use super::indexes::{FileIndex, IndexState, existing, read_indexes};
use super::writer::{EngineResult, engine_error};
use crate::history::check_start;
use crate::index::{self, ExaminedResources, IndexLookup, SortedMerge};
use crate::listing::changes_since::ChangesSinceCache;
use crate::listing::{self, PastRow, Start};
use crate::model::{Path, owner_prefix};
use crate::watch::{ChangeLog, LogBatch, RevisionNotifier};
use crate::{Error, Event, IndexTerm, Key, Kind, Page, Query, Resource, Result, Revision, Scope};

/// Log rows that one read of a watch scans at most.
const LOG_ROWS_MAX: usize = 1024;
/// Bytes of log rows after which one read of a watch ends.
const LOG_BYTES_MAX: usize = 8 << 20;

/// A snapshot of the file. Short-lived: it prevents the reuse of space that is freed meanwhile.
pub(super) struct Snapshot(ReadTransaction);

pub(super) type Documents = ReadOnlyTable<&'static [u8], &'static [u8]>;
type Row = (Path, Arc<Resource>);

impl Snapshot {
    pub(super) fn of(database: &Database) -> Result<Self> {
        Self::begin(database).map_err(|error| unreadable(*error))
    }

    /// As [`Snapshot::of`], for callers that need redb's error.
    pub(super) fn begin(database: &Database) -> EngineResult<Self> {
        database.begin_read().map(Self).map_err(engine_error)
    }

    pub(super) fn transaction(&self) -> &ReadTransaction {
        &self.0
    }

    pub(super) fn meta(&self) -> Result<Meta> {
        self.facts().map_err(|error| unreadable(*error))
    }

    /// As [`Snapshot::meta`], for callers that distinguish an unreadable disk from a damaged file.
    ///
    /// # Errors
    /// Errors of redb; `Corrupted` when metadata is missing or malformed.
    pub(super) fn facts(&self) -> EngineResult<Meta> {
        let damaged = |how: String| Box::new(redb::Error::Corrupted(codec::damaged("its metadata", how).to_string()));
        let table = self.0.open_table(META).map_err(engine_error)?;
        let fact = |name: &str| match table.get(name).map_err(engine_error)? {
            Some(value) => Ok(value.value().to_owned()),
            None => Err(damaged(format!("`{name}` is missing"))),
        };
        let revision = |name: &str| -> EngineResult<Revision> {
            fact(name)?.parse().map_err(|_| damaged(format!("`{name}` is not a number")))
        };
        let (id, revision, compacted) = (fact(META_ID)?, revision(META_REVISION)?, revision(META_COMPACTED)?);
        let measure = table.get(META_MEASURE).map_err(engine_error)?;
        let measure = measure.and_then(|measure| Measure::decode(measure.value(), revision));
        Ok(Meta { id, revision, compacted, measure })
    }

    /// Returns the first time in the table of times, in milliseconds since 1970: the oldest log rows are at
    /// least that old.
    pub(super) fn oldest_time(&self) -> Result<Option<u64>> {
        let times = match self.0.open_table(TIMES) {
            Err(TableError::TableDoesNotExist(_)) => return Ok(None),
            times => times.map_err(unreadable)?,
        };
        Ok(times.first().map_err(unreadable)?.map(|(_, at)| at.value()))
    }

    pub(super) fn get(&self, key: &Key) -> Result<Option<Arc<Resource>>> {
        let found = self.documents()?.get(Path::of(key).0.as_slice()).map_err(unreadable)?;
        found.map(|document| codec::resource(document.value())).transpose()
    }

    /// Lists resources. `by` has the id of the store and the counter of examined resources.
    pub(super) fn list(
        &self,
        query: &Query,
        by: (&str, &ExaminedResources),
        pasts: &ChangesSinceCache,
    ) -> Result<Page> {
        let meta = self.meta()?;
        let start = Start::of(query, by.0, meta.compacted)?;
        let revision = start.revision.unwrap_or(meta.revision);
        check_start(revision, meta.compacted, meta.revision)?;
        let past = match start.revision {
            Some(since) => Some(self.past_rows(&start, since, meta.revision, pasts)?),
            None => None,
        };
        let past = past.into_iter().flatten();
        let page = if let Some(owner) = &query.selector.owner {
            let rows = self.owned(owner)?.filter(|row| row.as_ref().map_or(true, |(path, _)| start.covers(path)));
            listing::page(query, by, revision, rows, past)
        } else if let Some((index, IndexLookup { values, .. })) = self.index_for(query, meta.revision)? {
            listing::page(query, by, revision, self.indexed_rows(&index, &values, &start)?, past)
        } else {
            listing::page(query, by, revision, self.rows(&start)?, past)
        }?;
        if page.next.is_none() {
            pasts.end(&start, revision);
        }
        start.finish(query, page, |last| {
            let range = (Bound::Excluded(last.0.as_slice()), Bound::Excluded(start.prefix.end().0));
            let range = (range.0, range.1.as_ref().map(Vec::as_slice));
            let rows = self.documents()?.range::<&[u8]>(range).map_err(unreadable)?;
            let counted = rows.map(|row| row.map_or_else(|error| Err(unreadable(error)), |_| Ok(1)));
            counted.sum::<Result<u64>>().map(Some)
        })
    }

    pub(super) fn kinds(&self) -> Result<Vec<Kind>> {
        let documents = self.documents()?;
        let mut kinds = Vec::new();
        let mut from = Path(Vec::new());
        while let Some(row) = documents.range(from.0.as_slice()..).map_err(unreadable)?.next() {
            let (_, document) = row.map_err(unreadable)?;
            let kind = codec::resource(document.value())?.key().kind().clone();
            from = Path::prefix(&kind, None).end();
            kinds.push(kind);
        }
        Ok(kinds)
    }

    pub(super) fn dependents(&self, owner: &str) -> Result<Vec<Arc<Resource>>> {
        self.owned(owner)?.map(|row| row.map(|(_, resource)| resource)).collect()
    }

    /// Reads the log after a revision, up to the limits of one read of a watch.
    pub(super) fn log(&self, scope: &Scope, after: Revision) -> Result<LogBatch> {
        let meta = self.meta()?;
        if after < meta.compacted {
            return Err(Error::Expired { oldest: meta.compacted });
        }
        let log = self.0.open_table(LOG).map_err(unreadable)?;
        let prefix = match scope {
            Scope::Kind(kind) => Path::prefix(kind, None),
            Scope::Everything => Path(Vec::new()),
        };
        let (mut events, mut through, mut bytes) = (Vec::new(), after, 0);
        for row in log.range(after.0.saturating_add(1)..).map_err(unreadable)?.take(LOG_ROWS_MAX) {
            let (revision, row) = row.map_err(unreadable)?;
            if revision.value() != through.next().0 {
                return Err(missing_revision(through.next()));
            }
            through = Revision(revision.value());
            let row = LogRow::decode(row.value())?;
            if row.is_under(&prefix) {
                bytes += row.document.len() + row.previous.len();
                events.push(row.event(through)?);
            }
            if bytes > LOG_BYTES_MAX {
                break;
            }
        }
        if through == after && after < meta.revision {
            return Err(missing_revision(after.next()));
        }
        Ok(LogBatch { events, through })
    }

    /// Returns the rows that differed at the past revision of a list, read on demand.
    fn past_rows(
        &self,
        start: &Start,
        since: Revision,
        now: Revision,
        pasts: &ChangesSinceCache,
    ) -> Result<impl Iterator<Item = Result<PastRow>> + use<>> {
        let log = self.0.open_table(LOG).map_err(unreadable)?;
        let history = self.0.open_table(LOG).map_err(unreadable)?;
        let changed =
            pasts.changes_up_to(start, since, now, move |after: Revision, tell: &mut dyn FnMut(&[u8], Revision)| {
                for row in history.range(after.0.saturating_add(1)..).map_err(unreadable)? {
                    let (revision, row) = row.map_err(unreadable)?;
                    tell(LogRow::decode(row.value())?.path, Revision(revision.value()));
                }
                Ok(())
            })?;
        Ok(changed.map(move |changed| {
            let (path, revision) = changed?;
            let row = log.get(revision.0).map_err(unreadable)?.ok_or_else(|| missing_revision(revision))?;
            Ok((path, LogRow::decode(row.value())?.before()?))
        }))
    }

    /// Returns the rows of a list, in order.
    fn rows(&self, start: &Start) -> Result<impl Iterator<Item = Result<Row>>> {
        let first = start.after.as_ref().unwrap_or(&start.prefix).0.as_slice();
        let end = start.prefix.end();
        let range = (Bound::Excluded(first), Bound::Excluded(end.0.as_slice()));
        let rows = self.documents()?.range::<&[u8]>(range).map_err(unreadable)?;
        Ok(rows.map(|row| {
            let (path, document) = row.map_err(unreadable)?;
            Ok((Path(path.value().to_vec()), codec::resource(document.value())?))
        }))
    }

    /// Returns the indexes of the file at a revision of the store; empty if they are those of another one.
    ///
    /// # Errors
    /// Errors of redb; `Corrupted` for a malformed row.
    pub(super) fn indexes(&self, revision: Revision) -> EngineResult<Vec<FileIndex>> {
        let meta = self.0.open_table(META).map_err(engine_error)?;
        let indexed = meta.get(META_INDEXED).map_err(engine_error)?;
        if indexed.is_none_or(|indexed| indexed.value() != revision.to_string()) {
            return Ok(Vec::new());
        }
        let states = existing(self.0.open_table(INDEXES))?;
        states.map_or(Ok(Vec::new()), |states| read_indexes(&states))
    }

    /// Returns the terms of a kind whose index is complete.
    pub(super) fn complete_indexes(&self, kind: &Kind) -> Result<Vec<IndexTerm>> {
        let (prefix, revision) = (Path::prefix(kind, None), self.meta()?.revision);
        let indexes = self.indexes(revision).map_err(|error| unreadable(*error))?;
        let is_complete = |index: &FileIndex| index.prefix == prefix && index.state == IndexState::Complete;
        Ok(indexes.into_iter().filter(is_complete).map(|index| index.term).collect())
    }

    /// Returns a complete index that answers a condition of a query, and that condition.
    fn index_for<'q>(&self, query: &'q Query, revision: Revision) -> Result<Option<(FileIndex, IndexLookup<'q>)>> {
        let lookups = index::lookups(&query.selector);
        if lookups.is_empty() {
            return Ok(None);
        }
        let prefix = Path::prefix(&query.kind, None);
        let mut indexes = self.indexes(revision).map_err(|error| unreadable(*error))?;
        indexes.retain(|index| index.prefix == prefix && index.state == IndexState::Complete);
        Ok(lookups.into_iter().find_map(|lookup| {
            let at = indexes.iter().position(|index| index.term == lookup.term)?;
            Some((indexes.swap_remove(at), lookup))
        }))
    }

    /// Returns the rows of a list that an index has under one of the values, in order.
    fn indexed_rows(
        &self,
        index: &FileIndex,
        values: &[&str],
        start: &Start,
    ) -> Result<impl Iterator<Item = Result<Row>> + use<>> {
        let documents = self.documents()?;
        let entries = self.0.open_table(INDEX_ENTRIES).map_err(unreadable)?;
        let within_kind = |path: &Path| path.0[index.prefix.0.len()..].to_vec();
        let (after, first) = (start.range().0, within_kind(&start.prefix));
        let mut ranges = Vec::with_capacity(values.len());
        for value in values {
            let value = index.value_prefix(value);
            let end = Path([value.as_slice(), &first].concat()).end();
            let after = [value.as_slice(), &within_kind(after)].concat();
            let range = (Bound::Excluded(after.as_slice()), Bound::Excluded(end.0.as_slice()));
            let (cut, prefix) = (value.len(), index.prefix.clone());
            ranges.push(entries.range::<&[u8]>(range).map_err(unreadable)?.map(move |entry| {
                let (entry, _) = entry.map_err(unreadable)?;
                Ok(Path([prefix.0.as_slice(), &entry.value()[cut..]].concat()))
            }));
        }
        Ok(SortedMerge::of(ranges).map(move |path| {
            let path = path?;
            let document = documents.get(path.0.as_slice()).map_err(unreadable)?;
            let document = document.ok_or_else(|| codec::damaged("its indexes", "one names a missing resource"))?;
            let resource = codec::resource(document.value())?;
            Ok((path, resource))
        }))
    }

    /// Returns the dependents of an owner, in order.
    fn owned(&self, owner: &str) -> Result<impl Iterator<Item = Result<Row>> + use<>> {
        let prefix = owner_prefix(owner);
        let documents = self.documents()?;
        let owners = self.0.open_table(OWNERS).map_err(unreadable)?;
        let mut end = prefix.clone();
        // The last byte is the 01 that ends the uid.
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        let entries = owners.range(prefix.as_slice()..end.as_slice()).map_err(unreadable)?;
        let cut = prefix.len();
        Ok(entries.map(move |entry| {
            let (entry, _) = entry.map_err(unreadable)?;
            let path = Path(entry.value()[cut..].to_vec());
            let document = documents.get(path.0.as_slice()).map_err(unreadable)?;
            let document = document.ok_or_else(|| codec::damaged("its owner index", "it names a missing resource"))?;
            let resource = codec::resource(document.value())?;
            Ok((path, resource))
        }))
    }

    /// Opens the table of resources, for callers that need redb's error.
    pub(super) fn resources(&self) -> EngineResult<Documents> {
        self.0.open_table(RESOURCES).map_err(engine_error)
    }

    fn documents(&self) -> Result<Documents> {
        self.resources().map_err(|error| unreadable(*error))
    }
}

/// Returns the error for a change that is missing in the log: an error is better than a silent gap.
fn missing_revision(revision: Revision) -> Error {
    codec::damaged("its log", format!("revision {revision} is missing"))
}

fn unreadable(error: impl Into<redb::Error>) -> Error {
    Error::unavailable(format!("reading the file failed: {}", error.into()))
}

/// The history of the file, as watches read it: recent events from memory, older ones from the change log.
pub(super) struct FileChangeLog(pub(super) Arc<SharedStore>);

#[async_trait]
impl ChangeLog for FileChangeLog {
    fn recall(&self, scope: &Scope, after: Revision, events: &mut VecDeque<Event>) -> Option<Revision> {
        self.0.recent.read().expect("no thread panics while holding the events").read(scope, after, events).ok()
    }

    async fn read(&self, scope: &Scope, after: Revision) -> Result<LogBatch> {
        let scope = scope.clone();
        self.0.read(move |snapshot| snapshot.log(&scope, after)).await
    }

    fn tip(&self) -> &RevisionNotifier {
        &self.0.tip
    }
}
