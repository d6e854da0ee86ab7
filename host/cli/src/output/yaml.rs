//! YAML without hidden characters: the library itself does not escape bidirectional controls and zero-width
//! characters.

use serde_json::Value;

/// Marks an escaped hidden character; its code point follows as eight hexadecimal digits. The library allows
/// this character only in double-quoted scalars, where it writes [`WRITTEN`]. Every scalar with a hidden
/// character is therefore quoted, and its escapes can be replaced by those of the original characters.
const MARK: char = '\u{ffff}';
const WRITTEN: &str = "\\uFFFF";
const MEANT: &str = "\\U";

/// Formats a document as YAML.
///
/// # Errors
/// Errors of the library; a JSON value causes none.
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
    // Text that contains the escape itself would be mistaken for one of ours.
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
