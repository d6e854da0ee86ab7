//! Decides when a changed file can be read: when two scans have seen the same file.
//!
//! Pure: the scans and the time are arguments, and nothing here opens a file. The reader has to judge whether
//! the content is complete, because a writer may pause for longer than [`QUIET`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

mod file_stamp;

pub(crate) use file_stamp::FileStamp;

/// How long a file must be unchanged before it is read. Also the pause between two scans.
pub(crate) const QUIET: Duration = Duration::from_millis(100);

/// A new file that was modified longer ago than this is not being written.
const OLD: Duration = Duration::from_secs(2);

/// A file that can be read now, or was deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileChange {
    /// The file is new or changed.
    Changed(PathBuf),
    /// The file was deleted.
    Gone(PathBuf),
}

impl FileChange {
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Changed(path) | Self::Gone(path) => path,
        }
    }
}

/// The tracked files, with the results of their scans.
#[derive(Debug, Default)]
pub(crate) struct FileDebouncer {
    files: BTreeMap<PathBuf, TrackedFile>,
}

#[derive(Debug)]
struct TrackedFile {
    /// The result of the last scan; `None`: the file is missing.
    seen: Option<FileStamp>,
    /// When that result was first seen.
    since: Instant,
    /// The last reported result. The outer `None`: nothing was reported, or the file must be read again.
    reported: Option<Option<FileStamp>>,
}

impl FileDebouncer {
    /// Starts with files that count as reported.
    pub(crate) fn with_known_files(now: Instant, seen: &BTreeMap<PathBuf, FileStamp>) -> Self {
        let known = |seen: FileStamp| TrackedFile { seen: Some(seen), since: now, reported: Some(Some(seen)) };
        Self { files: seen.iter().map(|(path, seen)| (path.clone(), known(*seen))).collect() }
    }

    /// Records a scan. Returns the changes that can be read now, sorted by path.
    ///
    /// A file is reported when two scans, [`QUIET`] apart, saw the same size and modification time, and these
    /// differ from the last report.
    pub(crate) fn update(
        &mut self,
        now: Instant,
        wall_now: SystemTime,
        seen: &BTreeMap<PathBuf, FileStamp>,
    ) -> Vec<FileChange> {
        for (path, seen) in seen {
            match self.files.get_mut(path) {
                Some(known) => known.observe(now, Some(*seen)),
                None => {
                    let old = wall_now.duration_since(seen.modified).is_ok_and(|age| age >= OLD);
                    let since = if old { now.checked_sub(QUIET).unwrap_or(now) } else { now };
                    self.files.insert(path.clone(), TrackedFile { seen: Some(*seen), since, reported: None });
                }
            }
        }
        let mut changes = Vec::new();
        self.files.retain(|path, known| {
            if !seen.contains_key(path) {
                known.observe(now, None);
            }
            if known.is_reported() || now.duration_since(known.since) < QUIET {
                return true;
            }
            known.reported = Some(known.seen);
            changes.push(if known.seen.is_some() {
                FileChange::Changed(path.clone())
            } else {
                FileChange::Gone(path.clone())
            });
            known.seen.is_some()
        });
        changes
    }

    /// Returns whether every change has been reported.
    pub(crate) fn is_settled(&self) -> bool {
        self.files.values().all(TrackedFile::is_reported)
    }

    /// Reports every file again, for file systems whose timestamps are too coarse to tell two writes apart.
    pub(crate) fn force_rescan(&mut self) {
        self.files.values_mut().for_each(|known| known.reported = None);
    }
}

impl TrackedFile {
    fn observe(&mut self, now: Instant, seen: Option<FileStamp>) {
        if self.seen != seen {
            (self.seen, self.since) = (seen, now);
        }
    }

    fn is_reported(&self) -> bool {
        self.reported == Some(self.seen)
    }
}

#[cfg(test)]
mod tests;
