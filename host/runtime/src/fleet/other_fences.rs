//! The fences of a lease in the other stores that hosts share.
//!
//! A store refuses the writes of earlier terms once it knows the present one. So the holder of a lease tells its term to
//! each other store before its workers start. A store that does not answer holds up the writes to it alone.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use homeostat_fleet::{Epoch, Identity, LeaseName};
use homeostat_store::{Error, Fence, LeaseStore, OtherTerm, Result};
use tokio::task::JoinSet;
use tokio::time;

use super::gate::ShardGate;
use crate::Stores;

/// The other stores in which a lease has fences.
#[derive(Clone, Default)]
pub(super) struct OtherStores {
    /// By name.
    stores: Vec<(Arc<str>, Arc<dyn LeaseStore>)>,
    /// The store of the lease itself.
    home: Option<(Stores, Arc<str>)>,
}

impl OtherStores {
    /// Returns the shared stores of a host besides the one that has the lease.
    pub(super) fn besides(store: &Arc<str>, stores: &Stores) -> Self {
        let shared = stores.parts().into_iter().filter(|part| part.name != *store);
        let shared = shared.filter_map(|part| Some((Arc::clone(&part.name), part.store.leases()?)));
        Self { stores: shared.collect(), home: Some((stores.clone(), Arc::clone(store))) }
    }

    /// Returns whether a store of this name has fences of the lease.
    pub(super) fn has(&self, store: &Arc<str>) -> bool {
        self.stores.iter().any(|(name, _)| name == store)
    }

    /// Returns the id of the content of the store of the lease.
    fn content(&self) -> String {
        let Some((stores, name)) = &self.home else { return String::new() };
        let part = stores.parts().into_iter().find(|part| part.name == *name);
        let status = part.and_then(|part| part.store.status().into_iter().next());
        status.and_then(|status| status.id).unwrap_or_default()
    }
}

/// The name of a store, and the fence that it has given to the term.
type RaiseAnswer = (Arc<str>, Result<Option<Fence>>);

/// The fences of the present term in other stores.
pub(super) struct OtherFences {
    stores: OtherStores,
    /// How long one request may take, and the wait before another one.
    timeout: Duration,
    retry: Duration,
    raising: JoinSet<Vec<RaiseAnswer>>,
    term: Option<OtherTerm>,
}

/// The state of the fences after some stores have answered.
pub(super) enum RaiseOutcome {
    /// Every store was asked at least once, and none knows a later term.
    Asked,
    /// A store knows a later term.
    Fenced,
}

impl OtherFences {
    pub(super) fn new(stores: OtherStores, timeout: Duration, retry: Duration) -> Self {
        Self { stores, timeout, retry, raising: JoinSet::new(), term: None }
    }

    /// Starts to tell a new term to all stores. Returns whether there are any.
    pub(super) fn begin(&mut self, gate: &ShardGate, holder: &Identity, epoch: Epoch) -> bool {
        self.end();
        gate.forget_other_fences();
        if self.stores.stores.is_empty() {
            return false;
        }
        let (lease, holder): (LeaseName, Identity) = (gate.lease.clone(), holder.clone());
        self.term = Some(OtherTerm { lease, holder, content: self.stores.content(), epoch });
        self.raise(self.stores.stores.clone(), Duration::ZERO);
        true
    }

    /// Ends the term. Its requests are dropped, and may still arrive.
    pub(super) fn end(&mut self) {
        self.raising.abort_all();
        (self.raising, self.term) = (JoinSet::new(), None);
    }

    fn raise(&mut self, stores: Vec<(Arc<str>, Arc<dyn LeaseStore>)>, wait: Duration) {
        let (Some(term), timeout) = (self.term.clone(), self.timeout) else { return };
        self.raising.spawn(async move {
            time::sleep(wait).await;
            let raise = |(name, store): (Arc<str>, Arc<dyn LeaseStore>)| {
                let term = &term;
                async move {
                    let late = |_| Err(Error::unavailable("it does not answer in time"));
                    (name, time::timeout(timeout, store.raise_fence(term)).await.unwrap_or_else(late))
                }
            };
            join_all(stores.into_iter().map(raise)).await
        });
    }

    /// Waits until the stores that were asked have answered, or not in time. Those that have not taken the term are asked
    /// again later. Never returns without a term.
    ///
    /// *Cancel safety*: nothing is lost.
    pub(super) async fn asked(&mut self, gate: &ShardGate) -> RaiseOutcome {
        let Some(Ok(answers)) = self.raising.join_next().await else { return std::future::pending().await };
        let mut missing = Vec::new();
        for (name, answer) in answers {
            match answer {
                Ok(fence) => gate.set_other_fence(&name, fence),
                Err(Error::Fenced { .. }) => return RaiseOutcome::Fenced,
                Err(error) => {
                    tracing::warn!(lease = %gate.lease, store = &*name, %error, "a store is not written: it does not know the term");
                    missing.push(name);
                }
            }
        }
        if !missing.is_empty() {
            let stores = self.stores.stores.iter().filter(|(name, _)| missing.contains(name)).cloned().collect();
            self.raise(stores, self.retry);
        }
        RaiseOutcome::Asked
    }
}

#[cfg(test)]
mod tests;
