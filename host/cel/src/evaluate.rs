//! Evaluates a checked expression.

mod folds;

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use crate::equality::{extent, least_extent};
use crate::error::EvaluationError;
use crate::functions::{self, CallCost, CallSizes, Function, lists, regexes, tenth};
use crate::messages::MESSAGE_COST;
use crate::operators;
use crate::syntax::{Entry, Literal, MessageField, Node, NodeKind, Operator};
use crate::types::ItemIdentity;
use crate::value::{Map, Message, OwnedMap, Value};
use crate::{Definitions, Pattern};

/// A bound on the cost of evaluations. A unit is about the time of one operation on a number.
#[derive(Debug)]
pub struct Budget {
    left: u64,
}

impl Budget {
    /// Creates a budget of `units`.
    pub fn new(units: u64) -> Self {
        Self { left: units }
    }

    /// Returns the units that are left.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Takes units for an operation that is about to run.
    pub(crate) fn charge(&mut self, units: u64) -> Result<(), EvaluationError> {
        match self.left.checked_sub(units) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                self.left = 0;
                Err(EvaluationError::Exhausted)
            }
        }
    }
}

/// The cost of a byte of a pattern that is compiled in an evaluation.
const PATTERN_BYTE_COST: u64 = 200;

/// The size of values that a call may look at for each unit of its cost.
const UNCHARGED_SIZE: u64 = 1_000;

/// The values that a call may compare for each unit of its cost.
const UNCHARGED_COMPARISONS: u64 = 10;

type Outcome<'a> = Result<Value<'a>, EvaluationError>;

/// An evaluation in progress.
pub(crate) struct Evaluation<'e, 'a> {
    /// Variables, the innermost last.
    pub(crate) variables: Vec<(&'e str, Value<'a>)>,
    /// What `variables` has, and the values of those that are known.
    pub(crate) definitions: &'e Definitions,
    pub(crate) defined: HashMap<usize, Outcome<'a>>,
    /// How many variables there are outside of macros.
    pub(crate) outermost: usize,
    pub(crate) budget: &'e mut Budget,
}

impl<'e, 'a> Evaluation<'e, 'a> {
    /// Returns the value of a node.
    pub(crate) fn value(&mut self, node: &'e Node) -> Outcome<'a> {
        match &node.kind {
            NodeKind::Literal(literal) => constant(literal),
            NodeKind::Defined(at) => self.definition(*at),
            NodeKind::Name(name) => {
                self.budget.charge(1)?;
                self.variable(name)
            }
            NodeKind::Select { of, field, optional } => {
                let of = self.value(of)?;
                self.budget.charge(1)?;
                if *optional || matches!(of, Value::Optional(_)) {
                    optional_field(&of, field)
                } else {
                    selected(&of, field)
                }
            }
            NodeKind::Has { of, field } => {
                let of = self.value(of)?;
                Ok(Value::Bool(match content(&of) {
                    Some(Value::Map(map)) => map.field(field).is_some(),
                    Some(Value::Message(message)) => message.fields.contains_key(&**field),
                    Some(_) => return Err(EvaluationError::NoSuchOverload),
                    None => false,
                }))
            }
            NodeKind::Index { of, index, optional } => {
                let (of, index) = (self.value(of)?, self.value(index)?);
                self.budget.charge(1)?;
                let is_optional = *optional || matches!(of, Value::Optional(_));
                match (content(&of).map(|of| indexed(of, &index)), is_optional) {
                    (Some(Ok(value)), true) => Ok(Value::Optional(Some(Rc::new(value)))),
                    (None | Some(Err(EvaluationError::NoSuchKey(_) | EvaluationError::Invalid(_))), true) => {
                        Ok(Value::Optional(None))
                    }
                    (Some(found), _) => found,
                    (None, false) => Err(EvaluationError::NoSuchOverload),
                }
            }
            NodeKind::Call { .. } => self.call(node),
            NodeKind::Not(of) => {
                let of = self.value(of)?;
                self.budget.charge(1)?;
                truth(&of).map(|value| Value::Bool(!value))
            }
            NodeKind::Negative(of) => {
                let of = self.value(of)?;
                self.budget.charge(1)?;
                match of {
                    Value::Int(number) => number.checked_neg().map(Value::Int).ok_or(EvaluationError::Overflow),
                    Value::Double(number) => Ok(Value::Double(-number)),
                    _ => Err(EvaluationError::NoSuchOverload),
                }
            }
            NodeKind::Binary { operator: Operator::Or, left, right } => self.either(left, right, true),
            NodeKind::Binary { operator: Operator::And, left, right } => self.either(left, right, false),
            NodeKind::Binary { operator, left, right } => {
                let (left, right) = (self.value(left)?, self.value(right)?);
                self.charge_operator(*operator, &left, &right)?;
                operators::apply(*operator, &left, &right)
            }
            NodeKind::Conditional { condition, then, otherwise } => {
                let condition = truth(&self.value(condition)?)?;
                self.value(if condition { then } else { otherwise })
            }
            NodeKind::List(entries) => self.list(entries),
            NodeKind::Map(entries) => self.map(entries),
            NodeKind::Message { name, fields } => self.message(name, fields),
            NodeKind::Fold(fold) => self.fold(fold),
            NodeKind::OptionalMap { of, name, body, is_flat } => {
                let Value::Optional(of) = self.value(of)? else { return Err(EvaluationError::NoSuchOverload) };
                self.budget.charge(1)?;
                let Some(value) = of else { return Ok(Value::Optional(None)) };
                let result = self.with(name, (*value).clone(), |evaluation| evaluation.value(body))?;
                if *is_flat { Ok(result) } else { Ok(Value::Optional(Some(Rc::new(result)))) }
            }
        }
    }

    /// Returns the value of a definition, which is evaluated once.
    fn definition(&mut self, at: usize) -> Outcome<'a> {
        self.budget.charge(1)?;
        if let Some(known) = self.defined.get(&at) {
            return known.clone();
        }
        let (name, node) = self.definitions.node(at).ok_or(EvaluationError::NoSuchOverload)?;
        // The variables of macros around its name do not exist in it.
        let inner = self.variables.split_off(self.outermost);
        let value = self.value(node).map_err(|error| match error {
            EvaluationError::Exhausted => error,
            error => EvaluationError::Invalid(format!("composited variable {name:?} fails to evaluate: {error}")),
        });
        self.variables.extend(inner);
        self.defined.insert(at, value.clone());
        value
    }

