//! Caches which keys changed since the revision of a list, for its later pages.
//!
//! A later page needs, for every key that it passes, whether the key changed since the list started, and its
//! first change. Without a cache, every page would read the whole history since. Each page reads on where the
//! page before stopped. The cache holds revisions, not documents. It may be evicted at any time; then the
//! history is read again.
//!
//! A page holds at most [`WINDOW_BYTES_MAX`] of changed keys at once. It reads the history again for the keys
//! behind that window.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard};

use super::Start;
use crate::model::Path;
use crate::{Result, Revision};

/// Cached lists.
pub(crate) const LISTS_MAX: usize = 16;

/// Maximum bytes of cached keys, of all lists together.
pub(crate) const BYTES_MAX: u64 = 32 << 20;

/// Maximum bytes of the changed keys that one page holds at once.
pub(crate) const WINDOW_BYTES_MAX: u64 = 8 << 20;

/// Bytes of a key beside its path: the revision, and its share of a tree that grows at its end.
const KEY_BYTES: u64 = 96;

/// Keys read under one lock.
const PIECE: usize = 64;

/// The changes since one revision, below one prefix, from one path on.
#[derive(Debug)]
pub(crate) struct ChangesSince {
    /// The end of the read history.
    through: Revision,
    /// The first change of each changed path behind `behind`, up to `last`.
    first: BTreeMap<Path, Revision>,
    /// Size of these, in bytes.
    bytes: u64,
    behind: Path,
    /// `None` if all changed paths fit.
    last: Option<Path>,
}

/// The changes since a revision, shared by the pages of one list.
type SharedChanges = Arc<Mutex<ChangesSince>>;

/// The cache, most recently used list first.
#[derive(Debug, Default)]
pub(crate) struct ChangesSinceCache(Mutex<VecDeque<CachedChanges>>);

#[derive(Debug)]
struct CachedChanges {
    since: Revision,
    prefix: Path,
    past: SharedChanges,
    bytes: u64,
}

impl ChangesSinceCache {
    /// Returns the changed paths that a page may pass, in order, each with the revision of its first change.
    ///
    /// `now` is the revision of the present rows: later changes are not in them and are skipped. `scan` reads the
    /// missing part of the history: it reports the path and the revision of every change after the given
    /// revision, in order, at least up to `now`.
    pub(crate) fn changes_up_to<S: Scan>(
        &self,
        start: &Start,
        since: Revision,
        now: Revision,
        scan: S,
    ) -> Result<ChangedPaths<S>> {
        let after = start.after.as_ref().unwrap_or(&start.prefix);
        let past = self.take(since, &start.prefix, after);
        let bytes = {
            let mut past = lock(&past);
            past.read(&start.prefix, now, &scan)?;
            past.bytes
        };
        self.keep(CachedChanges { since, prefix: start.prefix.clone(), past: Arc::clone(&past), bytes });
        let (after, prefix) = (after.clone(), start.prefix.clone());
        Ok(ChangedPaths { past, after, prefix, since, now, piece: Vec::new().into_iter(), scan })
    }

    /// Evicts the changes of a list that has ended.
    pub(crate) fn end(&self, start: &Start, since: Revision) {
        lock(&self.0).retain(|kept| !kept.is(since, &start.prefix));
    }

    fn take(&self, since: Revision, prefix: &Path, after: &Path) -> SharedChanges {
        let lists = lock(&self.0);
        let known = lists.iter().find(|kept| kept.is(since, prefix)).map(|kept| Arc::clone(&kept.past));
        drop(lists);
        known.filter(|past| lock(past).covers(after)).unwrap_or_else(|| ChangesSince::new(since, after))
    }

    fn keep(&self, kept: CachedChanges) {
        let mut lists = lock(&self.0);
        lists.retain(|other| !other.is(kept.since, &kept.prefix));
        lists.push_front(kept);
        while lists.len() > LISTS_MAX || lists.iter().map(|kept| kept.bytes).sum::<u64>() > BYTES_MAX {
            lists.pop_back();
        }
    }
}

