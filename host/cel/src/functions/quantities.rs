//! Amounts of resources. Source: Kubernetes' library of quantities.

use serde_json::Value as Json;

use super::text_of;
use crate::equality::compare;
use crate::error::EvaluationError;
use crate::quantity::Quantity;
use crate::value::Value;

type Outcome<'a> = Result<Value<'a>, EvaluationError>;

const NANOS: i128 = 1_000_000_000;

fn parsed(value: &Value<'_>) -> Result<Option<i128>, EvaluationError> {
    Ok(Quantity::of(&Json::String(text_of(value)?.to_owned())).map(Quantity::nanos))
}

pub(super) fn quantity<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let nanos = parsed(&arguments[0])?;
    nanos.map(Value::Quantity).ok_or_else(|| EvaluationError::Invalid("the text is not a quantity".to_owned()))
}

pub(super) fn is_quantity<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(parsed(&arguments[0])?.is_some()))
}

fn nanos(value: &Value<'_>) -> Result<i128, EvaluationError> {
    match value {
        Value::Quantity(nanos) => Ok(*nanos),
        Value::Int(number) => Ok(i128::from(*number) * NANOS),
        _ => Err(EvaluationError::NoSuchOverload),
    }
}

pub(super) fn add<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let sum = nanos(&arguments[0])?.checked_add(nanos(&arguments[1])?);
    sum.map(Value::Quantity).ok_or(EvaluationError::Overflow)
}

pub(super) fn sub<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let difference = nanos(&arguments[0])?.checked_sub(nanos(&arguments[1])?);
    difference.map(Value::Quantity).ok_or(EvaluationError::Overflow)
}

fn as_whole(nanos: i128) -> Option<i64> {
    i64::try_from(nanos / NANOS).ok().filter(|_| nanos % NANOS == 0)
}

pub(super) fn is_integer<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(as_whole(nanos(&arguments[0])?).is_some()))
}

pub(super) fn as_integer<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let whole = as_whole(nanos(&arguments[0])?);
    whole.map(Value::Int).ok_or_else(|| EvaluationError::Invalid("cannot convert value to integer".to_owned()))
}

#[expect(clippy::cast_precision_loss, reason = "the result is approximate")]
pub(super) fn as_approximate_float<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Double(nanos(&arguments[0])? as f64 / NANOS as f64))
}

/// `isLessThan` of a quantity or a version.
pub(super) fn is_less_than<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    order(arguments).map(|order| Value::Bool(order.is_lt()))
}

/// `isGreaterThan` of a quantity or a version.
pub(super) fn is_greater_than<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    order(arguments).map(|order| Value::Bool(order.is_gt()))
}

/// `compareTo` of a quantity or a version.
pub(super) fn compare_to<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    order(arguments).map(|order| Value::Int(order as i64))
}

fn order(arguments: &[Value<'_>]) -> Result<std::cmp::Ordering, EvaluationError> {
    match (&arguments[0], &arguments[1]) {
        (Value::Semver(left), Value::Semver(right)) => Ok(left.order(right)),
        (left @ Value::Quantity(_), right) => compare(left, right).ok_or(EvaluationError::NoSuchOverload),
        _ => Err(EvaluationError::NoSuchOverload),
    }
}
