//! The effect of a write: a pure function of the current resource, the write and the context. Stores call it
//! and keep its result.
//!
//! The rules are those of Kubernetes, and this page is their only home:
//!
//! * The host owns `uid`, `resourceVersion`, `creationTimestamp`, `deletionTimestamp`, `generation` and
//!   `managedFields` of the metadata. A client's `uid` and `resourceVersion` are preconditions. The
//!   others are ignored, except that an update or a patch of the resource can write `managedFields`, or empty
//!   it.
//! * Metadata fields that Kubernetes does not know are dropped, as are fields that a schema does not know.
//! * Equal numbers are stored in the same form (module `numbers`).
//! * Only [`Write::UpdateStatus`], [`Write::PatchStatus`] and [`Write::ApplyStatus`] write `status`. They write nothing
//!   else, except that the latter two change the metadata of a built-in kind that its rules name.
//! * A document of a kind with a schema is pruned, defaulted and validated. A status is validated when the
//!   status is written, the rest when anything but metadata changes; only the rules in CEL see a change of the metadata
//!   as well. So a document that was stored before the schema can still get labels, status reports and a deletion.
//! * A kind can have several versions, which differ only in their `apiVersion` and their schemas. A document
//!   is validated by the schema of its written version, and stored in the storage version of its kind. An
//!   older document is converted by the next write, even if that changes nothing else.
//! * The versions of a kind with a conversion differ in more. A write in another version than that of the stored
//!   document is refused; the caller decides and converts it first, and the module `planned` stores the result.
//! * The module `ownership` defines who owns which field, and the effect of an apply.
//! * A write that changes nothing makes no revision. The generation grows with every change outside
//!   `metadata`, `status` and the version.
//! * A deletion with finalizers, or of a namespace with `spec.finalizers`, marks the resource, and the write that removes
//!   the last finalizer removes it. A pod on a node is marked too, and a deletion with 0 seconds removes it.
//!   No write can add finalizers to a marked resource, and deleting it again can only shorten its time.
//!
//! Deliberately absent: clock, randomness, I/O and locks.

mod admit;
mod apply;
mod decoded;
mod delete;
mod document;
mod draft;
mod identity;
mod moved;
mod mutation;
mod object_meta;
mod plan;
mod planned;
#[cfg(test)]
mod tests;
mod unknown;

use std::sync::Arc;
use std::time::SystemTime;

use serde_json::{Value, json};

use self::decoded::decoded;
pub use self::decoded::empty_nulls;
use self::delete::Deletion;
pub use self::document::HOST_OWNED;
use self::document::{
    fields, in_version_of, into_stored_version, metadata, metadata_text, normalize_metadata, set, shown_in_version,
    strip_host_owned, timestamp,
};
pub use self::draft::{draft_document, plan_draft};
pub(crate) use self::identity::check_precondition;
use self::identity::{check_identity, check_names, metadata_precondition};
pub use self::mutation::{Mutation, MutationError, defaulted, mutated};
pub use self::plan::{WritePlan, address, plan_write};
pub use self::unknown::{unknown_fields, unknown_fields_of};
use crate::model::is_held;
use crate::ownership::{self, Operation, Writer};
use crate::schema::{Generation, Schema, VersionSchema};
use crate::{Error, Key, Resource, Result, Revision, Subresource, Write, patch, validate};

/// The context of a write, beside the document.
#[derive(Debug, Clone, PartialEq)]
pub struct WriteContext {
    /// The time of day.
    pub now: SystemTime,
    /// The uid of the resource, if this write creates one; otherwise ignored.
    pub uid: String,
    /// The revision of the change, if there is one.
    pub revision: Revision,
    /// The manager that writes.
    pub manager: String,
    /// The storage version of the kind, and the schema of the written version.
    pub version: VersionSchema,
    /// The subresource of [`Request::subresource`](crate::Request::subresource).
    pub subresource: Option<Subresource>,
    /// What the decision validates.
    pub validation: Validation,
}

/// What a decision validates of the written document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validation {
    /// Everything.
    Complete,
    /// Everything but the rules in CEL, which were evaluated before, for the same current resource and the same schema.
    /// They can take a second, so a store with one writer for all evaluates them before.
    WithoutRules,
    /// Neither the schema nor its rules: the caller changes the document, and calls [`plan_draft`] with it.
    Deferred,
}

