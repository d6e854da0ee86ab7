//! Admission: applies the schema of a kind to a written document.

use std::sync::Arc;

use serde_json::Value;

use super::{Validation, WriteContext, fields, set, specification};
use crate::path::Path;
use crate::schema::{Reason, Schema, Schemas, VIOLATIONS_MAX, Violation};
use crate::{Error, Kind, Result, Subresource, validate};

/// Prunes, defaults and, unless that is deferred, validates a part of a document, which is an object: its status, or all but its
/// status. Without a schema the document stays unchanged. The rules in CEL see the whole document.
///
/// `metadata` and the other part stay unchanged, except that a new resource of a built-in kind gets its first status. A status
/// that a new resource may have is admitted with it.
/// `old` is the document before the write, `None` for one that is created.
///
/// # Errors
/// `InvalidFields`; `TooLarge` when the defaults are too large.
pub(super) fn admit(
    schema: Option<&Schema>,
    document: &mut Value,
    part: Option<Subresource>,
    old: Option<&Value>,
    validation: Validation,
) -> Result<()> {
    let Some(schema) = schema else { return Ok(()) };
    let status = fields(document).remove("status");
    let (mut violations, status) = match part {
        Some(Subresource::Status) => admit_status(schema, status, old.map(|old| &old["status"]))?,
        None | Some(_) => {
            let mut violations = schema.admit(document, &Path::ROOT, true, old, part)?;
            // This write cannot set a status, so a required status does not apply.
            violations.retain(|violation| !(violation.path == "status" && violation.reason == Reason::Required));
            let by_default = fields(document).remove("status");
            if old.is_some() {
                (violations, status)
            } else {
                let (found, written) = admit_status(schema, status, None)?;
                violations.extend(found);
                (violations, written.or(schema.first_status(document)?).or(by_default))
            }
        }
    };
    set(fields(document), "status", status);
    let before = match (part, old) {
        (Some(Subresource::Status), Some(old)) => Some(old),
        (None, None) if schema.keeps_new_status() => Some(&Value::Null),
        _ => None,
    };
    if let Some(before) = before {
        violations.extend(schema.admit_status_rules(document, before));
        violations.truncate(VIOLATIONS_MAX);
    }
    if validation == Validation::Deferred {
        return Ok(());
    }
    if validation == Validation::Complete && schema.has_rules() {
        if violations.iter().any(|violation| blocks_rules(violation.reason)) {
            violations.push(unchecked_rules());
        } else {
            violations.extend(schema.check_rules(document, old));
        }
        violations.truncate(VIOLATIONS_MAX);
    }
    if violations.is_empty() {
        return Ok(());
    }
    Err(Error::invalid_fields(what(document), violations))
}

/// Admits the change of a document, except its status. Without a change outside of metadata, only the defaults of a
/// built-in kind and the rules in CEL apply. So a document which its schema would refuse now can still get labels and lose
/// finalizers, unless a rule that compares it with its former state refuses that it stays the same. One that is being
/// deleted can always end.
///
/// # Errors
/// As [`admit`].
pub(super) fn admit_change(document: &mut Value, old: &Value, context: &WriteContext) -> Result<()> {
    let schema = context.version.schema.as_deref();
    let is_respecified = specification(document).ne(specification(old));
    if !is_respecified && !schema.is_some_and(Schema::is_typed) {
        return check_transition(schema, document, old, context.validation);
    }
    match admit(schema, document, context.subresource, Some(old), context.validation) {
        Err(Error::InvalidFields { violations, .. })
            if !is_respecified && !violations.iter().any(|found| found.path.starts_with("metadata.")) =>
        {
            Ok(())
        }
        admitted => admitted,
    }
}

/// Checks the rules of a document of which only the metadata changes.
fn check_transition(schema: Option<&Schema>, document: &Value, old: &Value, validation: Validation) -> Result<()> {
    // A change of the version alone is that of a migration, which no rule holds up.
    let is_free = old["metadata"].get("deletionTimestamp").is_some() || document["metadata"] == old["metadata"];
    let schema = schema.filter(|schema| schema.has_rules() && validation == Validation::Complete && !is_free);
    let mut violations = schema.map_or_else(Vec::new, |schema| schema.check_rules(document, Some(old)));
    violations.truncate(VIOLATIONS_MAX);
    if violations.is_empty() { Ok(()) } else { Err(Error::invalid_fields(what(document), violations)) }
}

