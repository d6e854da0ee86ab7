//! Garbage collection: deletes or releases the dependents of a deleted owner.
//!
//! * Background: a resource is deleted once all its owners are gone. An owner is gone when no resource of
//!   that kind and name has that uid.
//! * Foreground: an owner that is being deleted with the finalizer `foregroundDeletion` waits until its
//!   dependents are gone. Dependents with another living owner lose the reference instead.
//! * Orphan: an owner with the finalizer `orphan` waits until no resource references it.
//!
//! The collector handles one event at a time, against the current state of the store. It keeps no graph in
//! memory that could become stale, and has nothing to restore after a restart. At the start it checks all
//! resources once, to find deletions that it missed. Every step can be repeated.
//!
//! Deliberately absent: owners in other stores, and `blockOwnerDeletion` (every dependent blocks a foreground
//! deletion).

mod steps;
#[cfg(test)]
mod tests;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time;

use crate::{Error, Event, EventType, FINALIZER_FOREGROUND, Query, Resource, Result, Scope, Store, Watch};
use steps::GarbageCollector;

/// Wait after the first failure; doubles with each failure in a row.
const BACKOFF_BASE: Duration = Duration::from_millis(50);
/// Longest wait between two attempts.
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// Resources per page of the full check.
const PAGE_ITEMS: usize = 500;

/// Collects garbage until `stop` is ready, or the store is closed.
///
/// Retries for as long as the store is unavailable, and repeats the full check after it has missed history.
///
/// # Cancel safety
/// Every step can be repeated, and the next start checks all resources.
pub async fn collect(store: Arc<dyn Store>, stop: impl Future) {
    let mut stop = pin!(stop);
    tokio::select! {
        _ = &mut stop => {}
        () = run(&store) => {}
    }
}

/// Runs until the store is closed.
async fn run(store: &Arc<dyn Store>) {
    let mut backoff = Backoff::default();
    loop {
        match session(store, &mut backoff).await {
            Err(Error::Closed) => return,
            Err(Error::Expired { .. } | Error::FutureRevision { .. }) => {
                tracing::info!("garbage collection missed history, and repeats the full check");
            }
            Err(error) => tracing::warn!(%error, "restarting garbage collection"),
            Ok(never) => match never {},
        }
        backoff.wait().await;
    }
}

/// Checks all resources once, then follows the changes.
async fn session(store: &Arc<dyn Store>, backoff: &mut Backoff) -> Result<std::convert::Infallible> {
    // Opened before the lists: a change in between is handled twice, which is harmless.
    let mut watch = store.watch(Scope::Everything, store.revision()).await?;
    let steps = GarbageCollector::new(store);
    for kind in store.kinds().await? {
        let mut query = Query { limit: Some(PAGE_ITEMS), ..Query::all(kind) };
        loop {
            let page = store.list(&query).await?;
            for resource in &page.items {
                retry(backoff, || steps.check(resource)).await?;
            }
            match page.next {
                Some(next) => query.from = Some(next),
                None => break,
            }
        }
    }
    backoff.reset();
    loop {
        let event = next(&mut watch, backoff).await?;
        retry(backoff, || handle(&steps, &event)).await?;
    }
}

/// Handles one event.
async fn handle(steps: &GarbageCollector, event: &Event) -> Result<()> {
    let Event { kind, resource, previous, revision: _ } = event;
    match kind {
        EventType::Added => steps.check(resource).await,
        EventType::Modified => {
            steps.check_if(resource, calls_for_check(resource, previous.as_deref())).await?;
            steps.check_waiting_owners(&dropped_owners(previous.as_deref(), Some(resource)), resource).await
        }
        EventType::Deleted => {
            steps.check_dependents(resource).await?;
            steps.check_waiting_owners(resource.owners(), resource).await
        }
    }
}

/// Returns whether a change matters to garbage collection.
fn calls_for_check(resource: &Resource, previous: Option<&Resource>) -> bool {
    let Some(previous) = previous else { return true };
    resource.owners() != previous.owners()
        || resource.is_deleting() != previous.is_deleting()
        || (resource.is_deleting() && !resource.finalizers().eq(previous.finalizers()))
}

/// Returns the owners that a resource named before and no longer names.
fn dropped_owners(previous: Option<&Resource>, now: Option<&Resource>) -> Vec<crate::OwnerReference> {
    let now = now.map(Resource::owners).unwrap_or_default();
    let before = previous.map(Resource::owners).unwrap_or_default();
    before.iter().filter(|owner| now.iter().all(|other| other.uid != owner.uid)).cloned().collect()
}

/// Returns the next event. Waits while the store is `Unavailable`; the watch resumes at its position.
async fn next(watch: &mut Watch, backoff: &mut Backoff) -> Result<Event> {
    loop {
        match watch.next().await {
            Err(Error::Unavailable { .. }) => backoff.wait().await,
            answer => return answer,
        }
    }
}

/// Retries a step until it succeeds. If the store rejects it for another reason than its own state, logs the
/// error and gives up.
async fn retry<F: Future<Output = Result<()>>>(backoff: &mut Backoff, mut work: impl FnMut() -> F) -> Result<()> {
    loop {
        match work().await {
            Ok(()) => {
                backoff.reset();
                return Ok(());
            }
            // Another writer was first: retry against the current state.
            Err(Error::Unavailable { .. } | Error::Conflict { .. }) => backoff.wait().await,
            Err(error @ (Error::Closed | Error::Expired { .. } | Error::FutureRevision { .. })) => return Err(error),
            Err(error) => {
                tracing::error!(%error, "garbage collection skips a resource");
                return Ok(());
            }
        }
    }
}

/// Exponential backoff over failures in a row.
#[derive(Debug, Default)]
struct Backoff {
    failures: u32,
}

impl Backoff {
    fn reset(&mut self) {
        self.failures = 0;
    }

    async fn wait(&mut self) {
        let delay = BACKOFF_BASE.saturating_mul(1 << self.failures.min(16)).min(BACKOFF_MAX);
        self.failures = self.failures.saturating_add(1);
        time::sleep(delay).await;
    }
}

/// Returns whether a resource waits for its dependents to be deleted.
fn is_foreground(resource: &Resource) -> bool {
    resource.is_deleting() && resource.finalizers().any(|name| name == FINALIZER_FOREGROUND)
}
