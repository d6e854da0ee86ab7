//! The questions to the stores, and the deletions.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use homeostat_store::far_owner::OWNER_LABEL;
use homeostat_store::{
    Availability, Error, Key, Kind, LabelRequirement, OwnerReference, Precondition, Propagation, Query, Resource,
    ResourcePages, Result, RoutedStore, Selector, Store, StoreStatus, View, Write,
};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::OwnerName;
use super::suspects::{Suspects, Verdict};
use super::unused_kinds::UnusedKinds;
use crate::Kinds;
use crate::kinds::{KindId, id_of};

/// Checks owners in other stores, and deletes their dependents.
pub(super) struct FarGarbageCollector {
    pub(super) stores: Arc<RoutedStore>,
    pub(super) kinds: Arc<Kinds>,
    suspects: Mutex<Suspects>,
    pub(super) unused: Mutex<UnusedKinds>,
}

impl FarGarbageCollector {
    pub(super) fn new(stores: Arc<RoutedStore>, kinds: Arc<Kinds>) -> Self {
        Self { stores, kinds, suspects: Mutex::default(), unused: Mutex::default() }
    }

    /// Checks an owner, and deletes its dependents if it is gone. Returns the wait before the next check; `None` if
    /// there is nothing left to do.
    ///
    /// # Errors
    /// Those of the stores. Nothing follows from them: the evidence is collected anew.
    pub(super) async fn check(&self, owner: &OwnerName) -> Result<Option<Duration>> {
        let checked = self.collect_evidence(owner).await;
        if !matches!(checked, Ok(Some(_))) {
            self.suspects.lock().forget(&owner.uid);
        }
        checked
    }

    async fn collect_evidence(&self, owner: &OwnerName) -> Result<Option<Duration>> {
        if !self.knows(owner) {
            return Ok(None);
        }
        if self.lives(owner).await? {
            return Ok(None);
        }
        match self.suspects.lock().absent(&owner.uid, &owner.content, Instant::now()) {
            Verdict::AskAgain(wait) => return Ok(Some(wait)),
            Verdict::Full => return Ok(None),
            Verdict::Gone => {}
        }
        if self.is_listed(owner).await? {
            return Ok(None);
        }
        // The answers may be those of other content, whose arrival nobody has noticed yet.
        if self.stores.part(&owner.kind).store.verify_content().await? != owner.content {
            return Ok(None);
        }
        let mut failed = Ok(None);
        let used = self.used_kinds().await;
        let unused = self.unused_kinds(&used);
        for kind in used {
            match self.collect_kind(owner, kind).await {
                Ok(()) => {}
                Err(error) if error.concerns_one_kind() => {}
                Err(error) => failed = Err(error),
            }
        }
        for kind in unused {
            match self.collect_kind(owner, kind.clone()).await {
                Ok(()) => {}
                Err(error) if error.concerns_one_kind() => self.leave_alone(&kind),
                Err(error) => failed = Err(error),
            }
        }
        failed
    }

    /// Deletes the dependents of one kind, as long as the owner's store has the same content.
    async fn collect_kind(&self, owner: &OwnerName, kind: Kind) -> Result<()> {
        let label = LabelRequirement::Equals(OWNER_LABEL.to_owned(), owner.uid.clone());
        let selector = Selector { labels: vec![label], ..Selector::default() };
        let mut pages =
            ResourcePages::new(&*self.stores, Query { selector, live: true, view: View::Metadata, ..Query::all(kind) });
        while let Some(dependents) = pages.next_page().await? {
            for dependent in dependents {
                if !self.knows(owner) {
                    return Ok(());
                }
                self.collect(owner, &dependent).await?;
            }
        }
        Ok(())
    }

    /// Returns whether the owner's store can say whether the owner lives: the kind of the owner lives there, the store
    /// can be used, and it has the content that the dependents name.
    pub(super) fn knows(&self, owner: &OwnerName) -> bool {
        let part = self.stores.part(&owner.kind);
        let mut status = part.store.status().into_iter();
        let is_ready = |status: &StoreStatus| status.availability == Availability::Ready;
        part.name == owner.store
            && owner.content.is_some()
            && status.next().is_some_and(|status| is_ready(&status) && status.id == owner.content)
    }

