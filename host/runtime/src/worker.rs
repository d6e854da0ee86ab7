//! What a worker does with one key. The journey's middle, top to bottom.

use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use homeostat_component::{CallReport, CallSession, Fault, Outcome, Severity};
use homeostat_store::Key;
use homeostat_workqueue::{Claim, Next, Queue};
use tokio::time::Instant;

use crate::controller::Controller;
use crate::observer::ReconcileRecord;
use crate::settle::{Label, settle};
use crate::shadow::Capture;
use crate::slot::{Assignment, CachedVersion, LoadedVersion};
use crate::trial::run_result;
use crate::turns::Quantum;

/// How long a worker that panicked stays away: a key that makes it panic again must not keep a processor busy.
const PANIC_PAUSE: Duration = Duration::from_secs(1);

/// Claims and runs keys until the queue closes, or the controller has workers enough without this one.
pub(crate) async fn work(controller: Arc<Controller>, turn: Quantum) {
    let mut aborted = pin!(controller.queue.aborted());
    while let Some(claim) = next(&controller).await {
        if controller.leaves() {
            // A worker that slept while fewer were asked for: the key goes back, and another one takes it.
            return;
        }
        // What a reconcile takes, a worker that waits for a key does not keep: there are many of those.
        let keys = Box::pin(run_keys(&controller, claim, aborted.as_mut(), &turn));
        if AssertUnwindSafe(keys).catch_unwind().await.is_err() {
            controller.note_panic();
            tokio::time::sleep(PANIC_PAUSE).await;
        }
        if controller.leaves() {
            return;
        }
        turn.yield_if_expired().await;
    }
}

/// Runs a key, and goes on for as long as there is another one and the worker's turn lasts.
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

/// What a worker keeps from key to key. All workers of a controller share it, and to take it for each key costs them more than the rest
/// of a turn; so it takes it once, and lays it down when it waits for anything but its guest.
struct WorkerCache {
    caller: CallSession,
    cached: Option<CachedVersion>,
}

impl WorkerCache {
    fn of(controller: &Controller) -> Self {
        Self { caller: CallSession::new(&controller.name), cached: None }
    }
}

/// Waits for a key, and for the first list of every watch before that. `None`: there will be no more.
async fn next(controller: &Controller) -> Option<Claim<Key>> {
    while controller.feeders.wait_for_sync().await {
        let claim = controller.queue.claim().await?;
        // A swap may have brought a watch meanwhile that has not listed. The key goes back: nobody holds one that does not run.
        if controller.feeders.has_synced() {
            return Some(claim);
        }
    }
    None
}

/// Runs one key once, on whatever the slot holds. Returns the next key, if there is one and the worker's turn is not over.
async fn run_one(
    controller: &Controller,
    claim: Claim<Key>,
    aborted: Pin<&mut impl Future<Output = ()>>,
    turn: &Quantum,
    hands: &mut WorkerCache,
) -> Option<Claim<Key>> {
    let (key, began) = (claim.key().clone(), Instant::now());
    let reconciled = tokio::select! {
        biased;
        reconciled = reconcile(controller, &key, hands) => Some(reconciled),
        () = aborted => None,
    };
    let Some(reconciled) = reconciled else {
        // Dropping the claim gives the key back; the queue reports it as left over.
        controller.follows.roll_back(&key);
        return None;
    };
    let Some((Assignment { cached: kept, canary: trial }, report, seat)) = reconciled else {
        // It was queued by grants that the controller has no more. What it follows, it follows no more.
        controller.follows.keep(&key);
        claim.finish(Next::Done);
        return None;
    };
    // Before the key is free: whoever takes it next knows what this run has shown.
    if let Some((trial, side)) = trial {
        trial.record(side, &claim, &report);
    }
    kept.loaded.record(run_result(&report.result));
    let CallReport { result, cost } = report;
    let (next, label) = settle(&result);
    if controller.commit_follows(&key, &result, claim.failures()) {
        // It follows something else than before: whatever changed until now is looked at once more.
        let again = |queue: &Queue<Key>, key, priority| queue.add(key, priority);
        let _ = controller.feeders.deletions().add(key.clone(), claim.priority(), again);
    }
    let (queued_for, ended) = (claim.queued_for(), Instant::now());
    let pauses = turn.is_over(ended)
        || controller.workers.are_surplus(controller.slot.concurrency())
        || !controller.feeders.has_synced();
    let (finished, claimed) = if pauses { (claim.finish(next), None) } else { claim.finish_and_claim(next) };
    if let Some(seat) = seat {
        seat.settled(&key, &result);
    }
    let label = if finished.dropped { Label::Dropped } else { label };
    controller.costs.note(&key, &cost, label.is_failure(), ended - controller.began);
    controller.note_end(&kept.loaded, &key, label);
    let worked_for = ended - began;
    controller.recorder.record(&ReconcileRecord { key: &key, queued_for, worked_for, result: &result, label, cost });
    claimed
}

/// Calls the guest. What passes is kept where another version is tried beside it, and has a place free. `None`: its grants do not let the
/// guest be told of the key.
async fn reconcile<'a>(
    controller: &Controller,
    key: &Key,
    WorkerCache { caller, cached: kept }: &'a mut WorkerCache,
) -> Option<(Assignment<'a>, CallReport<Outcome>, Option<Capture>)> {
    let taken = controller.slot.assign(key, kept)?;
    let CachedVersion { loaded, effects } = taken.cached;
    let seat = controller.start_capture(loaded);
    let effects = seat.as_ref().map_or_else(|| effects.clone(), Capture::effects);
    let report = loaded.component().reconcile(caller, key, &loaded.definition.limits, effects).await;
    Some((taken, report, seat))
}

impl Controller {
    /// Lets the calling worker leave when there are more than the slot asks for.
    fn leaves(&self) -> bool {
        self.workers.leave_if_surplus(self.slot.concurrency())
    }

    /// Keeps what a reconcile asked to follow, and tells of a failure, after so many in a row. Returns whether the key follows something
    /// else than before.
    fn commit_follows(&self, key: &Key, result: &Result<Outcome, Fault>, failures_before: u32) -> bool {
        let Err(fault) = result else {
            let changed = self.follows.keep(key);
            if changed {
                self.feeders.watch_followed(&self.follows);
            }
            return changed;
        };
        self.follows.roll_back(key);
        let reason = match fault {
            Fault::Failure { .. } => "ReconcileFailed",
            Fault::Trap { .. } => "Trapped",
            Fault::Limit { .. } => "LimitExceeded",
        };
        let (fault, failures) = (fault.to_string(), failures_before.saturating_add(1));
        if let Some(hidden) = self.failures.note(Instant::now(), failures) {
            // Guests say what the error is, and some say what the key is called: both are quoted.
            let (key, error) = (key.to_string(), &fault);
            tracing::warn!(controller = %self.name, ?key, reason, failures, hidden, ?error, "reconcile failed");
        }
        self.context.event(&self.name, Some(key.clone()), Severity::Warning, reason, &fault);
        false
    }

    fn note_end(&self, loaded: &LoadedVersion, key: &Key, label: Label) {
        self.stats.answered_by(loaded);
        if label == Label::Dropped {
            let message = "every retry is used up: parked until it changes or somebody asks";
            self.context.event(&self.name, Some(key.clone()), Severity::Warning, "RetriesUsedUp", message);
        }
    }
}

#[cfg(test)]
mod tests;
