//! Checks the names and types of an expression before its first evaluation, and estimates its largest cost.
//!
//! The estimate is that of Kubernetes. An operation on a number costs one, an operation on a text a tenth of its length,
//! and a macro the largest size of its range times its body.

mod calls;
mod messages;
mod operators;
mod place;

use std::sync::Arc;

use self::place::Place;
use crate::evaluate::type_name;
use crate::functions::LIBRARIES;
use crate::syntax::{Entry, Fold, FoldKind, Literal, Node, NodeKind, Operator};
use crate::types::Type;
use crate::{CompileError, DEFINITIONS, Definitions};

/// Type and cost of a part of an expression.
#[derive(Debug, Clone)]
pub(crate) struct Estimate {
    pub(crate) value: Type,
    /// Its largest cost.
    pub(crate) cost: u64,
    place: Place,
}

impl Estimate {
    /// Returns the estimate for a value that an expression makes.
    fn made(value: Type, cost: u64) -> Self {
        Self { value, cost, place: Place::Nowhere }
    }

    /// Returns the estimate for a value at a place.
    fn at(place: Place, value: Type, cost: u64) -> Self {
        Self { value: place.sized(value), cost, place }
    }

    /// Returns the largest size of the value.
    fn size_max(&self) -> u64 {
        self.place.size_max(&self.value)
    }
}

/// A variable.
pub(crate) struct CheckedVariable {
    name: String,
    value: Type,
    place: Place,
}

impl CheckedVariable {
    /// Returns a variable of the whole expression. Those of a rule have their place in its schema.
    pub(crate) fn new((name, value): (String, Type)) -> Self {
        let is_root = name == ROOT || (name == OLD_ROOT && !matches!(value, Type::Optional(_)));
        let place = if is_root { Place::At(value.clone()) } else { Place::Nowhere };
        Self { name, value, place }
    }
}

/// The variables of a rule: the value that it is about, and the one before.
const ROOT: &str = "self";
const OLD_ROOT: &str = "oldSelf";

type Outcome = Result<Estimate, CompileError>;

/// A check in progress.
pub(crate) struct Checker<'s> {
    pub(crate) source: &'s str,
    /// Variables, the innermost last.
    pub(crate) variables: Vec<CheckedVariable>,
    /// What `variables` has; `None` if there is no such name.
    pub(crate) definitions: Option<&'s Definitions>,
    /// The expression may make messages, and use the functions for patches.
    pub(crate) makes_patch: bool,
    /// How many calls of `format` the node is in. Lists and maps in them may have values of several types.
    pub(crate) formats: usize,
}

