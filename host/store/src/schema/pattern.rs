//! The `pattern` of a text: a regular expression as Kubernetes understands it (RE2), compiled once.
//!
//! Both languages agree on nearly everything; the rest is rewritten: `\d`, `\w` and `\s` mean ASCII alone, a `[` inside of a class and a
//! brace that counts nothing are themselves, and `\<` is no boundary. Matching takes time in proportion to text and pattern.

use regex::{Regex, RegexBuilder};

/// Largest pattern, in bytes of its text.
const TEXT_BYTES_MAX: usize = 4096;
/// Largest compiled pattern, in bytes.
const COMPILED_BYTES_MAX: usize = 1 << 20;
/// Deepest nesting of groups.
const NESTING_MAX: u32 = 50;

/// A regular expression and its text.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    text: String,
    regex: Regex,
}

impl Pattern {
    /// Compiles a pattern, or says why that cannot be done.
    pub(super) fn new(text: &str) -> Result<Self, String> {
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
                Err(format!("is no regular expression: {}", last.trim_start_matches("error: ")))
            }
        }
    }

    /// Returns the text of the pattern as it was written.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether the pattern is found anywhere in a text.
    pub(super) fn is_in(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

/// Returns the pattern in the words of the `regex` crate.
fn translated(text: &str) -> String {
    let mut rest = text;
    let mut out = String::with_capacity(text.len());
    // Inside of a class: how many characters of it were seen.
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

/// Rewrites the escape that `rest` begins with. Returns how many bytes it has, and what it becomes.
fn escape(rest: &str, in_class: bool) -> (usize, &str) {
    let Some(escaped) = rest.chars().nth(1) else { return (1, rest) };
    let mut bytes = 1 + escaped.len_utf8();
    if matches!(escaped, 'p' | 'P' | 'x') && rest[bytes..].starts_with('{') {
        // The braces of `\p{Lu}` and `\x{60}` name something.
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

/// Rewrites the character of a class that `rest` begins with. Returns how many bytes it has, and what it becomes.
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

/// Returns whether the brace that `rest` begins with says how often something comes, as `{1,3}`.
fn counts(rest: &str) -> bool {
    let Some((inside, _)) = rest[1..].split_once('}') else { return false };
    let (least, most) = inside.split_once(',').unwrap_or((inside, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    !least.is_empty() && digits(least) && digits(most)
}

#[cfg(test)]
mod tests;