impl CachedChanges {
    fn is(&self, since: Revision, prefix: &Path) -> bool {
        self.since == since && self.prefix == *prefix
    }
}

/// Reports the path and the revision of every change after a revision, in order.
pub(crate) trait Scan: Fn(Revision, &mut dyn FnMut(&[u8], Revision)) -> Result<()> {}

impl<S: Fn(Revision, &mut dyn FnMut(&[u8], Revision)) -> Result<()>> Scan for S {}

impl ChangesSince {
    fn new(since: Revision, behind: &Path) -> SharedChanges {
        let (first, behind) = (BTreeMap::new(), behind.clone());
        Arc::new(Mutex::new(Self { through: since, first, bytes: 0, behind, last: None }))
    }

    /// Returns whether the window holds the changes that follow a path.
    fn covers(&self, after: &Path) -> bool {
        self.behind <= *after && self.last.as_ref().is_none_or(|last| last > after)
    }

    /// Reads the history up to `now`.
    fn read(&mut self, prefix: &Path, now: Revision, scan: &impl Scan) -> Result<()> {
        if self.through < now {
            let mut read = now;
            scan(self.through, &mut |path, revision| {
                read = read.max(revision);
                if path.starts_with(&prefix.0) {
                    self.add(path, revision);
                }
            })?;
            self.through = read;
        }
        Ok(())
    }

    fn add(&mut self, path: &[u8], revision: Revision) {
        let is_behind_last = self.last.as_ref().is_some_and(|last| path > last.0.as_slice());
        if path <= self.behind.0.as_slice() || is_behind_last {
            return;
        }
        self.first.entry(Path(path.to_vec())).or_insert_with(|| {
            self.bytes += KEY_BYTES + path.len() as u64;
            revision
        });
        while self.bytes > WINDOW_BYTES_MAX
            && let Some((Path(dropped), _)) = self.first.pop_last()
        {
            self.bytes -= KEY_BYTES + dropped.len() as u64;
            self.last = self.first.last_key_value().map(|(last, _)| last.clone());
        }
    }

    /// Returns the next paths after `after` that had changed by `now`, at most [`PIECE`].
    fn piece(&self, after: &Path, now: Revision) -> Vec<(Path, Revision)> {
        let range = self.first.range((Bound::Excluded(after), Bound::Unbounded));
        let range = range.filter(|(_, revision)| **revision <= now).take(PIECE);
        range.map(|(path, revision)| (path.clone(), *revision)).collect()
    }
}

/// Iterates over the changed paths that a page may pass, see [`ChangesSinceCache::changes_up_to`].
pub(crate) struct ChangedPaths<S> {
    past: SharedChanges,
    after: Path,
    prefix: Path,
    since: Revision,
    now: Revision,
    piece: std::vec::IntoIter<(Path, Revision)>,
    scan: S,
}

impl<S: Scan> ChangedPaths<S> {
    /// Returns the next piece; empty at the end.
    fn next_piece(&mut self) -> Result<Vec<(Path, Revision)>> {
        loop {
            // Checked each time: another page may have read on and dropped keys from the window.
            if !lock(&self.past).covers(&self.after) {
                self.past = ChangesSince::new(self.since, &self.after);
                lock(&self.past).read(&self.prefix, self.now, &self.scan)?;
            }
            let past = lock(&self.past);
            let found = past.piece(&self.after, self.now);
            match (found.last(), &past.last) {
                (Some((last, _)), _) => self.after.clone_from(last),
                (None, Some(last)) if *last > self.after => self.after.clone_from(last),
                (None, Some(_)) => {}
                (None, None) => return Ok(found),
            }
            if !found.is_empty() {
                return Ok(found);
            }
        }
    }
}

impl<S: Scan> Iterator for ChangedPaths<S> {
    type Item = Result<(Path, Revision)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.piece.as_slice().is_empty() {
            match self.next_piece() {
                Ok(found) => self.piece = found.into_iter(),
                Err(error) => return Some(Err(error)),
            }
        }
        self.piece.next().map(Ok)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no thread panics while holding the lock")
}

#[cfg(test)]
mod tests;
