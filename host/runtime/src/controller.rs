//! One running controller: its queue, its slot, and the tasks around them.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use homeostat_component::Severity;
use homeostat_store::Key;
use homeostat_workqueue::Queue;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::context::Context;
use crate::costs::{Costs, Recorder};
use crate::failures::FailureLog;
use crate::feeder_set::FeederSet;
use crate::feeders::DELETIONS_BAND;
use crate::follows::Follows;
use crate::observations::Observations;
use crate::rollout::ShadowReport;
use crate::rollout::shadow::Shadow;
use crate::scheduler::Tenant;
use crate::slot::LoadedVersion;
use crate::slot::Slot;
use crate::stats::Stats;
use crate::status::{ControllerState, ControllerStatus, QueueCounts};
use crate::{Definition, Settings, Suspend, effect_stack};

mod change;
mod measures;
mod removal;
mod worker;

pub use change::SwapReport;
pub(crate) use change::{KeyFilter, ResetParked};
pub use removal::{RemovalReport, RemovedCounts};
use worker::Workers;

/// The backoff of a failing start hook: the first wait, and the maximum.
const START_RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));

/// Maximum time of a stop hook when its controller ends.
pub const STOP_HOOK_MAX: Duration = Duration::from_secs(5);

pub(crate) struct Controller {
    pub(crate) name: Arc<str>,
    pub(crate) context: Arc<Context>,
    pub(crate) queue: Queue<Key>,
    pub(crate) slot: Arc<Slot>,
    pub(crate) feeders: FeederSet,
    pub(crate) follows: Arc<Follows>,
    pub(crate) observations: Arc<Observations>,
    pub(crate) costs: Costs,
    /// When the controller was added.
    pub(crate) began: Instant,
    pub(crate) stats: Stats,
    pub(crate) failures: FailureLog,
    pub(crate) recorder: Arc<dyn Recorder>,
    pub(crate) workers: Workers,
    /// The shadow that runs beside it.
    pub(crate) shadow: ArcSwapOption<Shadow>,
    /// The report of the last shadow that ended.
    pub(crate) last_shadow: Mutex<Option<ShadowReport>>,
    /// Its tenant in the scheduler.
    tenant: Tenant,
    /// Held while the definition changes: one change at a time.
    pub(crate) changing: tokio::sync::Mutex<()>,
    /// Cancelled when the start hook has succeeded.
    started: CancellationToken,
    /// The operator's suspension, independent of the definition's. Locked while either is applied to the
    /// queue.
    held: Mutex<Suspend>,
    /// Cancelled when the previous controller of this name has ended.
    before: Option<CancellationToken>,
    /// Cancelled when nothing runs under this name any more.
    pub(crate) ended: CancellationToken,
    tasks: TaskTracker,
}

