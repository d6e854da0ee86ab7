//! One resource as a store has it.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{Error, Key, Kind, Result, Revision, validate};

/// What a value takes in memory beside its text, and what the name of a field takes with its place, in bytes.
const ITEM_BYTES: u64 = 48;
const ENTRY_BYTES: u64 = 96;

/// How much of a resource to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum View {
    /// The whole document.
    #[default]
    Whole,
    /// `apiVersion`, `kind` and `metadata` alone.
    Metadata,
    /// Nothing of the document: key, uid, revision and generation are enough.
    Keys,
}

/// A reference from a resource to one of its owners. The owner is in the same namespace, or in none.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OwnerReference {
    /// Kind of the owner.
    pub kind: Kind,
    /// Name of the owner.
    pub name: String,
    /// The uid of the owner: another resource of that name is not the owner.
    pub uid: String,
    /// Whether this is the one owner that controls the resource.
    pub controller: bool,
}

/// A document of Kubernetes shape with its metadata filled in. Never changes; lives behind an `Arc`.
///
/// It is kept as its text. The document is read from that when somebody asks for it, and kept from then on: it takes several times as much
/// memory, in many small pieces.
#[derive(Debug)]
pub struct Resource {
    key: Key,
    uid: String,
    revision: Revision,
    generation: u64,
    is_deleting: bool,
    owners: Vec<OwnerReference>,
    /// Reads as a document.
    text: Arc<str>,
    /// What `text` reads as, where somebody has asked.
    document: OnceLock<Value>,
    /// What both may take, where somebody has asked: it is asked for as often as something is kept with the resource.
    memory_bytes: OnceLock<u64>,
}

impl PartialEq for Resource {
    fn eq(&self, other: &Self) -> bool {
        let Self { key, uid, revision, generation, is_deleting, owners, text, document: _, memory_bytes: _ } = self;
        *text == other.text
            && *key == other.key
            && *uid == other.uid
            && (*revision, *generation, *is_deleting) == (other.revision, other.generation, other.is_deleting)
            && *owners == other.owners
    }
}

impl Resource {
    /// Takes over a document whose metadata a store has filled in.
    ///
    /// A missing uid is empty, a missing `resourceVersion` is [`Revision::ZERO`], a missing generation is 0. Nothing else is checked:
    /// what comes in was checked when it was written.
    ///
    /// # Errors
    /// `Invalid` when `apiVersion`, `kind` or `metadata.name` is missing, or `metadata.resourceVersion` is no revision.
    pub fn from_document(document: Value) -> Result<Self> {
        let resource = Self::new(&document, validate::text(&document), None)?;
        Ok(Self { document: document.into(), ..resource })
    }

    /// Reads the JSON text of a document as [`Resource::from_document`] takes it.
    ///
    /// # Errors
    /// As [`Resource::from_document`]; `Invalid` when it is no JSON.
    pub(crate) fn from_text(text: &str) -> Result<Self> {
        let document: Value =
            serde_json::from_str(text).map_err(|error| Error::invalid("document", error.to_string()))?;
        let resource = Self::new(&document, text, None)?;
        Ok(Self { document: document.into(), ..resource })
    }

