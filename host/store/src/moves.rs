//! Moves of a kind from one store of a host to another.
//!
//! A move has three steps. [`MoveStep::Copy`] copies the resources, and holds the writes of the kind until the host
//! ends. The host is then started with a route to the other store. [`MoveStep::Prune`] removes the former resources.
//! Every step can be repeated, and a step that was interrupted has to be. A copy writes only resources that the other
//! store lacks, or has with the same uid, and removes none.
//!
//! Deliberately absent: routes, which a person changes, and clusters, which give uids and times of their own.

mod pairs;
#[cfg(test)]
mod tests;

use std::sync::{Arc, PoisonError};

use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::pairs::{Pair, Pairs};
use crate::far_owner::{self, OwnerStore};
use crate::moved_kinds::KindDigest;
pub use crate::moved_kinds::MovedKinds;
use crate::routed::movable::MovableStore;
use crate::routed::running_moves::RunningMove;
pub use crate::routed::running_moves::{MoveProgress, MoveStep};
use crate::routes::{KindPattern, is_reserved};
use crate::{
    Error, Kind, Precondition, Propagation, Query, Request, Resource, ResourcePages, Result, RoutedStore, Store,
    StorePart, View, Write,
};

/// Concurrent writes: they share the store's syncs.
const WRITES_MAX: usize = 64;
/// How often a copy reads both stores. Each pass but the last has found a difference.
const PASSES_MAX: usize = 8;

/// Steps under way at most.
const MOVES_MAX: usize = 16;

impl RoutedStore {
    /// Starts a step of a move, or returns the progress of the same step if it is under way. The step goes on when the
    /// receiver is dropped. A dry run counts what the step would write.
    ///
    /// # Errors
    /// `Unavailable` while another step of the kind is under way, or 16 of other kinds. The progress has all other
    /// errors.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start_move(
        self: &Arc<Self>,
        kind: &Kind,
        step: MoveStep,
        is_dry_run: bool,
    ) -> Result<watch::Receiver<MoveProgress>> {
        let mut running = self.running_moves.0.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|one| one.progress.borrow().end.is_none() && one.progress.has_changed().is_ok());
        if let Some(same) = running.iter().find(|one| one.kind.same_type(kind)) {
            if same.step == step && same.is_dry_run == is_dry_run {
                return Ok(same.progress.clone());
            }
            return Err(Error::unavailable(format!(
                "another step of the move of {} is under way",
                KindPattern::of(kind)
            )));
        }
        if running.len() >= MOVES_MAX {
            return Err(Error::unavailable(format!("{MOVES_MAX} moves are under way")));
        }
        let (sender, progress) = watch::channel(MoveProgress::default());
        running.push(RunningMove { kind: kind.clone(), step: step.clone(), is_dry_run, progress: progress.clone() });
        let (stores, kind) = (Arc::clone(self), kind.clone());
        tokio::spawn(async move {
            let task = MoveTask { stores: &stores, kind: &kind, is_dry_run, progress: &sender };
            let end = match &step {
                MoveStep::Copy(to) => task.copy(to).await,
                MoveStep::Prune(from) => task.prune(from).await,
            };
            sender.send_modify(|progress| progress.end = Some(end));
        });
        Ok(progress)
    }
}

/// One step of a move.
struct MoveTask<'s> {
    stores: &'s RoutedStore,
    kind: &'s Kind,
    is_dry_run: bool,
    progress: &'s watch::Sender<MoveProgress>,
}

