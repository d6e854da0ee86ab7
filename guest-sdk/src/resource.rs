//! A resource with Rust types, and all ways to write it.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::bindings::imports::homeostat::reconciler::types as wit;
use crate::host::store;
use crate::kind::{Key, Kind, kind_of};
use crate::merge;
use crate::metadata::{Metadata, OwnerReference};
use crate::selector::Selector;
use crate::store_error::Error;

/// The number of attempts to write a status while other clients keep changing the metadata.
const STATUS_TRIES: usize = 4;

/// A resource, as [`Kind::get`] returns it and as it is written.
///
/// The document as read is kept beside the typed fields. A write sends the difference between the two,
/// applied to that document. So fields that the types do not name are preserved, and a write without
/// differences is skipped.
#[derive(Debug, Clone)]
pub struct Resource<K: Kind> {
    /// Name, labels, owners and the like.
    pub metadata: Metadata,
    /// The desired state.
    pub spec: K,
    /// The observed state. `None` before it was first written, and if it does not fit the type.
    pub status: Option<K::Status>,
    /// The document as the store last returned it; `Null` for a resource that was created locally.
    stored: Value,
}

/// A change to apply to the current document.
#[derive(Debug, Clone, PartialEq)]
pub enum Patch {
    /// A JSON merge patch (RFC 7396): objects are merged, `null` removes a field, any other value replaces
    /// it.
    Merge(Value),
    /// A JSON patch (RFC 6902): a list of operations, which apply all together or not at all.
    Json(Value),
}

/// The treatment of resources that name the deleted one as their owner.
pub use crate::bindings::imports::homeostat::reconciler::store::Propagation;

impl<K: Kind> Resource<K> {
    /// Creates a local resource, to be created or applied. `namespace` is empty for kinds outside of
    /// namespaces.
    #[must_use]
    pub fn new(namespace: &str, name: &str, spec: K) -> Self {
        let metadata = Metadata { namespace: namespace.to_owned(), name: name.to_owned(), ..Metadata::default() };
        Self { metadata, spec, status: None, stored: Value::Null }
    }

    /// Adds a label.
    #[must_use]
    pub fn label(mut self, name: &str, value: impl Into<String>) -> Self {
        self.metadata.labels.insert(name.to_owned(), value.into());
        self
    }

