//! Parses YAML and JSON to values with their line and column.
//!
//! This module knows the syntax of YAML and JSON, and nothing of the documents' meaning.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, de};
use serde_json::{Map, Number, Value};
use serde_saphyr::{Location, Spanned, UserMessageFormatter};

/// The deepest nesting that is read. CustomResourceDefinitions nest deeper than other manifests.
const DEPTH_MAX: usize = 200;

/// A line and column, both counted from 1. The column counts characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TextPosition {
    pub(crate) line: u64,
    pub(crate) column: u64,
}

impl TextPosition {
    pub(crate) const START: Self = Self { line: 1, column: 1 };

    /// Returns the start of a line.
    pub(super) fn at_line(line: u64) -> Self {
        Self { line, column: 1 }
    }

    fn of(location: Location) -> Self {
        if location.line() == 0 { Self::START } else { Self { line: location.line(), column: location.column() } }
    }

    /// Converts a position in a part of a file to the position in the whole file.
    fn shifted(self, lines: u64) -> Self {
        Self { line: self.line + lines, ..self }
    }
}

/// A value and its position.
#[derive(Clone, Debug)]
pub(super) struct LocatedValue {
    pub(super) place: TextPosition,
    pub(super) node: Node,
}

/// A value without its position.
#[derive(Clone, Debug)]
pub(super) enum Node {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<LocatedValue>),
    Mapping(Vec<Entry>),
}

/// One entry of a mapping. Keys are unique.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) key_place: TextPosition,
    pub(super) value: LocatedValue,
}

/// A syntax or type error and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SyntaxFault {
    pub(super) place: TextPosition,
    pub(super) message: String,
}

/// The text of one document, and the number of lines before it in the file.
pub(super) struct DocumentText<'a> {
    pub(super) text: Cow<'a, str>,
    pub(super) lines_before: u64,
}

impl LocatedValue {
    /// Returns the entry of a mapping.
    pub(super) fn entry(&self, key: &str) -> Option<&Entry> {
        match &self.node {
            Node::Mapping(entries) => entries.iter().find(|entry| entry.key == key),
            _ => None,
        }
    }

    /// Returns the innermost value that starts at `place`.
    pub(super) fn at(&self, place: TextPosition) -> Option<&Self> {
        let inner = match &self.node {
            Node::List(items) => items.iter().find_map(|item| item.at(place)),
            Node::Mapping(entries) => entries.iter().find_map(|entry| entry.value.at(place)),
            _ => None,
        };
        inner.or_else(|| (self.place == place).then_some(self))
    }

    /// Returns the position of the value at a dotted path (`spec.limits.cpu`, `stores.0.name`), or of its innermost
    /// existing parent.
    pub(super) fn find(&self, path: &str) -> TextPosition {
        let (first, rest) = path.split_once('.').unwrap_or((path, ""));
        let found = match &self.node {
            Node::List(items) => first.parse().ok().and_then(|at: usize| items.get(at)),
            _ => self.entry(first).map(|entry| &entry.value),
        };
        match found {
            Some(value) if rest.is_empty() => value.place,
            Some(value) => value.find(rest),
            None => self.place,
        }
    }

    /// Describes the value for people.
    pub(super) fn describe(&self) -> String {
        match &self.node {
            Node::Null => "nothing".to_owned(),
            Node::Bool(value) => format!("`{value}`"),
            Node::Number(value) => format!("the number {value}"),
            Node::Text(value) => format!("the text {:?}", cut(value)),
            Node::List(_) => "a list".to_owned(),
            Node::Mapping(_) => "a mapping".to_owned(),
        }
    }

    /// Returns the value without positions.
    pub(super) fn to_value(&self) -> Value {
        match &self.node {
            Node::Null => Value::Null,
            Node::Bool(value) => Value::Bool(*value),
            Node::Number(value) => Value::Number(value.clone()),
            Node::Text(value) => Value::String(value.clone()),
            Node::List(items) => Value::Array(items.iter().map(Self::to_value).collect()),
            Node::Mapping(entries) => Value::Object(
                entries.iter().map(|entry| (entry.key.clone(), entry.value.to_value())).collect::<Map<_, _>>(),
            ),
        }
    }

