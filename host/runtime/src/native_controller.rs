//! The loop of the host's own controllers: list, watch, queue, reconcile, retry.
//!
//! A [`NativeReconciler`] says what it watches, and to which items a change leads. The loop lists all resources
//! first and then watches from there. After it has missed history, it lists again. Items of one kind of work
//! merge in a [`Queue`]: one task at a time has an item, a change during its run leads to one more run, and a
//! failed item is retried with the backoff of the queue.
//!
//! Elsewhere called: informer and worker in client-go, `Controller` in controller-runtime and kube-rs.
//!
//! Deliberately absent: the documents of the changes. An item names what to reconcile, and its reconcile reads
//! the present state. The watch feeders of guests are absent too: they also filter by grants, remember what
//! led to which key, and wait for room in queues that others share ([`crate::feeders`]).

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use homeostat_store::{Error, Event, EventType, Query, Resource, ResourcePages, Revision, Scope, Store};
use homeostat_workqueue::{AddError, Backoff, Claim, Key, Next, Options, Priority, Queue};
use tokio::sync::Notify;
use tokio::task::{Id, JoinError, JoinSet, coop};
use tokio::time;
use tokio_util::sync::CancellationToken;

/// The wait before another list or watch, after failures of them in a row.
const WATCH_BACKOFF: Backoff =
    Backoff { base: Duration::from_millis(50), max: Duration::from_secs(30), retries_max: None, jitter: 0.0 };

/// A controller of the host, written in Rust.
pub(crate) trait NativeReconciler: Send + Sync + 'static {
    /// The name of one piece of work, which one reconcile does. Equal items merge.
    type Item: Key;
    /// Its name in logs.
    const NAME: &'static str;
    /// How many items are reconciled at once.
    const CONCURRENCY_MAX: usize;

    /// Returns what is watched. With `None`, all items come from other holders of the queue.
    fn scope(&self) -> Option<Scope> {
        None
    }

    /// Returns the items that a change leads to. A listed resource counts as `Added`.
    fn items(&self, _: &Event) -> Vec<Self::Item> {
        Vec::new()
    }

    /// Returns the items of resources that may be gone. They are reconciled after each list, which shows only
    /// the resources that exist.
    fn tracked(&self) -> Vec<Self::Item> {
        Vec::new()
    }

    /// Reconciles one item with the present state. Returns when the item runs again.
    ///
    /// # Errors
    /// Why it failed. It is retried with the backoff of the queue.
    ///
    /// *Cancel safety*: the next reconcile of the item does what a dropped one has left.
    fn reconcile(&self, item: &Self::Item) -> impl Future<Output = Result<Next, String>> + Send;
}

/// Returns a queue without jitter, with the shortest and the longest wait after failures.
pub(crate) fn queue<K: Key>(base: Duration, max: Duration, keys_max: Option<u32>) -> Queue<K> {
    let backoff = Backoff { base, max, jitter: 0.0, ..Backoff::default() };
    Queue::new(Options { backoff, keys_max, ..Options::default() })
}

/// Runs a reconciler on its queue, until `end` is cancelled or the queue or the store is closed. Running
/// reconciles have ended when this returns.
///
/// Lists first; a caller that has listed and queued everything passes the revision to watch from. A full
/// queue holds up the list and the watch.
pub(crate) async fn run<R: NativeReconciler>(
    reconciler: Arc<R>,
    store: Arc<dyn Store>,
    queue: Queue<R::Item>,
    from: Option<Revision>,
    end: CancellationToken,
) {
    let controller = NativeController { reconciler, store, queue, finished: Notify::new() };
    let mut running = JoinSet::new();
    tokio::select! {
        biased;
        () = end.cancelled() => {}
        () = controller.work(&mut running) => {}
        () = controller.follow(from) => {}
    }
    running.shutdown().await;
}

struct NativeController<R: NativeReconciler> {
    reconciler: Arc<R>,
    store: Arc<dyn Store>,
    queue: Queue<R::Item>,
    /// Notified when an item is finished, which may have left room in the queue.
    finished: Notify,
}