    /// Adds labels.
    #[must_use]
    pub fn labels<'a>(mut self, labels: impl IntoIterator<Item = (&'a String, &'a String)>) -> Self {
        self.metadata.labels.extend(labels.into_iter().map(|(name, value)| (name.clone(), value.clone())));
        self
    }

    /// Adds an annotation.
    #[must_use]
    pub fn annotation(mut self, name: &str, value: impl Into<String>) -> Self {
        self.metadata.annotations.insert(name.to_owned(), value.into());
        self
    }

    /// Makes it a part of `parent`: it is deleted with the parent, and its changes queue the parent's key if
    /// the parent's controller declares [`Spec::owns`](crate::Spec::owns).
    ///
    /// A namespaced parent lives in the same namespace. Where the host keeps both kinds in different stores, it may
    /// live in another one.
    #[must_use]
    pub fn owned_by<P: Kind>(mut self, parent: &Resource<P>) -> Self {
        let home = &parent.metadata.namespace;
        let namespace = Some(home).filter(|home| !home.is_empty() && **home != self.metadata.namespace).cloned();
        self.metadata.owner_references.push(OwnerReference { namespace, ..OwnerReference::controller(parent) });
        self
    }

    /// Returns the key of this resource.
    #[must_use]
    pub fn key(&self) -> Key {
        K::key(&self.metadata.namespace, &self.metadata.name)
    }

    /// Returns whether the resource is being deleted, and waits for its finalizers or its parts.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        self.metadata.is_deleting()
    }

    /// Creates it, and returns it as stored. `status` is not written: use [`Resource::set_status`].
    ///
    /// # Errors
    ///
    /// [`Error::AlreadyExists`], [`Error::Forbidden`], [`Error::Invalid`], [`Error::TooLarge`],
    /// [`Error::Unavailable`].
    pub fn create(&self) -> Result<Self, Error> {
        let created = store::create(&self.document(&self.metadata)?.to_string())?;
        Self::from_wit(&created)
    }

    /// Server-side apply: ensures that the resource exists and that the fields set here have these values.
    /// Other fields stay as they are.
    ///
    /// Prefer this verb: it is idempotent, and without changes it makes no new revision. Apply a
    /// [`Resource::new`] that has only the fields the controller decides: fields that are `None` or empty are
    /// not claimed. The controller owns the fields it applies; a field that it applied before and no longer
    /// names is removed. Creating a resource and applying it later makes two owners: a controller that
    /// applies should always apply.
    ///
    /// # Errors
    ///
    /// [`Error::Owned`] when another manager owns one of the fields, [`Error::Forbidden`],
    /// [`Error::Invalid`], [`Error::TooLarge`], [`Error::Unavailable`].
    pub fn apply(&self) -> Result<Self, Error> {
        self.apply_with(false)
    }

    /// As [`Resource::apply`], and takes over the fields that other managers own.
    ///
    /// # Errors
    ///
    /// As [`Resource::apply`], but no [`Error::Owned`].
    pub fn apply_by_force(&self) -> Result<Self, Error> {
        self.apply_with(true)
    }

    fn apply_with(&self, force: bool) -> Result<Self, Error> {
        let applied = store::apply(&self.document(&self.metadata.to_apply())?.to_string(), force)?;
        Self::from_wit(&applied)
    }

    /// Writes the local changes since it was read, except for the status. Returns whether there were changes.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`] when it has changed in the store since it was read, [`Error::NotFound`],
    /// [`Error::Forbidden`], [`Error::Invalid`], [`Error::TooLarge`], [`Error::Unavailable`].
    pub fn update(&mut self) -> Result<bool, Error> {
        let before = Self::from_value(&self.key(), self.stored.clone())?;
        let before = before.document(&before.metadata)?;
        let Some(difference) = merge::difference(&before, &self.document(&self.metadata)?) else {
            return Ok(false);
        };
        let mut document = self.stored.clone();
        merge::merge(&mut document, difference);
        let updated = store::update(&document.to_string(), &self.precondition())?;
        let Self { metadata, stored, .. } = Self::from_wit(&updated)?;
        (self.metadata, self.stored) = (metadata, stored);
        Ok(true)
    }

    /// Writes `status` if it differs from the status as read. Returns whether it was written.
    ///
    /// A status depends on the spec and the previous status. So a concurrent change of the metadata alone
    /// does not prevent the write.
    ///
    /// # Errors
    ///
    /// As [`Resource::update`]; [`Error::Conflict`] when the spec or the status has changed since it was
    /// read.
    pub fn set_status(&mut self, status: K::Status) -> Result<bool, Error> {
        self.status = Some(status);
        self.update_status()
    }

    /// Writes `self.status` as [`Resource::set_status`] does.
    ///
    /// # Errors
    ///
    /// As [`Resource::set_status`].
    pub fn update_status(&mut self) -> Result<bool, Error> {
        let Some(status) = self.changed_status()? else {
            return Ok(false);
        };
        let mut precondition = self.precondition();
        for _ in 0..STATUS_TRIES {
            match store::update_status(&self.key(), &status.to_string(), &precondition).map_err(Error::from) {
                Err(Error::Conflict { .. }) if self.differs_in_metadata_alone(&mut precondition)? => {}
                Err(error) => return Err(error),
                Ok(updated) => {
                    let Self { metadata, stored, .. } = Self::from_wit(&updated)?;
                    self.metadata.resource_version = metadata.resource_version;
                    self.stored = stored;
                    return Ok(true);
                }
            }
        }
        Err(Error::Conflict { current: precondition.revision.unwrap_or_default() })
    }

    /// Returns whether the stored resource still has the spec and the status that were read. Also sets the
    /// precondition's revision to the current one.
    fn differs_in_metadata_alone(&self, precondition: &mut wit::Precondition) -> Result<bool, Error> {
        // A cache may not have the change yet that was in the way.
        let now = Self::from_wit(&store::get_live(&self.key(), wit::View::Whole)?)?;
        let same = now.metadata.uid == self.metadata.uid
            && now.metadata.generation == self.metadata.generation
            && now.stored.get("status") == self.stored.get("status");
        precondition.revision = Some(now.metadata.resource_version);
        Ok(same)
    }

    /// Returns the whole new status, or `None` if it is unchanged.
    fn changed_status(&self) -> Result<Option<Value>, Error> {
        let there = self.stored.get("status").cloned().unwrap_or(Value::Null);
        let before = match K::Status::deserialize(&there) {
            Ok(status) if !there.is_null() => self.to_value(&status)?,
            _ => Value::Null,
        };
        let Some(difference) = merge::difference(&before, &self.to_value(&self.status)?) else {
            return Ok(None);
        };
        let mut status = there.clone();
        merge::merge(&mut status, difference);
        Ok((status != there).then_some(status))
    }

    /// Changes this resource in place at any revision, except for its `status`. A new resource with its name
    /// is not changed.
    ///
    /// Afterwards `self` is the resource as the store returned it: local changes that were not written are
    /// lost.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`] when another resource has the name now; otherwise as [`Kind::patch`].
    pub fn patch(&mut self, patch: Patch) -> Result<(), Error> {
        let precondition = wit::Precondition { revision: None, ..self.precondition() };
        *self = Self::from_wit(&store::patch(&self.key(), &patch.into_wit(), &precondition)?)?;
        Ok(())
    }

    /// As [`Resource::patch`], but only if the resource is unchanged since it was read.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`] when it is not; otherwise as [`Kind::patch`].
    pub fn patch_as_read(&mut self, patch: Patch) -> Result<(), Error> {
        *self = Self::from_wit(&store::patch(&self.key(), &patch.into_wit(), &self.precondition())?)?;
        Ok(())
    }

    /// Deletes this resource, and then the resources it owns. Returns whether it still existed. A new
    /// resource with its name is not deleted.
    ///
    /// A resource with finalizers is only marked as being deleted, and disappears when the last finalizer is
    /// removed.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`] when another resource has the name now, [`Error::Forbidden`],
    /// [`Error::Unavailable`].
    pub fn delete(&self) -> Result<bool, Error> {
        self.delete_with(Propagation::Background)
    }

    /// As [`Resource::delete`], with a choice for the resources it owns.
    ///
    /// # Errors
    ///
    /// As [`Resource::delete`].
    pub fn delete_with(&self, propagation: Propagation) -> Result<bool, Error> {
        let precondition = wit::Precondition { revision: None, ..self.precondition() };
        delete(&self.key(), &precondition, propagation)
    }

    /// As [`Resource::delete`], with a grace period in seconds.
    ///
    /// Only a pod that has a node has a grace period. A controller in the place of a node calls this with 0 when the
    /// containers of a pod that is being deleted have ended. A deletion of such a pod can only shorten its grace period.
    ///
    /// # Errors
    ///
    /// As [`Resource::delete`].
    pub fn delete_after(&self, grace_seconds: u32) -> Result<bool, Error> {
        let precondition = wit::Precondition { revision: None, ..self.precondition() };
        existed(store::delete_after(&self.key(), &precondition, Propagation::Background, grace_seconds))
    }

    /// Returns the document as the store last returned it, including fields that the types do not name.
    /// `Null` for a resource that was created locally.
    #[must_use]
    pub fn stored(&self) -> &Value {
        &self.stored
    }

    fn precondition(&self) -> wit::Precondition {
        let some = |text: &String| (!text.is_empty()).then(|| text.clone());
        wit::Precondition { uid: some(&self.metadata.uid), revision: some(&self.metadata.resource_version) }
    }

    fn document(&self, metadata: &Metadata) -> Result<Value, Error> {
        let mut document = Map::new();
        document.insert("apiVersion".to_owned(), K::API_VERSION.into());
        document.insert("kind".to_owned(), K::NAME.into());
        document.insert("metadata".to_owned(), self.to_value(metadata)?);
        document.insert(K::FIELD.to_owned(), self.to_value(&self.spec)?);
        Ok(merge::without_nulls(Value::Object(document)))
    }

    /// Returns the document with its status.
    #[cfg(not(target_family = "wasm"))]
    pub(crate) fn whole_document(&self) -> Result<Value, Error> {
        let mut document = self.document(&self.metadata)?;
        if let Some(status) = &self.status {
            document["status"] = merge::without_nulls(self.to_value(status)?);
        }
        Ok(document)
    }

    fn to_value(&self, part: &impl serde::Serialize) -> Result<Value, Error> {
        serde_json::to_value(part).map_err(|error| Error::malformed(&self.key(), &error))
    }

    pub(crate) fn from_wit(resource: &wit::Resource) -> Result<Self, Error> {
        Self::from_json(&resource.key, &resource.json)
    }

    pub(crate) fn from_json(key: &Key, json: &str) -> Result<Self, Error> {
        let document = serde_json::from_str(json).map_err(|error| Error::malformed(key, &error))?;
        Self::from_value(key, document)
    }

    pub(crate) fn from_value(key: &Key, stored: Value) -> Result<Self, Error> {
        let part = |name: &str| stored.get(name).cloned().unwrap_or(Value::Null);
        let metadata = match merge::without_nulls(part("metadata")) {
            Value::Null => Metadata::default(),
            metadata => Metadata::deserialize(metadata).map_err(|error| Error::malformed(key, &error))?,
        };
        let spec = match part(K::FIELD) {
            Value::Null => Value::Object(Map::new()),
            spec => spec,
        };
        let spec = K::deserialize(spec).map_err(|error| Error::malformed(key, &format!("{}: {error}", K::FIELD)))?;
        let status = match part("status") {
            Value::Null => None,
            status => K::Status::deserialize(status).ok(),
        };
        Ok(Self { metadata, spec, status, stored })
    }
}