    fn variable(&self, name: &str) -> Outcome<'a> {
        let known = self.variables.iter().rev().find(|(known, _)| *known == name);
        if let Some((_, value)) = known {
            return Ok(value.clone());
        }
        type_name(name).map(Value::TypeName).ok_or_else(|| EvaluationError::NoSuchKey(name.to_owned()))
    }

    /// Evaluates with one more variable.
    fn with<T>(&mut self, name: &'e str, value: Value<'a>, then: impl FnOnce(&mut Self) -> T) -> T {
        self.variables.push((name, value));
        let result = then(self);
        self.variables.pop();
        result
    }

    fn call(&mut self, node: &'e Node) -> Outcome<'a> {
        let NodeKind::Call { function, target, arguments, known, pattern } = &node.kind else {
            return Err(EvaluationError::NoSuchOverload);
        };
        let mut values = Vec::with_capacity(arguments.len() + 1);
        if let Some(target) = target {
            values.push(self.value(target)?);
        }
        for argument in arguments {
            values.push(self.value(argument)?);
        }
        let known = known.map(functions::at).ok_or_else(|| EvaluationError::NoSuchKey(function.clone()))?;
        if !known.overloads.iter().any(|overload| overload.parameters.len() == values.len()) {
            return Err(EvaluationError::NoSuchOverload);
        }
        let sizes: Vec<u64> = values.iter().map(|value| value.size() as u64).collect();
        // Also a call that costs one looks at its values.
        let looks = sizes.iter().sum::<u64>() / UNCHARGED_SIZE;
        let item = values.first().filter(|first| matches!(first, Value::List(_))).map(|_| 0);
        // The size of a joined text is not known before the call, so one is charged for each item of its list.
        let result = sizes.first().map_or(0, |size| size.saturating_mul(10));
        let cost = known.cost.of(&CallSizes { arguments: &sizes, item, result });
        let cost = cost.max(looks).max(self.looks_inside(known, &values));
        self.budget.charge(cost)?;
        if known.cost == CallCost::Match {
            let made = if pattern.is_none() { Some(self.compiled(&values)?) } else { None };
            let Some(pattern) = pattern.as_deref().or(made.as_ref()) else {
                return Err(EvaluationError::NoSuchOverload);
            };
            return self.made(regexes::search(known.name, pattern, &values)?, cost);
        }
        self.made((known.call)(&values)?, cost)
    }

    /// Returns the least cost of a call that compares items with each other, or goes through lists in a list. Its own cost
    /// ignores how large these are.
    fn looks_inside(&self, known: &Function, values: &[Value<'a>]) -> u64 {
        if known.name == "flatten" {
            return lists::flattened(values, self.budget.left().saturating_add(1));
        }
        let others = match known.cost {
            CallCost::Pairs { .. } if values.iter().any(|value| value.size() == 0) => return 0,
            CallCost::Pairs { .. } => values.iter().map(Value::size).max().unwrap_or(0),
            CallCost::Distinct | CallCost::Sort => values[0].size(),
            _ if known.name.ends_with("ndexOf") && matches!(values[0], Value::List(_)) => 1,
            _ => return 0,
        };
        let limit = self.budget.left().saturating_add(1).saturating_mul(UNCHARGED_COMPARISONS);
        let extents = values.iter().map(|value| extent(value, limit)).fold(0, u64::saturating_add);
        extents.saturating_mul(others as u64) / UNCHARGED_COMPARISONS
    }

    /// Returns the result of a call, and charges what is larger than the call's cost.
    fn made(&mut self, result: Value<'a>, cost: u64) -> Outcome<'a> {
        let made = match &result {
            Value::Text(_) | Value::Bytes(_) => tenth(result.size() as u64),
            Value::List(_) | Value::Map(_) => result.size() as u64,
            _ => 0,
        };
        self.budget.charge(made.saturating_sub(cost))?;
        Ok(result)
    }

    /// Compiles the pattern of a search, which is no constant.
    fn compiled(&mut self, values: &[Value<'a>]) -> Result<Pattern, EvaluationError> {
        let text = values.get(1).and_then(Value::as_text).ok_or(EvaluationError::NoSuchOverload)?;
        self.budget.charge((text.len() as u64).saturating_mul(PATTERN_BYTE_COST))?;
        Pattern::new(text).map_err(|reason| EvaluationError::Invalid(format!("the pattern {reason}")))
    }

    /// Returns the result of `||`, whose value `decisive` needs no other one, or of `&&`. An error of one side does not
    /// matter if the other one decides.
    fn either(&mut self, left: &'e Node, right: &'e Node, decisive: bool) -> Outcome<'a> {
        let left = self.value(left).and_then(|value| truth(&value));
        if left == Ok(decisive) || left == Err(EvaluationError::Exhausted) {
            return left.map(Value::Bool);
        }
        let right = self.value(right).and_then(|value| truth(&value));
        if right == Ok(decisive) || right == Err(EvaluationError::Exhausted) {
            return right.map(Value::Bool);
        }
        left.and(right).map(Value::Bool)
    }

    fn list(&mut self, entries: &'e [Entry]) -> Outcome<'a> {
        self.budget.charge(10)?;
        let mut items = Vec::with_capacity(entries.len());
        for entry in entries {
            items.extend(self.entry(entry)?);
        }
        Ok(Value::list(items))
    }

    fn map(&mut self, entries: &'e [(Node, Entry)]) -> Outcome<'a> {
        self.budget.charge(30)?;
        let mut known = OwnedMap::default();
        for (key, entry) in entries {
            let key = self.value(key)?;
            if let Some(value) = self.entry(entry)? {
                known.insert(key, value)?;
            }
        }
        Ok(Value::Map(Map::Owned(Rc::new(known))))
    }

    fn message(&mut self, name: &Arc<str>, fields: &'e [MessageField]) -> Outcome<'a> {
        self.budget.charge(MESSAGE_COST)?;
        let mut known = BTreeMap::new();
        for MessageField { name, entry, .. } in fields {
            if let Some(value) = self.entry(entry)? {
                known.insert(Arc::clone(name), value);
            }
        }
        Ok(Value::Message(Rc::new(Message { name: Arc::clone(name), fields: known })))
    }

    /// Returns the value of an entry; `None` for an optional one that is absent.
    fn entry(&mut self, entry: &'e Entry) -> Result<Option<Value<'a>>, EvaluationError> {
        match (self.value(&entry.value)?, entry.optional) {
            (value, false) => Ok(Some(value)),
            (Value::Optional(value), true) => Ok(value.map(|value| (*value).clone())),
            (_, true) => Err(EvaluationError::NoSuchOverload),
        }
    }

    fn charge_operator(
        &mut self,
        operator: Operator,
        left: &Value<'a>,
        right: &Value<'a>,
    ) -> Result<(), EvaluationError> {
        let tenth = |size: usize| tenth(size as u64);
        let limit = self.budget.left().saturating_add(1);
        let extent = |value| extent(value, limit);
        let cost = match operator {
            Operator::Equal | Operator::NotEqual => match (left, right) {
                (Value::List(items), Value::List(others))
                    if *items.identity() != ItemIdentity::Position && others.len() > 0 =>
                {
                    extent(left).saturating_mul(others.len() as u64)
                }
                (Value::List(_) | Value::Map(_) | Value::Message(_) | Value::Optional(_), _) => {
                    least_extent(left, right, limit)
                }
                _ => tenth(left.size().min(right.size())),
            },
            Operator::Less | Operator::LessOrEqual | Operator::Greater | Operator::GreaterOrEqual => {
                tenth(left.size().min(right.size()))
            }
            Operator::In => match right {
                Value::List(list) if list.len() == 0 => 1,
                Value::List(list) => (list.len() as u64).saturating_mul(extent(left)),
                _ => right.size() as u64,
            },
            // Each list of a document is copied; where items have an identity, it is searched.
            Operator::Add => match (left, right) {
                (Value::List(left), Value::List(right)) if *left.identity() != ItemIdentity::Position => {
                    ((left.len() + right.len()) as u64).saturating_mul(right.len() as u64)
                }
                (Value::List(_), _) | (Value::Text(_) | Value::Bytes(_), _) => tenth(left.size() + right.size()),
                _ => 1,
            },
            _ => 1,
        };
        self.budget.charge(cost.max(1))
    }
}

pub(crate) fn constant<'a>(literal: &Literal) -> Outcome<'a> {
    Ok(match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(number) => Value::Int(*number),
        Literal::IntBelowZero => return Err(EvaluationError::Overflow),
        Literal::Uint(number) => Value::Uint(*number),
        Literal::Double(number) => Value::Double(*number),
        Literal::Text(text) => Value::text(text.as_str()),
        Literal::Bytes(bytes) => Value::Bytes(Rc::new(bytes.clone())),
    })
}

/// Returns the name of a type that expressions can compare `type(x)` with.
pub(crate) fn type_name(name: &str) -> Option<&'static str> {
    const NAMES: [&str; 13] = [
        "bool",
        "bytes",
        "double",
        "int",
        "list",
        "map",
        "null_type",
        "string",
        "type",
        "uint",
        "optional_type",
        "google.protobuf.Timestamp",
        "google.protobuf.Duration",
    ];
    NAMES.into_iter().find(|known| *known == name)
}

/// Returns a truth value.
pub(crate) fn truth(value: &Value<'_>) -> Result<bool, EvaluationError> {
    match value {
        Value::Bool(value) => Ok(*value),
        _ => Err(EvaluationError::NoSuchOverload),
    }
}

/// Returns the value itself, or that of an optional one.
fn content<'v, 'a>(value: &'v Value<'a>) -> Option<&'v Value<'a>> {
    match value {
        Value::Optional(content) => content.as_deref(),
        value => Some(value),
    }
}

fn selected<'a>(of: &Value<'a>, field: &str) -> Outcome<'a> {
    match of {
        Value::Map(map) => map.field(field).ok_or_else(|| EvaluationError::NoSuchKey(field.to_owned())),
        Value::Message(message) => Ok(message.field(field)),
        // As cel-go says of all values without fields.
        _ => Err(EvaluationError::NoSuchKey(field.to_owned())),
    }
}

fn optional_field<'a>(of: &Value<'a>, field: &str) -> Outcome<'a> {
    match content(of) {
        None => Ok(Value::Optional(None)),
        Some(Value::Map(map)) => Ok(Value::Optional(map.field(field).map(Rc::new))),
        Some(Value::Message(message)) => Ok(Value::Optional(message.fields.get(field).cloned().map(Rc::new))),
        Some(_) => Err(EvaluationError::NoSuchOverload),
    }
}

fn indexed<'a>(of: &Value<'a>, index: &Value<'a>) -> Outcome<'a> {
    match (of, index) {
        (Value::List(list), index) => {
            let at = match index {
                Value::Int(at) => *at,
                Value::Uint(at) => i64::try_from(*at).unwrap_or(-1),
                #[expect(clippy::cast_possible_truncation, reason = "the number is whole")]
                Value::Double(at) if at.fract() == 0.0 => *at as i64,
                _ => return Err(EvaluationError::NoSuchOverload),
            };
            let found = usize::try_from(at).ok().and_then(|at| list.get(at));
            found.ok_or_else(|| EvaluationError::Invalid(format!("index out of bounds: {at}")))
        }
        (Value::Map(map), key) => map
            .get(key)
            .ok_or_else(|| EvaluationError::NoSuchKey(key.as_text().map_or_else(|| format!("{key:?}"), str::to_owned))),
        _ => Err(EvaluationError::NoSuchOverload),
    }
}
