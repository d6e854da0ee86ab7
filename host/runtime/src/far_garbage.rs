//! Deletes the dependents of owners that lived in another store and are gone.
//!
//! One answer of a far store proves little: the store may be empty, restored, behind, or that of another
//! host. So [`steps`] deletes a dependent only if all of this holds:
//!
//! * The owner's kind lives in the store that the dependent names. The store is ready. From the first question to the
//!   last it has the content that the dependent names, by its id.
//! * Two live reads, ten seconds or more apart, found no resource with the owner's uid.
//! * A live list of the owner's kind by its name, in all namespaces, has none either.
//! * The dependent, read live, still names the owner, is not being deleted, and has no other owner that lives.
//!
//! With any other answer, and with every error, the dependent stays.
//!
//! Watches of the owners' kinds notice deletions. A sweep finds the deletions that they missed: at the start,
//! when a store comes back, after a gap in a watch, and every ten minutes. It lists the dependents by their
//! label, and each kind of their owners once.
//!
//! A survey finds the kinds with dependents that no controller of this host uses, in stores whose servers define kinds.
//! It asks each such kind once an hour, and two kinds a second at most.
//!
//! Elsewhere called: `GarbageSecondaries` in the controller runtime of Kumori.
//!
//! So the dependents of another host's `home`, or of a store that was emptied or exchanged, stay: this host
//! cannot ask for their owners.
//!
//! Deliberately absent: memory of owners over a restart, and owners without an uid, which no check can tell
//! from a new resource of their name.

mod steps;
mod survey;
mod suspects;
mod sweep;
mod unused_kinds;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use homeostat_store::cached::jitter;
use homeostat_store::{Availability, Error, Event, EventType, Kind, Resource, RoutedStore, Scope, Store, View};
use homeostat_workqueue::{AddError, Backoff, Next, Priority, Queue};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time;
use tokio_util::sync::CancellationToken;

use crate::Kinds;
use crate::kinds::{KindId, id_of};
use crate::native_controller::{self, NativeReconciler};
use steps::FarGarbageCollector;

/// The time between two sweeps; each wait is up to a fifth shorter or longer.
const SWEEP_INTERVAL: Duration = Duration::from_secs(600);
/// The shortest time between two sweeps.
const SWEEP_PAUSE: Duration = Duration::from_secs(5);
/// The wait of a failed check: the first wait, and the maximum. Also that of a watch that ended.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// Queued owners. More of them wait in the sweep or in the watch.
const OWNERS_MAX: u32 = 1024;
/// Kinds of owners that are watched, at most. Deletions of others are found by the sweep.
const KINDS_MAX: usize = 256;

/// An owner, as its dependents name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct OwnerName {
    /// The name of its store.
    store: Arc<str>,
    /// The id of the content of that store; `None` if the dependent does not say it.
    content: Option<String>,
    kind: Kind,
    /// The namespace of the owner, or of a dependent that does not say; empty for neither.
    namespace: String,
    name: String,
    uid: String,
}

impl OwnerName {
    /// Returns the owner in another store that a resource names; `None` if it has none, or one without an uid.
    fn of_dependent(dependent: &Resource) -> Option<Self> {
        let owner = dependent.owners().iter().find(|owner| owner.far.is_some() && !owner.uid.is_empty())?;
        let far = owner.far.as_ref()?;
        Some(Self {
            store: Arc::clone(&far.store),
            content: far.content.clone(),
            kind: owner.kind.clone(),
            namespace: far.namespace.clone().unwrap_or_else(|| dependent.key().namespace().to_owned()),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
        })
    }

    /// Returns the resource that a change removed from a store with this content, as its dependents name it.
    fn of_change(store: &Arc<str>, content: Option<String>, event: &Event) -> Option<Self> {
        let gone = match (event.kind, &event.previous) {
            (EventType::Deleted, _) => &event.resource,
            // The deletion was not seen, but the new resource of that name was.
            (EventType::Modified, Some(previous)) if previous.uid() != event.resource.uid() => previous,
            _ => return None,
        };
        Some(Self {
            store: Arc::clone(store),
            content,
            kind: gone.key().kind().clone(),
            namespace: gone.key().namespace().to_owned(),
            name: gone.key().name().to_owned(),
            uid: gone.uid().to_owned(),
        })
    }
}

/// Collects the dependents of owners in other stores until `end` is cancelled, or the stores are closed.
pub(crate) async fn run(stores: Arc<RoutedStore>, kinds: Arc<Kinds>, end: CancellationToken) {
    let queue = native_controller::queue(RETRY.0, RETRY.1, Some(OWNERS_MAX));
    let collector = Arc::new(FarGarbageCollector::new(Arc::clone(&stores), kinds));
    let missed: Arc<Notify> = Arc::default();
    let watcher = Watcher {
        collector: Arc::clone(&collector),
        stores: Arc::clone(&stores),
        queue: queue.clone(),
        missed: Arc::clone(&missed),
    };
    let survey = Arc::clone(&collector);
    tokio::select! {
        biased;
        () = end.cancelled() => {}
        () = native_controller::run(collector, stores, queue, None, end.clone()) => {}
        () = watcher.run() => {}
        () = survey.survey(&missed) => {}
    }
}

