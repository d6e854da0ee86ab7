//! Types of values, as far as they are known before an evaluation.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The type of a value, with the largest size that it can have.
///
/// Sizes are estimates for the cost of an expression: characters of texts, entries of lists and maps. `u64::MAX` is
/// unknown.
#[derive(Debug, Clone, PartialEq)]
pub enum Type {
    /// A value of any type; its operations are checked when they are evaluated.
    Dyn,
    /// Null.
    Null,
    /// A truth value.
    Bool,
    /// A 64-bit integer.
    Int,
    /// A 64-bit integer without a sign.
    Uint,
    /// A 64-bit floating-point number.
    Double,
    /// A text of at most so many characters.
    Text(u64),
    /// Bytes, at most so many.
    Bytes(u64),
    /// A length of time.
    Duration,
    /// A moment.
    Timestamp,
    /// A list.
    List(Arc<ListType>),
    /// A map with free keys.
    Map(Arc<MapType>),
    /// An object with known fields.
    Object(Arc<ObjectType>),
    /// A value that can be absent.
    Optional(Arc<Type>),
    /// A type as a value.
    TypeName,
    /// A message that an expression makes for a patch: `JSONPatch`, `Object`, or a part as `Object.spec`.
    Message(Arc<str>),
    /// An amount such as `500m`, of Kubernetes.
    Quantity,
    /// A URL.
    Url,
    /// An IP address.
    Ip,
    /// A range of IP addresses.
    Cidr,
    /// A semantic version.
    Semver,
    /// A named format of Kubernetes, as `format.dns1123Label()`.
    Format,
}

/// The type of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct ListType {
    /// The type of its items.
    pub item: Type,
    /// How its items are identified.
    pub identity: ItemIdentity,
    /// Most items.
    pub count_max: u64,
}

/// How the items of a list are identified. Source: `x-kubernetes-list-type`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ItemIdentity {
    /// By their position.
    #[default]
    Position,
    /// By their value; their order does not matter.
    Value,
    /// By the values of these fields; their order does not matter.
    Fields(Vec<String>),
}

/// The type of a map with free keys.
#[derive(Debug, Clone, PartialEq)]
pub struct MapType {
    /// The type of its keys.
    pub key: Type,
    /// The type of its values.
    pub value: Type,
    /// Most entries.
    pub count_max: u64,
}

/// The type of an object.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ObjectType {
    /// Fields by the name that expressions use: see [`escaped`].
    pub fields: BTreeMap<String, Field>,
}

/// A field of an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Its name in the document.
    pub name: String,
    /// Its type.
    pub value: Type,
}

/// Largest document of which an expression sees a part. Source: Kubernetes.
const DOCUMENT_BYTES_MAX: u64 = 3 << 20;

/// A type of unknown values, for maps and lists without types.
pub(crate) static DYN: Type = Type::Dyn;

impl Type {
    /// A text of unknown length.
    pub(crate) const TEXT: Self = Self::Text(u64::MAX);

    /// Returns a list type of at most `count_max` items, which are identified by their position.
    pub fn list(item: Self, count_max: u64) -> Self {
        Self::List(Arc::new(ListType { item, identity: ItemIdentity::Position, count_max }))
    }

    /// Returns a map type of at most `count_max` entries.
    pub fn map(key: Self, value: Self, count_max: u64) -> Self {
        Self::Map(Arc::new(MapType { key, value, count_max }))
    }

