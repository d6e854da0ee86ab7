//! What a write does: a pure function of the resource as it is, the write and the moment. Stores call it and keep what it answers.
//!
//! The rules are those of Kubernetes, and this page is their only home:
//!
//! * The host owns `uid`, `resourceVersion`, `creationTimestamp`, `deletionTimestamp`, `generation` and `managedFields` of the metadata.
//!   What a writer puts there is a precondition (`uid`, `resourceVersion`), must not differ (`creationTimestamp`), or is ignored; only
//!   `managedFields` can be written by an update or a patch of the resource, which can also empty it.
//! * Fields of the metadata that Kubernetes does not know are left out, as fields are that a schema does not know.
//! * Equal numbers are stored alike (module `numbers`).
//! * `status` is written by [`Write::UpdateStatus`], [`Write::PatchStatus`] and [`Write::ApplyStatus`] alone, which write nothing else.
//! * A document of a kind with a schema loses what the schema does not know, gets what it lacks and is checked. A status is checked
//!   when the status is written, all else when anything but metadata changes: what was stored before the schema can still be labelled,
//!   reported on and deleted.
//! * A kind can have several versions, which differ in nothing but their `apiVersion` and their schemas. A document is checked by the
//!   schema of the version that it is written in, and stored in the one version that its kind is stored in; an older document gets that
//!   version with the next write, also one that changes nothing else.
//! * Who owns which field, and what it means to apply, says the module `ownership`.
//! * A write that changes nothing makes no revision. The generation grows when something outside of `metadata`, `status` and the version changes.
//! * A deletion with finalizers marks the resource, and the write that removes the last finalizer removes it. Nobody can add finalizers
//!   to a marked resource, and deleting it again changes nothing.
//!
//! Deliberately absent: clock, randomness, I/O and locks.

mod admit;
mod apply;
mod delete;
mod document;
mod object_meta;
#[cfg(test)]
mod tests;
mod unknown;

use std::sync::Arc;
use std::time::SystemTime;

use serde_json::{Value, json};

use self::admit::DocumentPart;
pub use self::document::HOST_OWNED;
use self::document::{
    fields, in_version_of, into_stored_version, metadata, metadata_text, normalize_metadata, set, strip_host_owned,
    timestamp,
};
use crate::model::finalizers;
use crate::ownership::{self, Operation, Writer};
use crate::schema::{Schema, Schemas, VersionSchema};
use crate::{
    ClockAndIds, Error, EventType, FieldValidation, Key, Precondition, Request, Resource, Result, Revision, Target,
    Write, numbers, patch, validate,
};

/// What a write needs from outside of the document.
#[derive(Debug, Clone, PartialEq)]
pub struct WriteContext {
    /// The time of day.
    pub now: SystemTime,
    /// The uid of the resource, should this write create one; of no meaning where there is one.
    pub uid: String,
    /// The revision that the change will have, should there be one.
    pub revision: Revision,
    /// Who writes.
    pub manager: String,
    /// What is known of the kind in the version that is written.
    pub version: VersionSchema,
}

/// What a write came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Nothing changes, and no revision is made. Has the resource as it is.
    Unchanged(Arc<Resource>),
    /// The resource is stored as this.
    Put(Arc<Resource>),
    /// The resource is gone. Has its last state, at the revision of its end.
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
/// Tries to find a free name for `generateName`.
const GENERATE_TRIES: usize = 8;

/// What [`perform`] found and decided.
#[derive(Debug, Clone, PartialEq)]
pub struct WritePlan {
    /// The resource that the write is about.
    pub key: Key,
    /// The resource as it was; `None` when there was none.
    pub previous: Option<Arc<Resource>>,
    /// What to do.
    pub decision: Decision,
    /// What was left out of the document because nobody knows it, where the request asks for that.
    pub unknown_fields: Vec<String>,
}

impl WritePlan {
    /// Returns what kind of event this makes; `None` when nothing changes.
    pub fn event(&self) -> Option<EventType> {
        match (&self.decision, &self.previous) {
            (Decision::Unchanged(_), _) => None,
            (Decision::Put(..), None) => Some(EventType::Added),
            (Decision::Put(..), Some(_)) => Some(EventType::Modified),
            (Decision::Remove(..), _) => Some(EventType::Deleted),
        }
    }
}

