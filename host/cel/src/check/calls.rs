//! Calls of functions.

use std::sync::Arc;

use super::{Checker, Estimate, Outcome};
use crate::CompileError;
use crate::evaluate::constant;
use crate::functions::{self, CallCost, CallSizes, Kind, Overload};
use crate::syntax::{Literal, Node, NodeKind};
use crate::types::Type;

impl Checker<'_> {
    pub(super) fn call(&mut self, node: &mut Node) -> Outcome {
        let at = node.at;
        let NodeKind::Call { function, target, arguments, known, pattern } = &mut node.kind else {
            return Err(self.error(at, "not a call"));
        };
        if let Some(name) = self.library_function(function, target.as_deref()) {
            *function = name;
            *target = None;
        }
        let is_member = target.is_some();
        let mut cost = 0_u64;
        let mut types = Vec::with_capacity(arguments.len() + 1);
        let mut formatted = None;
        let is_format = is_member && function == "format";
        self.formats += usize::from(is_format);
        for argument in target.iter_mut().map(|target| &mut **target).chain(arguments.iter_mut()) {
            let checked = match &mut argument.kind {
                // The values for a format may have different types.
                NodeKind::List(entries) if is_format => {
                    let (estimates, cost) = self.entries(entries)?;
                    let value = Type::list(Type::Dyn, estimates.len() as u64);
                    formatted = Some(estimates);
                    Estimate::made(value, cost)
                }
                _ => self.node(argument)?,
            };
            cost = cost.saturating_add(checked.cost);
            types.push(checked.value);
        }
        self.formats -= usize::from(is_format);
        let unknown = || self.error(at, &format!("undeclared reference to '{function}' (in container '')"));
        let found = functions::find(function, is_member);
        if found.is_none() && functions::find(function, !is_member).is_none() {
            return Err(unknown());
        }
        let references: Vec<&Type> = types.iter().collect();
        let wrong = || self.no_overload(at, function, &references, is_member);
        let index = found.ok_or_else(wrong)?;
        let found = functions::at(index);
        let sizes: Vec<u64> = types.iter().map(Type::size_max).collect();
        let item = types.first().and_then(Type::item_size_max);
        let result_size = result_size(function, &sizes, item, arguments);
        let value = result(found.overloads, &types, result_size).ok_or_else(wrong)?;
        let call = match (&**function, types.first()) {
            // An address that is part of a range is there already.
            ("ip", _) if is_member => CallCost::One,
            ("string", Some(Type::Bytes(_) | Type::Dyn)) => found.cost,
            ("string", _) => CallCost::One,
            _ => found.cost,
        };
        // A compared address has a form of its own.
        let is_address =
            matches!(call, CallCost::Address(_)) && !matches!(types.get(1), Some(Type::Text(_) | Type::Dyn));
        let sizes = if is_address { vec![0, 0] } else { sizes };
        let call = call.of(&CallSizes { arguments: &sizes, item, result: result_size });
        if let (Some(text), CallCost::Match) = (literal_pattern(is_member, arguments), found.cost) {
            let reason = |reason| self.error(at, &format!("invalid matches argument: {reason}"));
            *pattern = Some(Arc::new(crate::Pattern::new(text).map_err(reason)?));
        }
        if let (Some(target), Some(values)) = (target, formatted) {
            self.check_format(at, target, &values)?;
        }
        if CONVERSIONS.contains(&&**function)
            && let [Node { kind: NodeKind::Literal(literal), .. }] = &**arguments
        {
            let converted = constant(literal).and_then(|value| (found.call)(&[value]));
            converted.map_err(|error| self.error(at, &format!("program instantiation failed: {error}")))?;
        }
        *known = Some(index);
        Ok(Estimate::made(value, cost.saturating_add(call)))
    }
}

/// Conversions, whose constant arguments are converted at compilation.
const CONVERSIONS: [&str; 8] = ["int", "uint", "double", "bool", "string", "bytes", "timestamp", "duration"];

