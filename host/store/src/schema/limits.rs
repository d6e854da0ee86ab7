//! Constraints on a value beside its type.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use super::Schema;
use super::format::Format;
use homeostat_cel::Pattern;

/// The constraints on a value. Each applies to values of some types only.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Constraints {
    /// The allowed values (`enum`); empty for all.
    pub(super) values: Vec<Value>,
    pub(super) format: Option<Format>,
    pub(super) minimum: Option<Bound>,
    pub(super) maximum: Option<Bound>,
    pub(super) multiple_of: Option<Number>,
    /// In characters.
    pub(super) length_min: Option<u64>,
    /// In characters.
    pub(super) length_max: Option<u64>,
    pub(super) pattern: Option<Pattern>,
    pub(super) items_min: Option<u64>,
    pub(super) items_max: Option<u64>,
    pub(super) unique_items: bool,
    pub(super) properties_min: Option<u64>,
    pub(super) properties_max: Option<u64>,
    pub(super) required: Vec<String>,
    pub(super) all_of: Vec<Schema>,
    pub(super) any_of: Vec<Schema>,
    pub(super) one_of: Vec<Schema>,
    pub(super) not: Option<Box<Schema>>,
}

/// The end of a range of numbers.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bound {
    pub(super) number: Number,
    /// Whether the bound itself is excluded.
    pub(super) exclusive: bool,
}

/// Compares two numbers by value: 1 equals 1.0.
pub(super) fn compare(left: &Number, right: &Number) -> Ordering {
    let whole = |number: &Number| number.as_i64().map(i128::from).or(number.as_u64().map(i128::from));
    match (whole(left), whole(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        _ => left.as_f64().partial_cmp(&right.as_f64()).unwrap_or(Ordering::Equal),
    }
}

/// Returns whether one number is a multiple of another, which is not 0. Fractions have a tolerance of a
/// billionth.
pub(super) fn is_multiple(number: &Number, of: &Number) -> bool {
    if let (Some(number), Some(of)) = (number.as_i64(), of.as_i64()) {
        return number.checked_rem(of).is_none_or(|rest| rest == 0);
    }
    let ratio = number.as_f64().unwrap_or(0.0) / of.as_f64().unwrap_or(1.0);
    (ratio - ratio.round()).abs() < 1e-9
}

/// Returns whether two values are equal; compares numbers by value.
pub(super) fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => compare(left, right).is_eq(),
        _ => left == right,
    }
}
