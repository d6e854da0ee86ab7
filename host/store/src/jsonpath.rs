//! JSON paths of `CustomResourceDefinition`s, in printer columns, scale and selectable fields.
//!
//! Supports `.spec.replicas`, `.metadata.labels['a.b/c']`, `.metadata.labels.a\.b/c`, `.spec.ports[0]`,
//! `[-1]` from the end, `[*]` and `.*` for all, and filters: `.status.conditions[?(@.type=="Ready")].status`,
//! with `==`, `!=` or only a path in the brackets.
//!
//! Deliberately absent: `..`, slices, unions and arithmetic. No definition in use was seen to need them.

mod parse;
#[cfg(test)]
mod tests;

use std::fmt;

use serde_json::Value;

use crate::{Result, json_pointer};

/// Values that one path returns at most.
const FOUND_MAX: usize = 1000;

/// A path from a document to some of its values. Displays as its source text.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath {
    text: String,
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    /// Counts from the end if negative.
    Item(i64),
    All,
    Where(Filter),
}

/// A condition on the items of a list, or on the values of an object.
#[derive(Debug, Clone, PartialEq)]
struct Filter {
    /// Relative to the item; has no filter of its own.
    path: Vec<Step>,
    test: Test,
}

#[derive(Debug, Clone, PartialEq)]
enum Test {
    IsThere,
    Is(Value),
    IsNot(Value),
}

impl JsonPath {
    /// Parses a path of at most 1024 bytes.
    ///
    /// # Errors
    /// `Invalid` with the path `jsonPath` when the text does not start with `.` or `[`, or is malformed.
    pub fn parse(text: &str) -> Result<Self> {
        Ok(Self { text: text.to_owned(), steps: parse::steps(text)? })
    }

    /// Returns whether the path consists of field names only, so that it leads to one field.
    pub fn is_plain(&self) -> bool {
        !self.steps.is_empty() && self.steps.iter().all(|step| matches!(step, Step::Field(_)))
    }

    /// Returns the JSON pointer (RFC 6901) to the same field; `None` unless the path consists of names only.
    pub fn pointer(&self) -> Option<String> {
        let word = |step: &Step| match step {
            Step::Field(name) => Some(format!("/{}", json_pointer::escape(name))),
            Step::Item(_) | Step::All | Step::Where(_) => None,
        };
        self.is_plain().then(|| self.steps.iter().filter_map(word).collect())
    }

    /// Returns the values at the path, in the order of the document; at most the first thousand.
    ///
    /// Missing fields are skipped.
    pub fn evaluate<'a>(&self, document: &'a Value) -> Vec<&'a Value> {
        evaluate_steps(&self.steps, document)
    }
}

impl fmt::Display for JsonPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn evaluate_steps<'a>(steps: &[Step], value: &'a Value) -> Vec<&'a Value> {
    let mut found = vec![value];
    for step in steps {
        found = found.into_iter().flat_map(|value| step.from(value)).take(FOUND_MAX).collect();
    }
    found
}

impl Step {
    fn from<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match self {
            Self::Field(name) => value.get(name).into_iter().collect(),
            Self::Item(at) => item(value, *at).into_iter().collect(),
            Self::All => parts(value).take(FOUND_MAX).collect(),
            Self::Where(filter) => parts(value).filter(|part| filter.holds(part)).take(FOUND_MAX).collect(),
        }
    }
}

impl Filter {
    fn holds(&self, value: &Value) -> bool {
        let found = evaluate_steps(&self.path, value);
        match &self.test {
            Test::IsThere => !found.is_empty(),
            Test::Is(wanted) => found.contains(&wanted),
            Test::IsNot(wanted) => !found.is_empty() && !found.contains(&wanted),
        }
    }
}

fn item(value: &Value, at: i64) -> Option<&Value> {
    let items = value.as_array()?;
    let distance = usize::try_from(at.unsigned_abs()).ok()?;
    let at = if at < 0 { items.len().checked_sub(distance)? } else { distance };
    items.get(at)
}

fn parts(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Array(items) => Box::new(items.iter()),
        Value::Object(fields) => Box::new(fields.values()),
        _ => Box::new(std::iter::empty()),
    }
}