impl Checker<'_> {
    fn error(&self, at: usize, reason: &str) -> CompileError {
        CompileError::at(self.source, at, reason)
    }

    fn no_overload(&self, at: usize, function: &str, arguments: &[&Type], is_member: bool) -> CompileError {
        let texts: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let applied = match texts.split_first() {
            Some((target, rest)) if is_member => format!("{target}.({})", rest.join(", ")),
            _ => format!("({})", texts.join(", ")),
        };
        self.error(at, &format!("found no matching overload for '{function}' applied to '{applied}'"))
    }

    fn variable(&self, name: &str) -> Option<&CheckedVariable> {
        self.variables.iter().rev().find(|known| known.name == name)
    }

    /// Returns the type of the value that a rule is about.
    fn root(&self) -> Option<&Type> {
        self.variables.iter().find(|known| known.name == ROOT).map(|known| &known.value)
    }

    /// Puts a variable of a macro before all others.
    fn push(&mut self, name: &str, value: Type, place: Place) {
        let value = place.sized(value);
        self.variables.push(CheckedVariable { name: name.to_owned(), value, place });
    }

    /// Puts the index of a definition in the place of its name, and returns its type. A variable of a macro can hide all.
    fn defined(&self, node: &mut Node) -> Result<Option<Estimate>, CompileError> {
        let are_declared = |known: &&Definitions| self.makes_patch || known.is_declared();
        let definitions = self.definitions.filter(are_declared).filter(|_| self.variable(DEFINITIONS).is_none());
        let Some(definitions) = definitions else {
            return Ok(None);
        };
        let NodeKind::Select { of, field, optional: false } = &node.kind else { return Ok(None) };
        if !matches!(&of.kind, NodeKind::Name(name) if name == DEFINITIONS) {
            return Ok(None);
        }
        let found = definitions.position(field);
        let (at, expression) = found.ok_or_else(|| self.error(node.at, &format!("undefined field '{field}'")))?;
        let (value, cost) = (expression.result().clone(), expression.cost_max().saturating_add(2));
        node.kind = NodeKind::Defined(at);
        Ok(Some(Estimate::made(value, cost)))
    }

    /// Checks a node, and notes which functions it calls.
    pub(crate) fn node(&mut self, node: &mut Node) -> Outcome {
        let at = node.at;
        if let Some(name) = self.qualified_type(node) {
            node.kind = NodeKind::Name(name.to_owned());
        }
        if let Some(defined) = self.defined(node)? {
            return Ok(defined);
        }
        match &mut node.kind {
            NodeKind::Defined(_) => Err(self.error(at, "a definition is checked once")),
            NodeKind::Literal(literal) => Ok(Estimate::made(type_of(literal), 0)),
            NodeKind::Name(name) => self.name(at, name),
            NodeKind::Select { of, field, optional } => {
                let of = self.node(of)?;
                self.select(at, of, field, *optional)
            }
            NodeKind::Has { of, field } => {
                let Estimate { value, cost, .. } = self.node(of)?;
                self.field(at, &value, field, false)?;
                Ok(Estimate::made(Type::Bool, cost))
            }
            NodeKind::Index { of, index, optional } => {
                let (of, index) = (self.node(of)?, self.node(index)?);
                self.index(at, &of, &index, *optional)
            }
            NodeKind::Call { .. } => self.call(node),
            NodeKind::Not(of) => {
                let Estimate { value, cost, .. } = self.node(of)?;
                if !value.fits(&Type::Bool) {
                    return Err(self.no_overload(at, "!_", &[&value], false));
                }
                Ok(Estimate::made(Type::Bool, cost.saturating_add(1)))
            }
            NodeKind::Negative(of) => {
                let Estimate { value, cost, .. } = self.node(of)?;
                if !matches!(value, Type::Int | Type::Double | Type::Dyn) {
                    return Err(self.no_overload(at, "-_", &[&value], false));
                }
                Ok(Estimate::made(value, cost.saturating_add(1)))
            }
            NodeKind::Binary { operator, left, right } => {
                let (left, right) = (self.node(left)?, self.node(right)?);
                self.binary(at, *operator, left, right)
            }
            NodeKind::Conditional { condition, then, otherwise } => {
                let condition = self.node(condition)?;
                let (then, otherwise) = (self.node(then)?, self.node(otherwise)?);
                if !condition.value.fits(&Type::Bool) || !then.value.fits(&otherwise.value) {
                    let types = [&condition.value, &then.value, &otherwise.value];
                    return Err(self.no_overload(at, "_?_:_", &types, false));
                }
                let cost = condition.cost.saturating_add(then.cost.max(otherwise.cost));
                Ok(Estimate::made(union(then.value, &otherwise.value), cost))
            }
            NodeKind::List(entries) => self.list(entries),
            NodeKind::Map(entries) => self.map(entries),
            NodeKind::Message { name, fields } => self.message(at, name, fields),
            NodeKind::Fold(fold) => self.fold(at, fold),
            NodeKind::OptionalMap { of, name, body, is_flat } => self.optional_map(at, (of, body), name, *is_flat),
        }
    }

    fn name(&self, at: usize, name: &str) -> Outcome {
        if let Some(CheckedVariable { value, place, .. }) = self.variable(name) {
            return Ok(Estimate::at(place.clone(), value.clone(), 1));
        }
        let known = type_name(name).map(|_| Estimate::made(Type::TypeName, 1));
        known.ok_or_else(|| self.error(at, &format!("undeclared reference to '{name}' (in container '')")))
    }

    fn select(&self, at: usize, of: Estimate, field: &str, optional: bool) -> Outcome {
        let Estimate { value, cost, place } = of;
        let is_optional = optional || matches!(value, Type::Optional(_));
        let place = if is_optional { Place::Nowhere } else { place.field(field, self.root()) };
        Ok(Estimate::at(place, self.field(at, &value, field, optional)?, cost.saturating_add(1)))
    }

    fn index(&self, at: usize, of: &Estimate, index: &Estimate, optional: bool) -> Outcome {
        let cost = of.cost.saturating_add(index.cost).saturating_add(1);
        let (inner, is_optional) = match &of.value {
            Type::Optional(inner) => (&**inner, true),
            other => (other, optional),
        };
        let item = match inner {
            Type::List(list) if index.value.fits(&Type::Int) || index.value == Type::Uint => list.item.clone(),
            Type::Map(map) if index.value.fits(&map.key) => map.value.clone(),
            Type::Dyn => Type::Dyn,
            _ => return Err(self.no_overload(at, "_[_]", &[&of.value, &index.value], false)),
        };
        if is_optional {
            return Ok(Estimate::made(Type::Optional(item.into()), cost));
        }
        // The items of a list that the expression spells have the sizes that are spelt.
        let is_made = matches!(of.place, Place::Nowhere);
        let place = if is_made { Place::Nowhere } else { of.place.item(self.root()) };
        Ok(Estimate::at(place, item, cost))
    }

    fn optional_map(&mut self, at: usize, (of, body): (&mut Node, &mut Node), name: &str, is_flat: bool) -> Outcome {
        let of = self.node(of)?;
        let inner = match &of.value {
            Type::Optional(inner) => (**inner).clone(),
            Type::Dyn => Type::Dyn,
            _ => return Err(self.no_overload(at, "optMap", &[&of.value], true)),
        };
        self.push(name, inner.of_any_size(), Place::Nowhere);
        let body = self.node(body);
        self.variables.pop();
        let Estimate { value, cost, .. } = body?;
        let value = match (&value, is_flat) {
            (Type::Optional(_) | Type::Dyn, true) => value,
            (_, true) => return Err(self.no_overload(at, "optFlatMap", &[&of.value, &value], true)),
            (_, false) => Type::Optional(value.into()),
        };
        Ok(Estimate::made(value, of.cost.saturating_add(cost).saturating_add(3)))
    }

    fn field(&self, at: usize, of: &Type, field: &str, optional: bool) -> Result<Type, CompileError> {
        let (of, is_optional) = match of {
            Type::Optional(of) => (&**of, true),
            of => (of, optional),
        };
        let value = match of {
            Type::Object(object) => {
                let found = object.field(field).map(|field| field.value.clone());
                found.ok_or_else(|| self.error(at, &format!("undefined field '{field}'")))?
            }
            Type::Map(map) if map.key.fits(&Type::TEXT) => map.value.clone(),
            Type::Message(name) => {
                let found = messages::field(name, field);
                found.ok_or_else(|| self.error(at, &format!("undefined field '{field}'")))?
            }
            Type::Dyn => Type::Dyn,
            _ => return Err(self.error(at, &format!("type '{of}' does not support field selection"))),
        };
        Ok(if is_optional { Type::Optional(value.into()) } else { value })
    }

    /// Checks an entry of a list or a map.
    fn entry(&mut self, entry: &mut Entry) -> Outcome {
        let at = entry.value.at;
        let checked = self.node(&mut entry.value)?;
        match (&checked.value, entry.optional) {
            (_, false) => Ok(checked),
            (Type::Optional(inner), true) => Ok(Estimate::made((**inner).clone(), checked.cost)),
            (Type::Dyn, true) => Ok(checked),
            (other, true) => {
                Err(self.error(at, &format!("expected type 'optional_type({other})' but found '{other}'")))
            }
        }
    }

    /// Returns the type that all entries of a list or a map have. As in Kubernetes, a value of any type is no other one.
    fn common(&self, at: usize, known: Option<Type>, next: Type) -> Result<Type, CompileError> {
        match known {
            None => Ok(next),
            Some(known) if known.is(&next) => Ok(union(known, &next)),
            Some(_) if self.formats > 0 => Ok(Type::Dyn),
            Some(known) => Err(self.error(at, &format!("expected type '{known}' but found '{next}'"))),
        }
    }

    fn list(&mut self, entries: &mut [Entry]) -> Outcome {
        let (estimates, cost) = self.entries(entries)?;
        let mut item = None;
        for (entry, estimate) in entries.iter().zip(estimates) {
            item = Some(self.common(entry.value.at, item, estimate.value)?);
        }
        let value = Type::list(item.unwrap_or(Type::Dyn).of_any_size(), entries.len() as u64);
        Ok(Estimate::made(value, cost))
    }

    /// Checks the entries of a list, whose types may differ. Returns the cost of the list, too.
    fn entries(&mut self, entries: &mut [Entry]) -> Result<(Vec<Estimate>, u64), CompileError> {
        let estimates = entries.iter_mut().map(|entry| self.entry(entry)).collect::<Result<Vec<_>, _>>()?;
        let cost = estimates.iter().fold(10_u64, |cost, estimate| cost.saturating_add(estimate.cost));
        Ok((estimates, cost))
    }

    fn map(&mut self, entries: &mut [(Node, Entry)]) -> Outcome {
        let mut cost = 30_u64;
        let (mut key, mut value) = (None, None);
        let count = entries.len() as u64;
        for (name, entry) in entries {
            let name_checked = self.node(name)?;
            let checked = self.entry(entry)?;
            cost = cost.saturating_add(name_checked.cost).saturating_add(checked.cost);
            key = Some(self.common(name.at, key, name_checked.value)?);
            value = Some(self.common(entry.value.at, value, checked.value)?);
        }
        let value = Type::map(key.unwrap_or(Type::Dyn), value.unwrap_or(Type::Dyn), count);
        Ok(Estimate::made(value, cost))
    }

    fn fold(&mut self, at: usize, fold: &mut Fold) -> Outcome {
        let range = self.node(&mut fold.range)?;
        let (key, item, size) = match &range.value {
            Type::List(list) => (Type::Int, list.item.clone(), list.count_max),
            Type::Map(map) => (map.key.clone(), map.value.clone(), map.count_max),
            Type::Dyn => (Type::Dyn, Type::Dyn, u64::MAX),
            other => {
                let reason = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                return Err(self.error(fold.range.at, &reason));
            }
        };
        let is_map = matches!(range.value, Type::Map(_));
        let depth = self.variables.len();
        let (of_key, of_item) = (range.place.key(self.root()), range.place.item(self.root()));
        let is_key = fold.second.is_some() || is_map;
        let (first, place) = if is_key { (key.clone(), of_key) } else { (item.clone(), of_item.clone()) };
        self.push(&fold.first, first.clone(), place);
        if let Some(second) = &fold.second {
            self.push(second, item, of_item);
        }
        let condition = fold.condition.as_mut().map(|condition| (condition.at, self.node(condition)));
        let result = fold.result.as_mut().map(|result| self.node(result));
        self.variables.truncate(depth);
        let mut body = 0_u64;
        if let Some((at, condition)) = condition {
            let Estimate { value, cost, .. } = condition?;
            if !value.fits(&Type::Bool) {
                return Err(self.error(at, &format!("expected type 'bool' but found '{value}'")));
            }
            body = cost;
        }
        let result = result.transpose()?;
        body = body.saturating_add(result.as_ref().map_or(0, |result| result.cost));
        let result = result.map_or(Type::Dyn, |result| result.value);
        // Source: the expressions that cel-go makes of these macros.
        let (value, step, rest) = match fold.kind {
            FoldKind::All => (Type::Bool, 3, 1),
            FoldKind::Exists => (Type::Bool, 4, 1),
            FoldKind::ExistsOne => (Type::Bool, 2, 2),
            FoldKind::List => (Type::list(result.of_any_size(), size), 12, 11),
            FoldKind::Filter => (Type::list(first.of_any_size(), size), 13, 11),
            FoldKind::SortBy => {
                let is_sortable = matches!(
                    result,
                    Type::Int
                        | Type::Uint
                        | Type::Double
                        | Type::Text(_)
                        | Type::Bool
                        | Type::Bytes(_)
                        | Type::Duration
                        | Type::Timestamp
                        | Type::Dyn
                );
                if !is_sortable || is_map {
                    return Err(self.no_overload(at, "sortBy", &[&range.value, &result], true));
                }
                (range.value.clone(), size.saturating_add(12), 11)
            }
            FoldKind::Map => (Type::map(key.of_any_size(), result.of_any_size(), size), 3, 31),
            FoldKind::MapEntries => match &result {
                Type::Map(map) => (Type::map(map.key.clone(), map.value.clone(), size), 2, 31),
                Type::Dyn => (Type::map(Type::Dyn, Type::Dyn, size), 2, 31),
                _ => return Err(self.no_overload(at, "transformMapEntry", &[&range.value, &result], true)),
            },
        };
        let steps = size.saturating_mul(body.saturating_add(step));
        Ok(Estimate::made(value, range.cost.saturating_add(steps).saturating_add(rest)))
    }

    /// Returns the name of a type that has dots, if a node spells one and no variable hides it.
    fn qualified_type(&self, node: &Node) -> Option<&'static str> {
        let NodeKind::Select { of, field, optional: false } = &node.kind else { return None };
        let NodeKind::Select { of, field: middle, optional: false } = &of.kind else { return None };
        let NodeKind::Name(first) = &of.kind else { return None };
        let is_hidden = self.variable(first).is_some();
        type_name(&format!("{first}.{middle}.{field}")).filter(|_| !is_hidden)
    }

    /// Turns `library.function(…)` into a call without a target, unless there is a variable with that name.
    fn library_function(&self, function: &str, target: Option<&Node>) -> Option<String> {
        let NodeKind::Name(name) = &target?.kind else { return None };
        let is_library = LIBRARIES.contains(&name.as_str()) && self.variable(name).is_none();
        let is_library = is_library && (self.makes_patch || name != "jsonpatch");
        is_library.then(|| format!("{name}.{function}"))
    }
}