impl NativeReconciler for FarGarbageCollector {
    type Item = OwnerName;
    const NAME: &'static str = "far garbage";
    /// A check mostly waits for a server.
    const CONCURRENCY_MAX: usize = 8;

    async fn reconcile(&self, owner: &OwnerName) -> Result<Next, String> {
        match self.check(owner).await {
            Ok(Some(wait)) => Ok(Next::After(wait)),
            Ok(None) => Ok(Next::Done),
            // A sweep follows as soon as the store can be asked again.
            Err(Error::Unavailable { .. }) if !self.knows(owner) => Ok(Next::Done),
            Err(Error::Forbidden { what, reason }) => {
                tracing::warn!(owner = %owner.name, kind = %owner.kind, what, reason, "dependents of a gone owner stay");
                Ok(Next::Done)
            }
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Finds the owners to check.
struct Watcher {
    collector: Arc<FarGarbageCollector>,
    stores: Arc<RoutedStore>,
    queue: Queue<OwnerName>,
    /// Notified when a watch may have missed a deletion, and when a further kind has dependents.
    missed: Arc<Notify>,
}

impl Watcher {
    async fn run(self) {
        let mut follows = JoinSet::new();
        let mut followed: BTreeSet<KindId> = BTreeSet::new();
        let mut ready = self.ready();
        let mut written = self.stores.owner_kinds();
        loop {
            let owners = self.collector.sweep(&self.queue).await;
            let new: Vec<Kind> = written.borrow_and_update().values().cloned().collect();
            for kind in owners.into_iter().chain(new) {
                if followed.len() < KINDS_MAX && followed.insert(id_of(&kind)) {
                    follows.spawn(self.follow(kind));
                }
            }
            time::sleep(SWEEP_PAUSE).await;
            tokio::select! {
                () = time::sleep(jittered(SWEEP_INTERVAL)) => {}
                () = self.missed.notified() => {}
                () = self.store_is_back(&mut ready) => {}
                // The sender lives as long as the stores.
                _ = written.changed() => {}
            }
        }
    }

    /// Returns the names and contents of the stores that can be used.
    fn ready(&self) -> HashMap<Arc<str>, Option<String>> {
        let status = self.stores.status().into_iter();
        status
            .filter(|status| status.availability == Availability::Ready)
            .map(|status| (status.name, status.id))
            .collect()
    }

    /// Waits until a store can be used that could not be before, or that has other content.
    async fn store_is_back(&self, known: &mut HashMap<Arc<str>, Option<String>>) {
        loop {
            time::sleep(SWEEP_PAUSE).await;
            let before = std::mem::replace(known, self.ready());
            if known.iter().any(|(name, id)| before.get(name) != Some(id)) {
                return;
            }
        }
    }

    /// Returns a task that queues the deleted resources of a kind, until the stores are closed.
    fn follow(&self, kind: Kind) -> impl Future<Output = ()> + use<> {
        let (stores, queue, missed) = (Arc::clone(&self.stores), self.queue.clone(), Arc::clone(&self.missed));
        async move {
            let _cached = stores.subscribe(&kind, View::Metadata);
            let backoff = Backoff { base: RETRY.0, max: RETRY.1, ..Backoff::default() };
            let mut failures = 0;
            loop {
                match follow(&stores, &kind, &queue, &missed, &mut failures).await {
                    Error::Closed => return,
                    error => tracing::debug!(%kind, %error, "cannot watch the owners, it is retried"),
                }
                failures += 1;
                time::sleep(backoff.delay(failures, 0)).await;
            }
        }
    }
}

/// Queues the deleted resources of a kind until the watch fails. Returns why.
async fn follow(
    stores: &RoutedStore,
    kind: &Kind,
    queue: &Queue<OwnerName>,
    missed: &Notify,
    failures: &mut u32,
) -> Error {
    let scope = Scope::Kind(kind.clone());
    let opened = async { stores.watch(scope.clone(), stores.revision(&scope).await?).await };
    let mut watch = match opened.await {
        Ok(watch) => watch,
        Err(error) => return error,
    };
    // A sweep finds the deletions before the watch.
    missed.notify_one();
    loop {
        let event = match watch.next().await {
            Ok(event) => event,
            Err(error) => return error,
        };
        *failures = 0;
        let part = stores.part(kind);
        if let Some(owner) = OwnerName::of_change(&part.name, part.content(), &event) {
            add(queue, owner).await;
        }
    }
}

/// Queues an owner, and waits for room if the queue is full.
async fn add(queue: &Queue<OwnerName>, owner: OwnerName) {
    // A closed queue means that the host is ending.
    while let Err(AddError::Full) = queue.add(owner.clone(), Priority::NORMAL) {
        time::sleep(RETRY.0).await;
    }
}

/// Returns a time that is up to a fifth shorter or longer, so that several hosts do not sweep at once.
fn jittered(time: Duration) -> Duration {
    time.mul_f64(0.8 + 0.4 * jitter())
}

#[cfg(test)]
mod tests;
