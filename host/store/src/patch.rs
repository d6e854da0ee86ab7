//! Patches a document: JSON merge patch, strategic merge patch and JSON patch. Bounds the growth that a small
//! patch can cause.

mod strategic;
#[cfg(test)]
pub(crate) mod tests;

use json_patch::{AddOperation, CopyOperation, PatchErrorKind, PatchOperation, ReplaceOperation, jsonptr::PointerBuf};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::schema::Schema;
use crate::{DOCUMENT_BYTES_MAX, DOCUMENT_DEPTH_MAX, Error, Result, validate};

/// The most operations of a JSON patch.
pub const OPERATIONS_MAX: usize = 1000;

/// A patch of a document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// A JSON merge patch (RFC 7396).
    Merge(Value),
    /// A strategic merge patch of Kubernetes: lists whose items have a key are merged item by item.
    Strategic(Value),
    /// A JSON patch (RFC 6902): a list of operations, all or none. At most 1000.
    Json(Value),
}

impl Change {
    /// Returns the changed document. The change is applied as a whole or not at all.
    ///
    /// # Errors
    /// `Invalid` and `TooLarge`, for a change that does not fit.
    pub fn apply(&self, document: &Value) -> Result<Value> {
        change(document, self, None)
    }
}

/// Total bytes that the `copy` and `move` operations of one patch may carry: without a bound, thirty copies
/// make a gigabyte.
const CARRIED_BYTES_MAX: u64 = 4 * DOCUMENT_BYTES_MAX;

/// The reason why a JSON patch does not apply, one of whose tests fails.
pub(crate) const TEST_FAILED: &str = "the value is another one than the test wants";

/// Returns the patched document. A patch is applied as a whole or not at all.
pub(crate) fn change(document: &Value, change: &Change, schema: Option<&Schema>) -> Result<Value> {
    let mut changed = document.clone();
    match change {
        Change::Merge(patch) => {
            validate::size("patch", patch)?;
            // Each recurses once for each level: the check above bounds the nesting.
            if holds_null(patch) {
                json_patch::merge(&mut changed, &without_nulls_in_lists(patch, false));
            } else {
                json_patch::merge(&mut changed, patch);
            }
        }
        Change::Strategic(patch) => {
            validate::size("patch", patch)?;
            strategic::apply(&mut changed, patch, schema)?;
        }
        Change::Json(patch) => {
            validate::size("patch", patch)?;
            operations(&mut changed, patch)?;
        }
    }
    Ok(changed)
}

/// Returns whether a value is a null or has one.
pub(crate) fn holds_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(holds_null),
        Value::Object(fields) => fields.values().any(holds_null),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Returns a merge patch as an API server reads it: an object in a list has no nulls either.
fn without_nulls_in_lists(value: &Value, is_in_list: bool) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(_, field)| !is_in_list || !field.is_null());
            fields.map(|(name, field)| (name.clone(), without_nulls_in_lists(field, is_in_list))).collect()
        }
        Value::Array(items) => items.iter().map(|item| without_nulls_in_lists(item, true)).collect(),
        scalar => scalar.clone(),
    }
}

fn operations(document: &mut Value, patch: &Value) -> Result<()> {
    let patch = with_values(patch);
    let operations = Vec::<PatchOperation>::deserialize(&patch)
        .map_err(|error| Error::invalid("patch", format!("is not a JSON patch: {error}")))?;
    if operations.len() > OPERATIONS_MAX {
        let reason = format!("has {} operations, the limit is {OPERATIONS_MAX}", operations.len());
        return Err(Error::invalid("patch", reason));
    }
    let mut carried_bytes = 0;
    for (at, operation) in operations.iter().enumerate() {
        let path = format!("patch[{at}]");
        check_bounds(document, operation, &path, &mut carried_bytes)?;
        let operation = as_kubernetes_does(document, operation.clone());
        json_patch::patch_unsafe(document, std::slice::from_ref(&operation)).map_err(|error| match error.kind {
            PatchErrorKind::TestFailed => Error::invalid(path, TEST_FAILED),
            kind => Error::invalid(path, format!("does not fit: {kind}")),
        })?;
    }
    Ok(())
}

/// Returns a JSON patch as an API server reads it: an operation without its value has a null.
fn with_values(patch: &Value) -> Value {
    let mut patch = patch.clone();
    let operations = patch.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut);
    for operation in operations {
        let has_value =
            operation.get("op").is_some_and(|name| ["add", "replace", "test"].iter().any(|known| name == known));
        if has_value && !operation.contains_key("value") {
            operation.insert("value".to_owned(), Value::Null);
        }
        for name in ["from", "path"] {
            // What is before the first slash does not count.
            if let Some(Value::String(path)) = operation.get_mut(name)
                && let Some(at) = path.find('/')
            {
                path.drain(..at);
            }
        }
    }
    patch
}

/// Returns an operation as an API server performs it: `replace` also adds a missing field to an object, and `copy` copies a
/// missing one as a null.
fn as_kubernetes_does(document: &Value, operation: PatchOperation) -> PatchOperation {
    let is_missing = |path: &PointerBuf| {
        document.pointer(path.as_str()).is_none()
            && path.parent().is_some_and(|parent| document.pointer(parent.as_str()).is_some_and(Value::is_object))
    };
    match operation {
        PatchOperation::Replace(ReplaceOperation { path, value }) if is_missing(&path) => {
            PatchOperation::Add(AddOperation { path, value })
        }
        PatchOperation::Copy(CopyOperation { from, path }) if is_missing(&from) => {
            PatchOperation::Add(AddOperation { path, value: Value::Null })
        }
        other => other,
    }
}

/// Refuses an operation that would nest the document too deeply, or carry too much.
fn check_bounds(document: &Value, operation: &PatchOperation, path: &str, carried_bytes: &mut u64) -> Result<()> {
    let deep = || Error::invalid(path, format!("nests too deeply, the limit is {DOCUMENT_DEPTH_MAX} levels"));
    let room = |at: &PointerBuf| DOCUMENT_DEPTH_MAX.checked_sub(at.count()).ok_or_else(deep);
    let (from, to) = match operation {
        PatchOperation::Add(add) => return validate::depth(&add.value, room(&add.path)?).map(drop).ok_or_else(deep),
        PatchOperation::Replace(replace) => {
            return validate::depth(&replace.value, room(&replace.path)?).map(drop).ok_or_else(deep);
        }
        PatchOperation::Move(carry) => (&carry.from, &carry.path),
        PatchOperation::Copy(carry) => (&carry.from, &carry.path),
        PatchOperation::Remove(_) | PatchOperation::Test(_) => return Ok(()),
    };
    let Some(source) = document.pointer(from.as_str()) else {
        return Ok(()); // The operation itself fails, and says so.
    };
    validate::depth(source, room(to)?).ok_or_else(deep)?;
    *carried_bytes += validate::bytes(source);
    if *carried_bytes > CARRIED_BYTES_MAX {
        let (bytes, bytes_max) = (*carried_bytes, CARRIED_BYTES_MAX);
        return Err(Error::TooLarge { what: "the data that the patch copies and moves".to_owned(), bytes, bytes_max });
    }
    Ok(())
}
