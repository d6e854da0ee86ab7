//! Sets of field paths, and their encoding in `metadata.managedFields`: `FieldsV1`.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

use crate::numbers;

/// One element of a path. Its text is canonical, so that equal elements compare equal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PathElement {
    /// The field of an object.
    Field(String),
    /// The item of a list with keys: a JSON object of its key fields, names in order.
    Key(String),
    /// The item of a set: its JSON text.
    Value(String),
}

impl PathElement {
    /// Builds the element of an item with these key fields.
    pub(super) fn key(fields: &BTreeMap<&str, &Value>) -> Self {
        Self::Key(serde_json::to_string(fields).expect("a JSON value can be written"))
    }

    /// Builds the element of an item of a set.
    pub(super) fn value(item: &Value) -> Self {
        Self::Value(item.to_string())
    }

    /// Parses an element of `FieldsV1`; `None` when it is malformed, or is an index, which this module never
    /// writes.
    fn parse(text: &str) -> Option<Self> {
        let (sort, rest) = text.split_once(':')?;
        match sort {
            "f" => Some(Self::Field(rest.to_owned())),
            "k" => {
                let mut fields: BTreeMap<String, Value> = serde_json::from_str(rest).ok()?;
                fields.values_mut().for_each(numbers::normalize);
                Some(Self::key(&fields.iter().map(|(name, value)| (name.as_str(), value)).collect()))
            }
            "v" => {
                let mut item = serde_json::from_str(rest).ok()?;
                numbers::normalize(&mut item);
                Some(Self::value(&item))
            }
            _ => None,
        }
    }

    /// Returns the element as a refusal shows it: `.name`, `[name="c"]` or `[="a"]`.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Field(name) => format!(".{name}"),
            Self::Key(fields) => {
                let fields: BTreeMap<String, Value> = serde_json::from_str(fields).unwrap_or_default();
                let fields: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
                format!("[{}]", fields.join(","))
            }
            Self::Value(item) => format!("[={item}]"),
        }
    }

    /// Returns the element in `FieldsV1`.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(fields) => format!("k:{fields}"),
            Self::Value(item) => format!("v:{item}"),
        }
    }
}

impl fmt::Display for PathElement {
    /// Writes the element for display: `.name`, `[name="a",port=80]` or `[="a"]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Value(item) => write!(f, "[={item}]"),
            Self::Key(fields) => {
                let fields: BTreeMap<String, Value> = serde_json::from_str(fields).unwrap_or_default();
                let fields: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
                write!(f, "[{}]", fields.join(","))
            }
        }
    }
}

/// A set of paths, as a tree of elements.
///
/// Invariant: no child is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FieldSet {
    owned: bool,
    below: BTreeMap<PathElement, FieldSet>,
}

impl FieldSet {
    /// Returns the set of this value itself, and nothing below it.
    pub(super) fn itself() -> Self {
        Self { owned: true, below: BTreeMap::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.owned && self.below.is_empty()
    }

    /// Returns whether the set contains this value itself.
    pub(super) fn is_owned(&self) -> bool {
        self.owned
    }

    /// Adds this value itself.
    pub(super) fn add_itself(&mut self) {
        self.owned = true;
    }

    /// Adds a set of paths below a part of this value.
    pub(super) fn add(&mut self, element: PathElement, part: Self) {
        if !part.is_empty() {
            self.below.entry(element).or_default().unite(part);
        }
    }

    /// Returns the set below a part of this value; `None` when it is empty.
    pub(super) fn get(&self, element: &PathElement) -> Option<&Self> {
        self.below.get(element)
    }

    /// Returns the parts of this value with paths in the set.
    pub(super) fn parts(&self) -> impl Iterator<Item = (&PathElement, &Self)> {
        self.below.iter()
    }

    /// Adds every path of another set.
    pub(super) fn unite(&mut self, other: Self) {
        self.owned |= other.owned;
        for (element, part) in other.below {
            self.add(element, part);
        }
    }

    /// Removes the paths of another set, each with all paths below it.
    pub(super) fn remove_below(&mut self, roots: &Self) {
        for (element, root) in &roots.below {
            let Some(part) = self.below.get_mut(element) else { continue };
            if !root.owned {
                part.remove_below(root);
            }
            if root.owned || part.is_empty() {
                self.below.remove(element);
            }
        }
    }

    /// Removes the paths of another set, but not the paths below them.
    pub(super) fn subtract(&mut self, others: &Self) {
        self.owned &= !others.owned;
        self.below.retain(|element, part| {
            if let Some(others) = others.below.get(element) {
                part.subtract(others);
            }
            !part.is_empty()
        });
    }

    /// Returns the paths of another set at or below which this set has any path, for display. As in Kubernetes, the paths of
    /// a value come before those below its parts.
    pub(super) fn overlaps(&self, roots: &Self) -> Vec<String> {
        let mut found = Vec::new();
        self.collect_overlaps(roots, "", &mut found);
        found
    }

    fn collect_overlaps(&self, roots: &Self, path: &str, found: &mut Vec<String>) {
        let shared =
            || roots.below.iter().filter_map(|(element, root)| Some((element, root, self.below.get(element)?)));
        found.extend(shared().filter(|(_, root, _)| root.owned).map(|(element, ..)| format!("{path}{element}")));
        for (element, root, part) in shared().filter(|(_, root, _)| !root.owned) {
            part.collect_overlaps(root, &format!("{path}{element}"), found);
        }
    }

    /// Parses `fieldsV1`. Skips malformed parts.
    pub(super) fn read(json: &Value) -> Self {
        Self { owned: false, ..Self::read_part(json) }
    }

    fn read_part(json: &Value) -> Self {
        let Value::Object(json) = json else { return Self::default() };
        let mut fields = Self { owned: json.is_empty() || json.contains_key("."), below: BTreeMap::new() };
        for (text, part) in json {
            if let Some(element) = PathElement::parse(text) {
                fields.add(element, Self::read_part(part));
            }
        }
        fields
    }

    /// Writes `fieldsV1`.
    pub(super) fn write(&self) -> Value {
        let mut json: Map<String, Value> =
            self.below.iter().map(|(element, part)| (element.text(), part.write())).collect();
        if self.owned && !self.below.is_empty() {
            json.insert(".".to_owned(), Value::Object(Map::new()));
        }
        Value::Object(json)
    }
}
