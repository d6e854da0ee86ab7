//! The host's API for the `Controller` resources of its store.

use std::sync::Arc;
use std::time::Duration;

use homeostat_component::Severity;
use homeostat_store::Revision;

use super::Host;
use crate::controller_reconciler::{self, CompilationTracker, ControllerReconciler, SyncResult, SyncResults};
use crate::{CodeSource, Error, Suspend};

impl Host {
    /// Starts to reconcile the `Controller` resources of the store. Returns when each existing one has been
    /// tried once. A second call does nothing.
    ///
    /// # Errors
    /// [`Error::Store`] when the resources cannot be listed. *Cancel safety*: once they are listed, the
    /// controllers run even if this call is dropped.
    pub async fn run_controllers(&self, code: Arc<dyn CodeSource>) -> Result<(), Error> {
        // A second call finds it set and does nothing.
        drop(self.inner.context.code.set(code.clone()));
        let keeper = ControllerReconciler::new(code, self.inner.context.seed("homeostat"));
        let listed = ControllerReconciler::list(&*self.store()).await?;
        if self.inner.reconciler.set(keeper.clone()).is_ok() {
            keeper.start(self, listed, self.inner.end.clone()).await;
        }
        Ok(())
    }

    /// Waits for the sync result of a `Controller` at this revision or later. Waits forever without
    /// [`Host::run_controllers`].
    ///
    /// *Cancel safety*: nothing is lost.
    pub async fn sync_result(&self, controller: &str, revision: Revision) -> SyncResult {
        self.inner.verdicts.wait(controller, revision).await
    }

    /// Returns the controllers that have run before but of which no version runs now, with the reason.
    /// Missing code is one.
    pub fn down(&self) -> Vec<(String, String)> {
        self.inner.reconciler.get().map(|keeper| keeper.down()).unwrap_or_default()
    }

    /// Updates the status of a controller that is a resource.
    pub(crate) fn report_again(&self, controller: &str) {
        if let Some(keeper) = self.inner.reconciler.get() {
            keeper.enqueue(controller);
        }
    }

    /// Returns the last sync result of a `Controller`.
    pub fn last_sync_result(&self, controller: &str) -> Option<SyncResult> {
        self.inner.verdicts.last(controller)
    }

    /// Writes an older revision of a controller into its resource: revision `to`, or the previous one.
    /// Returns its number.
    ///
    /// # Errors
    /// [`Error::UnknownController`], [`Error::NoRevision`], [`Error::Paused`], and those of [`Host::write`].
    pub async fn undo(&self, controller: &str, to: Option<u64>) -> Result<u64, Error> {
        controller_reconciler::undo(self, controller, to).await
    }

    /// As [`Host::suspend`], but survives restarts if the controller is a resource: an annotation records it.
    /// Returns when it has taken effect.
    ///
    /// # Errors
    /// [`Error::UnknownController`], and those of [`Host::write`].
    pub async fn suspend_for_good(&self, name: &str, suspend: bool) -> Result<(), Error> {
        match controller_reconciler::suspend(self, name, suspend).await? {
            Some(revision) if self.inner.reconciler.get().is_some() => drop(self.sync_result(name, revision).await),
            Some(_) => {}
            None => self.suspend(name, suspend)?,
        }
        Ok(())
    }

    /// Returns how long the component of a controller has been compiling or waiting to compile, `None` if it
    /// is not. An older version may run meanwhile.
    pub fn compiling(&self, controller: &str) -> Option<Duration> {
        self.inner.compiling.since(controller)
    }

    /// Returns the controllers whose component is compiling, by name, each with the time it has taken so far.
    pub fn all_compiling(&self) -> Vec<(String, Duration)> {
        self.inner.compiling.all()
    }

    pub(crate) fn compilations(&self) -> &CompilationTracker {
        &self.inner.compiling
    }

    /// Records an event about a controller, whether it runs or not.
    pub(crate) fn emit_event(&self, controller: &str, severity: Severity, reason: &str, message: &str) {
        self.inner.context.event(&controller.into(), None, severity, reason, message);
    }

    /// Suspends or resumes a controller, if it runs.
    pub(crate) fn hold(&self, name: &str, held: Suspend) {
        if let Ok(controller) = self.controller(name) {
            controller.suspension.hold(held);
        }
    }

    pub(crate) fn verdicts(&self) -> &SyncResults {
        &self.inner.verdicts
    }

    /// Runs a task in the background. Shutdown waits for it.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.inner.tasks.spawn(task);
    }
}
