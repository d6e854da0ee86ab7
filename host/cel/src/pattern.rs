//! The `pattern` of a string: a regular expression in the syntax of Kubernetes (RE2), compiled once.
//!
//! RE2 and the `regex` crate agree on nearly all syntax; the differences are rewritten. `\d`, `\w` and `\s`
//! match only ASCII. A `[` inside a class and a brace that is no repetition are literals, and so is `\<`.
//! Matching takes time in proportion to text and pattern.

use regex::{Regex, RegexBuilder};

/// Largest pattern, in bytes of its text.
const TEXT_BYTES_MAX: usize = 4096;
/// Largest compiled pattern, in bytes.
const COMPILED_BYTES_MAX: usize = 1 << 20;
/// Deepest nesting of groups.
const NESTING_MAX: u32 = 50;

/// A regular expression and its text.
#[derive(Debug, Clone)]
pub struct Pattern {
    text: String,
    regex: Regex,
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// The reason, when it is no regular expression, or too large.
    pub fn new(text: &str) -> Result<Self, String> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(format!("has {} bytes, the limit is {TEXT_BYTES_MAX}", text.len()));
        }
        let regex = RegexBuilder::new(&translated(text)).size_limit(COMPILED_BYTES_MAX).nest_limit(NESTING_MAX).build();
        match regex {
            Ok(regex) => Ok(Self { text: text.to_owned(), regex }),
            Err(regex::Error::CompiledTooBig(_)) => {
                Err(format!("is too large, the limit is {COMPILED_BYTES_MAX} bytes when compiled"))
            }
            Err(error) => {
                let text = error.to_string();
                let last = text.lines().last().unwrap_or("");
                Err(format!("is not a regular expression: {}", last.trim_start_matches("error: ")))
            }
        }
    }

    /// Returns the source text of the pattern.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the parts of a text that match, in order and without overlaps.
    pub fn matches<'t>(&self, text: &'t str) -> impl Iterator<Item = &'t str> {
        self.regex.find_iter(text).map(|found| found.as_str())
    }

    /// Returns whether the pattern matches anywhere in a text.
    pub fn is_in(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

/// Translates the pattern to the syntax of the `regex` crate.
fn translated(text: &str) -> String {
    let mut rest = text;
    let mut out = String::with_capacity(text.len());
    // Inside a class: the number of its characters so far.
    let mut class: Option<usize> = None;
    while let Some(next) = rest.chars().next() {
        let (taken, written) = if next == '\\' {
            escape(rest, class.is_some())
        } else if class.is_some() {
            in_class(rest, class == Some(0))
        } else if next == '{' && !counts(rest) {
            (1, "\\{")
        } else {
            (next.len_utf8(), &rest[..next.len_utf8()])
        };
        out.push_str(written);
        class = match class {
            None if next == '[' => Some(0),
            None => None,
            Some(0) if next == '^' => Some(0),
            Some(seen) if next == ']' && seen > 0 => None,
            Some(seen) => Some(seen + 1),
        };
        rest = &rest[taken..];
    }
    out
}

/// Translates the escape at the start of `rest`. Returns its length in bytes, and its translation.
fn escape(rest: &str, in_class: bool) -> (usize, &str) {
    let Some(escaped) = rest.chars().nth(1) else { return (1, rest) };
    let mut bytes = 1 + escaped.len_utf8();
    if matches!(escaped, 'p' | 'P' | 'x') && rest[bytes..].starts_with('{') {
        // The braces of `\p{Lu}` and `\x{60}` enclose a name.
        bytes = rest.find('}').map_or(bytes, |end| end + 1);
    }
    let written = match escaped {
        'd' => "[0-9]",
        'D' => "[^0-9]",
        'w' => "[0-9A-Za-z_]",
        'W' => "[^0-9A-Za-z_]",
        's' => "[\\t\\n\\f\\r ]",
        'S' => "[^\\t\\n\\f\\r ]",
        'b' if !in_class => "(?-u:\\b)",
        '<' => "<",
        '>' => ">",
        _ => &rest[..bytes],
    };
    (bytes, written)
}

/// Translates the class character at the start of `rest`. Returns its length in bytes, and its translation.
fn in_class(rest: &str, is_first: bool) -> (usize, &str) {
    if rest.starts_with("[:")
        && let Some(end) = rest.find(":]")
    {
        return (end + 2, &rest[..end + 2]);
    }
    if rest.starts_with("--") && !is_first {
        return (2, "-\\-");
    }
    match rest.as_bytes()[0] {
        b'[' => (1, "\\["),
        b'&' => (1, "\\&"),
        b'~' => (1, "\\~"),
        b']' if is_first => (1, "\\]"),
        _ => {
            let bytes = rest.chars().next().map_or(1, char::len_utf8);
            (bytes, &rest[..bytes])
        }
    }
}

/// Returns whether the brace at the start of `rest` is a repetition, as `{1,3}`.
fn counts(rest: &str) -> bool {
    let Some((inside, _)) = rest[1..].split_once('}') else { return false };
    let (least, most) = inside.split_once(',').unwrap_or((inside, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    !least.is_empty() && digits(least) && digits(most)
}

#[cfg(test)]
mod tests;
