//! Owners that live in another store than their dependents. Pure.
//!
//! The garbage collector of a Kubernetes cluster deletes a resource whose owner it cannot find. So the store of the
//! dependent must not see a reference to an owner that lives elsewhere. There the dependent names its owner in an
//! annotation ([`OWNER_ANNOTATION`]), and in a label for selectors ([`OWNER_LABEL`]). Everyone else sees a plain
//! owner reference: [`split`] turns the reference of a written document into the annotation and the label, and
//! [`join`] adds the reference to a resource that is read.
//!
//! The reference is the truth: `split` drops the annotation of an owner that the document does not reference. The
//! annotation only adds where the owner lives, and which content its store had when a document first named the
//! owner: another store of that name, or the same one after it was emptied, knows nothing of the owner. Its
//! namespace is that of the dependent, or none for a cluster-scoped owner, unless the field `namespace` of the
//! reference says otherwise.
//!
//! The names of Kumori, [`OWNER_KEY`] and [`OWNER_KIND`], are read as well. They have no uid, so they lead to
//! mappings alone.
//!
//! Deliberately absent: requests. [`RoutedStore`](crate::RoutedStore) calls this, and the runtime deletes dependents
//! whose owners are gone.

use std::sync::Arc;

use serde_json::{Map, Value, json};

pub use crate::model::{OWNER_ANNOTATION, OWNER_KEY, OWNER_KIND, OWNER_LABEL};

use crate::model::OwnerNote;
use crate::{Change, Error, FarOwner, Kind, OwnerReference, Resource, Result, validate};

/// Returns the one kind that has a name, plural or singular, and the store in which it lives. `None` if there is no
/// such kind, or more than one.
pub type NamedKind<'f> = &'f dyn Fn(&str) -> Option<(Kind, Arc<str>)>;

/// The store of an owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerStore {
    /// Its name.
    pub name: Arc<str>,
    /// The id of its content now, if it is known.
    pub content: Option<String>,
}

/// Turns the owner reference of a document that is about to be written into the annotation and the label, if the
/// owner lives in another store. `elsewhere` returns the store of a kind that is another one than the document's.
///
/// # Errors
/// `Invalid` for a second owner in another store, for an uid that is no value of a label, and for a reference to
/// another namespace of the same store.
pub fn split(document: &mut Value, elsewhere: &dyn Fn(&Kind) -> Option<OwnerStore>) -> Result<()> {
    let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) else { return Ok(()) };
    let known = metadata.get("annotations").and_then(|annotations| annotations.get(OWNER_ANNOTATION)).is_some();
    if !known && !metadata.contains_key("ownerReferences") {
        return Ok(());
    }
    let note = take_far_reference(metadata, elsewhere)?;
    match note {
        Some(note) => {
            let text = json!(note).to_string();
            entry(metadata, "annotations")?.insert(OWNER_ANNOTATION.to_owned(), text.into());
            entry(metadata, "labels")?.insert(OWNER_LABEL.to_owned(), note.uid.into());
        }
        None => {
            remove(metadata, "annotations", OWNER_ANNOTATION);
            remove(metadata, "labels", OWNER_LABEL);
        }
    }
    Ok(())
}

/// Removes the reference to an owner in another store from the list, and the fields from the others that only such
/// a reference has.
fn take_far_reference(
    metadata: &mut Map<String, Value>,
    elsewhere: &dyn Fn(&Kind) -> Option<OwnerStore>,
) -> Result<Option<OwnerNote>> {
    let own = metadata.get("namespace").and_then(Value::as_str).unwrap_or_default().to_owned();
    let before = OwnerNote::of(&Value::Object(metadata.clone()));
    let Some(references) = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut) else { return Ok(None) };
    let mut note: Option<OwnerNote> = None;
    let mut near = Vec::with_capacity(references.len());
    for (at, reference) in std::mem::take(references).into_iter().enumerate() {
        let path = format!("metadata.ownerReferences[{at}]");
        let kind = Kind::parse(&text(&reference, "apiVersion"), &text(&reference, "kind")).ok();
        let Some((kind, store)) = kind.and_then(|kind| elsewhere(&kind).map(|store| (kind, store))) else {
            near.push(near_reference(reference, &own, &path)?);
            continue;
        };
        let far = far_note(&reference, kind, store, before.as_ref(), &path)?;
        if let Some(other) = &note {
            let reason = format!(
                "only one owner may live in another store: {}/{} {:?} does, in store {}",
                other.api_version, other.kind, other.name, other.store
            );
            return Err(Error::invalid(path, reason));
        }
        note = Some(far);
    }
    if near.is_empty() && note.is_some() {
        metadata.remove("ownerReferences");
    } else {
        *references = near;
    }
    Ok(note)
}

