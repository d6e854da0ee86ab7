//! What a worker does with one key. The journey's middle, top to bottom.

use std::sync::Arc;

use homeostat_component::{Fault, Outcome, Report, Severity};
use homeostat_store::Key;
use homeostat_workqueue::Claim;

use crate::controller::Controller;
use crate::observer::Reconciled;
use crate::settle::{Label, settle};
use crate::slot::Loaded;

/// Claims and runs keys until the queue closes, or the controller has workers enough without this one.
pub(crate) async fn work(controller: Arc<Controller>) {
    tokio::select! {
        () = controller.feeding.listed() => {}
        () = controller.feeding.stopped() => return,
    }
    while let Some(claim) = controller.queue.claim().await {
        run_one(&controller, claim).await;
        if controller.workers.leave_if_surplus(controller.slot.current().settings.concurrency) {
            return;
        }
    }
}

/// Runs one key once, on whatever the slot holds at this moment.
async fn run_one(controller: &Controller, claim: Claim<Key>) {
    let loaded = controller.slot.current();
    let reconciled = tokio::select! {
        report = reconcile(controller, &loaded, claim.key()) => Some(report),
        () = controller.queue.aborted() => None,
    };
    let Some(report) = reconciled else {
        // Dropping the claim gives the key back; the queue reports it as left over.
        controller.follows.roll_back(claim.key());
        return;
    };
    let (next, label) = settle(&report.result);
    let Report { result, cost } = &report;
    controller.context.observer.reconciled(&Reconciled {
        controller: &controller.name,
        key: claim.key(),
        queued_for: claim.queued_for(),
        result,
        label,
        cost: *cost,
    });
    if controller.keep(&loaded, claim.key(), result, label) {
        // It follows something else than before: whatever changed until now is looked at once more.
        let _ = controller.queue.add(claim.key().clone(), claim.priority());
    }
    claim.finish(next);
}

async fn reconcile(controller: &Controller, loaded: &Loaded, key: &Key) -> Report<Outcome> {
    loaded.component().reconcile(&controller.name, key, &loaded.definition.limits, loaded.effects.clone()).await
}

impl Controller {
    /// Notes what a reconcile came to. Returns whether its key follows something else than before.
    fn keep(&self, loaded: &Loaded, key: &Key, result: &Result<Outcome, Fault>, label: Label) -> bool {
        self.stats.count(label, loaded.component().digest());
        match result {
            Ok(_) => {
                let changed = self.follows.keep(key);
                if changed {
                    self.feeding.follow(&self.follows);
                }
                changed
            }
            Err(fault) => {
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
        }
    }
}
