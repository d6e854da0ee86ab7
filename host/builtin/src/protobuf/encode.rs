//! JSON to protobuf.

use base64::Engine;
use homeostat_store::Kind;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::wire::{put_bytes, put_double, put_length, put_number};
use super::{ENVELOPE_END, Error, MAGIC, kind_of, malformed, message_of};
use crate::message::{FieldType, Message, SCHEMA, SchemaAlternative, find};

/// Encodes a document or a list with its envelope.
pub(super) fn envelope(document: &Value) -> Result<Vec<u8>, Error> {
    let text = |name: &str| document.get(name).and_then(Value::as_str).unwrap_or_default();
    let (api_version, name) = (text("apiVersion"), text("kind"));
    let object = document.as_object().ok_or_else(|| malformed("a document is no object"))?;
    let mut raw = Vec::new();
    let mut out = match message_of(&kind_of(api_version, name)) {
        Ok(message) => {
            fields(&message, object, &mut raw)?;
            envelope_head(api_version, name, raw.len())
        }
        Err(unknown) => {
            let Some(item) = name.strip_suffix("List") else { return Err(unknown) };
            let kind = kind_of(api_version, item);
            for document in object.get("items").and_then(Value::as_array).into_iter().flatten() {
                append_item(&kind, document, &mut raw)?;
            }
            list_head(&kind, object.get("metadata").unwrap_or(&Value::Null), raw.len())?
        }
    };
    out.append(&mut raw);
    out.extend(ENVELOPE_END);
    Ok(out)
}

/// Returns what stands before a message of a size.
fn envelope_head(api_version: &str, name: &str, bytes: usize) -> Vec<u8> {
    let mut type_meta = Vec::new();
    put_bytes(&mut type_meta, 1, api_version.as_bytes());
    put_bytes(&mut type_meta, 2, name.as_bytes());
    let mut out = MAGIC.to_vec();
    put_bytes(&mut out, 1, &type_meta);
    put_length(&mut out, 2, bytes);
    out
}

/// Returns what stands before the items of a list, which have so many bytes.
pub(super) fn list_head(kind: &Kind, metadata: &Value, items_bytes: usize) -> Result<Vec<u8>, Error> {
    let mut encoded = Vec::new();
    if let Value::Object(object) = metadata {
        let message = find("io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta");
        fields(&*message.ok_or_else(|| malformed("the metadata of lists is not known"))?, object, &mut encoded)?;
    }
    let mut metadata = Vec::new();
    put_bytes(&mut metadata, 1, &encoded);
    let mut out = envelope_head(&kind.api_version(), &format!("{}List", kind.name), metadata.len() + items_bytes);
    out.append(&mut metadata);
    Ok(out)
}

/// Appends an item of a list, without its kind.
pub(super) fn append_item(kind: &Kind, document: &Value, out: &mut Vec<u8>) -> Result<(), Error> {
    let object = document.as_object().ok_or_else(|| malformed("an item is no object"))?;
    let mut encoded = Vec::new();
    fields(&*message_of(kind)?, object, &mut encoded)?;
    put_bytes(out, 2, &encoded);
    Ok(())
}

/// Encodes an event of a watch, with its length.
pub(super) fn event(name: &str, document: &Value) -> Result<Vec<u8>, Error> {
    let mut raw = Vec::new();
    put_bytes(&mut raw, 1, &envelope(document)?);
    let mut event = Vec::new();
    put_bytes(&mut event, 1, name.as_bytes());
    put_bytes(&mut event, 2, &raw);
    let length = u32::try_from(event.len()).map_err(|_| malformed("an event has more than 4 GiB"))?;
    let mut out = length.to_be_bytes().to_vec();
    out.append(&mut event);
    Ok(out)
}

/// Appends the fields of an object. Fields that the message does not have are left out.
fn fields(message: &Message, object: &Map<String, Value>, out: &mut Vec<u8>) -> Result<(), Error> {
    for (number, name) in &message.inlined {
        let inlined = find(name).ok_or_else(|| malformed("a message is not known"))?;
        let mut encoded = Vec::new();
        fields(&inlined, object, &mut encoded)?;
        put_bytes(out, *number, &encoded);
    }
    for field in &message.fields {
        let Some(value) = object.get(&field.name).filter(|value| !value.is_null()) else { continue };
        let wrong = |error| match error {
            Error::Malformed(reason) => malformed(format!("{}: {reason}", field.name)),
            other => other,
        };
        put(field.number, &field.value, value, out).map_err(wrong)?;
    }
    Ok(())
}

