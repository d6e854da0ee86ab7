//! The revisions of a controller: the definitions that were installed, and the targets of a rollback.
//!
//! Each definition is recorded before it is installed, so a crash in between leaves the history complete.
//! Pure functions decide the changes.

use homeostat_component::Component;
use homeostat_store::{Change, EventType, Key, Precondition, Propagation, Resource, Store, Write};
use serde_json::{Value, json};

use crate::rollout::PinnedKeys;

use super::{REVISION_KIND, revisions, revisions_of};
use crate::host_kinds::{API_VERSION, KIND};

/// The annotation that gives the cause of a change. Source: kubectl.
pub(super) const CAUSE: &str = "kubernetes.io/change-cause";

/// The annotation of a revision that was rolled back, with the reason.
pub(super) const ROLLED_BACK: &str = "homeostat.dev/wentBack";

/// The reason when another definition ended a rollout.
pub(crate) const REPLACED: &str = "another definition replaced it before it had all keys";

/// Maximum bytes of a component's description in a revision, so that the definition still fits.
const SAID_BYTES_MAX: usize = 256 << 10;

/// One revision.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ControllerRevision {
    /// Name of the `ControllerRevision` resource.
    pub(crate) name: String,
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
        let (name, number) = (resource.key().name().to_owned(), spec["number"].as_u64()?);
        let went_back = resource.annotation(ROLLED_BACK).is_some();
        let chosen = spec["chosen"].as_str().and_then(PinnedKeys::parse).unwrap_or_default();
        Some(Self { name, number, spec: spec.get("spec")?.clone(), rolled_back: went_back, pinned: chosen })
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
pub(super) fn plan_revision(history: &[ControllerRevision], spec: &Value) -> RevisionPlan {
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
pub(super) fn surplus(history: &[ControllerRevision], current: u64, old_max: u32) -> Vec<String> {
    let is_same_as_later =
        |at: usize, recorded: &ControllerRevision| history[at + 1..].iter().any(|later| later.spec == recorded.spec);
    let (mut surplus, mut old): (Vec<&ControllerRevision>, Vec<&ControllerRevision>) = (Vec::new(), Vec::new());
    for (at, recorded) in history.iter().enumerate().filter(|(_, recorded)| recorded.number != current) {
        if is_same_as_later(at, recorded) { surplus.push(recorded) } else { old.push(recorded) }
    }
    surplus.extend(&old[..old.len().saturating_sub(old_max as usize)]);
    surplus.into_iter().map(|recorded| recorded.name.clone()).collect()
}

/// Reads the history of a controller in order.
///
/// # Errors
/// Those of the store.
pub(super) async fn read(store: &dyn Store, uid: &str) -> homeostat_store::Result<Vec<ControllerRevision>> {
    let page = store.list(&revisions_of(uid)).await?;
    let mut history: Vec<ControllerRevision> =
        page.items.iter().filter_map(|resource| ControllerRevision::of(resource)).collect();
    history.sort_by_key(|recorded| recorded.number);
    Ok(history)
}

/// Writes a revision. Replaces one that an earlier controller of the name has left.
///
/// # Errors
/// Those of the store.
pub(super) async fn write(
    store: &dyn Store,
    controller: &Resource,
    spec: &Value,
    code: &Component,
    RevisionPlan { number, is_new: _, was }: &RevisionPlan,
) -> homeostat_store::Result<()> {
    let owner = controller.key().name();
    let cause = controller.annotation(CAUSE).map(str::to_owned);
    let cause = was.map(|was| format!("as revision {was}")).or(cause);
    let annotations = cause.map(|cause| json!({ CAUSE: cause })).unwrap_or_else(|| json!({}));
    let document = json!({
        "apiVersion": API_VERSION, "kind": REVISION_KIND,
        "metadata": {
            "name": name(owner, *number), "annotations": annotations,
            "ownerReferences": [{
                "apiVersion": API_VERSION, "kind": KIND, "name": owner, "uid": controller.uid(),
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "controller": owner, "number": number, "digest": spec["component"]["digest"], "spec": spec,
            "component": said_by(code),
        },
    });
    match store.write(Write::Create { document: document.clone() }).await {
        Err(homeostat_store::Error::AlreadyExists { .. }) => {
            remove(store, &name(owner, *number)).await?;
            store.write(Write::Create { document }).await.map(drop)
        }
        written => written.map(drop),
    }
}

/// Returns the component's description, for comparing revisions without their code. Empty if it is too long.
fn said_by(code: &Component) -> Value {
    let said = json!({ "describe": code.describe(), "imports": code.imports(), "exports": code.info().exports });
    if said.to_string().len() > SAID_BYTES_MAX { json!({}) } else { said }
}

/// Deletes a revision.
///
/// # Errors
/// Those of the store, except that it is missing.
pub(super) async fn remove(store: &dyn Store, name: &str) -> homeostat_store::Result<()> {
    let key = Key::new(revisions(), "", name);
    let (precondition, propagation) = (Precondition::default(), Propagation::Background);
    match store.write(Write::Delete { key, precondition, propagation }).await {
        Ok(written) => {
            debug_assert!(written.change == Some(EventType::Deleted) || written.resource.is_deleting());
            Ok(())
        }
        Err(homeostat_store::Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Marks a revision as rolled back, with the reason; `None` removes the mark.
///
/// # Errors
/// Those of the store, except that it is missing.
pub(super) async fn mark_rolled_back(store: &dyn Store, name: &str, why: Option<&str>) -> homeostat_store::Result<()> {
    let change = Change::Merge(json!({ "metadata": { "annotations": { ROLLED_BACK: why } } }));
    let (key, precondition) = (Key::new(revisions(), "", name), Precondition::default());
    match store.write(Write::Patch { key, change, precondition }).await {
        Ok(_) | Err(homeostat_store::Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Stores the pinned keys in a revision.
///
/// # Errors
/// Those of the store.
pub(super) async fn pin_keys(store: &dyn Store, name: &str, chosen: &PinnedKeys) -> homeostat_store::Result<()> {
    let text = Some(chosen.text()).filter(|text| !text.is_empty());
    let change = Change::Merge(json!({ "spec": { "chosen": text } }));
    let (key, precondition) = (Key::new(revisions(), "", name), Precondition::default());
    store.write(Write::Patch { key, change, precondition }).await.map(drop)
}

/// Returns the name of a revision.
pub(super) fn name(controller: &str, number: u64) -> String {
    format!("{controller}-{number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(specs: &[(u64, &str)]) -> Vec<ControllerRevision> {
        let recorded = |(number, spec): &(u64, &str)| ControllerRevision {
            name: name("a", *number),
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
        assert_eq!(surplus(&some, 4, 10), ["a-1"], "the same stands at the top");
        assert_eq!(surplus(&some, 4, 1), ["a-1", "a-2"]);
        assert_eq!(surplus(&some, 4, 0), ["a-1", "a-2", "a-3"]);
        assert_eq!(surplus(&history(&[(1, "x")]), 1, 0), [""; 0]);
        assert_eq!(surplus(&history(&[(1, "x"), (2, "y")]), 1, 0), ["a-2"], "one that never ran does not stay");
    }
}
