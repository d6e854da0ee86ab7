//! Wakes its owner when something in some folders may have changed. What changed is found out by looking.
//!
//! Parent folders are watched, never files: a file that is replaced by a rename takes its watch with it. Where the system's
//! notices do not come (network file systems, mounted secrets), the owner looks from time to time anyway: see
//! [`Watcher::poll_every`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;

/// How often to look, whatever the system says.
const POLL: Duration = Duration::from_secs(30);
/// The same where the system says nothing.
const POLL_BLIND: Duration = Duration::from_secs(1);

/// Which folders are watched: each with everything below it (`true`), or by itself.
pub(crate) type Folders = BTreeMap<PathBuf, bool>;

/// Watches folders.
pub(crate) struct Watcher {
    /// `None`: the system has no more watches to give.
    inner: Option<RecommendedWatcher>,
    watched: Folders,
    wake: Arc<Notify>,
    /// A folder could not be watched.
    blind: bool,
}

impl Watcher {
    /// Starts to watch nothing.
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

    /// Watches exactly these folders from now on. Those that are not there are left out.
    pub(crate) fn set(&mut self, folders: Folders) {
        let Some(inner) = &mut self.inner else { return };
        if folders == self.watched {
            return;
        }
        for folder in self.watched.keys().filter(|folder| !folders.contains_key(*folder)) {
            // A folder that is gone has lost its watch already.
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

    /// Waits until something may have changed.
    ///
    /// *Cancel safety*: nothing is lost.
    pub(crate) async fn changed(&self) {
        self.wake.notified().await;
    }

    /// Returns how often to look without a notice.
    pub(crate) fn poll_every(&self) -> Duration {
        if self.blind { POLL_BLIND } else { POLL }
    }
}

/// Reading a file is no change of it, and we read.
fn is_change(kind: &EventKind) -> bool {
    match kind {
        EventKind::Access(kind) => *kind == AccessKind::Close(AccessMode::Write),
        _ => true,
    }
}
