//! The rules of a schema in CEL: `x-kubernetes-validations`.
//!
//! A rule of a part of a schema sees that part of the document as `self`. The corresponding part before the write is
//! `oldSelf`: the same field, the same key of a map, or the item with the same identity in a list. A rule with `oldSelf` is skipped without one, unless it says `optionalOldSelf`. A part that has not changed keeps
//! violating the other rules, so that a new rule does not make stored resources unusable. Source: Kubernetes.

mod declared_type;
mod keywords;
mod parse;

use std::cell::OnceCell;
use std::sync::Arc;

use homeostat_cel::{Budget, EvaluationError, Expression, Output, Type, Variable};
use serde_json::Value;

use super::check::NO_PATH;
use super::correlation::{by_identity, identity, is_same};
use super::{ListType, Reason, Schema, VIOLATIONS_MAX, Violation};
use crate::path::Path;
use crate::violation::{shown, type_name};

pub use keywords::keyword_violations;
pub(super) use parse::{parse, parse_draft};

/// Largest cost of one evaluation, which is about a twentieth of a second. Source: Kubernetes.
const EXPRESSION_COST_MAX: u64 = 1_000_000;
/// Largest cost of all evaluations for one write. Source: Kubernetes.
pub(super) const DOCUMENT_COST_MAX: u64 = 10_000_000;
/// Longest message that an expression makes, in bytes. Source: Kubernetes.
const MESSAGE_BYTES_MAX: usize = 5 << 10;

/// The rules of one part of a schema.
#[derive(Debug, Clone)]
pub(super) struct PartRules {
    /// The type of the part.
    self_type: Type,
    rules: Vec<Rule>,
    /// Why other rules of a draft were not compiled.
    not_compiled: Vec<String>,
    /// Their source, by which they are compared.
    source: Arc<Value>,
}

impl PartialEq for PartRules {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

/// A rule.
#[derive(Debug, Clone)]
struct Rule {
    /// As written.
    text: String,
    expression: Expression,
    message: Option<String>,
    message_expression: Option<Expression>,
    reason: Reason,
    /// The field that a violation names, below the part.
    field: Option<String>,
    uses_old: bool,
    /// Whether `oldSelf` is an optional value.
    old_is_optional: bool,
}

/// Returns the violations of the rules of a schema by a whole resource. `old` is the resource before the write, `None`
/// for one that is created.
pub(super) fn check(schema: &Schema, resource: &Value, old: Option<&Value>) -> Vec<Violation> {
    let mut checker = RuleChecker { found: Vec::new(), budget: Budget::new(DOCUMENT_COST_MAX), is_exhausted: false };
    let before = Before { same_part: old, is_created: old.is_none(), parent: None };
    checker.part(schema, resource, before, &Path::ROOT);
    checker.found
}

/// Returns the violations of the rules of a part by its default, within a budget for all defaults of a schema. As in
/// Kubernetes, a default follows itself, and then nothing.
pub(super) fn check_default(schema: &Schema, default: &Value, budget: &mut Budget) -> Vec<Violation> {
    let mut checker = RuleChecker { found: Vec::new(), budget: Budget::new(budget.left()), is_exhausted: false };
    for same_part in [Some(default), None] {
        if checker.found.is_empty() {
            let before = Before { same_part, is_created: true, parent: None };
            checker.part(schema, default, before, &Path::ROOT);
        }
    }
    *budget = checker.budget;
    checker.found
}

/// A part of the document before the write.
#[derive(Clone, Copy)]
struct Before<'a> {
    /// The corresponding part.
    same_part: Option<&'a Value>,
    /// Whether the whole resource is created.
    is_created: bool,
    /// The nearest part above that has a corresponding one.
    parent: Option<&'a ParentBefore<'a>>,
}

/// A part above others.
struct ParentBefore<'a> {
    schema: &'a Schema,
    old: &'a Value,
    now: &'a Value,
    /// Whether it is as it was, once that is known: many parts below may ask.
    is_same: OnceCell<bool>,
}

impl Before<'_> {
    /// Returns whether the part, or one above it, is as it was.
    fn is_unchanged(self, schema: &Schema, value: &Value) -> bool {
        match (self.same_part, self.parent) {
            (Some(old), _) => is_same(schema, old, value),
            (None, Some(ParentBefore { schema, old, now, is_same: known })) => {
                *known.get_or_init(|| is_same(schema, old, now))
            }
            (None, None) => false,
        }
    }
}

/// A check in progress.
struct RuleChecker {
    found: Vec<Violation>,
    budget: Budget,
    /// Whether the cost of evaluations has reached a bound.
    is_exhausted: bool,
}

impl RuleChecker {
    /// Returns whether no further rule counts.
    fn is_over(&self) -> bool {
        self.is_exhausted || self.found.len() >= VIOLATIONS_MAX
    }

    fn add(&mut self, path: String, reason: Reason, detail: String) {
        let path = if path.is_empty() { NO_PATH.to_owned() } else { path };
        self.found.push(Violation { path, reason, detail });
    }

