//! A stored resource.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::document_head::document_head;
use super::owner::{self, OwnerReference, text};
use super::packed_text::PackedText;
use super::revision_slot::{revision_slot, with_content};
use crate::{Error, Key, Kind, Result, Revision, validate};

/// Memory that a value takes beside its text, and memory of a field name with its map entry, in bytes.
const ITEM_BYTES: u64 = 48;
const ENTRY_BYTES: u64 = 96;

/// The part of a resource to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum View {
    /// The whole document.
    #[default]
    Whole,
    /// Only `apiVersion`, `kind` and `metadata`.
    Metadata,
    /// Not the document: only key, uid, revision and generation.
    Keys,
}

/// A document of Kubernetes shape with its metadata filled in. Immutable; lives behind an `Arc`.
///
/// It is stored as JSON text. The first access to the document parses the text and caches the result, which
/// takes several times as much memory, in many small allocations.
#[derive(Debug)]
pub struct Resource {
    key: Key,
    uid: Box<str>,
    revision: Revision,
    generation: u64,
    is_deleting: bool,
    owners: Box<[OwnerReference]>,
    /// The document names an owner as Kumori does.
    has_owner_key: bool,
    /// JSON text of a document. A packed resource has it once a caller has asked for it.
    text: OnceLock<Arc<str>>,
    /// The compressed text of a resource that a cache keeps.
    packed: Option<Arc<PackedText>>,
    /// The parsed `text`, once a caller has asked for it. In a box, as few of the resources of a store have it.
    document: OnceLock<Box<Value>>,
    /// The estimated size of both, once a caller has asked for it, and 0 before: callers ask for it for every entry that
    /// they keep with the resource.
    memory_bytes: AtomicU32,
}

impl PartialEq for Resource {
    fn eq(&self, other: &Self) -> bool {
        let Self { key, uid, revision, generation, is_deleting, owners, has_owner_key, .. } = self;
        self.shared_text() == other.shared_text()
            && *has_owner_key == other.has_owner_key
            && *key == other.key
            && *uid == other.uid
            && (*revision, *generation, *is_deleting) == (other.revision, other.generation, other.is_deleting)
            && *owners == other.owners
    }
}

impl Resource {
    /// Creates a resource from a document whose metadata a store has filled in.
    ///
    /// A missing uid is empty, a missing `resourceVersion` is [`Revision::ZERO`], a missing generation is 0.
    /// Nothing else is checked: the document was checked when it was written.
    ///
    /// # Errors
    /// `Invalid` when `apiVersion`, `kind` or `metadata.name` is missing, or `metadata.resourceVersion` is
    /// malformed.
    pub fn from_document(document: Value) -> Result<Self> {
        let resource = Self::new(&document, validate::text(&document), None)?;
        Ok(Self { document: Box::new(document).into(), ..resource })
    }

    /// Parses the JSON text of a document, as [`Resource::from_document`]. The resource keeps the text alone: a list
    /// shows the text, and a tree of it would take several times as long.
    ///
    /// # Errors
    /// As [`Resource::from_document`]; `Invalid` for malformed JSON, and for a document that is nested deeper than
    /// [`DOCUMENT_DEPTH_MAX`](crate::DOCUMENT_DEPTH_MAX).
    pub(crate) fn from_text(text: &str) -> Result<Self> {
        Self::new(&document_head(text)?, text, None)
    }

