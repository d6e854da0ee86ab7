//! The declared indexes of the file: their tables, and how the tables follow changes.
//!
//! An index is *building* until it has the resources of its kind that were there before it. It is built in the order
//! of paths, one piece per transaction. Changes of resources behind the last piece go into the index at once; the
//! other resources come with a later piece. An index without a declaration is *dropping*: its entries are
//! removed in pieces, too, and no change reaches it. Only a complete index answers lists.
//!
//! The tables are part of redb's pages. So a replay of the write-ahead log brings them forward with the resources,
//! and a lost piece is built again.

use std::ops::Bound;

use redb::{ReadableTable, Table, TableError, WriteTransaction};

use super::codec::{self, INDEX_ENTRIES, INDEXES, META, META_INDEXED, META_REVISION};
use super::writer::{EngineResult, engine_error};
use crate::model::{Path, decode, encode};
use crate::schema::DeclaredIndexes;
use crate::{Event, EventType, IndexTerm, Resource, Revision};

/// Resources or entries of one piece at most.
const PIECE_ROWS_MAX: usize = 4000;
/// Bytes of documents after which a piece ends.
const PIECE_BYTES_MAX: usize = 4 << 20;

const BUILDING: u8 = 0;
const COMPLETE: u8 = 1;
const DROPPING: u8 = 2;

/// How far an index is. Its row is one of the bytes above; while building, the last path follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum IndexState {
    /// It has the resources up to this path; up to none, if the path is empty.
    Building(Path),
    /// It has all resources.
    Complete,
    /// Its definition does not declare it any more.
    Dropping,
}

impl IndexState {
    fn encode(&self) -> Vec<u8> {
        match self {
            Self::Building(through) => [&[BUILDING], through.0.as_slice()].concat(),
            Self::Complete => vec![COMPLETE],
            Self::Dropping => vec![DROPPING],
        }
    }

    fn decode(row: &[u8]) -> Option<Self> {
        match row.split_first()? {
            (&BUILDING, through) => Some(Self::Building(Path(through.to_vec()))),
            (&COMPLETE, []) => Some(Self::Complete),
            (&DROPPING, []) => Some(Self::Dropping),
            _ => None,
        }
    }
}

/// One index of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileIndex {
    group: String,
    name: String,
    pub(super) term: IndexTerm,
    /// The path prefix of its kind.
    pub(super) prefix: Path,
    pub(super) state: IndexState,
}

impl FileIndex {
    fn new(group: &str, name: &str, term: IndexTerm, state: IndexState) -> Self {
        let prefix = Path(encode(&[group, name]));
        Self { group: group.to_owned(), name: name.to_owned(), term, prefix, state }
    }

    /// Reads a row of [`INDEXES`]; `None` for a malformed one.
    pub(super) fn decode(id: &[u8], state: &[u8]) -> Option<Self> {
        let [group, name, term] = decode(id)?.try_into().ok()?;
        Some(Self::new(&group, &name, IndexTerm::decode(&term)?, IndexState::decode(state)?))
    }

    /// Returns its key in [`INDEXES`], which is the prefix of its entries.
    pub(super) fn id(&self) -> Path {
        Path(encode(&[&self.group, &self.name, &self.term.encode()]))
    }

    /// Returns the prefix of the entries of a value.
    pub(super) fn value_prefix(&self, value: &str) -> Vec<u8> {
        encode(&[&self.group, &self.name, &self.term.encode(), value])
    }

    /// Returns the entry of a resource; `None` if the index does not have it.
    pub(super) fn entry(&self, path: &[u8], resource: &Resource) -> Option<Vec<u8>> {
        let mut entry = self.value_prefix(&self.term.value_of(resource)?);
        entry.extend(path.strip_prefix(self.prefix.0.as_slice())?);
        Some(entry)
    }

    /// Returns the path of an entry of this index; `None` for other bytes.
    pub(super) fn path_of(&self, entry: &[u8]) -> Option<Path> {
        let of_value = entry.strip_prefix(self.id().0.as_slice())?;
        let end = of_value.windows(2).position(|end| end == [0, 1])? + 2;
        Some(Path([self.prefix.0.as_slice(), &of_value[end..]].concat()))
    }

    /// Returns whether changes of a resource go into the index now.
    pub(super) fn follows(&self, path: &[u8]) -> bool {
        path.starts_with(&self.prefix.0)
            && match &self.state {
                IndexState::Building(through) => path <= through.0.as_slice(),
                IndexState::Complete => true,
                IndexState::Dropping => false,
            }
    }
}

