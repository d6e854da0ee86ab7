//! Wakes its owner when a file in some folders may have changed. The owner scans the files to find out which.
//!
//! Folders are watched, never files: replacing a file by a rename would end its watch. Some file systems send
//! no notifications (network file systems, mounted secrets), so the owner also polls: see
//! [`Watcher::poll_every`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;

/// The polling interval with notifications.
const POLL: Duration = Duration::from_secs(30);
/// The polling interval without notifications.
const POLL_BLIND: Duration = Duration::from_secs(1);

/// The folders to watch. `true`: recursively.
pub(crate) type Folders = BTreeMap<PathBuf, bool>;

/// Watches folders.
pub(crate) struct Watcher {
    /// `None`: the system could not create a watcher.
    inner: Option<RecommendedWatcher>,
    watched: Folders,
    wake: Arc<Notify>,
    /// Some folder could not be watched.
    blind: bool,
}

impl Watcher {
    /// Returns a watcher without folders.
    pub(crate) fn new() -> Self {
        let wake = Arc::new(Notify::new());
        let waker = wake.clone();
        let inner = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if event.is_ok_and(|event| is_change(&event.kind)) {
                waker.notify_one();
            }
        });
        if let Err(error) = &inner {
            tracing::warn!(%error, "the system cannot report file changes; polling every second instead");
        }
        Self { blind: inner.is_err(), inner: inner.ok(), watched: Folders::new(), wake }
    }

    /// Watches exactly these folders from now on. Missing folders are skipped.
    pub(crate) fn set(&mut self, folders: Folders) {
        let Some(inner) = &mut self.inner else { return };
        if folders == self.watched {
            return;
        }
        for folder in self.watched.keys().filter(|folder| !folders.contains_key(*folder)) {
            // A deleted folder has lost its watch already.
            drop(inner.unwatch(folder));
        }
        self.blind = false;
        let mut watched = Folders::new();
        for (folder, recursive) in folders.into_iter().filter(|(folder, _)| folder.is_dir()) {
            if self.watched.get(&folder) != Some(&recursive) {
                let mode = if recursive { RecursiveMode::Recursive } else { RecursiveMode::NonRecursive };
                if let Err(error) = inner.watch(&folder, mode) {
                    tracing::warn!(folder = %folder.display(), %error, "the folder cannot be watched; polling every second instead");
                    self.blind = true;
                    continue;
                }
            }
            watched.insert(folder, recursive);
        }
        self.watched = watched;
    }

    /// Waits until a file may have changed.
    ///
    /// *Cancel safety*: no notification is lost.
    pub(crate) async fn changed(&self) {
        self.wake.notified().await;
    }

    /// Returns the polling interval.
    pub(crate) fn poll_every(&self) -> Duration {
        if self.blind { POLL_BLIND } else { POLL }
    }
}

/// Returns whether an event is a change. Reads are not, and the host reads these files.
fn is_change(kind: &EventKind) -> bool {
    match kind {
        EventKind::Access(kind) => *kind == AccessKind::Close(AccessMode::Write),
        _ => true,
    }
}
