//! Checks a file for every kind of damage, and changes nothing: redb's writes during the check stay in
//! memory.
//!
//! Deliberately absent: repair. No version of this program writes the damage that is found here, so the
//! intended content is unknown.

mod log;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::{ReadOnlyTable, ReadableTable, TableError};

use super::codec::{self, INDEX_ENTRIES, LOG, META, META_FORMAT, Meta, OWNERS, RESOURCES, TIMES};
use super::indexes::{FileIndex, IndexState, existing};
use super::location::Location;
use super::open::{self, OpenError, OpenResult};
use super::read::Snapshot;
use super::replay::WalReplay;
use super::tables;
pub use super::wal::CutOff;
use crate::model::owner_prefix;
use crate::{OwnerReference, Resource, Revision, model};

/// Problems reported one by one; further ones are counted.
pub const PROBLEMS_MAX: usize = 100;

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fsck {
    /// The file.
    pub path: PathBuf,
    /// The format of the file.
    pub format: u64,
    /// The id of the store.
    pub id: String,
    /// The last change of the store.
    pub revision: Revision,
    /// The oldest revision from which a watch can start.
    pub oldest: Revision,
    /// Number of resources.
    pub resources: u64,
    /// Number of changes in the history.
    pub changes: u64,
    /// Number of those that were only in the write-ahead log, because the last process did not close the
    /// file.
    pub journaled: u64,
    /// The last entry of the write-ahead log, if it is incomplete. It is a problem only if no crash can have
    /// caused it.
    pub cut_off: Option<CutOff>,
    /// Number of rows in the owner index.
    pub owners: u64,
    /// The first [`PROBLEMS_MAX`] problems.
    pub problems: Vec<Problem>,
    /// Number of all problems.
    pub problems_total: u64,
}

impl Fsck {
    /// Returns whether there are no problems.
    pub fn is_sound(&self) -> bool {
        self.problems_total == 0
    }
}

/// A problem of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// The table: `file`, `journal` (the write-ahead log), `meta`, `resources`, `log`, `owners`,
    /// `indexes` or `times`.
    pub table: &'static str,
    /// The row, for display; empty for the whole table.
    pub row: String,
    /// The problem. Never contains content of documents.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, row, what } = self;
        match row.as_str() {
            "" => write!(f, "{table}: {what}"),
            row => write!(f, "{table}: {row}: {what}"),
        }
    }
}

/// Reads a whole file and checks it: redb's structure with its checksums, the write-ahead log, the metadata,
/// every document, every change in the log and its consistency with the documents, the owner index, and the
/// indexes by label and field.
///
/// The file is never changed, and no other process can have it open meanwhile; to check a running store,
/// check a backup. Blocks for as long as the disk takes. Needs memory for the keys that changed within the
/// history.
///
/// # Errors
/// See [`OpenError`]: only errors that prevent reading the file at all. All others are in the result.
pub fn fsck(path: &Path) -> Result<Fsck, OpenError> {
    let place = Location::File(path.to_owned());
    place.sync_and_drop_cache().map_err(|error| open::io(path, error))?;
    open::catch_panics(path, || {
        let mut open = place.open_read_only().map_err(|error| open::open_error(path, error))?;
        let whole = open.database.check_integrity().map_err(|error| open::open_error(path, error))?;
        open::recognise(path, &open.database)?;
        let mut findings = Findings::default();
        if !whole {
            findings.add("file", "", "its structure is inconsistent");
        }
        let read = |waiting: WalReplay| Ok((waiting.apply(&open, Revision(u64::MAX))?, waiting.cut_off()));
        let (journaled, cut_off) = WalReplay::read(&open).and_then(read).unwrap_or_else(|error| {
            findings.add("journal", "", error.to_string());
            (0, None)
        });
        if let Some(cut_off) = cut_off.filter(|cut_off| cut_off.is_damage) {
            findings.add("journal", "", cut_off.to_string());
        }
        let database = &open.database;
        let snapshot = Snapshot::of(database).map_err(|error| open::damaged(path, error))?;
        let meta = snapshot.meta().map_err(|error| open::damaged(path, error))?;
        Ok(Fsck { journaled, cut_off, ..Checker::new(path, &snapshot, meta, findings)?.run()? })
    })
}

/// The problems so far.
#[derive(Debug, Default)]
struct Findings {
    problems: Vec<Problem>,
    total: u64,
}

