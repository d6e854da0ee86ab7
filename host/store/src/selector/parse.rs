//! Parses label requirements in the syntax of kubectl.

use crate::{Error, LabelRequirement, Result};

/// Parses a comma-separated list of requirements.
pub(super) fn labels(text: &str) -> Result<Vec<LabelRequirement>> {
    split(text)?.into_iter().map(|one| requirement(one.trim())).collect()
}

/// Splits at the commas outside parentheses.
fn split(text: &str) -> Result<Vec<&str>> {
    let mut pieces = Vec::new();
    let (mut start, mut inside) = (0, false);
    for (at, symbol) in text.char_indices() {
        match symbol {
            '(' if inside => return Err(wrong(text, "has a parenthesis inside of parentheses")),
            '(' => inside = true,
            ')' if !inside => return Err(wrong(text, "closes a parenthesis that was not opened")),
            ')' => inside = false,
            ',' if !inside => {
                pieces.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if inside {
        return Err(wrong(text, "opens a parenthesis and does not close it"));
    }
    if !pieces.is_empty() || !text.trim().is_empty() {
        pieces.push(&text[start..]);
    }
    Ok(pieces)
}

fn requirement(text: &str) -> Result<LabelRequirement> {
    let parsed = if let Some(set) = text.strip_suffix(')') {
        members(set).ok_or_else(|| wrong(text, "must read `name in (a,b)` or `name notin (a,b)`"))?
    } else if let Some((name, value)) = text.split_once("!=") {
        LabelRequirement::NotEquals(owned(name), owned(value))
    } else if let Some((name, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        LabelRequirement::Equals(owned(name), owned(value))
    } else if let Some(name) = text.strip_prefix('!') {
        LabelRequirement::Absent(owned(name))
    } else {
        LabelRequirement::Exists(owned(text))
    };
    match parsed.validate("labelSelector") {
        Ok(()) => Ok(parsed),
        Err(Error::Invalid { path, reason }) => Err(Error::Invalid { path, reason: format!("`{text}`: {reason}") }),
        Err(other) => Err(other),
    }
}

/// Parses `name in (a,b` or `name notin (a,b`.
fn members(text: &str) -> Option<LabelRequirement> {
    let (head, values) = text.split_once('(')?;
    let values: Vec<String> = values.split(',').map(owned).collect();
    let mut words = head.split_whitespace();
    let (name, operator) = (words.next()?, words.next()?);
    match (operator, words.next()) {
        ("in", None) => Some(LabelRequirement::OneOf(owned(name), values)),
        ("notin", None) => Some(LabelRequirement::NoneOf(owned(name), values)),
        _ => None,
    }
}

fn owned(text: &str) -> String {
    text.trim().to_owned()
}

fn wrong(text: &str, reason: &str) -> Error {
    Error::invalid("labelSelector", format!("`{text}` {reason}"))
}
