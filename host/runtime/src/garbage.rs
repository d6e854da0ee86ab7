//! Runs garbage collection: deletes or releases the dependents of deleted owners.
//!
//! Each store of the host has a collector of its own, so that a store that is away holds up no other. A store
//! whose server deletes dependents by itself has none. In a store that several hosts share, the collector of one of
//! them works, under a lease ([`OwnLease`]).

mod by_kind;
mod part_store;

use std::sync::Arc;
use std::time::Duration;

use homeostat_fleet::LeaseName;
use homeostat_store::garbage::{Check, GarbageCollector, Progress, checks};
use homeostat_store::{Error, Event, Kind, Scope, Store, StorePart};
use homeostat_workqueue::Next;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::fleet::{Fleet, OwnLease};
use crate::native_controller::{self, NativeReconciler};
use crate::{Kinds, Stores};
pub(crate) use by_kind::KINDS_MAX;
use part_store::PartStore;

/// The wait of a failed check: the first wait, and the maximum.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(30));
/// The time after which an owner that waits for dependents in another store is checked again.
const WAITING: Duration = Duration::from_secs(10);
/// Queued checks. More of them wait in the list or in the watch.
const CHECKS_MAX: u32 = 1024;

/// Collects garbage in all stores until `end` is cancelled, or the stores are closed.
pub(crate) async fn run(stores: Stores, kinds: Arc<Kinds>, fleet: Arc<Fleet>, end: CancellationToken) {
    let mut collectors = JoinSet::new();
    for part in stores.parts() {
        let status = part.store.status();
        // A collector asks its own store alone, but for owners that wait for their dependents.
        if status.iter().any(|status| status.collects_garbage) {
            continue;
        }
        let lease = match OwnLease::start(&fleet, &stores, &part.name, LeaseName::of_garbage()) {
            Ok(lease) => lease.map(Arc::new),
            Err(error) => {
                tracing::error!(store = &*part.name, %error, "its garbage is not collected: it cannot have the lease");
                continue;
            }
        };
        let orders_all_kinds = status.iter().all(|status| status.orders_all_kinds);
        let (stores, kinds, end) = (stores.clone(), Arc::clone(&kinds), end.clone());
        collectors.spawn(async move {
            let place = Place::new(part, &stores, Arc::clone(&kinds), lease.clone());
            let (place, stores, kinds) = (&place, &stores, &kinds);
            let collect = move |end| async move {
                if orders_all_kinds {
                    place.collect(Scope::Everything, end).await;
                } else {
                    by_kind::run(place.clone(), stores, kinds, end).await;
                }
            };
            match lease {
                None => collect(end).await,
                Some(lease) => lease.run(&end, collect).await,
            }
        });
    }
    while collectors.join_next().await.is_some() {}
}

/// Where one collector works.
#[derive(Clone)]
struct Place {
    name: Arc<str>,
    store: Arc<dyn Store>,
    /// `None` for a store that has every kind.
    part: Option<Arc<PartStore>>,
    kinds: Arc<Kinds>,
}

impl Place {
    /// With a lease, only its holder deletes here.
    fn new(part: StorePart, stores: &Stores, kinds: Arc<Kinds>, lease: Option<Arc<OwnLease>>) -> Self {
        let name = Arc::clone(&part.name);
        match stores {
            Stores::One(_) => Self { name, store: part.store, part: None, kinds },
            Stores::Routed(all) => {
                let part = Arc::new(PartStore::new(part, Arc::clone(all), lease));
                Self { name, store: Arc::clone(&part) as Arc<dyn Store>, part: Some(part), kinds }
            }
        }
    }

    /// Returns whether the resources of a kind live here.
    fn has(&self, kind: &Kind) -> bool {
        self.part.as_ref().is_none_or(|part| part.has(kind))
    }

    /// Collects garbage after the changes of a scope, until `end` is cancelled or the store is closed.
    async fn collect(&self, scope: Scope, end: CancellationToken) {
        let queue = native_controller::queue(RETRY.0, RETRY.1, Some(CHECKS_MAX));
        let collector = match &self.part {
            None => GarbageCollector::new(Arc::clone(&self.store)),
            Some(part) => {
                let (all, has) = (part.all(), Arc::clone(part));
                GarbageCollector::of_part(Arc::clone(&self.store), all, move |kind| has.has(kind))
            }
        };
        let kinds = Arc::clone(&self.kinds);
        let collector = collector.with_scopes(move |kind| Some(kinds.of(kind)?.namespaced));
        let reconciler = GarbageReconciler { collector, place: self.clone(), scope };
        native_controller::run(Arc::new(reconciler), Arc::clone(&self.store), queue, None, end).await;
    }
}

struct GarbageReconciler {
    collector: GarbageCollector,
    place: Place,
    scope: Scope,
}

impl NativeReconciler for GarbageReconciler {
    type Item = Check;
    const NAME: &'static str = "garbage";
    /// A check of many dependents writes concurrently by itself.
    const CONCURRENCY_MAX: usize = 1;

    fn scope(&self) -> Option<Scope> {
        Some(self.scope.clone())
    }

    fn items(&self, event: &Event) -> Vec<Check> {
        if self.place.has(event.resource.key().kind()) { checks(event) } else { Vec::new() }
    }

    async fn reconcile(&self, check: &Check) -> Result<Next, String> {
        use Error::{Closed, Conflict, Expired, FutureRevision, Unavailable};
        match self.collector.check(check).await {
            Ok(Progress::Done) => Ok(Next::Done),
            Ok(Progress::Waiting) => Ok(Next::After(WAITING)),
            // The state of the store, or another writer that was first.
            Err(error @ (Unavailable { .. } | Conflict { .. } | Closed | Expired { .. } | FutureRevision { .. })) => {
                Err(error.to_string())
            }
            Err(error) => {
                tracing::error!(store = &*self.place.name, %error, "garbage collection skips a resource");
                Ok(Next::Done)
            }
        }
    }
}

#[cfg(test)]
mod tests;
