//! The tables of messages: number, name and type of each field. A table is made when its message is met first.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use serde_json::Value;

use crate::data;
use crate::structural::{FIELD, INLINED};

/// The fields of a message.
#[derive(Debug)]
pub(crate) struct Message {
    /// Ordered by number.
    pub(crate) fields: Vec<MessageField>,
    /// Fields whose message has no object of its own in JSON: number and name of the message.
    pub(crate) inlined: Vec<(u32, String)>,
}

/// One field.
#[derive(Debug)]
pub(crate) struct MessageField {
    pub(crate) number: u32,
    pub(crate) name: String,
    pub(crate) value: FieldType,
    /// Whether an empty value is absent from JSON.
    pub(crate) omit_empty: bool,
}

/// The type of a value.
#[derive(Debug)]
pub(crate) enum FieldType {
    Boolean,
    /// Of 32 or 64 bits.
    Integer(u8),
    Double,
    Text,
    Bytes,
    Time,
    MicroTime,
    Quantity,
    IntegerOrText,
    /// A JSON value as its text.
    Raw,
    /// A schema, or something shorter in its place.
    SchemaOr(SchemaAlternative),
    /// A message, by its name.
    Message(String),
    List(Box<FieldType>),
    Map(Box<FieldType>),
}

/// What may be in the place of a schema in a definition. In protobuf it is a message with a field for the schema, and one
/// for the alternative.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SchemaAlternative {
    /// `additionalProperties: false`.
    Boolean,
    /// The schemas of the items of a tuple.
    Schemas,
    /// The names of the fields that a field needs.
    Texts,
}

impl SchemaAlternative {
    /// Returns the numbers of the fields: of the schema, and of the alternative.
    ///
    /// Source: `k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1/generated.proto`.
    pub(crate) fn numbers(self) -> (u32, u32) {
        match self {
            Self::Boolean => (2, 1),
            Self::Schemas | Self::Texts => (1, 2),
        }
    }

    /// Returns the type of the alternative.
    pub(crate) fn field_type(self) -> FieldType {
        match self {
            Self::Boolean => FieldType::Boolean,
            Self::Schemas => FieldType::List(Box::new(FieldType::Message(SCHEMA.to_owned()))),
            Self::Texts => FieldType::List(Box::new(FieldType::Text)),
        }
    }
}

/// The message of a schema in a definition.
pub(crate) const SCHEMA: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

impl Message {
    pub(crate) fn field(&self, number: u32) -> Option<&MessageField> {
        self.fields.binary_search_by_key(&number, |field| field.number).ok().map(|at| &self.fields[at])
    }
}

/// Returns the message of this name. The number of messages is bounded by the data.
pub(crate) fn find(name: &str) -> Option<Arc<Message>> {
    static FOUND: OnceLock<RwLock<HashMap<String, Arc<Message>>>> = OnceLock::new();
    let found = FOUND.get_or_init(RwLock::default);
    if let Some(message) = found.read().unwrap_or_else(PoisonError::into_inner).get(name) {
        return Some(Arc::clone(message));
    }
    let message = Arc::new(parse(&data::definition(name)?));
    found.write().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), Arc::clone(&message));
    Some(message)
}

fn parse(definition: &Value) -> Message {
    let number = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok()).unwrap_or(0);
    let properties = definition["properties"].as_object().into_iter().flatten();
    let fields = properties.filter_map(|(name, property)| {
        let field = property.get(FIELD)?;
        let flags = field[1].as_str().unwrap_or_default();
        let omit_empty = flags.contains('o') && !flags.contains('p');
        Some(MessageField { number: number(&field[0]), name: name.clone(), value: field_type(property), omit_empty })
    });
    let mut fields: Vec<MessageField> = fields.filter(|field| field.number > 0).collect();
    fields.sort_by_key(|field| field.number);
    let inlined = definition[INLINED].as_array().into_iter().flatten();
    let inlined = inlined.map(|inlined| (number(&inlined[0]), inlined[1].as_str().unwrap_or_default().to_owned()));
    Message { fields, inlined: inlined.collect() }
}

fn field_type(property: &Value) -> FieldType {
    if let Some(name) = property["$ref"].as_str() {
        return match name.rsplit('.').next().unwrap_or_default() {
            "Time" => FieldType::Time,
            "MicroTime" => FieldType::MicroTime,
            "Quantity" => FieldType::Quantity,
            "IntOrString" => FieldType::IntegerOrText,
            "RawExtension" | "FieldsV1" | "JSON" => FieldType::Raw,
            "JSONSchemaPropsOrArray" => FieldType::SchemaOr(SchemaAlternative::Schemas),
            "JSONSchemaPropsOrBool" => FieldType::SchemaOr(SchemaAlternative::Boolean),
            "JSONSchemaPropsOrStringArray" => FieldType::SchemaOr(SchemaAlternative::Texts),
            _ => FieldType::Message(name.to_owned()),
        };
    }
    match property["type"].as_str().unwrap_or_default() {
        "boolean" => FieldType::Boolean,
        "integer" => FieldType::Integer(if property["format"] == "int32" { 32 } else { 64 }),
        "number" => FieldType::Double,
        "array" => FieldType::List(Box::new(field_type(&property["items"]))),
        "object" => FieldType::Map(Box::new(field_type(&property["additionalProperties"]))),
        _ if property["format"] == "byte" => FieldType::Bytes,
        _ => FieldType::Text,
    }
}
