//! Calls that are not functions: they name variables, and their arguments are not values.

use super::Parser;
use crate::CompileError;
use crate::syntax::{Fold, FoldKind, Node, NodeKind};

/// Returns a call without a target, or the macro that it is.
pub(super) fn global(
    parser: &Parser<'_>,
    at: usize,
    function: String,
    mut arguments: Vec<Node>,
) -> Result<Node, CompileError> {
    if function != "has" || arguments.len() != 1 {
        return parser.node(at, NodeKind::Call { function, target: None, arguments, known: None, pattern: None });
    }
    match arguments.remove(0).kind {
        NodeKind::Select { of, field, optional: false } => parser.node(at, NodeKind::Has { of, field }),
        _ => Err(parser.error_at(at, "invalid argument to has() macro")),
    }
}

/// Returns a call on a target, or the macro that it is.
pub(super) fn member(
    parser: &Parser<'_>,
    at: usize,
    target: Node,
    function: String,
    arguments: Vec<Node>,
) -> Result<Node, CompileError> {
    let kind = match (function.as_str(), arguments.len()) {
        ("all", 2 | 3) => FoldKind::All,
        ("exists", 2 | 3) => FoldKind::Exists,
        ("exists_one", 2 | 3) | ("existsOne", 3) => FoldKind::ExistsOne,
        ("map", 2 | 3) | ("transformList", 3 | 4) => FoldKind::List,
        ("filter", 2) => FoldKind::Filter,
        ("sortBy", 2) => FoldKind::SortBy,
        ("transformMap", 3 | 4) => FoldKind::Map,
        ("transformMapEntry", 3 | 4) => FoldKind::MapEntries,
        ("optMap" | "optFlatMap", 2) => {
            let mut arguments = arguments.into_iter();
            let name = variable(parser, &arguments.next().expect("there are two"))?;
            let body = Box::new(arguments.next().expect("there are two"));
            let is_flat = function == "optFlatMap";
            return parser.node(at, NodeKind::OptionalMap { of: Box::new(target), name, body, is_flat });
        }
        _ => {
            let target = Some(Box::new(target));
            return parser.node(at, NodeKind::Call { function, target, arguments, known: None, pattern: None });
        }
    };
    fold(parser, at, kind, target, &function, arguments)
}

fn fold(
    parser: &Parser<'_>,
    at: usize,
    kind: FoldKind,
    range: Node,
    function: &str,
    mut arguments: Vec<Node>,
) -> Result<Node, CompileError> {
    let has_two = match kind {
        FoldKind::All | FoldKind::Exists | FoldKind::ExistsOne => arguments.len() == 3,
        FoldKind::List => function == "transformList",
        FoldKind::Filter | FoldKind::SortBy => false,
        FoldKind::Map | FoldKind::MapEntries => true,
    };
    let mut rest = arguments.split_off(1 + usize::from(has_two));
    let first = variable(parser, &arguments[0])?;
    let second = arguments.get(1).map(|name| variable(parser, name)).transpose()?;
    if second.as_ref() == Some(&first) {
        return Err(parser.error_at(at, "duplicate variable name"));
    }
    let last = rest.pop();
    let (condition, result) = match kind {
        FoldKind::All | FoldKind::Exists | FoldKind::ExistsOne | FoldKind::Filter => (last, None),
        FoldKind::List | FoldKind::SortBy | FoldKind::Map | FoldKind::MapEntries => (rest.pop(), last),
    };
    parser.node(at, NodeKind::Fold(Box::new(Fold { kind, range, first, second, condition, result })))
}

/// Returns the name that an argument declares.
fn variable(parser: &Parser<'_>, argument: &Node) -> Result<String, CompileError> {
    match &argument.kind {
        NodeKind::Name(name) => Ok(name.clone()),
        _ => Err(parser.error_at(argument.at, "argument must be a simple name")),
    }
}