impl Controller {
    /// Starts a controller. Its feeders start at once; its workers start when every watch had its first full
    /// list and the start hook has succeeded.
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
        let follows = Arc::<Follows>::default();
        let settings = Settings::merge(definition.component.describe(), &definition.overrides);
        let seed = context.seed(&name);
        let options = homeostat_workqueue::Options { seed, ..settings.queue_options(&definition.limits) };
        let queue = Queue::within(context.room.clone(), options);
        let observations = Arc::<Observations>::default();
        let effects = effect_stack::build(&context, &follows, &observations, &definition);
        let slot = Arc::new(Slot::new(LoadedVersion::new(definition, settings, effects, 1)));
        let (tasks, account) = (TaskTracker::new(), context.scheduler.tenant());
        let feeding = {
            let (name, context, slot, account) = (name.clone(), context.clone(), slot.clone(), account.clone());
            FeederSet::start(name, context, slot, account, queue.clone(), tasks.clone())
        };
        let controller = Arc::new(Self {
            recorder: context.observer.controller(&name),
            feeders: feeding,
            name,
            context,
            queue,
            slot,
            follows,
            observations,
            costs: Costs::default(),
            began: Instant::now(),
            stats: Stats::default(),
            failures: FailureLog::default(),
            workers: Workers::default(),
            shadow: ArcSwapOption::empty(),
            last_shadow: Mutex::default(),
            tenant: account,
            changing: tokio::sync::Mutex::default(),
            started: CancellationToken::new(),
            held: Mutex::new(held),
            before,
            ended: CancellationToken::new(),
            tasks,
        });
        controller.tell_missing_grants();
        controller.apply_suspension();
        controller.tasks.spawn(controller.tenant.run(|_| controller.clone().hook_then_work()));
        controller
    }

    /// Waits for the previous controller of this name to end, retries the start hook until it succeeds, then
    /// starts the workers.
    async fn hook_then_work(self: Arc<Self>) {
        let started = async {
            self.before_has_ended().await;
            let (mut delay, delay_max) = START_RETRY;
            while let Err(reason) = self.run_start_hook(&self.slot.current()).await {
                self.context.event(&self.name, None, Severity::Warning, "StartFailed", &reason);
                tokio::time::sleep(delay).await;
                delay = (delay * 2).min(delay_max);
            }
        };
        tokio::select! {
            biased;
            () = started => {}
            () = self.feeders.stopped() => return,
        }
        self.started.cancel();
        self.spawn_workers();
    }

    /// Waits until the controller reconciles. Returns `false` if it is being removed.
    pub(crate) async fn is_ready(&self) -> bool {
        tokio::select! {
            biased;
            () = self.started.cancelled() => self.feeders.wait_for_sync().await,
            () = self.feeders.stopped() => false,
        }
    }

    async fn before_has_ended(&self) {
        if let Some(before) = &self.before {
            before.cancelled().await;
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

    /// Starts missing workers, once the start hook has succeeded.
    pub(crate) fn spawn_workers(self: &Arc<Self>) {
        if self.started.is_cancelled() {
            for _ in 0..self.workers.missing(self.slot.concurrency()) {
                self.tasks.spawn(self.tenant.run(|turn| worker::work(self.clone(), turn)));
            }
        }
    }

    /// Runs a task under the scheduler until the controller has ended.
    pub(crate) fn spawn_in_turns(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(self.tenant.run(|_| task));
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
        self.tasks.close();
        // The report names the reconciles that still run at the deadline.
        drop(tokio::time::timeout_at(end, self.tasks.wait()).await);
        let left = self.queue.abort();
        self.tasks.wait().await;
        drop(tokio::time::timeout(STOP_HOOK_MAX, self.run_stop_hook()).await);
        self.before_has_ended().await;
        self.ended.cancel();
        RemovalReport { finished: left.finished, dropped: left.dropped, interrupted: left.running }
    }

    /// Returns whether the controller is being removed or the host is stopping.
    pub(crate) fn is_stopping(&self) -> bool {
        self.feeders.is_stopped()
    }

    /// Sets the operator's suspension.
    pub(crate) fn hold(&self, hold: Suspend) {
        let mut held = self.held.lock();
        *held = hold;
        self.suspend_by(*held);
    }

    /// Applies the suspension of the definition and of the operator to the queue.
    pub(crate) fn apply_suspension(&self) {
        let held = self.held.lock();
        self.suspend_by(*held);
    }

    /// The caller keeps `held` locked.
    fn suspend_by(&self, held: Suspend) {
        let deletions = self.feeders.deletions();
        match self.suspension(held) {
            Suspend::No => {
                deletions.set_deletions_only(false);
                self.queue.resume();
            }
            Suspend::Yes => {
                self.end_shadow();
                self.queue.suspend();
                deletions.set_deletions_only(false);
            }
            Suspend::ExceptDeletes => {
                // Suspended completely first, so that no key slips through while the bands are reordered.
                self.queue.suspend();
                deletions.set_deletions_only(true);
                self.queue.suspend_below(DELETIONS_BAND);
            }
        }
    }

    /// Calls `act` with the effective suspension, which cannot change meanwhile.
    pub(crate) fn with_suspension<R>(&self, act: impl FnOnce(Suspend) -> R) -> R {
        let held = self.held.lock();
        act(self.suspension(*held))
    }

    /// Returns the effective suspension: the stricter of the operator's and the definition's.
    fn suspension(&self, held: Suspend) -> Suspend {
        held.and(self.slot.current().definition.suspend)
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
        if loaded.component().exports().lifecycle && self.started.is_cancelled() {
            let report = loaded.component().stop(&self.name, &loaded.definition.limits, loaded.effects.clone()).await;
            if let Err(fault) = report.result {
                self.context.event(&self.name, None, Severity::Warning, "StopFailed", &fault.to_string());
            }
        }
    }

    /// Returns the current status.
    pub(crate) fn status(&self) -> ControllerStatus {
        let loaded = self.slot.current();
        let spec = loaded.component().describe();
        let counts = self.queue.counts();
        let (state, message) = self.state();
        let spent = self.costs.spent();
        ControllerStatus {
            name: self.name.to_string(),
            state,
            message,
            digest: loaded.component().digest().to_string(),
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
            last_swap: self.stats.last_swap(),
        }
    }

    fn state(&self) -> (ControllerState, Option<String>) {
        if self.is_stopping() { (ControllerState::Stopping, None) } else { self.readiness() }
    }

    fn readiness(&self) -> (ControllerState, Option<String>) {
        let unlisted = self.feeders.unsynced();
        if !self.started.is_cancelled() {
            (ControllerState::Starting, Some("the start hook has not succeeded yet".into()))
        } else if !unlisted.is_empty() {
            (ControllerState::Syncing, Some(format!("waits for the first list of {}", unlisted.join(", "))))
        } else {
            let held = *self.held.lock();
            let failing = self.feeders.failing();
            let failing = (!failing.is_empty()).then(|| failing.join("; "));
            match self.suspension(held) {
                Suspend::No => (ControllerState::Ready, failing),
                Suspend::Yes => (ControllerState::Suspended, None),
                Suspend::ExceptDeletes => (ControllerState::Suspended, Some("only deletions run".into())),
            }
        }
    }
}
