//! What a worker does with one key. The journey's middle, top to bottom.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use homeostat_component::{Fault, Outcome, Report, Severity};
use homeostat_store::Key;
use homeostat_workqueue::Claim;

use crate::controller::Controller;
use crate::observer::Reconciled;
use crate::settle::{Label, settle};
use crate::slot::Loaded;

/// How long a worker that panicked stays away: a key that makes it panic again must not keep a processor busy.
const PANIC_PAUSE: Duration = Duration::from_secs(1);

/// Claims and runs keys until the queue closes, or the controller has workers enough without this one.
pub(crate) async fn work(controller: Arc<Controller>) {
    while let Some(claim) = controller.queue.claim().await {
        if AssertUnwindSafe(run_one(&controller, claim)).catch_unwind().await.is_err() {
            controller.note_panic();
            tokio::time::sleep(PANIC_PAUSE).await;
        }
        if controller.workers.leave_if_surplus(controller.slot.current().settings.concurrency) {
            return;
        }
    }
}

/// Runs one key once, on whatever the slot holds when every watch has listed.
async fn run_one(controller: &Controller, claim: Claim<Key>) {
    if !controller.feeding.has_listed().await {
        return;
    }
    let key = claim.key().clone();
    let reconciled = tokio::select! {
        (loaded, report) = reconcile(controller, &key) => Some((loaded, report)),
        () = controller.queue.aborted() => None,
    };
    let Some((loaded, Report { result, cost })) = reconciled else {
        // Dropping the claim gives the key back; the queue reports it as left over.
        controller.follows.roll_back(&key);
        return;
    };
    let (next, label) = settle(&result);
    if controller.keep(&key, &result) {
        // It follows something else than before: whatever changed until now is looked at once more.
        let _ = controller.queue.add(key.clone(), claim.priority());
    }
    let queued_for = claim.queued_for();
    let label = if claim.finish(next).dropped { Label::Dropped } else { label };
    controller.count(&loaded, &key, label);
    let reconciled = Reconciled { controller: &controller.name, key: &key, queued_for, result: &result, label, cost };
    controller.context.observer.reconciled(&reconciled);
}

/// Calls the guest.
async fn reconcile(controller: &Controller, key: &Key) -> (Arc<Loaded>, Report<Outcome>) {
    let loaded = controller.slot.current();
    let Loaded { definition, effects, .. } = &*loaded;
    let report = definition.component.reconcile(&controller.name, key, &definition.limits, effects.clone()).await;
    (loaded, report)
}

impl Controller {
    /// Keeps what a reconcile asked to follow, and tells of a failure. Returns whether the key follows something else than before.
    fn keep(&self, key: &Key, result: &Result<Outcome, Fault>) -> bool {
        let Err(fault) = result else {
            let changed = self.follows.keep(key);
            if changed {
                self.feeding.follow(&self.follows);
            }
            return changed;
        };
        self.follows.roll_back(key);
        let reason = match fault {
            Fault::Failure { .. } => "ReconcileFailed",
            Fault::Trap { .. } => "Trapped",
            Fault::Limit { .. } => "LimitExceeded",
        };
        tracing::debug!(controller = %self.name, %key, %fault, "reconcile failed");
        self.context.event(&self.name, Some(key.clone()), Severity::Warning, reason, &fault.to_string());
        false
    }

    fn count(&self, loaded: &Loaded, key: &Key, label: Label) {
        self.stats.count(label, loaded.component().digest());
        if label == Label::Dropped {
            let message = "every retry is used up: parked until it changes or somebody asks";
            self.context.event(&self.name, Some(key.clone()), Severity::Warning, "RetriesUsedUp", message);
        }
    }
}
