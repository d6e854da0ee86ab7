//! Values of an evaluation. Those of documents are borrowed, and converted where an expression looks at them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value as Json;

use crate::error::EvaluationError;
use crate::messages::JSON_PATCH;
use crate::objects::addresses::{Address, Range};
use crate::objects::named_formats::NamedFormat;
use crate::objects::semver::Version;
use crate::objects::urls::Url;
use crate::types::{DYN, Field, ItemIdentity, MapType, ObjectType, Type};

/// A value.
#[derive(Debug, Clone)]
pub(crate) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Rc<Cow<'a, str>>),
    Bytes(Rc<Vec<u8>>),
    Duration(SignedDuration),
    Timestamp(Timestamp),
    List(List<'a>),
    Map(Map<'a>),
    Optional(Option<Rc<Value<'a>>>),
    TypeName(&'static str),
    /// In billionths.
    Quantity(i128),
    Url(Rc<Url>),
    Ip(Address),
    Cidr(Range),
    Semver(Rc<Version>),
    Format(&'static NamedFormat),
    Message(Rc<Message<'a>>),
}

/// A message that an expression made for a patch.
#[derive(Debug, Clone)]
pub(crate) struct Message<'a> {
    /// The name of its type, as `Object.spec`.
    pub(crate) name: Arc<str>,
    pub(crate) fields: BTreeMap<Arc<str>, Value<'a>>,
}

impl<'a> Message<'a> {
    /// Returns the value of a field. A missing one is null, or an empty text where an operation has a text.
    pub(crate) fn field(&self, name: &str) -> Value<'a> {
        let missing = || if &*self.name == JSON_PATCH && name != "value" { Value::text("") } else { Value::Null };
        self.fields.get(name).cloned().unwrap_or_else(missing)
    }
}

/// A list.
#[derive(Debug, Clone)]
pub(crate) enum List<'a> {
    /// Of a document.
    Json {
        items: &'a [Json],
        item: &'a Type,
        identity: &'a ItemIdentity,
    },
    Owned(Rc<Vec<Value<'a>>>),
}

/// A map or an object.
#[derive(Debug, Clone)]
pub(crate) enum Map<'a> {
    /// Of a document.
    Json {
        fields: &'a serde_json::Map<String, Json>,
        shape: Shape<'a>,
    },
    Owned(Rc<OwnedMap<'a>>),
}

/// A map that an expression made.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnedMap<'a>(BTreeMap<MapKey<'a>, (Value<'a>, Value<'a>)>);

/// The form of a key by which it is found: numbers of all types are equal if their amounts are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum MapKey<'a> {
    Bool(bool),
    Whole(i128),
    /// The bits of a number with a fraction.
    Fraction(u64),
    Text(Rc<Cow<'a, str>>),
}

impl<'a> MapKey<'a> {
    /// Returns the form of a key; `None` for a value that cannot be one.
    #[expect(clippy::cast_possible_truncation, reason = "a whole number of this size is exact")]
    fn of(key: &Value<'a>) -> Option<Self> {
        match key {
            Value::Bool(value) => Some(Self::Bool(*value)),
            Value::Int(number) => Some(Self::Whole((*number).into())),
            Value::Uint(number) => Some(Self::Whole((*number).into())),
            Value::Double(number) if number.fract() == 0.0 && number.abs() < 1e20 => Some(Self::Whole(*number as i128)),
            Value::Double(number) => Some(Self::Fraction(number.to_bits())),
            Value::Text(text) => Some(Self::Text(Rc::clone(text))),
            _ => None,
        }
    }
}

impl<'a> OwnedMap<'a> {
    /// Adds an entry, in place of one with the same key, which it returns.
    ///
    /// # Errors
    /// `Invalid` for a value that cannot be a key.
    pub(crate) fn insert(
        &mut self,
        key: Value<'a>,
        value: Value<'a>,
    ) -> Result<Option<(Value<'a>, Value<'a>)>, EvaluationError> {
        let form = MapKey::of(&key);
        let form =
            form.ok_or_else(|| EvaluationError::Invalid(format!("unsupported key type: {}", key.type_name())))?;
        Ok(self.0.insert(form, (key, value)))
    }
}

/// The known types of the fields of a map in a document.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape<'a> {
    Object(&'a ObjectType),
    Map(&'a MapType),
    Unknown,
}

impl<'a> Value<'a> {
    /// Returns the value of a document that has a type.
    pub(crate) fn of(json: &'a Json, of_type: &'a Type) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(*value),
            Json::Number(number) => match (of_type, number.as_i64()) {
                (Type::Double, _) | (_, None) => {
                    let number = number.as_f64().unwrap_or(f64::NAN);
                    // The schema takes a float without a fraction for an integer.
                    #[expect(clippy::cast_possible_truncation, reason = "a whole number within the exact range")]
                    if *of_type == Type::Int { Self::Int(number as i64) } else { Self::Double(number) }
                }
                (_, Some(number)) => Self::Int(number),
            },
            Json::String(text) => Self::of_text(text, of_type),
            Json::Array(items) => match of_type {
                Type::List(list) => Self::List(List::Json { items, item: &list.item, identity: &list.identity }),
                _ => Self::List(List::Json { items, item: &DYN, identity: &ItemIdentity::Position }),
            },
            Json::Object(fields) => {
                let shape = match of_type {
                    Type::Object(object) => Shape::Object(object),
                    Type::Map(map) => Shape::Map(map),
                    _ => Shape::Unknown,
                };
                Self::Map(Map::Json { fields, shape })
            }
        }
    }

    fn of_text(text: &'a str, of_type: &Type) -> Self {
        let converted = match of_type {
            Type::Timestamp => crate::objects::time::timestamp_or_date(text).map(Self::Timestamp),
            Type::Duration => crate::objects::time::duration(text).map(Self::Duration),
            Type::Bytes(_) => crate::objects::encoders::decoded(text).map(|bytes| Self::Bytes(Rc::new(bytes))),
            _ => None,
        };
        converted.unwrap_or_else(|| Self::Text(Rc::new(Cow::Borrowed(text))))
    }

    /// Returns a text of its own.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(Rc::new(Cow::Owned(text.into())))
    }

    /// Returns a list of its own.
    pub(crate) fn list(items: Vec<Self>) -> Self {
        Self::List(List::Owned(Rc::new(items)))
    }

    /// Returns the text of a text.
    pub(crate) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the name of the type, as messages have it.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::Text(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::TypeName(_) => "type",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Url(_) => "kubernetes.URL",
            Self::Ip(_) => "net.IP",
            Self::Cidr(_) => "net.CIDR",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Format(_) => "kubernetes.NamedFormat",
            Self::Message(_) => "object",
        }
    }

    /// Returns the characters, bytes or entries of a value; 1 for one that has none.
    pub(crate) fn size(&self) -> usize {
        match self {
            // Bytes, because counting characters takes as long as the operation whose cost is asked for.
            Self::Text(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::List(list) => list.len(),
            Self::Map(map) => map.len(),
            Self::Message(message) => message.fields.len(),
            _ => 1,
        }
    }

    /// Returns whether a value is the zero of its type.
    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Self::Null | Self::Optional(None) => true,
            Self::Bool(value) => !value,
            Self::Int(number) => *number == 0,
            Self::Uint(number) => *number == 0,
            Self::Double(number) => *number == 0.0,
            Self::Duration(duration) => duration.is_zero(),
            Self::Text(_) | Self::Bytes(_) | Self::List(_) | Self::Map(_) | Self::Message(_) => self.size() == 0,
            Self::Quantity(nanos) => *nanos == 0,
            _ => false,
        }
    }
}