    /// Parses the JSON text of a document, and gives the resource a revision, whatever the text says of it. The
    /// resource keeps the text alone.
    ///
    /// # Errors
    /// As [`Resource::from_document`]; `Invalid` for malformed JSON, and for a document that is nested deeper
    /// than [`DOCUMENT_DEPTH_MAX`](crate::DOCUMENT_DEPTH_MAX).
    pub fn from_text_at(text: &str, revision: Revision) -> Result<Self> {
        let revision = revision.to_string();
        if let Some(slot) = revision_slot(text) {
            let text = with_content(text, slot, &revision);
            let head = document_head(&text)?;
            if head["metadata"]["resourceVersion"] == *revision {
                return Self::new(&head, text, None);
            }
        }
        let mut document: Value =
            serde_json::from_str(text).map_err(|error| Error::invalid("document", error.to_string()))?;
        validate::nesting("document", &document)?;
        if let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("resourceVersion".to_owned(), json!(revision));
        }
        Self::new(&document, validate::text(&document), None)
    }

    /// As [`Resource::from_document`], for a document whose text is known, or for its head
    /// ([`document_head`]). The resource keeps only the text: few callers need the document. Usually the key equals that of `before`, and is shared with it.
    pub(crate) fn new(document: &Value, json: impl Into<Arc<str>>, before: Option<&Self>) -> Result<Self> {
        let metadata = document.get("metadata").unwrap_or(&Value::Null);
        let key = match before {
            Some(before) if has_key(document, metadata, &before.key) => before.key.clone(),
            _ => key(document, metadata)?,
        };
        let revision = match text(metadata, "resourceVersion") {
            "" => Revision::ZERO,
            revision => revision.parse()?,
        };
        Ok(Self {
            key,
            uid: text(metadata, "uid").into(),
            revision,
            generation: metadata.get("generation").and_then(Value::as_u64).unwrap_or(0),
            is_deleting: metadata.get("deletionTimestamp").is_some_and(|at| !at.is_null()),
            owners: owner::owners(metadata).into(),
            has_owner_key: owner::has_owner_key(metadata),
            text: OnceLock::from(json.into()),
            packed: None,
            document: OnceLock::new(),
            memory_bytes: AtomicU32::new(0),
        })
    }

    /// Returns a resource for a caller that uses the document once. If the document is not cached yet, it
    /// will be freed with the returned resource.
    pub(crate) fn detached(self: &Arc<Self>) -> Arc<Self> {
        if self.document.get().is_some() { Arc::clone(self) } else { self.without_document() }
    }

    /// Returns a copy without the cached document. The copy parses the text again on demand.
    pub fn without_document(&self) -> Arc<Self> {
        Arc::new(self.copy(self.owners.clone()))
    }

    /// Returns a copy that has one more owner, which the text does not name by a reference.
    pub(crate) fn with_owner(&self, owner: OwnerReference) -> Arc<Self> {
        Arc::new(self.copy(self.owners.iter().cloned().chain([owner]).collect()))
    }

    /// Returns a copy without the cached document.
    fn copy(&self, owners: Box<[OwnerReference]>) -> Self {
        let Self {
            key,
            uid,
            revision,
            generation,
            is_deleting,
            owners: _,
            has_owner_key,
            text,
            packed,
            document: _,
            memory_bytes,
        } = self;
        Self {
            key: key.clone(),
            uid: uid.clone(),
            revision: *revision,
            generation: *generation,
            is_deleting: *is_deleting,
            owners,
            has_owner_key: *has_owner_key,
            text: text.clone(),
            packed: packed.clone(),
            document: OnceLock::new(),
            memory_bytes: AtomicU32::new(memory_bytes.load(Ordering::Relaxed)),
        }
    }

    /// Returns the same resource at another revision, without its cached document: for a store whose server
    /// numbers a change after the change was decided. A resource without `metadata.resourceVersion` in its text
    /// keeps its text.
    pub fn at(&self, revision: Revision) -> Arc<Self> {
        let before = self.shared_text();
        let text = match revision_slot(&before) {
            Some(slot) => with_content(&before, slot, &revision.to_string()).into(),
            None => before,
        };
        let (text, memory_bytes) = (OnceLock::from(text), AtomicU32::new(0));
        Arc::new(Self { revision, text, packed: None, memory_bytes, ..self.copy(self.owners.clone()) })
    }

    /// Returns the JSON text of the whole document with an empty `metadata.resourceVersion`: for a store whose
    /// server numbers the changes. [`Resource::from_text_at`] is the way back.
    pub fn text_without_revision(&self) -> String {
        let text = self.shared_text();
        match revision_slot(&text) {
            Some(slot) => with_content(&text, slot, ""),
            None => text.as_ref().to_owned(),
        }
    }

    /// Returns the same state with its metadata alone. Managed fields and annotations are left out, but for the
    /// annotation of an owner in another store.
    ///
    /// # Panics
    /// Never: the metadata is that of a resource.
    pub fn metadata_alone(&self) -> Arc<Self> {
        let document = self.document();
        let mut metadata = document.get("metadata").cloned().unwrap_or_default();
        if let Some(fields) = metadata.as_object_mut() {
            fields.remove("managedFields");
            if let Some(annotations) = fields.get_mut("annotations").and_then(Value::as_object_mut) {
                annotations.retain(|name, _| name == owner::OWNER_ANNOTATION);
            }
        }
        let document = json!({
            "apiVersion": document.get("apiVersion"), "kind": document.get("kind"), "metadata": metadata,
        });
        let alone = Self::new(&document, validate::text(&document), Some(self));
        Arc::new(alone.expect("the metadata is that of a resource"))
    }

    /// Returns the same state with `apiVersion`, `kind` and the whole metadata alone, as [`View::Metadata`] has it.
    pub(crate) fn without_content(&self) -> Arc<Self> {
        let mut document = read(&self.shared_text());
        if let Some(fields) = document.as_object_mut() {
            fields.retain(|name, _| matches!(name.as_str(), "apiVersion" | "kind" | "metadata"));
        }
        let alone = Self::new(&document, validate::text(&document), Some(self));
        Arc::new(alone.expect("the metadata is that of a resource"))
    }

    /// Frees the cached document; the next access parses the text again.
    pub(crate) fn forget_document(&mut self) {
        self.document.take();
    }

    /// Returns whether the document is cached.
    #[cfg(test)]
    pub(crate) fn has_document(&self) -> bool {
        self.document.get().is_some()
    }

    /// Returns whether the text is in memory as it is.
    #[cfg(test)]
    pub(crate) fn has_text(&self) -> bool {
        self.text.get().is_some()
    }

    /// Returns the key, with the version of the document.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Returns the uid: it differs for every creation, even if a name is reused.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// Returns the revision of the last change of this resource.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Returns the generation: it starts at 1 and grows with every change outside `metadata` and `status`.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns a copy without the cached document, whose text is compressed with a dictionary. Each copy of it
    /// unpacks the text again on demand. A text that does not get much shorter stays as it is. The copy shares the key
    /// of `before`, the state that it replaces, if that is equal.
    pub(crate) fn packed(&self, dictionary: &Arc<[u8]>, before: Option<&Self>) -> Arc<Self> {
        // The copies have the estimate, and need not unpack their text for it.
        self.memory_bytes();
        let key = before.map(|before| &before.key).filter(|key| **key == self.key).unwrap_or(&self.key);
        let copy = Self { key: key.clone(), ..self.copy(self.owners.clone()) };
        if self.packed.is_some() {
            return Arc::new(Self { text: OnceLock::new(), ..copy });
        }
        match PackedText::new(&self.shared_text(), dictionary) {
            Some(packed) => Arc::new(Self { packed: Some(Arc::new(packed)), text: OnceLock::new(), ..copy }),
            None => Arc::new(copy),
        }
    }

    /// Returns whether the text is compressed. It may be in memory beside that, once a caller has asked for it.
    pub(crate) fn is_packed(&self) -> bool {
        self.packed.is_some()
    }

    /// Returns the memory of the text as it was created, in bytes: compressed if it is packed.
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.packed.as_ref().map_or_else(|| self.bytes(), |packed| packed.packed_bytes() as u64)
    }

    /// Returns the length of the JSON text of the whole document.
    pub fn bytes(&self) -> u64 {
        match &self.packed {
            Some(packed) => packed.length() as u64,
            None => self.text().len() as u64,
        }
    }

    /// Returns an upper estimate of its memory, in bytes and at most 4 GiB: the text, and the parsed document. The
    /// document of many small values takes many times as much as its text. The first call counts the separators of the
    /// text.
    pub fn memory_bytes(&self) -> u64 {
        let known = self.memory_bytes.load(Ordering::Relaxed);
        if known > 0 {
            return known.into();
        }
        let text = self.shared_text();
        let count = |mark: u8| text.bytes().filter(|byte| *byte == mark).count() as u64;
        // Strings are in both the text and the document.
        let bytes = 2 * self.bytes() + ITEM_BYTES * count(b',') + ENTRY_BYTES * count(b':');
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        // Two callers at once compute the same.
        self.memory_bytes.store(bytes, Ordering::Relaxed);
        bytes.into()
    }

    /// Returns the JSON text of the whole document, with its metadata. The first call unpacks it.
    pub fn text(&self) -> &str {
        self.text.get_or_init(|| self.shared_text())
    }

    /// Returns the text, and does not keep an unpacked one.
    fn shared_text(&self) -> Arc<str> {
        match (self.text.get(), &self.packed) {
            (Some(text), _) => Arc::clone(text),
            (None, Some(packed)) => packed.unpack(),
            (None, None) => unreachable!("a resource has its text, or a packed one"),
        }
    }

    /// Returns the whole document, with its metadata. The first call parses the text.
    pub fn document(&self) -> &Value {
        self.document.get_or_init(|| Box::new(read(self.text())))
    }

    /// Returns the labels in the order of their names.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        strings(self.metadata("labels"))
    }

    /// Returns the value of one label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.metadata("labels")?.get(name)?.as_str()
    }

    /// Returns the annotations in the order of their names.
    pub fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        strings(self.metadata("annotations"))
    }

    /// Returns the value of one annotation.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.metadata("annotations")?.get(name)?.as_str()
    }

    /// Returns the finalizers: no deletion completes while there is one.
    pub fn finalizers(&self) -> impl Iterator<Item = &str> {
        finalizers(self.document())
    }

    /// Returns the owners of the resource, with the one that lives in another store. Malformed owner references
    /// are omitted.
    pub fn owners(&self) -> &[OwnerReference] {
        &self.owners
    }

    /// Returns whether the document names an owner as Kumori does.
    pub(crate) fn has_owner_key(&self) -> bool {
        self.has_owner_key
    }

    /// Parses the metadata, and does not keep it in memory.
    pub(crate) fn parse_metadata(&self) -> Value {
        read(&self.shared_text()).get_mut("metadata").map(Value::take).unwrap_or_default()
    }

    /// Returns whether a deletion waits for finalizers, content, or the end of a grace period.
    pub fn is_deleting(&self) -> bool {
        self.is_deleting
    }

    /// Returns the status; JSON `null` when there is none.
    pub fn status(&self) -> &Value {
        self.document().get("status").unwrap_or(&Value::Null)
    }

    /// Returns the JSON text of the requested part; empty for [`View::Keys`].
    pub fn view(&self, view: View) -> String {
        match view {
            View::Whole => self.text().to_owned(),
            View::Metadata => json!({
                "apiVersion": self.document().get("apiVersion"),
                "kind": self.document().get("kind"),
                "metadata": self.document().get("metadata"),
            })
            .to_string(),
            View::Keys => String::new(),
        }
    }

    fn metadata(&self, field: &str) -> Option<&Value> {
        self.document().get("metadata")?.get(field)
    }
}

