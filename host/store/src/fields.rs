//! Typed access to the fields of an object; every error names the path of the field.
//!
//! A `null` field counts as absent.

use serde_json::{Map, Number, Value};

use crate::path::Path;
use crate::{Error, Result};

/// An object and its path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FieldReader<'a> {
    map: &'a Map<String, Value>,
    path: Path<'a>,
}

impl<'a> FieldReader<'a> {
    /// Returns the fields of a value.
    ///
    /// # Errors
    /// `Invalid` for a value that is not an object.
    pub(crate) fn of(value: &'a Value, path: Path<'a>) -> Result<Self> {
        match value {
            Value::Object(map) => Ok(Self { map, path }),
            _ => Err(Error::invalid(path.to_string(), "must be an object")),
        }
    }

    /// Returns the path of the object.
    pub(crate) fn path(&self) -> &Path<'a> {
        &self.path
    }

    /// Returns an error for a field.
    pub(crate) fn error(&self, name: &str, reason: impl Into<String>) -> Error {
        Error::invalid(self.path.field(name).to_string(), reason)
    }

    /// Returns a field; `None` when it is absent or null.
    pub(crate) fn get(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    /// Returns a boolean field; false when it is absent.
    pub(crate) fn flag(&self, name: &str) -> Result<bool> {
        match self.get(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(self.error(name, "must be true or false")),
        }
    }

    /// Returns a string field.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&'a str>> {
        self.get(name).map(|value| value.as_str().ok_or_else(|| self.error(name, "must be a string"))).transpose()
    }

    /// Returns a string field that must not be empty.
    pub(crate) fn required_text(&self, name: &str) -> Result<&'a str> {
        let text = self.text(name)?.filter(|text| !text.is_empty());
        text.ok_or_else(|| self.error(name, "must not be empty"))
    }

    /// Returns a number field.
    pub(crate) fn number(&self, name: &str) -> Result<Option<&'a Number>> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Number(number)) => Ok(Some(number)),
            Some(_) => Err(self.error(name, "must be a number")),
        }
    }

    /// Returns a field with a non-negative integer.
    pub(crate) fn count(&self, name: &str) -> Result<Option<u64>> {
        let whole = |value: &Value| value.as_u64().ok_or_else(|| self.error(name, "must be a whole number from 0"));
        self.get(name).map(whole).transpose()
    }

    /// Returns a list field; empty when it is absent.
    pub(crate) fn list(&self, name: &str) -> Result<&'a [Value]> {
        match self.get(name) {
            None => Ok(&[]),
            Some(Value::Array(items)) => Ok(items),
            Some(_) => Err(self.error(name, "must be a list")),
        }
    }

    /// Returns a field with a list of strings; empty when it is absent.
    pub(crate) fn texts(&self, name: &str) -> Result<Vec<String>> {
        let wrong = |at| Error::invalid(self.path.field(name).item(at).to_string(), "must be a string");
        let text = |(at, item): (usize, &Value)| item.as_str().map(str::to_owned).ok_or_else(|| wrong(at));
        self.list(name)?.iter().enumerate().map(text).collect()
    }

    /// Returns an object field.
    pub(crate) fn object<'b>(&'b self, name: &'b str) -> Result<Option<FieldReader<'b>>> {
        self.get(name).map(|value| FieldReader::of(value, self.path.field(name))).transpose()
    }

    /// Returns an object field that must be present.
    pub(crate) fn required_object<'b>(&'b self, name: &'b str) -> Result<FieldReader<'b>> {
        self.object(name)?.ok_or_else(|| self.error(name, "must be an object"))
    }

    /// Returns the entries of an object field; none when it is absent.
    pub(crate) fn entries(&self, name: &str) -> Result<impl Iterator<Item = (&'a String, &'a Value)> + use<'a>> {
        match self.get(name) {
            None => Ok(None.into_iter().flatten()),
            Some(Value::Object(map)) => Ok(Some(map).into_iter().flatten()),
            Some(_) => Err(self.error(name, "must be an object")),
        }
    }
}
