//! One resource as a store has it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{Error, Key, Kind, Result, Revision, validate};

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
#[derive(Debug, PartialEq)]
pub struct Resource {
    key: Key,
    uid: String,
    revision: Revision,
    generation: u64,
    bytes: u64,
    document: Value,
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
        let bytes = validate::bytes(&document);
        Self::of_length(document, bytes)
    }

    /// Takes over a document as [`Resource::from_document`] does; `bytes` is the length of its JSON text.
    pub(crate) fn of_length(document: Value, bytes: u64) -> Result<Self> {
        let metadata = document.get("metadata").unwrap_or(&Value::Null);
        let kind = Kind::parse(text(&document, "apiVersion"), text(&document, "kind"))?;
        let name = text(metadata, "name");
        if name.is_empty() {
            return Err(Error::invalid("metadata.name", "must not be empty"));
        }
        let revision = match text(metadata, "resourceVersion") {
            "" => Revision::ZERO,
            revision => revision.parse()?,
        };
        Ok(Self {
            key: Key::new(kind, text(metadata, "namespace"), name),
            uid: text(metadata, "uid").to_owned(),
            revision,
            generation: metadata.get("generation").and_then(Value::as_u64).unwrap_or(0),
            bytes,
            document,
        })
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
        self.bytes
    }

    /// Returns the whole document, metadata filled in.
    pub fn document(&self) -> &Value {
        &self.document
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
        self.metadata("finalizers").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    }

    /// Returns the owners that the resource names. An entry that is no owner reference is left out.
    pub fn owners(&self) -> Vec<OwnerReference> {
        let references = self.metadata("ownerReferences").and_then(Value::as_array);
        references.into_iter().flatten().filter_map(owner).collect()
    }

    /// Returns whether a deletion is waiting for finalizers.
    pub fn is_deleting(&self) -> bool {
        self.metadata("deletionTimestamp").is_some_and(|at| !at.is_null())
    }

    /// Returns the status; JSON `null` when there is none.
    pub fn status(&self) -> &Value {
        self.document.get("status").unwrap_or(&Value::Null)
    }

    /// Returns JSON text of as much of the document as `view` asks for; empty for [`View::Keys`].
    pub fn view(&self, view: View) -> String {
        match view {
            View::Whole => self.document.to_string(),
            View::Metadata => json!({
                "apiVersion": self.document.get("apiVersion"),
                "kind": self.document.get("kind"),
                "metadata": self.document.get("metadata"),
            })
            .to_string(),
            View::Keys => String::new(),
        }
    }

    fn metadata(&self, field: &str) -> Option<&Value> {
        self.document.get("metadata")?.get(field)
    }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or("")
}

fn strings(map: Option<&Value>) -> impl Iterator<Item = (&str, &str)> {
    let map = map.and_then(Value::as_object).into_iter();
    map.flat_map(Map::iter).filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)))
}

fn owner(reference: &Value) -> Option<OwnerReference> {
    Some(OwnerReference {
        kind: Kind::parse(text(reference, "apiVersion"), text(reference, "kind")).ok()?,
        name: reference.get("name")?.as_str()?.to_owned(),
        uid: reference.get("uid")?.as_str()?.to_owned(),
        controller: reference.get("controller").and_then(Value::as_bool).unwrap_or(false),
    })
}