/// Parses the text of a resource; it is known to be valid.
fn read(text: &str) -> Value {
    serde_json::from_str(text).expect("a resource has the text of a document")
}

/// Returns whether a document has this key.
fn has_key(document: &Value, metadata: &Value, key: &Key) -> bool {
    text(metadata, "name") == key.name()
        && text(metadata, "namespace") == key.namespace()
        && text(document, "kind") == key.kind().name
        && key.kind().has_api_version(text(document, "apiVersion"))
}

thread_local! {
    /// The kind of the last document that this thread has read. The documents of a list share it.
    static LAST_KIND: RefCell<Option<Arc<Kind>>> = const { RefCell::new(None) };
}

/// Returns the key of a document.
fn key(document: &Value, metadata: &Value) -> Result<Key> {
    let kind = kind(text(document, "apiVersion"), text(document, "kind"))?;
    let name = text(metadata, "name");
    if name.is_empty() {
        return Err(Error::invalid("metadata.name", "must not be empty"));
    }
    Ok(Key::of_kind(kind, text(metadata, "namespace"), name))
}

/// Parses a kind, or returns that of the document before if it is the same.
fn kind(api_version: &str, name: &str) -> Result<Arc<Kind>> {
    LAST_KIND.with_borrow_mut(|last| match last {
        Some(last) if last.name == name && last.has_api_version(api_version) => Ok(Arc::clone(last)),
        _ => Ok(Arc::clone(last.insert(Arc::new(Kind::parse(api_version, name)?)))),
    })
}

