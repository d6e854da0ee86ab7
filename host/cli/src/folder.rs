//! Follows a folder of manifests: applies its documents to the host, and every later change.
//!
//! CustomResourceDefinitions come first, then controllers, then all other resources. A controller that leaves
//! the folder is deleted, even if it left while no host ran. A resource that leaves the folder stays in the
//! store, and a message says so. A half-written file deletes nothing: see [`crate::file_debouncer`],
//! [`WRITE_GRACE`] and [`DELETION_GRACE`].

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use homeostat_runtime::Host;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::components::Components;
use crate::file_debouncer::{FileChange, QUIET};
use crate::manifest::{Document, Problem, ResourceId};
use crate::terminal::Screen;

mod controllers;
mod deletion_grace;
mod folder_controller;
mod manifests;
mod resources;
mod scanner;

use controllers::ControllerInstaller;
use deletion_grace::DeletionGrace;
use manifests::Manifests;
use resources::{Phase, ResourceApplier};
use scanner::Scanner;

/// How long something must be missing before it counts as deleted: editors remove files and put them back.
const DELETION_GRACE: Duration = Duration::from_secs(2);
/// How long a component must be invalid before it is reported: its writer may have paused.
const WRITE_GRACE: Duration = Duration::from_secs(1);
/// The wait before a write that the store rejected is retried.
const RETRY: Duration = Duration::from_secs(5);
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
    scanner: Scanner,
    manifests: Manifests,
    controllers: ControllerInstaller,
    resources: ResourceApplier,
    screen: Screen,
    /// The problems of the last attempt.
    problems: Vec<Problem>,
    /// Reported problems that still exist.
    reported: BTreeSet<String>,
    /// When to retry documents that could not be applied.
    retry_at: Option<Instant>,
    status: watch::Sender<FolderStatus>,
}

impl Folder {
    /// Returns a follower of `roots` and their subfolders `manifests`, without their files of stores and without `skipped`,
    /// if it is another one. Nothing is read yet.
    pub(crate) fn new(roots: &[&Path], skipped: Option<PathBuf>, host: Host, screen: Screen, code: Components) -> Self {
        Self {
            scanner: Scanner::new(roots, skipped),
            manifests: Manifests::default(),
            controllers: ControllerInstaller::new(host.clone(), screen.clone(), code),
            resources: ResourceApplier::new(host, screen.clone()),
            screen,
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
        let changes = self.scanner.scan(now, self.controllers.files());
        let manifests: Vec<_> = changes.iter().filter(|change| self.scanner.is_manifest(change.path())).collect();
        self.manifests.read(&manifests).await;
        let (read, retry) = (!manifests.is_empty(), self.retry_at.is_some_and(|at| at <= now));
        if !changes.is_empty() || retry {
            self.apply_changes(&changes, read, retry, now).await;
        } else if self.scanner.is_settled() {
            // There are no manifests to apply first.
            self.controllers.start(&mut self.retry_at).await;
        }
        self.controllers.report_rejections(now);
        if !self.controllers.are_suspect() {
            // Problems come after rejections: a refused component may be the one that declares an unknown
            // kind.
            self.report_problems();
        }
        self.controllers.remove_absent(now, &self.manifests).await;
        self.resources.report_absent(now, &self.manifests);
        self.publish();
    }

    /// Applies the documents in changed files. `read`: a manifest is among them.
    async fn apply_changes(&mut self, changes: &[FileChange], read: bool, retry: bool, now: Instant) {
        let content = self.manifests.content().clone();
        let mut problems = content.problems.clone();
        if read || retry {
            problems.extend(self.resources.apply(&content.documents, Phase::Definitions).await);
            // Documents that fail here are applied again, and reported, in the last phase.
            drop(self.resources.apply(&content.documents, Phase::Known).await);
        }
        self.retry_at = None;
        let put = self.controllers.install(&content.documents, changes, retry, now, &mut self.retry_at).await;
        if read || retry || put {
            problems.extend(self.resources.apply(&content.documents, Phase::Resources).await);
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
        self.scanner.changed(wait.unwrap_or(Duration::MAX)).await;
    }

    /// Returns whether no work is left until the next change.
    fn is_quiet(&self) -> bool {
        self.scanner.is_settled() && self.controllers.is_quiet() && self.resources.is_quiet()
    }

    fn publish(&self) {
        let status = FolderStatus {
            settled: self.scanner.has_scanned() && self.is_quiet(),
            problems: self.reported.len(),
            refused: self.controllers.refused(),
        };
        self.status.send_if_modified(|known| std::mem::replace(known, status) != status);
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
}
