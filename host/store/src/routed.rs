//! Several stores as one: each kind lives in one of them, and callers cannot tell which.
//!
//! A [`RoutedStore`] sends each call to the part that has the kind. Its parts go on by themselves: when the server
//! of one is away, calls about the kinds of the others succeed.
//!
//! An owner may live in another part than its dependent: callers read and write a plain owner reference, and the parts
//! never see it ([`crate::far_owner`]).
//!
//! Deliberately absent: an order of revisions across parts. Resources that a part has of a kind that lives in
//! another one are not shown, and are not touched.

mod former_uids;
pub(crate) mod movable;
mod owners;
pub(crate) mod running_moves;
mod write_holds;

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use tokio::task::JoinSet;

use self::movable::MovableStore;
pub use self::owners::OwnerKinds;
use self::owners::OwnerNames;
use self::running_moves::RunningMoves;
use crate::moved_kinds::MovedKinds;
use crate::routes::{HOME, Routes};
use crate::schema::Schemas;
use crate::{
    Error, Key, Kind, Page, Query, Request, Resource, Result, Revision, ScaleRequest, Scope, Store, StoreStatus,
    Subscription, View, Watch, WriteResponse,
};

/// Stores of one host at most, with its own.
pub const STORES_MAX: usize = 16;

/// One of the stores of a [`RoutedStore`].
#[derive(Clone)]
pub struct StorePart {
    /// The name of the store; [`HOME`] for the host's own.
    pub name: Arc<str>,
    /// The store.
    pub store: Arc<dyn Store>,
}

impl std::fmt::Debug for StorePart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StorePart").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A store that is composed of others.
pub struct RoutedStore {
    /// The host's own store first. Names are unique.
    pub(crate) parts: Vec<StorePart>,
    /// The same stores.
    pub(crate) movable: Vec<Arc<MovableStore>>,
    routes: Routes,
    /// For each rule, the position of its store in `parts`.
    part_of_rule: Vec<usize>,
    pub(crate) names: Arc<OwnerNames>,
    pub(crate) moved: Arc<MovedKinds>,
    pub(crate) running_moves: RunningMoves,
}

impl std::fmt::Debug for RoutedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RoutedStore").field("parts", &self.parts).field("routes", &self.routes).finish_non_exhaustive()
    }
}

impl RoutedStore {
    /// Composes the host's own store and named ones.
    ///
    /// # Errors
    /// `Invalid` when two stores have the same name, when a rule names none of them, or when there are more than
    /// [`STORES_MAX`].
    pub fn new(home: Arc<dyn Store>, others: Vec<StorePart>, routes: Routes) -> Result<Self> {
        Self::with_moves(home, others, routes, MovedKinds::default())
    }

    /// As [`RoutedStore::new`], with the kinds that were moved between these stores.
    ///
    /// # Errors
    /// As [`RoutedStore::new`].
    pub fn with_moves(home: Arc<dyn Store>, others: Vec<StorePart>, routes: Routes, moved: MovedKinds) -> Result<Self> {
        let mut parts = vec![StorePart { name: HOME.into(), store: home }];
        for part in others {
            if parts.iter().any(|known| known.name == part.name) {
                return Err(Error::invalid("stores", format!("there are two stores with the name {:?}", part.name)));
            }
            parts.push(part);
        }
        if parts.len() > STORES_MAX {
            return Err(Error::invalid("stores", format!("there are more than {STORES_MAX} stores")));
        }
        let find = |name: &Arc<str>| {
            let found = parts.iter().position(|part| part.name == *name);
            found.ok_or_else(|| Error::invalid("routes", format!("there is no store with the name {name:?}")))
        };
        let part_of_rule = routes.rules().iter().map(|rule| find(&rule.store)).collect::<Result<_>>()?;
        let names = Arc::new(OwnerNames::new(routes.clone()));
        let moved = Arc::new(moved);
        let movable = |part: &StorePart| Arc::new(MovableStore::new(Arc::clone(&part.store), Arc::clone(&moved)));
        let movable: Vec<_> = parts.iter().map(movable).collect();
        for (part, movable) in parts.iter_mut().zip(&movable) {
            part.store = Arc::clone(movable) as Arc<dyn Store>;
        }
        Ok(Self { parts, movable, routes, part_of_rule, names, moved, running_moves: RunningMoves::default() })
    }

