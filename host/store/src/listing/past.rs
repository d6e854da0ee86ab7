//! What changed since the moments of lists that go on.
//!
//! A later page has to know, of every key that it passes, whether it changed since the list began, and which change was the first. Found out
//! for each page anew, that would be the whole history since, as often as there are pages. So it is kept from page to page, and each page
//! reads on from where the one before was. What is kept are revisions, not documents. It may be forgotten at any time: then it is read again.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard};

use super::Start;
use crate::model::Path;
use crate::{Result, Revision};

/// Lists of which it is kept what changed.
pub(crate) const LISTS_MAX: usize = 16;

/// Keys that changed, of all lists together: some 30 MB.
pub(crate) const KEYS_MAX: usize = 256 * 1024;

/// Keys that are looked at without letting go of the lock.
const PIECE: usize = 64;

/// What changed since one moment, below one prefix.
#[derive(Debug)]
pub(crate) struct ChangesSince {
    /// How far history was read.
    through: Revision,
    /// The revision of the first change of each path that changed.
    first: BTreeMap<Path, Revision>,
}

/// A past that pages of one list share.
pub(crate) type SharedChanges = Arc<Mutex<ChangesSince>>;

/// The pasts of the lists that go on, the one that was used last in front.
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
    /// Returns what changed from the moment of a list up to `now`.
    ///
    /// `scan` is asked for what is not known yet: it tells the path and the revision of every change after the revision it is given, in order, up
    /// to `now` at least.
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

    /// Forgets what changed since the moment of a list that has come to its end.
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

/// Goes through the paths that a page may pass and that have changed, in order, each with the revision of its first change.
///
/// `now` is the moment of the present that the page lays the past over: what changed later has not changed there.
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
