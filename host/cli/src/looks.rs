//! Decides when a file that changed can be read: when two looks at it have seen the same.
//!
//! Pure: what is seen and what time it is come in as arguments. Nothing here opens a file. Whether the content of a file makes
//! sense is for the reader to say: a writer may pause for longer than anybody waits.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

mod seen;

pub(crate) use seen::FileStamp;

/// How long a file must have looked the same before it is read. Also the pause between two looks.
pub(crate) const QUIET: Duration = Duration::from_millis(100);

/// A file that is seen for the first time and was last written before this long is not being written.
const OLD: Duration = Duration::from_secs(2);

/// A file that can be read now, or that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileChange {
    /// It is new, or it is not what it was.
    Changed(PathBuf),
    /// It was there.
    Gone(PathBuf),
}

impl FileChange {
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Changed(path) | Self::Gone(path) => path,
        }
    }
}

/// All files that are followed, and what was seen of them.
#[derive(Debug, Default)]
pub(crate) struct FileDebouncer {
    files: BTreeMap<PathBuf, TrackedFile>,
}

#[derive(Debug)]
struct TrackedFile {
    /// What the last look saw; `None`: nothing.
    seen: Option<FileStamp>,
    /// Since when every look saw that.
    since: Instant,
    /// What was told last. The outer `None`: nothing yet, or it is not trusted any more.
    reported: Option<Option<FileStamp>>,
}

impl FileDebouncer {
    /// Starts with files that need not be told.
    pub(crate) fn with_known_files(now: Instant, seen: &BTreeMap<PathBuf, FileStamp>) -> Self {
        let known = |seen: FileStamp| TrackedFile { seen: Some(seen), since: now, reported: Some(Some(seen)) };
        Self { files: seen.iter().map(|(path, seen)| (path.clone(), known(*seen))).collect() }
    }

    /// Takes in what is there now, and returns what can be read now, ordered by path.
    ///
    /// A file is told when two looks, [`QUIET`] apart, saw the same size and time of change, and that is not what was told last.
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

    /// Returns whether all that was seen has been told.
    pub(crate) fn is_settled(&self) -> bool {
        self.files.values().all(TrackedFile::is_reported)
    }

    /// Tells every file again. For file systems whose times of change are too coarse to tell two writes apart.
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
