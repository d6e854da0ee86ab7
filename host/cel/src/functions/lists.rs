//! Functions of lists and sets. Source: cel-go's extensions and Kubernetes' library of lists.

use std::cmp::Ordering;
use std::rc::Rc;

use super::int_result;
use crate::equality::{compare, equal};
use crate::error::EvaluationError;
use crate::operators::add;
use crate::value::{List, Value};

type Outcome<'a> = Result<Value<'a>, EvaluationError>;

/// Most items of a list that an expression makes from nothing.
const RANGE_MAX: i64 = 100_000;

fn list_of<'v, 'a>(value: &'v Value<'a>) -> Result<&'v List<'a>, EvaluationError> {
    match value {
        Value::List(list) => Ok(list),
        _ => Err(EvaluationError::NoSuchOverload),
    }
}

pub(super) fn index_of<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let found = list_of(&arguments[0])?.iter().position(|item| equal(&item, &arguments[1]));
    found.map_or(Ok(Value::Int(-1)), int_result)
}

pub(super) fn last_index_of<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let items: Vec<_> = list_of(&arguments[0])?.iter().collect();
    let found = items.iter().rposition(|item| equal(item, &arguments[1]));
    found.map_or(Ok(Value::Int(-1)), int_result)
}

pub(super) fn is_sorted<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let items: Vec<_> = list_of(&arguments[0])?.iter().collect();
    for pair in items.windows(2) {
        if compare(&pair[0], &pair[1]).ok_or(EvaluationError::NoSuchOverload)? == Ordering::Greater {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}

pub(super) fn sum<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let mut items = list_of(&arguments[0])?.iter();
    // The type of an empty list is unknown here; zero is equal to zero of the other types of numbers.
    let Some(first) = items.next() else { return Ok(Value::Int(0)) };
    items.try_fold(first, |sum, item| add(&sum, &item))
}

pub(super) fn min<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    extreme(list_of(&arguments[0])?.iter(), Ordering::Less, "min")
}

pub(super) fn max<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    extreme(list_of(&arguments[0])?.iter(), Ordering::Greater, "max")
}

/// Returns the first of the values that no other one exceeds in the direction `wanted`.
pub(super) fn extreme<'a>(values: impl Iterator<Item = Value<'a>>, wanted: Ordering, name: &str) -> Outcome<'a> {
    let mut found: Option<Value<'a>> = None;
    for value in values {
        found = Some(match found {
            None => value,
            Some(best) => {
                let order = compare(&value, &best).ok_or(EvaluationError::NoSuchOverload)?;
                if order == wanted { value } else { best }
            }
        });
    }
    found.ok_or_else(|| EvaluationError::Invalid(format!("{name} called on empty list")))
}

pub(super) fn first<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Optional(list_of(&arguments[0])?.get(0).map(Rc::new)))
}

pub(super) fn last<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let list = list_of(&arguments[0])?;
    Ok(Value::Optional(list.len().checked_sub(1).and_then(|at| list.get(at)).map(Rc::new)))
}

pub(super) fn slice<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let list = list_of(&arguments[0])?;
    let (Value::Int(start), Value::Int(end)) = (&arguments[1], &arguments[2]) else {
        return Err(EvaluationError::NoSuchOverload);
    };
    let range = usize::try_from(*start).ok().zip(usize::try_from(*end).ok());
    match range.filter(|(start, end)| start <= end && *end <= list.len()) {
        Some((start, end)) => Ok(Value::list((start..end).filter_map(|at| list.get(at)).collect())),
        None => Err(EvaluationError::Invalid(format!("cannot slice({start}, {end}), list is length {}", list.len()))),
    }
}

pub(super) fn flatten<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let depth = match arguments.get(1) {
        None => 1,
        Some(Value::Int(depth)) if *depth >= 0 => *depth,
        Some(_) => return Err(EvaluationError::Invalid("flatten needs a level of 0 or more".to_owned())),
    };
    let mut items = Vec::new();
    flatten_into(list_of(&arguments[0])?, depth, &mut items);
    Ok(Value::list(items))
}

/// Returns how many items `flatten` looks at. It stops at `limit`, because a list can have a part many times that exists once.
pub(crate) fn flattened(arguments: &[Value<'_>], limit: u64) -> u64 {
    let depth = match arguments.get(1) {
        Some(Value::Int(depth)) => *depth,
        _ => 1,
    };
    let mut left = limit;
    if let Some(Value::List(list)) = arguments.first() {
        take_flattened(list, depth, &mut left);
    }
    limit - left
}

fn take_flattened(list: &List<'_>, depth: i64, left: &mut u64) {
    for item in list.iter() {
        *left = left.saturating_sub(1);
        if *left == 0 {
            return;
        }
        if let Value::List(inner) = item
            && depth > 0
        {
            take_flattened(&inner, depth - 1, left);
        }
    }
}

fn flatten_into<'a>(list: &List<'a>, depth: i64, items: &mut Vec<Value<'a>>) {
    for item in list.iter() {
        match item {
            Value::List(inner) if depth > 0 => flatten_into(&inner, depth - 1, items),
            other => items.push(other),
        }
    }
}

pub(super) fn distinct<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let mut items: Vec<Value<'a>> = Vec::new();
    for item in list_of(&arguments[0])?.iter() {
        if !items.iter().any(|known| equal(known, &item)) {
            items.push(item);
        }
    }
    Ok(Value::list(items))
}

pub(super) fn sort<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let mut items: Vec<_> = list_of(&arguments[0])?.iter().collect();
    let is_comparable = items.windows(2).all(|pair| compare(&pair[0], &pair[1]).is_some());
    if !is_comparable {
        return Err(EvaluationError::NoSuchOverload);
    }
    items.sort_by(|a, b| compare(a, b).unwrap_or(Ordering::Equal));
    Ok(Value::list(items))
}

/// `lists.range`.
pub(super) fn range<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    match arguments[0] {
        Value::Int(count) if count <= RANGE_MAX => Ok(Value::list((0..count).map(Value::Int).collect())),
        Value::Int(count) => Err(EvaluationError::Invalid(format!("lists.range({count}) is above {RANGE_MAX}"))),
        _ => Err(EvaluationError::NoSuchOverload),
    }
}

fn has_all(all: &List<'_>, part: &List<'_>) -> bool {
    part.iter().all(|wanted| all.iter().any(|item| equal(&item, &wanted)))
}

/// `sets.contains`.
pub(super) fn set_contains<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(has_all(list_of(&arguments[0])?, list_of(&arguments[1])?)))
}

/// `sets.equivalent`.
pub(super) fn set_equivalent<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let (left, right) = (list_of(&arguments[0])?, list_of(&arguments[1])?);
    Ok(Value::Bool(has_all(left, right) && has_all(right, left)))
}

/// `sets.intersects`.
pub(super) fn set_intersects<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let (left, right) = (list_of(&arguments[0])?, list_of(&arguments[1])?);
    Ok(Value::Bool(left.iter().any(|item| right.iter().any(|other| equal(&item, &other)))))
}
