//! Caches which keys changed since the revision of a list, for its later pages.
//!
//! A later page needs, for every key that it passes, whether the key changed since the list started, and its
//! first change. Without a cache, every page would read the whole history since. Each page reads on where the
//! page before stopped. The cache holds revisions, not documents. It may be evicted at any time; then the
//! history is read again.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard};

use super::Start;
use crate::model::Path;
use crate::{Result, Revision};

/// Cached lists.
pub(crate) const LISTS_MAX: usize = 16;

/// Cached keys of all lists together: some 30 MB.
pub(crate) const KEYS_MAX: usize = 256 * 1024;

/// Keys read under one lock.
const PIECE: usize = 64;

/// The changes since one revision, below one prefix.
#[derive(Debug)]
pub(crate) struct ChangesSince {
    /// The end of the read history.
    through: Revision,
    /// The first change of each changed path.
    first: BTreeMap<Path, Revision>,
}

/// The changes since a revision, shared by the pages of one list.
pub(crate) type SharedChanges = Arc<Mutex<ChangesSince>>;

/// The cache, most recently used list first.
#[derive(Debug, Default)]
pub(crate) struct ChangesSinceCache(Mutex<VecDeque<CachedChanges>>);

#[derive(Debug)]
struct CachedChanges {
    since: Revision,
    prefix: Path,
    past: SharedChanges,
    keys: usize,
}

impl ChangesSinceCache {
    /// Returns the changes from the revision of a list up to `now`.
    ///
    /// `scan` reads the missing part of the history: it reports the path and the revision of every change
    /// after the given revision, in order, at least up to `now`.
    pub(crate) fn changes_up_to(
        &self,
        start: &Start,
        since: Revision,
        now: Revision,
        scan: impl FnOnce(Revision, &mut dyn FnMut(&[u8], Revision)) -> Result<()>,
    ) -> Result<SharedChanges> {
        let shared = self.take(since, &start.prefix);
        let mut past = lock(&shared);
        let ChangesSince { through, first } = &mut *past;
        if *through < now {
            let mut read = now;
            scan(*through, &mut |path, revision| {
                read = read.max(revision);
                if path.starts_with(&start.prefix.0) {
                    first.entry(Path(path.to_vec())).or_insert(revision);
                }
            })?;
            *through = read;
        }
        let keys = first.len();
        drop(past);
        self.keep(CachedChanges { since, prefix: start.prefix.clone(), past: Arc::clone(&shared), keys });
        Ok(shared)
    }

    /// Evicts the changes of a list that has ended.
    pub(crate) fn end(&self, start: &Start, since: Revision) {
        lock(&self.0).retain(|kept| !kept.is(since, &start.prefix));
    }

    fn take(&self, since: Revision, prefix: &Path) -> SharedChanges {
        let lists = lock(&self.0);
        let known = lists.iter().find(|kept| kept.is(since, prefix)).map(|kept| Arc::clone(&kept.past));
        known.unwrap_or_else(|| Arc::new(Mutex::new(ChangesSince { through: since, first: BTreeMap::new() })))
    }

    fn keep(&self, kept: CachedChanges) {
        let mut lists = lock(&self.0);
        lists.retain(|other| !other.is(kept.since, &kept.prefix));
        lists.push_front(kept);
        while lists.len() > LISTS_MAX || lists.iter().map(|kept| kept.keys).sum::<usize>() > KEYS_MAX {
            lists.pop_back();
        }
    }
}

impl CachedChanges {
    fn is(&self, since: Revision, prefix: &Path) -> bool {
        self.since == since && self.prefix == *prefix
    }
}

/// Returns the changed paths that a page may pass, in order, each with the revision of its first change.
///
/// `now` is the revision of the present rows: later changes are not in them and are skipped.
pub(crate) fn changed(
    past: SharedChanges,
    start: &Start,
    now: Revision,
) -> impl Iterator<Item = (Path, Revision)> + use<> {
    let mut after = start.after.clone().unwrap_or_else(|| start.prefix.clone());
    let mut piece = Vec::new().into_iter();
    std::iter::from_fn(move || {
        if piece.as_slice().is_empty() {
            let past = lock(&past);
            let range = past.first.range((Bound::Excluded(&after), Bound::Unbounded));
            let range = range.filter(|(_, revision)| **revision <= now).take(PIECE);
            let found: Vec<(Path, Revision)> = range.map(|(path, revision)| (path.clone(), *revision)).collect();
            if let Some((last, _)) = found.last() {
                after.clone_from(last);
            }
            piece = found.into_iter();
        }
        piece.next()
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nobody panics while holding a past")
}

#[cfg(test)]
mod tests;