impl Findings {
    fn add(&mut self, table: &'static str, row: impl fmt::Display, what: impl Into<String>) {
        self.total += 1;
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(Problem { table, row: row.to_string(), what: what.into() });
        }
    }
}

type Documents = ReadOnlyTable<&'static [u8], &'static [u8]>;

/// A check in progress: the tables of one file, and the results so far.
struct Checker<'a> {
    path: &'a Path,
    meta: Meta,
    format: u64,
    resources: Documents,
    log: ReadOnlyTable<u64, &'static [u8]>,
    owners: ReadOnlyTable<&'static [u8], ()>,
    /// Without indexes that are dropping, whose entries need not be right.
    indexes: Vec<FileIndex>,
    index_entries: Option<ReadOnlyTable<&'static [u8], ()>>,
    times: Option<ReadOnlyTable<u64, u64>>,
    findings: Findings,
    /// The last change in the log, by path.
    latest: HashMap<Vec<u8>, u64>,
}

impl<'a> Checker<'a> {
    fn new(path: &'a Path, snapshot: &Snapshot, meta: Meta, findings: Findings) -> OpenResult<Self> {
        let transaction = snapshot.transaction();
        let mut indexes = snapshot.indexes(meta.revision).map_err(|error| open::damaged(path, error))?;
        indexes.retain(|index| index.state != IndexState::Dropping);
        let index_entries = existing(transaction.open_table(INDEX_ENTRIES));
        let damaged = |error: TableError| open::damaged(path, error);
        let facts = transaction.open_table(META).map_err(damaged)?;
        let format = facts.get(META_FORMAT).map_err(|error| open::damaged(path, error))?;
        let format = format.and_then(|format| format.value().parse().ok()).unwrap_or(0);
        let times = match transaction.open_table(TIMES) {
            Err(TableError::TableDoesNotExist(_)) => None,
            times => Some(times.map_err(damaged)?),
        };
        Ok(Self {
            path,
            meta,
            format,
            resources: transaction.open_table(RESOURCES).map_err(damaged)?,
            log: transaction.open_table(LOG).map_err(damaged)?,
            owners: transaction.open_table(OWNERS).map_err(damaged)?,
            indexes,
            index_entries: index_entries.map_err(|error| open::damaged(path, error))?,
            times,
            findings,
            latest: HashMap::new(),
        })
    }

    fn run(mut self) -> OpenResult<Fsck> {
        self.check_meta();
        let changes = self.check_log().map_err(|error| open::damaged(self.path, error))?;
        let resources = self.check_documents().map_err(|error| open::damaged(self.path, error))?;
        let owners = self.check_owners().map_err(|error| open::damaged(self.path, error))?;
        self.check_indexes().map_err(|error| open::damaged(self.path, error))?;
        self.check_times().map_err(|error| open::damaged(self.path, error))?;
        let Self { path, meta, format, findings, .. } = self;
        Ok(Fsck {
            path: path.to_owned(),
            format,
            id: meta.id,
            revision: meta.revision,
            oldest: meta.compacted,
            resources,
            changes,
            journaled: 0,
            cut_off: None,
            owners,
            problems: findings.problems,
            problems_total: findings.total,
        })
    }

    fn check_meta(&mut self) {
        if self.meta.id.is_empty() {
            self.findings.add("meta", "id", "is empty");
        }
        if self.format == 0 {
            self.findings.add("meta", "format", "is not a known format");
        }
        if self.meta.compacted > self.meta.revision {
            self.findings.add("meta", "compacted", format!("is beyond the revision, {}", self.meta.revision));
        }
    }

    /// Checks every document: that it can be parsed, that it is under its own path, and that it agrees with
    /// the log and the owner index.
    fn check_documents(&mut self) -> Result<u64, redb::Error> {
        let mut count = 0;
        for row in self.resources.range::<&[u8]>(..)? {
            let (path, document) = row?;
            let (path, document) = (path.value(), document.value());
            count += 1;
            match codec::resource(document) {
                Err(_) => self.findings.add("resources", readable(path), "cannot be read"),
                Ok(resource) => {
                    if model::Path::of(resource.key()).0 != path {
                        self.findings.add(
                            "resources",
                            readable(path),
                            format!("has the document of {}", resource.key()),
                        );
                    }
                    self.check_revision(path, &resource);
                    for entry in tables::owner_entries(&resource, &model::Path(path.to_vec())).collect::<BTreeSet<_>>()
                    {
                        if self.owners.get(entry.as_slice())?.is_none() {
                            self.findings.add("owners", readable(&entry), "is missing");
                        }
                    }
                    self.check_indexed(path, &resource)?;
                }
            }
        }
        Ok(count)
    }

