//! What files say, read again when they have changed.
//!
//! They are looked at when somebody needs them, once a second at most: no notice of the system can be missed, and a file that nobody needs
//! costs nothing. What cannot be used is told, in the log and in the metrics, and what was read before stays.

use std::error::Error as _;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::metrics::FileKind;
use crate::{BadFile, Error, Metrics};

/// The least time between two looks at the files.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// What some files say.
pub(crate) struct ReloadingFile<T> {
    file: FileKind,
    paths: Vec<PathBuf>,
    read: Box<dyn Fn() -> Result<T, Error> + Send + Sync>,
    metrics: Metrics,
    snapshot: Mutex<FileSnapshot<T>>,
}

/// What is known of the files.
struct FileSnapshot<T> {
    checked_at: Instant,
    /// The files that were looked at last.
    stamps: Stamps,
    said: Arc<T>,
}

/// What changes when a file does: its number, its length, and when it was written and changed.
type Stamp = [i128; 4];

/// `None` where there was no file.
type Stamps = Vec<Option<Stamp>>;

impl<T> fmt::Debug for ReloadingFile<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fresh").field("paths", &self.paths).finish_non_exhaustive()
    }
}

impl<T: Send + Sync + 'static> ReloadingFile<T> {
    /// Reads the files for the first time.
    ///
    /// # Errors
    /// Those of `read`.
    pub(crate) fn open(
        file: FileKind,
        paths: Vec<PathBuf>,
        metrics: Metrics,
        read: impl Fn() -> Result<T, Error> + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        // In this order: what is written in between is read again.
        let stamps = stamps(&paths);
        let said = Arc::new(read()?);
        let known = Mutex::new(FileSnapshot { checked_at: Instant::now(), stamps, said });
        Ok(Self { file, paths, read: Box::new(read), metrics, snapshot: known })
    }

    /// Returns what the files said when they were read last.
    pub(crate) fn last_value(&self) -> Arc<T> {
        self.snapshot.lock().said.clone()
    }

    /// Returns what the files say, as far as it is time to look.
    ///
    /// *Cancel safety*: the files are read to their end.
    pub(crate) async fn current(self: &Arc<Self>) -> Arc<T> {
        if self.start_check_if_due() {
            let files = self.clone();
            // It does not panic; and if it did, what was read before would stay.
            drop(tokio::task::spawn_blocking(move || files.reload()).await);
        }
        self.last_value()
    }

    fn start_check_if_due(&self) -> bool {
        let mut known = self.snapshot.lock();
        let is_time = known.checked_at.elapsed() >= CHECK_INTERVAL;
        if is_time {
            known.checked_at = Instant::now();
        }
        is_time
    }

    /// Takes the files over as they are now.
    pub(crate) fn reload(&self) {
        let now = stamps(&self.paths);
        if std::mem::replace(&mut self.snapshot.lock().stamps, now.clone()) == now {
            return;
        }
        let (file, path) = (self.file.as_str(), self.paths.first().map(|path| path.display().to_string()));
        match (self.read)() {
            Ok(said) => {
                tracing::info!(file, path, "a file has changed and is used from now on");
                self.snapshot.lock().said = Arc::new(said);
            }
            Err(error) => {
                let why = error.source().map(ToString::to_string).unwrap_or_default();
                tracing::error!(file, path, %error, why, "a file has changed and cannot be used, what was read before stays");
                self.metrics.unusable(self.file);
                let is_there = now.iter().all(Option::is_some);
                let why = error.source().and_then(|why| why.downcast_ref());
                if is_there && why.is_some_and(|why| matches!(why, BadFile::Io(_))) {
                    // Not for what is in it: the next look tries again.
                    self.snapshot.lock().stamps.clear();
                }
            }
        }
    }

    /// Makes the next look happen at once.
    #[cfg(test)]
    pub(crate) fn make_old(&self) {
        self.snapshot.lock().checked_at =
            Instant::now().checked_sub(CHECK_INTERVAL).expect("the machine runs for a second");
    }
}

fn stamps(paths: &[PathBuf]) -> Stamps {
    paths.iter().map(|path| stamp(path).ok()).collect()
}

fn stamp(path: &Path) -> io::Result<Stamp> {
    let found = fs::metadata(path)?;
    let nanos = |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    let written = nanos(found.mtime(), found.mtime_nsec());
    let changed = nanos(found.ctime(), found.ctime_nsec());
    Ok([found.ino().into(), found.size().into(), written, changed])
}

#[cfg(test)]
mod tests;
