//! Runs the store's garbage collection: deletes or releases the dependents of deleted owners.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use homeostat_store::garbage::{Check, GarbageCollector, checks};
use homeostat_store::{Error, Event, Scope, Store};
use homeostat_workqueue::Next;
use tokio_util::sync::CancellationToken;

use crate::native_controller::{self, NativeReconciler};

/// The wait of a failed check: the first wait, and the maximum.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(30));
/// Queued checks. More of them wait in the list or in the watch.
const CHECKS_MAX: u32 = 1024;

/// Collects garbage until `end` is cancelled, or the store is closed.
pub(crate) async fn run(store: Arc<dyn Store>, end: CancellationToken) {
    let queue = native_controller::queue(RETRY.0, RETRY.1, Some(CHECKS_MAX));
    let reconciler = GarbageReconciler(GarbageCollector::new(store.clone()));
    native_controller::run(Arc::new(reconciler), store, queue, None, end).await;
}

struct GarbageReconciler(GarbageCollector);

#[async_trait]
impl NativeReconciler for GarbageReconciler {
    type Item = Check;
    const NAME: &'static str = "garbage";
    /// A check of many dependents writes concurrently by itself.
    const CONCURRENCY_MAX: usize = 1;

    fn scope(&self) -> Option<Scope> {
        Some(Scope::Everything)
    }

    fn items(&self, event: &Event) -> Vec<Check> {
        checks(event)
    }

    async fn reconcile(&self, check: &Check) -> Result<Next, String> {
        use Error::{Closed, Conflict, Expired, FutureRevision, Unavailable};
        match self.0.check(check).await {
            Ok(()) => Ok(Next::Done),
            // The state of the store, or another writer that was first.
            Err(error @ (Unavailable { .. } | Conflict { .. } | Closed | Expired { .. } | FutureRevision { .. })) => {
                Err(error.to_string())
            }
            Err(error) => {
                tracing::error!(%error, "garbage collection skips a resource");
                Ok(Next::Done)
            }
        }
    }
}

#[cfg(test)]
mod tests;
