//! The steps of garbage collection, each against the current state of the store.

use std::collections::HashSet;
use std::future::ready;
use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};

use super::{Check, is_foreground};
use crate::{
    Change, Error, FINALIZER_FOREGROUND, FINALIZER_ORPHAN, Key, Kind, OwnerReference, Precondition, Propagation, Query,
    Resource, Result, Selector, Store, Write,
};

/// Concurrent writes: they share the store's syncs.
const WRITES_MAX: usize = 64;
/// Ancestors visited at most in the search for a cycle of owners.
const ANCESTORS_MAX: usize = 1000;

/// Makes the checks of garbage collection.
#[derive(Clone)]
pub struct GarbageCollector {
    store: Arc<dyn Store>,
    /// All stores of the host. An owner that waits for its dependents waits for those in other stores, too.
    all: Arc<dyn Store>,
    /// Returns whether the resources of a kind live in the store; `None` for a store that has every kind.
    has: Option<HasKind>,
    /// Returns whether the resources of a kind have a namespace, `None` for a kind that nobody knows. Without it, those of no
    /// kind have one.
    scopes: Option<IsNamespaced>,
}

type IsNamespaced = Arc<dyn Fn(&Kind) -> Option<bool> + Send + Sync>;
type HasKind = Arc<dyn Fn(&Kind) -> bool + Send + Sync>;

/// What a check has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The check is done. A change that matters leads to another one.
    Done,
    /// An owner waits for dependents in another store, of whose deletion this collector may not learn. Check again
    /// after some seconds.
    Waiting,
}

/// The state of an owner.
enum OwnerState {
    Gone,
    /// The owner waits for its dependents to be deleted.
    Deleting,
    Living,
}

