//! The prerequisites of a controller: the kinds that its manifest names without declaring them.
//!
//! A controller whose prerequisite is missing ends, also if it ran before, and waits. It starts when the prerequisite
//! is there.

use std::sync::Arc;

use homeostat_component::Severity;
use homeostat_workqueue::Priority;
use tokio_util::sync::CancellationToken;

use super::desired::DesiredController;
use super::sync::{ControllerSync, SyncError};
use super::{ControllerReconciler, Job, SyncOutcome};
use crate::Kinds;
use crate::manifest::WrittenKinds;

impl ControllerReconciler {
    /// Reconciles the controllers whose manifest names kinds after each change of the declared kinds.
    pub(super) async fn wake_with_kinds(self: Arc<Self>, kinds: Arc<Kinds>, end: CancellationToken) {
        let mut changes = kinds.changes();
        loop {
            tokio::select! {
                biased;
                () = end.cancelled() => return,
                changed = changes.changed() => if changed.is_err() { return },
            }
            for name in self.kind_dependents.lock().iter() {
                // A closed queue means that the host is ending.
                let _ = self.queue.add(Job::Reconcile(name.as_str().into()), Priority::NORMAL);
            }
        }
    }
}

impl ControllerSync<'_> {
    /// Checks that the prerequisites of the controller are there.
    ///
    /// # Errors
    /// [`SyncError::Waiting`] for a missing one; the controller is then detached and stops in the background.
    pub(super) fn check_prerequisites(&self) -> Result<(), SyncError> {
        // An invalid definition is refused later.
        let Ok(wanted) = DesiredController::read(&self.resource.document()["spec"]) else { return Ok(()) };
        let missing = self.missing_kind(&wanted.checked.kinds);
        let Some(reason) = missing else { return Ok(()) };
        if let Some(controller) = self.reconciler.detach(self.host, self.name()) {
            let (host, name) = (self.host.clone(), self.name().to_owned());
            self.host.spawn(async move { drop(host.stop_detached(&name, &controller).await) });
        }
        Err(SyncError::Waiting(reason))
    }

    fn missing_kind(&self, kinds: &WrittenKinds) -> Option<String> {
        let mut dependents = self.reconciler.kind_dependents.lock();
        // Noted before the look-up, so that a later declaration is noticed.
        if *kinds == WrittenKinds::default() {
            dependents.remove(self.name());
        } else {
            dependents.insert(self.name().to_owned());
        }
        drop(dependents);
        let missing = kinds.resolve(&self.host.kinds()).err()?;
        Some(format!(
            "no declaration of the kind {missing} exists; the controller starts when one exists, as a \
             CustomResourceDefinition"
        ))
    }

    /// Reports that the controller waits, unless that was reported last.
    pub(super) fn report_waiting(&self, reason: &str) {
        let last = self.host.last_sync_result(self.name()).map(|last| last.outcome);
        if !matches!(last, Some(SyncOutcome::Waiting(last)) if last == reason) {
            self.host.emit_event(self.name(), Severity::Normal, "Waiting", reason);
        }
    }
}
