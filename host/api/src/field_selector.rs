//! Parses field selectors: `metadata.name=a,status.phase!=Running`. Pure.
//!
//! In a value `\,`, `\=` and `\\` stand for the character after the backslash.
//! Source: `ParseSelector` in `pkg/fields` of Kubernetes' apimachinery.

use crate::status::Failure;

/// A condition on one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldTerm {
    /// The names on the way to the field, with dots between them.
    pub(crate) path: String,
    /// Whether the field must have the value, or another one.
    pub(crate) is_equal: bool,
    pub(crate) value: String,
}

impl FieldTerm {
    /// Returns the JSON pointer to the field. A field path has dots and needs no escapes.
    pub(crate) fn pointer(&self) -> String {
        format!("/{}", self.path.replace('.', "/"))
    }
}

/// Parses the terms of a selector, in the order of their texts.
///
/// # Errors
/// 400 for a term without `=`, and for a value with another escape or with an unescaped `,` or `=`.
pub(crate) fn parse(selector: &str) -> Result<Vec<FieldTerm>, Failure> {
    let mut terms: Vec<&str> = split(selector).into_iter().filter(|term| !term.is_empty()).collect();
    terms.sort_unstable();
    terms.into_iter().map(|term| parse_term(selector, term)).collect()
}

fn parse_term(selector: &str, term: &str) -> Result<FieldTerm, Failure> {
    let unequal = term.find("!=");
    let (path, is_equal, rest) = match (term.find('='), unequal) {
        (Some(at), Some(unequal)) if unequal < at => (&term[..unequal], false, &term[unequal + 2..]),
        (Some(at), _) => {
            let rest = &term[at + 1..];
            (&term[..at], true, rest.strip_prefix('=').unwrap_or(rest))
        }
        (None, _) => {
            let reason = format!("invalid selector: '{selector}'; can't understand '{term}'");
            return Err(Failure::bad_request(reason));
        }
    };
    Ok(FieldTerm { path: path.to_owned(), is_equal, value: unescaped(rest)? })
}

/// Splits a selector at each comma without a backslash before it.
fn split(selector: &str) -> Vec<&str> {
    let (mut terms, mut start, mut is_escaped) = (Vec::new(), 0, false);
    for (at, character) in selector.char_indices() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            ',' => {
                terms.push(&selector[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&selector[start..]);
    terms
}

fn unescaped(value: &str) -> Result<String, Failure> {
    let refused = |detail: String| Failure::bad_request(format!("invalid field selector: {detail}"));
    let (mut text, mut characters) = (String::with_capacity(value.len()), value.chars());
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => text.push(escaped),
                other => {
                    let escape = other.map_or_else(String::new, String::from);
                    return Err(refused(format!("invalid escape sequence: \\{escape}")));
                }
            },
            // Kubernetes names the character by its number.
            ',' | '=' => return Err(refused(format!("unescaped character in value: {}", u32::from(character)))),
            other => text.push(other),
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
