//! Server-side apply: sets the fields that a document names, as their owner.

use std::sync::Arc;

use serde_json::Value;

use super::admit;
use super::{
    Decision, WriteContext, check_identity, check_precondition, fields, metadata, metadata_precondition,
    normalize_metadata, prune, store, strip_host_owned,
};
use crate::ownership::{ServerSideApply, Writer, last_applied};
use crate::schema::Schema;
use crate::{Error, Resource, Result, validate};

/// Prepares a document for apply.
pub(super) fn applicable(mut document: Value, schema: Option<&Schema>) -> Result<Value> {
    validate::size("document", &document)?;
    if schema.is_some_and(Schema::is_typed) {
        leave_out_nulls(&mut document["metadata"]);
    } else {
        leave_out_nulls(&mut document);
    }
    // The types of a built-in kind are checked after the merge.
    let schema = schema.filter(|schema| !schema.is_typed());
    if let Some(reason) = schema.and_then(|schema| schema.first_mistyped(&document)) {
        return Err(Error::Mistyped { reason });
    }
    Ok(document)
}

/// Applies a document, except its status.
pub(super) fn resource(
    current: &Arc<Resource>,
    document: &Value,
    force: bool,
    writer: Writer<'_>,
    context: &WriteContext,
) -> Result<Decision> {
    check_identity(current, document)?;
    check_precondition(current, &metadata_precondition(current, document)?)?;
    let mut applied = document.clone();
    strip_host_owned(&mut applied);
    prune(writer.schema, &mut applied);
    let application = ServerSideApply::new(current.document(), &applied, writer)?;
    let mut merged = application.merged();
    normalize_metadata(metadata(&mut merged));
    validate::size("document", &merged)?;
    application.update_owners(&mut merged, current.key(), force)?;
    last_applied::renew(writer.manager, &mut merged, document);
    if let Some(schema) = writer.schema {
        schema.check_types(current.key().kind(), &merged)?;
    }
    if let Err(error) = validate::document(&merged) {
        return Err(admit::with_violations(writer.schema, merged, Some(current.document()), error));
    }
    admit::admit_change(&mut merged, current.document(), context)?;
    store(current, merged, context.subresource, context)
}

/// Applies a status. The manager does not become the owner of any other field in the document.
pub(super) fn status(
    current: &Arc<Resource>,
    document: &Value,
    force: bool,
    writer: Writer<'_>,
    context: &WriteContext,
) -> Result<Decision> {
    check_identity(current, document)?;
    check_precondition(current, &metadata_precondition(current, document)?)?;
    let mut applied = document.clone();
    fields(&mut applied).retain(|name, _| matches!(name.as_str(), "apiVersion" | "kind" | "metadata" | "status"));
    let written = writer.schema.map_or(&[][..], Schema::status_metadata);
    let is_written = |name: &str| matches!(name, "name" | "namespace") || written.contains(&name);
    metadata(&mut applied).retain(|name, _| is_written(name));
    prune(writer.schema, &mut applied);
    let application = ServerSideApply::new(current.document(), &applied, writer)?;
    let mut merged = application.merged();
    normalize_metadata(metadata(&mut merged));
    application.update_owners(&mut merged, current.key(), force)?;
    validate::document(&merged)?;
    if merged.get("status") != current.document().get("status") {
        admit::admit(writer.schema, &mut merged, writer.subresource, Some(current.document()), context.validation)?;
    }
    store(current, merged, writer.subresource, context)
}

/// Drops object fields that are `null`: generated manifests contain them, and their author does not mean to
/// set them. A `null` in a built-in kind empties its field.
fn leave_out_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(leave_out_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(leave_out_nulls),
        _ => {}
    }
}