impl Metadata {
    /// Returns whether `parent` manages this resource. It compares the uid, so another resource with the
    /// parent's name does not count.
    #[must_use]
    pub fn is_controlled_by<K: Kind>(&self, parent: &Resource<K>) -> bool {
        self.controller().is_some_and(|owner| owner.uid == parent.metadata.uid)
    }
}

impl OwnerReference {
    /// Creates a reference to `parent` as the owner that manages the resource.
    #[must_use]
    pub fn controller<K: Kind>(parent: &Resource<K>) -> Self {
        Self {
            api_version: K::API_VERSION.to_owned(),
            kind: K::NAME.to_owned(),
            name: parent.metadata.name.clone(),
            namespace: None,
            uid: parent.metadata.uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }
}

impl Selector {
    /// Selects resources that have `parent` among their owners. The host keeps an index for it. Owners and
    /// their parts share a namespace.
    #[must_use]
    pub fn owned_by<K: Kind>(mut self, parent: &Resource<K>) -> Self {
        self.selector.owner = Some(parent.metadata.uid.clone());
        if !parent.metadata.namespace.is_empty() {
            self.selector.namespace = Some(parent.metadata.namespace.clone());
        }
        self
    }
}

impl Patch {
    pub(crate) fn into_wit(self) -> store::Change {
        match self {
            Self::Merge(patch) => store::Change::Merge(patch.to_string()),
            Self::Json(patch) => store::Change::Json(patch.to_string()),
        }
    }
}

pub(crate) fn delete(key: &Key, precondition: &wit::Precondition, propagation: Propagation) -> Result<bool, Error> {
    existed(store::delete(key, precondition, propagation))
}

fn existed(deleted: Result<(), wit::StoreError>) -> Result<bool, Error> {
    match deleted {
        Ok(()) => Ok(true),
        Err(wit::StoreError::NotFound(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The resources that a [`Selector`] matches, read one page at a time. Each page is a consistent snapshot.
#[derive(Debug)]
pub struct List<K: Kind> {
    selector: wit::Selector,
    live: bool,
    page: std::vec::IntoIter<wit::Resource>,
    next: Next,
    kind: std::marker::PhantomData<K>,
}

#[derive(Debug)]
enum Next {
    Page(Option<String>),
    End,
}

impl<K: Kind> List<K> {
    pub(crate) fn new(selector: Selector) -> Self {
        let kind = std::marker::PhantomData;
        let page = Vec::new().into_iter();
        Self { selector: selector.into_wit(), live: false, page, next: Next::Page(None), kind }
    }

    /// Reads past every cache of the host: the server of a store that is far away answers. It costs a request
    /// to the server for each page.
    ///
    /// ```no_run
    /// # use homeostat_sdk::prelude::*;
    /// # fn count<Pod: Kind>(parent: &Resource<Pod>) -> Result<usize, Error> {
    /// let pods = Pod::list(Selector::everything().owned_by(parent)).live().keys()?.len();
    /// # Ok(pods) }
    /// ```
    #[must_use]
    pub fn live(self) -> Self {
        Self { live: true, ..self }
    }

    /// Reads all of them.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] for an undeclared kind, [`Error::Forbidden`], [`Error::Invalid`],
    /// [`Error::TooLarge`], [`Error::Expired`], [`Error::Unavailable`]; [`Error::Malformed`] when a document
    /// does not fit the type.
    pub fn all(self) -> Result<Vec<Resource<K>>, Error> {
        self.collect()
    }

    /// Reads only their keys, which is cheapest.
    ///
    /// # Errors
    ///
    /// As [`List::all`], without [`Error::Malformed`].
    pub fn keys(mut self) -> Result<Vec<Key>, Error> {
        let mut keys = Vec::new();
        while let Some(page) = self.next_page(wit::View::Keys)? {
            keys.extend(page.into_iter().map(|resource| resource.key));
        }
        Ok(keys)
    }

    /// Reads the next page; `None` at the end.
    fn next_page(&mut self, view: wit::View) -> Result<Option<Vec<wit::Resource>>, Error> {
        let Next::Page(from) = std::mem::replace(&mut self.next, Next::End) else {
            return Ok(None);
        };
        let list = if self.live { store::list_live } else { store::list };
        let page = list(&kind_of::<K>(), &self.selector, view, None, from.as_deref())?;
        if page.next.is_some() {
            self.next = Next::Page(page.next);
        }
        Ok(Some(page.items))
    }
}

impl<K: Kind> Iterator for List<K> {
    type Item = Result<Resource<K>, Error>;

    /// Returns the next resource. An error ends the iteration.
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(resource) = self.page.next() {
                return Some(Resource::from_wit(&resource));
            }
            match self.next_page(wit::View::Whole) {
                Ok(Some(items)) => self.page = items.into_iter(),
                Ok(None) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

#[cfg(test)]
mod tests;
