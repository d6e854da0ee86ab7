//! The life of a controller: its tasks, and the moments at which it starts and ends.

use std::sync::atomic::AtomicBool;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::worker::Workers;
use crate::scheduler::{Quantum, Tenant};

pub(crate) struct Lifecycle {
    /// The controller's tenant in the scheduler.
    tenant: Tenant,
    pub(super) tasks: TaskTracker,
    pub(super) workers: Workers,
    /// Held while the definition changes: one change at a time.
    pub(crate) changing: tokio::sync::Mutex<()>,
    /// Whether the start hook of the present version has not run, because another host worked meanwhile.
    pub(super) owes_hook: AtomicBool,
    /// Cancelled when the start hook has succeeded.
    pub(super) started: CancellationToken,
    /// Cancelled when the previous controller of this name has ended.
    before: Option<CancellationToken>,
    /// Cancelled when nothing runs under this name any more.
    pub(crate) ended: CancellationToken,
}

impl Lifecycle {
    pub(super) fn new(tenant: Tenant, tasks: TaskTracker, before: Option<CancellationToken>) -> Self {
        let (workers, changing, owes_hook, started, ended) = Default::default();
        Self { tenant, tasks, workers, changing, owes_hook, started, before, ended }
    }

    /// Runs a task in quanta of the controller's tenant. The controller ends when all its tasks have ended.
    pub(crate) fn spawn<F: Future<Output = ()> + Send + 'static>(&self, make: impl FnOnce(Quantum) -> F) {
        self.tasks.spawn(self.tenant.run(make));
    }

    /// Waits for the end of the previous controller of this name.
    pub(super) async fn wait_for_previous(&self) {
        if let Some(before) = &self.before {
            before.cancelled().await;
        }
    }

    /// Returns whether the start hook has succeeded.
    pub(super) fn has_started(&self) -> bool {
        self.started.is_cancelled()
    }
}