    /// Returns whether a value of this type can be where one of `other` is wanted: they are the same but for their
    /// sizes, or one is of any type.
    pub(crate) fn fits(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Dyn, _) | (_, Self::Dyn) => true,
            (Self::Text(_), Self::Text(_)) | (Self::Bytes(_), Self::Bytes(_)) => true,
            (Self::List(a), Self::List(b)) => a.item.fits(&b.item),
            (Self::Map(a), Self::Map(b)) => a.key.fits(&b.key) && a.value.fits(&b.value),
            // A null is an absent value of these.
            (Self::Null, Self::Duration | Self::Timestamp | Self::Optional(_)) => true,
            (Self::Duration | Self::Timestamp | Self::Optional(_), Self::Null) => true,
            // Each object of a schema is a type of its own.
            (Self::Object(a), Self::Object(b)) => Arc::ptr_eq(a, b),
            (Self::Optional(a), Self::Optional(b)) => a.fits(b),
            _ => self == other,
        }
    }

    /// Returns whether two types are the same but for their sizes. The items of an empty list have the type that is wanted.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text(_), Self::Text(_)) | (Self::Bytes(_), Self::Bytes(_)) => true,
            (Self::List(a), Self::List(b)) => a.count_max == 0 || b.count_max == 0 || a.item.is(&b.item),
            (Self::Map(a), Self::Map(b)) => {
                a.count_max == 0 || b.count_max == 0 || (a.key.is(&b.key) && a.value.is(&b.value))
            }
            (Self::Object(a), Self::Object(b)) => Arc::ptr_eq(a, b),
            // `optional.none()` has the type that is wanted.
            (Self::Optional(a), Self::Optional(b)) => **a == Self::Dyn || **b == Self::Dyn || a.is(b),
            _ => self == other,
        }
    }

    /// Returns the largest size of a value; 1 for one that has no size.
    pub(crate) fn size_max(&self) -> u64 {
        match self {
            Self::Text(size) | Self::Bytes(size) => *size,
            Self::List(list) => list.count_max,
            Self::Map(map) => map.count_max,
            // Such a value comes from a document.
            Self::Dyn => DOCUMENT_BYTES_MAX,
            Self::Optional(value)
                if matches!(**value, Self::Text(_) | Self::Bytes(_) | Self::List(_) | Self::Map(_) | Self::Dyn) =>
            {
                u64::MAX
            }
            _ => 1,
        }
    }

    /// Returns the largest size of the items of a list, zero for items that are no texts; `None` for another value.
    pub(crate) fn item_size_max(&self) -> Option<u64> {
        let Self::List(list) = self else { return None };
        match &list.item {
            Self::Text(size) | Self::Bytes(size) => Some(*size),
            _ => Some(0),
        }
    }

    /// Returns the type without the known sizes of texts, for values that an expression made or chose.
    pub(crate) fn of_any_size(self) -> Self {
        match self {
            Self::Text(_) => Self::TEXT,
            Self::Bytes(_) => Self::Bytes(u64::MAX),
            other => other,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => f.write_str("dyn"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::Text(_) => f.write_str("string"),
            Self::Bytes(_) => f.write_str("bytes"),
            Self::Duration => f.write_str("google.protobuf.Duration"),
            Self::Timestamp => f.write_str("google.protobuf.Timestamp"),
            Self::List(list) => write!(f, "list({})", list.item),
            Self::Map(map) => write!(f, "map({}, {})", map.key, map.value),
            Self::Object(_) => f.write_str("object"),
            Self::Optional(value) => write!(f, "optional_type({value})"),
            Self::TypeName => f.write_str("type"),
            Self::Message(name) => f.write_str(name),
            Self::Quantity => f.write_str("kubernetes.Quantity"),
            Self::Url => f.write_str("kubernetes.URL"),
            Self::Ip => f.write_str("net.IP"),
            Self::Cidr => f.write_str("net.CIDR"),
            Self::Semver => f.write_str("kubernetes.Semver"),
            Self::Format => f.write_str("kubernetes.NamedFormat"),
        }
    }
}

impl ObjectType {
    /// Returns a field by the name that an expression uses. A reserved word that the grammar allows needs no escape.
    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        let unescaped = || self.fields.get(&escaped(name).filter(|_| RESERVED.contains(&name))?);
        self.fields.get(name).or_else(unescaped)
    }
}

/// Words that expressions cannot use as names of fields. Source: Kubernetes.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Returns the name by which expressions select a field of a document, as `foo__dash__bar`; `None` if they cannot.
/// Source: Kubernetes.
pub fn escaped(name: &str) -> Option<String> {
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let text = name.replace("__", "__underscores__");
    let text = text.replace('.', "__dot__").replace('-', "__dash__").replace('/', "__slash__");
    text.chars().all(|c| c == '_' || c.is_ascii_alphanumeric()).then_some(text)
}
