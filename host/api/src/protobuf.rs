//! Parses a Namespace and `DeleteOptions` from protobuf, the encoding in which clients send built-in kinds.
//! Pure.
//!
//! Namespace is the only such kind that can be written here; `DeleteOptions` come with resources of any kind.
//! A field that is not parsed must be empty, so no data of a client is silently dropped.
//!
//! Source: the field numbers of `generated.proto` of `runtime`, `meta/v1` and `core/v1` in Kubernetes.

use serde_json::{Map, Value, json};

/// The prefix of every body.
const MAGIC: &[u8] = b"k8s\0";

/// Parses a body: the envelope `runtime.Unknown` with a Namespace in it.
///
/// # Errors
/// The reason, for people.
pub(crate) fn namespace(body: &[u8]) -> Result<Value, String> {
    let (mut document, raw) = envelope(body)?;
    document["metadata"] = json!({});
    for field in fields(raw)? {
        match field {
            Field { number: 1, content: Content::Bytes(bytes) } => document["metadata"] = metadata(bytes)?,
            Field { number: 2, content: Content::Bytes(bytes) } => all_empty(bytes, "spec")?,
            Field { number: 3, content: Content::Bytes(bytes) } => all_empty(bytes, "status")?,
            other => empty(&other, "the namespace")?,
        }
    }
    Ok(document)
}

/// Parses a body: the envelope `runtime.Unknown` with `meta/v1` DeleteOptions in it. Returns the options as
/// JSON.
///
/// # Errors
/// The reason, for people.
pub(crate) fn delete_options(body: &[u8]) -> Result<Value, String> {
    let (mut options, raw) = envelope(body)?;
    let mut dry_run = Vec::new();
    for field in fields(raw)? {
        match field {
            // `gracePeriodSeconds`, for pods. The server runs none, so it is ignored.
            Field { number: 1, content: Content::Number(_) } => {}
            Field { number: 2, content: Content::Bytes(bytes) } => options["preconditions"] = preconditions(bytes)?,
            Field { number: 3, content: Content::Number(yes) } => options["orphanDependents"] = (yes != 0).into(),
            Field { number: 4, .. } => options["propagationPolicy"] = text(&field)?.into(),
            Field { number: 5, .. } => dry_run.push(text(&field)?),
            other => empty(&other, "the options")?,
        }
    }
    options["dryRun"] = dry_run.into();
    Ok(options)
}

fn preconditions(bytes: &[u8]) -> Result<Value, String> {
    let mut preconditions = json!({});
    for field in fields(bytes)? {
        match field.number {
            1 => preconditions["uid"] = text(&field)?.into(),
            2 => preconditions["resourceVersion"] = text(&field)?.into(),
            _ => empty(&field, "the preconditions")?,
        }
    }
    Ok(preconditions)
}

/// Unwraps the envelope: returns a document with only `apiVersion` and `kind`, and the message inside.
fn envelope(body: &[u8]) -> Result<(Value, &[u8]), String> {
    let envelope = body.strip_prefix(MAGIC).ok_or("it does not begin with k8s and a zero byte")?;
    let (mut document, mut raw) = (json!({}), &[][..]);
    for field in fields(envelope)? {
        match field {
            Field { number: 1, content: Content::Bytes(kind) } => {
                for field in fields(kind)? {
                    let name = if field.number == 1 { "apiVersion" } else { "kind" };
                    document[name] = text(&field)?.into();
                }
            }
            Field { number: 2, content: Content::Bytes(bytes) } => raw = bytes,
            other => empty(&other, "the envelope")?,
        }
    }
    Ok((document, raw))
}

fn metadata(bytes: &[u8]) -> Result<Value, String> {
    let (mut metadata, mut labels, mut annotations) = (Map::new(), Map::new(), Map::new());
    for field in fields(bytes)? {
        match field.number {
            1 => drop(metadata.insert("name".to_owned(), text(&field)?.into())),
            2 => drop(metadata.insert("generateName".to_owned(), text(&field)?.into())),
            11 => labels.extend([entry(&field)?]),
            12 => annotations.extend([entry(&field)?]),
            _ => empty(&field, "metadata")?,
        }
    }
    metadata.extend([("labels".to_owned(), labels.into()), ("annotations".to_owned(), annotations.into())]);
    Ok(metadata.into())
}

/// Parses one entry of a map from strings to strings.
fn entry(field: &Field<'_>) -> Result<(String, Value), String> {
    let Content::Bytes(bytes) = field.content else { return Err("an entry of a map is a number".to_owned()) };
    let (mut name, mut value) = (String::new(), String::new());
    for field in fields(bytes)? {
        let part = if field.number == 1 { &mut name } else { &mut value };
        *part = text(&field)?;
    }
    Ok((name, value.into()))
}

/// One field of a message.
struct Field<'b> {
    number: u64,
    content: Content<'b>,
}

enum Content<'b> {
    Number(u64),
    /// A string, bytes or a message.
    Bytes(&'b [u8]),
}

fn text(field: &Field<'_>) -> Result<String, String> {
    let Content::Bytes(bytes) = field.content else { return Err("a text is a number".to_owned()) };
    String::from_utf8(bytes.to_vec()).map_err(|_| "a text is not UTF-8".to_owned())
}

/// Refuses a field that is not empty.
fn empty(field: &Field<'_>, of: &str) -> Result<(), String> {
    match field.content {
        Content::Number(0) | Content::Bytes([]) => Ok(()),
        _ => Err(format!("field {} of {of} is not supported in protobuf: use application/json", field.number)),
    }
}

fn all_empty(message: &[u8], of: &str) -> Result<(), String> {
    fields(message)?.iter().try_for_each(|field| empty(field, of))
}

/// Splits a message into its fields.
fn fields(mut bytes: &[u8]) -> Result<Vec<Field<'_>>, String> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = number(&mut bytes)?;
        let content = match tag & 7 {
            0 => Content::Number(number(&mut bytes)?),
            2 => {
                let length = usize::try_from(number(&mut bytes)?).unwrap_or(usize::MAX);
                let (content, rest) = bytes.split_at_checked(length).ok_or("it ends in the middle of a field")?;
                bytes = rest;
                Content::Bytes(content)
            }
            other => return Err(format!("there is a field of the wire type {other}")),
        };
        fields.push(Field { number: tag >> 3, content });
    }
    Ok(fields)
}

/// Parses a varint of at most 64 bits: seven bits in each byte, the low ones first.
fn number(bytes: &mut &[u8]) -> Result<u64, String> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().ok_or("it ends in the middle of a number")?;
        *bytes = rest;
        number |= u64::from(first & 0x7F) << shift;
        if *first < 0x80 {
            return Ok(number);
        }
    }
    Err("there is a number of more than 64 bits".to_owned())
}

#[cfg(test)]
mod tests;