    /// As [`Resource::from_document`], of a document whose text is known. The resource keeps the text alone: few ask for the document. Most likely it
    /// has the key of `before`, which is used again then.
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
            uid: text(metadata, "uid").to_owned(),
            revision,
            generation: metadata.get("generation").and_then(Value::as_u64).unwrap_or(0),
            is_deleting: metadata.get("deletionTimestamp").is_some_and(|at| !at.is_null()),
            owners: owners(metadata),
            text: json.into(),
            document: OnceLock::new(),
            memory_bytes: OnceLock::new(),
        })
    }

    /// Returns the resource for somebody who looks at its document once: unless that is kept already, it goes with what this returns.
    pub(crate) fn detached(self: &Arc<Self>) -> Arc<Self> {
        if self.document.get().is_some() { Arc::clone(self) } else { self.without_document() }
    }

    /// Returns the same with its text alone: the document is read again where somebody asks for it, and goes with what this returns.
    pub fn without_document(&self) -> Arc<Self> {
        let Self { key, uid, revision, generation, is_deleting, owners, text, document: _, memory_bytes } = self;
        Arc::new(Self {
            key: key.clone(),
            uid: uid.clone(),
            revision: *revision,
            generation: *generation,
            is_deleting: *is_deleting,
            owners: owners.clone(),
            text: Arc::clone(text),
            document: OnceLock::new(),
            memory_bytes: memory_bytes.clone(),
        })
    }

    /// Lets go of the document; who asks for it reads it again.
    pub(crate) fn forget_document(&mut self) {
        self.document.take();
    }

    /// Returns whether the document is kept.
    #[cfg(test)]
    pub(crate) fn has_document(&self) -> bool {
        self.document.get().is_some()
    }

    /// Returns the key, with the version that the document has.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Returns the uid: it differs for every creation, also when a name is used again.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// Returns the revision of the last change of this resource.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Returns the generation: it starts at 1 and grows when something outside of `metadata` and `status` changes.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the length of the JSON text of the whole document.
    pub fn bytes(&self) -> u64 {
        self.text.len() as u64
    }

    /// Returns what it may take in memory, in bytes: its text, and its document once somebody has read it, which is many times as much where the text
    /// is one of many small values. An estimate from above. The first call counts the marks of the text.
    pub fn memory_bytes(&self) -> u64 {
        *self.memory_bytes.get_or_init(|| {
            let count = |mark: u8| self.text.bytes().filter(|byte| *byte == mark).count() as u64;
            // What stands in strings, stands in both.
            2 * self.bytes() + ITEM_BYTES * count(b',') + ENTRY_BYTES * count(b':')
        })
    }

    /// Returns the JSON text of the whole document, metadata filled in.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the whole document, metadata filled in. The first call reads it.
    pub fn document(&self) -> &Value {
        self.document.get_or_init(|| read(&self.text))
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

    /// Returns the finalizers: a deletion waits until there are none.
    pub fn finalizers(&self) -> impl Iterator<Item = &str> {
        finalizers(self.document())
    }

    /// Returns the owners that the resource names. An entry that is no owner reference is left out.
    pub fn owners(&self) -> &[OwnerReference] {
        &self.owners
    }

    /// Returns whether a deletion is waiting for finalizers.
    pub fn is_deleting(&self) -> bool {
        self.is_deleting
    }

    /// Returns the status; JSON `null` when there is none.
    pub fn status(&self) -> &Value {
        self.document().get("status").unwrap_or(&Value::Null)
    }

    /// Returns JSON text of as much of the document as `view` asks for; empty for [`View::Keys`].
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

/// Reads the text of a resource, which was read before, or made of a document.
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

/// Returns the key of a document.
fn key(document: &Value, metadata: &Value) -> Result<Key> {
    let kind = Kind::parse(text(document, "apiVersion"), text(document, "kind"))?;
    let name = text(metadata, "name");
    if name.is_empty() {
        return Err(Error::invalid("metadata.name", "must not be empty"));
    }
    Ok(Key::new(kind, text(metadata, "namespace"), name))
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or("")
}

/// Returns the finalizers of a document.
pub(crate) fn finalizers(document: &Value) -> impl Iterator<Item = &str> {
    let names = document.get("metadata").and_then(|metadata| metadata.get("finalizers")).and_then(Value::as_array);
    names.into_iter().flatten().filter_map(Value::as_str)
}

fn strings(map: Option<&Value>) -> impl Iterator<Item = (&str, &str)> {
    let map = map.and_then(Value::as_object).into_iter();
    map.flat_map(Map::iter).filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)))
}

fn owners(metadata: &Value) -> Vec<OwnerReference> {
    let references = metadata.get("ownerReferences").and_then(Value::as_array);
    references.into_iter().flatten().filter_map(owner).collect()
}

fn owner(reference: &Value) -> Option<OwnerReference> {
    Some(OwnerReference {
        kind: Kind::parse(text(reference, "apiVersion"), text(reference, "kind")).ok()?,
        name: reference.get("name")?.as_str()?.to_owned(),
        uid: reference.get("uid")?.as_str()?.to_owned(),
        controller: reference.get("controller").and_then(Value::as_bool).unwrap_or(false),
    })
}