    fn check_revision(&mut self, path: &[u8], resource: &Resource) {
        let (revision, meta) = (resource.revision(), &self.meta);
        if revision == Revision::ZERO || revision > meta.revision {
            let what = format!("has revision {revision}, and the store is at {}", meta.revision);
            self.findings.add("resources", readable(path), what);
        } else if revision > meta.compacted && !self.latest.contains_key(path) {
            self.findings.add("resources", readable(path), format!("has revision {revision}, which is not in the log"));
        }
        if resource.uid().is_empty() {
            self.findings.add("resources", readable(path), "has no uid");
        }
    }

    /// Checks that every row of the owner index belongs to a resource that names the owner.
    fn check_owners(&mut self) -> Result<u64, redb::Error> {
        let mut count = 0;
        for row in self.owners.iter()? {
            let (entry, _) = row?;
            let entry = entry.value();
            count += 1;
            let Some(end) = entry.windows(2).position(|end| end == [0, 1]) else {
                self.findings.add("owners", readable(entry), "is malformed");
                continue;
            };
            let (owner, path) = entry.split_at(end + 2);
            match self.resources.get(path)? {
                None => self.findings.add("owners", readable(entry), "names a missing resource"),
                Some(document) => {
                    // A document that cannot be parsed was already reported.
                    let names = |named: &OwnerReference| owner_prefix(&named.uid) == owner;
                    if codec::resource(document.value()).is_ok_and(|resource| !resource.owners().iter().any(names)) {
                        self.findings.add("owners", readable(entry), "names an owner that is not in the resource");
                    }
                }
            }
        }
        Ok(count)
    }

    /// Checks that a resource is in every index that has its term.
    fn check_indexed(&mut self, path: &[u8], resource: &Resource) -> Result<(), redb::Error> {
        let Some(entries) = &self.index_entries else { return Ok(()) };
        let followed = self.indexes.iter().filter(|index| index.follows(path));
        for entry in followed.filter_map(|index| index.entry(path, resource)) {
            if entries.get(entry.as_slice())?.is_none() {
                self.findings.add("indexes", readable(&entry), "is missing");
            }
        }
        Ok(())
    }

    /// Checks that every entry of an index is that of a resource.
    fn check_indexes(&mut self) -> Result<(), redb::Error> {
        let Some(entries) = &self.index_entries else { return Ok(()) };
        for index in &self.indexes {
            let id = index.id();
            for entry in entries.range::<&[u8]>(id.0.as_slice()..id.end().0.as_slice())? {
                let (entry, _) = entry?;
                let Some(path) = index.path_of(entry.value()) else {
                    self.findings.add("indexes", readable(entry.value()), "is malformed");
                    continue;
                };
                match self.resources.get(path.0.as_slice())? {
                    None => self.findings.add("indexes", readable(entry.value()), "names a missing resource"),
                    Some(document) => {
                        // A document that cannot be parsed was already reported.
                        let is_its =
                            |resource: Arc<Resource>| index.entry(&path.0, &resource).as_deref() == Some(entry.value());
                        if codec::resource(document.value()).is_ok_and(|resource| !is_its(resource)) {
                            let what = "has a value that is not in the resource";
                            self.findings.add("indexes", readable(entry.value()), what);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Checks that times increase with revisions, up to the revision of the store.
    fn check_times(&mut self) -> Result<(), redb::Error> {
        let Some(times) = &self.times else { return Ok(()) };
        let mut last = 0;
        for row in times.iter()? {
            let (revision, at) = row?;
            if at.value() < last {
                self.findings.add("times", revision.value(), "is earlier than the row before");
            }
            if revision.value() > self.meta.revision.0 {
                self.findings.add("times", revision.value(), "is beyond the revision of the store");
            }
            last = at.value();
        }
        Ok(())
    }
}

/// Formats a path, or a row of the owner index, for display.
fn readable(path: &[u8]) -> String {
    let text = String::from_utf8_lossy(path).replace("\0\u{1}", "/");
    let text = text.strip_suffix('/').unwrap_or(&text);
    homeostat_text::line(text).into_owned()
}
