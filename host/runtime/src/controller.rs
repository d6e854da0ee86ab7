//! One running controller.
//!
//! Feeders bring its keys to the queue, and the suspension says which of them may run. The placement says which of
//! them this host may have. The slot has the
//! version that runs a key, the shadow one that runs beside it. The lifecycle has the tasks, and the telemetry
//! what they report. `worker` runs keys, and `change` replaces the definition.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use homeostat_component::Severity;
use homeostat_store::Key;
use homeostat_workqueue::Queue;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::context::Context;
use crate::feeder_set::FeederSet;
use crate::fleet::{GateEntry, Placement};
use crate::follows::Follows;
use crate::guest_queue::GuestQueue;
use crate::observations::Observations;
use crate::rollout::shadow::ShadowSlot;
use crate::slot::{LoadedVersion, Slot};
use crate::stats::ControllerMeasures;
use crate::status::{ControllerState, ControllerStatus, QueueCounts};
use crate::{Definition, Settings, Suspend, effect_stack};

mod change;
mod lifecycle;
mod removal;
mod suspension;
mod telemetry;
mod worker;

pub use change::SwapReport;
pub(crate) use change::{KeyFilter, ResetParked};
use lifecycle::Lifecycle;
pub use removal::{RemovalReport, RemovedCounts};
use suspension::Suspension;
use telemetry::Telemetry;

/// The backoff of a failing start hook: the first wait, and the maximum.
const START_RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));

/// Maximum time of a stop hook when its controller ends.
pub const STOP_HOOK_MAX: Duration = Duration::from_secs(5);

pub(crate) struct Controller {
    pub(crate) name: Arc<str>,
    pub(crate) context: Arc<Context>,
    pub(crate) queue: Queue<Key>,
    pub(crate) feeders: FeederSet,
    pub(crate) suspension: Suspension,
    pub(crate) slot: Arc<Slot>,
    pub(crate) follows: Arc<Follows>,
    pub(crate) enqueued: Arc<GuestQueue>,
    pub(crate) shadow: Arc<ShadowSlot>,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) telemetry: Telemetry,
}

impl Controller {
    /// Starts a controller. Its feeders start at once; its workers start when every watch had its first full
    /// list and the start hook has succeeded. A controller that needs leases starts all of them when this host holds
    /// the first one.
    ///
    /// `held` is the operator's suspension, independent of the definition's. `before` is cancelled when the
    /// previous controller of this name has ended: no key runs on both.
    pub(crate) fn start(
        context: Arc<Context>,
        definition: Definition,
        held: Suspend,
        before: Option<CancellationToken>,
    ) -> Arc<Self> {
        let name: Arc<str> = definition.name.as_str().into();
        let (follows, enqueued) = (Arc::<Follows>::default(), Arc::<GuestQueue>::default());
        let settings = Settings::merge(definition.component.describe(), &definition.overrides);
        let seed = context.seed(&name);
        let options = homeostat_workqueue::Options { seed, ..settings.queue_options(&definition.limits) };
        let queue = Queue::within(context.room.clone(), options);
        let observations = Arc::<Observations>::default();
        let kind = &definition.component.describe().manages.kind;
        let placement = Placement::new(&context.fleet, &context.stores, &name, kind, definition.placement);
        let placement = Arc::new(placement);
        let effects = effect_stack::build(&context, &follows, &enqueued, &placement, &observations, &definition);
        let slot = Arc::new(Slot::new(LoadedVersion::new(definition, settings, effects, 1), placement));
        let (tasks, tenant, shadow) = (TaskTracker::new(), context.scheduler.tenant(), Arc::<ShadowSlot>::default());
        let feeders = {
            let (name, context, slot, tenant) = (name.clone(), context.clone(), slot.clone(), tenant.clone());
            FeederSet::new(name, context, slot, tenant, queue.clone(), tasks.clone())
        };
        enqueued.connect(&slot, &feeders);
        let deletions = feeders.deletions().clone();
        let controller = Arc::new(Self {
            suspension: Suspension::new(queue.clone(), slot.clone(), deletions, shadow.clone(), held),
            lifecycle: Lifecycle::new(tenant, tasks, before),
            telemetry: Telemetry::new(observations, context.observer.controller(&name)),
            name,
            context,
            queue,
            feeders,
            slot,
            follows,
            enqueued,
            shadow,
        });
        controller.tell_missing_grants();
        controller.suspension.apply();
        controller.lifecycle.spawn(|_| controller.clone().hook_then_work());
        if controller.slot.placement.is_leased() {
            controller.lifecycle.spawn(|_| controller.clone().follow_placement());
        } else {
            controller.feeders.begin();
        }
        controller
    }

