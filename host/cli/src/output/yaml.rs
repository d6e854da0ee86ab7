//! YAML in which nothing is hidden: the library leaves characters as they are that change the direction of writing or have no width.

use serde_json::Value;

/// Stands for a hidden character whose number follows in eight digits. No scalar may have it but in double quotes, where the library writes
/// [`WRITTEN`]; so a scalar that has it is quoted, and the escape can be made one of the character that is meant.
const MARK: char = '\u{ffff}';
const WRITTEN: &str = "\\uFFFF";
const MEANT: &str = "\\U";

/// Writes a document.
///
/// # Errors
/// Of the library; a JSON value has no reason for one.
pub(super) fn write(document: &Value) -> anyhow::Result<String> {
    if !has_hidden(document) {
        return Ok(serde_saphyr::to_string(document)?);
    }
    Ok(serde_saphyr::to_string(&marked(document))?.replace(WRITTEN, MEANT))
}

fn has_hidden(document: &Value) -> bool {
    let is_hidden = |text: &str| text.contains(needs_mark) || text.contains(WRITTEN);
    match document {
        Value::String(text) => is_hidden(text),
        Value::Array(items) => items.iter().any(has_hidden),
        Value::Object(fields) => fields.iter().any(|(name, value)| is_hidden(name) || has_hidden(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn needs_mark(c: char) -> bool {
    c == MARK || (homeostat_text::is_hidden(c) && !matches!(c, '\n' | '\t' | '\r'))
}

fn marked(document: &Value) -> Value {
    match document {
        Value::String(text) => Value::String(mark(text)),
        Value::Array(items) => items.iter().map(marked).collect(),
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(name, value)| (mark(name), marked(value))).collect())
        }
        other => other.clone(),
    }
}

fn mark(text: &str) -> String {
    // A text that has the escape itself would be taken for one of ours.
    let is_like_one = text.contains(WRITTEN);
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if needs_mark(c) || (is_like_one && c == '\\') {
            out.push_str(&format!("{MARK}{:08X}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests;
