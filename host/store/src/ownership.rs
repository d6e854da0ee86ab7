//! Who owns which field of a resource, and what that means for a write: `metadata.managedFields` and server-side apply, as in Kubernetes.
//!
//! * Whoever applies a document owns the fields that it names. What it named before, no longer names, and nobody else owns, is taken out.
//! * To apply a value that differs from that of a field which another manager owns is a conflict, unless it is forced: then the others
//!   lose the field. Managers that apply the same value share the field.
//! * Every other write owns what it sets or changes, and takes that from all others. What it removes is nobody's.
//! * The fields of an object have owners of their own, a list has one; a schema can say otherwise. Names, versions and what the host
//!   writes into the metadata are nobody's.
//! * Where `managedFields` is missing although there are fields, it was reset, or the resource is older than this room. Then nothing is
//!   tracked until somebody applies; at that moment one manager, `before-first-apply`, owns everything that was there.
//! * An update or a patch can write `managedFields`: then the owners are those that it names, before what it changes is noted. What is not
//!   understood there changes nothing, and a list that is empty, or has one empty entry, makes everybody lose everything.
//! * A change of owners alone makes a revision when somebody applies, or writes them, and never otherwise.
//! * What `kubectl` has applied on its own side is no conflict with what it applies here, as long as nobody else has changed it.
//!
//! Source: Kubernetes, "Server-Side Apply", and what its API server does where that page is silent.
//!
//! Deliberately absent: conversion between versions of a kind; `managedFields` of a document that is created.

mod accept;
mod asked;
mod difference;
mod fields;
pub(crate) mod last_applied;
mod managers;
mod merge;
mod shape;
mod standing;
#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::schema::Schema;
use crate::{Error, Key, Result};
pub(crate) use asked::requested_owners;
use difference::{FieldDiff, all, diff, named};
use fields::{FieldSet, PathElement};
pub(crate) use managers::Operation;
use managers::{Manager, Managers};
use shape::Shape;

/// The manager that owns what was there before the first apply. Source: Kubernetes.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Who writes, how and when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Writer<'a> {
    pub(crate) manager: &'a str,
    pub(crate) operation: Operation,
    /// `status`, or empty.
    pub(crate) subresource: &'a str,
    /// RFC 3339 with whole seconds.
    pub(crate) time: &'a str,
    /// What documents of the kind look like, as far as it is known.
    pub(crate) schema: Option<&'a Schema>,
}

impl Writer<'_> {
    /// Returns the manager that writes this document.
    fn manager_of(&self, document: &Value) -> Manager {
        Manager {
            name: self.manager.to_owned(),
            operation: self.operation,
            version: version(document),
            subresource: self.subresource.to_owned(),
        }
    }
}

/// Writes the owners of a resource that is to be created into its document, whose metadata is an object.
///
/// # Errors
/// `Invalid` when the document cannot be applied, `TooLarge`.
pub(crate) fn create_owners(document: &mut Value, writer: Writer<'_>) -> Result<()> {
    let shape = Shape::document(writer.schema);
    let fields = match writer.operation {
        Operation::Apply => {
            accept::document(document, shape)?;
            named(document, shape)
        }
        Operation::Update => all(document, shape),
    };
    let manager = writer.manager_of(document);
    let mut managers = Managers::default();
    managers.add(manager.clone(), fields, writer.time);
    managers.write(document)
}

/// Notes in a document who owns what after an update from `old`. Has the `managedFields` of `old`, or those that were written.
///
/// # Errors
/// `TooLarge`.
pub(crate) fn track(old: &Value, document: &mut Value, writer: Writer<'_>) -> Result<()> {
    let shape = Shape::document(writer.schema);
    let difference = diff(old, document, shape);
    if difference.is_empty() || standing::try_touch(document, &difference, writer) {
        return Ok(());
    }
    take_ownership(old, document, difference, writer)
}

/// Gives the fields in which a document differs from `old` to their writer.
fn take_ownership(old: &Value, document: &mut Value, difference: FieldDiff, writer: Writer<'_>) -> Result<()> {
    let mut managers = Managers::of(document);
    if managers.is_empty() && !all(old, Shape::document(writer.schema)).is_empty() {
        return Ok(());
    }
    managers.remove_from_all(&difference.set);
    managers.remove_from_all(&difference.removed);
    let manager = writer.manager_of(document);
    if !difference.gained.is_empty() {
        managers.add(manager.clone(), difference.gained, writer.time);
        managers.merge_oldest(&manager);
    }
    managers.write(document)
}

