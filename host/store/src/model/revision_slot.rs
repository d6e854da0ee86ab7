//! The place of the revision in the text of a document, found without parsing the document.
//!
//! A store whose server numbers the changes learns the revision of a write after the text was made. It then
//! replaces a few bytes of the text. Parsing the document and writing it again would cost several times as much.

use std::ops::Range;

/// Returns the range of the content of the string `metadata.resourceVersion` in the JSON text of an object;
/// `None` when there is none, when it is no string without escapes, or when the text is malformed.
///
/// Of repeated names it finds the first, while a parser keeps the last: a caller that did not write the text
/// compares afterwards.
pub(super) fn revision_slot(text: &str) -> Option<Range<usize>> {
    let metadata = value_of(text.as_bytes(), 0, b"metadata")?;
    let value = value_of(text.as_bytes(), metadata, b"resourceVersion")?;
    let end = end_of_string(text.as_bytes(), value)?;
    let content = value + 1..end - 1;
    (!text.as_bytes()[content.clone()].contains(&b'\\')).then_some(content)
}

/// Returns the text with another content of the slot.
pub(super) fn with_content(text: &str, slot: Range<usize>, content: &str) -> String {
    let mut changed = String::with_capacity(text.len() - slot.len() + content.len());
    changed.push_str(&text[..slot.start]);
    changed.push_str(content);
    changed.push_str(&text[slot.end..]);
    changed
}

/// Returns the start of the value of a field of the object that starts at `at`.
fn value_of(text: &[u8], at: usize, field: &[u8]) -> Option<usize> {
    let mut at = skip_space(text, at);
    if text.get(at) != Some(&b'{') {
        return None;
    }
    at = skip_space(text, at + 1);
    while text.get(at) == Some(&b'"') {
        let end = end_of_string(text, at)?;
        let is_it = text[at + 1..end - 1] == *field;
        at = skip_space(text, end);
        if text.get(at) != Some(&b':') {
            return None;
        }
        at = skip_space(text, at + 1);
        if is_it {
            return Some(at);
        }
        at = skip_space(text, end_of_value(text, at)?);
        if text.get(at) != Some(&b',') {
            return None;
        }
        at = skip_space(text, at + 1);
    }
    None
}

fn skip_space(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count()
}

/// Returns the end of the string that starts at `at`, after its closing quote.
fn end_of_string(text: &[u8], at: usize) -> Option<usize> {
    if text.get(at) != Some(&b'"') {
        return None;
    }
    let mut at = at + 1;
    loop {
        at += text.get(at..)?.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
        if text[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

/// Returns the end of the value that starts at `at`.
fn end_of_value(text: &[u8], at: usize) -> Option<usize> {
    let mut at = at;
    let mut depth = 0_usize;
    loop {
        match *text.get(at)? {
            b'"' => at = end_of_string(text, at)?,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                at += 1;
            }
            _ => at += 1,
        }
        let ends = matches!(text.get(at), None | Some(b',' | b'}' | b']'));
        if depth == 0 && ends {
            return Some(at);
        }
    }
}