    /// Sets what resolves the kinds of owners that a document names without a group. Does nothing the second time.
    pub fn set_owner_kinds(&self, kinds: Arc<dyn OwnerKinds>) {
        self.names.set(kinds);
    }

    /// Returns the stores, the host's own first.
    ///
    /// For a caller that can use the answers of some while others are away, and that names those in its report.
    pub fn parts(&self) -> &[StorePart] {
        &self.parts
    }

    /// Returns which kinds live where.
    pub fn routes(&self) -> &Routes {
        &self.routes
    }

    /// Returns the store that has the resources of a kind.
    pub fn part(&self, kind: &Kind) -> &StorePart {
        &self.parts[self.position(kind)]
    }

    pub(crate) fn position(&self, kind: &Kind) -> usize {
        self.routes.position(kind).map_or(0, |rule| self.part_of_rule[rule])
    }

    fn store(&self, kind: &Kind) -> &dyn Store {
        &*self.part(kind).store
    }

    /// Returns the store of a scope. There is one for [`Scope::Everything`] only if the host has one store.
    fn of_scope(&self, scope: &Scope) -> Result<&dyn Store> {
        match (scope, &self.parts[..]) {
            (Scope::Kind(kind), _) => self.check_open(kind).map(|()| self.store(kind)),
            (Scope::Everything, [only]) => Ok(&*only.store),
            (Scope::Everything, _) => {
                let reason = "kinds of different stores have no common order; name a kind, or ask each store";
                Err(Error::invalid("scope", reason))
            }
        }
    }

    /// Asks all parts at once, and returns their answers in the order of the parts.
    ///
    /// # Errors
    /// That of the first part that fails, with its name. Cancel safe if `ask` is.
    async fn ask_all<T, F>(&self, ask: impl Fn(Arc<dyn Store>) -> F) -> Result<Vec<T>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let mut asked = JoinSet::new();
        for (at, part) in self.parts.iter().enumerate() {
            let answer = ask(Arc::clone(&part.store));
            asked.spawn(async move { (at, answer.await) });
        }
        let mut answers: Vec<_> = asked.join_all().await;
        answers.sort_by_key(|(at, _)| *at);
        let named = |(at, answer): (usize, Result<T>)| answer.map_err(|error| self.parts[at].named(error));
        answers.into_iter().map(named).collect()
    }
}

impl StorePart {
    /// Returns the id of the content of the store, if it is known.
    pub fn content(&self) -> Option<String> {
        self.store.status().into_iter().next()?.id
    }

    /// Puts the name of the store into an error that says that it is unavailable.
    fn named(&self, error: Error) -> Error {
        match error {
            Error::Unavailable { reason } if !reason.starts_with("store ") => {
                Error::unavailable(format_args!("store {}: {reason}", self.name))
            }
            other => other,
        }
    }
}

/// Returns the smaller one of two parts of a resource.
fn smaller(one: View, other: View) -> View {
    match (one, other) {
        (View::Keys, _) | (_, View::Keys) => View::Keys,
        (View::Metadata, _) | (_, View::Metadata) => View::Metadata,
        (View::Whole, View::Whole) => View::Whole,
    }
}

#[async_trait]
impl Store for RoutedStore {
    async fn get(&self, key: &Key) -> Result<Arc<Resource>> {
        self.check_open(key.kind())?;
        Ok(self.join(self.store(key.kind()).get(key).await?))
    }

    async fn get_view(&self, key: &Key, view: View) -> Result<Arc<Resource>> {
        self.check_open(key.kind())?;
        Ok(self.join(self.store(key.kind()).get_view(key, view).await?))
    }

    async fn get_live(&self, key: &Key) -> Result<Arc<Resource>> {
        self.check_open(key.kind())?;
        Ok(self.join(self.store(key.kind()).get_live(key).await?))
    }

    async fn list(&self, query: &Query) -> Result<Page> {
        self.check_open(&query.kind)?;
        let page = self.store(&query.kind).list(query).await?;
        Ok(Page { items: page.items.into_iter().map(|item| self.join(item)).collect(), ..page })
    }

