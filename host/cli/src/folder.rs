//! Follows a folder of manifests: applies its documents to the host, and every later change.
//!
//! CustomResourceDefinitions come first, then controllers, then all other resources. A controller that leaves
//! the folder is deleted, even if it left while no host ran. A resource that leaves the folder stays in the
//! store, and a message says so. A half-written file deletes nothing: see [`FileDebouncer`], [`WRITE_GRACE`]
//! and [`DELETION_GRACE`].

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use homeostat_component::Digest;
use homeostat_runtime::Host;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::components::Components;
use crate::file_debouncer::{FileChange, FileDebouncer, FileStamp, QUIET};
use crate::manifest::{self, Document, Problem, ResourceId};
use crate::terminal::Screen;
use crate::watcher::{Folders, Watcher};

mod controllers;
mod deletion_grace;
mod resources;

use controllers::FolderController;
use deletion_grace::DeletionGrace;
use resources::Phase;

/// How long something must be missing before it counts as deleted: editors remove files and put them back.
const DELETION_GRACE: Duration = Duration::from_secs(2);
/// How long a component must be invalid before it is reported: its writer may have paused.
const WRITE_GRACE: Duration = Duration::from_secs(1);
/// The wait before a write that the store rejected is retried.
const RETRY: Duration = Duration::from_secs(5);
/// Manifests of one folder, at most. Further files are ignored.
const MANIFESTS_MAX: usize = 10_000;
/// The subfolder whose manifests are read as well.
const SUBFOLDER: &str = "manifests";

/// The state of a folder, as others see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FolderStatus {
    /// Every document in the folder has been read and tried.
    pub(crate) settled: bool,
    /// Problems in manifests that keep documents from being applied.
    pub(crate) problems: usize,
    /// Controllers whose current component is refused.
    pub(crate) refused: usize,
}

/// A folder of manifests, with the state of its documents.
pub(crate) struct Folder {
    roots: Vec<PathBuf>,
    host: Host,
    screen: Screen,
    watcher: Watcher,
    looks: FileDebouncer,
    last_scan: Option<Instant>,
    manifests: BTreeMap<PathBuf, Manifests>,
    /// The documents and problems of all manifests.
    content: Arc<Content>,
    controllers: BTreeMap<String, FolderController>,
    /// The store of components.
    code: Components,
    /// The host runs the controllers in the store.
    has_started: bool,
    /// Controllers in the store that the folder managed before this process started.
    managed: BTreeSet<String>,
    /// The applied documents, by resource: the file, and the digest of the text.
    applied: HashMap<ResourceId, (PathBuf, Digest)>,
    absent_controllers: DeletionGrace<String>,
    absent_resources: DeletionGrace<ResourceId>,
    /// The problems of the last attempt.
    problems: Vec<Problem>,
    /// Reported problems that still exist.
    reported: BTreeSet<String>,
    /// When to retry documents that could not be applied.
    retry_at: Option<Instant>,
    status: watch::Sender<FolderStatus>,
}

/// The content of one file.
#[derive(Default)]
struct Manifests {
    documents: Vec<Document>,
    problems: Vec<Problem>,
}

/// The content of all files.
#[derive(Default)]
struct Content {
    /// The documents, one for each resource.
    documents: Vec<Document>,
    /// The problems of all files, duplicates included.
    problems: Vec<Problem>,
    resources: BTreeSet<ResourceId>,
    controllers: BTreeSet<String>,
}

impl Content {
    fn gather(manifests: &BTreeMap<PathBuf, Manifests>) -> Self {
        let mut documents: Vec<Document> =
            manifests.values().flat_map(|manifests| manifests.documents.iter().cloned()).collect();
        let mut problems: Vec<Problem> =
            manifests.values().flat_map(|manifests| manifests.problems.iter().cloned()).collect();
        problems.extend(manifest::take_duplicates(&mut documents));
        let controllers =
            documents.iter().filter_map(|document| Some(document.controller.as_ref()?.metadata.name.clone())).collect();
        let resources =
            documents.iter().filter(|document| document.controller.is_none()).map(Document::identity).collect();
        Self { documents, problems, resources, controllers }
    }
}

