//! Parses a JSON path.

use serde_json::Value;

use super::{Filter, Step, Test};
use crate::{Error, Result};

const TEXT_BYTES_MAX: usize = 1024;

/// Parses a whole path. Accepts the braces that `kubectl` puts around paths.
pub(super) fn steps(text: &str) -> Result<Vec<Step>> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(wrong(&format!("has {} bytes, the limit is {TEXT_BYTES_MAX}", text.len())));
    }
    let inner = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(text);
    let inner = inner.strip_prefix('$').unwrap_or(inner);
    if !inner.starts_with(['.', '[']) {
        return Err(wrong("must begin with `.`"));
    }
    let mut reader = PathParser { rest: inner };
    let steps = if inner == "." { Vec::new() } else { reader.steps(true)? };
    if inner != "." && !reader.rest.is_empty() {
        return Err(wrong(&format!("`{}` is not understood", reader.rest)));
    }
    Ok(steps)
}

fn wrong(reason: &str) -> Error {
    Error::invalid("jsonPath", reason)
}

/// A parser at its position in the text.
struct PathParser<'a> {
    rest: &'a str,
}

impl<'a> PathParser<'a> {
    fn take(&mut self, wanted: &str) -> bool {
        let rest = self.rest.strip_prefix(wanted);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, wanted: &str) -> Result<()> {
        if self.take(wanted) { Ok(()) } else { Err(wrong(&format!("`{wanted}` is missing before `{}`", self.rest))) }
    }

    fn blanks(&mut self) {
        self.rest = self.rest.trim_start_matches(' ');
    }

    /// Parses steps until the next token is no step.
    fn steps(&mut self, filters: bool) -> Result<Vec<Step>> {
        let mut steps = Vec::new();
        loop {
            if self.take(".") {
                // `.['a']` and `.[0]` are valid, too.
                if !self.rest.starts_with('[') {
                    steps.push(self.name()?);
                }
            } else if self.take("[") {
                steps.push(self.bracket(filters)?);
            } else {
                return Ok(steps);
            }
        }
    }

    fn name(&mut self) -> Result<Step> {
        if self.take("*") {
            return Ok(Step::All);
        }
        let mut name = String::new();
        let mut letters = self.rest.char_indices();
        let end = loop {
            match letters.next() {
                None => break self.rest.len(),
                Some((_, '\\')) => match letters.next() {
                    Some((_, escaped)) => name.push(escaped),
                    None => return Err(wrong("ends with `\\`")),
                },
                Some((at, '.' | '[' | ']' | ' ' | '=' | '!' | '<' | '>' | ')' | '(' | '{' | '}' | '?' | '@')) => {
                    break at;
                }
                Some((_, letter)) => name.push(letter),
            }
        };
        self.rest = &self.rest[end..];
        if name.is_empty() {
            return Err(wrong("a name is missing after `.`"));
        }
        Ok(Step::Field(name))
    }

    /// Parses the rest of a step after `[`.
    fn bracket(&mut self, filters: bool) -> Result<Step> {
        let step = if self.take("*") {
            Step::All
        } else if self.rest.starts_with(['\'', '"']) {
            Step::Field(self.quoted()?)
        } else if self.take("?(") {
            if !filters {
                return Err(wrong("a filter cannot stand inside of a filter"));
            }
            Step::Where(self.filter()?)
        } else {
            let end = self.rest.find(']').unwrap_or(self.rest.len());
            let (digits, rest) = self.rest.split_at(end);
            let at = digits.parse().map_err(|_| wrong(&format!("`[{digits}]` is not understood")))?;
            self.rest = rest;
            Step::Item(at)
        };
        self.expect("]")?;
        Ok(step)
    }

    /// Parses a filter after `[?(`.
    fn filter(&mut self) -> Result<Filter> {
        self.blanks();
        self.expect("@")?;
        let path = self.steps(false)?;
        self.blanks();
        let test = if self.take("==") {
            Test::Is(self.literal()?)
        } else if self.take("!=") {
            Test::IsNot(self.literal()?)
        } else {
            Test::IsThere
        };
        self.blanks();
        self.expect(")")?;
        Ok(Filter { path, test })
    }

    fn literal(&mut self) -> Result<Value> {
        self.blanks();
        if self.rest.starts_with(['\'', '"']) {
            return Ok(Value::from(self.quoted()?));
        }
        let end = self.rest.find([')', ' ']).unwrap_or(self.rest.len());
        let (literal, rest) = self.rest.split_at(end);
        self.rest = rest;
        let value = serde_json::from_str(literal).ok().filter(|value: &Value| !value.is_array() && !value.is_object());
        value.ok_or_else(|| wrong(&format!("`{literal}` must be a quoted string, a number, true or false")))
    }

    /// Parses a string in quotes of either kind; `\` escapes the next character.
    fn quoted(&mut self) -> Result<String> {
        let mut letters = self.rest.char_indices();
        let quote = letters.next().map(|(_, quote)| quote);
        let mut text = String::new();
        while let Some((at, letter)) = letters.next() {
            if Some(letter) == quote {
                self.rest = &self.rest[at + letter.len_utf8()..];
                return Ok(text);
            }
            match letter {
                '\\' => text.extend(letters.next().map(|(_, escaped)| escaped)),
                _ => text.push(letter),
            }
        }
        Err(wrong("a quote is not closed"))
    }
}