    async fn submit(&self, request: Request) -> Result<WriteResponse> {
        let kind = request.write.target()?.kind;
        self.check_open(&kind)?;
        let written = self.submit_split(&kind, request).await?;
        Ok(WriteResponse { resource: self.join(written.resource), ..written })
    }

    async fn scale(&self, key: &Key) -> Result<Value> {
        self.check_open(key.kind())?;
        self.store(key.kind()).scale(key).await
    }

    async fn update_scale(&self, request: ScaleRequest) -> Result<Value> {
        self.check_open(request.key.kind())?;
        self.store(request.key.kind()).update_scale(request).await
    }

    /// Returns the schemas of the host's own store. A part that validates on this host is opened with the same
    /// ones, so a kind is declared once, wherever its resources live; the server of another part has its own.
    fn schemas(&self) -> Option<&Schemas> {
        self.parts[0].store.schemas()
    }

    async fn watch(&self, scope: Scope, from: Revision) -> Result<Watch> {
        let watch = self.of_scope(&scope)?.watch(scope, from).await?;
        Ok(self.join_watch(watch))
    }

    async fn revision(&self, scope: &Scope) -> Result<Revision> {
        self.of_scope(scope)?.revision(scope).await
    }

    fn subscribe(&self, kind: &Kind, view: View) -> Subscription {
        let at_most = self.routes.of(kind).view;
        self.store(kind).subscribe(kind, smaller(view, at_most))
    }

    fn watched_view(&self, kind: &Kind) -> View {
        self.store(kind).watched_view(kind)
    }

    fn status(&self) -> Vec<StoreStatus> {
        let named = |part: &StorePart| {
            let mut status = part.store.status();
            for status in &mut status {
                status.name = Arc::clone(&part.name);
                status.notes.extend(self.waiting_reasons(&part.name));
            }
            status
        };
        self.parts.iter().flat_map(named).collect()
    }

    /// Closes all parts at once. A server that does not answer delays no other.
    async fn close(&self) {
        let mut closing = JoinSet::new();
        for part in &self.parts {
            let store = Arc::clone(&part.store);
            closing.spawn(async move { store.close().await });
        }
        while closing.join_next().await.is_some() {}
    }

    /// Returns the kinds of all parts, each only from the part in which it lives.
    ///
    /// # Errors
    /// `Unavailable` with the name of the first part that does not answer. An answer without its kinds would look
    /// as if they had no resources. Ask [`RoutedStore::parts`] for those of the others.
    async fn kinds(&self) -> Result<Vec<Kind>> {
        let found = self.ask_all(|store| async move { store.kinds().await }).await?;
        let here = |(at, kinds): (usize, Vec<Kind>)| kinds.into_iter().filter(move |kind| self.position(kind) == at);
        Ok(found.into_iter().enumerate().flat_map(here).collect())
    }

    /// Returns the dependents in all parts.
    ///
    /// # Errors
    /// `Unavailable` with the name of the first part that does not answer, as for [`Store::kinds`]: a deletion that
    /// waits for dependents must not end as long as some of them cannot be seen.
    async fn dependents(&self, owner: &str) -> Result<Vec<Arc<Resource>>> {
        let owner: Arc<str> = owner.into();
        let found = self
            .ask_all(|store| {
                let owner = Arc::clone(&owner);
                async move { store.dependents(&owner).await }
            })
            .await?;
        let here = |(at, resources): (usize, Vec<Arc<Resource>>)| {
            let resources = resources.into_iter().filter(move |resource| self.position(resource.key().kind()) == at);
            resources.map(|resource| self.join(resource))
        };
        let mut found: Vec<_> = found.into_iter().enumerate().flat_map(here).collect();
        let mut seen: HashSet<String> = found.iter().map(|resource| resource.uid().to_owned()).collect();
        // The server of such a part does not say which kinds have resources.
        let collects = |part: &&StorePart| part.store.status().iter().any(|status| status.collects_garbage);
        for part in self.parts.iter().filter(collects) {
            let kinds = self.names.known(&part.name);
            let labelled = owners::labelled(&*part.store, kinds, &owner).await.map_err(|error| part.named(error))?;
            let new = labelled.into_iter().filter(|resource| seen.insert(resource.uid().to_owned()));
            found.extend(new.map(|resource| self.join(resource)));
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests;
