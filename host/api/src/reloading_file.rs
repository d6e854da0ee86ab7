//! Values parsed from files, and reloaded when the files change.
//!
//! The files are checked on demand, at most once a second. So no file system notification can be missed, and
//! an unused file costs nothing. If a changed file cannot be used, the error is logged and counted, and the
//! last good value stays in use.

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

/// The minimum time between two checks of the files.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A value parsed from one or more files.
pub(crate) struct ReloadingFile<T> {
    file: FileKind,
    paths: Vec<PathBuf>,
    read: Box<dyn Fn() -> Result<T, Error> + Send + Sync>,
    metrics: Metrics,
    snapshot: Mutex<FileSnapshot<T>>,
}

/// The last check, and the last good value.
struct FileSnapshot<T> {
    checked_at: Instant,
    /// The stamps at the last check.
    stamps: Stamps,
    value: Arc<T>,
}

/// Inode number, length, mtime and ctime in nanoseconds. A changed file differs in at least one.
type Stamp = [i128; 4];

/// One stamp for each file; `None` if the file does not exist.
type Stamps = Vec<Option<Stamp>>;

impl<T> fmt::Debug for ReloadingFile<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReloadingFile").field("paths", &self.paths).finish_non_exhaustive()
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
        // In this order: a write in between changes the stamps, so the files are read again.
        let stamps = stamps(&paths);
        let value = Arc::new(read()?);
        let known = Mutex::new(FileSnapshot { checked_at: Instant::now(), stamps, value });
        Ok(Self { file, paths, read: Box::new(read), metrics, snapshot: known })
    }

    /// Returns the last good value, without a check.
    pub(crate) fn last_value(&self) -> Arc<T> {
        self.snapshot.lock().value.clone()
    }

    /// Returns the current value, after a check if one is due.
    ///
    /// *Cancel safety*: a started reload runs to its end.
    pub(crate) async fn current(self: &Arc<Self>) -> Arc<T> {
        if self.start_check_if_due() {
            let files = self.clone();
            // `reload` does not panic. If it did, the last good value would stay.
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

    /// Reloads the value if the files have changed.
    pub(crate) fn reload(&self) {
        let now = stamps(&self.paths);
        if std::mem::replace(&mut self.snapshot.lock().stamps, now.clone()) == now {
            return;
        }
        let (file, path) = (self.file.as_str(), self.paths.first().map(|path| path.display().to_string()));
        match (self.read)() {
            Ok(value) => {
                tracing::info!(file, path, "a file changed and was reloaded");
                self.snapshot.lock().value = Arc::new(value);
            }
            Err(error) => {
                let why = error.source().map(ToString::to_string).unwrap_or_default();
                tracing::error!(file, path, %error, why, "a file changed and cannot be used; the last good version stays in use");
                self.metrics.unusable(self.file);
                let is_there = now.iter().all(Option::is_some);
                let why = error.source().and_then(|why| why.downcast_ref());
                if is_there && why.is_some_and(|why| matches!(why, BadFile::Io(_))) {
                    // The read failed, not the content: the next check tries again.
                    self.snapshot.lock().stamps.clear();
                }
            }
        }
    }

    /// Makes the next check due at once.
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
