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
mod definitions;
mod equality;
mod error;
mod evaluate;
mod functions;
mod json;
mod messages;
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

use check::{CheckedVariable, Checker, Estimate};
pub use definitions::Definitions;
use definitions::{DEFINITIONS, NESTING_MAX};
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
    /// How many nodes are nested in it and in the definitions that it uses.
    depth: usize,
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
        Self::compiled(source, variables, None, false)
    }

    /// As [`Expression::compile`], for an expression that may use definitions.
    ///
    /// # Errors
    /// As [`Expression::compile`], and when it nests deeper than 250 levels with the definitions.
    pub fn compile_with(
        source: &str,
        variables: &[(&str, Type)],
        definitions: &Definitions,
    ) -> Result<Self, CompileError> {
        Self::compiled(source, variables, Some(definitions), false)
    }

    /// As [`Expression::compile_with`], for an expression that may make the messages of a patch, as `JSONPatch{…}` and
    /// `Object{…}`.
    ///
    /// # Errors
    /// As [`Expression::compile_with`].
    pub fn compile_patch(
        source: &str,
        variables: &[(&str, Type)],
        definitions: &Definitions,
    ) -> Result<Self, CompileError> {
        Self::compiled(source, variables, Some(definitions), true)
    }

    fn compiled(
        source: &str,
        variables: &[(&str, Type)],
        definitions: Option<&Definitions>,
        makes_patch: bool,
    ) -> Result<Self, CompileError> {
        let mut node = parse::parse(source)?;
        let variables =
            variables.iter().map(|(name, value)| CheckedVariable::new(((*name).to_owned(), value.clone()))).collect();
        let mut checker = Checker { source, variables, definitions, makes_patch, formats: 0 };
        let Estimate { value, cost, .. } = checker.node(&mut node)?;
        let depth = definitions.map_or(node.depth, |definitions| definitions.depth_of(&node));
        if depth > NESTING_MAX {
            let reason = format!("the expression is nested deeper than {NESTING_MAX} levels with its variables");
            return Err(CompileError::at(source, 0, &reason));
        }
        Ok(Self { node, result: value, cost_max: cost, depth })
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
        match self.value(variables, definitions, budget)? {
            Value::Bool(value) => Ok(Output::Bool(value)),
            Value::Text(text) => Ok(Output::Text(text.to_string())),
            other => Ok(Output::Other(other.type_name())),
        }
    }

    /// As [`Expression::evaluate_with`], for an expression of [`Expression::compile_patch`]. Returns the patch: a list of
    /// operations of a JSON patch, or a resource that is applied.
    ///
    /// # Errors
    /// As [`Expression::evaluate_with`]; `NoPatch` for a message where its name does not belong, as `Object.spec` in
    /// `metadata`, for a value that JSON cannot have, and for a patch above 4 MiB.
    pub fn evaluate_patch<'a>(
        &self,
        variables: &[(&str, Variable<'a>)],
        definitions: &Definitions,
        budget: &mut Budget,
    ) -> Result<Json, EvaluationError> {
        json::patch(&self.value(variables, definitions, budget)?)
    }

    fn value<'e, 'a>(
        &'e self,
        variables: &[(&'e str, Variable<'a>)],
        definitions: &'e Definitions,
        budget: &'e mut Budget,
    ) -> Result<Value<'a>, EvaluationError> {
        let variables: Vec<_> = variables.iter().map(|(name, variable)| (*name, variable.value())).collect();
        let outermost = variables.len();
        let mut evaluation = Evaluation { variables, definitions, defined: HashMap::default(), outermost, budget };
        evaluation.value(&self.node)
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
        // An empty text has no first column.
        let column = usize::from(!source.is_empty());
        let before = source.get(..at).unwrap_or(source);
        let start = before.rfind('\n').map_or(0, |end| end + 1);
        Self {
            line: before.matches('\n').count() + 1,
            column: before[start..].chars().count() + column,
            reason: reason.to_owned(),
            snippet: source[start..].lines().next().unwrap_or("").chars().take(SNIPPET_CHARS_MAX).collect(),
        }
    }
}

/// Shown characters of the line of an error.
const SNIPPET_CHARS_MAX: usize = 1024;

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, column, reason, snippet } = self;
        write!(f, "ERROR: <input>:{line}:{column}: {reason}")?;
        match column.checked_sub(1) {
            Some(before) => write!(f, "\n | {snippet}\n | {}^", ".".repeat(before.min(SNIPPET_CHARS_MAX))),
            None => Ok(()),
        }
    }
}

impl std::error::Error for CompileError {}