impl Checker<'_> {
    /// Checks a constant format against a list of arguments: their number, and whether `%d` is about integers.
    fn check_format(&self, at: usize, format: &Node, values: &[Estimate]) -> Result<(), CompileError> {
        let NodeKind::Literal(Literal::Text(format)) = &format.kind else { return Ok(()) };
        let mut verbs = format
            .split('%')
            .skip(1)
            .filter_map(|rest| rest.trim_start_matches(|c: char| c == '.' || c.is_ascii_digit()).chars().next());
        // The second percent sign of a pair begins an empty part.
        let pairs = format.matches("%%").count();
        let count = format.matches('%').count() - 2 * pairs;
        if count > values.len() {
            return Err(self.error(at, &format!("index {} out of range", values.len())));
        }
        if pairs > 0 {
            return Ok(());
        }
        for Estimate { value, .. } in values {
            if verbs.next() == Some('d') && !matches!(value, Type::Int | Type::Uint | Type::Dyn) {
                let reason =
                    format!("error during formatting: decimal clause can only be used on integers, was given {value}");
                return Err(self.error(at, &reason));
            }
        }
        Ok(())
    }
}

/// Returns the pattern of a call if it is a constant.
fn literal_pattern(is_member: bool, arguments: &[Node]) -> Option<&str> {
    match &arguments.get(usize::from(!is_member))?.kind {
        NodeKind::Literal(Literal::Text(text)) => Some(text),
        _ => None,
    }
}

/// Returns the largest size of the result. `item` is the size of the items of the first argument; `arguments` are those after
/// the target of a member.
fn result_size(function: &str, sizes: &[u64], item: Option<u64>, arguments: &[Node]) -> u64 {
    let size = |at: usize| sizes.get(at).copied().unwrap_or(1);
    match function {
        "replace" => replaced_size(size(0), literal_size(arguments.first()), size(2)),
        "join" => {
            let separators = size(0).saturating_sub(1).saturating_mul(if sizes.len() > 1 { size(1) } else { 0 });
            size(0).saturating_mul(item.unwrap_or(u64::MAX)).saturating_add(separators)
        }
        "split" => match arguments.get(1).map(|limit| &limit.kind) {
            Some(NodeKind::Literal(Literal::Int(limit))) => u64::try_from(*limit).unwrap_or(u64::MAX),
            _ => size(0),
        },
        "charAt" => 4,
        "format" | "string" => u64::MAX,
        "lists.range" => u64::MAX,
        _ => size(0),
    }
}

/// Returns the length of a constant text; zero for another expression.
fn literal_size(node: Option<&Node>) -> u64 {
    match node.map(|node| &node.kind) {
        Some(NodeKind::Literal(Literal::Text(text))) => text.chars().count() as u64,
        _ => 0,
    }
}

/// Returns the largest size of a text in which parts of at least `replaced_min` characters are replaced by `new` ones.
fn replaced_size(size: u64, replaced_min: u64, new: u64) -> u64 {
    if replaced_min == 0 {
        // A new text stands around each character.
        return size.saturating_add(1).saturating_mul(new).saturating_add(size);
    }
    if new <= replaced_min { size } else { size.div_ceil(replaced_min).saturating_mul(new) }
}

/// Returns the type of the result; `None` if no overload has such arguments.
fn result(overloads: &[Overload], arguments: &[Type], size: u64) -> Option<Type> {
    let mut result: Option<Type> = None;
    for overload in overloads.iter().filter(|overload| overload.parameters.len() == arguments.len()) {
        let mut a = None;
        let accepts = |(parameter, argument): (&Kind, &Type)| parameter.accepts(argument, &mut a);
        if !overload.parameters.iter().zip(arguments).all(accepts) {
            continue;
        }
        let next = overload.result.to_type(&a.unwrap_or(Type::Dyn), size);
        result = Some(match result {
            None => next,
            Some(known) if known.fits(&next) => known,
            Some(_) => Type::Dyn,
        });
    }
    result
}
