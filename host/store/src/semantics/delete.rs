//! Deletion: immediate, or a mark while there are finalizers.

use std::sync::Arc;

use serde_json::json;

use super::{Decision, WriteContext, build_resource_of_any_size, generation_rule, metadata, set, timestamp};
use crate::model::holds_content;
use crate::schema::Generation;
use crate::{FINALIZER_FOREGROUND, FINALIZER_ORPHAN, Propagation, Resource, Result, ownership};

/// Decides a deletion whose preconditions hold.
///
/// A finalizer records the propagation policy, as in Kubernetes. It replaces existing finalizers of that
/// kind, also when the resource is being deleted already. The beginning of a deletion is a new generation.
pub(super) fn decide(current: &Arc<Resource>, propagation: Propagation, context: &WriteContext) -> Result<Decision> {
    let wanted = match propagation {
        Propagation::Background => None,
        Propagation::Foreground => Some(FINALIZER_FOREGROUND),
        Propagation::Orphan => Some(FINALIZER_ORPHAN),
    };
    let others = current.finalizers().filter(|name| ![FINALIZER_FOREGROUND, FINALIZER_ORPHAN].contains(name));
    let finalizers: Vec<&str> = others.chain(wanted).collect();
    let is_same =
        current.finalizers().count() == finalizers.len() && current.finalizers().all(|name| finalizers.contains(&name));
    if current.is_deleting() && is_same {
        return Ok(Decision::Unchanged(Arc::clone(current)));
    }

    let mut document = current.document().clone();
    let metadata = metadata(&mut document);
    set(metadata, "resourceVersion", Some(json!(context.revision.to_string())));
    if finalizers.is_empty() && !holds_content(current.document()) {
        return build_resource_of_any_size(&document, Some(current)).map(Decision::Remove);
    }
    set(metadata, "finalizers", Some(json!(finalizers)).filter(|_| !finalizers.is_empty()));
    if !current.is_deleting() {
        set(metadata, "deletionTimestamp", Some(json!(timestamp(context.now))));
        // Nothing runs here that needs time for its end.
        set(metadata, "deletionGracePeriodSeconds", Some(json!(0)));
        let counts = generation_rule(context) != Generation::Nothing && current.generation() > 0;
        set(metadata, "generation", counts.then(|| json!(current.generation() + 1)));
    }
    if holds_content(&document) {
        // A namespace says in its answer already that it ends.
        document["status"]["phase"] = "Terminating".into();
    }
    ownership::release(current.document(), &mut document, context.version.schema.as_deref())?;
    // Not bounded by the document size: the deletion mark may make it longer.
    build_resource_of_any_size(&document, Some(current)).map(Decision::Put)
}
