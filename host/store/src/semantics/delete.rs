//! Deletion: a resource is removed, or it is marked while finalizers, content or its grace period hold it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::admit::what;
use super::{Decision, WriteContext, build_resource_of_any_size, generation_rule, metadata, set, timestamp};
use crate::model::{self, grace_seconds, holds_content, is_held, is_namespace};
use crate::schema::{Generation, Reason, Schema, Violation};
use crate::{Error, FINALIZER_FOREGROUND, FINALIZER_ORPHAN, Propagation, Resource, Result, ownership};

/// The finalizer in the spec of a namespace whose content the host deletes. Source: Kubernetes.
const FINALIZER_CONTENT: &str = "kubernetes";

/// The options of a deletion.
pub(super) struct Deletion {
    pub(super) propagation: Propagation,
    /// The time that the client gives the resource for its end.
    pub(super) grace_seconds: Option<u32>,
}

/// Decides a deletion whose preconditions hold.
///
/// A finalizer records the propagation policy, as in Kubernetes. It replaces existing finalizers of that
/// kind, also when the resource is being deleted already. The beginning of a deletion is a new generation.
pub(super) fn decide(current: &Arc<Resource>, deletion: Deletion, context: &WriteContext) -> Result<Decision> {
    let finalizers = finalizers(current, deletion.propagation);
    if current.is_deleting() && grace_seconds(current.document()) > 0 {
        return shorten(current, deletion, finalizers, context);
    }
    let is_same =
        current.finalizers().count() == finalizers.len() && current.finalizers().all(|name| finalizers.contains(&name));
    if current.is_deleting() && is_same {
        return Ok(Decision::Unchanged(Arc::clone(current)));
    }

    let schema = context.version.schema.as_deref();
    let grace = schema.and_then(|schema| schema.grace_seconds(current.document(), deletion.grace_seconds));
    let mut document = current.document().clone();
    set_finalizers(&mut document, &finalizers);
    if !current.is_deleting() && schema.is_some_and(Schema::is_typed) && is_namespace(&document) {
        // A namespace ends after its content, also if clients have removed its finalizers.
        hold_content(&mut document);
    }
    // A resource that nothing holds is gone without a mark, unless its kind has a grace period.
    if !current.is_deleting() && (is_held(&document) || grace.is_some()) {
        let seconds = grace.unwrap_or_default();
        let due = context.now.checked_add(Duration::from_secs(seconds.into())).unwrap_or(context.now);
        mark(&mut document, due, seconds);
        let counts = generation_rule(context) != Generation::Nothing && current.generation() > 0;
        set(metadata(&mut document), "generation", counts.then(|| json!(current.generation() + 1)));
    }
    if holds_content(&document) {
        // A namespace says in its answer already that it ends.
        document["status"]["phase"] = "Terminating".into();
    }
    mark_or_remove(current, document, context)
}

/// Returns the finalizers of a resource that is deleted with a policy.
fn finalizers(current: &Resource, propagation: Propagation) -> Vec<&str> {
    let wanted = match propagation {
        Propagation::Background => None,
        Propagation::Foreground => Some(FINALIZER_FOREGROUND),
        Propagation::Orphan => Some(FINALIZER_ORPHAN),
    };
    let others = current.finalizers().filter(|name| ![FINALIZER_FOREGROUND, FINALIZER_ORPHAN].contains(name));
    others.chain(wanted).collect()
}

/// Shortens the time of a resource that is being deleted. A deletion with a longer time changes nothing.
fn shorten(
    current: &Arc<Resource>,
    deletion: Deletion,
    finalizers: Vec<&str>,
    context: &WriteContext,
) -> Result<Decision> {
    let before = grace_seconds(current.document());
    let Some(asked) = deletion.grace_seconds.filter(|asked| *asked < before) else {
        return Ok(Decision::Unchanged(Arc::clone(current)));
    };
    let due = current.document()["metadata"]["deletionTimestamp"].as_str().and_then(|due| due.parse().ok());
    let due = due.map_or(context.now, |due: jiff::Timestamp| SystemTime::from(due));
    let due = due.checked_sub(Duration::from_secs((before - asked).into())).unwrap_or(context.now);
    // Once the time is over, the node still has to see the change, so the least time is not zero.
    let (due, asked) = if due < context.now { (context.now, asked.min(1)) } else { (due, asked) };
    let mut document = current.document().clone();
    // The node that ends a pod names no policy, and keeps the one with which the deletion began.
    if deletion.propagation != Propagation::Background {
        set_finalizers(&mut document, &finalizers);
    }
    mark(&mut document, due, asked);
    mark_or_remove(current, document, context)
}

/// Adds the host's own finalizer to a namespace.
fn hold_content(namespace: &mut Value) {
    let finalizers = &mut namespace["spec"]["finalizers"];
    match finalizers.as_array_mut() {
        Some(names) if names.contains(&json!(FINALIZER_CONTENT)) => {}
        Some(names) => names.push(FINALIZER_CONTENT.into()),
        None => *finalizers = json!([FINALIZER_CONTENT]),
    }
}

fn set_finalizers(document: &mut Value, finalizers: &[&str]) {
    set(metadata(document), "finalizers", Some(json!(finalizers)).filter(|_| !finalizers.is_empty()));
}

/// Marks a document as being deleted, with so many seconds for its end, which is due then.
fn mark(document: &mut Value, due: SystemTime, seconds: u32) {
    let metadata = metadata(document);
    set(metadata, "deletionTimestamp", Some(json!(timestamp(due))));
    set(metadata, "deletionGracePeriodSeconds", Some(json!(seconds)));
}

/// Stores a marked document, or removes a resource that nothing holds.
fn mark_or_remove(current: &Arc<Resource>, mut document: Value, context: &WriteContext) -> Result<Decision> {
    set(metadata(&mut document), "resourceVersion", Some(json!(context.revision.to_string())));
    let is_held = is_held(&document);
    if is_held {
        ownership::release(current.document(), &mut document, context.version.schema.as_deref())?;
    }
    // Not bounded by the document size: the deletion mark may make it longer.
    let resource = build_resource_of_any_size(&document, Some(current))?;
    Ok(if is_held { Decision::Put(resource) } else { Decision::Remove(resource) })
}

/// Checks that the new document of a resource that is being deleted has no new finalizers.
///
/// # Errors
/// `InvalidFields`, in the words of Kubernetes.
pub(super) fn check_finalizers(document: &Value, current: &Resource) -> Result<()> {
    let new: Vec<&str> =
        model::finalizers(document).filter(|new| current.finalizers().all(|old| old != *new)).collect();
    if new.is_empty() {
        return Ok(());
    }
    // The list as Go prints it.
    let list = new.iter().map(|new| format!("{new:?}")).collect::<Vec<_>>().join(", ");
    let words = "no new finalizers can be added if the object is being deleted, found new finalizers";
    let (path, detail) = ("metadata.finalizers".to_owned(), format!("{words} []string{{{list}}}"));
    Err(Error::invalid_fields(what(document), vec![Violation { path, reason: Reason::Forbidden, detail }]))
}
