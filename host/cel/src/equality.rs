//! Equality and order of values.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::types::ItemIdentity;
use crate::value::{List, Map, Value};

/// Returns whether two values are equal. Numbers of different types are compared by their amount; values of other
/// different types are not equal.
pub(crate) fn equal(left: &Value<'_>, right: &Value<'_>) -> bool {
    match (left, right) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(left), Value::Bool(right)) => left == right,
        (Value::Bytes(left), Value::Bytes(right)) => left == right,
        (Value::Text(left), Value::Text(right)) => left == right,
        (Value::List(left), Value::List(right)) => equal_lists(left, right),
        (Value::Map(left), Value::Map(right)) => equal_maps(left, right),
        (Value::Optional(None), Value::Optional(None)) => true,
        (Value::Optional(Some(left)), Value::Optional(Some(right))) => equal(left, right),
        (Value::TypeName(left), Value::TypeName(right)) => left == right,
        (Value::Url(left), Value::Url(right)) => left == right,
        (Value::Ip(left), Value::Ip(right)) => left == right,
        (Value::Cidr(left), Value::Cidr(right)) => left == right,
        (Value::Semver(left), Value::Semver(right)) => left == right,
        (Value::Format(left), Value::Format(right)) => left == right,
        (Value::Message(left), Value::Message(right)) => {
            let (fields, others) = (&left.fields, &right.fields);
            let is_equal = |(name, value): (&Arc<str>, _)| others.get(name).is_some_and(|other| equal(value, other));
            left.name == right.name && fields.len() == others.len() && fields.iter().all(is_equal)
        }
        _ => compare(left, right) == Some(Ordering::Equal),
    }
}

fn equal_lists(left: &List<'_>, right: &List<'_>) -> bool {
    if left.len() != right.len() {
        return false;
    }
    // The identity of the items of the left list matters. Source: Kubernetes.
    match left.identity() {
        ItemIdentity::Position => left.iter().zip(right.iter()).all(|(left, right)| equal(&left, &right)),
        _ => left.iter().all(|item| right.iter().any(|other| equal(&item, &other))),
    }
}

fn equal_maps(left: &Map<'_>, right: &Map<'_>) -> bool {
    let entries = left.entries();
    let others = right.entries().len();
    entries.len() == others
        && entries.iter().all(|(key, value)| right.get(key).is_some_and(|other| equal(value, &other)))
}

/// Returns how many values an equality of two looks at: at most those of the smaller side. It looks at no more than four times
/// as many, and stops at `limit`.
pub(crate) fn least_extent(left: &Value<'_>, right: &Value<'_>, limit: u64) -> u64 {
    let mut tried = 16;
    loop {
        let least = extent(left, tried).min(extent(right, tried));
        if least < tried || tried >= limit {
            return least.min(limit);
        }
        tried = tried.saturating_mul(2);
    }
}

/// Returns how many values a value has, itself included. It stops at `limit`, because a value can have a part many times that
/// exists once.
pub(crate) fn extent(value: &Value<'_>, limit: u64) -> u64 {
    let mut left = limit;
    take_extent(value, &mut left);
    limit - left
}

fn take_extent(value: &Value<'_>, left: &mut u64) {
    let parts: &mut dyn Iterator<Item = Value<'_>> = match value {
        Value::List(list) => &mut list.iter(),
        Value::Map(map) => &mut map.entries().into_iter().map(|(_, value)| value),
        Value::Message(message) => &mut message.fields.values().cloned(),
        Value::Optional(content) => &mut content.iter().map(|content| (**content).clone()),
        other => {
            *left = left.saturating_sub((other.size() as u64).div_ceil(10).max(1));
            return;
        }
    };
    *left = left.saturating_sub(1);
    for part in parts {
        if *left == 0 {
            return;
        }
        take_extent(&part, left);
    }
}

/// Returns the order of two values; `None` if they have none.
#[expect(clippy::cast_precision_loss, reason = "CEL compares integers with doubles in this way")]
pub(crate) fn compare(left: &Value<'_>, right: &Value<'_>) -> Option<Ordering> {
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => Some(left.cmp(right)),
        (Value::Uint(left), Value::Uint(right)) => Some(left.cmp(right)),
        (Value::Int(left), Value::Uint(right)) => {
            Some(u64::try_from(*left).map_or(Ordering::Less, |left| left.cmp(right)))
        }
        (Value::Uint(_), Value::Int(_)) => compare(right, left).map(Ordering::reverse),
        (Value::Double(left), Value::Double(right)) => left.partial_cmp(right),
        (Value::Double(left), Value::Int(right)) => left.partial_cmp(&(*right as f64)),
        (Value::Double(left), Value::Uint(right)) => left.partial_cmp(&(*right as f64)),
        (Value::Int(_) | Value::Uint(_), Value::Double(_)) => compare(right, left).map(Ordering::reverse),
        (Value::Text(left), Value::Text(right)) => Some(left.cmp(right)),
        (Value::Bytes(left), Value::Bytes(right)) => Some(left.cmp(right)),
        (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
        (Value::Duration(left), Value::Duration(right)) => Some(left.cmp(right)),
        (Value::Timestamp(left), Value::Timestamp(right)) => Some(left.cmp(right)),
        (Value::Quantity(left), Value::Quantity(right)) => Some(left.cmp(right)),
        _ => None,
    }
}