/// The decision on a write.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Nothing changes, and no revision is made. Has the current resource.
    Unchanged(Arc<Resource>),
    /// The resource is created or replaced by this one.
    Put(Arc<Resource>),
    /// The resource is removed. Has its last state, at the revision of its removal.
    Remove(Arc<Resource>),
}

impl Decision {
    /// Returns the resource of any decision.
    pub fn resource(&self) -> &Arc<Resource> {
        match self {
            Self::Unchanged(resource) | Self::Put(resource) | Self::Remove(resource) => resource,
        }
    }
}

/// Longest name of a field manager. Source: Kubernetes.
const MANAGER_BYTES_MAX: usize = 128;

/// Decides a write against the current resource; `current` is `None` when there is none.
///
/// `key` is the result of [`address`] for this write.
///
/// # Errors
/// `NotFound`, `Conflict`, `ApplyConflict`, `AlreadyExists`, `Invalid`, `TooLarge`: nothing changes.
pub fn decide(key: &Key, current: Option<&Arc<Resource>>, write: Write, context: &WriteContext) -> Result<Decision> {
    let time = timestamp(context.now);
    let writer = Writer {
        manager: &context.manager,
        operation: Operation::Update,
        subresource: if write.is_of_status() { Some(Subresource::Status) } else { context.subresource },
        time: &time,
        schema: context.version.schema.as_deref(),
    };
    check_manager(match &write {
        Write::Apply { manager, .. } | Write::ApplyStatus { manager, .. } => manager,
        _ => &context.manager,
    })?;
    let existing = || current.ok_or_else(|| Error::not_found(key));
    match write {
        Write::Create { document } => match current {
            Some(current) => Err(Error::AlreadyExists { key: key.clone(), current: current.revision() }),
            None => create(document, writer, context),
        },
        Write::Update { document, precondition } => {
            let current = existing()?;
            check_precondition(current, &precondition)?;
            replace(current, document, writer, context)
        }
        Write::UpdateStatus { key: _, status, precondition } => {
            let current = existing()?;
            check_precondition(current, &precondition)?;
            write_status(current, key, status, None, writer, context)
        }
        Write::PatchStatus { key, change } => {
            let current = existing()?;
            let changed = patch::change(
                &shown_in_version(&key, current, &context.version),
                &change,
                context.version.schema.as_deref(),
            )?;
            let mut changed = decoded(&key, current, changed, writer.schema)?;
            check_names(current, &mut changed)?;
            validate::document(&changed)?;
            check_identity(current, &changed)?;
            check_precondition(current, &metadata_precondition(current, &changed)?)?;
            let status = changed.get("status").cloned().unwrap_or_default();
            write_status(current, &key, status, changed.get("metadata"), writer, context)
        }
        Write::Patch { key: _, change, precondition } => {
            let current = existing()?;
            check_precondition(current, &precondition)?;
            let changed = patch::change(
                &shown_in_version(key, current, &context.version),
                &change,
                context.version.schema.as_deref(),
            )?;
            replace(current, decoded(key, current, changed, writer.schema)?, writer, context)
        }
        Write::Apply { document, manager, force } => {
            let writer = Writer { manager: &manager, operation: Operation::Apply, ..writer };
            let document = apply::applicable(document, writer.schema)?;
            match current {
                Some(current) => apply::resource(current, &document, force, writer, context),
                // A subresource creates nothing.
                None if context.subresource.is_some() => Err(Error::not_found(key)),
                None if metadata_text(&document, "uid").is_empty()
                    && metadata_text(&document, "resourceVersion").is_empty() =>
                {
                    create(document, writer, context)
                }
                None => Err(Error::Conflict { key: key.clone(), current: None }),
            }
        }
        Write::ApplyStatus { document, manager, force } => {
            let writer = Writer { manager: &manager, operation: Operation::Apply, ..writer };
            apply::status(existing()?, &apply::applicable(document, writer.schema)?, force, writer, context)
        }
        Write::Delete { key: _, precondition, propagation, grace_seconds } => {
            let current = existing()?;
            check_precondition(current, &precondition)?;
            delete::decide(current, Deletion { propagation, grace_seconds }, context)
        }
    }
}