fn type_of(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) | Literal::IntBelowZero => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::Text(text) => Type::Text(text.len() as u64),
        Literal::Bytes(bytes) => Type::Bytes(bytes.len() as u64),
    }
}

/// Returns a type for the values of two that fit each other, with the larger sizes.
fn union(left: Type, right: &Type) -> Type {
    match (left, right) {
        (Type::Dyn, _) | (_, Type::Dyn) => Type::Dyn,
        (Type::Text(left), Type::Text(right)) => Type::Text(left.max(*right)),
        (Type::Bytes(left), Type::Bytes(right)) => Type::Bytes(left.max(*right)),
        // The items of an empty list have the type that is wanted.
        (Type::List(left), Type::List(right)) if left.count_max == 0 => Type::List(Arc::clone(right)),
        (left @ Type::List(_), Type::List(right)) if right.count_max == 0 => left,
        (Type::List(left), Type::List(right)) => {
            Type::list(union(left.item.clone(), &right.item), left.count_max.max(right.count_max))
        }
        (Type::Map(left), Type::Map(right)) => Type::map(
            union(left.key.clone(), &right.key),
            union(left.value.clone(), &right.value),
            left.count_max.max(right.count_max),
        ),
        (Type::Optional(left), Type::Optional(right)) => Type::Optional(union((*left).clone(), right).into()),
        (Type::Null, right) => right.clone(),
        (left, _) => left,
    }
}

/// Returns whether an operator compares the order of its values.
fn is_ordering(operator: Operator) -> bool {
    matches!(operator, Operator::Less | Operator::LessOrEqual | Operator::Greater | Operator::GreaterOrEqual)
}