impl Folder {
    /// Returns a follower of `root` and its subfolder `manifests`. Nothing is read yet.
    pub(crate) fn new(root: &Path, host: Host, screen: Screen, code: Components) -> Self {
        Self {
            roots: vec![root.to_owned(), root.join(SUBFOLDER)],
            host,
            screen,
            watcher: Watcher::new(),
            looks: FileDebouncer::default(),
            last_scan: None,
            manifests: BTreeMap::new(),
            content: Arc::default(),
            controllers: BTreeMap::new(),
            code,
            has_started: false,
            managed: BTreeSet::new(),
            applied: HashMap::new(),
            absent_controllers: DeletionGrace::new(DELETION_GRACE),
            absent_resources: DeletionGrace::new(DELETION_GRACE),
            problems: Vec::new(),
            reported: BTreeSet::new(),
            retry_at: None,
            status: watch::Sender::new(FolderStatus::default()),
        }
    }

    /// Returns a receiver of the folder's status.
    pub(crate) fn status(&self) -> watch::Receiver<FolderStatus> {
        self.status.subscribe()
    }

    /// Follows the folder until `stop` is set, and finishes the current step.
    pub(crate) async fn follow(mut self, mut stop: watch::Receiver<bool>) {
        while !*stop.borrow() {
            self.step().await;
            tokio::select! {
                () = self.next_scan() => {}
                // An error means that the sender is gone: the loop ends with the process.
                _ = stop.changed() => {}
            }
        }
    }

    /// Scans the folder once and applies the changes.
    async fn step(&mut self) {
        let now = Instant::now();
        if self.last_scan.is_some_and(|last| now.duration_since(last) >= self.watcher.poll_every()) {
            // No notification came for long. The file system's timestamps may be too coarse, so read every
            // file again.
            self.looks.force_rescan();
        }
        self.last_scan = Some(now);
        let seen = self.scan();
        self.watcher.set(self.folders());
        let changes = self.looks.update(now.into_std(), SystemTime::now(), &seen);
        self.read(&changes).await;
        let retry = self.retry_at.is_some_and(|at| at <= now);
        if !changes.is_empty() || retry {
            self.apply_changes(&changes, retry, now).await;
        } else if self.looks.is_settled() {
            // There are no manifests to apply first.
            self.start_controllers().await;
        }
        self.report_rejections(now);
        if !self.controllers.values().any(FolderController::is_suspect) {
            // Problems come after rejections: a refused component may be the one that declares an unknown
            // kind.
            self.report_problems();
        }
        self.remove_absent(now).await;
        self.publish();
    }

    /// Applies the documents in changed files.
    async fn apply_changes(&mut self, changes: &[FileChange], retry: bool, now: Instant) {
        let content = self.content.clone();
        let read = changes.iter().any(|change| self.is_manifest(change.path()));
        let mut problems = content.problems.clone();
        if read || retry {
            problems.extend(self.apply(&content.documents, Phase::Definitions).await);
            // Documents that fail here are applied again, and reported, in the last phase.
            drop(self.apply(&content.documents, Phase::Known).await);
        }
        self.retry_at = None;
        let put = self.install(&content.documents, changes, retry, now).await;
        if read || retry || put {
            problems.extend(self.apply(&content.documents, Phase::Resources).await);
            if problems.len() > content.problems.len() {
                self.retry_at = Some(now + RETRY);
            }
            self.problems = problems;
        }
    }

