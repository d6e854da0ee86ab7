//! Decides when a file that changed can be read: when two looks at it have seen the same.
//!
//! Pure: what is seen and what time it is come in as arguments. Nothing here opens a file. Whether the content of a file makes
//! sense is for the reader to say: a writer may pause for longer than anybody waits.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

mod seen;

pub(crate) use seen::Seen;

/// How long a file must have looked the same before it is read. Also the pause between two looks.
pub(crate) const QUIET: Duration = Duration::from_millis(100);

/// A file that is seen for the first time and was last written before this long is not being written.
const OLD: Duration = Duration::from_secs(2);

/// A file that can be read now, or that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// It is new, or it is not what it was.
    Changed(PathBuf),
    /// It was there.
    Gone(PathBuf),
}

impl Change {
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Changed(path) | Self::Gone(path) => path,
        }
    }
}

/// All files that are followed, and what was seen of them.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    files: BTreeMap<PathBuf, Known>,
}

#[derive(Debug)]
struct Known {
    /// What the last look saw; `None`: nothing.
    seen: Option<Seen>,
    /// Since when every look saw that.
    since: Instant,
    /// What was told last. The outer `None`: nothing yet, or it is not trusted any more.
    told: Option<Option<Seen>>,
}

impl Looks {
    /// Starts with files that need not be told.
    pub(crate) fn taking_note(now: Instant, seen: &BTreeMap<PathBuf, Seen>) -> Self {
        let known = |seen: Seen| Known { seen: Some(seen), since: now, told: Some(Some(seen)) };
        Self { files: seen.iter().map(|(path, seen)| (path.clone(), known(*seen))).collect() }
    }

    /// Takes in what is there now, and returns what can be read now, ordered by path.
    ///
    /// A file is told when two looks, [`QUIET`] apart, saw the same size and time of change, and that is not what was told last.
    pub(crate) fn look(&mut self, now: Instant, wall_now: SystemTime, seen: &BTreeMap<PathBuf, Seen>) -> Vec<Change> {
        for (path, seen) in seen {
            match self.files.get_mut(path) {
                Some(known) => known.see(now, Some(*seen)),
                None => {
                    let old = wall_now.duration_since(seen.modified).is_ok_and(|age| age >= OLD);
                    let since = if old { now.checked_sub(QUIET).unwrap_or(now) } else { now };
                    self.files.insert(path.clone(), Known { seen: Some(*seen), since, told: None });
                }
            }
        }
        let mut changes = Vec::new();
        self.files.retain(|path, known| {
            if !seen.contains_key(path) {
                known.see(now, None);
            }
            if known.is_told() || now.duration_since(known.since) < QUIET {
                return true;
            }
            known.told = Some(known.seen);
            changes.push(if known.seen.is_some() { Change::Changed(path.clone()) } else { Change::Gone(path.clone()) });
            known.seen.is_some()
        });
        changes
    }

    /// Returns whether all that was seen has been told.
    pub(crate) fn is_settled(&self) -> bool {
        self.files.values().all(Known::is_told)
    }

    /// Tells every file again. For file systems whose times of change are too coarse to tell two writes apart.
    pub(crate) fn distrust(&mut self) {
        self.files.values_mut().for_each(|known| known.told = None);
    }
}

impl Known {
    fn see(&mut self, now: Instant, seen: Option<Seen>) {
        if self.seen != seen {
            (self.seen, self.since) = (seen, now);
        }
    }

    fn is_told(&self) -> bool {
        self.told == Some(self.seen)
    }
}

#[cfg(test)]
mod tests;
