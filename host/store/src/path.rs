//! A path inside a document, as `spec.ports[0].name` or `spec.labels[key]`.
//!
//! A path lives on the stack during a tree walk, and is formatted only for display.

use std::fmt;

/// Displayed characters of one segment.
const STEP_CHARS_MAX: usize = 128;

/// A path from the root of a document to a value.
#[derive(Debug, Clone, Copy)]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Segment<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Segment<'a> {
    Root,
    Field(&'a str),
    Key(&'a str),
    Item(usize),
}

impl<'a> Path<'a> {
    /// The root of a document; displayed as the empty string.
    pub const ROOT: Path<'static> = Path { parent: None, step: Segment::Root };

    /// Returns the path of a named field, as `.spec`.
    pub fn field(&'a self, name: &'a str) -> Self {
        Self { parent: Some(self), step: Segment::Field(name) }
    }

    /// Returns the path of an entry of a map with free keys, as `[name]`.
    pub fn key(&'a self, name: &'a str) -> Self {
        Self { parent: Some(self), step: Segment::Key(name) }
    }

    /// Returns the path of an item of a list, as `[0]`.
    pub fn item(&'a self, at: usize) -> Self {
        Self { parent: Some(self), step: Segment::Item(at) }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        let dot = if self.parent.is_none_or(|parent| matches!(parent.step, Segment::Root)) { "" } else { "." };
        match self.step {
            Segment::Root => Ok(()),
            Segment::Field(name) => write!(f, "{dot}{}", shortened(name, STEP_CHARS_MAX)),
            Segment::Key(name) => write!(f, "[{}]", shortened(name, STEP_CHARS_MAX)),
            Segment::Item(at) => write!(f, "[{at}]"),
        }
    }
}

/// Returns a text of at most `chars_max` characters, with an ellipsis if it was truncated.
pub(crate) fn shortened(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
