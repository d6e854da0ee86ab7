//! The worker: claims a key, calls the guest, finishes the claim.

use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use homeostat_component::{CallReport, CallSession, Fault, Outcome, Severity};
use homeostat_store::Key;
use homeostat_workqueue::{Claim, Next, Queue};
use tokio::time::Instant;

use super::Controller;
use crate::costs::ReconcileRecord;
use crate::fleet::GateEntry;
use crate::rollout::run_result;
use crate::rollout::shadow::Capture;
use crate::scheduler::Quantum;
use crate::settle::{Label, settle};
use crate::slot::{Assignment, CachedVersion};

/// The pause of a worker that panicked, so that a key that panics repeatedly does not keep a processor busy.
const PANIC_PAUSE: Duration = Duration::from_secs(1);

/// Starts missing workers, once the start hook has succeeded.
pub(crate) fn spawn_missing(controller: &Arc<Controller>) {
    let lifecycle = &controller.lifecycle;
    if lifecycle.has_started() {
        for _ in 0..lifecycle.workers.missing(controller.slot.concurrency()) {
            lifecycle.spawn(|turn| work(controller.clone(), turn));
        }
    }
}

/// Claims and runs keys until the queue closes, or there are more workers than needed.
pub(crate) async fn work(controller: Arc<Controller>, turn: Quantum) {
    let mut aborted = pin!(controller.queue.aborted());
    while let Some(claim) = next(&controller).await {
        if leaves(&controller) {
            // The concurrency was lowered while it slept: dropping the claim returns the key to another
            // worker.
            return;
        }
        // Boxed, so that idle workers, of which there are many, do not keep the memory of a reconcile.
        let keys = Box::pin(run_keys(&controller, claim, aborted.as_mut(), &turn));
        if AssertUnwindSafe(keys).catch_unwind().await.is_err() {
            controller.note_panic();
            tokio::time::sleep(PANIC_PAUSE).await;
        }
        if leaves(&controller) {
            return;
        }
        turn.yield_if_expired().await;
    }
}

/// Runs a key, and further keys while there are some and the quantum lasts.
async fn run_keys(
    controller: &Controller,
    claim: Claim<Key>,
    mut aborted: Pin<&mut impl Future<Output = ()>>,
    turn: &Quantum,
) {
    let (mut claimed, mut hands) = (Some(claim), WorkerCache::of(controller));
    while let Some(claim) = claimed {
        claimed = run_one(controller, claim, aborted.as_mut(), turn, &mut hands).await;
    }
}

/// The version that a worker caches across keys. Its reference counts are shared by all workers, and changing
/// them for every key costs more than the rest of a quantum. So a worker takes it once, and drops it when it
/// waits for anything except its guest.
struct WorkerCache {
    caller: CallSession,
    cached: Option<CachedVersion>,
}

impl WorkerCache {
    fn of(controller: &Controller) -> Self {
        Self { caller: CallSession::new(&controller.name), cached: None }
    }
}

/// Waits for the first list of every watch, then for a key. Returns `None` when there are no more.
async fn next(controller: &Controller) -> Option<Claim<Key>> {
    while controller.feeders.barrier.has_synced() || controller.feeders.wait_for_sync().await {
        let claim = controller.queue.claim().await?;
        // A swap may have added a watch that has not listed. Dropping the claim returns the key.
        if controller.feeders.barrier.has_synced() {
            return Some(claim);
        }
    }
    None
}

