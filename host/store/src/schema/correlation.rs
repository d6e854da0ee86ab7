//! The parts of a document before a write that correspond to parts of the document after it. Pure.
//!
//! A field corresponds to the same field, and an item of a list to the item with the same identity. Source: Kubernetes.

use std::collections::HashMap;

use serde_json::Value;

use super::{ListType, Schema};

/// A part of the document before a write.
#[derive(Clone, Copy)]
pub(super) struct CorrelatedPart<'a> {
    pub(super) schema: &'a Schema,
    pub(super) value: &'a Value,
}

impl<'a> CorrelatedPart<'a> {
    /// Returns the part of a field; `None` for a field without a schema.
    pub(super) fn field(self, name: &str) -> Option<Self> {
        Some(Self { schema: self.schema.field(name)?, value: self.value.get(name)? })
    }

    /// Returns the parts of the items of a list, in their order after the write. Only items with an identity correspond.
    pub(super) fn items(self, now: &[Value]) -> Vec<Option<Self>> {
        let (ListType::Map(keys), Some(schema)) = (&self.schema.list, self.schema.items()) else {
            return vec![None; now.len()];
        };
        let old = by_identity(&self.schema.list, self.value.as_array());
        let part = |item: &Value| old.get(&identity(keys, item)).map(|value| Self { schema, value });
        now.iter().map(part).collect()
    }

    /// Returns whether the part is the same after the write.
    pub(super) fn is_same(self, now: &Value) -> bool {
        is_same(self.schema, self.value, now)
    }
}

/// Returns whether two values are the same. The order of items that have identities does not count. As in Kubernetes, fields
/// without a schema are never the same.
pub(super) fn is_same(schema: &Schema, old: &Value, now: &Value) -> bool {
    let is_same_part =
        |part: Option<&Schema>, old: &Value, now: &Value| part.is_some_and(|part| is_same(part, old, now));
    match (old, now) {
        (Value::Object(old), Value::Object(now)) => {
            let mut fields = now.iter();
            let is_same_field = |(name, now): (&String, &Value)| {
                old.get(name).is_some_and(|old| is_same_part(schema.field(name), old, now))
            };
            old.len() == now.len() && fields.all(is_same_field)
        }
        (Value::Array(old), Value::Array(now)) => match &schema.list {
            ListType::Map(_) if old.len() != now.len() => false,
            ListType::Map(keys) => {
                let by_identity = by_identity(&schema.list, Some(old));
                now.iter().all(|now| {
                    let old = by_identity.get(&identity(keys, now));
                    old.is_some_and(|old| is_same_part(schema.items(), old, now))
                })
            }
            ListType::Atomic | ListType::Set => old == now,
        },
        _ => old == now,
    }
}

/// Returns the items of a list before the write by their identities; none for a list whose items have none.
pub(super) fn by_identity<'a>(list: &ListType, old: Option<&'a Vec<Value>>) -> HashMap<String, &'a Value> {
    match (list, old) {
        (ListType::Map(keys), Some(old)) => old.iter().map(|item| (identity(keys, item), item)).collect(),
        _ => HashMap::new(),
    }
}

/// Returns the values by which an item of a list is identified, as text. One that lacks a key is none without it.
pub(super) fn identity(keys: &[String], item: &Value) -> String {
    keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone()))).collect::<Value>().to_string()
}
