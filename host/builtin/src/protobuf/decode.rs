//! Protobuf to JSON.

use jiff::Timestamp;
use serde_json::{Map, Number, Value};

use super::wire::{WireReader, WireValue};
use super::{Error, MAGIC, kind_of, malformed, message_of};
use crate::message::{FieldType, Message, MessageField, SCHEMA, SchemaAlternative, find};

/// Bytes of names and texts in one document. A small message can have a large JSON form.
const TEXT_BYTES_MAX: usize = 8 << 20;
/// Bytes that each value counts for, beside its text.
const VALUE_BYTES: usize = 16;
/// Messages inside of messages.
const DEPTH_MAX: usize = 64;

/// Decodes an envelope with its document.
pub(super) fn envelope(body: &[u8]) -> Result<Value, Error> {
    Decoder { left_bytes: TEXT_BYTES_MAX }.envelope(body, DEPTH_MAX)
}

struct Decoder {
    left_bytes: usize,
}

impl Decoder {
    fn envelope(&mut self, body: &[u8], depth: usize) -> Result<Value, Error> {
        let body = body.strip_prefix(MAGIC).ok_or_else(|| malformed("it does not begin with k8s and a zero byte"))?;
        let (mut api_version, mut name, mut raw) = ("", "", &[][..]);
        let mut reader = WireReader(body);
        while let Some(field) = reader.next()? {
            match field.number {
                1 => {
                    let mut reader = WireReader(field.value.bytes()?);
                    while let Some(field) = reader.next()? {
                        match field.number {
                            1 => api_version = field.value.text()?,
                            2 => name = field.value.text()?,
                            _ => {}
                        }
                    }
                }
                2 => raw = field.value.bytes()?,
                3 if !field.value.bytes()?.is_empty() => return Err(malformed("its content has an encoding")),
                _ => {}
            }
        }
        let message = message_of(&kind_of(api_version, name))?;
        let mut document = Map::new();
        document.insert("apiVersion".to_owned(), api_version.into());
        document.insert("kind".to_owned(), name.into());
        self.fields(&message, raw, &mut document, depth)?;
        Ok(Value::Object(document))
    }

    /// Counts the text of a value.
    fn count(&mut self, bytes: usize) -> Result<(), Error> {
        let left = self.left_bytes.checked_sub(bytes + VALUE_BYTES);
        self.left_bytes =
            left.ok_or_else(|| malformed(format!("its document has more than {TEXT_BYTES_MAX} bytes")))?;
        Ok(())
    }

    /// Adds the fields of a message to an object.
    fn fields(
        &mut self,
        message: &Message,
        bytes: &[u8],
        object: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), Error> {
        let depth = depth.checked_sub(1).ok_or_else(|| malformed("its messages are nested too deeply"))?;
        let mut reader = WireReader(bytes);
        while let Some(field) = reader.next()? {
            if let Some(known) = message.field(field.number) {
                self.count(known.name.len())?;
                self.field(known, field.value, object, depth)?;
            } else if let Some((_, name)) = message.inlined.iter().find(|(number, _)| *number == field.number) {
                let inlined = find(name).ok_or_else(|| malformed("a message is not known"))?;
                self.fields(&inlined, field.value.bytes()?, object, depth)?;
            }
        }
        Ok(())
    }

    fn field(
        &mut self,
        field: &MessageField,
        value: WireValue<'_>,
        object: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), Error> {
        match &field.value {
            FieldType::List(item) => {
                let items = object.entry(field.name.clone()).or_insert_with(|| Value::Array(Vec::new()));
                let items = items.as_array_mut().expect("a list is inserted as a list");
                if let (FieldType::Integer(_), WireValue::Bytes(packed)) = (&**item, value) {
                    let mut reader = WireReader(packed);
                    while !reader.0.is_empty() {
                        self.count(0)?;
                        items.push(integer(reader.varint()?));
                    }
                    return Ok(());
                }
                let item = self.value(item, value, depth)?;
                items.push(item);
            }
            FieldType::Map(entry) => {
                let (name, value) = self.entry(entry, value, depth)?;
                let entries = object.entry(field.name.clone()).or_insert_with(|| Value::Object(Map::new()));
                entries.as_object_mut().expect("a map is inserted as an object").insert(name, value);
            }
            plain => {
                let value = self.value(plain, value, depth)?;
                if value.is_null() || (field.omit_empty && is_zero(&value)) {
                    object.remove(&field.name);
                } else {
                    object.insert(field.name.clone(), value);
                }
            }
        }
        Ok(())
    }

    /// Decodes an entry of a map from texts.
    fn entry(&mut self, of: &FieldType, value: WireValue<'_>, depth: usize) -> Result<(String, Value), Error> {
        let mut reader = WireReader(value.bytes()?);
        let (mut name, mut content) = (String::new(), None);
        while let Some(field) = reader.next()? {
            match field.number {
                1 => name = field.value.text()?.to_owned(),
                2 => content = Some(field.value),
                _ => {}
            }
        }
        self.count(name.len())?;
        let content = match (of, content) {
            // A list as the value of a map is a message with the items as its first field.
            (FieldType::List(item), content) => {
                let mut items = Vec::new();
                let mut reader = WireReader(content.map_or(Ok(&[][..]), WireValue::bytes)?);
                while let Some(field) = reader.next()? {
                    items.push(self.value(item, field.value, depth)?);
                }
                Value::Array(items)
            }
            (of, Some(content)) => self.value(of, content, depth)?,
            (FieldType::Text | FieldType::Bytes, None) => "".into(),
            (FieldType::Quantity, None) => "0".into(),
            (FieldType::Boolean, None) => false.into(),
            (FieldType::Integer(_), None) => 0.into(),
            (_, None) => Value::Object(Map::new()),
        };
        Ok((name, content))
    }

