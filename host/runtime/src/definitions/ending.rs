//! Deletes a kind and its resources when its definition is deleted.

use std::sync::Arc;

use homeostat_component::Severity;
use homeostat_store::{Error, EventType, Kind, Precondition, Propagation, Resource, Result, Revision, Write};
use serde_json::{Value, json};

use super::establish::{condition, set_finalizers};
use super::{CLEANUP, found};
use crate::KindInfo;
use crate::context::Context;
use crate::listing::for_each_listed;

/// Deletes the resources of a definition that is being deleted, and removes its finalizer once they are gone.
/// Returns `false` if some are left.
pub(super) async fn finalize(context: &Context, definition: &Resource) -> Result<bool> {
    say_terminating(context, definition).await?;
    let info = KindInfo::from_definition(definition.document()).ok().filter(|info| context.kinds.goes_with(info));
    if let Some(info) = &info
        && !remove_kind(context, definition, info).await?
    {
        return Ok(false);
    }
    while let Some(current) = found(context.store.get(definition.key()).await)? {
        let finalizers: Vec<&str> = current.finalizers().filter(|name| *name != CLEANUP).collect();
        let is_other = current.uid() != definition.uid() || finalizers.len() == current.finalizers().count();
        if is_other || set_finalizers(context, &current, &finalizers).await? {
            break;
        }
    }
    Ok(true)
}

/// Sets the condition `Terminating` of a definition.
async fn say_terminating(context: &Context, definition: &Resource) -> Result<()> {
    let mut status = definition.status().clone();
    let conditions = status.get("conditions").and_then(Value::as_array).into_iter().flatten();
    if conditions.clone().any(|condition| condition["type"] == "Terminating" && condition["status"] == "True") {
        return Ok(());
    }
    let others = conditions.filter(|condition| condition["type"] != "Terminating").cloned();
    let terminating =
        condition("Terminating", "InstanceDeletionInProgress", "the resources of the kind are being deleted");
    let conditions: Vec<Value> = others.chain([terminating]).collect();
    if !status.is_object() {
        status = json!({});
    }
    status["conditions"] = conditions.into();
    let precondition = Precondition { uid: Some(definition.uid().to_owned()), revision: None };
    let key = definition.key().clone();
    found(context.store.write(Write::UpdateStatus { key, status, precondition }).await).map(drop)
}

/// Deletes the resources of a kind. Returns the number that is left because of finalizers.
///
/// Resources in another store than the host's own stay: other hosts may use them, each with a definition of its
/// own.
async fn delete_resources(context: &Context, kind: &Kind) -> Result<usize> {
    if context.stores.is_far(kind) {
        return Ok(0);
    }
    let mut there = Vec::new();
    let about = |resource: &Arc<Resource>| {
        there.push((resource.key().clone(), resource.uid().to_owned(), resource.is_deleting()));
    };
    for_each_listed(&*context.store, kind, about).await?;
    let mut left = 0;
    for (key, uid, is_deleting) in there {
        if is_deleting {
            left += 1;
            continue;
        }
        let (precondition, propagation) = (Precondition { uid: Some(uid), revision: None }, Propagation::Background);
        match context.store.write(Write::Delete { key, precondition, propagation, grace_seconds: None }).await {
            Ok(written) => left += usize::from(written.change != Some(EventType::Deleted)),
            Err(Error::NotFound { .. } | Error::Conflict { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(left)
}

/// Removes a kind and its resources after its definition was deleted without the finalizer. Returns `false`
/// while resources wait for their own finalizers: the kind stays served, and nothing new of it can be created.
/// The definition did not exist at revision `seen`.
pub(super) async fn clean_up_deleted(context: &Context, definition: &Resource, seen: Revision) -> Result<bool> {
    let Ok(info) = KindInfo::from_definition(definition.document()) else { return Ok(true) };
    let info = info.said_at(seen);
    if context.kinds.goes_with(&info) {
        context.kinds.end(&info);
        remove_kind(context, definition, &info).await
    } else {
        context.kinds.remove_definition(&info);
        Ok(true)
    }
}

/// Deletes the resources of a kind that only a definition declares, and removes the kind once they are gone.
/// Returns `false` if some are left.
async fn remove_kind(context: &Context, definition: &Resource, info: &KindInfo) -> Result<bool> {
    if delete_resources(context, &info.kind).await? > 0 {
        return Ok(false);
    }
    context.kinds.remove_definition(info);
    // Resources created just before the removal.
    delete_resources(context, &info.kind).await?;
    let what = if context.stores.is_far(&info.kind) { "" } else { " and its resources" };
    let message = format!("the kind {}{what} was removed with its definition", info.kind);
    context.event(&"homeostat".into(), Some(definition.key().clone()), Severity::Normal, "KindRemoved", &message);
    Ok(true)
}
