//! What a host does about the controllers of its store.

use std::sync::Arc;
use std::time::Duration;

use homeostat_component::Severity;
use homeostat_store::Revision;

use super::Host;
use crate::keeper::{self, CompilationTracker, ControllerReconciler, SyncResult, SyncResults};
use crate::{CodeSource, Error, Suspend};

impl Host {
    /// Runs the controllers of the store from now on: each resource of kind `Controller` is made true, and followed. Returns when each that is
    /// there now has been tried once. The second time, nothing happens.
    ///
    /// # Errors
    /// [`Error::Store`] when they cannot be listed. *Cancel safety*: once they are listed, they run all the same.
    pub async fn run_controllers(&self, code: Arc<dyn CodeSource>) -> Result<(), Error> {
        // Set once: the second time, nothing happens.
        drop(self.inner.context.code.set(code.clone()));
        let keeper = ControllerReconciler::new(code, self.inner.context.seed("homeostat"));
        let listed = keeper.enqueue_all(&*self.store()).await?;
        if self.inner.reconciler.set(keeper.clone()).is_ok() {
            keeper.start(self, listed, self.inner.end.clone()).await;
        }
        Ok(())
    }

    /// Waits for what the host comes to about a controller of the store, as it is at this revision or later. Without
    /// [`Host::run_controllers`] it comes to nothing.
    ///
    /// *Cancel safety*: nothing is lost.
    pub async fn sync_result(&self, controller: &str, revision: Revision) -> SyncResult {
        self.inner.verdicts.wait(controller, revision).await
    }

    /// Returns the controllers of the store that have run before and of which nothing runs now, as when their code is gone, and why.
    pub fn down(&self) -> Vec<(String, String)> {
        self.inner.reconciler.get().map(|keeper| keeper.down()).unwrap_or_default()
    }

    /// Returns what the host last came to about a controller of the store.
    pub fn last_sync_result(&self, controller: &str) -> Option<SyncResult> {
        self.inner.verdicts.last(controller)
    }

    /// Writes an older revision of a controller into its resource: that of this number, or the one before. Returns its number.
    ///
    /// # Errors
    /// [`Error::UnknownController`], [`Error::NoRevision`], [`Error::Paused`], and those of [`Host::write`].
    pub async fn undo(&self, controller: &str, to: Option<u64>) -> Result<u64, Error> {
        keeper::undo(self, controller, to).await
    }

    /// As [`Host::suspend`], and over restarts where the controller is a resource: its annotation says so. Returns when it is done.
    ///
    /// # Errors
    /// [`Error::UnknownController`], and those of [`Host::write`].
    pub async fn suspend_for_good(&self, name: &str, suspend: bool) -> Result<(), Error> {
        match keeper::suspend(self, name, suspend).await? {
            Some(revision) if self.inner.reconciler.get().is_some() => drop(self.sync_result(name, revision).await),
            Some(_) => {}
            None => self.suspend(name, suspend)?,
        }
        Ok(())
    }

    /// Returns for how long the component of a controller has been compiled, or has waited for its turn; `None`: it is not. Something
    /// older may run meanwhile.
    pub fn compiling(&self, controller: &str) -> Option<Duration> {
        self.inner.compiling.since(controller)
    }

    /// Returns the controllers whose component is being compiled, by name, each with how long it has been.
    pub fn all_compiling(&self) -> Vec<(String, Duration)> {
        self.inner.compiling.all()
    }

    pub(crate) fn compilations(&self) -> &CompilationTracker {
        &self.inner.compiling
    }

    /// Notes something about a controller, whether it runs or not.
    pub(crate) fn emit_event(&self, controller: &str, severity: Severity, reason: &str, message: &str) {
        self.inner.context.event(&controller.into(), None, severity, reason, message);
    }

    /// Holds the keys of a controller back, or lets them go, if it runs.
    pub(crate) fn hold(&self, name: &str, held: Suspend) {
        if let Ok(controller) = self.controller(name) {
            controller.hold(held);
        }
    }

    pub(crate) fn verdicts(&self) -> &SyncResults {
        &self.inner.verdicts
    }

    /// Does something beside everything else. The host waits for it when it ends.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.inner.tasks.spawn(task);
    }
}
