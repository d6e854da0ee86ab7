//! Indexes in memory, by label and field.
//!
//! The first list that asks for a term builds its index, which costs as much as a list without one. Declared terms
//! keep their index. Of the others, the terms that lists asked for most recently do.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::index::{IndexLookup, SortedMerge, UNDECLARED_TERMS_MAX};
use crate::listing::Start;
use crate::model::Path;
use crate::{IndexTerm, Kind, Resource, Result};

/// Memory of an entry beside its texts, in bytes.
const ENTRY_BYTES: u64 = 112;

/// The indexes of all kinds of the contents.
#[derive(Debug, Default)]
pub(crate) struct TermIndexes(Mutex<KindIndexes>);

/// The indexes by the path prefix of their kind.
#[derive(Debug, Default)]
pub(crate) struct KindIndexes {
    by_kind: BTreeMap<Path, Vec<TermIndex>>,
    bytes: u64,
    /// Whether there was no memory for an index. Then there are none.
    is_refused: bool,
}

/// The resources that have one term, by its value.
#[derive(Debug)]
pub(crate) struct TermIndex {
    term: IndexTerm,
    paths: BTreeMap<String, BTreeSet<Path>>,
    bytes: u64,
}

impl TermIndexes {
    /// Follows a change of one resource.
    pub(crate) fn change(&self, path: &Path, kind: &Kind, before: Option<&Resource>, after: Option<&Resource>) {
        let mut indexes = self.lock();
        if indexes.by_kind.is_empty() {
            return;
        }
        let KindIndexes { by_kind, bytes, is_refused: _ } = &mut *indexes;
        let Some(indexes) = by_kind.get_mut(&Path::prefix(kind, None)) else { return };
        // Copies, so that the stored resources keep no parsed document.
        let (before, after) = (before.map(Resource::without_document), after.map(Resource::without_document));
        for index in indexes {
            *bytes -= index.bytes;
            if let Some(before) = &before {
                index.remove(path, before);
            }
            if let Some(after) = &after {
                index.insert(path, after);
            }
            *bytes += index.bytes;
        }
    }

    /// Returns the memory of all indexes, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.lock().bytes
    }

    /// Drops all indexes for lack of memory, and builds no more.
    pub(crate) fn refuse(&self) {
        *self.lock() = KindIndexes { is_refused: true, ..KindIndexes::default() };
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, KindIndexes> {
        self.0.lock().expect("no thread panics while holding the indexes")
    }
}

impl KindIndexes {
    /// Returns an index of a kind that answers one of the conditions, and the values of that condition. Builds the
    /// index if none of the conditions has one. `None` when there are no conditions, and when memory is refused.
    pub(crate) fn find<'i, 'q>(
        &'i mut self,
        kind: &Kind,
        mut lookups: Vec<IndexLookup<'q>>,
        declared: &[IndexTerm],
        resources: &BTreeMap<Path, Arc<Resource>>,
    ) -> Option<(&'i TermIndex, Vec<&'q str>)> {
        if self.is_refused || lookups.is_empty() {
            return None;
        }
        let Self { by_kind, bytes, .. } = self;
        let prefix = Path::prefix(kind, None);
        let indexes = by_kind.entry(prefix.clone()).or_default();
        let is_kept = |term: &IndexTerm| indexes.iter().any(|index| index.term == *term);
        let best = lookups.iter().position(|lookup| declared.contains(&lookup.term));
        let best = best.or_else(|| lookups.iter().position(|lookup| is_kept(&lookup.term))).unwrap_or(0);
        let IndexLookup { term, values } = lookups.swap_remove(best);
        let index = match indexes.iter().position(|index| index.term == term) {
            Some(place) => indexes.remove(place),
            None => {
                let index = TermIndex::of(term, &prefix, resources);
                *bytes += index.bytes;
                index
            }
        };
        indexes.insert(0, index);
        let mut undeclared = 0;
        indexes.retain(|index| {
            undeclared += usize::from(!declared.contains(&index.term));
            let stays = undeclared <= UNDECLARED_TERMS_MAX || declared.contains(&index.term);
            *bytes -= if stays { 0 } else { index.bytes };
            stays
        });
        indexes.first().map(|index| (index, values))
    }
}

impl TermIndex {
    fn of(term: IndexTerm, prefix: &Path, resources: &BTreeMap<Path, Arc<Resource>>) -> Self {
        let mut index = Self { term, paths: BTreeMap::new(), bytes: 0 };
        for (path, resource) in resources.range::<Path, _>((Bound::Excluded(prefix), Bound::Excluded(&prefix.end()))) {
            index.insert(path, &resource.without_document());
        }
        index
    }

    /// Returns the paths of a list that have one of the values, in order.
    pub(crate) fn paths<'i>(&'i self, values: &[&str], start: &Start) -> impl Iterator<Item = Result<&'i Path>> {
        let (after, end) = start.range();
        let of_value = |value: &&str| {
            let paths = self.paths.get(*value)?;
            Some(paths.range::<Path, _>((Bound::Excluded(after.clone()), Bound::Excluded(end.clone()))).map(Ok))
        };
        SortedMerge::of(values.iter().filter_map(of_value))
    }

    fn insert(&mut self, path: &Path, resource: &Resource) {
        let Some(value) = self.term.value_of(resource) else { return };
        let bytes = entry_bytes(path, &value);
        if self.paths.entry(value.into_owned()).or_default().insert(path.clone()) {
            self.bytes += bytes;
        }
    }

    fn remove(&mut self, path: &Path, resource: &Resource) {
        let Some(value) = self.term.value_of(resource) else { return };
        let Some(paths) = self.paths.get_mut(&*value) else { return };
        if paths.remove(path) {
            self.bytes -= entry_bytes(path, &value);
        }
        if paths.is_empty() {
            self.paths.remove(&*value);
        }
    }
}

fn entry_bytes(path: &Path, value: &str) -> u64 {
    ENTRY_BYTES + (path.0.len() + value.len()) as u64
}
