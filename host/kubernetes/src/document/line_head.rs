//! The beginning of a line of a watch, as far as it tells which resource the line is about.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

/// The fields that the beginning of a line has. A field that it does not have is empty.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LineHead {
    /// The type of the event, as `ADDED`.
    pub(super) event: String,
    /// The name of the resource.
    pub(super) name: String,
    /// The namespace of the resource.
    pub(super) namespace: String,
    /// The revision of the document.
    pub(super) resource_version: String,
}

impl LineHead {
    /// Reads JSON that is cut off somewhere.
    pub(super) fn read(text: &[u8]) -> Self {
        let mut head = Self::default();
        let mut json = serde_json::Deserializer::from_slice(text);
        // The end is missing. Everything before it was read.
        drop(FieldReader { head: &mut head, level: Level::Line }.deserialize(&mut json));
        head
    }
}

/// How deep in the line an object is.
#[derive(Clone, Copy)]
enum Level {
    Line,
    Object,
    Metadata,
}

/// Reads the fields of an object into the head.
struct FieldReader<'h> {
    head: &'h mut LineHead,
    level: Level,
}

impl<'de> DeserializeSeed<'de> for FieldReader<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for FieldReader<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let Self { head, level } = self;
        while let Some(name) = fields.next_key::<String>()? {
            match (level, name.as_str()) {
                (Level::Line, "type") => head.event = fields.next_value()?,
                (Level::Line, "object") => fields.next_value_seed(FieldReader { head, level: Level::Object })?,
                (Level::Object, "metadata") => fields.next_value_seed(FieldReader { head, level: Level::Metadata })?,
                (Level::Metadata, "name") => head.name = fields.next_value()?,
                (Level::Metadata, "namespace") => head.namespace = fields.next_value()?,
                (Level::Metadata, "resourceVersion") => head.resource_version = fields.next_value()?,
                _ => {
                    fields.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}
