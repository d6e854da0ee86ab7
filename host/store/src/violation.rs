//! What is wrong with one field of a document, in the words that people know from Kubernetes.

use std::fmt;

use serde_json::Value;

use crate::path::shortened;

/// How many violations of one document are told.
pub const VIOLATIONS_MAX: usize = 20;

/// Characters of a value that are shown.
const VALUE_CHARS_MAX: usize = 100;

/// One field that is not as it should be. Shows as `spec.replicas: Invalid value: -1: …`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Where the field stands, as `spec.ports[0].name`.
    pub path: String,
    /// What is wrong with it.
    pub reason: Reason,
    /// The value and what it should be; may be empty.
    pub detail: String,
}

/// What can be wrong with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It is missing.
    Required,
    /// It is of another type.
    TypeInvalid,
    /// It is not within its bounds.
    Invalid,
    /// It is none of the values that there are.
    Unsupported,
    /// It is there twice.
    Duplicate,
    /// Its text is too long.
    TooLong,
    /// It has too many items.
    TooMany,
}

impl Reason {
    /// Returns what a `Status` of Kubernetes calls it in its causes, as `FieldValueRequired`.
    pub fn cause(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::Invalid => "FieldValueInvalid",
            Self::Unsupported => "FieldValueNotSupported",
            Self::Duplicate => "FieldValueDuplicate",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Required => "Required value",
            Self::TypeInvalid | Self::Invalid => "Invalid value",
            Self::Unsupported => "Unsupported value",
            Self::Duplicate => "Duplicate value",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
        })
    }
}

impl Violation {
    /// Returns what is wrong without saying where, as `Invalid value: -1: …`.
    pub fn message(&self) -> String {
        if self.detail.is_empty() { self.reason.to_string() } else { format!("{}: {}", self.reason, self.detail) }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message())
    }
}

/// Returns a value as a person gets to see it: objects and lists by their type alone, texts cut.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::Object(_) | Value::Array(_) => format!("{:?}", type_name(value)),
        Value::String(text) => Value::from(shortened(text, VALUE_CHARS_MAX)).to_string(),
        other => other.to_string(),
    }
}

/// Returns what JSON calls the type of a value.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
