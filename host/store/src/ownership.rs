//! Field ownership and its effect on writes: `metadata.managedFields` and server-side apply, as in
//! Kubernetes.
//!
//! * The manager that applies a document owns the fields that the document names. A field that its previous
//!   apply named is removed if the document no longer names it and no other manager owns it.
//! * Applying a different value to a field of another manager is a conflict, unless it is forced: then the
//!   other managers lose the field. Managers that apply the same value share the field.
//! * Every other write owns the fields that it sets or changes, and takes them from all other managers. A
//!   removed field has no owner.
//! * Each field of an object has its own owners, and a list has owners as a whole; a schema can override
//!   both. Names, versions and the metadata that the host writes have no owners.
//! * `managedFields` can be missing although there are fields: it was reset, or the resource is older than
//!   this room. Then nothing is tracked until the first apply; at that moment one manager,
//!   `before-first-apply`, owns all existing fields.
//! * An update or a patch can write `managedFields`: then its owners apply before the changes of the same
//!   write are tracked. Malformed `managedFields` are ignored. An empty list, or one with a single empty
//!   entry, removes all owners.
//! * A change of owners alone makes a revision only if a manager applies or writes them.
//! * The last `kubectl` client-side apply does not conflict with a server-side apply, as long as no other
//!   manager has changed its fields.
//!
//! Source: Kubernetes, "Server-Side Apply", and the behaviour of its API server where that page is silent.
//!
//! Deliberately absent: conversion between versions of a kind; `managedFields` of a document that is created.

mod accept;
mod asked;
mod configuration;
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

use crate::patch::holds_null;
use crate::schema::Schema;
use crate::{Error, Key, Result, Subresource};
pub(crate) use asked::requested_owners;
pub(crate) use configuration::{atomic_paths, merged};
use difference::{FieldDiff, all, diff, named};
use fields::{FieldSet, PathElement};
pub(crate) use managers::Operation;
use managers::{Manager, Managers};
use shape::Shape;

/// The manager that owns the fields that existed before the first apply. Source: Kubernetes.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// The manager of a write, with its operation and time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Writer<'a> {
    pub(crate) manager: &'a str,
    pub(crate) operation: Operation,
    /// `None` for the resource itself.
    pub(crate) subresource: Option<Subresource>,
    /// RFC 3339 with whole seconds.
    pub(crate) time: &'a str,
    /// The schema of the kind, if there is one.
    pub(crate) schema: Option<&'a Schema>,
}

impl Writer<'_> {
    /// Returns the manager entry for a write of this document.
    fn manager_of(&self, document: &Value) -> Manager {
        Manager {
            name: self.manager.to_owned(),
            operation: self.operation,
            version: version(document),
            subresource: self.subresource.map_or("", Subresource::as_str).to_owned(),
        }
    }
}

/// Sets the field owners of a new resource in its document, whose metadata is an object.
///
/// # Errors
/// `Invalid` when the document cannot be applied, `TooLarge`.
pub(crate) fn create_owners(document: &mut Value, writer: Writer<'_>) -> Result<()> {
    let shape = Shape::document(writer.schema);
    let fields = match writer.operation {
        Operation::Apply => {
            accept::document(document, shape, writer.schema)?;
            named(document, shape)
        }
        Operation::Update => all(document, shape),
    };
    let manager = writer.manager_of(document);
    let mut managers = Managers::default();
    managers.add(manager.clone(), fields, writer.time);
    managers.write(document)
}

/// Updates the field owners after an update from `old`. The document has the `managedFields` of `old`, or
/// those that the client wrote.
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

/// Gives the changed fields to their writer.
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

/// Removes the owners of all changed fields, as Kubernetes does when a resource is marked as being deleted.
///
/// # Errors
/// None for a document that a store has accepted: fewer owners are never too large.
pub(crate) fn release(old: &Value, document: &mut Value, schema: Option<&Schema>) -> Result<()> {
    let difference = diff(old, document, Shape::document(schema));
    let mut managers = Managers::of(document);
    managers.remove_from_all(&difference.set);
    managers.remove_from_all(&difference.removed);
    managers.write(document)
}

/// An apply of a document to the current one.
pub(crate) struct ServerSideApply<'a> {
    current: &'a Value,
    applied: &'a Value,
    writer: Writer<'a>,
    shape: Shape<'a>,
    manager: Manager,
    /// The managers before the write.
    managers: Managers,
    /// The fields that the applied document names.
    named: FieldSet,
}

impl<'a> ServerSideApply<'a> {
    /// Prepares an apply. The document has no `status` and no host-owned metadata.
    ///
    /// # Errors
    /// `Invalid` with the path of a list item that is `null` or a duplicate, or of the missing key of an item.
    pub(crate) fn new(current: &'a Value, applied: &'a Value, writer: Writer<'a>) -> Result<Self> {
        let shape = Shape::document(writer.schema);
        accept::document(applied, shape, writer.schema)?;
        let mut managers = Managers::of(current);
        if managers.is_empty() {
            track_from_now_on(&mut managers, current, shape, writer);
        }
        let (manager, named) = (writer.manager_of(applied), named(applied, shape));
        Ok(Self { current, applied, writer, shape, manager, managers, named })
    }

    /// Returns the merged document, with unchanged owners.
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

    /// Updates the owners in the merged document. Leaves it unchanged if it equals the current one and no
    /// owner changes.
    ///
    /// # Errors
    /// `ApplyConflict` when other managers own changed fields and the apply is not forced; `TooLarge`.
    pub(crate) fn update_owners(self, document: &mut Value, key: &Key, force: bool) -> Result<()> {
        let Self { current, applied, writer, shape, manager, mut managers, named } = self;
        let difference = diff(current, document, shape);
        if let Some(schema) = writer.schema.filter(|schema| schema.is_typed() && holds_null(applied)) {
            schema.normalize(document);
        }
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
            // The manager no longer owns a field, and no other manager does: track the rest now, as the next
            // apply would.
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

/// Makes one manager the owner of all fields of a document without owners.
fn track_from_now_on(managers: &mut Managers, document: &Value, shape: Shape<'_>, writer: Writer<'_>) {
    let before = Writer { manager: BEFORE_FIRST_APPLY, operation: Operation::Update, subresource: None, ..writer };
    let fields = all(document, shape);
    if !fields.is_empty() {
        managers.add(before.manager_of(document), fields, writer.time);
    }
}

fn version(document: &Value) -> String {
    document.get("apiVersion").and_then(Value::as_str).unwrap_or("").to_owned()
}