    /// Waits for the previous controller of this name to end, and for a lease where one is needed. Retries the start
    /// hook until it succeeds, then starts the workers.
    async fn hook_then_work(self: Arc<Self>) {
        let started = async {
            self.lifecycle.wait_for_previous().await;
            if let Err(error) = self.slot.placement.begin(self.context.drain_deadline) {
                let message = format!("its leases cannot be kept: {error}");
                self.context.event(&self.name, None, Severity::Warning, "StartFailed", &message);
                return std::future::pending().await;
            }
            self.run_owed_hook().await;
        };
        tokio::select! {
            biased;
            () = started => {}
            () = self.feeders.stopped() => return,
        }
        self.lifecycle.started.cancel();
        worker::spawn_missing(&self);
    }

    /// Retries the start hook until it succeeds.
    async fn run_owed_hook(&self) {
        let (mut delay, delay_max) = START_RETRY;
        while let Err(reason) = self.run_hook_as_holder().await {
            self.context.event(&self.name, None, Severity::Warning, "StartFailed", &reason);
            tokio::time::sleep(delay).await;
            delay = (delay * 2).min(delay_max);
        }
        self.lifecycle.owes_hook.store(false, Ordering::Relaxed);
    }

    /// Runs the start hook under a lease that this host holds, where one is needed.
    async fn run_hook_as_holder(&self) -> Result<(), String> {
        let placement = &self.slot.placement;
        placement.wait_until_held().await;
        match placement.enter_any() {
            GateEntry::Free => self.run_start_hooks().await,
            GateEntry::Inside(pass) => tokio::select! {
                biased;
                ended = self.run_start_hooks() => ended,
                () = pass.lost() => Err("this host has lost its lease".to_owned()),
            },
            GateEntry::Refused => Err("this host has lost its lease".to_owned()),
        }
    }

    /// Runs the start hook of the stable version, and that of a canary that waited for a lease. A canary fails alone.
    async fn run_start_hooks(&self) -> Result<(), String> {
        self.run_start_hook(&self.slot.current()).await?;
        if let Some(trial) = self.slot.canary().filter(|trial| trial.loaded.owes_hook()) {
            if let Err(reason) = self.run_start_hook(&trial.loaded).await {
                trial.fail(format!("the start hook failed: {reason}"));
            }
            trial.loaded.set_owes_hook(false);
        }
        Ok(())
    }

    /// Starts the feeders anew when this host holds another lease, which lists the keys of its shard. Ends them when it
    /// holds none.
    async fn follow_placement(self: Arc<Self>) {
        let placement = &self.slot.placement;
        let (mut changes, mut former, mut is_listing) = (placement.changes(), Vec::new(), false);
        loop {
            let held = placement.held().unwrap_or_default();
            if held != former {
                let message = format!("this host holds {} of {} leases", held.len(), placement.count());
                self.context.event(&self.name, None, Severity::Normal, "LeaderElection", &message);
            }
            if former.iter().any(|shard| !held.contains(shard)) {
                // Their next holder lists them. If this host is it, it begins its feeders anew.
                self.queue.retain(|key| placement.has(key));
                self.follows.retain(|key| placement.has(key));
            }
            if held.iter().any(|shard| !former.contains(shard)) {
                // A version that was installed while another host worked has not started yet.
                if self.lifecycle.owes_hook.load(Ordering::Relaxed) {
                    tokio::select! {
                        biased;
                        () = self.feeders.stopped() => return,
                        () = self.run_owed_hook() => {}
                    }
                }
                self.feeders.begin();
                is_listing = true;
            } else if held.is_empty() && !former.is_empty() {
                self.feeders.pause();
            }
            former = held;
            tokio::select! {
                biased;
                () = self.feeders.stopped() => return,
                // The sender lives as long as the placement.
                _changed = changes.changed() => {}
                // The status says that the lists are there.
                true = self.feeders.wait_for_sync(), if is_listing => {
                    is_listing = false;
                    placement.notify();
                }
            }
        }
    }

    /// Waits until the controller reconciles, or another host does. Returns `false` if it is being removed.
    pub(crate) async fn is_ready(&self) -> bool {
        tokio::select! {
            biased;
            () = self.lifecycle.started.cancelled() => self.feeders.wait_for_sync().await,
            () = self.slot.placement.wait_for_other_holder() => true,
            () = self.feeders.stopped() => false,
        }
    }

    /// Runs the start hook of a component that has one.
    pub(crate) async fn run_start_hook(&self, loaded: &LoadedVersion) -> Result<(), String> {
        if !loaded.component().exports().lifecycle {
            return Ok(());
        }
        let report = loaded.component().start(&self.name, &loaded.definition.limits, loaded.effects.clone()).await;
        report.result.map_err(|fault| fault.to_string())
    }