    fn value(&mut self, of: &FieldType, value: WireValue<'_>, depth: usize) -> Result<Value, Error> {
        if let WireValue::Bytes(bytes) = value {
            self.count(bytes.len())?;
        }
        Ok(match of {
            FieldType::Boolean => (value.varint()? != 0).into(),
            FieldType::Integer(_) => integer(value.varint()?),
            FieldType::Double => match value {
                WireValue::Fixed64(bits) => double(f64::from_bits(bits)),
                _ => return Err(malformed("a double has the wrong wire type")),
            },
            FieldType::Text => value.text()?.into(),
            FieldType::Bytes => base64(value.bytes()?).into(),
            FieldType::Time => time(value.bytes()?, 0)?,
            FieldType::MicroTime => time(value.bytes()?, 6)?,
            FieldType::Quantity => first_text(value.bytes()?)?.into(),
            FieldType::IntegerOrText => integer_or_text(value.bytes()?)?,
            FieldType::Raw => self.raw(value.bytes()?, depth)?,
            FieldType::SchemaOr(alternative) => self.schema_or(*alternative, value.bytes()?, depth)?,
            FieldType::Message(name) => {
                let message = find(name).ok_or_else(|| malformed("a message is not known"))?;
                let mut object = Map::new();
                self.fields(&message, value.bytes()?, &mut object, depth)?;
                Value::Object(object)
            }
            FieldType::List(_) | FieldType::Map(_) => return Err(malformed("a list is inside of a list")),
        })
    }

    /// Decodes a schema or its alternative. A client writes `false` as a message without fields.
    fn schema_or(&mut self, alternative: SchemaAlternative, bytes: &[u8], depth: usize) -> Result<Value, Error> {
        let (schema, other) = alternative.numbers();
        let of_other = alternative.field_type();
        let mut items = Vec::new();
        let mut decoded = None;
        let mut reader = WireReader(bytes);
        while let Some(field) = reader.next()? {
            match &of_other {
                _ if field.number == schema => {
                    decoded = Some(self.value(&FieldType::Message(SCHEMA.to_owned()), field.value, depth)?);
                }
                FieldType::List(item) if field.number == other => items.push(self.value(item, field.value, depth)?),
                plain if field.number == other && decoded.is_none() => {
                    decoded = Some(self.value(plain, field.value, depth)?);
                }
                _ => {}
            }
        }
        let otherwise = || if matches!(of_other, FieldType::Boolean) { false.into() } else { Value::Array(items) };
        Ok(decoded.unwrap_or_else(otherwise))
    }

    /// Decodes a value that is contained as its own text, or as another envelope.
    fn raw(&mut self, bytes: &[u8], depth: usize) -> Result<Value, Error> {
        let mut reader = WireReader(bytes);
        let mut raw = &[][..];
        while let Some(field) = reader.next()? {
            if field.number == 1 {
                raw = field.value.bytes()?;
            }
        }
        if raw.is_empty() {
            return Ok(Value::Null);
        }
        if raw.starts_with(MAGIC) {
            let depth = depth.checked_sub(1).ok_or_else(|| malformed("its messages are nested too deeply"))?;
            return self.envelope(raw, depth);
        }
        serde_json::from_slice(raw).map_err(|error| malformed(format!("a raw value is no JSON: {error}")))
    }
}

/// Returns a double as Go writes it: without a point, if it is whole.
fn double(number: f64) -> Value {
    /// Whole numbers below it have a double of their own.
    const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() < WHOLE_MAX {
        #[expect(clippy::cast_possible_truncation, reason = "it is whole, and below 2^53")]
        return (number as i64).into();
    }
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}

fn integer(number: u64) -> Value {
    number.cast_signed().into()
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// Returns the text of the first field.
fn first_text(bytes: &[u8]) -> Result<String, Error> {
    let mut reader = WireReader(bytes);
    let mut text = "";
    while let Some(field) = reader.next()? {
        if field.number == 1 {
            text = field.value.text()?;
        }
    }
    Ok(text.to_owned())
}

fn integer_or_text(bytes: &[u8]) -> Result<Value, Error> {
    let (mut is_text, mut number, mut text) = (false, 0, "");
    let mut reader = WireReader(bytes);
    while let Some(field) = reader.next()? {
        match field.number {
            1 => is_text = field.value.varint()? == 1,
            2 => number = field.value.varint()?,
            3 => text = field.value.text()?,
            _ => {}
        }
    }
    Ok(if is_text { text.into() } else { integer(number) })
}

/// Decodes a time; null for the zero time of Go, which has no fields.
fn time(bytes: &[u8], digits: u8) -> Result<Value, Error> {
    let (mut seconds, mut nanos, mut is_set) = (0_i64, 0_i32, false);
    let mut reader = WireReader(bytes);
    while let Some(field) = reader.next()? {
        is_set = true;
        match field.number {
            1 => seconds = field.value.varint()?.cast_signed(),
            2 => nanos = i32::try_from(field.value.varint()?.cast_signed()).unwrap_or(0),
            _ => {}
        }
    }
    if !is_set {
        return Ok(Value::Null);
    }
    let nanos = if digits == 0 { 0 } else { nanos };
    let moment = Timestamp::new(seconds, nanos).map_err(|_| malformed("a time is out of range"))?;
    let printer = jiff::fmt::temporal::DateTimePrinter::new().precision(Some(digits));
    Ok(printer.timestamp_to_string(&moment).into())
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
