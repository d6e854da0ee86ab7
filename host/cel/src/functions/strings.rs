//! Functions of texts. Source: cel-go's extension of strings.

use super::{int_result, text_of};
use crate::error::EvaluationError;
use crate::operators::bounded;
use crate::value::Value;

type Outcome<'a> = Result<Value<'a>, EvaluationError>;

/// Returns the characters of a text.
fn characters(value: &Value<'_>) -> Result<Vec<char>, EvaluationError> {
    Ok(text_of(value)?.chars().collect())
}

fn index_of_value(value: &Value<'_>, length: usize) -> Result<usize, EvaluationError> {
    match value {
        Value::Int(at) => usize::try_from(*at)
            .ok()
            .filter(|at| *at <= length)
            .ok_or_else(|| EvaluationError::Invalid(format!("index out of range: {at}"))),
        _ => Err(EvaluationError::NoSuchOverload),
    }
}

/// Returns the place where a search begins, which may be behind the end.
fn offset(value: &Value<'_>) -> Result<usize, EvaluationError> {
    match value {
        Value::Int(at) => {
            usize::try_from(*at).map_err(|_| EvaluationError::Invalid(format!("index out of range: {at}")))
        }
        _ => Err(EvaluationError::NoSuchOverload),
    }
}

pub(super) fn char_at<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let text = characters(&arguments[0])?;
    let at = index_of_value(&arguments[1], text.len())?;
    Ok(Value::text(text.get(at).map(ToString::to_string).unwrap_or_default()))
}

pub(super) fn contains<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(text_of(&arguments[0])?.contains(text_of(&arguments[1])?)))
}

pub(super) fn starts_with<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(text_of(&arguments[0])?.starts_with(text_of(&arguments[1])?)))
}

pub(super) fn ends_with<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(text_of(&arguments[0])?.ends_with(text_of(&arguments[1])?)))
}

/// `indexOf` of a text or a list.
pub(super) fn index_of<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    if matches!(arguments[0], Value::List(_)) {
        return super::lists::index_of(arguments);
    }
    let (text, wanted) = (characters(&arguments[0])?, characters(&arguments[1])?);
    let from = arguments.get(2).map_or(Ok(0), offset)?;
    if wanted.is_empty() {
        return int_result(from);
    }
    if from >= text.len() {
        return Ok(Value::Int(-1));
    }
    let found = text[from..].windows(wanted.len()).position(|window| window == wanted);
    found.map_or(Ok(Value::Int(-1)), |at| int_result(from + at))
}

/// `lastIndexOf` of a text or a list.
pub(super) fn last_index_of<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    if matches!(arguments[0], Value::List(_)) {
        return super::lists::last_index_of(arguments);
    }
    let (text, wanted) = (characters(&arguments[0])?, characters(&arguments[1])?);
    let from = arguments.get(2).map_or(Ok(text.len()), offset)?;
    if wanted.is_empty() {
        return int_result(from);
    }
    if arguments.len() > 2 && from >= text.len() {
        return Ok(Value::Int(-1));
    }
    let end = from.saturating_add(wanted.len()).min(text.len());
    let found = text[..end].windows(wanted.len()).rposition(|window| window == wanted);
    found.map_or(Ok(Value::Int(-1)), int_result)
}

pub(super) fn lower_ascii<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::text(text_of(&arguments[0])?.to_ascii_lowercase()))
}

pub(super) fn upper_ascii<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::text(text_of(&arguments[0])?.to_ascii_uppercase()))
}

pub(super) fn trim<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::text(text_of(&arguments[0])?.trim()))
}

/// `reverse` of a text or a list.
pub(super) fn reverse<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    if let Value::List(list) = &arguments[0] {
        let mut items: Vec<_> = list.iter().collect();
        items.reverse();
        return Ok(Value::list(items));
    }
    Ok(Value::text(text_of(&arguments[0])?.chars().rev().collect::<String>()))
}

/// Returns a count that limits an operation; `None` if a negative number lifts the limit.
fn count(value: Option<&Value<'_>>) -> Result<Option<usize>, EvaluationError> {
    match value {
        None => Ok(None),
        Some(Value::Int(count)) => Ok(usize::try_from(*count).ok()),
        Some(_) => Err(EvaluationError::NoSuchOverload),
    }
}

pub(super) fn replace<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let (text, old, new) = (text_of(&arguments[0])?, text_of(&arguments[1])?, text_of(&arguments[2])?);
    let matches = if old.is_empty() { text.chars().count() + 1 } else { text.len() / old.len() };
    bounded(text.len().saturating_add(matches.saturating_mul(new.len())))?;
    Ok(Value::text(match count(arguments.get(3))? {
        Some(count) => text.replacen(old, new, count),
        None => text.replace(old, new),
    }))
}

pub(super) fn split<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let (text, separator) = (text_of(&arguments[0])?, text_of(&arguments[1])?);
    let most = count(arguments.get(2))?;
    if most == Some(0) {
        return Ok(Value::list(Vec::new()));
    }
    let most = most.unwrap_or(usize::MAX);
    let parts: Vec<_> = if separator.is_empty() {
        let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).skip(1).take(most - 1).collect();
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let parts = starts.zip(ends.iter().copied().chain([text.len()])).filter(|(start, end)| start < end);
        parts.map(|(start, end)| Value::text(&text[start..end])).collect()
    } else {
        text.splitn(most, separator).map(Value::text).collect()
    };
    Ok(Value::list(parts))
}

pub(super) fn join<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let Value::List(list) = &arguments[0] else { return Err(EvaluationError::NoSuchOverload) };
    let separator = arguments.get(1).map_or(Ok(""), text_of)?;
    let mut text = String::new();
    for (at, item) in list.iter().enumerate() {
        if at > 0 {
            text.push_str(separator);
        }
        text.push_str(text_of(&item)?);
        bounded(text.len())?;
    }
    Ok(Value::text(text))
}

pub(super) fn substring<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let text = characters(&arguments[0])?;
    let start = index_of_value(&arguments[1], text.len())?;
    let end = arguments.get(2).map_or(Ok(text.len()), |at| index_of_value(at, text.len()))?;
    if start > end {
        return Err(EvaluationError::Invalid(format!("invalid substring range. start: {start}, end: {end}")));
    }
    Ok(Value::text(text[start..end].iter().collect::<String>()))
}

/// `jsonpatch.escapeKey`: a key as a part of a path in a JSON patch.
pub(super) fn escape_key<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::text(text_of(&arguments[0])?.replace('~', "~0").replace('/', "~1")))
}

/// `strings.quote`.
pub(super) fn quote<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let text = text_of(&arguments[0])?;
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    Ok(Value::text(quoted))
}

/// `size` of a text, bytes, a list or a map.
pub(super) fn size<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    match &arguments[0] {
        Value::Text(text) => int_result(text.chars().count()),
        sized @ (Value::Bytes(_) | Value::List(_) | Value::Map(_)) => int_result(sized.size()),
        _ => Err(EvaluationError::NoSuchOverload),
    }
}
