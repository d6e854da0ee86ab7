//! A violation of a schema, worded as in Kubernetes.

use std::fmt;

use serde_json::Value;

use crate::path::shortened;

/// Violations reported per document.
pub const VIOLATIONS_MAX: usize = 20;

/// Displayed characters of a value.
pub(crate) const VALUE_CHARS_MAX: usize = 1024;

/// An invalid field. Displays as `spec.replicas: Invalid value: -1: …`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The path of the field, as `spec.ports[0].name`.
    pub path: String,
    /// The reason.
    pub reason: Reason,
    /// The value and its constraint; may be empty.
    pub detail: String,
}

/// Why a field is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It is missing.
    Required,
    /// It has the wrong type.
    TypeInvalid,
    /// It violates a constraint.
    Invalid,
    /// It is not one of the supported values.
    Unsupported,
    /// It is a duplicate.
    Duplicate,
    /// Its text is too long.
    TooLong,
    /// It has too many items.
    TooMany,
    /// It must not be set or changed.
    Forbidden,
    /// It names something that does not exist.
    NotFound,
    /// It could not be checked.
    Internal,
}

impl Reason {
    /// Returns its name in the causes of a Kubernetes `Status`, as `FieldValueRequired`.
    pub fn cause(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::Invalid => "FieldValueInvalid",
            Self::Unsupported => "FieldValueNotSupported",
            Self::Duplicate => "FieldValueDuplicate",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::Forbidden => "FieldValueForbidden",
            Self::Internal => "InternalError",
            Self::NotFound => "FieldValueNotFound",
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
            Self::Forbidden => "Forbidden",
            Self::NotFound => "Not found",
            Self::Internal => "Internal error",
        })
    }
}

impl Violation {
    /// Returns the message without the path, as `Invalid value: -1: …`.
    pub fn message(&self) -> String {
        if self.detail.is_empty() { self.reason.to_string() } else { format!("{}: {}", self.reason, self.detail) }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message())
    }
}

/// Returns a value for display: only the type of objects and lists, and truncated strings.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::Object(_) | Value::Array(_) => format!("{:?}", type_name(value)),
        Value::String(text) => Value::from(shortened(text, VALUE_CHARS_MAX)).to_string(),
        other => other.to_string(),
    }
}

/// Returns the JSON type of a value.
pub fn type_name(value: &Value) -> &'static str {
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