    fn part<'a>(&mut self, schema: &'a Schema, value: &'a Value, before: Before<'a>, path: &Path<'_>) {
        if !schema.has_rules || value.is_null() || self.is_over() {
            return;
        }
        if let Some(rules) = &schema.rules_of_part {
            self.rules(rules, (schema, value), before, path);
        }
        let here = before.same_part.map(|old| ParentBefore { schema, old, now: value, is_same: OnceCell::new() });
        let parent = here.as_ref().or(before.parent);
        let below = |same_part| Before { same_part, is_created: before.is_created, parent };
        match value {
            Value::Object(fields) => {
                let old = before.same_part.and_then(Value::as_object);
                for (name, field) in fields {
                    let path = if schema.properties.contains_key(name) { path.field(name) } else { path.key(name) };
                    if let Some(part) = schema.field(name) {
                        let same_part = old.and_then(|old| old.get(name));
                        self.part(part, field, below(same_part), &path);
                    }
                }
            }
            Value::Array(items) => {
                let Some(part) = schema.items() else { return };
                let old = by_identity(&schema.list, before.same_part.and_then(Value::as_array));
                for (at, item) in items.iter().enumerate() {
                    let same_part = match &schema.list {
                        ListType::Map(keys) if !old.is_empty() => old.get(&identity(keys, item)).copied(),
                        _ => None,
                    };
                    self.part(part, item, below(same_part), &path.item(at));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn rules(&mut self, rules: &PartRules, (schema, value): (&Schema, &Value), before: Before<'_>, path: &Path<'_>) {
        for fault in &rules.not_compiled {
            let detail = format!("{:?}: rule compile error: {fault}", type_name(value));
            self.add(path.to_string(), Reason::Invalid, detail);
        }
        for rule in &rules.rules {
            if self.is_over() {
                return;
            }
            let old = before.same_part.filter(|old| !old.is_null());
            if rule.uses_old && old.is_none() && !rule.old_is_optional {
                continue;
            }
            let old = old.map(|old| (old, &rules.self_type));
            let old = match (rule.old_is_optional, old) {
                (true, old) => Some(Variable::Optional(old)),
                (false, Some((old, of_type))) => Some(Variable::Document(old, of_type)),
                (false, None) => None,
            };
            let mut variables = vec![("self", Variable::Document(value, &rules.self_type))];
            variables.extend(old.map(|old| ("oldSelf", old)));
            match self.evaluate(&rule.expression, &variables) {
                Ok(Output::Bool(true)) => {}
                Ok(_) if !rule.uses_old && !before.is_created && before.is_unchanged(schema, value) => {}
                Ok(_) => self.violation(rule, value, &variables, path),
                Err(error) => self.failure(rule, value, &error, path),
            }
        }
    }

    /// Evaluates an expression within both bounds.
    fn evaluate(
        &mut self,
        expression: &Expression,
        variables: &[(&str, Variable<'_>)],
    ) -> Result<Output, EvaluationError> {
        let units = self.budget.left().min(EXPRESSION_COST_MAX);
        let mut budget = Budget::new(units);
        let output = expression.evaluate(variables, &mut budget);
        self.budget = Budget::new(self.budget.left() - (units - budget.left()));
        output
    }

    /// Adds the failure of an evaluation.
    fn failure(&mut self, rule: &Rule, value: &Value, error: &EvaluationError, path: &Path<'_>) {
        let name = type_name(value);
        let about = rule.message.as_deref().unwrap_or(rule.text.trim());
        let detail = match error {
            EvaluationError::Exhausted if self.budget.left() == 0 => {
                self.is_exhausted = true;
                format!(
                    "{name:?}: validation failed due to running out of cost budget, no further validation rules will be run"
                )
            }
            EvaluationError::Exhausted => {
                self.is_exhausted = true;
                format!(
                    "{name:?}: '{error}': no further validation rules will be run due to call cost exceeds limit for \
                     rule: {about}"
                )
            }
            EvaluationError::NoSuchOverload => format!(
                "{name:?}: '{error}': call arguments did not match a supported operator, function or macro signature for \
                 rule: {about}"
            ),
            _ => format!("{name:?}: {error} evaluating rule: {about}"),
        };
        self.add(path.to_string(), Reason::Invalid, detail);
    }

    /// Adds the violation of a rule.
    fn violation(&mut self, rule: &Rule, value: &Value, variables: &[(&str, Variable<'_>)], path: &Path<'_>) {
        let made = rule.message_expression.as_ref().and_then(|expression| self.message(expression, variables));
        let written = || rule.message.clone().unwrap_or_else(|| format!("failed rule: {}", rule.text.trim()));
        let message = made.unwrap_or_else(written);
        let path = match &rule.field {
            Some(field) if path.to_string().is_empty() => field.clone(),
            Some(field) => format!("{path}.{field}"),
            None => path.to_string(),
        };
        let is_scalar = !value.is_object() && !value.is_array();
        let detail = match rule.reason {
            Reason::Required | Reason::Forbidden => message,
            Reason::Duplicate if is_scalar => shown(value),
            Reason::Duplicate => String::new(),
            _ if is_scalar => format!("{}: {message}", shown(value)),
            _ => message,
        };
        self.add(path, rule.reason, detail);
    }

    /// Returns the message that an expression makes; `None` if it makes no usable one.
    fn message(&mut self, expression: &Expression, variables: &[(&str, Variable<'_>)]) -> Option<String> {
        match self.evaluate(expression, variables) {
            Ok(Output::Text(text)) => {
                let text = text.trim();
                let is_usable = !text.is_empty() && text.len() <= MESSAGE_BYTES_MAX && !text.contains('\n');
                is_usable.then(|| text.to_owned())
            }
            Err(EvaluationError::Exhausted) => {
                self.is_exhausted = true;
                None
            }
            Ok(_) | Err(_) => None,
        }
    }
}
