//! Values that can be absent. Source: cel-go's optional types.

use std::rc::Rc;

use crate::error::EvaluationError;
use crate::value::Value;

type Outcome<'a> = Result<Value<'a>, EvaluationError>;

pub(super) fn of<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Optional(Some(Rc::new(arguments[0].clone()))))
}

pub(super) fn none<'a>(_: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Optional(None))
}

pub(super) fn of_non_zero_value<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    if arguments[0].is_zero() { Ok(Value::Optional(None)) } else { of(arguments) }
}

fn content<'v, 'a>(value: &'v Value<'a>) -> Result<Option<&'v Value<'a>>, EvaluationError> {
    match value {
        Value::Optional(content) => Ok(content.as_deref()),
        _ => Err(EvaluationError::NoSuchOverload),
    }
}

pub(super) fn has_value<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(content(&arguments[0])?.is_some()))
}

/// `value` of an optional.
pub(super) fn value<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let content = content(&arguments[0])?;
    content.cloned().ok_or_else(|| EvaluationError::Invalid("optional.none() dereference".to_owned()))
}

/// `or`.
pub(super) fn or<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    Ok(if content(&arguments[0])?.is_some() { arguments[0].clone() } else { arguments[1].clone() })
}

/// `orValue`.
pub(super) fn or_value<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    Ok(content(&arguments[0])?.cloned().unwrap_or_else(|| arguments[1].clone()))
}

/// `optional.unwrap` and `unwrapOpt`: the values of a list that are present.
pub(super) fn unwrap<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let Value::List(list) = &arguments[0] else { return Err(EvaluationError::NoSuchOverload) };
    let mut items = Vec::new();
    for item in list.iter() {
        items.extend(content(&item)?.cloned());
    }
    Ok(Value::list(items))
}