    fn from_spanned(spanned: Spanned<Raw>, lines: u64) -> Self {
        let place = TextPosition::of(spanned.referenced).shifted(lines);
        let node = match spanned.value {
            Raw::Null => Node::Null,
            Raw::Bool(value) => Node::Bool(value),
            Raw::Number(value) => Node::Number(value),
            Raw::Text(value) => Node::Text(value),
            Raw::List(items) => Node::List(items.into_iter().map(|item| Self::from_spanned(item, lines)).collect()),
            Raw::Mapping(entries) => {
                Node::Mapping(entries.into_iter().map(|entry| Entry::from_spanned(entry, lines)).collect())
            }
        };
        Self { place, node }
    }
}

impl Entry {
    fn from_spanned((key, value): (Spanned<String>, Spanned<Raw>), lines: u64) -> Self {
        Self {
            key_place: TextPosition::of(key.referenced).shifted(lines),
            key: key.value,
            value: LocatedValue::from_spanned(value, lines),
        }
    }
}

fn cut(text: &str) -> Cow<'_, str> {
    const CHARACTERS_MAX: usize = 60;
    match text.char_indices().nth(CHARACTERS_MAX) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

/// Splits YAML text at its document markers, so that a mistake in one document does not affect the others.
///
/// A marker is always at the start of a line, in any context, so this needs no parser. Documents without
/// content are left out.
pub(super) fn split(text: &str) -> Vec<DocumentText<'_>> {
    let mut parts = Vec::new();
    let (mut start, mut first_line, mut offset) = (0, 0, 0);
    for (number, line) in (0..).zip(text.split_inclusive('\n')) {
        if is_marker(line, "---") || is_marker(line, "...") {
            push_part(&mut parts, &text[start..offset], first_line);
            (start, first_line) = (offset, number);
        }
        offset += line.len();
    }
    push_part(&mut parts, &text[start..], first_line);
    parts
}

fn is_marker(line: &str, marker: &str) -> bool {
    line.strip_prefix(marker).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

fn push_part<'a>(parts: &mut Vec<DocumentText<'a>>, text: &'a str, lines_before: u64) {
    // Spaces replace the marker, so that text behind it on the same line keeps its column.
    let marked = is_marker(text, "---") || is_marker(text, "...");
    let text = if marked { Cow::Owned(format!("   {}", &text[3..])) } else { Cow::Borrowed(text) };
    let blank =
        |line: &str| line.trim_start().is_empty() || line.trim_start().starts_with('#') || line.starts_with('%');
    if !text.lines().all(blank) {
        parts.push(DocumentText { text, lines_before });
    }
}

/// Splits JSON text into its consecutive values. Each part reads as YAML with the same columns.
pub(super) fn split_json(text: &str) -> (Vec<DocumentText<'_>>, Option<SyntaxFault>) {
    let mut parts = Vec::new();
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<de::IgnoredAny>();
    let mut start = 0;
    while let Some(value) = values.next() {
        if let Err(error) = value {
            return (parts, Some(json_fault(text, &error)));
        }
        let end = values.byte_offset();
        let blanks = text[start..end].len() - text[start..end].trim_start().len();
        let (before, part) = (&text[..start + blanks], &text[start + blanks..end]);
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count();
        let lines_before = before.matches('\n').count() as u64;
        parts.push(DocumentText { text: Cow::Owned(format!("{}{part}", " ".repeat(column))), lines_before });
        start = end;
    }
    (parts, None)
}

fn json_fault(text: &str, error: &serde_json::Error) -> SyntaxFault {
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or_default();
    // serde_json counts columns in bytes, and reports column 0 at the end of a line.
    let line = text.split('\n').nth(error.line().saturating_sub(1)).unwrap_or_default();
    let bytes = line.floor_char_boundary(error.column().saturating_sub(1));
    let place = TextPosition { line: error.line().max(1) as u64, column: line[..bytes].chars().count() as u64 + 1 };
    SyntaxFault { place, message: format!("this is not JSON: {message}") }
}