/// Returns a reference to an owner in the same store, without the field that only an owner elsewhere has.
fn near_reference(mut reference: Value, own_namespace: &str, path: &str) -> Result<Value> {
    let namespace = text(&reference, "namespace");
    if !namespace.is_empty() && namespace != own_namespace {
        let reason = "an owner in the same store must be in the same namespace";
        return Err(Error::invalid(format!("{path}.namespace"), reason));
    }
    if let Some(fields) = reference.as_object_mut() {
        fields.remove("namespace");
    }
    Ok(reference)
}

/// Returns the note of an owner that lives in another store. `before` is the note that the document has.
fn far_note(
    reference: &Value,
    kind: Kind,
    store: OwnerStore,
    before: Option<&OwnerNote>,
    path: &str,
) -> Result<OwnerNote> {
    let (uid, path) = (text(reference, "uid"), format!("{path}.uid"));
    if uid.is_empty() {
        return Err(Error::invalid(path, "must not be empty"));
    }
    validate::label_value(&path, &uid)?;
    let said = reference.get("namespace").and_then(Value::as_str).map(str::to_owned);
    let same = before.filter(|note| note.uid == uid);
    let namespace = said.or_else(|| same?.namespace.clone());
    // A writer that changes something else knows nothing of the owner.
    let content = match same.filter(|note| *note.store == *store.name) {
        Some(note) => note.content.clone(),
        None => store.content,
    };
    Ok(OwnerNote {
        store: store.name.to_string(),
        content,
        api_version: kind.api_version(),
        kind: kind.name,
        namespace,
        name: text(reference, "name"),
        uid,
        controller: reference.get("controller").and_then(Value::as_bool),
        block_owner_deletion: reference.get("blockOwnerDeletion").and_then(Value::as_bool),
    })
}

/// Returns a field of a reference; empty if there is none.
fn text(reference: &Value, field: &str) -> String {
    reference.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Returns a map of the metadata, which is added if it is missing.
fn entry<'m>(metadata: &'m mut Map<String, Value>, name: &str) -> Result<&'m mut Map<String, Value>> {
    let map = metadata.entry(name).or_insert(Value::Null);
    if map.is_null() {
        *map = json!({});
    }
    map.as_object_mut().ok_or_else(|| Error::invalid(format!("metadata.{name}"), "must be an object"))
}

/// Removes an entry from a map of the metadata, and the map with its last entry.
fn remove(metadata: &mut Map<String, Value>, map: &str, name: &str) {
    let Some(entries) = metadata.get_mut(map).and_then(Value::as_object_mut) else { return };
    if entries.remove(name).is_some() && entries.is_empty() {
        metadata.remove(map);
    }
}

