//! The mutations of admission policies: a draft is patched, and gets its defaults again.
//!
//! Source: `pkg/admission/plugin/policy/mutating/patch` of `k8s.io/apiserver`, with its messages.

use serde_json::Value;

use super::admit;
use super::{Validation, object_meta};
use crate::patch::TEST_FAILED;
use crate::schema::{Schema, Schemas};
use crate::{Change, Error, Kind, Subresource, numbers, ownership, validate};

/// A mutation that a policy decided.
#[derive(Debug, Clone, PartialEq)]
pub enum Mutation {
    /// The operations of a JSON patch. One whose test fails changes nothing.
    JsonPatch(Value),
    /// The fields of an apply configuration.
    ApplyConfiguration(Value),
}

/// Why a mutation does not apply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MutationError {
    /// The patch does not fit the document.
    #[error("{0}")]
    Unfit(String),
    /// The patched document is none of its kind.
    #[error("{0}")]
    Undecodable(String),
}

/// Returns a document after a mutation, with its defaults. `old` is the document before the write, `None` for a creation;
/// `part` is the subresource that is written, `None` for the resource itself.
///
/// # Errors
/// `Undecodable` when a JSON patch leaves an unknown field of a built-in kind, or a value of another type than the kind has;
/// `Unfit` otherwise.
pub fn mutated(
    schemas: &Schemas,
    kind: &Kind,
    document: &Value,
    old: Option<&Value>,
    part: Option<Subresource>,
    mutation: &Mutation,
) -> Result<Value, MutationError> {
    let schema = schemas.of(kind).schema;
    let schema = schema.as_deref();
    let mut changed = match mutation {
        Mutation::JsonPatch(operations) => match Change::Json(operations.clone()).apply(document) {
            Ok(changed) => changed,
            Err(Error::Invalid { reason, .. }) if reason == TEST_FAILED => return Ok(document.clone()),
            Err(error) => return Err(MutationError::Unfit(format!("JSON Patch: {error}"))),
        },
        Mutation::ApplyConfiguration(configuration) => {
            applied(document, configuration, schema).map_err(|reason| unapplied(&reason))?
        }
    };
    if !changed.is_object() {
        return Err(MutationError::Undecodable("the document is not an object".to_owned()));
    }
    // The next mutation begins with it, so that without this bound many of them could nest it without end.
    validate::size("document", &changed).map_err(|error| MutationError::Unfit(error.to_string()))?;
    numbers::normalize(&mut changed);
    if let Some(schema) = schema.filter(|schema| schema.is_typed()) {
        if let Err(error) = schema.check_types(kind, &changed) {
            // Only a JSON patch is decoded as a document of its kind.
            let is_patch = matches!(mutation, Mutation::JsonPatch(_));
            let reason = format!("failed to convert patch object to typed object: {error}");
            return Err(if is_patch { MutationError::Undecodable(error.to_string()) } else { unapplied(&reason) });
        }
        if let Some(path) = unknown(&changed, schema).first() {
            return Err(MutationError::Undecodable(format!("strict decoding error: unknown field \"{path}\"")));
        }
    }
    defaulted(schemas, kind, changed, old, part).map_err(|error| MutationError::Undecodable(error.to_string()))
}

/// Returns a changed document with the defaults of its schema. The arguments are those of [`mutated`].
///
/// # Errors
/// `TooLarge` when the defaults are too large.
pub fn defaulted(
    schemas: &Schemas,
    kind: &Kind,
    mut document: Value,
    old: Option<&Value>,
    part: Option<Subresource>,
) -> crate::Result<Value> {
    let schema = schemas.of(kind).schema;
    if document.is_object() {
        admit::admit(schema.as_deref(), &mut document, part, old, Validation::Deferred)?;
    }
    Ok(document)
}

fn unapplied(reason: &str) -> MutationError {
    MutationError::Unfit(format!("error applying patch: {reason}"))
}

/// Returns a document with the fields of a configuration.
///
/// # Errors
/// The reason, as the end of a sentence.
fn applied(document: &Value, configuration: &Value, schema: Option<&Schema>) -> Result<Value, String> {
    if !configuration.is_object() {
        return Err("the expression returned a list".to_owned());
    }
    validate::size("patch", configuration).map_err(|error| error.to_string())?;
    let mut configuration = configuration.clone();
    for field in ["apiVersion", "kind"] {
        configuration[field] = document[field].clone();
    }
    if let Some(schema) = schema {
        let undeclared = unknown(&configuration, schema);
        let mut reasons: Vec<String> =
            undeclared.iter().map(|path| format!(".{path}: field not declared in schema")).collect();
        reasons.extend(schema.first_mistyped(&configuration));
        let reason = match &*reasons {
            [] => None,
            [reason] => Some(reason.clone()),
            reasons => Some(format!("errors:\n  {}", reasons.join("\n  "))),
        };
        if let Some(reason) = reason {
            return Err(format!("failed to convert patch object to typed object: {reason}"));
        }
    }
    let atomic = ownership::atomic_paths(&configuration, schema);
    if !atomic.is_empty() {
        let paths = atomic.join(", ");
        return Err(format!("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {paths}"));
    }
    ownership::merged(document, &configuration, schema).map_err(|error| format!("failed to merge patch: {error}"))
}

/// Returns the paths of the unknown fields of a document.
fn unknown(document: &Value, schema: &Schema) -> Vec<String> {
    let mut found = object_meta::unknown(document);
    found.extend(schema.prune(&mut document.clone()));
    found
}

#[cfg(test)]
mod tests;
