//! The values of patches as JSON.
//!
//! Source: `pkg/cel/mutation` of `k8s.io/apiserver`, and the JSON of cel-go's values.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map as JsonMap, Number, Value as Json};

use crate::error::EvaluationError;
use crate::messages::{JSON_PATCH, OBJECT};
use crate::objects::time::duration_text;
use crate::value::{Message, Value};

/// Largest patch: the bytes of its texts, and those below for each value.
const PATCH_BYTES_MAX: usize = 4 << 20;

/// The bytes of a value, beside those of its texts: about what it takes in memory.
const VALUE_BYTES: usize = 32;

/// The further bytes of a list, a map or a message.
const CONTAINER_BYTES: usize = 128;

/// The largest integer that every reader of JSON takes. A larger one is a text in an operation of a JSON patch.
const EXACT_MAX: u64 = (1 << 53) - 1;

/// Returns the patch that an expression made.
pub(crate) fn patch(value: &Value<'_>) -> Result<Json, EvaluationError> {
    let mut writer = Writer { left: PATCH_BYTES_MAX };
    match value {
        Value::Message(message) if &*message.name == OBJECT => writer.value(value, Some(OBJECT)),
        Value::List(list) => list.iter().map(|operation| writer.operation(&operation)).collect(),
        _ => Err(EvaluationError::NoSuchOverload),
    }
}

/// A conversion in progress.
struct Writer {
    /// The bytes that it may still write.
    left: usize,
}

impl Writer {
    fn take(&mut self, bytes: usize) -> Result<(), EvaluationError> {
        let left = self.left.checked_sub(bytes);
        let too_large = || EvaluationError::NoPatch(format!("a patch would be larger than {PATCH_BYTES_MAX} bytes"));
        self.left = left.ok_or_else(too_large)?;
        Ok(())
    }

    /// Writes an operation of a JSON patch.
    fn operation(&mut self, value: &Value<'_>) -> Result<Json, EvaluationError> {
        let Value::Message(operation) = value else { return Err(EvaluationError::NoSuchOverload) };
        if &*operation.name != JSON_PATCH {
            return Err(EvaluationError::NoSuchOverload);
        }
        let mut fields = JsonMap::new();
        for (name, value) in &operation.fields {
            let path = match value {
                Value::Message(message) => Some(&*message.name),
                _ => None,
            };
            fields.insert(name.to_string(), self.value(value, path)?);
        }
        Ok(Json::Object(fields))
    }

    /// Writes a message, whose name has to be its path in the resource. Of a message in the value of an operation, the path
    /// is not known.
    fn message(&mut self, message: &Message<'_>, path: Option<&str>) -> Result<Json, EvaluationError> {
        let found = &*message.name;
        if let Some(path) = path.filter(|path| *path != found) {
            return Err(EvaluationError::NoPatch(format!(
                "type mismatch: unexpected type name {found:?}, expected {path:?}, which matches field name path from root \
                 Object type"
            )));
        }
        let mut fields = JsonMap::new();
        for (name, value) in &message.fields {
            self.take(name.len())?;
            let path = path.map(|path| format!("{path}.{name}"));
            fields.insert(name.to_string(), self.value(value, path.as_deref())?);
        }
        Ok(Json::Object(fields))
    }

    /// Writes a value. Lists and maps have no name, so that their items are at the same path.
    fn value(&mut self, value: &Value<'_>, path: Option<&str>) -> Result<Json, EvaluationError> {
        self.take(VALUE_BYTES)?;
        if matches!(value, Value::List(_) | Value::Map(_) | Value::Message(_)) {
            self.take(CONTAINER_BYTES)?;
        }
        let text = match value {
            Value::Null => return Ok(Json::Null),
            Value::Bool(value) => return Ok(Json::Bool(*value)),
            Value::Int(number) if path.is_some() || number.unsigned_abs() <= EXACT_MAX => return Ok((*number).into()),
            Value::Int(number) => number.to_string(),
            Value::Uint(number) if path.is_some() || *number <= EXACT_MAX => return Ok((*number).into()),
            Value::Uint(number) => number.to_string(),
            Value::Double(number) => {
                let number = Number::from_f64(*number);
                let invalid = || EvaluationError::NoPatch("a number is not finite, which JSON cannot have".to_owned());
                return number.map(Json::Number).ok_or_else(invalid);
            }
            Value::List(list) => return list.iter().map(|item| self.value(&item, path)).collect(),
            Value::Map(map) => {
                let mut fields = JsonMap::new();
                for (key, value) in map.entries() {
                    let invalid =
                        || EvaluationError::NoPatch(format!("a key is of the type {}, not of string", key.type_name()));
                    let key = key.as_text().ok_or_else(invalid)?;
                    self.take(key.len())?;
                    fields.insert(key.to_owned(), self.value(&value, path)?);
                }
                return Ok(Json::Object(fields));
            }
            Value::Message(message) => return self.message(message, path),
            Value::Optional(Some(content)) => return self.value(content, path),
            Value::Optional(None) => return Ok(Json::Null),
            Value::Text(text) => text.to_string(),
            Value::Bytes(bytes) => STANDARD.encode(&**bytes),
            Value::Duration(duration) => duration_text(*duration),
            Value::Timestamp(moment) => moment.to_string(),
            other => {
                let reason = format!("a value of the type {} has no JSON", other.type_name());
                return Err(EvaluationError::NoPatch(reason));
            }
        };
        self.take(text.len())?;
        Ok(Json::String(text))
    }
}
