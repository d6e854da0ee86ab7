//! The parts of which the cells of many kinds are made. Pure.

use homeostat_store::Selector;
use serde_json::Value;

/// Returns the string at a JSON pointer; empty if it is missing.
pub(super) fn text<'d>(document: &'d Value, pointer: &str) -> &'d str {
    document.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the number at a JSON pointer; 0 if it is missing.
pub(super) fn number(document: &Value, pointer: &str) -> u64 {
    document.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
}

/// Returns the elements of an array; none if it is missing.
pub(super) fn elements<'d>(document: &'d Value, pointer: &str) -> impl Iterator<Item = &'d Value> + Clone {
    document.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

/// Returns a condition of the status.
pub(super) fn condition<'d>(document: &'d Value, name: &str) -> Option<&'d Value> {
    elements(document, "/status/conditions").find(|condition| condition["type"] == name)
}

pub(super) fn is_deleting(document: &Value) -> bool {
    document.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null())
}

/// Returns the text, or `<none>` if it is empty.
pub(super) fn or_none(text: &str) -> Value {
    or_else(text, "<none>")
}

/// Returns the text, or another one if it is empty.
pub(super) fn or_else(text: &str, other: &str) -> Value {
    if text.is_empty() { other.into() } else { text.into() }
}

/// Returns a value as a person reads it: a string without quotes.
pub(super) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns texts with commas between them.
pub(super) fn joined(texts: impl Iterator<Item = String>) -> String {
    texts.collect::<Vec<_>>().join(",")
}

/// Returns the first texts, and how many more there are: `1,2,3 + 4 more...`.
pub(super) fn first_of_many(texts: impl Iterator<Item = String>) -> String {
    const SHOWN_MAX: usize = 3;
    let all: Vec<String> = texts.collect();
    let shown = all[..all.len().min(SHOWN_MAX)].join(",");
    match all.len().saturating_sub(SHOWN_MAX) {
        0 => shown,
        more => format!("{shown} + {more} more..."),
    }
}

/// Returns the labels at a JSON pointer: `a=b,c=d`.
pub(super) fn labels(document: &Value, pointer: &str) -> Value {
    let labels = document.pointer(pointer).and_then(Value::as_object).into_iter().flatten();
    or_none(&joined(labels.map(|(name, value)| format!("{name}={}", plain(value)))))
}

/// Returns the label selector at a JSON pointer, as clients write it.
pub(super) fn label_selector(document: &Value, pointer: &str) -> Value {
    or_none(&document.pointer(pointer).and_then(Selector::of_labels).unwrap_or_default().labels_text())
}