/// Returns the schema of the kind that a document names; `None` if it has none.
pub(super) fn schema_of(schemas: &Schemas, document: &Value) -> Option<Arc<Schema>> {
    let text = |name: &str| document.get(name).and_then(Value::as_str);
    let kind = Kind::parse(text("apiVersion")?, text("kind")?).ok()?;
    schemas.of(&kind).schema
}

/// Returns an error of the metadata of a document, with the violations of the rest of the document.
/// `old` is the document before the write, `None` for one that is created.
pub(super) fn with_violations(
    schema: Option<&Schema>,
    mut document: Value,
    old: Option<&Value>,
    error: Error,
) -> Error {
    let Some(schema) = schema else { return error };
    let Error::Invalid { path, reason } = error else { return error };
    let mut violations = vec![violation(path, &reason)];
    violations.extend(other_violations(&document, &violations[0]));
    if violations[0].path == "metadata.generateName" {
        // The name would have the same fault.
        let detail = violations[0].detail.clone();
        violations.push(Violation { path: "metadata.name".to_owned(), reason: Reason::Invalid, detail });
    }
    if validate::size("document", &document).is_ok()
        && document.get("metadata").is_some_and(Value::is_object)
        && let Err(Error::InvalidFields { violations: others, .. }) =
            admit(Some(schema), &mut document, None, old, Validation::WithoutRules)
    {
        if old.is_none() && !schema.check_allocation(&document).is_empty() {
            violations.clear();
        }
        violations.extend(others);
    }
    if schema.has_rules() && violations.iter().any(|violation| blocks_rules(violation.reason)) {
        violations.push(unchecked_rules());
    }
    violations.truncate(VIOLATIONS_MAX);
    Error::invalid_fields(what(&document), violations)
}

/// Returns an error of the metadata of a document as a violation.
fn violation(path: String, reason: &str) -> Violation {
    let (reason, detail) = match reason.starts_with("must not be empty") {
        true if path == "metadata.name" => (Reason::Required, "name or generateName is required"),
        true => (Reason::Required, ""),
        false => (Reason::Invalid, reason.strip_prefix("Invalid value: ").unwrap_or(reason)),
    };
    // Kubernetes names the labels, and not the one that is wrong.
    let path = if path.starts_with("metadata.labels[") { "metadata.labels".to_owned() } else { path };
    Violation { path, reason, detail: detail.to_owned() }
}

/// Returns the faults of the metadata of a document besides a known one.
fn other_violations(document: &Value, known: &Violation) -> Vec<Violation> {
    let Some(metadata) = document.get("metadata").and_then(Value::as_object) else { return Vec::new() };
    let faults = validate::metadata_faults(metadata).into_iter();
    let violations = faults.filter_map(|fault| match fault {
        Error::Invalid { path, reason } => Some(violation(path, &reason)),
        _ => None,
    });
    violations.filter(|found| found != known).collect()
}

/// Returns whether a violation keeps the rules in CEL from being evaluated: they rely on the shape of the document.
/// Source: Kubernetes.
fn blocks_rules(reason: Reason) -> bool {
    matches!(reason, Reason::Unsupported | Reason::Required | Reason::TooLong | Reason::TooMany | Reason::TypeInvalid)
}

/// Says that rules were not evaluated, in the words of Kubernetes.
fn unchecked_rules() -> Violation {
    let detail = "null: some validation rules were not checked because the object was invalid; correct the existing \
                  errors to complete validation";
    Violation { path: "<nil>".to_owned(), reason: Reason::Invalid, detail: detail.to_owned() }
}

/// Admits a status; drops one that the schema does not know. `old` is the status before the write, `None` for a new resource.
fn admit_status(
    schema: &Schema,
    status: Option<Value>,
    old: Option<&Value>,
) -> Result<(Vec<Violation>, Option<Value>)> {
    let Some(mut status) = status else { return Ok((Vec::new(), None)) };
    let replicas = schema.check_status_replicas(&status);
    match schema.field("status") {
        Some(schema) => {
            let mut violations = schema.admit(&mut status, &Path::ROOT.field("status"), false, old, None)?;
            violations.extend(replicas);
            Ok((violations, Some(status)))
        }
        None => Ok((Vec::from_iter(replicas), Some(status).filter(|_| schema.keeps_unknown()))),
    }
}

/// Names a resource for a person, as `Widget.demo.dev "a"`.
pub(super) fn what(document: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let kind = text(&document["kind"]);
    let name = text(&document["metadata"]["name"]);
    match text(&document["apiVersion"]).split_once('/') {
        Some((group, _)) => format!("{kind}.{group} {name:?}"),
        None => format!("{kind} {name:?}"),
    }
}
