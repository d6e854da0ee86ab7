//! Locates the error in a `spec` that cannot be parsed. Pure.

use homeostat_store::schema::{Reason, Violation};
use serde_json::Value;

use crate::manifest::Spec;

/// Maximum bytes of documents parsed in search of the error.
const SEARCHED_BYTES_MAX: usize = 8 << 20;

/// Finds the field that makes `spec` fail to parse, by removing one value at a time. Returns the innermost
/// one whose removal changes the error.
pub(super) fn locate_spec_error(document: &Value, error: &serde_json::Error) -> Violation {
    let detail = error.to_string();
    let (mut pointer, mut path) = (String::new(), "spec".to_owned());
    let mut tries = SEARCHED_BYTES_MAX / document.to_string().len().max(1);
    let mut is_to_blame = |pointer: &str, step: &PathSegment| {
        tries = tries.saturating_sub(1);
        let mut without = document.clone();
        step.remove(without.pointer_mut(pointer));
        tries > 0
            && serde_json::from_value::<Spec>(without).err().is_none_or(|error| {
                let other = error.to_string();
                // An error about the removed field itself does not count.
                other != detail && !step.is_missed_by(&other)
            })
    };
    while let Some(step) = PathSegment::into(document.pointer(&pointer)).find(|step| is_to_blame(&pointer, step)) {
        pointer.push_str(&step.pointer());
        path.push_str(&step.path());
    }
    Violation { path, reason: Reason::Invalid, detail }
}

/// One segment of a path into a document.
enum PathSegment {
    Field(String),
    Item(usize),
}

impl PathSegment {
    /// Returns the segments that lead into a value.
    fn into(value: Option<&Value>) -> Box<dyn Iterator<Item = Self> + '_> {
        match value {
            Some(Value::Object(fields)) => Box::new(fields.keys().cloned().map(Self::Field)),
            Some(Value::Array(items)) => Box::new((0..items.len()).map(Self::Item)),
            _ => Box::new(std::iter::empty()),
        }
    }

    fn remove(&self, from: Option<&mut Value>) {
        match (self, from) {
            (Self::Field(name), Some(Value::Object(fields))) => drop(fields.remove(name)),
            (Self::Item(at), Some(Value::Array(items))) => drop(items.remove(*at)),
            _ => {}
        }
    }

    fn is_missed_by(&self, error: &str) -> bool {
        matches!(self, Self::Field(name) if error.starts_with(&format!("missing field `{name}`")))
    }

    fn pointer(&self) -> String {
        match self {
            Self::Field(name) => format!("/{}", homeostat_store::json_pointer::escape(name)),
            Self::Item(at) => format!("/{at}"),
        }
    }

    fn path(&self) -> String {
        match self {
            Self::Field(name) => format!(".{name}"),
            Self::Item(at) => format!("[{at}]"),
        }
    }
}
