//! Named expressions that other expressions use.

use std::collections::HashMap;

use crate::syntax::{Node, NodeKind};
use crate::{CompileError, Expression, Type};

/// The name below which expressions find definitions.
pub(crate) const DEFINITIONS: &str = "variables";

/// Deepest nesting of an expression with the definitions that it uses, because an evaluation nests as deep.
pub(crate) const NESTING_MAX: usize = 250;

/// Named expressions, which others use as `variables.name`: the variables of an admission policy. Each may use those
/// before it, and is evaluated when an expression first uses it.
#[derive(Debug, Clone, Default)]
pub struct Definitions {
    expressions: Vec<(String, Expression)>,
    /// Their positions by name. Of two with the same name, the first counts.
    positions: HashMap<String, usize>,
    declared: bool,
}

impl Definitions {
    /// Returns an empty set whose name `variables` is known, as in the expressions of an admission policy. To the default,
    /// only a definition makes it known.
    pub fn declared() -> Self {
        Self { declared: true, ..Self::default() }
    }

    /// Compiles an expression, and adds it under a name.
    ///
    /// # Errors
    /// As [`Expression::compile_with`].
    pub fn define(&mut self, name: &str, source: &str, variables: &[(&str, Type)]) -> Result<(), CompileError> {
        let expression = Expression::compile_with(source, variables, self)?;
        self.positions.entry(name.to_owned()).or_insert(self.expressions.len());
        self.expressions.push((name.to_owned(), expression));
        Ok(())
    }

    pub(crate) fn is_declared(&self) -> bool {
        self.declared || !self.expressions.is_empty()
    }

    pub(crate) fn position(&self, name: &str) -> Option<(usize, &Expression)> {
        let at = *self.positions.get(name)?;
        Some((at, &self.expressions[at].1))
    }

    pub(crate) fn node(&self, at: usize) -> Option<(&str, &Node)> {
        self.expressions.get(at).map(|(name, expression)| (name.as_str(), &expression.node))
    }

    /// Returns how many nodes are nested in a node and in the definitions that it uses.
    pub(crate) fn depth_of(&self, node: &Node) -> usize {
        let below = node.kind.parts().map(|part| self.depth_of(part)).max().unwrap_or(0);
        let used = match node.kind {
            NodeKind::Defined(at) => self.expressions.get(at).map_or(0, |(_, expression)| expression.depth),
            _ => 0,
        };
        1 + below.max(used)
    }
}