impl GarbageCollector {
    /// Returns a collector of this store. It holds no state.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { all: Arc::clone(&store), store, has: None, scopes: None }
    }

    /// Returns a collector of one of several stores, which has only some kinds. `all` has the resources of all of
    /// them: it is asked for an owner that waits for its dependents, and for the dependents of that owner.
    pub fn of_part(
        store: Arc<dyn Store>,
        all: Arc<dyn Store>,
        has: impl Fn(&Kind) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self { store, all, has: Some(Arc::new(has)), scopes: None }
    }

    /// Sets what tells whether the resources of a kind have a namespace; `None` for a kind that nobody knows.
    ///
    /// A reference names no namespace, so a cluster-scoped resource cannot have an owner inside one. As in Kubernetes, such an
    /// owner never counts as gone.
    #[must_use]
    pub fn with_scopes(self, scopes: impl Fn(&Kind) -> Option<bool> + Send + Sync + 'static) -> Self {
        Self { scopes: Some(Arc::new(scopes)), ..self }
    }

    /// Makes a check against the current state of the store.
    ///
    /// # Errors
    /// Those of the store, `Conflict` if another writer was first. The check can be repeated.
    ///
    /// # Cancel safety
    /// The same check finishes what a dropped one has left.
    pub async fn check(&self, check: &Check) -> Result<Progress> {
        match check {
            Check::Resource(key) => match self.get(key).await? {
                None => {}
                Some(now) if now.is_deleting() => return self.over_all().advance_deletion(&now).await,
                Some(now) => self.check_dependent(&now).await?,
            },
            Check::DependentsOf(uid) => {
                let dependents = self.store.dependents(uid).await?;
                let check =
                    |steps: Self, dependent: Arc<Resource>| async move { steps.check_dependent(&dependent).await };
                self.each(dependents, check).await?;
            }
            Check::WaitingOwner { owner, namespace } => match self.over_all().find(owner, namespace).await {
                Ok(Some(owner)) if owner.is_deleting() => return self.over_all().advance_deletion(&owner).await,
                // The collector of the other store asks for the dependents from time to time.
                Err(Error::Unavailable { .. }) if self.is_elsewhere(owner) => {}
                found => drop(found?),
            },
        }
        Ok(Progress::Done)
    }

    fn over_all(&self) -> Self {
        Self { store: Arc::clone(&self.all), has: None, ..self.clone() }
    }

    /// Returns whether an owner lives in another store than this collector's.
    fn is_elsewhere(&self, owner: &OwnerReference) -> bool {
        self.has.as_ref().is_some_and(|has| owner.far.is_some() || !has(&owner.kind))
    }

    /// Deletes a resource if all its owners are gone, or wait for it to be deleted.
    async fn check_dependent(&self, dependent: &Resource) -> Result<()> {
        let owners = dependent.owners();
        if owners.is_empty() || dependent.is_deleting() {
            return Ok(());
        }
        let mut leaving = Vec::new();
        let mut living = false;
        for owner in owners {
            match self.owner_state(owner, dependent).await? {
                OwnerState::Gone => {}
                OwnerState::Deleting => leaving.push(owner.uid.clone()),
                OwnerState::Living => living = true,
            }
        }
        match (living, leaving.is_empty()) {
            (true, true) => Ok(()),
            (true, false) => self.remove_owner_references(dependent, &leaving).await,
            (false, true) => self.delete(dependent, Propagation::Background).await,
            (false, false) if self.store.dependents(dependent.uid()).await?.is_empty() => {
                self.delete(dependent, Propagation::Background).await
            }
            (false, false) => self.delete(dependent, Propagation::Foreground).await,
        }
    }

    /// Advances the deletion of a resource as far as possible now.
    async fn advance_deletion(&self, owner: &Resource) -> Result<Progress> {
        if owner.finalizers().any(|name| name == FINALIZER_ORPHAN) {
            let dependents = self.store.dependents(owner.uid()).await?;
            let uid: Arc<str> = owner.uid().into();
            self.each(dependents, move |steps, dependent| {
                let uid = Arc::clone(&uid);
                async move { steps.remove_owner_references(&dependent, &[uid.to_string()]).await }
            })
            .await?;
            self.remove_finalizer(owner, FINALIZER_ORPHAN).await?;
        } else if is_foreground(owner) {
            return self.advance_foreground_deletion(owner).await;
        }
        Ok(Progress::Done)
    }

    async fn advance_foreground_deletion(&self, owner: &Resource) -> Result<Progress> {
        let mut dependents = self.store.dependents(owner.uid()).await?;
        if !dependents.is_empty() {
            // Breaks a cycle of owners that all wait for one another.
            let ancestors = self.ancestors(owner).await?;
            dependents.retain(|dependent| !(dependent.is_deleting() && ancestors.contains(dependent.uid())));
        }
        if dependents.is_empty() {
            self.remove_finalizer(owner, FINALIZER_FOREGROUND).await?;
            return Ok(Progress::Done);
        }
        let is_far = |dependent: &Arc<Resource>| {
            dependent.owners().iter().any(|reference| reference.uid == owner.uid() && reference.far.is_some())
        };
        // The deletion of the last dependent leads back here, unless it lives in another store.
        let progress = if dependents.iter().any(is_far) { Progress::Waiting } else { Progress::Done };
        self.each(dependents, |steps, dependent| async move { steps.check_dependent(&dependent).await }).await?;
        Ok(progress)
    }

    /// Returns the uids of the owners of a resource, their owners, and so on; at most [`ANCESTORS_MAX`].
    async fn ancestors(&self, resource: &Resource) -> Result<HashSet<String>> {
        let mut found = HashSet::new();
        let mut open: Vec<(OwnerReference, Key)> = Vec::new();
        open.extend(resource.owners().iter().map(|owner| (owner.clone(), resource.key().clone())));
        while let Some((reference, dependent)) = open.pop() {
            if found.len() >= ANCESTORS_MAX || !found.insert(reference.uid.clone()) {
                continue;
            }
            if let Some(owner) = self.find(&reference, dependent.namespace()).await? {
                open.extend(owner.owners().iter().map(|next| (next.clone(), owner.key().clone())));
            }
        }
        Ok(found)
    }

    async fn owner_state(&self, reference: &OwnerReference, dependent: &Resource) -> Result<OwnerState> {
        if self.is_elsewhere(reference) || dependent.key().namespace().is_empty() && self.cannot_be_found(reference) {
            return Ok(OwnerState::Living);
        }
        Ok(match self.find(reference, dependent.key().namespace()).await? {
            // A store that is far away may be empty, replaced, or behind: one answer proves nothing.
            None if reference.far.is_some() => OwnerState::Living,
            None => OwnerState::Gone,
            Some(owner) if is_foreground(&owner) => OwnerState::Deleting,
            Some(_) => OwnerState::Living,
        })
    }

    /// Returns whether the owner of a cluster-scoped resource may be in a namespace, which the reference does not name.
    fn cannot_be_found(&self, reference: &OwnerReference) -> bool {
        let scopes = self.scopes.as_ref().filter(|_| reference.far.is_none());
        scopes.is_some_and(|is_namespaced| is_namespaced(&reference.kind) != Some(false))
    }

    /// Returns the owner of a reference: in the namespace of the dependent, or cluster-scoped.
    async fn find(&self, reference: &OwnerReference, namespace: &str) -> Result<Option<Arc<Resource>>> {
        let OwnerReference { kind, name, uid, controller: _, far } = reference;
        let namespace = far.as_ref().and_then(|far| far.namespace.as_deref()).unwrap_or(namespace);
        if namespace.is_empty() {
            return self.find_anywhere(reference).await;
        }
        for namespace in [namespace, ""] {
            if let Some(found) = self.find_at(&Key::new(kind.clone(), namespace, name), uid).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Returns the owner of a cluster-scoped dependent. A reference has no namespace. An owner inside a
    /// namespace is invalid, but is searched for by name and uid in all namespaces, so that a living owner
    /// never counts as gone.
    async fn find_anywhere(&self, reference: &OwnerReference) -> Result<Option<Arc<Resource>>> {
        let OwnerReference { kind, name, uid, controller: _, far: _ } = reference;
        if let Some(found) = self.find_at(&Key::new(kind.clone(), "", name), uid).await? {
            return Ok(Some(found));
        }
        let fields = vec![("/metadata/name".to_owned(), name.clone()), ("/metadata/uid".to_owned(), uid.clone())];
        let selector = Selector { fields, ..Selector::default() };
        let query = Query { selector, limit: Some(1), live: true, ..Query::all(kind.clone()) };
        Ok(self.store.list(&query).await?.items.pop())
    }

    /// Returns the resource with this key and uid. A cache may have the dependent already and the owner not yet, so
    /// only a live read says that there is none.
    async fn find_at(&self, key: &Key, uid: &str) -> Result<Option<Arc<Resource>>> {
        if let Some(found) = self.get(key).await?
            && found.uid() == uid
        {
            return Ok(Some(found));
        }
        match self.store.get_live(key).await {
            Ok(found) => Ok(Some(found).filter(|found| found.uid() == uid)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn get(&self, key: &Key) -> Result<Option<Arc<Resource>>> {
        match self.store.get(key).await {
            Ok(resource) => Ok(Some(resource)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn delete(&self, resource: &Resource, propagation: Propagation) -> Result<()> {
        tracing::debug!(key = %resource.key(), ?propagation, "deleting a resource whose owners are gone or being deleted");
        let key = resource.key().clone();
        self.write(Write::Delete { key, precondition: unchanged_since(resource), propagation, grace_seconds: None })
            .await
    }

    /// Removes the references to these owners from a dependent.
    async fn remove_owner_references(&self, dependent: &Resource, owners: &[String]) -> Result<()> {
        let references = dependent.document().pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let named = |reference: &&Value| {
            let uid = reference.get("uid").and_then(Value::as_str);
            owners.iter().all(|owner| Some(owner.as_str()) != uid)
        };
        let rest: Vec<&Value> = references.into_iter().flatten().filter(named).collect();
        self.merge(dependent, json!({"metadata": {"ownerReferences": rest}})).await
    }

    async fn remove_finalizer(&self, owner: &Resource, finalizer: &str) -> Result<()> {
        let rest: Vec<&str> = owner.finalizers().filter(|name| *name != finalizer).collect();
        self.merge(owner, json!({"metadata": {"finalizers": rest}})).await
    }

    async fn merge(&self, resource: &Resource, patch: Value) -> Result<()> {
        let change = Change::Merge(patch);
        self.write(Write::Patch { key: resource.key().clone(), change, precondition: unchanged_since(resource) }).await
    }

    /// Writes; succeeds if the resource is already gone.
    async fn write(&self, write: Write) -> Result<()> {
        match self.store.write(write).await {
            Ok(_) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Runs a step for many resources, some of them concurrently. A failed step does not stop the others.
    async fn each<F>(&self, resources: Vec<Arc<Resource>>, step: impl Fn(Self, Arc<Resource>) -> F) -> Result<()>
    where
        F: Future<Output = Result<()>> + Send,
    {
        let steps = resources.into_iter().map(|resource| step(self.clone(), resource));
        let ended = stream::iter(steps).buffer_unordered(WRITES_MAX);
        ended.fold(Ok(()), |first: Result<()>, ended| ready(first.and(ended))).await
    }
}

/// Limits the write to the resource in the state that was read.
fn unchanged_since(resource: &Resource) -> Precondition {
    Precondition { uid: Some(resource.uid().to_owned()), revision: Some(resource.revision()) }
}
