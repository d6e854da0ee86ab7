//! The gate of one lease: the workers of its keys enter while this host holds it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use homeostat_fleet::{Epoch, LeaseName};
use homeostat_store::Fence;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::{Fleet, LeaseClock, LoadMeasure};

/// A number that changes with every change of a gate of one controller.
pub(super) type GateChanges = Arc<watch::Sender<u64>>;

/// The gate of one lease.
pub(crate) struct ShardGate {
    pub(crate) lease: LeaseName,
    clock: LeaseClock,
    load: LoadMeasure,
    /// The longest time for which a write without an answer can be on its way.
    in_flight_max: Duration,
    /// Nanoseconds of the clock at which the term ends; 0 for no term.
    until: AtomicU64,
    state: Mutex<GateState>,
    /// Notified when a pass was returned.
    returned: Notify,
    changes: GateChanges,
}

/// Whether workers may enter.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum GatePhase {
    /// This host does not hold the lease.
    #[default]
    Closed,
    /// Workers may enter.
    Open,
    /// Workers that are inside finish; no other one enters.
    Draining,
}

#[derive(Default)]
struct GateState {
    phase: GatePhase,
    epoch: Option<Epoch>,
    fence: Option<Fence>,
    /// The fences of the term in other stores that have taken it, by the name of the store; `None` for a store that
    /// checks no fences.
    other_fences: BTreeMap<Arc<str>, Option<Fence>>,
    /// Passes that were given out and not returned.
    inside: usize,
    /// Cancelled when the lease is lost.
    lost: CancellationToken,
    /// No write without an answer is on its way after this time.
    quiet_at: Duration,
    /// The load of the workers that have left, since the start of the host.
    spent: Duration,
}

/// A worker inside of a gate. Dropping it returns it.
pub(crate) struct GatePass {
    gate: Arc<ShardGate>,
    lost: CancellationToken,
    /// The load of the worker.
    load: Duration,
}

impl ShardGate {
    pub(super) fn new(lease: LeaseName, fleet: &Fleet, changes: GateChanges) -> Self {
        let (until, state, returned) = Default::default();
        let (clock, in_flight_max) = (Arc::clone(&fleet.clock), fleet.times.in_flight_max);
        let load = Arc::clone(&fleet.load);
        Self { lease, clock, load, in_flight_max, until, state, returned, changes }
    }