/// Notes in a document that what it has and `old` had not is nobody's, as Kubernetes does when a resource is marked as being deleted.
///
/// # Errors
/// None for a document that a store has kept: the owners of less are never too large.
pub(crate) fn release(old: &Value, document: &mut Value, schema: Option<&Schema>) -> Result<()> {
    let difference = diff(old, document, Shape::document(schema));
    let mut managers = Managers::of(document);
    managers.remove_from_all(&difference.set);
    managers.remove_from_all(&difference.removed);
    managers.write(document)
}

/// A document that is applied to another.
pub(crate) struct ServerSideApply<'a> {
    current: &'a Value,
    applied: &'a Value,
    writer: Writer<'a>,
    shape: Shape<'a>,
    manager: Manager,
    /// As they are, before the write.
    managers: Managers,
    /// What the applied document names.
    named: FieldSet,
}

impl<'a> ServerSideApply<'a> {
    /// Takes up a document that is to be applied, without `status` and what the host owns of the metadata.
    ///
    /// # Errors
    /// `Invalid` with the path of a field that is `null`, of an item that is in its list twice, or of a key that an item lacks.
    pub(crate) fn new(current: &'a Value, applied: &'a Value, writer: Writer<'a>) -> Result<Self> {
        let shape = Shape::document(writer.schema);
        accept::document(applied, shape)?;
        let mut managers = Managers::of(current);
        if managers.is_empty() {
            track_from_now_on(&mut managers, current, shape, writer);
        }
        let (manager, named) = (writer.manager_of(applied), named(applied, shape));
        Ok(Self { current, applied, writer, shape, manager, managers, named })
    }

    /// Returns the document that comes of it, with the owners as they were.
    pub(crate) fn merged(&self) -> Value {
        let mut merged = self.current.clone();
        merge::merge(&mut merged, self.applied, self.shape);
        if let Some(before) = self.managers.fields(&self.manager) {
            let mut kept = self.managers.fields_of_others(&self.manager);
            kept.unite(self.named.clone());
            kept.add(PathElement::Field("metadata".to_owned()), FieldSet::itself());
            merge::prune(&mut merged, self.shape, before, &kept);
        }
        merged
    }

    /// Notes in the document that came of it who owns what. Leaves it as it is when it is the current one and nobody owns anything else.
    ///
    /// # Errors
    /// `ApplyConflict` when others own what changes, and it is not forced; `TooLarge`.
    pub(crate) fn update_owners(self, document: &mut Value, key: &Key, force: bool) -> Result<()> {
        let Self { current, applied: _, writer, shape, manager, mut managers, named } = self;
        let difference = diff(current, document, shape);
        if !force && !managers.conflicts(&manager, &difference.set).is_empty() {
            let mut disputed = difference.set.clone();
            disputed.subtract(&last_applied::unchanged(&manager.name, current, &manager.version, shape));
            let conflicts = managers.conflicts(&manager, &disputed);
            if !conflicts.is_empty() {
                return Err(Error::ApplyConflict { key: key.clone(), conflicts });
            }
        }
        managers.remove_from_all(&difference.set);
        managers.remove_from_all(&difference.removed);
        managers.set(manager.clone(), named);
        if managers.is_empty() {
            // Whoever applied owns nothing any more: what is left is tracked at once, as the next apply would do it.
            track_from_now_on(&mut managers, document, shape, writer);
        }
        if document == current && managers == Managers::of(current) {
            return Ok(());
        }
        managers.touch(&manager, writer.time);
        managers.merge_oldest(&manager);
        managers.write(document)
    }
}

/// Makes one manager the owner of everything in a document that nobody owns anything of.
fn track_from_now_on(managers: &mut Managers, document: &Value, shape: Shape<'_>, writer: Writer<'_>) {
    let before = Writer { manager: BEFORE_FIRST_APPLY, operation: Operation::Update, subresource: "", ..writer };
    let fields = all(document, shape);
    if !fields.is_empty() {
        managers.add(before.manager_of(document), fields, writer.time);
    }
}

fn version(document: &Value) -> String {
    document.get("apiVersion").and_then(Value::as_str).unwrap_or("").to_owned()
}
