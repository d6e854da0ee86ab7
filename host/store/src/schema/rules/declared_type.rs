//! The type that expressions know of a part of a schema, with the sizes that bound their cost. Source: Kubernetes.

use std::collections::BTreeMap;
use std::sync::Arc;

use homeostat_cel::{self as cel, Field, ItemIdentity, ObjectType, Type, escaped};

use crate::schema::format::Format;
use crate::schema::{ListType, Schema, ValueType};

/// Largest request, in bytes: a list without a bound has as many items as fit into one. Source: Kubernetes.
pub(super) const REQUEST_BYTES_MAX: u64 = 3 << 20;

/// A type, and the fewest bytes that a value takes in JSON.
pub(super) struct DeclaredType {
    pub(super) value: Type,
    pub(super) bytes_min: u64,
}

/// Returns the type of a part; `None` if expressions cannot see it, because its fields or its type are unknown.
///
/// A resource has `apiVersion`, `kind`, and the names of its metadata.
pub(super) fn of(schema: &Schema, is_resource: bool) -> Option<DeclaredType> {
    let found = |value, bytes_min| Some(DeclaredType { value, bytes_min });
    match schema.value_type? {
        ValueType::IntegerOrString => found(Type::Dyn, 1),
        ValueType::Boolean => found(Type::Bool, 4),
        ValueType::Number => found(Type::Double, 1),
        ValueType::Integer => found(Type::Int, 1),
        ValueType::String => Some(text(schema)),
        ValueType::Array => {
            let items = schema.items()?;
            let item = of(items, items.embedded)?;
            let count_max =
                limit(schema, |limits| limits.items_max).unwrap_or((REQUEST_BYTES_MAX - 2) / (item.bytes_min + 1));
            let identity = match &schema.list {
                ListType::Atomic => ItemIdentity::Position,
                ListType::Set => ItemIdentity::Value,
                ListType::Map(keys) => ItemIdentity::Fields(keys.iter().filter_map(|key| escaped(key)).collect()),
            };
            found(Type::List(Arc::new(cel::ListType { item: item.value, identity, count_max })), 2)
        }
        ValueType::Object => match schema.additional.as_deref().filter(|values| **values != Schema::anything()) {
            Some(values) => {
                let value = of(values, values.embedded)?;
                let count_max = limit(schema, |limits| limits.properties_max)
                    .unwrap_or((REQUEST_BYTES_MAX - 2) / (value.bytes_min + 6));
                // For the estimates of Kubernetes, the keys of a map have no length.
                found(Type::map(Type::Text(0), value.value, count_max), 2)
            }
            None => Some(object(schema, is_resource)),
        },
        ValueType::Quantity => None,
    }
}

/// Returns a bound of a part.
pub(super) fn limit(schema: &Schema, limit: impl Fn(&super::super::Constraints) -> Option<u64>) -> Option<u64> {
    schema.limits.as_deref().and_then(limit)
}

fn text(schema: &Schema) -> DeclaredType {
    let found = |value, bytes_min| DeclaredType { value, bytes_min };
    let length_max = limit(schema, |limits| limits.length_max);
    match schema.limits.as_ref().and_then(|limits| limits.format) {
        Some(Format::Byte) => found(Type::Bytes(length_max.unwrap_or(REQUEST_BYTES_MAX - 2)), 2),
        Some(Format::Duration) => found(Type::Duration, 3),
        Some(Format::Date) => found(Type::Timestamp, 12),
        Some(Format::DateTime) => found(Type::Timestamp, 21),
        _ => {
            let values = schema.limits.iter().flat_map(|limits| &limits.values);
            let longest = values.filter_map(|value| value.as_str()).map(|text| text.len() as u64).max();
            // A character has up to four bytes.
            let size = length_max.map(|length| length.saturating_mul(4)).or(longest).unwrap_or(REQUEST_BYTES_MAX - 2);
            found(Type::Text(size), 2)
        }
    }
}

fn object(schema: &Schema, is_resource: bool) -> DeclaredType {
    let mut fields = BTreeMap::new();
    let mut bytes_min = 2;
    let required = schema.limits.iter().flat_map(|limits| &limits.required).collect::<Vec<_>>();
    for (name, property) in &schema.properties {
        let Some(declared) = of(property, property.embedded) else { continue };
        if required.contains(&name) && property.default.is_none() {
            bytes_min += name.len() as u64 + declared.bytes_min + 4;
        }
        if let Some(escaped) = escaped(name) {
            fields.insert(escaped, Field { name: name.clone(), value: declared.value });
        }
    }
    if is_resource {
        let text =
            |name: &str| (name.to_owned(), Field { name: name.to_owned(), value: Type::Text(REQUEST_BYTES_MAX - 2) });
        let names = ObjectType { fields: BTreeMap::from([text("name"), text("generateName")]) };
        let metadata = Field { name: "metadata".to_owned(), value: Type::Object(Arc::new(names)) };
        fields.extend([text("apiVersion"), text("kind"), ("metadata".to_owned(), metadata)]);
    }
    DeclaredType { value: Type::Object(Arc::new(ObjectType { fields })), bytes_min }
}
