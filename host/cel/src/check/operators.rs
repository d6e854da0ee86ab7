//! Operators with two values.

use super::{Checker, Estimate, Outcome, is_ordering, union};
use crate::functions::tenth;
use crate::syntax::Operator;
use crate::types::Type;

impl Checker<'_> {
    pub(super) fn binary(&self, at: usize, operator: Operator, left: Estimate, right: Estimate) -> Outcome {
        let (left_size, right_size) = (left.size_max(), right.size_max());
        let sum = left.cost.saturating_add(right.cost);
        let value = result(operator, &left.value, &right.value);
        let wrong = || self.no_overload(at, operator.function(), &[&left.value, &right.value], false);
        let value = value.ok_or_else(wrong)?;
        let cost = match operator {
            Operator::Or | Operator::And => 0,
            Operator::Equal | Operator::NotEqual => tenth(left_size.min(right_size)),
            _ if is_ordering(operator) && matches!(left.value, Type::Text(_) | Type::Bytes(_) | Type::Dyn) => {
                tenth(left_size.min(right_size))
            }
            Operator::In => match &right.value {
                Type::List(list) => list.count_max,
                Type::Dyn => u64::MAX,
                _ => 1,
            },
            Operator::Add => match &value {
                Type::Text(size) | Type::Bytes(size) => tenth(*size),
                _ => 1,
            },
            _ => 1,
        };
        Ok(Estimate::made(value, sum.saturating_add(cost)))
    }
}

/// Returns the type of the result; `None` if there is no such operator.
fn result(operator: Operator, left: &Type, right: &Type) -> Option<Type> {
    let is_number = |value: &Type| matches!(value, Type::Int | Type::Uint | Type::Double);
    match operator {
        Operator::Or | Operator::And => (left.fits(&Type::Bool) && right.fits(&Type::Bool)).then_some(Type::Bool),
        Operator::Equal | Operator::NotEqual => left.fits(right).then_some(Type::Bool),
        Operator::Less | Operator::LessOrEqual | Operator::Greater | Operator::GreaterOrEqual => {
            let has_order = |value: &Type| {
                is_number(value)
                    || matches!(
                        value,
                        Type::Dyn | Type::Bool | Type::Text(_) | Type::Bytes(_) | Type::Duration | Type::Timestamp
                    )
            };
            let fits = left.fits(right) || (is_number(left) && is_number(right));
            (fits && has_order(left) && has_order(right)).then_some(Type::Bool)
        }
        Operator::In => {
            let fits = match right {
                Type::List(list) => left.fits(&list.item),
                Type::Map(map) => left.fits(&map.key),
                other => *other == Type::Dyn,
            };
            fits.then_some(Type::Bool)
        }
        Operator::Add => match (left, right) {
            (Type::Text(left), Type::Text(right)) => Some(Type::Text(left.saturating_add(*right))),
            (Type::Bytes(left), Type::Bytes(right)) => Some(Type::Bytes(left.saturating_add(*right))),
            (Type::List(one), Type::List(other)) if left.fits(right) => {
                let count_max = one.count_max.saturating_add(other.count_max);
                let Type::List(joined) = union(left.clone(), right) else { return None };
                Some(Type::list(joined.item.clone(), count_max))
            }
            // Only one addition has such a value.
            (Type::Text(_), Type::Dyn) | (Type::Dyn, Type::Text(_)) => Some(Type::Text(u64::MAX)),
            (Type::Bytes(_), Type::Dyn) | (Type::Dyn, Type::Bytes(_)) => Some(Type::Bytes(u64::MAX)),
            (Type::Duration, Type::Duration) => Some(Type::Duration),
            (Type::Timestamp, Type::Duration) | (Type::Duration, Type::Timestamp) => Some(Type::Timestamp),
            _ => arithmetic(left, right),
        },
        Operator::Subtract => match (left, right) {
            (Type::Duration, Type::Duration) | (Type::Timestamp, Type::Timestamp) => Some(Type::Duration),
            (Type::Timestamp, Type::Duration) => Some(Type::Timestamp),
            _ => arithmetic(left, right),
        },
        Operator::Multiply | Operator::Divide => arithmetic(left, right),
        Operator::Modulo => arithmetic(left, right).filter(|value| *value != Type::Double),
    }
}

fn arithmetic(left: &Type, right: &Type) -> Option<Type> {
    match (left, right) {
        (Type::Int, Type::Int | Type::Dyn) | (Type::Dyn, Type::Int) => Some(Type::Int),
        (Type::Uint, Type::Uint | Type::Dyn) | (Type::Dyn, Type::Uint) => Some(Type::Uint),
        (Type::Double, Type::Double | Type::Dyn) | (Type::Dyn, Type::Double) => Some(Type::Double),
        (Type::Dyn, _) | (_, Type::Dyn) => Some(Type::Dyn),
        _ => None,
    }
}