/// Decides a write: finds its key, looks up what is there and asks [`decide`]. A generated name that is taken is generated again.
///
/// `revision` is the one that the change will have. `lookup` reads the resource as it is now, and nothing changes it until the decision
/// is kept.
///
/// # Errors
/// As [`address`] and [`decide`], and what `lookup` answers; `UnknownFields`.
pub fn plan_write(
    source: &dyn ClockAndIds,
    schemas: &Schemas,
    request: Request,
    revision: Revision,
    mut lookup: impl FnMut(&Key) -> Result<Option<Arc<Resource>>>,
) -> Result<WritePlan> {
    let Request { mut write, manager, dry_run: _, field_validation: unknown } = request;
    if let Some(value) = write.value_mut() {
        numbers::normalize(value);
    }
    let generates = matches!(&write, Write::Create { document } if metadata_text(document, "name").is_empty());
    let mut tries = if generates { GENERATE_TRIES } else { 1 };
    let (key, mut previous) = loop {
        let key = address(&mut write, || source.suffix())?;
        let previous = lookup(&key)?;
        tries -= 1;
        if previous.is_none() || tries == 0 {
            break (key, previous);
        }
        if let Write::Create { document } = &mut write {
            set(metadata(document), "name", None);
        }
    };
    // Randomness is for those who create: it costs a call of the system.
    let uid = if previous.is_none() { source.uid() } else { String::new() };
    let moment = WriteContext { now: source.now(), uid, revision, manager, version: schemas.of(key.kind()) };
    let current = previous.as_ref().map(Resource::detached);
    let fields = match unknown {
        FieldValidation::Warn | FieldValidation::Strict => {
            unknown::unknown_fields(&key, current.as_deref(), &write, moment.version.schema.as_deref())
        }
        FieldValidation::Ignore => Vec::new(),
    };
    let decision = decide(&key, current.as_ref(), write, &moment)?;
    // Its document goes before it leaves the cache of the processor.
    drop(current);
    if let Some(previous) = previous.as_mut().and_then(Arc::get_mut) {
        previous.forget_document();
    }
    if unknown == FieldValidation::Strict && !fields.is_empty() {
        return Err(Error::UnknownFields { fields });
    }
    Ok(WritePlan { key, previous, decision, unknown_fields: fields })
}

/// Returns the key of the resource that a write is about, and fills in a generated name.
///
/// A create with `generateName` and no name gets one that ends with what `suffix` returns.
///
/// # Errors
/// `Invalid` when the document does not say which resource it is.
pub fn address(write: &mut Write, suffix: impl FnOnce() -> String) -> Result<Key> {
    let Target { kind, namespace, name } = write.target()?;
    if let Some(name) = name {
        return Ok(Key::new(kind, &namespace, &name));
    }
    let Write::Create { document } = write else {
        return Err(Error::invalid("metadata.name", "must not be empty"));
    };
    let metadata = &mut document["metadata"];
    let name = validate::generated(metadata["generateName"].as_str().unwrap_or(""), &suffix());
    metadata["name"] = json!(name);
    Ok(Key::new(kind, &namespace, &name))
}

/// Decides what a write does to the resource as it is now; `current` is `None` when there is none.
///
/// `key` is what [`address`] answered for this write.
///
/// # Errors
/// `NotFound`, `Conflict`, `ApplyConflict`, `AlreadyExists`, `Invalid`, `TooLarge`: nothing changes.
pub fn decide(key: &Key, current: Option<&Arc<Resource>>, write: Write, context: &WriteContext) -> Result<Decision> {
    let time = timestamp(context.now);
    let writer = Writer {
        manager: &context.manager,
        operation: Operation::Update,
        subresource: "",
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
            write_status(current, key, status, writer, context)
        }
        Write::PatchStatus { key, change } => {
            let current = existing()?;
            let changed = patch::change(&in_version_of(&key, current), &change, context.version.schema.as_deref())?;
            validate::document(&changed)?;
            check_identity(current, &changed)?;
            check_precondition(current, &metadata_precondition(current, &changed)?)?;
            write_status(current, &key, changed.get("status").cloned().unwrap_or_default(), writer, context)
        }
        Write::Patch { key: _, change, precondition } => {
            let current = existing()?;
            check_precondition(current, &precondition)?;
            let changed = patch::change(&in_version_of(key, current), &change, context.version.schema.as_deref())?;
            replace(current, changed, writer, context)
        }
        Write::Apply { document, manager, force } => {
            let writer = Writer { manager: &manager, operation: Operation::Apply, ..writer };
            let document = apply::applicable(document, writer.schema)?;
            match current {
                Some(current) => apply::resource(current, &document, force, writer, context),
                None if metadata_text(&document, "uid").is_empty()
                    && metadata_text(&document, "resourceVersion").is_empty() =>
                {
                    create(document, writer, context)
                }
                None => Err(Error::Conflict { key: key.clone(), current: None }),
            }
        }
        Write::ApplyStatus { document, manager, force } => {
            let writer = Writer { manager: &manager, operation: Operation::Apply, subresource: "status", ..writer };
            apply::status(existing()?, &apply::applicable(document, writer.schema)?, force, writer, context)
        }
        Write::Delete { key: _, precondition, propagation } => {
            let current = existing()?;
            check_precondition(current, &precondition)?;
            delete::decide(current, propagation, context)
        }
    }
}