    /// Waits for the next scan.
    async fn next_scan(&mut self) {
        if !self.is_quiet() {
            return tokio::time::sleep(QUIET).await;
        }
        let wait = self.retry_at.map(|at| at.saturating_duration_since(Instant::now()));
        let wait = wait.unwrap_or(Duration::MAX).min(self.watcher.poll_every());
        tokio::select! {
            () = self.watcher.changed() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }

    /// Returns whether no work is left until the next change.
    fn is_quiet(&self) -> bool {
        let waits = self.controllers.values().any(FolderController::is_suspect);
        self.looks.is_settled()
            && self.has_started
            && !waits
            && self.absent_controllers.is_empty()
            && self.absent_resources.is_empty()
    }

    fn publish(&self) {
        let standing = FolderStatus {
            settled: self.last_scan.is_some() && self.is_quiet(),
            problems: self.reported.len(),
            refused: self.controllers.values().filter(|installed| installed.is_refused()).count(),
        };
        self.status.send_if_modified(|known| std::mem::replace(known, standing) != standing);
    }

    /// Reads the size and time of every manifest, and of every component that a manifest names.
    fn scan(&self) -> BTreeMap<PathBuf, FileStamp> {
        let mut seen = BTreeMap::new();
        for root in &self.roots {
            // The subfolder is optional, and the folder may be missing for a moment.
            let Ok(entries) = std::fs::read_dir(root) else { continue };
            for path in entries.filter_map(Result::ok).map(|entry| entry.path()).filter(|path| self.is_manifest(path)) {
                if let Some(look) = FileStamp::read(&path).filter(|_| seen.len() < MANIFESTS_MAX) {
                    seen.insert(path, look);
                }
            }
        }
        for file in self.controllers.values().filter_map(FolderController::file) {
            seen.extend(FileStamp::read(file).map(|look| (file.to_owned(), look)));
        }
        seen
    }

    fn is_manifest(&self, path: &Path) -> bool {
        let hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
        let named =
            path.extension().is_some_and(|extension| ["yaml", "yml", "json"].iter().any(|wanted| extension == *wanted));
        let here = path.parent().is_some_and(|parent| self.roots.iter().any(|root| root == parent));
        named && here && !hidden
    }

    fn folders(&self) -> Folders {
        let components = self.controllers.values().filter_map(|installed| installed.file()?.parent());
        self.roots.iter().map(PathBuf::as_path).chain(components).map(|folder| (folder.to_owned(), false)).collect()
    }

    /// Reads the manifests that changed.
    async fn read(&mut self, changes: &[FileChange]) {
        let changes: Vec<&FileChange> = changes.iter().filter(|change| self.is_manifest(change.path())).collect();
        for change in &changes {
            let path = change.path().to_owned();
            match change {
                FileChange::Gone(_) => drop(self.manifests.remove(&path)),
                FileChange::Changed(_) => {
                    let file = path.clone();
                    let read = tokio::task::spawn_blocking(move || manifest::read(&file)).await;
                    let (documents, problems) = read.expect("reading a manifest does not panic");
                    self.manifests.insert(path, Manifests { documents, problems });
                }
            }
        }
        if !changes.is_empty() {
            self.content = Arc::new(Content::gather(&self.manifests));
        }
    }

    /// Reports new problems, and forgets those that are solved.
    fn report_problems(&mut self) {
        let texts: BTreeSet<String> = self.problems.iter().map(ToString::to_string).collect();
        for text in texts.difference(&self.reported) {
            self.screen.warn(text);
        }
        if texts.is_empty() && !self.reported.is_empty() {
            self.screen.info("all manifests are valid again");
        }
        self.reported = texts;
    }

    /// Deletes controllers that have left the folder for long enough, and reports resources that have left
    /// it.
    async fn remove_absent(&mut self, now: Instant) {
        let content = self.content.clone();
        // A file that cannot be read may still contain the missing document.
        let readable = |file: &Path| self.manifests.get(file).is_none_or(|manifests| manifests.problems.is_empty());
        let missing =
            self.applied.iter().filter(|(identity, (file, _))| !content.resources.contains(identity) && readable(file));
        let gone_resources: Vec<ResourceId> = missing.map(|(identity, _)| identity.clone()).collect();
        for name in self.absent_controllers.due(now, self.gone_controllers()) {
            self.uninstall(&name).await;
        }
        for identity in self.absent_resources.due(now, gone_resources) {
            self.applied.remove(&identity);
            let namespace = &identity.namespace;
            self.screen.info(&format!("{identity} is no longer in the folder and stays in the store; `homeostat delete {identity} -n {namespace}` deletes it"));
        }
    }
}
