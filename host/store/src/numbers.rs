//! The stored form of numbers: equal numbers have equal forms, and the form is that of Kubernetes.
//!
//! A signed 64-bit integer stays as it is. Any other number is a 64-bit float, as for JSON readers in
//! JavaScript and for API servers. A float without a fraction, and within the exact range of floats, is
//! stored as an integer: `1.0` and `1e0` as `1`.
//!
//! Source: `sigs.k8s.io/json`, which decodes documents for API servers, and Go's `encoding/json`, which
//! writes them.

#[cfg(test)]
mod tests;

use serde_json::{Number, Value};

use crate::DOCUMENT_DEPTH_MAX;

/// 2^53. Floats between this and its negative represent integers exactly.
const EXACT_END: f64 = 9_007_199_254_740_992.0;

/// Deepest level visited: the envelope of a patch adds levels to a document. Deeper documents are refused
/// later.
const DEPTH_MAX: usize = DOCUMENT_DEPTH_MAX + 8;

/// Converts every number in a value to its stored form.
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

/// Returns the stored form of a number; `None` when the number already has it.
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

/// Returns whether a float is an integer within the exact range.
pub(crate) fn is_whole(float: f64) -> bool {
    float.fract() == 0.0 && float.abs() < EXACT_END
}