/// The tables of indexes, open for writing.
pub(super) struct IndexTables<'a> {
    states: Table<'a, &'static [u8], &'static [u8]>,
    entries: Table<'a, &'static [u8], ()>,
    indexes: Vec<FileIndex>,
}

impl<'a> IndexTables<'a> {
    /// Opens the tables; `None` for a file that has no indexes. Removes indexes that a program left behind which does
    /// not know them.
    pub(super) fn open(transaction: &'a WriteTransaction) -> EngineResult<Option<Self>> {
        let (indexed, revision) = {
            let meta = transaction.open_table(META).map_err(engine_error)?;
            let fact = |name: &str| -> EngineResult<Option<String>> {
                Ok(meta.get(name).map_err(engine_error)?.map(|value| value.value().to_owned()))
            };
            (fact(META_INDEXED)?, fact(META_REVISION)?)
        };
        if indexed.is_none() {
            return Ok(None);
        }
        if indexed != revision {
            transaction.delete_table(INDEXES).map_err(engine_error)?;
            transaction.delete_table(INDEX_ENTRIES).map_err(engine_error)?;
        }
        Self::create(transaction).map(Some)
    }

    /// Opens the tables, or creates them.
    fn create(transaction: &'a WriteTransaction) -> EngineResult<Self> {
        let states = transaction.open_table(INDEXES).map_err(engine_error)?;
        let entries = transaction.open_table(INDEX_ENTRIES).map_err(engine_error)?;
        let indexes = read_indexes(&states)?;
        Ok(Self { states, entries, indexes })
    }

    /// Follows a change of a resource.
    pub(super) fn apply(&mut self, path: &[u8], event: &Event) -> EngineResult<()> {
        if !self.indexes.iter().any(|index| index.follows(path)) {
            return Ok(());
        }
        // The events stay in memory, and keep no parsed document.
        let previous = event.previous.as_ref().map(Resource::detached);
        let resource = (event.kind != EventType::Deleted).then(|| event.resource.detached());
        for index in self.indexes.iter().filter(|index| index.follows(path)) {
            let before = previous.as_ref().and_then(|previous| index.entry(path, previous));
            let after = resource.as_ref().and_then(|resource| index.entry(path, resource));
            if before == after {
                continue;
            }
            if let Some(before) = before {
                self.entries.remove(before.as_slice()).map_err(engine_error)?;
            }
            if let Some(after) = after {
                self.entries.insert(after.as_slice(), ()).map_err(engine_error)?;
            }
        }
        Ok(())
    }

    fn set(&mut self, at: usize, state: IndexState) -> EngineResult<()> {
        let index = &mut self.indexes[at];
        index.state = state;
        self.states.insert(index.id().0.as_slice(), index.state.encode().as_slice()).map_err(engine_error)?;
        Ok(())
    }

    /// Adds the declared indexes that are missing, and marks those that their definition does not declare any
    /// more. Indexes of kinds without a definition stay.
    fn follow_declarations(&mut self, declared: &DeclaredIndexes) -> EngineResult<()> {
        for at in 0..self.indexes.len() {
            let FileIndex { group, name, term, state, .. } = &self.indexes[at];
            let terms = declared.get(&(group.clone(), name.clone()));
            if terms.is_some_and(|terms| !terms.contains(term)) && *state != IndexState::Dropping {
                self.set(at, IndexState::Dropping)?;
            }
        }
        for ((group, name), terms) in declared {
            for term in terms.iter() {
                let has = |index: &FileIndex| (&index.group, &index.name, &index.term) == (group, name, term);
                if !self.indexes.iter().any(has) {
                    self.indexes.push(FileIndex::new(group, name, term.clone(), IndexState::Dropping));
                    self.set(self.indexes.len() - 1, IndexState::Building(Path(Vec::new())))?;
                }
            }
        }
        Ok(())
    }

    /// Builds or drops a piece of one index. Returns whether there may be more to do.
    fn work(&mut self, resources: &impl ReadableTable<&'static [u8], &'static [u8]>) -> EngineResult<bool> {
        let Some(at) = self.indexes.iter().position(|index| index.state != IndexState::Complete) else {
            return Ok(false);
        };
        match self.indexes[at].state.clone() {
            IndexState::Building(through) => {
                let reached = self.build(at, &through, resources)?;
                self.set(at, reached.map_or(IndexState::Complete, IndexState::Building))?;
            }
            IndexState::Dropping => {
                if self.drop_entries(at)? {
                    let index = self.indexes.remove(at);
                    self.states.remove(index.id().0.as_slice()).map_err(engine_error)?;
                }
            }
            IndexState::Complete => {}
        }
        Ok(true)
    }