fn create(mut document: Value, writer: Writer<'_>, context: &WriteContext) -> Result<Decision> {
    if let Err(error) = validate::document(&document) {
        return Err(admit::with_violations(writer.schema, document, None, error));
    }
    if !metadata_text(&document, "resourceVersion").is_empty() {
        return Err(Error::invalid("metadata.resourceVersion", "must not be set on a resource that is to be created"));
    }
    if generation_rule(context) == Generation::Nothing
        && let Some(generation) = document.pointer("/metadata/generation").and_then(Value::as_i64)
        && generation < 0
    {
        let reason = format!("Invalid value: {generation}: must be greater than or equal to 0");
        let error = Error::invalid("metadata.generation", reason);
        return Err(admit::with_violations(writer.schema, document, None, error));
    }
    let is_kept = writer.schema.is_some_and(Schema::keeps_new_status);
    let status = fields(&mut document).remove("status").filter(|status| is_kept && !status.is_null());
    strip_host_owned(&mut document);
    // Some defaults of built-in kinds contain the uid, and some first statuses the time.
    set(metadata(&mut document), "uid", Some(json!(context.uid)));
    set(metadata(&mut document), "creationTimestamp", Some(json!(timestamp(context.now))));
    // A create owns the defaults, too; an apply owns only the fields that it names.
    if writer.operation == Operation::Update {
        normalize_metadata(metadata(&mut document));
        // The first status and allocated fields are not the work of the client.
        let allocated = writer.schema.map_or_else(Vec::new, |schema| schema.allocated(&document));
        set(fields(&mut document), "status", status);
        admit::admit(writer.schema, &mut document, None, None, context.validation)?;
        let status = fields(&mut document).remove("status");
        without(&mut document, &allocated, |document| ownership::create_owners(document, writer))?;
        set(fields(&mut document), "status", status);
    } else {
        prune(writer.schema, &mut document);
        if let (Some(schema), Ok(target)) = (writer.schema, validate::target(&document, false)) {
            schema.check_types(&target.kind, &document)?;
        }
        ownership::create_owners(&mut document, writer)?;
        normalize_metadata(metadata(&mut document));
        admit::admit(writer.schema, &mut document, None, None, context.validation)?;
    }
    let metadata = metadata(&mut document);
    set(metadata, "resourceVersion", Some(json!(context.revision.to_string())));
    let has_one = !matches!(generation_rule(context), Generation::Nothing | Generation::Changes);
    set(metadata, "generation", has_one.then(|| json!(1)));
    into_stored_version(&mut document, context)?;
    build_resource(&document, None).map(Decision::Put)
}

/// Calls `change` with a document that lacks the fields at these pointers, and restores them.
fn without<T>(document: &mut Value, pointers: &[String], change: impl FnOnce(&mut Value) -> T) -> T {
    let mut taken = Vec::new();
    for (parent, name) in pointers.iter().filter_map(|pointer| pointer.rsplit_once('/')) {
        let name = name.replace("~1", "/").replace("~0", "~");
        let value = document.pointer_mut(parent).and_then(Value::as_object_mut).and_then(|fields| fields.remove(&name));
        taken.extend(value.map(|value| (parent, name, value)));
    }
    let changed = change(document);
    for (parent, name, value) in taken.into_iter().rev() {
        if let Some(fields) = document.pointer_mut(parent).and_then(Value::as_object_mut) {
            fields.insert(name, value);
        }
    }
    changed
}

/// Builds a resource from a validated document to which the host has added its own metadata.
fn build_resource(document: &Value, before: Option<&Resource>) -> Result<Arc<Resource>> {
    validate::nesting("document", document)?;
    let resource = build_resource_of_any_size(document, before)?;
    validate::length("document", resource.bytes())?;
    Ok(resource)
}

/// Builds a resource from a document of any length.
fn build_resource_of_any_size(document: &Value, before: Option<&Resource>) -> Result<Arc<Resource>> {
    Resource::new(document, validate::text(document), before).map(Arc::new)
}

/// Drops the fields that the schema does not know. The others stay as they are written, so that their writer owns what
/// it named.
fn prune(schema: Option<&Schema>, document: &mut Value) {
    if let Some(schema) = schema {
        schema.drop_unknown(document);
    }
}

/// Stores a status; `null` removes it. Of the written metadata, those fields are stored that a write of the status changes.
fn write_status(
    current: &Arc<Resource>,
    key: &Key,
    status: Value,
    written: Option<&Value>,
    writer: Writer<'_>,
    context: &WriteContext,
) -> Result<Decision> {
    validate::size("status", &status)?;
    let mut document = in_version_of(key, current);
    set(fields(&mut document), "status", Some(status).filter(|status| !status.is_null()));
    if let (Some(written), Some(schema)) = (written, writer.schema) {
        let metadata = metadata(&mut document);
        schema.status_metadata().iter().for_each(|field| set(metadata, field, written.get(field).cloned()));
        normalize_metadata(metadata);
    }
    let part = Some(Subresource::Status);
    admit::admit(writer.schema, &mut document, part, Some(current.document()), context.validation)?;
    ownership::track(current.document(), &mut document, writer)?;
    store(current, document, part, context)
}

