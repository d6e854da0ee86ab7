//! One controller that runs: its queue, what its slot holds, and the tasks around them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use homeostat_component::Severity;
use homeostat_store::Key;
use homeostat_workqueue::Queue;
use tokio_util::task::TaskTracker;

use crate::context::Context;
use crate::feeding::Feeding;
use crate::follows::Follows;
use crate::slot::{Loaded, Slot};
use crate::stats::{Stats, Workers};
use crate::status::{ControllerState, ControllerStatus, Counts};
use crate::{Definition, Removed, Settings, sink, worker};

/// The wait before a start hook that failed is tried again: after the first failure, and at most.
const START_RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));

pub(crate) struct Controller {
    pub(crate) name: Arc<str>,
    pub(crate) context: Arc<Context>,
    pub(crate) queue: Queue<Key>,
    pub(crate) slot: Arc<Slot>,
    pub(crate) feeding: Feeding,
    pub(crate) follows: Arc<Follows>,
    pub(crate) stats: Stats,
    pub(crate) workers: Workers,
    /// Held while the definition changes: one change at a time.
    pub(crate) changing: tokio::sync::Mutex<()>,
    started: AtomicBool,
    stopping: AtomicBool,
    tasks: TaskTracker,
}

impl Controller {
    /// Starts a controller: its feeders at once, its workers when every watch had its first full list and the start hook succeeded.
    pub(crate) fn start(context: Arc<Context>, definition: Definition) -> Arc<Self> {
        let name: Arc<str> = definition.name.as_str().into();
        let follows = Arc::<Follows>::default();
        let settings = Settings::merge(definition.component.describe(), &definition.overrides);
        let queue = Queue::new(settings.queue_options());
        if definition.suspend {
            queue.suspend();
        }
        let effects = sink::effects(&context, &follows, &definition);
        let slot = Arc::new(Slot::new(Loaded { definition, settings, effects, generation: 1 }));
        let tasks = TaskTracker::new();
        let controller = Arc::new(Self {
            feeding: Feeding::start(name.clone(), context.clone(), slot.clone(), queue.clone(), tasks.clone()),
            name,
            context,
            queue,
            slot,
            follows,
            stats: Stats::default(),
            workers: Workers::default(),
            changing: tokio::sync::Mutex::default(),
            started: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            tasks,
        });
        controller.tasks.spawn(controller.clone().hook_then_work());
        controller
    }

    /// Runs the start hook until it succeeds, then the workers.
    async fn hook_then_work(self: Arc<Self>) {
        let (mut delay, delay_max) = START_RETRY;
        while let Err(reason) = self.run_start_hook(&self.slot.current()).await {
            self.context.event(&self.name, None, Severity::Warning, "StartFailed", &reason);
            tokio::select! {
                () = tokio::time::sleep(delay) => delay = (delay * 2).min(delay_max),
                () = self.feeding.stopped() => return,
            }
        }
        self.started.store(true, Ordering::SeqCst);
        self.spawn_workers();
    }

    /// Runs the start hook of a component that has one.
    pub(crate) async fn run_start_hook(&self, loaded: &Loaded) -> Result<(), String> {
        if !loaded.component().exports().lifecycle {
            return Ok(());
        }
        let report = loaded.component().start(&self.name, &loaded.definition.limits, loaded.effects.clone()).await;
        report.result.map_err(|fault| fault.to_string())
    }

    /// Starts the workers that are missing, once the start hook succeeded.
    pub(crate) fn spawn_workers(self: &Arc<Self>) {
        if self.started.load(Ordering::SeqCst) {
            for _ in 0..self.workers.missing(self.slot.current().settings.concurrency) {
                self.tasks.spawn(worker::work(self.clone()));
            }
        }
    }

    /// Ends a controller in order: its feeders, then its queue, then its stop hook.
    ///
    /// With `drain` what is ready still runs, else it is dropped. What runs is stopped at the deadline.
    pub(crate) async fn stop(&self, deadline: Duration, drain: bool) -> Removed {
        self.stopping.store(true, Ordering::SeqCst);
        self.feeding.stop();
        // What is held back by a start hook or by a first list cannot drain.
        if !drain || self.readiness().0 != ControllerState::Ready {
            self.queue.stop();
        }
        let drained = self.queue.drain(deadline).await;
        self.queue.abort();
        self.tasks.close();
        self.tasks.wait().await;
        self.run_stop_hook().await;
        Removed { finished: drained.finished, dropped: drained.dropped, interrupted: drained.running }
    }

    async fn run_stop_hook(&self) {
        let loaded = self.slot.current();
        if loaded.component().exports().lifecycle && self.started.load(Ordering::SeqCst) {
            let report = loaded.component().stop(&self.name, &loaded.definition.limits, loaded.effects.clone()).await;
            if let Err(fault) = report.result {
                self.context.event(&self.name, None, Severity::Warning, "StopFailed", &fault.to_string());
            }
        }
    }

    /// Says what it looks like now.
    pub(crate) fn status(&self) -> ControllerStatus {
        let loaded = self.slot.current();
        let spec = loaded.component().describe();
        let counts = self.queue.counts();
        let (state, message) = self.state();
        ControllerStatus {
            name: self.name.to_string(),
            state,
            message,
            digest: loaded.component().digest().to_string(),
            generation: loaded.generation,
            answered_by: self.stats.answered_by(),
            manages: spec.manages.kind.clone(),
            watches: spec.watches.iter().map(|watch| watch.of.kind.clone()).collect(),
            concurrency: loaded.settings.concurrency,
            counts: Counts {
                waiting: counts.waiting,
                ready: counts.ready,
                running: counts.running,
                parked: counts.parked,
            },
            reconciles: self.stats.reconciles(),
            failures: self.stats.failures(),
            last_swap: self.stats.last_swap(),
        }
    }

    fn state(&self) -> (ControllerState, Option<String>) {
        if self.stopping.load(Ordering::SeqCst) { (ControllerState::Stopping, None) } else { self.readiness() }
    }

    fn readiness(&self) -> (ControllerState, Option<String>) {
        let unlisted = self.feeding.waiting_for();
        if !self.started.load(Ordering::SeqCst) {
            (ControllerState::Starting, Some("the start hook has not succeeded yet".into()))
        } else if !unlisted.is_empty() {
            (ControllerState::Syncing, Some(format!("waits for the first list of {}", unlisted.join(", "))))
        } else if self.slot.current().definition.suspend {
            (ControllerState::Suspended, None)
        } else {
            (ControllerState::Ready, None)
        }
    }
}
