//! The status and the finalizer of a definition.

use homeostat_store::{Change, Error, Precondition, Resource, Result, Write};
use serde_json::{Value, json};

use super::CLEANUP;
use crate::clock::now;
use crate::conditions::{dated, holds, known};
use crate::context::Context;
use crate::definition_rules::{APPROVED, approval_condition};

/// Sets the condition `Established` of a definition, which clients wait for. Does nothing if it is up to
/// date. Unless all resources `are_migrated`, the versions that the status names may still be stored.
pub(super) async fn establish(context: &Context, definition: &Resource, are_migrated: bool) -> Result<()> {
    let is_established = holds(definition.status(), "Established");
    let document = definition.document();
    let mut names = document.pointer("/spec/names").cloned().unwrap_or_default();
    if names["listKind"].is_null() {
        names["listKind"] = format!("{}List", names["kind"].as_str().unwrap_or_default()).into();
    }
    let versions = document.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
    let mut stored: Vec<Value> =
        versions.filter(|version| version["storage"] == true).map(|version| version["name"].clone()).collect();
    if !are_migrated {
        let before = definition.status().get("storedVersions").and_then(Value::as_array).into_iter().flatten();
        let older: Vec<Value> = before.filter(|name| !stored.contains(name)).cloned().collect();
        stored = [older, stored].concat();
    }
    let stored = Value::Array(stored);
    let has_cleanup = definition.finalizers().any(|name| name == CLEANUP);
    let status = definition.status();
    let approval = approval_condition(document).map(|condition| dated(status, condition, &now()));
    let is_up_to_date = status["acceptedNames"] == names
        && status["storedVersions"] == stored
        && approval.as_ref() == known(status, APPROVED);
    if has_cleanup && is_established && is_up_to_date {
        return Ok(());
    }
    if !has_cleanup {
        let finalizers: Vec<&str> = definition.finalizers().chain([CLEANUP]).collect();
        // The watch reports this change, and the definition is established then.
        return set_finalizers(context, definition, &finalizers).await.map(drop);
    }
    let mut conditions = vec![
        condition("NamesAccepted", "NoConflicts", "no other kind has these names"),
        condition("Established", "InitialNamesAccepted", "the kind is served"),
    ];
    conditions.extend(approval);
    let status = json!({ "acceptedNames": names, "storedVersions": stored, "conditions": conditions });
    let precondition = Precondition { uid: Some(definition.uid().to_owned()), revision: Some(definition.revision()) };
    let write = Write::UpdateStatus { key: definition.key().clone(), status, precondition };
    match context.store.write(write).await {
        // The watch reports the concurrent change.
        Ok(_) | Err(Error::NotFound { .. } | Error::Conflict { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

pub(super) fn condition(name: &str, reason: &str, message: &str) -> Value {
    json!({ "type": name, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now() })
}

/// Sets the finalizers of a definition. Returns `false` if it was changed concurrently.
pub(super) async fn set_finalizers(context: &Context, definition: &Resource, names: &[&str]) -> Result<bool> {
    let precondition = Precondition { uid: Some(definition.uid().to_owned()), revision: Some(definition.revision()) };
    let change = Change::Merge(json!({ "metadata": { "finalizers": names } }));
    match context.store.write(Write::Patch { key: definition.key().clone(), change, precondition }).await {
        Ok(_) => Ok(true),
        Err(Error::NotFound { .. } | Error::Conflict { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
