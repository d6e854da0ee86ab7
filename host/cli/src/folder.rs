//! Follows a folder of manifests: what stands in it is put into the host, and every change of it too.
//!
//! Definitions of kinds come first, then controllers, then all other resources. A controller that is taken out of the folder is
//! deleted, also when that happened while no host ran; a resource that is taken out stays in the store, and that is said. Nothing is thrown away because of a file that is
//! half written: see [`FileDebouncer`], [`WRITE_GRACE`] and [`DELETION_GRACE`].

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use homeostat_component::Digest;
use homeostat_runtime::Host;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::components::Components;
use crate::looks::{FileChange, FileDebouncer, FileStamp, QUIET};
use crate::manifest::{self, Document, Problem, ResourceId};
use crate::terminal::Screen;
use crate::watcher::{Folders, Watcher};

mod absence;
mod controllers;
mod resources;

use absence::DeletionGrace;
use controllers::FolderController;
use resources::Phase;

/// How long something must be missing before that counts: editors take files away and put them back.
const DELETION_GRACE: Duration = Duration::from_secs(2);
/// How long a component must have been bad before that is told: its writer may have paused.
const WRITE_GRACE: Duration = Duration::from_secs(1);
/// How long to wait before what the store refused is tried again.
const RETRY: Duration = Duration::from_secs(5);
/// Manifests of one folder. More are left out, and that is told.
const MANIFESTS_MAX: usize = 10_000;
/// The subfolder that is read too.
const SUBFOLDER: &str = "manifests";

/// Where a folder is with what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FolderStatus {
    /// Everything that is in the folder has been read and tried.
    pub(crate) settled: bool,
    /// Things in manifests that keep documents from being used.
    pub(crate) problems: usize,
    /// Controllers whose component, as it is now, is refused.
    pub(crate) refused: usize,
}

/// A folder that is followed.
pub(crate) struct Folder {
    roots: Vec<PathBuf>,
    host: Host,
    screen: Screen,
    watcher: Watcher,
    looks: FileDebouncer,
    last_scan: Option<Instant>,
    manifests: BTreeMap<PathBuf, Manifests>,
    /// All of the manifests together.
    content: Arc<Content>,
    controllers: BTreeMap<String, FolderController>,
    /// Keeps the code of controllers.
    code: Components,
    /// The host runs what is in the store.
    has_started: bool,
    /// Controllers of the store that the folder brought before this process.
    managed: BTreeSet<String>,
    /// What was applied last, by resource: the file it stood in, and the digest of its text.
    applied: HashMap<ResourceId, (PathBuf, Digest)>,
    absent_controllers: DeletionGrace<String>,
    absent_resources: DeletionGrace<ResourceId>,
    /// What keeps documents from being used, as of the last try.
    problems: Vec<Problem>,
    /// Problems that were told and are still there.
    reported: BTreeSet<String>,
    /// Documents that could not be applied, and when to try again.
    retry_at: Option<Instant>,
    status: watch::Sender<FolderStatus>,
}

/// What one file holds.
#[derive(Default)]
struct Manifests {
    documents: Vec<Document>,
    problems: Vec<Problem>,
}

/// What all files hold together.
#[derive(Default)]
struct Content {
    /// Each resource once.
    documents: Vec<Document>,
    /// What is wrong with the others.
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
    /// Follows `root` and its subfolder `manifests`. Nothing is read yet.
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

    /// Returns where the folder is, now and whenever that changes.
    pub(crate) fn status(&self) -> watch::Receiver<FolderStatus> {
        self.status.subscribe()
    }

    /// Follows the folder until `stop` is set. What is under way then is finished.
    pub(crate) async fn follow(mut self, mut stop: watch::Receiver<bool>) {
        while !*stop.borrow() {
            self.step().await;
            tokio::select! {
                () = self.next_scan() => {}
                // An error means that nobody is left who could stop this otherwise.
                _ = stop.changed() => {}
            }
        }
    }

    /// Looks at the folder once, and does what follows from what is seen.
    async fn step(&mut self) {
        let now = Instant::now();
        if self.last_scan.is_some_and(|last| now.duration_since(last) >= self.watcher.poll_every()) {
            // Nobody gave notice for long: times of change may be too coarse here, so look into the files.
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
            // There is nothing here to wait for.
            self.start_controllers().await;
        }
        self.report_rejections(now);
        if !self.controllers.values().any(FolderController::is_suspect) {
            // Behind what was refused: the kinds that nobody knows may be its.
            self.report_problems();
        }
        self.remove_absent(now).await;
        self.publish();
    }

    /// Does what changed files ask for.
    async fn apply_changes(&mut self, changes: &[FileChange], retry: bool, now: Instant) {
        let content = self.content.clone();
        let read = changes.iter().any(|change| self.is_manifest(change.path()));
        let mut problems = content.problems.clone();
        if read || retry {
            problems.extend(self.apply(&content.documents, Phase::Definitions).await);
            // What cannot be applied yet is tried again, and told, with those that have to wait.
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

    /// Waits until it is time for the next look.
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

    /// Returns whether nothing is left to be done without a new change.
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

    /// Looks at every manifest, and at every component that one names.
    fn scan(&self) -> BTreeMap<PathBuf, FileStamp> {
        let mut seen = BTreeMap::new();
        for root in &self.roots {
            // The subfolder need not be there, and the folder may be away for a moment.
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

    /// Tells the problems that are new, and forgets those that are gone.
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

    /// Removes controllers that have been out of the folder for long enough, and says which resources are.
    async fn remove_absent(&mut self, now: Instant) {
        let content = self.content.clone();
        // A file that cannot be read may still hold what seems to be missing.
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