impl MoveTask<'_> {
    async fn copy(&self, to: &str) -> Result<()> {
        let Self { stores, kind, .. } = self;
        let (source, target) = (stores.position(kind), self.other_part(to)?);
        let (from, to) = (&stores.parts[source].name, &stores.parts[target].name);
        self.check_movable(source)?;
        if let Some(former) = stores.moved.former(kind).await.filter(|former| former != to) {
            let name = KindPattern::of(kind);
            let reason = format!(
                "store {former} has a former copy of {name}: run `homeostat stores prune {name} --from {former}` first"
            );
            return Err(Error::invalid("kind", reason));
        }
        let target = &stores.movable[target];
        // Reads of a store that is far away come from its cache, which has a bound.
        let _caches = (stores.subscribe(kind, View::Whole), target.subscribe(kind, View::Whole));
        if self.is_dry_run {
            return self.pass(target, to, false).await.map(drop);
        }
        let name = KindPattern::of(kind);
        let reason = format!("writes of {name} wait while it is copied from store {from} to store {to}");
        stores.moved.void(kind).await?;
        let hold = stores.movable[source].hold(kind, reason).await;
        // What cannot be copied is found before the first write.
        self.pass(target, to, false).await?;
        stores.moved.begin(kind, from, to).await?;
        for _ in 0..PASSES_MAX {
            match self.pass(target, to, true).await {
                Ok((0, digest)) => {
                    stores.moved.complete(kind, to, &digest).await?;
                    hold.keep(format!(
                        "writes of {name} wait until the host starts again: it was copied to store {to}"
                    ));
                    return Ok(());
                }
                // The history of a list is bounded. What was copied is found by the next pass.
                Ok(_) | Err(Error::Expired { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::unavailable(format!(
            "{name} still changes in store {from} or store {to}, after {PASSES_MAX} attempts"
        )))
    }

    /// Compares both stores, and writes what differs if `writes`. Returns the number of differences, and the digest of
    /// the source.
    async fn pass(&self, target: &Arc<MovableStore>, to: &Arc<str>, writes: bool) -> Result<(u64, KindDigest)> {
        let query = Query::all(self.kind.clone());
        let mut pairs = Pairs {
            source: ResourcePages::new(self.stores, query.clone()),
            target: ResourcePages::new(&**target, query),
        };
        let (mut writing, mut digest, mut differing) = (ConcurrentWrites::of(target), KindDigest::default(), 0);
        while let Some(Pair { source, target: former }) = pairs.next().await? {
            let Some(source) = source.filter(|source| former.as_ref().is_none_or(|it| it.uid() == source.uid())) else {
                let name = KindPattern::of(self.kind);
                let key = former.map(|former| former.key().to_string()).unwrap_or_default();
                let reason = format!(
                    "store {to} has {key}, and it is no copy: run `homeostat stores prune {name} --from {to}` to remove all {name} from store {to}"
                );
                return Err(Error::invalid("kind", reason));
            };
            digest.add(&source);
            let document = self.document(&source, to)?;
            if former.is_none_or(|former| without_revision(&former) != document) {
                differing += 1;
                if writes {
                    writing.submit(Write::Create { document }).await?;
                }
            }
            self.progress.send_modify(|progress| {
                progress.resources = digest.resources;
                progress.written = if writes { progress.written.max(writing.done) } else { differing };
            });
        }
        writing.end().await?;
        self.progress.send_modify(|progress| progress.resources = digest.resources);
        Ok((differing, digest))
    }

    /// Returns a document as the store `to` has it: with plain references to the owners that live there.
    fn document(&self, source: &Resource, to: &Arc<str>) -> Result<Value> {
        let mut document = without_revision(source);
        far_owner::split(&mut document, &|owner: &Kind| {
            let part = self.stores.part(owner);
            let is_there = owner.same_type(self.kind) || part.name == *to;
            (!is_there).then(|| OwnerStore { name: Arc::clone(&part.name), content: part.content() })
        })?;
        Ok(document)
    }

    async fn prune(&self, from: &str) -> Result<()> {
        let Self { stores, kind, is_dry_run, progress } = self;
        let part = self.other_part(from)?;
        if stores.moved.former(kind).await.is_some_and(|former| *former == *from) {
            self.move_references().await?;
        }
        let part = &stores.movable[part];
        let _cache = part.subscribe(kind, View::Whole);
        if !is_dry_run {
            stores.moved.void(kind).await?;
        }
        for _ in 0..PASSES_MAX {
            let mut writing = ConcurrentWrites::of(part);
            let mut pages = ResourcePages::new(&**part, Query::all((*kind).clone()));
            let mut found = 0;
            while let Some(resource) = pages.next().await? {
                found += 1;
                let precondition = Precondition { uid: Some(resource.uid().to_owned()), revision: None };
                let (key, propagation) = (resource.key().clone(), Propagation::Background);
                if !is_dry_run {
                    writing.submit(Write::Delete { key, precondition, propagation }).await?;
                }
            }
            writing.end().await?;
            progress.send_modify(|progress| {
                progress.resources += found;
                progress.written = progress.resources;
            });
            if found == 0 || *is_dry_run {
                break;
            }
        }
        if *is_dry_run { Ok(()) } else { stores.moved.pruned(kind, from).await }
    }

    /// Has the dependents of the kind name the store in which it lives now. Until then nobody deletes them after
    /// their owners.
    async fn move_references(&self) -> Result<()> {
        let (stores, lives) = (self.stores, &self.stores.part(self.kind).name);
        let mut kinds = stores.kinds().await?;
        for part in stores.parts().iter().filter(|part| part.store.server_validates()) {
            kinds.extend(stores.names.known(&part.name));
        }
        for kind in kinds {
            let place = &stores.part(&kind).name;
            let expected = (place != lives).then_some(lives);
            let mut pages = ResourcePages::new(stores, Query::all(kind.clone()));
            loop {
                let dependent = match pages.next().await {
                    Ok(Some(dependent)) => dependent,
                    Ok(None) => break,
                    // As everywhere else, the host may not read each kind of a cluster.
                    Err(error) if error.concerns_one_kind() => break,
                    Err(error) => return Err(error),
                };
                let is_old = dependent.owners().iter().any(|owner| {
                    let store = owner.far.as_ref().map(|far| &far.store);
                    !owner.uid.is_empty() && owner.kind.same_type(self.kind) && store != expected
                });
                if is_old {
                    self.progress.send_modify(|progress| progress.dependents += 1);
                    if !self.is_dry_run {
                        self.move_reference(&dependent).await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes a dependent as it is. The store of its kind then gets the form in which it keeps the owners.
    async fn move_reference(&self, dependent: &Resource) -> Result<()> {
        let document = dependent.document().clone();
        match self.stores.write(Write::Update { document, precondition: Precondition::default() }).await {
            // Another writer was first, and the same has happened.
            Ok(_) | Err(Error::Conflict { .. } | Error::NotFound { .. }) => Ok(()),
            Err(error @ (Error::Invalid { .. } | Error::TooLarge { .. })) => {
                tracing::warn!(key = %dependent.key(), %error, "a dependent cannot name the store of its owner");
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the position of a store in which the kind does not live.
    fn other_part(&self, name: &str) -> Result<usize> {
        let Self { stores, kind, .. } = self;
        if is_reserved(kind) {
            return Err(Error::invalid("kind", format!("{} is always in the host's own store", KindPattern::of(kind))));
        }
        let at = stores.parts.iter().position(|part| *part.name == *name);
        let at = at.ok_or_else(|| Error::NotFound { what: format!("store {name:?}") })?;
        if at == stores.position(kind) {
            return Err(Error::invalid("kind", format!("{} lives in store {name}", KindPattern::of(kind))));
        }
        self.check_movable(at)?;
        Ok(at)
    }

    fn check_movable(&self, at: usize) -> Result<()> {
        let StorePart { name, store } = &self.stores.parts[at];
        if store.server_validates() {
            let what = format!("move of {} from or to store {name}", KindPattern::of(self.kind));
            let reason = "the server of a cluster gives uids and times of its own".to_owned();
            return Err(Error::Unsupported { what, reason });
        }
        store.health()
    }
}

/// Writes to one store, some of them at the same time.
struct ConcurrentWrites {
    store: Arc<MovableStore>,
    under_way: JoinSet<Result<()>>,
    done: u64,
}

impl ConcurrentWrites {
    fn of(store: &Arc<MovableStore>) -> Self {
        Self { store: Arc::clone(store), under_way: JoinSet::new(), done: 0 }
    }

    async fn submit(&mut self, write: Write) -> Result<()> {
        if self.under_way.len() >= WRITES_MAX {
            self.join().await?;
        }
        let store = Arc::clone(&self.store);
        self.under_way.spawn(async move {
            match store.submit(Request { is_move: true, ..write.into() }).await {
                // Somebody else has removed it.
                Ok(_) | Err(Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(error),
            }
        });
        Ok(())
    }

    async fn join(&mut self) -> Result<bool> {
        let Some(written) = self.under_way.join_next().await else { return Ok(false) };
        written.map_err(Error::unavailable)??;
        self.done += 1;
        Ok(true)
    }

    async fn end(mut self) -> Result<()> {
        while self.join().await? {}
        Ok(())
    }
}

fn without_revision(resource: &Resource) -> Value {
    // Parsed here, so that the page does not keep the documents.
    let mut document = serde_json::from_str(resource.text()).unwrap_or_else(|_| resource.document().clone());
    if let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
    }
    document
}