fn create(mut document: Value, writer: Writer<'_>, context: &WriteContext) -> Result<Decision> {
    validate::document(&document)?;
    if !metadata_text(&document, "resourceVersion").is_empty() {
        return Err(Error::invalid("metadata.resourceVersion", "must not be set on a resource that is to be created"));
    }
    strip_host_owned(&mut document);
    // Who creates owns what is filled in; who applies owns what they have named.
    if writer.operation == Operation::Update {
        admit::admit(writer.schema, &mut document, DocumentPart::Specification)?;
        ownership::create_owners(&mut document, writer)?;
    } else {
        prune(writer.schema, &mut document);
        ownership::create_owners(&mut document, writer)?;
        admit::admit(writer.schema, &mut document, DocumentPart::Specification)?;
    }
    let metadata = metadata(&mut document);
    set(metadata, "uid", Some(json!(context.uid)));
    set(metadata, "creationTimestamp", Some(json!(timestamp(context.now))));
    set(metadata, "resourceVersion", Some(json!(context.revision.to_string())));
    set(metadata, "generation", Some(json!(1)));
    into_stored_version(&mut document, context);
    build_resource(&document, None).map(Decision::Put)
}

/// Makes the resource of a document that was checked before the host put its own into it.
fn build_resource(document: &Value, before: Option<&Resource>) -> Result<Arc<Resource>> {
    validate::nesting("document", document)?;
    let resource = build_resource_of_any_size(document, before)?;
    validate::length("document", resource.bytes())?;
    Ok(resource)
}

/// Makes the resource of a document, whatever its length.
fn build_resource_of_any_size(document: &Value, before: Option<&Resource>) -> Result<Arc<Resource>> {
    Resource::new(document, validate::text(document), before).map(Arc::new)
}

/// Takes out of a document what the schema does not know.
fn prune(schema: Option<&Schema>, document: &mut Value) {
    if let Some(schema) = schema {
        schema.prune(document);
    }
}

/// Stores a status; `null` removes it.
fn write_status(
    current: &Arc<Resource>,
    key: &Key,
    status: Value,
    writer: Writer<'_>,
    context: &WriteContext,
) -> Result<Decision> {
    validate::size("status", &status)?;
    let mut document = in_version_of(key, current);
    set(fields(&mut document), "status", Some(status).filter(|status| !status.is_null()));
    admit::admit(writer.schema, &mut document, DocumentPart::Status)?;
    update(current, document, Writer { subresource: "status", ..writer }, context)
}

/// Stores a document in place of the current one, all but `status` and what the host owns of the metadata. Who owns which field can be written.
fn replace(
    current: &Arc<Resource>,
    mut document: Value,
    writer: Writer<'_>,
    context: &WriteContext,
) -> Result<Decision> {
    validate::document(&document)?;
    check_precondition(current, &metadata_precondition(current, &document)?)?;
    let old = current.document();
    check_identity(current, &document)?;
    set(fields(&mut document), "status", old.get("status").cloned());
    let metadata = metadata(&mut document);
    let owners = ownership::requested_owners(metadata.get("managedFields"), old)?;
    for field in HOST_OWNED {
        set(metadata, field, old["metadata"].get(field).cloned());
    }
    normalize_metadata(metadata);
    owners.write(&mut document)?;
    if specification(&document).ne(specification(old)) {
        admit::admit(context.version.schema.as_deref(), &mut document, DocumentPart::Specification)?;
    }
    update(current, document, writer, context)
}

