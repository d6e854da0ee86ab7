//! The dependents of a kind that moved name the store and the uids that their owners have now.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{MoveProgress, MoveTask};
use crate::cached::jitter;
use crate::far_owner::OWNER_LABEL;
use crate::{
    Error, Key, Kind, LabelRequirement, OwnerReference, Precondition, Query, Resource, ResourcePages, Result,
    RoutedStore, Selector, Store, StorePart, View, Write,
};

/// How often a dependent is written while other writers change it.
const TRIES_MAX: usize = 8;
/// The wait after a failure: the first wait, and the maximum.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// Changes the dependents of the kinds whose resources got other uids by a move, and tries again until it succeeds.
/// Nobody can read or write such a kind before. Ends at once where there is none, and when the stores are closed.
pub async fn follow_uids(stores: Arc<RoutedStore>) {
    let mut following = JoinSet::new();
    for kind in stores.moved.waiting() {
        following.spawn(follow_uids_of(Arc::clone(&stores), kind));
    }
    // A task that has panicked has left its kind waiting.
    while following.join_next().await.is_some() {}
}

async fn follow_uids_of(stores: Arc<RoutedStore>, kind: Kind) {
    let (progress, _) = watch::channel(MoveProgress::default());
    let task = MoveTask { stores: &stores, kind: &kind, is_dry_run: false, progress: &progress };
    let mut wait = RETRY.0;
    loop {
        let followed = async {
            task.move_references().await?;
            stores.moved.follow_uids(&kind).await
        };
        match followed.await {
            Ok(()) => {
                let dependents = progress.borrow().dependents;
                tracing::info!(%kind, dependents, "the dependents of a moved kind name its new uids");
                return;
            }
            Err(Error::Closed) => return,
            Err(error) => tracing::warn!(%kind, %error, "a moved kind waits for its dependents, it is retried"),
        }
        tokio::time::sleep(wait.mul_f64(0.8 + 0.4 * jitter())).await;
        wait = (wait * 2).min(RETRY.1);
    }
}

/// The dependents of one kind.
struct DependentKind {
    kind: Kind,
    /// Selects all that may have to change.
    selector: Selector,
}

impl MoveTask<'_> {
    /// Has the dependents of the kind name the store in which it lives now, and the uids that its resources have there.
    pub(super) async fn move_references(&self) -> Result<()> {
        let _cache = self.stores.subscribe(self.kind, View::Metadata);
        for dependents in self.dependent_kinds().await? {
            match self.move_references_of(&dependents).await {
                // As everywhere else, the host may not read each kind of a cluster.
                Err(error) if error.concerns_one_kind() => {}
                moved => moved?,
            }
        }
        Ok(())
    }

    /// Returns the kinds that may have dependents: those with resources, and all that a cluster serves.
    async fn dependent_kinds(&self) -> Result<Vec<DependentKind>> {
        let stores = self.stores;
        let mut kinds = stores.kinds().await?;
        for part in stores.parts().iter().filter(|part| part.store.server_validates()) {
            kinds.extend(stores.names.known(&part.name));
        }
        let all = |kind: &Kind| DependentKind { kind: kind.clone(), selector: Selector::default() };
        let mut found: Vec<DependentKind> = kinds.iter().map(all).collect();
        let former = stores.moved.former(self.kind).await;
        for StorePart { name, store } in stores.parts() {
            let Some(catalog) = store.catalog() else { continue };
            // Without a contact the catalog is empty.
            store.health()?;
            let label = LabelRequirement::Exists(OWNER_LABEL.to_owned());
            let is_former = former.as_ref() == Some(name);
            // Only a store in which the kind lived may have plain references.
            let labels = if is_former { Vec::new() } else { vec![label] };
            let selector = Selector { labels, ..Selector::default() };
            for served in catalog.borrow().kinds() {
                let is_event = served.kind.name == "Event";
                let is_known = kinds.iter().any(|kind| kind.same_type(&served.kind));
                let can_change = served.verbs.list && served.verbs.update && !is_event;
                if can_change && !is_known && stores.part(&served.kind).name == *name {
                    found.push(DependentKind { kind: served.kind.clone(), selector: selector.clone() });
                }
            }
        }
        Ok(found)
    }

    async fn move_references_of(&self, dependents: &DependentKind) -> Result<()> {
        let DependentKind { kind, selector } = dependents;
        // This step itself reads the kinds that wait for it.
        let store = &*self.stores.part(kind).store;
        let query = Query { selector: selector.clone(), view: View::Metadata, live: true, ..Query::all(kind.clone()) };
        let mut pages = ResourcePages::new(store, query);
        while let Some(dependent) = pages.next().await? {
            if self.is_old(&dependent).await? {
                self.progress.send_modify(|progress| progress.dependents += 1);
                if !self.is_dry_run {
                    self.move_reference(dependent.key()).await?;
                }
            }
        }
        Ok(())
    }

    /// Returns whether a resource names an owner by its former store or by its former uid.
    async fn is_old(&self, dependent: &Resource) -> Result<bool> {
        let lives = &self.stores.part(self.kind).name;
        let is_far = self.stores.part(dependent.key().kind()).name != *lives;
        let owners = dependent.owners().iter();
        for owner in owners.filter(|owner| !owner.uid.is_empty() && owner.kind.same_type(self.kind)) {
            let OwnerReference { kind, name, uid, controller: _, far } = owner;
            let names_store = far.as_ref().map(|far| &far.store) == is_far.then_some(lives);
            if self.stores.moved.references(kind).is_none() {
                if names_store {
                    continue;
                }
                return Ok(true);
            }
            let namespace = far.as_ref().and_then(|far| far.namespace.as_deref());
            let namespace = namespace.unwrap_or(dependent.key().namespace());
            match self.stores.current_uid(kind, namespace, name, uid).await? {
                Some(current) if names_store && current == *uid => {}
                Some(_) => return Ok(true),
                // With its former reference nobody deletes it.
                None => {
                    tracing::warn!(key = %dependent.key(), owner = %name, "the owner of a dependent was not copied")
                }
            }
        }
        Ok(false)
    }

    /// Writes a dependent as it is. The store of its kind then gets the form in which it keeps the owners.
    async fn move_reference(&self, key: &Key) -> Result<()> {
        let stores = self.stores;
        for _ in 0..TRIES_MAX {
            let dependent = match stores.part(key.kind()).store.get_live(key).await {
                Ok(dependent) => stores.join(dependent),
                Err(Error::NotFound { .. }) => return Ok(()),
                Err(error) => return Err(error),
            };
            let document = dependent.document().clone();
            let (uid, revision) = (Some(dependent.uid().to_owned()), Some(dependent.revision()));
            let write = Write::Update { document, precondition: Precondition { uid, revision } };
            match stores.submit_split(key.kind(), write.into()).await {
                Err(Error::Conflict { .. }) => {}
                Ok(_) | Err(Error::NotFound { .. }) => return Ok(()),
                Err(error @ (Error::Invalid { .. } | Error::TooLarge { .. } | Error::Forbidden { .. })) => {
                    tracing::warn!(%key, %error, "a dependent cannot name the store of its owner");
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        Err(Error::unavailable(format!("{key} still changes after {TRIES_MAX} attempts")))
    }
}
