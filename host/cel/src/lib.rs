//! The Common Expression Language (CEL), as far as rules of Kubernetes use it.
//!
//! An [`Expression`] is compiled once: its names and types are checked against those of a schema, and its largest cost is
//! estimated. An evaluation reads the document in place and has a [`Budget`], so that its time is bounded whatever the
//! expression and the document are. Evaluations are pure: equal documents have equal results and costs.
//!
//! Source of all functions, messages and costs: Kubernetes 1.36 with cel-go. Its macros, operators and libraries exist,
//! except for `authorizer`, which rules of definitions cannot use.
//!
//! Schemas use [`Pattern`], [`quantity`] and [`names`], too.
//!
//! Deliberately absent: schemas, documents with their paths, clocks and I/O.

mod check;
mod equality;
mod error;
mod evaluate;
mod functions;
pub mod names;
mod objects;
mod operators;
mod parse;
mod pattern;
pub mod quantity;
mod syntax;
#[cfg(test)]
mod tests;
mod token;
mod types;
mod value;

use std::collections::HashMap;
use std::fmt;

use serde_json::Value as Json;

use check::{Checker, Estimate};
pub use error::EvaluationError;
pub use evaluate::Budget;
use evaluate::Evaluation;
pub use objects::time::duration;
pub use pattern::Pattern;
use syntax::{Node, NodeKind};
pub use types::{Field, ItemIdentity, ListType, MapType, ObjectType, Type, escaped};
use value::Value;

/// A compiled expression.
#[derive(Debug, Clone)]
pub struct Expression {
    node: Node,
    result: Type,
    cost_max: u64,
}

/// The name below which expressions find definitions.
const DEFINITIONS: &str = "variables";

/// Named expressions, which others use as `variables.name`: the variables of an admission policy. Each may use those
/// before it, and is evaluated when an expression first uses it.
#[derive(Debug, Clone, Default)]
pub struct Definitions(Vec<(String, Expression)>);

impl Definitions {
    /// Compiles an expression, and adds it under a name.
    ///
    /// # Errors
    /// As [`Expression::compile`].
    pub fn define(&mut self, name: &str, source: &str, variables: &[(&str, Type)]) -> Result<(), CompileError> {
        let expression = Expression::compile_with(source, variables, self)?;
        self.0.push((name.to_owned(), expression));
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn position(&self, name: &str) -> Option<(usize, &Expression)> {
        self.0.iter().enumerate().find(|(_, (known, _))| known == name).map(|(at, (_, expression))| (at, expression))
    }

    fn node(&self, at: usize) -> Option<(&str, &Node)> {
        self.0.get(at).map(|(name, expression)| (name.as_str(), &expression.node))
    }
}

/// The value of a variable.
#[derive(Debug, Clone, Copy)]
pub enum Variable<'a> {
    /// A part of a document, and its type.
    Document(&'a Json, &'a Type),
    /// A part of a document that may be missing, as an optional value.
    Optional(Option<(&'a Json, &'a Type)>),
}

impl<'a> Variable<'a> {
    fn value(self) -> Value<'a> {
        match self {
            Self::Document(json, of_type) => Value::of(json, of_type),
            Self::Optional(content) => Value::Optional(content.map(|(json, of_type)| Value::of(json, of_type).into())),
        }
    }
}

/// The result of an evaluation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// A truth value.
    Bool(bool),
    /// A text.
    Text(String),
    /// A value of another type, which has this name.
    Other(&'static str),
}

impl Expression {
    /// Compiles an expression with variables of these types.
    ///
    /// # Errors
    /// When it is malformed, longer than 64 KiB or nested deeper than 80 levels, when it uses an unknown name, or when
    /// types do not fit.
    pub fn compile(source: &str, variables: &[(&str, Type)]) -> Result<Self, CompileError> {
        Self::compiled(source, variables, None)
    }

    /// As [`Expression::compile`], for an expression that may use definitions.
    ///
    /// # Errors
    /// As [`Expression::compile`].
    pub fn compile_with(
        source: &str,
        variables: &[(&str, Type)],
        definitions: &Definitions,
    ) -> Result<Self, CompileError> {
        Self::compiled(source, variables, Some(definitions))
    }

    fn compiled(
        source: &str,
        variables: &[(&str, Type)],
        definitions: Option<&Definitions>,
    ) -> Result<Self, CompileError> {
        let mut node = parse::parse(source)?;
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let Estimate { value, cost } = Checker { source, variables, definitions }.node(&mut node)?;
        Ok(Self { node, result: value, cost_max: cost })
    }

    /// Returns the type of the result.
    pub fn result(&self) -> &Type {
        &self.result
    }

    /// Returns the largest cost of an evaluation, in units of a [`Budget`], by the sizes of the types; `u64::MAX` for
    /// one without a bound.
    pub fn cost_max(&self) -> u64 {
        self.cost_max
    }

    /// Returns whether the expression uses a variable.
    pub fn uses(&self, variable: &str) -> bool {
        uses(&self.node, variable)
    }

    /// Evaluates the expression, and takes its cost from a budget.
    ///
    /// # Errors
    /// `Exhausted` when the budget does not suffice, after which nothing of it is left.
    pub fn evaluate<'a>(
        &self,
        variables: &[(&str, Variable<'a>)],
        budget: &mut Budget,
    ) -> Result<Output, EvaluationError> {
        self.evaluate_with(variables, &Definitions::default(), budget)
    }

    /// As [`Expression::evaluate`], with the definitions with which it was compiled.
    ///
    /// # Errors
    /// As [`Expression::evaluate`].
    pub fn evaluate_with<'a>(
        &self,
        variables: &[(&str, Variable<'a>)],
        definitions: &Definitions,
        budget: &mut Budget,
    ) -> Result<Output, EvaluationError> {
        let variables: Vec<_> = variables.iter().map(|(name, variable)| (*name, variable.value())).collect();
        let outermost = variables.len();
        let mut evaluation = Evaluation { variables, definitions, defined: HashMap::default(), outermost, budget };
        match evaluation.value(&self.node)? {
            Value::Bool(value) => Ok(Output::Bool(value)),
            Value::Text(text) => Ok(Output::Text(text.to_string())),
            other => Ok(Output::Other(other.type_name())),
        }
    }
}

fn uses(node: &Node, variable: &str) -> bool {
    matches!(&node.kind, NodeKind::Name(name) if name == variable) || node.kind.parts().any(|part| uses(part, variable))
}

/// Why an expression cannot be compiled, and where. Its text has the form of cel-go's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileError {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// The reason.
    pub reason: String,
    /// The text of the line.
    snippet: String,
}

impl CompileError {
    /// Creates an error about the place `at` in bytes.
    fn at(source: &str, at: usize, reason: &str) -> Self {
        let before = source.get(..at).unwrap_or(source);
        let start = before.rfind('\n').map_or(0, |end| end + 1);
        Self {
            line: before.matches('\n').count() + 1,
            column: before[start..].chars().count() + 1,
            reason: reason.to_owned(),
            snippet: source[start..].lines().next().unwrap_or("").chars().take(200).collect(),
        }
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, column, reason, snippet } = self;
        let dots = ".".repeat((column - 1).min(200));
        write!(f, "ERROR: <input>:{line}:{column}: {reason}\n | {snippet}\n | {dots}^")
    }
}

impl std::error::Error for CompileError {}