    /// Lets a worker in; `None` unless this host holds the lease.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<GatePass> {
        if !self.is_held() {
            return None;
        }
        let mut state = self.state.lock();
        if state.phase != GatePhase::Open {
            return None;
        }
        state.inside += 1;
        Some(GatePass { gate: Arc::clone(self), lost: state.lost.clone(), load: Duration::ZERO })
    }

    /// Returns whether workers may enter now.
    pub(crate) fn is_open(&self) -> bool {
        self.is_held() && self.state.lock().phase == GatePhase::Open
    }

    /// Returns whether the term goes on. The answer is true also when the machine has slept.
    fn is_held(&self) -> bool {
        (self.clock)() < Duration::from_nanos(self.until.load(Ordering::Acquire))
    }

    /// Returns the fence of a write that is sent now; `None` inside for a store that checks none.
    ///
    /// # Errors
    /// This host does not hold the lease.
    pub(crate) fn fence(&self) -> Result<Option<Fence>, LostLease> {
        if self.is_held() { Ok(self.state.lock().fence.clone()) } else { Err(LostLease(self.lease.clone())) }
    }

    /// Returns the fence of a write to another store that is sent now; `None` inside for a store that checks none.
    ///
    /// # Errors
    /// This host does not hold the lease, or that store has not taken the term yet.
    pub(crate) fn other_fence(&self, store: &Arc<str>) -> Result<Option<Fence>, NoTerm> {
        if !self.is_held() {
            return Err(NoTerm::Lost(LostLease(self.lease.clone())));
        }
        let known = self.state.lock().other_fences.get(store).cloned();
        known.ok_or_else(|| NoTerm::NotTaken { lease: self.lease.clone(), store: Arc::clone(store) })
    }

    /// Records that a write has no answer: it may be on its way for a while.
    pub(crate) fn mark_unanswered(&self) {
        let at = (self.clock)() + self.in_flight_max;
        let mut state = self.state.lock();
        state.quiet_at = state.quiet_at.max(at);
    }

    /// Begins a term.
    pub(super) fn open(&self, epoch: Epoch, fence: Option<Fence>) {
        self.change(|state| {
            state.phase = GatePhase::Open;
            state.epoch = Some(epoch);
            state.fence = fence;
            state.lost = CancellationToken::new();
        });
    }

    /// Sets the fence of the term in another store, which has taken it.
    pub(super) fn set_other_fence(&self, store: &Arc<str>, fence: Option<Fence>) {
        self.state.lock().other_fences.insert(Arc::clone(store), fence);
    }

    /// Forgets the fences of an earlier term in other stores.
    pub(super) fn forget_other_fences(&self) {
        self.state.lock().other_fences.clear();
    }

    /// Sets the time at which the term ends; `None` for no term.
    pub(super) fn set_until(&self, until: Option<Duration>) {
        let nanos = until.map_or(0, |until| u64::try_from(until.as_nanos()).unwrap_or(u64::MAX));
        self.until.store(nanos, Ordering::Release);
    }

    /// Lets no further worker in.
    pub(super) fn drain(&self) {
        self.change(|state| state.phase = GatePhase::Draining);
    }

    /// Aborts the workers that are inside. Their writes so far are those of the term.
    pub(super) fn abort_workers(&self) {
        self.state.lock().lost.cancel();
    }

    /// Ends the term at once: aborts the workers that are inside, and refuses their writes.
    pub(super) fn abort(&self) {
        self.set_until(None);
        self.change(|state| state.phase = GatePhase::Closed);
        self.abort_workers();
    }

    /// Ends the term after the workers have left.
    pub(super) fn close(&self) {
        self.change(|state| {
            state.phase = GatePhase::Closed;
            state.epoch = None;
            state.fence = None;
        });
    }

    fn change(&self, change: impl FnOnce(&mut GateState)) {
        change(&mut self.state.lock());
        self.notify();
    }

    /// Tells everyone who follows the placement that something has changed.
    pub(super) fn notify(&self) {
        self.changes.send_modify(|number| *number = number.wrapping_add(1));
    }

    /// Waits until no worker is inside and no write is on its way.
    ///
    /// *Cancel safety*: nothing is lost.
    pub(super) async fn wait_for_quiet(&self) {
        loop {
            let returned = self.returned.notified();
            let (inside, quiet_at) = {
                let state = self.state.lock();
                (state.inside, state.quiet_at)
            };
            if inside > 0 {
                returned.await;
                continue;
            }
            match quiet_at.checked_sub((self.clock)()).filter(|wait| !wait.is_zero()) {
                Some(wait) => tokio::time::sleep(wait).await,
                None => return,
            }
        }
    }

    /// Returns the processor time of the workers that have left, since the start of the host.
    pub(super) fn spent(&self) -> Duration {
        self.state.lock().spent
    }

    /// Returns the present term; `None` if this host does not hold the lease.
    pub(crate) fn epoch(&self) -> Option<Epoch> {
        if self.is_held() { self.state.lock().epoch } else { None }
    }
}

impl GatePass {
    /// Records the load of the worker by its processor time. The gate counts it when the worker leaves: it takes its lock then in any
    /// case.
    pub(crate) fn note(&mut self, cpu: Duration) {
        self.load = (self.gate.load)(cpu);
    }

    /// Waits until the lease is lost.
    ///
    /// *Cancel safety*: nothing is lost.
    pub(crate) async fn lost(&self) {
        self.lost.cancelled().await;
    }
}

impl Drop for GatePass {
    fn drop(&mut self) {
        let mut state = self.gate.state.lock();
        state.inside -= 1;
        state.spent = state.spent.saturating_add(self.load);
        if state.inside == 0 {
            self.gate.returned.notify_waiters();
        }
    }
}

/// Why another store may not be written.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum NoTerm {
    /// This host does not hold the lease.
    #[error(transparent)]
    Lost(LostLease),
    /// The store would not refuse a write of an earlier term yet.
    #[error("the store {store} does not know the term of the lease {lease} yet")]
    NotTaken {
        /// The lease.
        lease: LeaseName,
        /// The name of the store.
        store: Arc<str>,
    },
}

/// Why nothing may be written.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("this host does not hold the lease of {0}")]
pub(crate) struct LostLease(LeaseName);

#[cfg(test)]
mod tests;
