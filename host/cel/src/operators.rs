//! Operators with two values.

use std::rc::Rc;

use crate::equality::{compare, equal};
use crate::error::EvaluationError;
use crate::syntax::Operator;
use crate::types::ItemIdentity;
use crate::value::{List, Value};

type Outcome<'a> = Result<Value<'a>, EvaluationError>;

/// Returns the result of an operator whose two values are known; `||` and `&&` need not know both.
pub(crate) fn apply<'a>(operator: Operator, left: &Value<'a>, right: &Value<'a>) -> Outcome<'a> {
    let order = || compare(left, right).ok_or(EvaluationError::NoSuchOverload);
    let is_nan = |value: &Value<'_>| matches!(value, Value::Double(number) if number.is_nan());
    let ordered = |holds: fn(std::cmp::Ordering) -> bool| {
        if is_nan(left) || is_nan(right) {
            return Ok(Value::Bool(false));
        }
        order().map(|order| Value::Bool(holds(order)))
    };
    match operator {
        Operator::Equal => Ok(Value::Bool(equal(left, right))),
        Operator::NotEqual => Ok(Value::Bool(!equal(left, right))),
        Operator::Less => ordered(std::cmp::Ordering::is_lt),
        Operator::LessOrEqual => ordered(std::cmp::Ordering::is_le),
        Operator::Greater => ordered(std::cmp::Ordering::is_gt),
        Operator::GreaterOrEqual => ordered(std::cmp::Ordering::is_ge),
        Operator::In => contained(left, right),
        Operator::Add => add(left, right),
        Operator::Subtract => subtract(left, right),
        Operator::Multiply => arithmetic(left, right, i64::checked_mul, u64::checked_mul, |left, right| left * right),
        Operator::Divide if is_integer_zero(right) => Err(EvaluationError::Invalid("division by zero".to_owned())),
        Operator::Divide => arithmetic(left, right, i64::checked_div, u64::checked_div, |left, right| left / right),
        Operator::Modulo if is_integer_zero(right) => Err(EvaluationError::Invalid("modulus by zero".to_owned())),
        Operator::Modulo => match (left, right) {
            (Value::Double(_), _) => Err(EvaluationError::NoSuchOverload),
            _ => arithmetic(left, right, i64::checked_rem, u64::checked_rem, |left, _| left),
        },
        Operator::Or | Operator::And => Err(EvaluationError::NoSuchOverload),
    }
}

fn is_integer_zero(value: &Value<'_>) -> bool {
    matches!(value, Value::Int(0) | Value::Uint(0))
}

fn arithmetic<'a>(
    left: &Value<'a>,
    right: &Value<'a>,
    int: fn(i64, i64) -> Option<i64>,
    uint: fn(u64, u64) -> Option<u64>,
    double: fn(f64, f64) -> f64,
) -> Outcome<'a> {
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => int(*left, *right).map(Value::Int).ok_or(EvaluationError::Overflow),
        (Value::Uint(left), Value::Uint(right)) => {
            uint(*left, *right).map(Value::Uint).ok_or(EvaluationError::Overflow)
        }
        (Value::Double(left), Value::Double(right)) => Ok(Value::Double(double(*left, *right))),
        _ => Err(EvaluationError::NoSuchOverload),
    }
}

/// Adds numbers and times, and joins texts, bytes and lists.
pub(crate) fn add<'a>(left: &Value<'a>, right: &Value<'a>) -> Outcome<'a> {
    match (left, right) {
        (Value::Text(left), Value::Text(right)) => concatenated(left, right),
        (Value::Bytes(left), Value::Bytes(right)) => Ok(Value::Bytes(Rc::new([&***left, &***right].concat()))),
        (Value::List(left), Value::List(right)) => Ok(joined(left, right)),
        (Value::Duration(left), Value::Duration(right)) => {
            left.checked_add(*right).map(Value::Duration).ok_or(EvaluationError::Overflow)
        }
        (Value::Timestamp(moment), Value::Duration(duration))
        | (Value::Duration(duration), Value::Timestamp(moment)) => {
            moment.checked_add(*duration).map(Value::Timestamp).map_err(|_| EvaluationError::Overflow)
        }
        _ => arithmetic(left, right, i64::checked_add, u64::checked_add, |left, right| left + right),
    }
}

fn subtract<'a>(left: &Value<'a>, right: &Value<'a>) -> Outcome<'a> {
    match (left, right) {
        (Value::Duration(left), Value::Duration(right)) => {
            left.checked_sub(*right).map(Value::Duration).ok_or(EvaluationError::Overflow)
        }
        (Value::Timestamp(moment), Value::Duration(duration)) => {
            moment.checked_sub(*duration).map(Value::Timestamp).map_err(|_| EvaluationError::Overflow)
        }
        (Value::Timestamp(left), Value::Timestamp(right)) => Ok(Value::Duration(left.duration_since(*right))),
        _ => arithmetic(left, right, i64::checked_sub, u64::checked_sub, |left, right| left - right),
    }
}

/// Joins two lists. Items of the right one replace those of the left one that have the same identity, where items have
/// one. Source: Kubernetes.
fn joined<'a>(left: &List<'a>, right: &List<'a>) -> Value<'a> {
    let mut items: Vec<Value<'a>> = left.iter().collect();
    match left.identity() {
        ItemIdentity::Position => items.extend(right.iter()),
        ItemIdentity::Value => {
            for item in right.iter() {
                if !items.iter().any(|known| equal(known, &item)) {
                    items.push(item);
                }
            }
        }
        ItemIdentity::Fields(fields) => {
            for item in right.iter() {
                match items.iter_mut().find(|known| are_same(known, &item, fields)) {
                    Some(known) => *known = item,
                    None => items.push(item),
                }
            }
        }
    }
    Value::list(items)
}

fn are_same(left: &Value<'_>, right: &Value<'_>, fields: &[String]) -> bool {
    let (Value::Map(left), Value::Map(right)) = (left, right) else { return false };
    fields.iter().all(|field| match (left.field(field), right.field(field)) {
        (Some(left), Some(right)) => equal(&left, &right),
        (None, None) => true,
        _ => false,
    })
}

fn contained<'a>(item: &Value<'a>, container: &Value<'a>) -> Outcome<'a> {
    match container {
        Value::List(list) => Ok(Value::Bool(list.iter().any(|known| equal(&known, item)))),
        Value::Map(map) => Ok(Value::Bool(map.get(item).is_some())),
        _ => Err(EvaluationError::NoSuchOverload),
    }
}

/// Longest text that an expression can make, in bytes.
pub(crate) const TEXT_BYTES_MAX: usize = 4 << 20;

/// Refuses a text that would be too long.
pub(crate) fn bounded(bytes: usize) -> Result<(), EvaluationError> {
    if bytes > TEXT_BYTES_MAX { Err(too_long()) } else { Ok(()) }
}

/// Returns the refusal of a text that would be too long.
pub(crate) fn too_long() -> EvaluationError {
    EvaluationError::Invalid(format!("a text would be longer than {TEXT_BYTES_MAX} bytes"))
}

/// Joins two texts.
fn concatenated<'a>(left: &str, right: &str) -> Outcome<'a> {
    bounded(left.len() + right.len())?;
    Ok(Value::Text(Rc::new(format!("{left}{right}").into())))
}
