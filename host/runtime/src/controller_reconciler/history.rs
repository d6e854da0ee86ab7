//! The revisions of a controller: the definitions that were installed, and the targets of a rollback.
//!
//! Each definition is recorded before it is installed, so a crash in between leaves the history complete.
//! Pure functions decide the changes.

use std::sync::Arc;

use homeostat_component::Component;
use homeostat_store::{Change, EventType, Key, Precondition, Propagation, Resource, Store, Write};
use serde_json::{Value, json};

use crate::rollout::PinnedKeys;

use super::{REVISION_KIND, revisions, revisions_of};
use crate::host_kinds::{API_VERSION, KIND};

/// The annotation that gives the cause of a change. Source: kubectl.
pub(super) const CAUSE: &str = "kubernetes.io/change-cause";

/// The annotation of a revision that was rolled back, with the reason.
const ROLLED_BACK: &str = "homeostat.dev/wentBack";

/// The reason when another definition ended a rollout.
pub(crate) const REPLACED: &str = "another definition replaced it before it had all keys";

/// Maximum bytes of a component's description in a revision, so that the definition still fits.
const SAID_BYTES_MAX: usize = 256 << 10;

/// One revision.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ControllerRevision {
    pub(crate) number: u64,
    /// The definition, with the digest of its code.
    pub(crate) spec: Value,
    /// Whether it was rolled back or replaced before it had all keys.
    pub(crate) rolled_back: bool,
    /// The keys pinned by labels at its last rollout.
    pub(crate) pinned: PinnedKeys,
}

impl ControllerRevision {
    fn of(resource: &Resource) -> Option<Self> {
        let spec = &resource.document()["spec"];
        let number = spec["number"].as_u64()?;
        let went_back = resource.annotation(ROLLED_BACK).is_some();
        let chosen = spec["chosen"].as_str().and_then(PinnedKeys::parse).unwrap_or_default();
        Some(Self { number, spec: spec.get("spec")?.clone(), rolled_back: went_back, pinned: chosen })
    }
}

/// The change of the history when a definition is installed.
#[derive(Debug, PartialEq)]
pub(crate) struct RevisionPlan {
    /// The revision number of the definition.
    pub(crate) number: u64,
    /// Whether a revision must be written.
    pub(crate) is_new: bool,
    /// The number of an older revision with the same definition.
    pub(crate) was: Option<u64>,
}

/// Returns the revision for a definition, given the history in order. A definition that was there before gets
/// a new number.
fn plan_revision(history: &[ControllerRevision], spec: &Value) -> RevisionPlan {
    match history.last() {
        Some(last) if last.spec == *spec => RevisionPlan { number: last.number, is_new: false, was: None },
        last => {
            let was = history.iter().rev().find(|recorded| recorded.spec == *spec).map(|recorded| recorded.number);
            RevisionPlan { number: last.map_or(0, |last| last.number) + 1, is_new: true, was }
        }
    }
}

/// Returns the revisions to delete besides the current one: duplicates of later ones, and the oldest above
/// the limit.
fn surplus(history: &[ControllerRevision], current: u64, old_max: u32) -> Vec<u64> {
    let is_same_as_later =
        |at: usize, recorded: &ControllerRevision| history[at + 1..].iter().any(|later| later.spec == recorded.spec);
    let (mut surplus, mut old): (Vec<&ControllerRevision>, Vec<&ControllerRevision>) = (Vec::new(), Vec::new());
    for (at, recorded) in history.iter().enumerate().filter(|(_, recorded)| recorded.number != current) {
        if is_same_as_later(at, recorded) { surplus.push(recorded) } else { old.push(recorded) }
    }
    surplus.extend(&old[..old.len().saturating_sub(old_max as usize)]);
    surplus.into_iter().map(|recorded| recorded.number).collect()
}

/// The stored revisions of one controller. Every method has the errors of the store.
pub(crate) struct History {
    store: Arc<dyn Store>,
    controller: Arc<Resource>,
}

impl History {
    pub(crate) fn of(store: Arc<dyn Store>, controller: Arc<Resource>) -> Self {
        Self { store, controller }
    }

    /// Reads the revisions in order.
    pub(crate) async fn read(&self) -> homeostat_store::Result<Vec<ControllerRevision>> {
        let page = self.store.list(&revisions_of(self.controller.uid())).await?;
        let mut history: Vec<ControllerRevision> =
            page.items.iter().filter_map(|resource| ControllerRevision::of(resource)).collect();
        history.sort_by_key(|recorded| recorded.number);
        Ok(history)
    }

    /// Records a definition as a revision, unless it is the newest one. Returns the revisions before it too.
    pub(crate) async fn record(
        &self,
        spec: &Value,
        code: &Component,
    ) -> homeostat_store::Result<(Vec<ControllerRevision>, RevisionPlan)> {
        let history = self.read().await?;
        let revision = plan_revision(&history, spec);
        if revision.is_new {
            self.write(spec, code, &revision).await?;
        }
        Ok((history, revision))
    }

