//! The rules of built-in kinds, which no schema expresses.

use std::fmt;

use serde_json::Value;

use super::Violation;
use crate::{Kind, Subresource};

/// The rules of one built-in kind. Pure.
pub trait KindRules: Send + Sync {
    /// Sets the defaults that depend on other fields. `old` is the resource before the write, `None` for one that is
    /// created. The constant defaults are set before and after.
    fn set_defaults(&self, resource: &mut Value, old: Option<&Value>);

    /// Undoes the changes that a write through this subresource cannot make; `None` stands for the resource itself.
    fn confine(&self, _resource: &mut Value, _old: &Value, _subresource: Option<Subresource>) {}

    /// Returns the JSON pointers of the fields that [`KindRules::set_defaults`] sets in a new resource as an API server
    /// allocates them, after the fields of the writer got their owner, and of other fields of a new resource that nobody
    /// owns.
    fn allocated(&self, _written: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Returns the violations of a resource, which may violate its schema too. `subresource` is that of the write.
    fn check(&self, resource: &Value, old: Option<&Value>, subresource: Option<Subresource>) -> Vec<Violation>;

    /// Returns the violations that keep an API server from allocating what a new resource needs. It finds them before all
    /// others, and names them alone.
    fn check_allocation(&self, _resource: &Value) -> Vec<Violation> {
        Vec::new()
    }

    /// Sets the defaults of a written status. `old` is the resource before the write; null for one that is created with its status.
    fn set_status_defaults(&self, _resource: &mut Value, _old: &Value) {}

    /// Returns the violations of a written status, which has the types of the kind. `old` is as for the defaults.
    fn check_status(&self, _resource: &Value, _old: &Value) -> Vec<Violation> {
        Vec::new()
    }

    /// Returns the status of a new resource, without the constant defaults.
    fn first_status(&self, resource: &Value) -> Value;

    /// Returns whether a new resource has the status that its writer gives it.
    fn keeps_new_status(&self) -> bool {
        false
    }

    /// Returns the fields of `metadata` that a write of the status changes too.
    fn status_metadata(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns what `metadata.generation` counts.
    fn generation(&self) -> Generation {
        Generation::Specification
    }

    /// Returns the seconds that a resource may take for its end when its deletion begins; `None` for a kind whose deletion
    /// waits for finalizers alone. `asked` is what the client wants.
    fn grace_seconds(&self, _resource: &Value, _asked: Option<u32>) -> Option<u32> {
        None
    }
}

/// The changes that the generation of a resource counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// Nothing: the resources have none.
    Nothing,
    /// Nothing: it is always 1.
    Constant,
    /// Changes outside of metadata and status.
    Specification,
    /// The same, but not that a pod gets its node.
    SpecificationButNode,
    /// Changes outside of metadata and status, but a new resource has none, and the first change makes it 1.
    Changes,
    /// Changes outside of metadata and status, and of the labels.
    SpecificationAndLabels,
    /// Changes outside of metadata and status, and of the annotations.
    SpecificationAndAnnotations,
}

/// Checks that a resource can be decoded into the types of a kind. The error is the first field of a wrong type, in words
/// for people.
pub type TypeCheck = fn(&Kind, &Value) -> Result<(), String>;

/// A reference to the rules of a kind, and the check of its types. The rules of one kind are one object.
#[derive(Clone, Copy)]
pub(super) struct Rules(pub(super) &'static dyn KindRules, pub(super) TypeCheck);

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rules")
    }
}

impl PartialEq for Rules {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::addr_eq(self.0, other.0)
    }
}
