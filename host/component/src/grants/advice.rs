//! The lines of a manifest that would grant what is missing.
//!
//! What a guest says stands in them as text and as nothing else: a kind that a guest names cannot end the list that it stands in.

use std::fmt::Write as _;

use homeostat_store::Kind;

use super::Verb;

/// Returns the lines that grant these verbs for every resource of a kind.
pub(super) fn resources(kind: &Kind, verbs: &[Verb]) -> String {
    let parts = [&*kind.group, &*kind.name];
    if parts.iter().any(|part| part.contains(['*', '/'])) {
        return "(no line can: a `*` or a `/` in the name of a kind is no text there)".to_owned();
    }
    let kind = if kind.group.is_empty() { kind.name.clone() } else { parts.join("/") };
    let verbs: Vec<&str> = verbs.iter().map(|verb| verb.as_str()).collect();
    format!(
        "grants:\n  resources:\n    - {{kinds: [{}], verbs: [{}], namespaces: [\"*\"]}}",
        scalar(&kind),
        verbs.join(", ")
    )
}

/// Returns text as YAML that reads back to it: plain where it is the name of a kind as people write them, else in quotes with all that is not
/// plain ASCII escaped.
fn scalar(text: &str) -> String {
    let is_plain = |text: &str| {
        text.starts_with(|first: char| first.is_ascii_alphabetic())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'/' | b'-'))
    };
    // Words that some readers of YAML take for something else than text.
    let is_word = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
        .iter()
        .any(|word| text.eq_ignore_ascii_case(word));
    if is_plain(text) && !is_word {
        return text.to_owned();
    }
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            ' '..='~' => quoted.push(letter),
            other => {
                // Writing to a string cannot fail.
                let _ = write!(quoted, "\\U{:08X}", u32::from(other));
            }
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests;
