//! Terms by which a kind can be listed without a look at each of its resources, and the parts that all
//! indexes share.
//!
//! A *term* is a label or a field. An index of a term has the path of each resource under the value of its term.
//! So an index answers a condition that names its values: `app=web`, `app in (a,b)`, `/spec/nodeName = n1`.
//!
//! A resource without the term is in no index of it. So an index never answers a condition that an absent term
//! satisfies, as `app!=web`, or a field that must be empty.
//!
//! Deliberately absent: where an index is kept. [`contents`](crate::contents) has it in memory,
//! [`embedded`](crate::embedded) in its file.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;
use std::iter::Peekable;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::selector::selected_field;
use crate::{Error, LabelRequirement, Resource, Result, Selector, validate};

/// Declared terms of one kind at most.
pub const TERMS_MAX: usize = 16;
/// Undeclared terms of one kind with an index in memory at most. The one that was used least recently is dropped for
/// another.
pub const UNDECLARED_TERMS_MAX: usize = 8;

/// Bytes of a value that an index distinguishes. Longer values with the same beginning share an entry, and the
/// selector tells them apart.
const VALUE_BYTES_MAX: usize = 256;

/// A label or a field of a kind that has an index.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum IndexTerm {
    /// The label of this name.
    Label(String),
    /// The string, number or boolean at this JSON pointer.
    Field(String),
}

impl IndexTerm {
    /// Returns the value under which an index has a resource; `None` if the index does not have it.
    ///
    /// A value is cut to its first 256 bytes.
    pub fn value_of<'r>(&self, resource: &'r Resource) -> Option<Cow<'r, str>> {
        match self {
            Self::Label(name) => resource.label(name).map(distinguished).map(Cow::Borrowed),
            Self::Field(pointer) => match selected_field(resource, pointer)? {
                // A missing field counts as empty.
                text if text.is_empty() => None,
                Cow::Borrowed(text) => Some(Cow::Borrowed(distinguished(text))),
                short => Some(short),
            },
        }
    }

    /// Returns the text form of stored indexes: `l` or `f`, and the name or the pointer.
    pub(crate) fn encode(&self) -> String {
        match self {
            Self::Label(name) => format!("l{name}"),
            Self::Field(pointer) => format!("f{pointer}"),
        }
    }

    /// Reads the form of [`IndexTerm::encode`].
    pub(crate) fn decode(text: &str) -> Option<Self> {
        match text.split_at_checked(1)? {
            ("l", name) => Some(Self::Label(name.to_owned())),
            ("f", pointer) => Some(Self::Field(pointer.to_owned())),
            _ => None,
        }
    }

    /// Checks the terms of a kind.
    ///
    /// # Errors
    /// `Invalid` with the path of the list for too many terms, and for one that is no label name or JSON pointer.
    pub fn check(path: &str, terms: &[Self]) -> Result<()> {
        if terms.len() > TERMS_MAX {
            return Err(Error::invalid(path, format!("has {} terms, the limit is {TERMS_MAX}", terms.len())));
        }
        terms.iter().try_for_each(|term| match term {
            Self::Label(name) => validate::label_name(path, name),
            Self::Field(pointer) if pointer.starts_with('/') => Ok(()),
            Self::Field(_) => Err(Error::invalid(path, "must have JSON pointers that begin with /")),
        })
    }
}

impl fmt::Display for IndexTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Label(name) => write!(f, "label {name}"),
            Self::Field(pointer) => write!(f, "field {pointer}"),
        }
    }
}

/// Cuts a value to the part that an index distinguishes.
fn distinguished(value: &str) -> &str {
    &value[..value.floor_char_boundary(VALUE_BYTES_MAX)]
}

/// A condition of a selector that an index answers: all resources that satisfy it have one of the values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IndexLookup<'s> {
    pub(crate) term: IndexTerm,
    /// Each value once, in order.
    pub(crate) values: Vec<&'s str>,
}

/// Returns the conditions of a selector that an index could answer. Fewer values come first: they are likely to have
/// fewer resources.
pub(crate) fn lookups(selector: &Selector) -> Vec<IndexLookup<'_>> {
    let labels = selector.labels.iter().filter_map(|requirement| match requirement {
        LabelRequirement::Equals(name, value) => Some((name, std::slice::from_ref(value))),
        LabelRequirement::OneOf(name, values) => Some((name, values.as_slice())),
        LabelRequirement::NotEquals(..)
        | LabelRequirement::NoneOf(..)
        | LabelRequirement::Exists(_)
        | LabelRequirement::Absent(_)
        | LabelRequirement::GreaterThan(..)
        | LabelRequirement::LessThan(..) => None,
    });
    let labels = labels.map(|(name, values)| (IndexTerm::Label(name.clone()), values));
    // A missing field counts as empty, and no index has it.
    let fields = selector.fields.iter().filter(|(_, value)| !value.is_empty());
    let fields = fields.map(|(pointer, value)| (IndexTerm::Field(pointer.clone()), std::slice::from_ref(value)));
    let mut found: Vec<IndexLookup<'_>> = labels
        .chain(fields)
        .map(|(term, values)| {
            let mut values: Vec<&str> = values.iter().map(|value| distinguished(value)).collect();
            values.sort_unstable();
            values.dedup();
            IndexLookup { term, values }
        })
        .collect();
    found.sort_by_key(|lookup| lookup.values.len());
    found
}

/// Several ordered sequences as one, in order. No item is in two of them.
pub(crate) struct SortedMerge<I: Iterator>(Vec<Peekable<I>>);

impl<I: Iterator> SortedMerge<I> {
    pub(crate) fn of(sources: impl IntoIterator<Item = I>) -> Self {
        Self(sources.into_iter().map(Iterator::peekable).collect())
    }
}

impl<T: Ord, I: Iterator<Item = Result<T>>> Iterator for SortedMerge<I> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut first: Option<(usize, Option<&T>)> = None;
        for (at, source) in self.0.iter_mut().enumerate() {
            // An error comes before every item.
            let head = match source.peek() {
                Some(Ok(head)) => Some(head),
                Some(Err(_)) => None,
                None => continue,
            };
            if first.is_none_or(|(_, first)| head < first) {
                first = Some((at, head));
            }
        }
        let (at, _) = first?;
        self.0[at].next()
    }
}

/// The number of resources that lists have compared with their selectors.
#[derive(Debug, Default)]
pub(crate) struct ExaminedResources(AtomicU64);

impl ExaminedResources {
    pub(crate) fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