impl<R: NativeReconciler> NativeController<R> {
    /// Lists and watches until the store is closed.
    async fn follow(&self, mut from: Option<Revision>) {
        let Some(scope) = self.reconciler.scope() else { return std::future::pending().await };
        let mut failures = 0;
        loop {
            match self.list_and_watch(&scope, &mut from, &mut failures).await {
                Err(Error::Closed) => return,
                Err(Error::Expired { .. } | Error::FutureRevision { .. }) => {
                    tracing::info!(controller = R::NAME, "it missed history, and lists again");
                    from = None;
                }
                Err(error) => tracing::warn!(controller = R::NAME, %error, "cannot list or watch, it is retried"),
                Ok(never) => match never {},
            }
            failures += 1;
            time::sleep(WATCH_BACKOFF.delay(failures, 0)).await;
        }
    }

    /// Watches from a revision, or from a list, until one of both fails. Leaves the revision of the last
    /// event in `from`, and resets the failures with each success.
    async fn list_and_watch(
        &self,
        scope: &Scope,
        from: &mut Option<Revision>,
        failures: &mut u32,
    ) -> homeostat_store::Result<Infallible> {
        let start = match *from {
            Some(last) => last,
            None => {
                let listed = self.list(scope).await?;
                (*from, *failures) = (Some(listed), 0);
                listed
            }
        };
        let mut watch = self.store.watch(scope.clone(), start).await?;
        loop {
            let event = watch.next().await?;
            *failures = 0;
            *from = Some(event.revision);
            self.handle(&event).await;
        }
    }

    /// Queues every resource of the scope, and every one that may be gone. Returns the revision to watch
    /// from.
    async fn list(&self, scope: &Scope) -> homeostat_store::Result<Revision> {
        // Read before the first page: later changes are seen again, and none is missed.
        let from = self.store.revision(scope).await?;
        let kinds = match scope {
            Scope::Kind(kind) => vec![kind.clone()],
            Scope::Everything => self.store.kinds().await?,
        };
        for kind in kinds {
            let mut pages = ResourcePages::new(&*self.store, Query::all(kind));
            while let Some(resource) = pages.next().await? {
                self.handle(&listed(resource)).await;
            }
        }
        for item in self.reconciler.tracked() {
            self.add(item).await;
        }
        Ok(from)
    }

    async fn handle(&self, event: &Event) {
        // A long history is read without waiting; other tasks get their turns.
        coop::consume_budget().await;
        for item in self.reconciler.items(event) {
            self.add(item).await;
        }
    }

    /// Queues an item, and waits for room if the queue is full.
    async fn add(&self, item: R::Item) {
        // A closed queue means that the host is ending.
        while let Err(AddError::Full) = self.queue.add(item.clone(), Priority::NORMAL) {
            self.finished.notified().await;
        }
    }

    /// Reconciles items until the queue is closed and the last one is finished.
    async fn work(&self, running: &mut JoinSet<Result<Next, String>>) {
        let mut claims: HashMap<Id, Claim<R::Item>> = HashMap::new();
        let mut is_open = true;
        loop {
            tokio::select! {
                biased;
                Some(done) = running.join_next_with_id() => {
                    let (task, done) = done.unwrap_or_else(|error| (error.id(), Err(panicked::<R>(&error))));
                    let retry = |error: String| Next::Retry { at_least: None, error: error.into() };
                    if let Some(claim) = claims.remove(&task) {
                        claim.finish(done.unwrap_or_else(retry));
                    }
                    self.finished.notify_one();
                }
                claim = self.queue.claim(), if is_open && claims.len() < R::CONCURRENCY_MAX => match claim {
                    Some(claim) => {
                        let (reconciler, item) = (self.reconciler.clone(), claim.key().clone());
                        let task = running.spawn(async move { reconciler.reconcile(&item).await });
                        claims.insert(task.id(), claim);
                    }
                    None => is_open = false,
                },
                else => return,
            }
        }
    }
}

/// Returns a listed resource as an event.
fn listed(resource: Arc<Resource>) -> Event {
    Event { kind: EventType::Added, revision: resource.revision(), previous: None, resource }
}

/// Reports a panic. The item is retried, as after an error.
fn panicked<R: NativeReconciler>(error: &JoinError) -> String {
    tracing::error!(controller = R::NAME, %error, "a reconcile panicked");
    error.to_string()
}

#[cfg(test)]
pub(crate) mod tests;
