//! In which form numbers are stored: equal numbers are stored alike, and in the form that Kubernetes stores.
//!
//! A whole number of 64 bits with a sign stays as it is. Any other number is a float of 64 bits, as for every reader of JSON in JavaScript,
//! and for an API server; one that is whole, and of which a float loses nothing, is stored without a fraction: `1.0` and `1e0` as `1`.
//!
//! Source: `sigs.k8s.io/json`, which decodes what API servers store, and Go's `encoding/json`, which writes it.

#[cfg(test)]
mod tests;

use serde_json::{Number, Value};

use crate::DOCUMENT_DEPTH_MAX;

/// 2^53. Between here and its negative a float and a whole number are the same.
const EXACT_END: f64 = 9_007_199_254_740_992.0;

/// How deep it is looked: a patch stands around a document. What is deeper is refused later.
const DEPTH_MAX: usize = DOCUMENT_DEPTH_MAX + 8;

/// Gives every number of a value the form in which it is stored.
pub(crate) fn normalize(value: &mut Value) {
    walk(value, DEPTH_MAX);
}

fn walk(value: &mut Value, depth_max: usize) {
    let Some(below_max) = depth_max.checked_sub(1) else { return };
    match value {
        Value::Number(number) => {
            if let Some(settled) = normalized(number) {
                *number = settled;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| walk(item, below_max)),
        Value::Object(fields) => fields.values_mut().for_each(|field| walk(field, below_max)),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// Returns the other form in which a number is stored; `None` when it is in that form already.
fn normalized(number: &Number) -> Option<Number> {
    if number.is_i64() {
        return None;
    }
    let float = number.as_f64()?;
    if is_whole(float) {
        return Some(Number::from(float as i64));
    }
    Number::from_f64(float).filter(|_| number.is_u64())
}

/// Returns whether a float is a whole number of which it loses nothing.
pub(crate) fn is_whole(float: f64) -> bool {
    float.fract() == 0.0 && float.abs() < EXACT_END
}
