//! Owners that live in another part than their dependents: split on the way to a part, joined on the way back.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::watch;

use super::{RoutedStore, StorePart};
use crate::far_owner::{self, OwnerStore};
use crate::routes::Routes;
use crate::{
    Change, Changes, Error, Event, Key, Kind, LabelRequirement, Precondition, Query, Request, Resource, Result,
    Revision, Selector, Store, Watch, Write, WriteResponse,
};

/// Kinds of owners in other parts that are remembered, at most.
const OWNER_KINDS_MAX: usize = 256;

/// Kinds of dependents of owners in other parts that are remembered, at most.
const DEPENDENT_KINDS_MAX: usize = 256;

/// How often a patch of owners is tried while other writers change the resource.
const PATCH_TRIES: usize = 5;

/// Resolves the kinds that people name without a group.
pub trait OwnerKinds: Send + Sync + 'static {
    /// Returns the one kind that has this name, plural or singular. `None` if there is no such kind, or more than
    /// one.
    fn named(&self, name: &str) -> Option<Kind>;

    /// Returns all kinds that may have resources, as far as the host knows them.
    fn known(&self) -> Vec<Kind>;
}

/// What a name of a kind stands for, and where its resources live.
pub(crate) struct OwnerNames {
    kinds: OnceLock<Arc<dyn OwnerKinds>>,
    routes: Routes,
    /// The kinds of the owners in other parts that were written since the start.
    written: watch::Sender<BTreeMap<(String, String), Kind>>,
    /// The kinds with dependents of owners in other parts, of parts that do not say which kinds have resources.
    dependents: Mutex<BTreeMap<(String, String), Kind>>,
}

impl OwnerNames {
    pub(super) fn new(routes: Routes) -> Self {
        Self { kinds: OnceLock::new(), routes, written: watch::Sender::default(), dependents: Mutex::default() }
    }

    pub(super) fn set(&self, kinds: Arc<dyn OwnerKinds>) {
        self.kinds.get_or_init(|| kinds);
    }

    /// Returns the known kinds that live in a store, each once.
    pub(crate) fn known(&self, store: &str) -> Vec<Kind> {
        let mut known = self.kinds.get().map(|kinds| kinds.known()).unwrap_or_default();
        let others = self.dependents().values().cloned().collect::<Vec<_>>();
        let new = others.into_iter().filter(|kind| !known.iter().any(|other| other.same_type(kind)));
        known.extend(new.collect::<Vec<_>>());
        known.into_iter().filter(|kind| *self.routes.of(kind).store == *store).collect()
    }

    /// Remembers the kind of an owner in another part.
    fn note(&self, kind: &Kind) {
        self.written.send_if_modified(|written| {
            let name = (kind.group.clone(), kind.name.clone());
            let is_new = !written.contains_key(&name) && written.len() < OWNER_KINDS_MAX;
            if is_new {
                written.insert(name, kind.clone());
            }
            is_new
        });
    }

    fn dependents(&self) -> MutexGuard<'_, BTreeMap<(String, String), Kind>> {
        self.dependents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn join(&self, resource: Arc<Resource>) -> Arc<Resource> {
        far_owner::join(resource, &|name| {
            let kind = self.kinds.get()?.named(name)?;
            let store = self.routes.of(&kind).store;
            Some((kind, store))
        })
    }
}

impl std::fmt::Debug for OwnerNames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OwnerNames").finish_non_exhaustive()
    }
}

impl RoutedStore {
    /// Returns the kinds of the owners in other parts that were written through this value, by group and name: at most
    /// 256 of them.
    pub fn owner_kinds(&self) -> watch::Receiver<BTreeMap<(String, String), Kind>> {
        self.names.written.subscribe()
    }

    /// Returns the kinds of parts with a catalog in which dependents of owners in other parts were written or found: at
    /// most 256 of them.
    pub fn dependent_kinds(&self) -> Vec<Kind> {
        self.names.dependents().values().cloned().collect()
    }

    /// Remembers a kind with dependents of owners in other parts. Returns whether it is a new one; a kind beyond
    /// 256 is not remembered.
    pub fn add_dependent_kind(&self, kind: &Kind) -> bool {
        let mut dependents = self.names.dependents();
        let name = (kind.group.clone(), kind.name.clone());
        let is_new = dependents.len() < DEPENDENT_KINDS_MAX && !dependents.contains_key(&name);
        if is_new {
            dependents.insert(name, kind.clone());
        }
        is_new
    }

    /// Forgets a kind that has no such dependents any more.
    pub fn remove_dependent_kind(&self, kind: &Kind) {
        self.names.dependents().remove(&(kind.group.clone(), kind.name.clone()));
    }