impl<'a> List<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Json { items, .. } => items.len(),
            Self::Owned(items) => items.len(),
        }
    }

    pub(crate) fn get(&self, at: usize) -> Option<Value<'a>> {
        match self {
            Self::Json { items, item, .. } => items.get(at).map(|json| Value::of(json, item)),
            Self::Owned(items) => items.get(at).cloned(),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Value<'a>> + '_ {
        (0..self.len()).filter_map(|at| self.get(at))
    }

    pub(crate) fn identity(&self) -> &ItemIdentity {
        match self {
            Self::Json { identity, .. } => identity,
            Self::Owned(_) => &ItemIdentity::Position,
        }
    }
}

impl<'a> Map<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Json { fields, .. } => fields.len(),
            Self::Owned(map) => map.0.len(),
        }
    }

    /// Returns the value of a key.
    pub(crate) fn get(&self, key: &Value<'a>) -> Option<Value<'a>> {
        match self {
            Self::Json { .. } => self.field(key.as_text()?),
            Self::Owned(map) => map.0.get(&MapKey::of(key)?).map(|(_, value)| value.clone()),
        }
    }

    /// Returns the value of a field, by the name that expressions use.
    pub(crate) fn field(&self, name: &str) -> Option<Value<'a>> {
        match self {
            Self::Json { fields, shape: Shape::Object(object) } => {
                let Field { name, value } = object.field(name)?;
                // A field that is null is absent.
                fields.get(name).filter(|json| !json.is_null()).map(|json| Value::of(json, value))
            }
            Self::Json { fields, shape: Shape::Map(map) } => fields.get(name).map(|json| Value::of(json, &map.value)),
            Self::Json { fields, shape: Shape::Unknown } => fields.get(name).map(|json| Value::of(json, &DYN)),
            Self::Owned(_) => self.get(&Value::text(name)),
        }
    }

    /// Returns all keys with their values. Of an object, these are the fields that expressions can select.
    pub(crate) fn entries(&self) -> Vec<(Value<'a>, Value<'a>)> {
        let entry = |name: &'a str, json: &'a Json, of_type: &'a Type| {
            (Value::Text(Rc::new(Cow::Borrowed(name))), Value::of(json, of_type))
        };
        match self {
            Self::Json { fields, shape: Shape::Object(object) } => {
                let known = object.fields.iter();
                known
                    .filter_map(|(escaped, Field { name, value })| {
                        let json = fields.get(name).filter(|json| !json.is_null())?;
                        Some(entry(escaped, json, value))
                    })
                    .collect()
            }
            Self::Json { fields, shape } => {
                let of_type = match shape {
                    Shape::Map(map) => &map.value,
                    Shape::Object(_) | Shape::Unknown => &DYN,
                };
                fields.iter().map(|(name, json)| entry(name, json, of_type)).collect()
            }
            Self::Owned(map) => map.0.values().cloned().collect(),
        }
    }
}