    /// Writes a revision. Replaces one that an earlier controller of the name has left.
    async fn write(
        &self,
        spec: &Value,
        code: &Component,
        RevisionPlan { number, is_new: _, was }: &RevisionPlan,
    ) -> homeostat_store::Result<()> {
        let owner = self.controller.key().name();
        let cause = self.controller.annotation(CAUSE).map(str::to_owned);
        let cause = was.map(|was| format!("as revision {was}")).or(cause);
        let annotations = cause.map(|cause| json!({ CAUSE: cause })).unwrap_or_else(|| json!({}));
        let document = json!({
            "apiVersion": API_VERSION, "kind": REVISION_KIND,
            "metadata": {
                "name": name(owner, *number), "annotations": annotations,
                "ownerReferences": [{
                    "apiVersion": API_VERSION, "kind": KIND, "name": owner, "uid": self.controller.uid(),
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": {
                "controller": owner, "number": number, "digest": spec["component"]["digest"], "spec": spec,
                "component": said_by(code),
            },
        });
        match self.store.write(Write::Create { document: document.clone() }).await {
            Err(homeostat_store::Error::AlreadyExists { .. }) => {
                self.remove(*number).await?;
                self.store.write(Write::Create { document }).await.map(drop)
            }
            written => written.map(drop),
        }
    }

    /// Deletes a revision, if it is there.
    pub(crate) async fn remove(&self, number: u64) -> homeostat_store::Result<()> {
        let (key, precondition) = (self.key(number), Precondition::default());
        match self
            .store
            .write(Write::Delete { key, precondition, propagation: Propagation::Background, grace_seconds: None })
            .await
        {
            Ok(written) => {
                debug_assert!(written.change == Some(EventType::Deleted) || written.resource.is_deleting());
                Ok(())
            }
            Err(homeostat_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Deletes the revisions beyond the limit. Returns whether there were any.
    pub(crate) async fn prune(&self, current: u64, old_max: u32) -> homeostat_store::Result<bool> {
        let surplus = surplus(&self.read().await?, current, old_max);
        for number in &surplus {
            self.remove(*number).await?;
        }
        Ok(!surplus.is_empty())
    }

    /// Marks a revision as rolled back, with the reason, if it is there; `None` removes the mark.
    pub(crate) async fn mark_rolled_back(&self, number: u64, why: Option<&str>) -> homeostat_store::Result<()> {
        match self.merge(number, json!({ "metadata": { "annotations": { ROLLED_BACK: why } } })).await {
            Ok(()) | Err(homeostat_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Stores the pinned keys in a revision.
    pub(crate) async fn pin_keys(&self, number: u64, pinned: &PinnedKeys) -> homeostat_store::Result<()> {
        let text = Some(pinned.text()).filter(|text| !text.is_empty());
        self.merge(number, json!({ "spec": { "chosen": text } })).await
    }

    async fn merge(&self, number: u64, change: Value) -> homeostat_store::Result<()> {
        let (key, precondition) = (self.key(number), Precondition::default());
        self.store.write(Write::Patch { key, change: Change::Merge(change), precondition }).await.map(drop)
    }

    fn key(&self, number: u64) -> Key {
        Key::new(revisions(), "", &name(self.controller.key().name(), number))
    }
}

/// Returns the component's description, for comparing revisions without their code. Empty if it is too long.
fn said_by(code: &Component) -> Value {
    let said = json!({ "describe": code.describe(), "imports": code.imports(), "exports": code.info().exports });
    if said.to_string().len() > SAID_BYTES_MAX { json!({}) } else { said }
}

/// Returns the name of a revision.
fn name(controller: &str, number: u64) -> String {
    format!("{controller}-{number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(specs: &[(u64, &str)]) -> Vec<ControllerRevision> {
        let recorded = |(number, spec): &(u64, &str)| ControllerRevision {
            number: *number,
            spec: json!(spec),
            rolled_back: false,
            pinned: PinnedKeys::default(),
        };
        specs.iter().map(recorded).collect()
    }

    #[test]
    fn an_installed_definition_is_recorded_once_and_an_older_one_gets_a_new_number() {
        assert_eq!(plan_revision(&[], &json!("x")), RevisionPlan { number: 1, is_new: true, was: None });
        let two = history(&[(1, "x"), (4, "y")]);
        assert_eq!(plan_revision(&two, &json!("y")), RevisionPlan { number: 4, is_new: false, was: None });
        assert_eq!(plan_revision(&two, &json!("z")), RevisionPlan { number: 5, is_new: true, was: None });
        assert_eq!(plan_revision(&two, &json!("x")), RevisionPlan { number: 5, is_new: true, was: Some(1) });
    }

    #[test]
    fn history_keeps_the_current_revision_and_the_newest_old_ones_without_duplicates() {
        let some = history(&[(1, "x"), (2, "y"), (3, "z"), (4, "x")]);
        assert_eq!(surplus(&some, 4, 10), [1], "the same stands at the top");
        assert_eq!(surplus(&some, 4, 1), [1, 2]);
        assert_eq!(surplus(&some, 4, 0), [1, 2, 3]);
        assert_eq!(surplus(&history(&[(1, "x")]), 1, 0), [0; 0]);
        assert_eq!(surplus(&history(&[(1, "x"), (2, "y")]), 1, 0), [2], "one that never ran does not stay");
    }
}
