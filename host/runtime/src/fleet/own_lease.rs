//! A lease of one of the host's own controllers: one of the hosts that share a store does its work there.
//!
//! Deliberately absent: shards and placement by load. Its work is small, and all of it belongs together.

use std::sync::Arc;
use std::time::Duration;

use homeostat_fleet::LeaseName;
use homeostat_store::{Error, Request, Store, WriteResponse};
use tokio::time;
use tokio_util::sync::CancellationToken;

use super::Fleet;
use super::gate::{GateChanges, ShardGate};
use super::keeper::{Candidacy, KeptLease, LeaseKeeper};
use super::other_fences::OtherStores;
use crate::Stores;

/// How long the work under the lease has to end before the lease is released. What has not ended is aborted: the next
/// holder does it again.
const DRAIN_DEADLINE: Duration = Duration::ZERO;

/// A lease of one of the host's own controllers. The host gives it up when the fleet is stopped.
pub(crate) struct OwnLease {
    keeper: Arc<LeaseKeeper>,
    changes: GateChanges,
    /// The longest time for which a write can be on its way.
    in_flight_max: Duration,
}

impl OwnLease {
    /// Starts to wait for a lease in a store; `None` where no other host has its resources.
    ///
    /// # Errors
    /// `Invalid` for a name that the store cannot have.
    pub(crate) fn start(
        fleet: &Fleet,
        stores: &Stores,
        store: &Arc<str>,
        lease: LeaseName,
    ) -> homeostat_store::Result<Option<Self>> {
        let Some(room) = fleet.room(stores, store) else { return Ok(None) };
        let (identity, times) = (fleet.identity.clone(), fleet.times);
        let requests = room.leases.lease(&lease, &identity, times.length)?;
        let changes = GateChanges::default();
        let gate = Arc::new(ShardGate::new(lease, fleet, changes.clone()));
        let candidacy = Candidacy::Ranked { room, work: None };
        let others = OtherStores::default();
        let kept = KeptLease { identity, requests, gate, candidacy, others, drain_deadline: DRAIN_DEADLINE };
        let keeper = fleet.keep_own(kept);
        Ok(Some(Self { keeper, changes, in_flight_max: times.in_flight_max }))
    }

    /// Does the work in each term of the lease, until the work ends by itself or `end` is cancelled. The work ends soon
    /// after its own token is cancelled, and is dropped when the lease is lost.
    pub(crate) async fn run<F: Future<Output = ()>>(
        &self,
        end: &CancellationToken,
        work: impl Fn(CancellationToken) -> F,
    ) {
        let gate = &self.keeper.gate;
        let mut changes = self.changes.subscribe();
        while !end.is_cancelled() {
            let Some(pass) = gate.enter() else {
                tokio::select! {
                    () = end.cancelled() => return,
                    _ = changes.changed() => continue,
                }
            };
            let term = end.child_token();
            let drained = async {
                while gate.is_open() {
                    // The sender lives as long as this lease.
                    let _ = changes.changed().await;
                }
                term.cancel();
                std::future::pending::<()>().await;
            };
            tokio::select! {
                biased;
                () = pass.lost() => term.cancel(),
                () = work(term.clone()) => if !term.is_cancelled() { return },
                () = drained => {}
            }
        }
    }

    /// Submits a write in the present term.
    ///
    /// # Errors
    /// `Unavailable` when this host does not hold the lease, or when the store does not answer in the time that the
    /// lease leaves; `Fenced` when another term has begun; those of [`Store::submit`].
    pub(crate) async fn submit(
        &self,
        store: &dyn Store,
        mut request: Request,
    ) -> homeostat_store::Result<WriteResponse> {
        let gate = &self.keeper.gate;
        let epoch = gate.epoch();
        request.fence = gate.fence().map_err(|lost| Error::unavailable(lost.to_string()))?;
        let mut unanswered = UnansweredWrite(Some(gate));
        let late = |_| Err(Error::unavailable("it does not answer in the time that a lease leaves"));
        let response = time::timeout(self.in_flight_max, store.submit(request)).await.unwrap_or_else(late);
        match &response {
            Err(Error::Unavailable { .. }) => return response,
            Err(Error::Fenced { .. }) => {
                if let Some(epoch) = epoch {
                    self.keeper.fenced(epoch);
                }
            }
            _ => {}
        }
        unanswered.0 = None;
        response
    }
}

/// A write without an answer so far. Dropping it says that nobody waits for the answer.
struct UnansweredWrite<'a>(Option<&'a ShardGate>);

impl Drop for UnansweredWrite<'_> {
    fn drop(&mut self) {
        if let Some(gate) = self.0 {
            gate.mark_unanswered();
        }
    }
}

#[cfg(test)]
mod tests;
