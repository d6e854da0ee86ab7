//! Writes the controllers of a folder to the store, waits for the host's result, and reports it.
//!
//! The folder is one source of such resources among others. A label marks the controllers that it manages.
//! Controllers without the label stay unchanged, even if the folder has one of the same name. An edit of a
//! managed controller stays until its file changes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use homeostat_component::Digest;
use homeostat_runtime::controller_reconciler::{MANAGED_BY, SyncOutcome, SyncResult, UNDONE_TO};
use homeostat_runtime::manifest::{API_VERSION, KIND, Manifest};
use homeostat_runtime::reasons::{chain, list};
use homeostat_runtime::{Error, Host, Put};
use homeostat_store::{
    Key, Kind, LabelRequirement, Precondition, Propagation, Query, Resource, Revision, Selector, Write,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::folder_controller::{FolderController, Rejection, RejectionCause, Stage};
use super::manifests::Manifests;
use super::resources::MANAGER;
use super::{DELETION_GRACE, DeletionGrace, Document, FileChange, RETRY, WRITE_GRACE};
use crate::components::{self, Components};
use crate::manifest::TextPosition;
use crate::terminal::Screen;

/// How long the folder waits for the host's result on a controller: a start hook may take long.
const SYNC_TIMEOUT: Duration = Duration::from_secs(60);

/// How long the folder waits for a deleted controller to stop.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(15);

/// Attempts of a write that conflicts with others.
const WRITE_TRIES: u32 = 5;

/// The annotation with the digest of the manifest and the component that were applied. While it matches,
/// nothing is applied again, so that later edits by others stay.
const SOURCE: &str = "homeostat.dev/source";

/// Writes the controllers of a folder and reports what becomes of them.
pub(super) struct ControllerInstaller {
    host: Host,
    screen: Screen,
    /// The store of components.
    code: Components,
    controllers: BTreeMap<String, FolderController>,
    /// The host runs the controllers in the store.
    has_started: bool,
    /// Controllers in the store that the folder managed before this process started.
    managed: BTreeSet<String>,
    absent: DeletionGrace<String>,
}

/// The result of writing a controller.
struct ControllerWrite {
    revision: Revision,
    /// The write changed the stored controller.
    is_change: bool,
    /// The revision of the undo that the write ends.
    ends_undo_to: Option<String>,
}

impl ControllerInstaller {
    pub(super) fn new(host: Host, screen: Screen, code: Components) -> Self {
        let (controllers, managed) = Default::default();
        let absent = DeletionGrace::new(DELETION_GRACE);
        Self { host, screen, code, controllers, has_started: false, managed, absent }
    }

    /// Returns the files of the components.
    pub(super) fn files(&self) -> impl Iterator<Item = &Path> + Clone {
        self.controllers.values().filter_map(|installed| installed.file.as_deref())
    }

    /// Returns whether a rejection has not been reported yet.
    pub(super) fn are_suspect(&self) -> bool {
        self.controllers.values().any(FolderController::is_suspect)
    }

    /// Returns the number of controllers whose current files are refused.
    pub(super) fn refused(&self) -> usize {
        self.controllers.values().filter(|installed| installed.refused.is_some()).count()
    }

    /// Returns whether no work is left until the next change.
    pub(super) fn is_quiet(&self) -> bool {
        self.has_started && !self.are_suspect() && self.absent.is_empty()
    }

    /// Writes the controllers whose manifest or component is new or changed, and waits until each runs or is
    /// refused. With `retry`, also writes those that the store rejected before. Returns whether any of them
    /// runs, and sets when to retry.
    pub(super) async fn install(
        &mut self,
        documents: &[Document],
        changes: &[FileChange],
        retry: bool,
        now: Instant,
        retry_at: &mut Option<Instant>,
    ) -> bool {
        let mut tried = Vec::new();
        for document in documents {
            let Some(manifest) = document.controller.as_deref() else { continue };
            let name = &manifest.metadata.name;
            let next = FolderController::new(document, manifest);
            let known = self.controllers.remove(name);
            if let Some(known) = known {
                let same = known.manifest == next.manifest && known.file == next.file;
                let touched = changes.iter().any(|change| Some(change.path()) == known.file.as_deref());
                if same && !touched && !(retry && known.is_unwritten()) {
                    self.controllers.insert(
                        name.clone(),
                        FolderController { manifest_file: next.manifest_file, place: next.place, ..known },
                    );
                    continue;
                }
                tried.push((self.write_controller(document, &next).await, next, Some(known)));
            } else {
                tried.push((self.write_controller(document, &next).await, next, None));
            }
        }
        self.start(retry_at).await;
        let mut put = false;
        for (written, mut next, known) in tried {
            let name = next.manifest.metadata.name.clone();
            let judged = match written {
                Ok((written, digest)) => {
                    next.written = Some(written.revision);
                    let is_news = written.is_change || known.as_ref().is_none_or(|known| known.refused.is_some());
                    self.wait_for_result(&name, written.revision, digest, is_news).await
                }
                Err(why) => Err(why),
            };
            match judged {
                Ok(()) => put = true,
                Err(why) => next.refused = Some(Rejection::after(known.and_then(|known| known.refused), why, now)),
            }
            if next.is_unwritten() {
                *retry_at = Some(now + RETRY);
            }
            self.controllers.insert(name, next);
        }
        put
    }

    /// Starts the controllers in the store, once the folder's own have been written. Records which of them
    /// the folder managed before. Sets when to retry a failure.
    pub(super) async fn start(&mut self, retry_at: &mut Option<Instant>) {
        if self.has_started {
            return;
        }
        let label = LabelRequirement::Equals(MANAGED_BY.to_owned(), MANAGER.to_owned());
        let selector = Selector { labels: vec![label], ..Selector::default() };
        let brought = self.host.store().list(&Query { selector, ..Query::all(key("").kind().clone()) }).await;
        let began = match brought {
            Ok(page) => {
                self.managed = page.items.iter().map(|item| item.key().name().to_owned()).collect();
                self.host.run_controllers(std::sync::Arc::new(self.code.clone())).await
            }
            Err(error) => Err(error.into()),
        };
        match began {
            Ok(()) => self.has_started = true,
            Err(error) => {
                self.screen.warn(&format!("cannot run the controllers in the store: {}", chain(&error)));
                *retry_at = Some(Instant::now() + RETRY);
            }
        }
    }

    /// Stores the component and writes the resource, unless that was done before. Returns the result and the
    /// component's digest.
    async fn write_controller(
        &self,
        document: &Document,
        next: &FolderController,
    ) -> Result<(ControllerWrite, Option<Digest>), RejectionCause> {
        let Manifest { metadata, spec, .. } = &*next.manifest;
        let nothing = |reason: String| RejectionCause { digest: None, reason: list(&[reason]), stage: Stage::Read };
        let mut digest = spec.component.digest.as_deref().and_then(Digest::parse);
        if let Some(file) = next.file.clone() {
            let read = tokio::task::spawn_blocking(move || components::read(&file)).await;
            let bytes = read.expect("reading a file does not panic").map_err(nothing)?;
            let found = self.code.keep(bytes).await.map_err(nothing)?;
            if let Some(wanted) = digest.filter(|wanted| *wanted != found) {
                return Err(nothing(format!("the file has the digest {found}, but the manifest names {wanted}")));
            }
            digest = Some(found);
        }
        let (document, source) = managed_document(&document.value, digest.as_ref());
        let name = &metadata.name;
        let reason = match retry_on_conflict(|| self.write_if_changed(name, &document, &source)).await {
            Ok(Some(written)) => {
                if let Some(number) = &written.ends_undo_to {
                    self.screen.info(&format!(
                        "controller/{name} follows its file again: the undo to revision {number} is over"
                    ));
                }
                return Ok((written, digest));
            }
            Ok(None) => format!(
                "the store has one of this name that no folder brought, as it lacks the label {MANAGED_BY}: {MANAGER}; it is left alone: delete it, or give it \
                 the label, and this one takes its place"
            ),
            Err(error) => chain(&error),
        };
        Err(RejectionCause { digest, reason: list(&[reason]), stage: Stage::Write })
    }

    /// Writes a controller, unless the stored one comes from the same source. Returns `None` if the folder
    /// does not manage the stored one.
    ///
    /// # Errors
    /// Those of a write; a conflict when another client has written it since it was read.
    async fn write_if_changed(
        &self,
        name: &str,
        document: &Value,
        source: &str,
    ) -> Result<Option<ControllerWrite>, Error> {
        let stored = match self.host.store().get(&key(name)).await {
            Ok(stored) if !is_managed(&stored) => return Ok(None),
            Ok(stored) if stored.annotation(SOURCE) == Some(source) => {
                return Ok(Some(ControllerWrite { revision: stored.revision(), is_change: false, ends_undo_to: None }));
            }
            Ok(stored) => Some(stored),
            Err(homeostat_store::Error::NotFound { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let mut document = document.clone();
        if let Some(stored) = &stored {
            document["metadata"]["uid"] = stored.uid().into();
            document["metadata"]["resourceVersion"] = stored.revision().to_string().into();
        }
        // Without a stored controller, the apply is not forced: it takes no fields from a concurrent creator.
        let written = self.host.apply_resource(document, MANAGER, stored.is_some()).await?;
        let ends_undo_to = stored.and_then(|stored| stored.annotation(UNDONE_TO).map(str::to_owned));
        Ok(Some(ControllerWrite { revision: written.resource.revision(), is_change: true, ends_undo_to }))
    }

    /// Waits for the host's result on a controller. Reports a success only if `is_news`, because files are
    /// read again from time to time.
    async fn wait_for_result(
        &self,
        name: &str,
        revision: Revision,
        digest: Option<Digest>,
        is_news: bool,
    ) -> Result<(), RejectionCause> {
        let Ok(verdict) = tokio::time::timeout(SYNC_TIMEOUT, self.host.sync_result(name, revision)).await else {
            self.screen.warn(&format!(
                "controller/{name} is not ready after {} s; see `homeostat describe controller {name}`",
                SYNC_TIMEOUT.as_secs()
            ));
            return Ok(());
        };
        match verdict.outcome {
            SyncOutcome::Refused(reason) => return Err(RejectionCause { digest, reason, stage: Stage::Run }),
            _ if !is_news => {}
            SyncOutcome::Put(put) => self.report_put(name, &put),
            SyncOutcome::Paused => {
                self.screen.info(&format!("controller/{name} is paused: the running version keeps running"))
            }
            SyncOutcome::Waiting(reason) => self.screen.warn(&format!("controller/{name} waits: {reason}")),
            // Each of these steps has an event, which is reported.
            SyncOutcome::RollingOut { .. } | SyncOutcome::Replaced | SyncOutcome::RolledBack(_) => {}
            // Another client has deleted it meanwhile.
            SyncOutcome::Removed(_) => {}
        }
        Ok(())
    }

    fn report_put(&self, name: &str, put: &Put) {
        match put {
            Put::Added => {
                let digest = self.host.status(name).map(|status| status.digest).unwrap_or_default();
                self.screen.info(&format!("controller/{name} added ({})", short(&digest)));
            }
            Put::Changed(swapped) if swapped.from == swapped.to => {
                self.screen.info(&format!("controller/{name} changed"))
            }
            Put::Changed(swapped) => self.screen.info(&format!(
                "controller/{name} swapped: generation {}, {} -> {}",
                swapped.generation,
                short(&swapped.from),
                short(&swapped.to)
            )),
            Put::Unchanged => {}
        }
    }

    /// Reports rejections, once it is clear that the file is no longer being written, and controllers that
    /// run after all.
    pub(super) fn report_rejections(&mut self, now: Instant) {
        let mut controllers = std::mem::take(&mut self.controllers);
        for (name, installed) in &mut controllers {
            let Some(refusal) = installed.refused.as_mut() else { continue };
            if let Some(SyncResult { seen, outcome: SyncOutcome::Put(put) }) = self.host.last_sync_result(name)
                && installed.written.is_some_and(|written| seen >= written)
            {
                // The host has retried it successfully.
                self.report_put(name, &put);
                installed.refused = None;
                continue;
            }
            if refusal.told || now.duration_since(refusal.since) < WRITE_GRACE {
                continue;
            }
            refusal.told = true;
            let rest = match self.host.status(name) {
                Some(_) => "the running version keeps running",
                None => "it does not run",
            };
            let (manifest, TextPosition { line, column }) = (installed.manifest_file.display(), installed.place);
            let component = installed.file.as_ref().map(|file| file.display().to_string()).unwrap_or_default();
            self.screen.warn(&format!(
                "{manifest}:{line}:{column}: controller/{name} refused, {rest}: {component}\n{}",
                refusal.why.reason
            ));
            if refusal.why.stage != Stage::Run {
                self.host.refused(name, &refusal.why.reason);
            }
        }
        self.controllers = controllers;
    }

    /// Deletes the controllers that have left the folder for long enough.
    pub(super) async fn remove_absent(&mut self, now: Instant, manifests: &Manifests) {
        for name in self.absent.due(now, self.gone(manifests)) {
            self.uninstall(&name).await;
        }
    }

    /// Deletes a controller, if the folder manages it.
    async fn uninstall(&mut self, name: &str) {
        self.controllers.remove(name);
        self.managed.remove(name);
        let revision = match retry_on_conflict(|| self.delete(name)).await {
            Ok(Some(revision)) => revision,
            Ok(None) => {
                return self.screen.info(&format!(
                    "controller/{name} is no longer in the folder and stays in the store: it is not managed by the folder"
                ));
            }
            // It was never written, or another client has deleted it.
            Err(Error::Store(homeostat_store::Error::NotFound { .. })) => {
                return self.screen.info(&format!("controller/{name} removed"));
            }
            Err(error) => {
                return self.screen.warn(&format!("controller/{name} could not be removed: {}", chain(&error)));
            }
        };
        match tokio::time::timeout(REMOVAL_TIMEOUT, self.host.sync_result(name, revision)).await {
            Ok(SyncResult { outcome: SyncOutcome::Removed(removed), .. }) => {
                let dropped = removed.dropped + removed.interrupted;
                let keys = if dropped == 0 { String::new() } else { format!(", {dropped} keys were dropped") };
                self.screen.info(&format!("controller/{name} removed{keys}"));
            }
            Ok(_) => self.screen.info(&format!("controller/{name} removed")),
            Err(_) => self.screen.warn(&format!("controller/{name} is still stopping; it accepts no more keys")),
        }
    }

    /// Deletes the current version of a controller. Returns the revision of the deletion, or `None` if the
    /// folder does not manage it.
    ///
    /// # Errors
    /// Those of a write; a conflict when another client has written it since it was read.
    async fn delete(&self, name: &str) -> Result<Option<Revision>, Error> {
        let stored = self.host.store().get(&key(name)).await?;
        if !is_managed(&stored) {
            return Ok(None);
        }
        let precondition = Precondition { uid: Some(stored.uid().to_owned()), revision: Some(stored.revision()) };
        let write =
            Write::Delete { key: key(name), precondition, propagation: Propagation::Background, grace_seconds: None };
        Ok(Some(self.host.write(write.into()).await?.resource.revision()))
    }

    /// Returns the controllers that are missing from the folder, without those whose files cannot be read.
    fn gone(&self, manifests: &Manifests) -> Vec<String> {
        let all_readable = self.has_started && manifests.are_readable();
        let is_gone = |name: &&String| match self.controllers.get(*name) {
            Some(installed) => manifests.is_readable(&installed.manifest_file),
            None => all_readable,
        };
        let names: BTreeSet<&String> = self.controllers.keys().chain(&self.managed).collect();
        let missing = names.into_iter().filter(|name| !manifests.content().controllers.contains(*name));
        missing.filter(is_gone).cloned().collect()
    }
}

/// Repeats a read-modify-write until it has no conflict, [`WRITE_TRIES`] times at most.
async fn retry_on_conflict<T, F: Future<Output = Result<T, Error>>>(attempt: impl Fn() -> F) -> Result<T, Error> {
    use homeostat_store::Error::{ApplyConflict, Conflict};
    for _ in 1..WRITE_TRIES {
        match attempt().await {
            Err(Error::Store(Conflict { .. } | ApplyConflict { .. })) => {}
            done => return done,
        }
    }
    attempt().await
}

/// Returns whether a folder manages the controller.
fn is_managed(controller: &Resource) -> bool {
    controller.label(MANAGED_BY) == Some(MANAGER)
}

/// Returns the document to write, with the label and annotation of the folder, and its source digest.
fn managed_document(document: &Value, digest: Option<&Digest>) -> (Value, String) {
    let mut document = document.clone();
    if let Some(digest) = digest {
        document["spec"]["component"]["digest"] = digest.as_str().into();
    }
    let source = Digest::of(document.to_string().as_bytes()).to_string();
    for (map, name, value) in [("labels", MANAGED_BY, MANAGER), ("annotations", SOURCE, source.as_str())] {
        let map = &mut document["metadata"][map];
        if !map.is_object() {
            *map = json!({});
        }
        map[name] = value.into();
    }
    (document, source)
}

/// Returns the key of a controller.
fn key(name: &str) -> Key {
    let (group, version) = API_VERSION.split_once('/').expect("it has a group");
    Key::new(Kind::new(group, version, KIND), "", name)
}

/// Shortens a digest to the part that people compare.
pub(crate) fn short(digest: &str) -> &str {
    digest.get(.."sha256:".len() + 12).unwrap_or(digest)
}

#[cfg(test)]
mod tests;
