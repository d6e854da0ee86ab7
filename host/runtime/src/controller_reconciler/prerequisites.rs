//! The prerequisites of a controller: the kinds that its manifest names without declaring them, and the rights of the
//! controller that has created it.
//!
//! A controller whose prerequisite is missing ends, also if it ran before, and waits. It starts when the prerequisite
//! is there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use homeostat_component::Severity;
use homeostat_workqueue::Priority;
use tokio_util::sync::CancellationToken;

use super::desired::DesiredController;
use super::sync::{ControllerSync, SyncError};
use super::{ControllerReconciler, Job, SyncOutcome};
use crate::Kinds;
use crate::created_controllers::{self, Creator};
use crate::manifest::{ComponentSource, ValidSpec, WrittenKinds};

/// The name of a controller that has created another one, and its definition or the reason for which it gives no rights.
type CreatorRead = (String, Result<ValidSpec, String>);

/// Which controllers have created which.
#[derive(Default)]
pub(super) struct Creations(BTreeMap<String, BTreeSet<String>>);

impl Creations {
    /// Records the creator of a controller, `None` if there is none.
    pub(super) fn set(&mut self, name: &str, creator: Option<&str>) {
        self.0.retain(|other, names| creator == Some(other) || !names.remove(name) || !names.is_empty());
        if let Some(creator) = creator {
            self.0.entry(creator.to_owned()).or_default().insert(name.to_owned());
        }
    }

    /// Returns the names of the controllers that one has created.
    pub(super) fn by(&self, creator: &str) -> Vec<Arc<str>> {
        self.0.get(creator).into_iter().flatten().map(|name| name.as_str().into()).collect()
    }
}

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
    pub(super) async fn check_prerequisites(&self) -> Result<(), SyncError> {
        // Noted before the look-up, so that a later change of the creator is noticed.
        self.reconciler.creations.lock().set(self.name(), created_controllers::creator_of(&self.resource));
        // An invalid definition is refused later.
        let Ok(wanted) = DesiredController::read(&self.resource.document()["spec"]) else { return Ok(()) };
        let creator = self.read_creator().await?;
        let missing = self.missing_kind(&wanted.checked.kinds);
        let missing =
            missing.or_else(|| self.lacking_right(creator.as_ref()?, &wanted.spec.component, &wanted.checked));
        if let Some(reason) = missing {
            self.stop_running();
            return Err(SyncError::Waiting(reason));
        }
        // A running version, as the stable one of a rollout, may have more rights than the creator has now. The desired
        // definition is then installed for all keys.
        if let (Some((name, Ok(ValidSpec { grants, limits, .. }))), Some(running)) =
            (&creator, self.host.definition(self.name()))
            && (Creator { name, grants, limits }).check_rights(&running.grants, &running.limits).is_err()
        {
            self.stop_running();
        }
        Ok(())
    }

    fn stop_running(&self) {
        if let Some(controller) = self.reconciler.detach(self.host, self.name()) {
            let (host, name) = (self.host.clone(), self.name().to_owned());
            self.host.spawn(async move { drop(host.stop_detached(&name, &controller).await) });
        }
    }

    /// Returns the name and the definition of the controller that has created this one; `None` if none has.
    async fn read_creator(&self) -> homeostat_store::Result<Option<CreatorRead>> {
        let Some(name) = created_controllers::creator_of(&self.resource) else { return Ok(None) };
        let read = created_controllers::read_creator(&*self.host.store(), name).await?;
        Ok(Some((name.to_owned(), read)))
    }

    fn lacking_right(
        &self,
        (name, read): &CreatorRead,
        source: &ComponentSource,
        checked: &ValidSpec,
    ) -> Option<String> {
        match read {
            Ok(ValidSpec { grants, limits, .. }) => {
                Creator { name, grants, limits }.check(self.name(), source, checked).err()
            }
            Err(reason) => Some(reason.clone()),
        }
    }

    /// Returns the right that a definition of this controller has and its creator lacks; `None` if no controller has
    /// created it.
    pub(super) async fn missing_right(
        &self,
        source: &ComponentSource,
        checked: &ValidSpec,
    ) -> homeostat_store::Result<Option<String>> {
        let creator = self.read_creator().await?;
        Ok(creator.and_then(|creator| self.lacking_right(&creator, source, checked)))
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