/// Runs one key once, on the slot's version for it. Returns the next key, if there is one and the quantum has
/// not expired.
async fn run_one(
    controller: &Controller,
    claim: Claim<Key>,
    aborted: Pin<&mut impl Future<Output = ()>>,
    turn: &Quantum,
    hands: &mut WorkerCache,
) -> Option<Claim<Key>> {
    let (key, began) = (claim.key().clone(), Instant::now());
    let mut entry = controller.slot.placement.enter(&key);
    if matches!(entry, GateEntry::Refused) {
        // Another host has the shard of the key; this one lists when it has it again.
        controller.follows.keep(&key);
        claim.finish(Next::Done);
        return None;
    }
    let waiters = controller.feeders.settled.begin_run(&key);
    let reconciled = tokio::select! {
        biased;
        reconciled = reconcile(controller, &key, hands) => Some(reconciled),
        () = aborted => None,
        () = entry.lost() => None,
    };
    let Some(reconciled) = reconciled else {
        // Dropping the claim returns the key; the queue reports it as interrupted.
        controller.follows.roll_back(&key);
        return None;
    };
    let Some((Assignment { cached: kept, canary: trial }, report, seat)) = reconciled else {
        // It was queued under grants that the controller no longer has. Its followed resources are dropped
        // too.
        controller.follows.keep(&key);
        claim.finish(Next::Done);
        return None;
    };
    // Before the key is released: the next run of the key must see the result.
    if let Some((trial, side)) = trial {
        trial.record(side, &claim, &report);
    }
    kept.loaded.record(run_result(&report.result));
    let CallReport { result, cost } = report;
    entry.note(cost.cpu);
    let (next, label) = settle(&result);
    if commit_follows(controller, &key, &result, claim.failures()) {
        // It follows other resources than before; the key runs once more to cover changes until now.
        let again = |queue: &Queue<Key>, key, priority| queue.add(key, priority);
        let _ = controller.feeders.deletions().add(key.clone(), claim.priority(), again);
    }
    // Before the key is released: its next run must find the waits that this one leaves.
    let waiters = waiters.filter(|_| result.is_ok());
    let (queued_for, ended) = (claim.queued_for(), Instant::now());
    let pauses = turn.is_over(ended)
        || controller.lifecycle.workers.are_surplus(controller.slot.concurrency())
        || !controller.feeders.barrier.has_synced();
    let (finished, claimed) = if pauses { (claim.finish(next), None) } else { claim.finish_and_claim(next) };
    if !controller.slot.placement.has(&key) {
        // The keys of its shard were dropped while this one ran: it must not stay as one that waits or is parked.
        controller.queue.cancel(&key);
    }
    if let Some(waiters) = waiters {
        waiters.settle();
    }
    if let Some(seat) = seat {
        seat.settled(&key, &result);
    }
    let telemetry = &controller.telemetry;
    let label = if finished.dropped { Label::Dropped } else { label };
    telemetry.costs.note(&key, &cost, label.is_failure(), ended - telemetry.began);
    controller.slot.answered_by(&kept.loaded);
    if label == Label::Dropped {
        let message = "all retries are used up: parked until the resource changes or a person retries it";
        controller.context.event(&controller.name, Some(key.clone()), Severity::Warning, "RetriesUsedUp", message);
    }
    let worked_for = ended - began;
    telemetry.recorder.record(&ReconcileRecord { key: &key, queued_for, worked_for, result: &result, label, cost });
    claimed
}

/// Calls the guest, and captures the run if a shadow is on and not busy. Returns `None` if the grants do not
/// cover the key.
async fn reconcile<'a>(
    controller: &Controller,
    key: &Key,
    WorkerCache { caller, cached: kept }: &'a mut WorkerCache,
) -> Option<(Assignment<'a>, CallReport<Outcome>, Option<Capture>)> {
    let taken = controller.slot.assign(key, kept)?;
    let CachedVersion { loaded, effects } = taken.cached;
    let seat = controller.shadow.capture(controller, loaded);
    let effects = seat.as_ref().map_or_else(|| effects.clone(), Capture::effects);
    // A captured run is compared with one in a fresh instance.
    let warm = loaded.warm.as_ref().filter(|_| seat.is_none());
    let report = loaded.component().reconcile_with(caller, warm, key, &loaded.definition.limits, effects).await;
    Some((taken, report, seat))
}

/// Returns whether the calling worker must stop because there are more than the slot needs.
fn leaves(controller: &Controller) -> bool {
    controller.lifecycle.workers.leave_if_surplus(controller.slot.concurrency())
}

/// Commits the followed resources of a successful reconcile, or reports a failure at certain counts in a row.
/// Returns whether the key follows other resources than before.
fn commit_follows(controller: &Controller, key: &Key, result: &Result<Outcome, Fault>, failures_before: u32) -> bool {
    let Err(fault) = result else {
        let changed = controller.follows.keep(key);
        if changed {
            controller.feeders.watch_followed(&controller.follows);
        }
        return changed;
    };
    controller.follows.roll_back(key);
    let reason = match fault {
        Fault::Failure { .. } => "ReconcileFailed",
        Fault::Trap { .. } => "Trapped",
        Fault::Limit { .. } => "LimitExceeded",
    };
    let (fault, failures) = (fault.to_string(), failures_before.saturating_add(1));
    if let Some(hidden) = controller.telemetry.failures.note(Instant::now(), failures) {
        // Guests choose the error text, and some the name of the key: both are quoted.
        let (key, error) = (key.to_string(), &fault);
        tracing::warn!(controller = %controller.name, ?key, reason, failures, hidden, ?error, "reconcile failed");
    }
    controller.context.event(&controller.name, Some(key.clone()), Severity::Warning, reason, &fault);
    false
}

/// The number of running workers. It grows to the configured concurrency at once, and shrinks as workers
/// finish their keys.
#[derive(Default)]
pub(crate) struct Workers(AtomicU32);

impl Workers {
    /// Raises the count to `wanted` and returns how many workers to start.
    pub(crate) fn missing(&self, wanted: u32) -> u32 {
        wanted.saturating_sub(self.0.fetch_max(wanted, Ordering::SeqCst))
    }

    /// Returns whether there are more workers than `wanted`.
    pub(crate) fn are_surplus(&self, wanted: u32) -> bool {
        self.0.load(Ordering::Relaxed) > wanted
    }

    /// Counts the calling worker out if there are more than `wanted`. Returns whether it must stop.
    pub(crate) fn leave_if_surplus(&self, wanted: u32) -> bool {
        self.0
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |running| (running > wanted).then(|| running - 1))
            .is_ok()
    }
}

#[cfg(test)]
mod tests;
