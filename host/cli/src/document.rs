//! Reads fields of the documents that a host sends. Pure.

use serde_json::Value;

/// Returns the string at a JSON pointer; empty if it is missing.
pub(crate) fn text<'d>(document: &'d Value, pointer: &str) -> &'d str {
    document.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the status of a condition: `True`, `False` or `Unknown`.
pub(crate) fn condition(document: &Value, name: &str) -> Option<String> {
    let conditions = document.pointer("/status/conditions")?.as_array()?;
    let found = conditions.iter().find(|condition| condition["type"] == name)?;
    found["status"].as_str().map(str::to_owned)
}

/// Returns a kind with its group, for example `deployment.apps`.
pub(crate) fn kind(kind: Option<&Value>) -> String {
    let Some(kind) = kind else { return String::new() };
    let (name, group) =
        (kind["name"].as_str().unwrap_or_default().to_lowercase(), kind["group"].as_str().unwrap_or_default());
    if group.is_empty() { name } else { format!("{name}.{group}") }
}

/// Returns the word with a capital first letter.
pub(crate) fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