/// Cuts an item out of a list document, as a text of its own with the same positions.
///
/// Returns `None` if the cut text does not parse to the same item: it may use an anchor, or share a line with
/// another item.
pub(super) fn item<'a>(part: &DocumentText<'_>, item: &LocatedValue) -> Option<DocumentText<'a>> {
    let indent = usize::try_from(item.place.column - 1).ok()?;
    let before = usize::try_from(item.place.line - 1 - part.lines_before).ok()?;
    let belongs = |line: &&str| {
        let depth = line.len() - line.trim_start().len();
        line.trim().is_empty() || depth >= indent
    };
    let mut lines = part.text.lines().skip(before);
    let first: String = lines.next()?.chars().skip(indent).collect();
    let rest: Vec<&str> = lines.take_while(belongs).collect();
    let text = format!("{}{first}\n{}", " ".repeat(indent), rest.join("\n"));
    let text = text.trim_end().trim_end_matches(',').to_owned();
    let cut = DocumentText { text: Cow::Owned(text), lines_before: item.place.line - 1 };
    parse(&cut).is_ok_and(|found| found.to_value() == item.to_value()).then_some(cut)
}

/// Parses one document, without a schema.
pub(super) fn parse(part: &DocumentText<'_>) -> Result<LocatedValue, SyntaxFault> {
    serde_saphyr::from_str_with_options::<Spanned<Raw>>(&part.text, options())
        .map(|raw| LocatedValue::from_spanned(raw, part.lines_before))
        .map_err(|error| fault(&error, part.lines_before))
}

/// Parses one document as a `T`. Errors include the value at their position.
pub(super) fn parse_as<T: de::DeserializeOwned>(
    part: &DocumentText<'_>,
    located: &LocatedValue,
) -> Result<T, SyntaxFault> {
    serde_saphyr::from_str_with_options::<T>(&part.text, options()).map_err(|error| {
        let mut fault = fault(&error, part.lines_before);
        let names_it = fault.message.starts_with("unknown ") || fault.message.contains('"');
        if let (false, Some(found)) = (names_it, located.at(fault.place)) {
            fault.message = format!("{}, found {}", fault.message, found.describe());
        }
        fault
    })
}

fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_depth: DEPTH_MAX },
        // `no` is a country and `0644` a file mode, as in kubectl.
        strict_booleans: true,
        legacy_octal_numbers: true,
        emit_comments: false,
        with_snippet: false,
    }
}

fn fault(error: &serde_saphyr::Error, lines_before: u64) -> SyntaxFault {
    let place = error.location().map_or(TextPosition::START, TextPosition::of);
    let message = error.render_with_formatter(&UserMessageFormatter);
    let message =
        message.strip_suffix(&format!(" at line {}, column {}", place.line, place.column)).unwrap_or(&message);
    let message = match message {
        "expected mapping start" => "expected a mapping",
        "expected sequence start" => "expected a list",
        "invalid u16" | "invalid u32" | "invalid u64" | "invalid usize" => "expected a whole number, 0 or more",
        "invalid i32" | "invalid i64" => "expected a whole number",
        "invalid f32" | "invalid f64" => "expected a number",
        other => other,
    };
    let message = message
        .strip_suffix(" not allowed here")
        .map_or_else(|| message.to_owned(), |rest| format!("{rest} appears twice"));
    SyntaxFault { place: place.shifted(lines_before), message }
}

/// The same as [`Node`], in the parser's types.
enum Raw {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Spanned<Self>>),
    Mapping(Vec<(Spanned<String>, Spanned<Self>)>),
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> de::Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_none<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
        Ok(Raw::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Raw, E> {
        Ok(Raw::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Raw, E> {
        Ok(Raw::Number(value.into()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Raw, E> {
        Number::from_f64(value).map(Raw::Number).ok_or_else(|| E::custom("expected a finite number"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Raw, E> {
        Ok(Raw::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Raw, E> {
        Ok(Raw::Text(value))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut access: A) -> Result<Raw, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Raw::List(items))
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut access: A) -> Result<Raw, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(Raw::Mapping(entries))
    }
}