    /// Stops a controller in order: feeders, queue, stop hook.
    ///
    /// With `drain`, ready keys still run; otherwise they are dropped. Running reconciles may finish until
    /// the deadline, and are aborted then.
    pub(crate) async fn stop(&self, deadline: Duration, drain: bool) -> RemovalReport {
        let end = Instant::now() + deadline;
        self.feeders.stop();
        // A queue that waits for a start hook, a first list or a resume cannot drain.
        if drain && self.readiness().0 == ControllerState::Ready {
            self.queue.drain(deadline).await;
        }
        self.queue.stop();
        self.lifecycle.tasks.close();
        // The report names the reconciles that still run at the deadline.
        drop(tokio::time::timeout_at(end, self.lifecycle.tasks.wait()).await);
        let left = self.queue.abort();
        self.lifecycle.tasks.wait().await;
        drop(tokio::time::timeout(STOP_HOOK_MAX, self.run_stop_hook()).await);
        // The last step: until here another host must not begin.
        self.slot.placement.leave().await;
        self.lifecycle.wait_for_previous().await;
        self.lifecycle.ended.cancel();
        RemovalReport { finished: left.finished, dropped: left.dropped, interrupted: left.running }
    }

    /// Returns whether the controller is being removed or the host is stopping.
    pub(crate) fn is_stopping(&self) -> bool {
        self.feeders.is_stopped()
    }

    /// Reports the grants that the component will need and does not have.
    pub(crate) fn tell_missing_grants(&self) {
        let Definition { component, grants, .. } = &self.slot.current().definition;
        if let Some(missing) = component.missing_grants(grants) {
            self.context.event(&self.name, None, Severity::Warning, "GrantsMissing", &missing);
        }
    }

    /// Reports that a worker panicked. That is a bug of the host; the key is back on the queue.
    pub(crate) fn note_panic(&self) {
        self.context.event(&self.name, None, Severity::Warning, "WorkerPanicked", "a worker of the host panicked");
    }

    async fn run_stop_hook(&self) {
        let loaded = self.slot.current();
        if loaded.component().exports().lifecycle && self.lifecycle.has_started() {
            let report = loaded.component().stop(&self.name, &loaded.definition.limits, loaded.effects.clone()).await;
            if let Err(fault) = report.result {
                self.context.event(&self.name, None, Severity::Warning, "StopFailed", &fault.to_string());
            }
        }
    }

    /// Returns all measures.
    pub(crate) fn measure(&self) -> ControllerMeasures {
        self.telemetry.measure(self.status(), &self.queue, &self.slot)
    }

    /// Returns the current status.
    pub(crate) fn status(&self) -> ControllerStatus {
        let loaded = self.slot.current();
        let spec = loaded.component().describe();
        let counts = self.queue.counts();
        let (state, message) = self.state();
        let spent = self.telemetry.costs.spent();
        ControllerStatus {
            name: self.name.to_string(),
            state,
            message,
            digest: loaded.component().digest().to_string(),
            code: crate::CodeStatus::of(loaded.component()),
            generation: loaded.generation,
            answered: self.slot.answered(),
            manages: spec.manages.kind.clone(),
            watches: spec.watches.iter().map(|watch| watch.of.kind.clone()).collect(),
            concurrency: loaded.settings.concurrency,
            counts: QueueCounts {
                waiting: counts.waiting,
                ready: counts.ready,
                running: counts.running,
                parked: counts.parked,
            },
            reconciles: spent.runs,
            failures: spent.failures,
            last_swap: self.telemetry.stats.last_swap(),
            leases: self.slot.placement.status(),
            feeders: self.feeders.declared(),
        }
    }

    fn state(&self) -> (ControllerState, Option<String>) {
        if self.is_stopping() { (ControllerState::Stopping, None) } else { self.readiness() }
    }

    fn readiness(&self) -> (ControllerState, Option<String>) {
        let unlisted = self.feeders.unsynced();
        if !self.slot.placement.is_holder() {
            (ControllerState::Standby, Some(self.slot.placement.standby_message()))
        } else if !self.lifecycle.has_started() {
            (ControllerState::Starting, Some("the start hook has not succeeded yet".into()))
        } else if !unlisted.is_empty() {
            (ControllerState::Syncing, Some(format!("waits for the first list of {}", unlisted.join(", "))))
        } else {
            let failing = self.feeders.failing();
            let failing = (!failing.is_empty()).then(|| failing.join("; "));
            match self.suspension.with(|suspension| suspension) {
                Suspend::No => (ControllerState::Ready, failing),
                Suspend::Yes => (ControllerState::Suspended, None),
                Suspend::ExceptDeletes => (ControllerState::Suspended, Some("only deletions run".into())),
            }
        }
    }
}