    /// Returns a resource of a part as callers see it.
    pub(crate) fn join(&self, resource: Arc<Resource>) -> Arc<Resource> {
        self.names.join(resource)
    }

    pub(super) fn join_watch(&self, inner: Watch) -> Watch {
        Watch::new(JoinedWatch { inner, names: Arc::clone(&self.names) })
    }

    /// Sends a write to the part of its kind, without a reference to an owner in another part.
    ///
    /// # Errors
    /// Those of [`Store::submit`] and [`far_owner::split`].
    pub(crate) async fn submit_split(&self, kind: &Kind, mut request: Request) -> Result<WriteResponse> {
        let part = self.part(kind);
        match &mut request.write {
            Write::Create { document } | Write::Update { document, .. } | Write::Apply { document, .. } => {
                self.replace_former_uids(document).await?;
                self.split(part, kind, document)?;
            }
            Write::Patch { key, change, precondition } if far_owner::touches(change)? => {
                let patch = OwnerPatch { key: key.clone(), change: change.clone(), precondition: precondition.clone() };
                return self.patch_owners(part, patch, &request).await;
            }
            _ => {}
        }
        part.store.submit(request).await
    }

    fn split(&self, part: &StorePart, kind: &Kind, document: &mut Value) -> Result<()> {
        far_owner::split(document, &|owner: &Kind| {
            let other = self.part(owner);
            (other.name != part.name).then(|| {
                self.names.note(owner);
                // Other parts tell which kinds have resources.
                if part.store.catalog().is_some() {
                    self.add_dependent_kind(kind);
                }
                OwnerStore { name: Arc::clone(&other.name), content: other.content() }
            })
        })
    }

    /// Computes a patch on the resource as callers see it, and writes the whole document if nobody else has written
    /// meanwhile.
    async fn patch_owners(&self, part: &StorePart, patch: OwnerPatch, request: &Request) -> Result<WriteResponse> {
        let OwnerPatch { key, change, precondition } = patch;
        let mut tries = PATCH_TRIES;
        loop {
            tries -= 1;
            let current = self.get_live(&key).await?;
            let is_met = precondition.uid.as_deref().is_none_or(|uid| uid == current.uid())
                && precondition.revision.is_none_or(|revision| revision == current.revision());
            if !is_met {
                return Err(Error::Conflict { key, current: Some(current.revision()) });
            }
            let mut document = change.apply(&parsed(&current)?)?;
            self.replace_former_uids(&mut document).await?;
            self.split(part, key.kind(), &mut document)?;
            let revision = Some(current.revision());
            let precondition = Precondition { uid: Some(current.uid().to_owned()), revision };
            let write = Write::Update { document, precondition };
            let is_same = write.target().is_ok_and(|target| {
                target.kind.same_type(key.kind())
                    && target.namespace == key.namespace()
                    && target.name.as_deref() == Some(key.name())
            });
            if !is_same {
                return Err(Error::invalid("patch", format!("must not make another resource of {key}")));
            }
            match part.store.submit(Request { write, ..request.clone() }).await {
                Err(Error::Conflict { .. }) if tries > 0 => {}
                written => return written,
            }
        }
    }
}

/// Returns the dependents of an owner in another store, of these kinds. Kinds that the host may not list, or that the
/// server does not serve now, are left out.
pub(super) async fn labelled(store: &dyn Store, kinds: Vec<Kind>, owner: &str) -> Result<Vec<Arc<Resource>>> {
    let label = LabelRequirement::Equals(far_owner::OWNER_LABEL.to_owned(), owner.to_owned());
    let selector = Selector { labels: vec![label], ..Selector::default() };
    let mut found = Vec::new();
    for kind in kinds {
        let query = Query { selector: selector.clone(), live: true, ..Query::all(kind) };
        match store.list(&query).await {
            Ok(page) => found.extend(page.items),
            Err(Error::Forbidden { .. } | Error::Unsupported { .. } | Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// A patch that can change the owners.
struct OwnerPatch {
    key: Key,
    change: Change,
    precondition: Precondition,
}

/// Parses the document of a resource, and does not keep it in memory.
fn parsed(resource: &Resource) -> Result<Value> {
    serde_json::from_str(resource.text()).map_err(|error| Error::invalid("document", error.to_string()))
}

/// A watch of a part.
struct JoinedWatch {
    inner: Watch,
    names: Arc<OwnerNames>,
}

#[async_trait]
impl Changes for JoinedWatch {
    async fn next(&mut self) -> Result<Event> {
        let Event { kind, resource, previous, revision } = self.inner.next().await?;
        let resource = self.names.join(resource);
        let previous = previous.map(|previous| self.names.join(previous));
        Ok(Event { kind, resource, previous, revision })
    }

    fn position(&self) -> Option<Revision> {
        self.inner.position()
    }
}

#[cfg(test)]
mod tests;
