//! The head of a document: what a cache reads of every document that it receives.
//!
//! Building the whole document takes several times as long, in many small allocations, and is thrown away at once.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::{DOCUMENT_DEPTH_MAX, Error, validate};

/// Reads `apiVersion`, `kind` and `metadata` of the JSON text of a document, without `metadata.managedFields`.
///
/// It accepts exactly the texts that a parser of the whole document accepts: the rest is parsed, and dropped.
///
/// # Errors
/// `Invalid` for malformed JSON, for a document or metadata that is no object, and for a document that is nested
/// deeper than [`DOCUMENT_DEPTH_MAX`].
pub(super) fn document_head(text: &str) -> crate::Result<Value> {
    let head: Head = serde_json::from_str(text).map_err(|error| Error::invalid("document", error.to_string()))?;
    let is_shallow = head.depth <= DOCUMENT_DEPTH_MAX;
    if is_shallow { Ok(Value::Object(head.fields)) } else { Err(validate::too_deep("document")) }
}

/// The head of a document, and the nesting of the whole document.
struct Head {
    fields: Map<String, Value>,
    depth: usize,
}

impl<'de> Deserialize<'de> for Head {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(HeadVisitor)
    }
}

struct HeadVisitor;

impl<'de> Visitor<'de> for HeadVisitor {
    type Value = Head;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Head, A::Error> {
        let (mut fields, mut deepest) = (Map::new(), 0);
        while let Some(Name(name)) = map.next_key()? {
            let depth = match name.as_ref() {
                "apiVersion" | "kind" => {
                    let value = map.next_value()?;
                    let depth = depth_of(&value);
                    fields.insert(name.into_owned(), value);
                    depth
                }
                "metadata" => {
                    let Metadata(metadata, depth) = map.next_value()?;
                    fields.insert(name.into_owned(), Value::Object(metadata));
                    depth
                }
                _ => map.next_value_seed(NestingProbe)?,
            };
            deepest = depth.max(deepest);
        }
        Ok(Head { fields, depth: deepest + 1 })
    }
}

/// Metadata without managed fields, and its nesting with them.
struct Metadata(Map<String, Value>, usize);

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(MetadataVisitor)
    }
}

struct MetadataVisitor;

impl<'de> Visitor<'de> for MetadataVisitor {
    type Value = Metadata;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Metadata, A::Error> {
        let (mut fields, mut deepest) = (Map::new(), 0);
        while let Some(Name(name)) = map.next_key()? {
            let depth = if name == "managedFields" {
                map.next_value_seed(NestingProbe)?
            } else {
                let value = map.next_value()?;
                let depth = depth_of(&value);
                fields.insert(name.into_owned(), value);
                depth
            };
            deepest = depth.max(deepest);
        }
        Ok(Metadata(fields, deepest + 1))
    }
}

/// The name of a field, borrowed from the text unless it has an escape.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// Returns the nesting of a value, or more than the limit.
fn depth_of(value: &Value) -> usize {
    validate::depth(value, DOCUMENT_DEPTH_MAX).unwrap_or(DOCUMENT_DEPTH_MAX + 1)
}

/// Parses a value as strictly as [`Value`] does, drops it, and returns its nesting: 0 for a scalar.
///
/// [`serde::de::IgnoredAny`] accepts more: numbers out of range, and halves of surrogate pairs.
struct NestingProbe;

impl<'de> DeserializeSeed<'de> for NestingProbe {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<usize, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for NestingProbe {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<usize, E> {
        Ok(0)
    }

    fn visit_bool<E>(self, _: bool) -> Result<usize, E> {
        Ok(0)
    }

    fn visit_i64<E>(self, _: i64) -> Result<usize, E> {
        Ok(0)
    }

    fn visit_u64<E>(self, _: u64) -> Result<usize, E> {
        Ok(0)
    }

    fn visit_f64<E>(self, _: f64) -> Result<usize, E> {
        Ok(0)
    }

    fn visit_str<E>(self, _: &str) -> Result<usize, E> {
        Ok(0)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<usize, A::Error> {
        let mut deepest = 0;
        while let Some(depth) = items.next_element_seed(Self)? {
            deepest = depth.max(deepest);
        }
        Ok(deepest + 1)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<usize, A::Error> {
        let mut deepest = 0;
        while fields.next_key_seed(Self)?.is_some() {
            deepest = fields.next_value_seed(Self)?.max(deepest);
        }
        Ok(deepest + 1)
    }
}