/// Stores a document whose host-owned metadata is still that of the current one, unless its owners were written.
fn update(
    current: &Arc<Resource>,
    mut document: Value,
    writer: Writer<'_>,
    context: &WriteContext,
) -> Result<Decision> {
    ownership::track(current.document(), &mut document, writer)?;
    store(current, document, context)
}

/// Stores a document whose host-owned metadata is still that of the current one, but for the owners of its fields. What is not the host's
/// was checked, or is as it was.
fn store(current: &Arc<Resource>, mut document: Value, context: &WriteContext) -> Result<Decision> {
    let old = current.document();
    into_stored_version(&mut document, context);
    let respecified = specification(&document).ne(specification(old));
    if !respecified && document == *old {
        return Ok(Decision::Unchanged(Arc::clone(current)));
    }
    let generation = current.generation() + u64::from(respecified);
    let metadata = metadata(&mut document);
    set(metadata, "generation", Some(json!(generation)));
    set(metadata, "resourceVersion", Some(json!(context.revision.to_string())));
    let resource = build_resource(&document, Some(current))?;
    if !current.is_deleting() {
        return Ok(Decision::Put(resource));
    }
    if let Some(new) = finalizers(&document).find(|new| current.finalizers().all(|old| old != *new)) {
        let reason = format!("cannot add `{new}` to a resource that is being deleted");
        return Err(Error::invalid("metadata.finalizers", reason));
    }
    let held = finalizers(&document).next().is_some();
    Ok(if held { Decision::Put(resource) } else { Decision::Remove(resource) })
}

/// Everything that the generation counts changes of.
fn specification(document: &Value) -> impl Iterator<Item = (&String, &Value)> {
    let fields = document.as_object().into_iter().flatten();
    fields.filter(|(name, _)| !matches!(name.as_str(), "apiVersion" | "kind" | "metadata" | "status"))
}

/// Checks the name of whoever writes.
fn check_manager(manager: &str) -> Result<()> {
    if manager.is_empty() || manager.len() > MANAGER_BYTES_MAX || manager.chars().any(char::is_control) {
        let reason = format!("must be 1 to {MANAGER_BYTES_MAX} bytes long, without control characters");
        return Err(Error::invalid("fieldManager", reason));
    }
    Ok(())
}

/// Checks that a document is about the same resource.
fn check_identity(current: &Resource, document: &Value) -> Result<()> {
    let Target { kind, namespace, name } = validate::target(document, false)?;
    let fixed = |path: &str, same: bool| {
        if same { Ok(()) } else { Err(Error::invalid(path, "cannot be changed")) }
    };
    let key = current.key();
    fixed("apiVersion", kind.group == key.kind().group)?;
    fixed("kind", kind.name == key.kind().name)?;
    fixed("metadata.namespace", namespace == key.namespace())?;
    fixed("metadata.name", name.as_deref() == Some(key.name()))?;
    let created = metadata_text(document, "creationTimestamp");
    fixed(
        "metadata.creationTimestamp",
        created.is_empty() || created == metadata_text(current.document(), "creationTimestamp"),
    )
}

fn check_precondition(current: &Resource, precondition: &Precondition) -> Result<()> {
    let Precondition { uid, revision } = precondition;
    let same = uid.as_ref().is_none_or(|uid| uid == current.uid())
        && revision.is_none_or(|revision| revision == current.revision());
    if same { Ok(()) } else { Err(Error::Conflict { key: current.key().clone(), current: Some(current.revision()) }) }
}

/// Reads the preconditions that a document carries in its metadata. A revision that this store cannot have given is a conflict.
fn metadata_precondition(current: &Resource, document: &Value) -> Result<Precondition> {
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let revision = match some(metadata_text(document, "resourceVersion")) {
        None => None,
        Some(text) => Some(
            text.parse()
                .map_err(|_| Error::Conflict { key: current.key().clone(), current: Some(current.revision()) })?,
        ),
    };
    Ok(Precondition { uid: some(metadata_text(document, "uid")), revision })
}