/// Returns whether a patch can change which owner in another store a resource has. Such a patch must be computed
/// on the resource as it is read ([`join`]), and written as a whole document.
///
/// # Errors
/// `Invalid` for a strategic merge patch that also changes more than the metadata: its lists are merged by a schema
/// that only the store has.
pub fn touches(change: &Change) -> Result<bool> {
    match change {
        Change::Merge(patch) => Ok(merge_touches(patch)),
        Change::Strategic(patch) => {
            let touches = merge_touches(patch);
            let is_more = |field: &&String| !["metadata", "apiVersion", "kind"].contains(&field.as_str());
            let more = patch.as_object().and_then(|fields| fields.keys().find(is_more));
            match more.filter(|_| touches) {
                Some(field) => Err(Error::invalid(
                    field.as_str(),
                    "a strategic merge patch that changes owners can change only the metadata here; use two patches",
                )),
                None => Ok(touches),
            }
        }
        Change::Json(patch) => {
            let operations = patch.as_array().into_iter().flatten();
            let paths = operations.flat_map(|operation| [operation.get("path"), operation.get("from")]).flatten();
            Ok(paths.filter_map(Value::as_str).any(pointer_touches))
        }
    }
}

fn merge_touches(patch: &Value) -> bool {
    let Some(metadata) = patch.get("metadata") else { return false };
    let Some(fields) = metadata.as_object() else { return true };
    let drops = |name: &str, entry: &str| match fields.get(name) {
        None => false,
        Some(Value::Object(entries)) => entries.contains_key(entry) || entries.contains_key("$patch"),
        Some(_) => true,
    };
    fields.keys().any(|name| name.contains("ownerReferences") || name.starts_with("$patch") || name == "$retainKeys")
        || drops("annotations", OWNER_ANNOTATION)
        || drops("labels", OWNER_LABEL)
}

/// Returns whether a change at a JSON pointer can change the owner in another store.
fn pointer_touches(pointer: &str) -> bool {
    const OURS: [&str; 3] = [
        "/metadata/ownerReferences",
        "/metadata/annotations/homeostat.dev~1owner",
        "/metadata/labels/homeostat.dev~1owner-uid",
    ];
    let within = |outer: &str, inner: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    OURS.iter().any(|ours| within(pointer, ours) || within(ours, pointer))
}

/// Returns a resource as its readers see it: with a plain reference to the owner that lives in another store. The
/// resource itself if it has no such owner.
pub fn join(resource: Arc<Resource>, named: NamedKind<'_>) -> Arc<Resource> {
    if resource.owners().iter().any(|owner| owner.far.is_some()) {
        return with_reference(&resource).map_or(resource, Arc::new);
    }
    if resource.has_owner_key()
        && let Some(owner) = kumori_owner(&resource.parse_metadata(), named)
    {
        return resource.with_owner(owner);
    }
    resource
}

/// Returns the resource with the reference that its annotation stands for; `None` if it has it.
fn with_reference(resource: &Resource) -> Option<Resource> {
    let mut document: Value = serde_json::from_str(resource.text()).ok()?;
    let note = OwnerNote::of(document.get("metadata")?)?;
    if note.uid.is_empty() {
        return None;
    }
    let metadata = document.get_mut("metadata")?.as_object_mut()?;
    let references = metadata.entry("ownerReferences").or_insert_with(|| json!([])).as_array_mut()?;
    if references.iter().any(|reference| reference.get("uid").and_then(Value::as_str) == Some(note.uid.as_str())) {
        return None;
    }
    references.push(note.reference());
    Resource::new(&document, validate::text(&document), Some(resource)).ok()
}

/// Returns the owner that the names of Kumori stand for.
fn kumori_owner(metadata: &Value, named: NamedKind<'_>) -> Option<OwnerReference> {
    let said = |name: &str| {
        let of = |map: &str| metadata.get(map)?.get(name)?.as_str().filter(|text| !text.is_empty());
        of("annotations").or_else(|| of("labels"))
    };
    let (kind, store) = named(said(OWNER_KIND)?)?;
    let key = said(OWNER_KEY)?;
    let (namespace, name) = match key.split_once('/') {
        Some((namespace, name)) => (Some(namespace.to_owned()), name),
        None => (None, key),
    };
    let far = Some(Box::new(FarOwner { store, content: None, namespace }));
    Some(OwnerReference { kind, name: name.to_owned(), uid: String::new(), controller: true, far })
}

#[cfg(test)]
mod tests;
