//! Parses label requirements in the syntax of kubectl, and refuses others in its words.
//!
//! Source: `k8s.io/apimachinery/pkg/labels`, whose lexer and parser these are.

use crate::{Error, LabelRequirement, validate};

/// The operators between a name and its value.
const OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";

/// Parses a comma-separated list of requirements.
pub(super) fn labels(text: &str) -> crate::Result<Vec<LabelRequirement>> {
    let mut parser = Parser { tokens: tokens(text), at: 0 };
    parser.requirements().map_err(|reason| Error::invalid("labelSelector", reason))
}

/// A part of a selector: an operator, a parenthesis, a comma or a word.
fn tokens(text: &str) -> Vec<&str> {
    let is_symbol = |letter: char| matches!(letter, '=' | '!' | '(' | ')' | ',' | '>' | '<');
    let is_space = |letter: char| matches!(letter, ' ' | '\t' | '\r' | '\n');
    let (mut tokens, mut rest) = (Vec::new(), text.trim_start_matches(is_space));
    while !rest.is_empty() {
        let length = if ["==", "!="].iter().any(|operator| rest.starts_with(operator)) {
            2
        } else if rest.starts_with(is_symbol) {
            1
        } else {
            rest.find(|letter: char| is_symbol(letter) || is_space(letter)).unwrap_or(rest.len())
        };
        let (token, further) = rest.split_at(length);
        tokens.push(token);
        rest = further.trim_start_matches(is_space);
    }
    tokens
}

fn is_word(token: &str) -> bool {
    !matches!(token, "" | "=" | "==" | "!=" | "!" | "(" | ")" | "," | ">" | "<")
}

struct Parser<'t> {
    tokens: Vec<&'t str>,
    at: usize,
}

impl<'t> Parser<'t> {
    /// Returns the next token without reading it; empty at the end.
    fn next(&self) -> &'t str {
        self.tokens.get(self.at).copied().unwrap_or_default()
    }

    /// Reads the next token; empty at the end.
    fn read(&mut self) -> &'t str {
        let token = self.next();
        self.at += 1;
        token
    }

    fn requirements(&mut self) -> Result<Vec<LabelRequirement>, String> {
        let mut found = Vec::new();
        if self.next().is_empty() {
            return Ok(found);
        }
        if !(is_word(self.next()) || self.next() == "!") {
            return Err(format!("found '{}', expected: !, identifier, or 'end of string'", self.next()));
        }
        loop {
            found.push(self.requirement().map_err(|reason| format!("unable to parse requirement: {reason}"))?);
            match self.read() {
                "" => return Ok(found),
                "," if is_word(self.next()) || self.next() == "!" => {}
                "," => return Err(format!("found '{}', expected: identifier after ','", self.next())),
                other => return Err(format!("found '{other}', expected: ',' or 'end of string'")),
            }
        }
    }

    fn requirement(&mut self) -> Result<LabelRequirement, String> {
        let is_absent = self.next() == "!";
        self.at += usize::from(is_absent);
        let name = self.read();
        if !is_word(name) {
            return Err(format!("found '{name}', expected: identifier"));
        }
        validate::label_name("<nil>", name).map_err(words)?;
        let name = name.to_owned();
        if is_absent {
            return Ok(LabelRequirement::Absent(name));
        }
        if matches!(self.next(), "" | ",") {
            return Ok(LabelRequirement::Exists(name));
        }
        let found = match self.read() {
            "=" | "==" => LabelRequirement::Equals(name, self.value()?),
            "!=" => LabelRequirement::NotEquals(name, self.value()?),
            "in" => LabelRequirement::OneOf(name, self.values()?),
            "notin" => LabelRequirement::NoneOf(name, self.values()?),
            operator @ (">" | "<") => {
                let bound = self.number(&name)?;
                return Ok(match operator {
                    ">" => LabelRequirement::GreaterThan(name, bound),
                    _ => LabelRequirement::LessThan(name, bound),
                });
            }
            other => return Err(format!("found '{other}', expected: {OPERATORS}")),
        };
        check_values(&found).map(|()| found)
    }

    fn value(&mut self) -> Result<String, String> {
        match self.next() {
            "" | "," => Ok(String::new()),
            _ => match self.read() {
                word if is_word(word) => Ok(word.to_owned()),
                other => Err(format!("found '{other}', expected: identifier")),
            },
        }
    }

    /// Reads the bound of a label. It has to be a value of a label, so it is not negative.
    fn number(&mut self, name: &str) -> Result<i64, String> {
        let value = self.value()?;
        let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
        let number = value.parse().map_err(|_| format!("values[0]: Invalid value: {value:?}: {detail}"))?;
        validate::label_value(&format!("values[0][{name}]"), &value).map_err(words)?;
        Ok(number)
    }

    /// Reads values in parentheses. An empty one stands before, between and after commas.
    fn values(&mut self) -> Result<Vec<String>, String> {
        match self.read() {
            "(" => {}
            other => return Err(format!("found '{other}' expected: '('")),
        }
        if self.next() != ")" && self.next() != "," && !is_word(self.next()) {
            return Err(format!("found '{}', expected: ',', ')' or identifier", self.next()));
        }
        let mut values = Vec::new();
        loop {
            values.push(if is_word(self.next()) { self.read().to_owned() } else { String::new() });
            match self.read() {
                "," => {}
                ")" => return Ok(values),
                other => return Err(format!("found '{other}', expected: ',' or ')'")),
            }
        }
    }
}

fn check_values(requirement: &LabelRequirement) -> Result<(), String> {
    let (name, values) = match requirement {
        LabelRequirement::Equals(name, value) | LabelRequirement::NotEquals(name, value) => {
            (name, std::slice::from_ref(value))
        }
        LabelRequirement::OneOf(name, values) | LabelRequirement::NoneOf(name, values) => (name, values.as_slice()),
        LabelRequirement::Exists(_)
        | LabelRequirement::Absent(_)
        | LabelRequirement::GreaterThan(..)
        | LabelRequirement::LessThan(..) => return Ok(()),
    };
    let check = |(at, value): (usize, &String)| validate::label_value(&format!("values[{at}][{name}]"), value);
    values.iter().enumerate().try_for_each(check).map_err(words)?;
    requirement.validate("values").map_err(words)
}

/// Returns the words of a refusal.
fn words(error: Error) -> String {
    match error {
        Error::Invalid { path, reason } => format!("{path}: {reason}"),
        other => other.to_string(),
    }
}
