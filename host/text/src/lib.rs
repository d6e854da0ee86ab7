//! Makes untrusted text safe to print: text of guests, clients, files and servers, for terminals and for the
//! formats that the host writes.
//!
//! A character is *hidden* when it moves the cursor, ends a line, changes the direction of writing, or is
//! invisible. All functions write hidden characters as escapes. So a reader sees every character, and
//! untrusted text cannot imitate a line of the host.
//!
//! * [`line()`] for one line of a terminal, a cell of a table, a part of a sentence.
//! * [`block`] for a message that may have several lines.
//! * [`lines`] for a page whose lines the host wrote.
//! * [`scalar`] and [`quoted`] for a value in YAML that the host writes by hand.
//! * [`json`] for JSON that a serializer wrote.
//!
//! Deliberately absent: printing, colours, truncation to a width, and every dependency.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Indentation of every line of a [`block`] after the first.
const INDENT: &str = "  ";

/// Returns whether a character is hidden: a control character, a line or paragraph separator, a format
/// character such as the bidirectional ones, or one that fonts show as nothing.
///
/// Source: Unicode 16.0, the general categories Cc, Cf, Zl and Zp, and the property
/// Default_Ignorable_Code_Point.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}' | '\u{8e2}'
            | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Returns text as one line for display: every hidden character is escaped, line feeds and tabs included.
///
/// A backslash is not escaped, so the result cannot be parsed back. [`quoted`] can.
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, is_hidden, escape_for_display)
}

/// Returns text with line feeds and tabs unchanged, and every other hidden character escaped.
///
/// For pages that the host assembles from pieces that already passed through [`line()`] or [`block`].
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_hidden(c) && !matches!(c, '\n' | '\t'), escape_for_display)
}

/// Returns a message of several lines for display. Escapes like [`lines`], and indents every line but the
/// first by two spaces, so that no line of the message starts in the column of the host's own lines.
pub fn block(text: &str) -> Cow<'_, str> {
    match lines(text) {
        text if text.contains('\n') => Cow::Owned(text.replace('\n', &format!("\n{INDENT}"))),
        text => text,
    }
}

/// Returns text as a double-quoted YAML scalar. It parses back to the same text in every context.
pub fn quoted(text: &str) -> String {
    let is_special = |c: char| is_hidden(c) || matches!(c, '"' | '\\' | '\u{fffe}' | '\u{ffff}');
    let escape = |out: &mut String, c: char| match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\t' => out.push_str("\\t"),
        '\r' => out.push_str("\\r"),
        c if u32::from(c) > 0xffff => write!(out, "\\U{:08x}", u32::from(c)).expect(TAKES),
        c => write!(out, "\\u{:04x}", u32::from(c)).expect(TAKES),
    };
    format!("\"{}\"", escaped(text, is_special, escape))
}

/// Returns text as a YAML scalar for a flow mapping or sequence: unchanged if it is a plain word, [`quoted`]
/// otherwise.
///
/// A plain word starts with a letter and has only letters, digits and `. _ / -`. YAML must not read it as
/// another type.
pub fn scalar(text: &str) -> Cow<'_, str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '/' | '-');
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(is_word);
    let means_another = RESERVED.iter().any(|word| text.eq_ignore_ascii_case(word));
    if is_plain && !means_another { Cow::Borrowed(text) } else { Cow::Owned(quoted(text)) }
}

/// Words that YAML 1.1 or 1.2 does not read as strings.
const RESERVED: [&str; 9] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];

/// Escapes the hidden characters inside the strings of JSON that a serializer wrote. The meaning stays the
/// same.
///
/// Line feeds stay: outside strings they are formatting, and inside strings the serializer has escaped them.
pub fn json(text: &str) -> Cow<'_, str> {
    let escape = |out: &mut String, c: char| {
        for unit in c.encode_utf16(&mut [0; 2]) {
            write!(out, "\\u{unit:04x}").expect(TAKES);
        }
    };
    escaped(text, |c| is_hidden(c) && c != '\n', escape)
}

const TAKES: &str = "a string takes whatever is written to it";

/// Writes an escape that identifies the character.
fn escape_for_display(out: &mut String, c: char) {
    match c {
        '\n' => out.push_str("\\n"),
        '\t' => out.push_str("\\t"),
        '\r' => out.push_str("\\r"),
        c => write!(out, "\\u{{{:x}}}", u32::from(c)).expect(TAKES),
    }
}

/// Escapes the special characters. Most texts have none and are returned unchanged.
fn escaped(text: &str, is_special: impl Fn(char) -> bool, escape: impl Fn(&mut String, char)) -> Cow<'_, str> {
    let Some(first) = text.find(&is_special) else { return Cow::Borrowed(text) };
    let mut out = String::with_capacity(text.len() + 16);
    out.push_str(&text[..first]);
    for c in text[first..].chars() {
        if is_special(c) { escape(&mut out, c) } else { out.push(c) }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests;