    /// Adds the entries of the next resources after a path. Returns the last path; `None` at the end of the kind.
    fn build(
        &mut self,
        at: usize,
        through: &Path,
        resources: &impl ReadableTable<&'static [u8], &'static [u8]>,
    ) -> EngineResult<Option<Path>> {
        let index = &self.indexes[at];
        let first = if through.0.is_empty() { &index.prefix } else { through };
        let end = index.prefix.end();
        let range = (Bound::Excluded(first.0.as_slice()), Bound::Excluded(end.0.as_slice()));
        let (mut rows, mut bytes, mut last) = (0, 0, None);
        for row in resources.range::<&[u8]>(range).map_err(engine_error)? {
            let (path, document) = row.map_err(engine_error)?;
            if rows >= PIECE_ROWS_MAX || bytes >= PIECE_BYTES_MAX {
                return Ok(last);
            }
            (rows, bytes) = (rows + 1, bytes + document.value().len());
            // An unreadable document fails every list of its kind that looks at it. Its index cannot help that.
            let resource = codec::resource(document.value()).ok();
            if let Some(entry) = resource.and_then(|resource| index.entry(path.value(), &resource)) {
                self.entries.insert(entry.as_slice(), ()).map_err(engine_error)?;
            }
            last = Some(Path(path.value().to_vec()));
        }
        Ok(None)
    }

    /// Removes the next entries of an index. Returns whether none is left.
    fn drop_entries(&mut self, at: usize) -> EngineResult<bool> {
        let id = self.indexes[at].id();
        let end = id.end();
        let mut removed =
            self.entries.extract_from_if(id.0.as_slice()..end.0.as_slice(), |_, ()| true).map_err(engine_error)?;
        for _ in 0..PIECE_ROWS_MAX {
            match removed.next() {
                Some(entry) => drop(entry.map_err(engine_error)?),
                None => return Ok(true),
            }
        }
        Ok(false)
    }
}

/// Reads the rows of [`INDEXES`].
///
/// # Errors
/// Errors of redb; `Corrupted` for a malformed row.
pub(super) fn read_indexes(states: &impl ReadableTable<&'static [u8], &'static [u8]>) -> EngineResult<Vec<FileIndex>> {
    let mut indexes = Vec::new();
    for row in states.iter().map_err(engine_error)? {
        let (id, state) = row.map_err(engine_error)?;
        let index = FileIndex::decode(id.value(), state.value());
        let damaged = || Box::new(redb::Error::Corrupted("a row of its indexes is malformed".to_owned()));
        indexes.push(index.ok_or_else(damaged)?);
    }
    Ok(indexes)
}

/// Returns whether the indexes of the file are complete, and those that are declared.
pub(super) fn is_settled(indexes: &[FileIndex], declared: &DeclaredIndexes) -> bool {
    let terms = |index: &FileIndex| declared.get(&(index.group.clone(), index.name.clone()));
    let is_wanted = |index: &FileIndex| terms(index).is_none_or(|terms| terms.contains(&index.term));
    let is_kept = |group: &str, name: &str, term: &IndexTerm| {
        indexes.iter().any(|index| index.group == group && index.name == name && index.term == *term)
    };
    indexes.iter().all(|index| index.state == IndexState::Complete && is_wanted(index))
        && declared.iter().all(|((group, name), terms)| terms.iter().all(|term| is_kept(group, name, term)))
}

/// Brings the indexes of the file one piece closer to the declared ones, in a transaction at this revision of the
/// store. Returns whether there may be more to do; if not, it has changed nothing.
pub(super) fn work(
    transaction: &WriteTransaction,
    declared: &DeclaredIndexes,
    revision: Revision,
) -> EngineResult<bool> {
    let mut tables = match IndexTables::open(transaction)? {
        Some(tables) => tables,
        None => IndexTables::create(transaction)?,
    };
    tables.follow_declarations(declared)?;
    let resources = transaction.open_table(codec::RESOURCES).map_err(engine_error)?;
    let worked = tables.work(&resources)?;
    if worked {
        let mut meta = transaction.open_table(META).map_err(engine_error)?;
        meta.insert(META_INDEXED, revision.to_string().as_str()).map_err(engine_error)?;
    }
    Ok(worked)
}

/// Returns an opened table; `None` if it does not exist.
pub(super) fn existing<T>(table: Result<T, TableError>) -> EngineResult<Option<T>> {
    match table {
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        table => table.map(Some).map_err(engine_error),
    }
}