/// Replaces the current document, except for `status` and the host-owned metadata. The document can set the
/// field owners.
fn replace(
    current: &Arc<Resource>,
    mut document: Value,
    writer: Writer<'_>,
    context: &WriteContext,
) -> Result<Decision> {
    check_names(current, &mut document)?;
    check_precondition(current, &metadata_precondition(current, &document)?)?;
    let old = current.document();
    if let Err(error) = validate::document(&document) {
        return Err(admit::with_violations(writer.schema, document, Some(old), error));
    }
    check_identity(current, &document)?;
    set(fields(&mut document), "status", old.get("status").cloned());
    let metadata = metadata(&mut document);
    // A write of a subresource sets no owners of other fields.
    let requested = metadata.get("managedFields").filter(|_| context.subresource.is_none());
    let owners = ownership::requested_owners(requested, old)?;
    for field in HOST_OWNED {
        set(metadata, field, old["metadata"].get(field).cloned());
    }
    normalize_metadata(metadata);
    owners.write(&mut document)?;
    admit::admit_change(&mut document, old, context)?;
    ownership::track(current.document(), &mut document, writer)?;
    store(current, document, context.subresource, context)
}

/// Stores a document of which this part was written, and whose host-owned metadata is unchanged, except for the field
/// owners. The rest of the document is validated or unchanged.
fn store(
    current: &Arc<Resource>,
    mut document: Value,
    written: Option<Subresource>,
    context: &WriteContext,
) -> Result<Decision> {
    let old = current.document();
    into_stored_version(&mut document, context)?;
    let respecified = specification(&document).ne(specification(old));
    if !respecified && document == *old {
        return Ok(Decision::Unchanged(Arc::clone(current)));
    }
    let annotations = |document: &Value| document["metadata"].get("annotations").cloned();
    let labels = |document: &Value| document["metadata"].get("labels").cloned();
    let rule = generation_rule(context);
    let counts = match rule {
        Generation::SpecificationAndAnnotations => respecified || annotations(&document) != annotations(old),
        Generation::SpecificationAndLabels => respecified || labels(&document) != labels(old),
        Generation::Specification | Generation::Changes => respecified,
        Generation::SpecificationButNode => respecified && !is_binding(&document, old),
        Generation::Constant | Generation::Nothing => false,
    };
    let counts = counts && written != Some(Subresource::Status);
    let generation = current.generation() + u64::from(counts);
    let metadata = metadata(&mut document);
    set(metadata, "generation", (rule != Generation::Nothing && generation > 0).then(|| json!(generation)));
    set(metadata, "resourceVersion", Some(json!(context.revision.to_string())));
    let resource = build_resource(&document, Some(current))?;
    if !current.is_deleting() {
        return Ok(Decision::Put(resource));
    }
    delete::check_finalizers(&document, current)?;
    Ok(if is_held(&document) { Decision::Put(resource) } else { Decision::Remove(resource) })
}

/// Returns whether a change only gives a pod its node.
fn is_binding(document: &Value, old: &Value) -> bool {
    let mut spec = document["spec"].clone();
    let node = spec.as_object_mut().and_then(|spec| spec.remove("nodeName"));
    node.is_some() && spec == old["spec"]
}

/// Returns the fields whose changes the generation counts.
fn specification(document: &Value) -> impl Iterator<Item = (&String, &Value)> {
    let fields = document.as_object().into_iter().flatten();
    fields.filter(|(name, _)| !matches!(name.as_str(), "apiVersion" | "kind" | "metadata" | "status"))
}

/// Returns what the generation of a resource of the written kind counts.
fn generation_rule(context: &WriteContext) -> Generation {
    context.version.schema.as_deref().map_or(Generation::Specification, Schema::generation)
}

/// Checks the name of a manager.
fn check_manager(manager: &str) -> Result<()> {
    if manager.is_empty() || manager.len() > MANAGER_BYTES_MAX || manager.chars().any(char::is_control) {
        let reason = format!("must be 1 to {MANAGER_BYTES_MAX} bytes long, without control characters");
        return Err(Error::invalid("fieldManager", reason));
    }
    Ok(())
}
