//! Rolling a controller back to an older revision by hand.

use homeostat_store::{Precondition, Resource, Write};
use serde_json::{Value, json};

use super::history::{ControllerRevision, History};
use super::{desired, key};
use crate::rollout::{RolloutPhase, RolloutStatus};
use crate::{Error, Host};

/// The field manager of an undo, if no other manager applies the definition.
const MANAGER: &str = "homeostat-rollout";

/// The label with the field manager of resources that are applied repeatedly.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// The annotation of an undo, with the revision. A manager that applies the resource repeatedly does not set
/// it, so its next apply ends the undo.
pub const UNDONE_TO: &str = "homeostat.dev/undoneTo";

/// Writes the spec of an older revision into a controller. Returns its number.
///
/// # Errors
/// [`Error::UnknownController`], [`Error::NoRevision`], [`Error::Paused`], and those of a write.
pub(crate) async fn undo(host: &Host, name: &str, to: Option<u64>) -> Result<u64, Error> {
    let store = host.store();
    let resource = match store.get(&key(name)).await {
        Err(homeostat_store::Error::NotFound { .. }) => return Err(Error::UnknownController(name.to_owned())),
        found => found?,
    };
    let spec = &resource.document()["spec"];
    if spec["paused"] == true {
        return Err(Error::Paused(name.to_owned()));
    }
    let history = History::of(store, resource.clone()).read().await?;
    let current = resource.status()["revision"].as_u64();
    // Undoing an unfinished or rolled-back rollout means the stable revision.
    let to = to.or_else(|| {
        RolloutStatus::of(&resource).filter(|record| record.phase != RolloutPhase::Complete).map(|record| record.from)
    });
    let chosen = select_revision(&history, current.filter(|_| !is_refused(&resource)), to);
    let ControllerRevision { number, spec: older, .. } =
        chosen.ok_or_else(|| Error::NoRevision { controller: name.to_owned(), number: to })?;
    let next = desired::with_fields_of(older, &resource, &desired::FIELDS_NOT_IN_REVISIONS);
    host.write(request(&resource, next, *number)).await?;
    Ok(*number)
}

/// Returns whether the desired definition was refused. An undo then means the current version.
fn is_refused(resource: &Resource) -> bool {
    let mut conditions = resource.status()["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Loaded" && condition["reason"] == "Refused")
}

/// Returns the revision with the number `to`, or the newest one other than `current`.
fn select_revision(
    history: &[ControllerRevision],
    current: Option<u64>,
    to: Option<u64>,
) -> Option<&ControllerRevision> {
    match to {
        Some(number) => history.iter().find(|recorded| recorded.number == number),
        None => history.iter().rev().find(|recorded| Some(recorded.number) != current && !recorded.rolled_back),
    }
}

/// Returns the write that gives a controller the spec of this revision. If a manager applies the resource
/// repeatedly, the write is an apply in its name, so that fields missing in its next apply are removed.
fn request(resource: &Resource, spec: Value, number: u64) -> homeostat_store::Request {
    let mut document = resource.document().clone();
    document["spec"] = spec;
    let Some(manager) = resource.label(MANAGED_BY).filter(|manager| applies(resource, manager)) else {
        let precondition = Precondition { uid: Some(resource.uid().to_owned()), revision: Some(resource.revision()) };
        let write = Write::Update { document, precondition };
        return homeostat_store::Request { manager: MANAGER.to_owned(), ..write.into() };
    };
    let metadata = &document["metadata"];
    let mut annotations = metadata.get("annotations").cloned().unwrap_or_else(|| json!({}));
    annotations[UNDONE_TO] = number.to_string().into();
    let document = json!({
        "apiVersion": document["apiVersion"], "kind": document["kind"], "spec": document["spec"],
        "metadata": {
            "name": metadata["name"], "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"],
            "labels": metadata.get("labels").cloned().unwrap_or_else(|| json!({})),
            "annotations": annotations,
        },
    });
    Write::Apply { document, manager: manager.to_owned(), force: true }.into()
}

fn applies(resource: &Resource, manager: &str) -> bool {
    let managers = resource.document().pointer("/metadata/managedFields").and_then(Value::as_array);
    managers.into_iter().flatten().any(|entry| entry["manager"] == manager && entry["operation"] == "Apply")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_undo_without_a_number_means_the_previous_revision() {
        let recorded = |number: u64| ControllerRevision {
            number,
            spec: Value::Null,
            rolled_back: number == 5,
            pinned: Default::default(),
        };
        let history = [recorded(1), recorded(3), recorded(4), recorded(5)];
        let number = |current, to| select_revision(&history, current, to).map(|recorded| recorded.number);
        assert_eq!(number(Some(4), None), Some(3));
        assert_eq!(number(Some(3), None), Some(4), "an older one runs: the newest is another one");
        assert_eq!(number(None, None), Some(4), "what is wanted was refused: back to the newest that ran");
        assert_eq!(number(Some(4), Some(1)), Some(1));
        assert_eq!(number(Some(4), Some(5)), Some(5), "one that went back by itself is meant by its number alone");
        assert_eq!(number(Some(4), Some(2)), None);
        assert!(select_revision(&history[..1], Some(1), None).is_none());
    }
}