/// Appends a field.
fn put(number: u32, of: &FieldType, value: &Value, out: &mut Vec<u8>) -> Result<(), Error> {
    match of {
        FieldType::Boolean => put_number(out, number, value.as_bool().ok_or_else(|| wrong("boolean"))?.into()),
        FieldType::Integer(_) => put_number(out, number, whole(value)?.cast_unsigned()),
        FieldType::Double => put_double(out, number, value.as_f64().ok_or_else(|| wrong("number"))?),
        FieldType::Text => put_bytes(out, number, text(value)?.as_bytes()),
        FieldType::Bytes => {
            let bytes = base64::engine::general_purpose::STANDARD.decode(text(value)?);
            put_bytes(out, number, &bytes.map_err(|_| malformed("is no base64"))?);
        }
        FieldType::Time | FieldType::MicroTime => put_bytes(out, number, &time(text(value)?)?),
        FieldType::Quantity => {
            let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let mut message = Vec::new();
            put_bytes(&mut message, 1, shown.as_bytes());
            put_bytes(out, number, &message);
        }
        FieldType::IntegerOrText => {
            let mut message = Vec::new();
            match value.as_str() {
                Some(text) => {
                    put_number(&mut message, 1, 1);
                    put_number(&mut message, 2, 0);
                    put_bytes(&mut message, 3, text.as_bytes());
                }
                None => {
                    put_number(&mut message, 1, 0);
                    put_number(&mut message, 2, whole(value)?.cast_unsigned());
                    put_bytes(&mut message, 3, &[]);
                }
            }
            put_bytes(out, number, &message);
        }
        FieldType::Raw => {
            let mut message = Vec::new();
            put_bytes(&mut message, 1, value.to_string().as_bytes());
            put_bytes(out, number, &message);
        }
        FieldType::SchemaOr(alternative) => {
            let (schema, other) = alternative.numbers();
            let mut message = Vec::new();
            if value.is_object() {
                // Beside a schema, Go says that it allows something.
                if matches!(alternative, SchemaAlternative::Boolean) {
                    put_number(&mut message, other, 1);
                }
                put(schema, &FieldType::Message(SCHEMA.to_owned()), value, &mut message)?;
            } else {
                put(other, &alternative.field_type(), value, &mut message)?;
            }
            put_bytes(out, number, &message);
        }
        FieldType::Message(name) => {
            let message = find(name).ok_or_else(|| malformed("a message is not known"))?;
            let mut encoded = Vec::new();
            fields(&message, value.as_object().ok_or_else(|| wrong("object"))?, &mut encoded)?;
            put_bytes(out, number, &encoded);
        }
        FieldType::List(item) => {
            for value in value.as_array().ok_or_else(|| wrong("list"))? {
                put(number, item, value, out)?;
            }
        }
        FieldType::Map(entry) => {
            for (name, value) in value.as_object().ok_or_else(|| wrong("object"))? {
                let mut encoded = Vec::new();
                put_bytes(&mut encoded, 1, name.as_bytes());
                if let FieldType::List(item) = &**entry {
                    let mut items = Vec::new();
                    // A null is empty.
                    if !value.is_null() {
                        put(1, &FieldType::List(Box::new(plain(item)?)), value, &mut items)?;
                    }
                    put_bytes(&mut encoded, 2, &items);
                } else if !value.is_null() {
                    put(2, entry, value, &mut encoded)?;
                }
                put_bytes(out, number, &encoded);
            }
        }
    }
    Ok(())
}

/// Returns the type of the items of a list in a map: only texts are there.
fn plain(item: &FieldType) -> Result<FieldType, Error> {
    if matches!(item, FieldType::Text) { Ok(FieldType::Text) } else { Err(malformed("is a map of lists")) }
}

fn wrong(wanted: &str) -> Error {
    malformed(format!("is no {wanted}"))
}

fn text(value: &Value) -> Result<&str, Error> {
    value.as_str().ok_or_else(|| wrong("text"))
}

fn whole(value: &Value) -> Result<i64, Error> {
    value.as_i64().ok_or_else(|| wrong("integer"))
}

fn time(text: &str) -> Result<Vec<u8>, Error> {
    let moment: Timestamp = text.parse().map_err(|_| wrong("time"))?;
    let mut message = Vec::new();
    put_number(&mut message, 1, moment.as_second().cast_unsigned());
    put_number(&mut message, 2, i64::from(moment.subsec_nanosecond()).cast_unsigned());
    Ok(message)
}
