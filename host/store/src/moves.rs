//! Moves of a kind from one store of a host to another.
//!
//! A move has three steps. [`MoveStep::Copy`] copies the resources, and holds the writes of the kind until the host
//! ends. The host is then started with a route to the other store. [`MoveStep::Prune`] removes the former resources.
//! Every step can be repeated, and a step that was interrupted has to be. A copy writes only resources that the other
//! store lacks or has as copies, and removes none.
//!
//! A copy has the uid of its original, and so the references of its dependents go on. The server of a cluster gives
//! each copy a uid of its own, and [`crate::copy_mark`] connects both. [`follow_uids`] then changes the dependents at
//! the next start, before anybody sees the kind.
//!
//! Deliberately absent: routes, which a person changes.

mod concurrent_writes;
mod copied_document;
mod pairs;
mod prune;
mod references;
#[cfg(test)]
mod tests;

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use self::concurrent_writes::ConcurrentWrites;
use self::copied_document::without_revision;
use self::pairs::{OrderedList, Pair, Pairs};
pub use self::references::follow_uids;
use crate::copy_mark::CopyMark;
use crate::moved_kinds::KindDigest;
pub use crate::moved_kinds::MovedKinds;
use crate::routed::movable::MovableStore;
use crate::routed::running_moves::RunningMove;
pub use crate::routed::running_moves::{MoveProgress, MoveStep};
use crate::routes::{KindPattern, is_reserved};
use crate::{Error, Key, Kind, Resource, Result, RoutedStore, Store, StorePart, View, Write};

/// How often a copy reads both stores. Each pass but the last has found a difference.
const PASSES_MAX: usize = 8;

/// How often both stores are compared for one pass.
const ATTEMPTS_MAX: usize = 8;

/// Wait before a store that could not be reached is compared again.
const RETRY_WAIT: Duration = Duration::from_secs(1);

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

/// The store that gets the copies.
struct CopyTarget<'s> {
    name: &'s Arc<str>,
    store: &'s Arc<MovableStore>,
    /// Whether its server gives uids and times of its own.
    gives_uids: bool,
}

/// What a comparison of both stores has found.
struct Comparison {
    /// The digest of the source.
    digest: KindDigest,
    /// Resources that the target lacks, or has in another state.
    differing: u64,
    /// Those of them that wait for the copies of their owners, with the first one.
    waiting: u64,
    first_waiting: Option<Key>,
}