    /// Returns whether a live read finds the owner: in its namespace, or cluster-scoped.
    async fn lives(&self, owner: &OwnerName) -> Result<bool> {
        self.finds(&owner.kind, &owner.namespace, &owner.name, &owner.uid).await
    }

    async fn finds(&self, kind: &Kind, namespace: &str, name: &str, uid: &str) -> Result<bool> {
        let cluster_scoped = (!namespace.is_empty()).then_some("");
        for namespace in std::iter::once(namespace).chain(cluster_scoped) {
            match self.stores.get_live(&Key::new(kind.clone(), namespace, name)).await {
                Ok(found) if found.uid() == uid => return Ok(true),
                Ok(_) | Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Returns whether a live list of the owner's kind has the owner, in any namespace. Fails if the store does not
    /// serve the kind.
    async fn is_listed(&self, owner: &OwnerName) -> Result<bool> {
        let fields = vec![("/metadata/name".to_owned(), owner.name.clone())];
        let selector = Selector { fields, ..Selector::default() };
        let mut pages =
            ResourcePages::new(&*self.stores, Query { selector, live: true, ..Query::all(owner.kind.clone()) });
        while let Some(resources) = pages.next_page().await? {
            if resources.iter().any(|resource| resource.uid() == owner.uid) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Deletes a dependent of an owner that is gone, if it has no other owner that lives.
    async fn collect(&self, owner: &OwnerName, listed: &Resource) -> Result<()> {
        let dependent = match self.stores.get_live(listed.key()).await {
            Ok(dependent) => dependent,
            Err(Error::NotFound { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        let names_it = OwnerName::of_dependent(&dependent).is_some_and(|named| {
            named.uid == owner.uid
                && (named.store, named.content) == (owner.store.clone(), owner.content.clone())
                && named.kind.same_type(&owner.kind)
        });
        if dependent.is_deleting() || !names_it {
            return Ok(());
        }
        for other in dependent.owners().iter().filter(|other| other.far.is_none()) {
            let OwnerReference { kind, name, uid, controller: _, far: _ } = other;
            if self.finds(kind, dependent.key().namespace(), name, uid).await? {
                return Ok(());
            }
        }
        tracing::info!(key = %dependent.key(), owner = %owner.name, kind = %owner.kind, store = &*owner.store, "deleting a resource whose owner in another store is gone");
        let precondition = Precondition { uid: Some(dependent.uid().to_owned()), revision: Some(dependent.revision()) };
        let (key, propagation) = (dependent.key().clone(), Propagation::Background);
        match self.stores.write(Write::Delete { key, precondition, propagation, grace_seconds: None }).await {
            Ok(_) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Returns the kinds that may have dependents of owners in other stores: those in use, and unused
    /// ones that were found to have some. The kinds of a store that is away are left out.
    pub(super) async fn dependent_kinds(&self) -> Vec<Kind> {
        let mut kinds = self.used_kinds().await;
        kinds.extend(self.unused_kinds(&kinds));
        kinds
    }

    /// Returns the kinds with dependents that are not among the used ones.
    fn unused_kinds(&self, used: &[Kind]) -> Vec<Kind> {
        let used: BTreeSet<KindId> = used.iter().map(id_of).collect();
        let mut found = self.stores.dependent_kinds();
        found.retain(|kind| !used.contains(&id_of(kind)));
        found
    }

    /// Returns the kinds with resources or a cache, and those that this host declares.
    async fn used_kinds(&self) -> Vec<Kind> {
        let mut found: Vec<Kind> = Vec::new();
        for part in self.stores.parts() {
            match part.store.kinds().await {
                Ok(kinds) => found.extend(kinds.into_iter().filter(|kind| self.stores.part(kind).name == part.name)),
                Err(error) => tracing::debug!(store = &*part.name, %error, "cannot read the kinds"),
            }
        }
        let mut seen: BTreeSet<KindId> = found.iter().map(id_of).collect();
        found.extend(self.kinds.with_resources().into_iter().filter(|kind| seen.insert(id_of(kind))));
        found
    }
}