/// Returns the finalizers of a document.
pub(crate) fn finalizers(document: &Value) -> impl Iterator<Item = &str> {
    let names = document.get("metadata").and_then(|metadata| metadata.get("finalizers")).and_then(Value::as_array);
    names.into_iter().flatten().filter_map(Value::as_str)
}

/// Returns whether a document is that of a namespace.
pub(crate) fn is_namespace(document: &Value) -> bool {
    document["kind"] == "Namespace" && document["apiVersion"] == "v1"
}

/// Returns whether the deletion of a namespace has to wait for its content.
pub(crate) fn holds_content(document: &Value) -> bool {
    let finalizers = document.pointer("/spec/finalizers").and_then(Value::as_array);
    finalizers.is_some_and(|names| !names.is_empty()) && is_namespace(document)
}

/// Returns whether something has to end before a resource that is being deleted is gone.
pub(crate) fn is_held(document: &Value) -> bool {
    finalizers(document).next().is_some() || holds_content(document) || grace_seconds(document) > 0
}

/// Returns the seconds that a resource that is being deleted may take for its end.
pub(crate) fn grace_seconds(document: &Value) -> u32 {
    let seconds = document["metadata"]["deletionGracePeriodSeconds"].as_u64().unwrap_or_default();
    u32::try_from(seconds).unwrap_or(u32::MAX)
}

fn strings(map: Option<&Value>) -> impl Iterator<Item = (&str, &str)> {
    let map = map.and_then(Value::as_object).into_iter();
    map.flat_map(Map::iter).filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)))
}