impl CopyTarget<'_> {
    /// Returns whether the target has an original, or a copy of it.
    fn is_copy(&self, copy: &Resource, source: &Resource) -> bool {
        copy.uid() == source.uid() || self.mark(copy).is_some_and(|mark| mark.uid == source.uid())
    }

    fn mark(&self, copy: &Resource) -> Option<CopyMark> {
        if self.gives_uids { CopyMark::of(copy) } else { None }
    }
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
        let store = &stores.movable[target];
        let target = CopyTarget { name: to, store, gives_uids: store.server_validates() };
        // Reads of a store that is far away come from its cache, which has a bound.
        let _caches = (stores.subscribe(kind, View::Whole), store.subscribe(kind, View::Whole));
        if self.is_dry_run {
            return self.compare_patiently(&target, false).await.map(drop);
        }
        let name = KindPattern::of(kind);
        let reason = format!("writes of {name} wait while it is copied from store {from} to store {to}");
        stores.moved.void(kind).await?;
        let hold = stores.movable[source].hold(kind, reason).await;
        // What cannot be copied is found before the first write.
        self.compare_patiently(&target, false).await?;
        stores.moved.begin(kind, from, to).await?;
        let digest = self.copy_all(&target, from).await?;
        stores.moved.complete(kind, to, &digest, target.gives_uids).await?;
        hold.keep(format!("writes of {name} wait until the host starts again: it was copied to store {to}"));
        Ok(())
    }

    /// Copies until both stores are the same. Returns the digest of the source.
    async fn copy_all(&self, target: &CopyTarget<'_>, from: &str) -> Result<KindDigest> {
        let (mut passes, mut waiting_before) = (0, u64::MAX);
        while passes < PASSES_MAX {
            match self.compare_patiently(target, true).await? {
                Comparison { digest, differing: 0, .. } => return Ok(digest),
                // The next pass copies the dependents of the copies of this one.
                Comparison { waiting, .. } if waiting > 0 && waiting < waiting_before => waiting_before = waiting,
                Comparison { differing, waiting, first_waiting: Some(key), .. } if differing == waiting => {
                    let reason = format!("{key} and its owners wait for one another: they own each other");
                    return Err(Error::invalid("kind", reason));
                }
                _ => passes += 1,
            }
        }
        let (name, to) = (KindPattern::of(self.kind), target.name);
        Err(Error::unavailable(format!(
            "{name} still changes in store {from} or store {to}, after {PASSES_MAX} attempts"
        )))
    }

    /// Compares both stores as [`MoveTask::compare`] does. The comparison begins again after a list whose history has ended, and
    /// after a request that a store did not answer. It finds the copies that were written before.
    async fn compare_patiently(&self, target: &CopyTarget<'_>, writes: bool) -> Result<Comparison> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            match self.compare(target, writes).await {
                Err(Error::Expired { .. }) if attempts < ATTEMPTS_MAX => {}
                Err(Error::Expired { .. }) => {
                    let (name, to) = (KindPattern::of(self.kind), target.name);
                    let reason = format!("{name} changes faster than it can be compared with store {to}");
                    return Err(Error::unavailable(reason));
                }
                Err(error @ Error::Unavailable { .. }) if attempts < ATTEMPTS_MAX => {
                    tracing::warn!(kind = %self.kind, to = &**target.name, %error, "the stores are compared again");
                    tokio::time::sleep(RETRY_WAIT).await;
                }
                end => return end,
            }
        }
    }

    /// Compares both stores, and writes what differs if `writes`.
    async fn compare(&self, target: &CopyTarget<'_>, writes: bool) -> Result<Comparison> {
        let of_cluster = self.stores.part(self.kind).store.server_validates();
        let mut pairs = Pairs {
            source: OrderedList::new(self.stores, self.kind, of_cluster),
            target: OrderedList::new(&**target.store, self.kind, target.gives_uids),
        };
        let mut writing = ConcurrentWrites::of(target.store);
        let mut found = Comparison { digest: KindDigest::default(), differing: 0, waiting: 0, first_waiting: None };
        while let Some(Pair { source, target: copy }) = pairs.next().await? {
            let is_copy = |source: &Arc<Resource>| copy.as_ref().is_none_or(|copy| target.is_copy(copy, source));
            let Some(source) = source.filter(is_copy) else {
                return Err(self.no_copy(target, copy.as_deref()));
            };
            found.digest.add(&source);
            let document = self.copied_document(&source, target, writes).await?;
            let is_same = copy.is_some_and(|copy| match &document {
                _ if target.gives_uids => {
                    CopyMark::of(&copy) == Some(CopyMark::finished(source.uid(), source.revision()))
                }
                Some(document) => without_revision(&copy) == *document,
                None => false,
            });
            if !is_same {
                found.differing += 1;
                match document {
                    Some(document) if writes => writing.submit(Write::Create { document }).await?,
                    Some(_) => {}
                    None => {
                        found.waiting += 1;
                        found.first_waiting.get_or_insert_with(|| source.key().clone());
                    }
                }
            }
            self.progress.send_modify(|progress| {
                progress.resources = found.digest.resources;
                progress.written = if writes { progress.written.max(writing.done) } else { found.differing };
            });
        }
        writing.end().await?;
        self.progress.send_modify(|progress| progress.resources = found.digest.resources);
        Ok(found)
    }

    /// Returns the error of a resource in the target that is no copy of the resource of its name.
    fn no_copy(&self, target: &CopyTarget<'_>, found: Option<&Resource>) -> Error {
        let (name, to) = (KindPattern::of(self.kind), target.name);
        let key = found.map(|found| found.key().to_string()).unwrap_or_default();
        let is_others = target.gives_uids && found.is_some_and(|found| CopyMark::of(found).is_none());
        let reason = if is_others {
            format!("store {to} has {key}, and it is no copy: remove it there, if nobody needs it")
        } else {
            format!(
                "store {to} has {key}, and it is no copy: run `homeostat stores prune {name} --from {to}` to remove all {name} from store {to}"
            )
        };
        Error::invalid("kind", reason)
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
        let is_namespace = self.kind.group.is_empty() && self.kind.name == "Namespace";
        if is_namespace && store.server_validates() {
            let what = format!("move of {} from or to store {name}", KindPattern::of(self.kind));
            let reason = "a namespace of a cluster goes with all that is in it".to_owned();
            return Err(Error::Unsupported { what, reason });
        }
        store.health()
    }
}
