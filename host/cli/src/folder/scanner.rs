//! Finds the files of a folder that have changed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use crate::file_debouncer::{FileChange, FileDebouncer, FileStamp};
use crate::stores_config;
use crate::watcher::Watcher;

/// Manifests of one folder, at most. Further files are ignored.
const MANIFESTS_MAX: usize = 10_000;
/// Files of npm and of editors, which are no manifests although they are JSON.
const FILES_OF_TOOLS: [&str; 4] = ["jsconfig.json", "package-lock.json", "package.json", "tsconfig.json"];
/// The subfolder whose manifests are read as well.
const SUBFOLDER: &str = "manifests";

pub(super) struct Scanner {
    roots: Vec<PathBuf>,
    /// Files that are no manifests.
    skipped: Vec<PathBuf>,
    watcher: Watcher,
    debouncer: FileDebouncer,
    last_scan: Option<Instant>,
}

impl Scanner {
    /// Returns a scanner that leaves out the files of stores, and `skipped` if it is another file.
    pub(super) fn new(folders: &[&Path], skipped: Option<PathBuf>) -> Self {
        let roots = folders.iter().flat_map(|folder| [folder.to_path_buf(), folder.join(SUBFOLDER)]).collect();
        let skipped = folders.iter().map(|folder| folder.join(stores_config::FILE)).chain(skipped).collect();
        Self { roots, skipped, watcher: Watcher::new(), debouncer: FileDebouncer::default(), last_scan: None }
    }

    /// Scans the folder and the files of `components` once. Returns the files that have changed.
    pub(super) fn scan<'c>(
        &mut self,
        now: Instant,
        components: impl Iterator<Item = &'c Path> + Clone,
    ) -> Vec<FileChange> {
        if self.last_scan.is_some_and(|last| now.duration_since(last) >= self.watcher.poll_every()) {
            // No notification came for long. The file system's timestamps may be too coarse, so read every
            // file again.
            self.debouncer.force_rescan();
        }
        self.last_scan = Some(now);
        let seen = self.stamps(components.clone());
        let folders = components.filter_map(|file| Some(file.parent()?.to_owned()));
        self.watcher.set(self.roots.iter().cloned().chain(folders).map(|folder| (folder, false)).collect());
        self.debouncer.update(now.into_std(), SystemTime::now(), &seen)
    }

    /// Reads the size and time of every manifest and of every component.
    fn stamps<'c>(&self, components: impl Iterator<Item = &'c Path>) -> BTreeMap<PathBuf, FileStamp> {
        let mut seen = BTreeMap::new();
        for root in &self.roots {
            // The subfolder is optional, and the folder may be missing for a moment.
            let Ok(entries) = std::fs::read_dir(root) else { continue };
            for path in entries.filter_map(Result::ok).map(|entry| entry.path()).filter(|path| self.is_manifest(path)) {
                if let Some(stamp) = FileStamp::read(&path).filter(|_| seen.len() < MANIFESTS_MAX) {
                    seen.insert(path, stamp);
                }
            }
        }
        for file in components {
            seen.extend(FileStamp::read(file).map(|stamp| (file.to_owned(), stamp)));
        }
        seen
    }

    pub(super) fn is_manifest(&self, path: &Path) -> bool {
        let hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
        let named =
            path.extension().is_some_and(|extension| ["yaml", "yml", "json"].iter().any(|wanted| extension == *wanted));
        let of_tool = path.file_name().is_some_and(|name| FILES_OF_TOOLS.iter().any(|file| name == *file));
        let here = path.parent().is_some_and(|parent| self.roots.iter().any(|root| root == parent));
        named && here && !hidden && !of_tool && !self.is_skipped(path)
    }

    /// Returns whether this is a file that is no manifest, by whatever path it was named.
    fn is_skipped(&self, path: &Path) -> bool {
        self.skipped.iter().any(|skipped| skipped.file_name() == path.file_name() && is_same(skipped, path))
    }

    /// Returns whether no file is being written, as far as that is known.
    pub(super) fn is_settled(&self) -> bool {
        self.debouncer.is_settled()
    }

    /// Returns whether the folder was scanned.
    pub(super) fn has_scanned(&self) -> bool {
        self.last_scan.is_some()
    }

    /// Waits for a change, at most for `wait_max` and no longer than until the next regular scan.
    pub(super) async fn changed(&self, wait_max: Duration) {
        tokio::select! {
            () = self.watcher.changed() => {}
            () = tokio::time::sleep(wait_max.min(self.watcher.poll_every())) => {}
        }
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    one == other || real(one).is_some_and(|one| real(other) == Some(one))
}
