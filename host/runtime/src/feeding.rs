//! The feeders of one controller: which there are, and when they begin and end.

use std::collections::BTreeSet;
use std::sync::Arc;

use homeostat_component::{ControllerSpec, Mapping};
use homeostat_store::{Key, Kind};
use homeostat_workqueue::Queue;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Settings;
use crate::context::Context;
use crate::feeders::{
    Feeder, FollowFeeder, Gate, GuestMap, How, Intake, PollFeeder, ResyncFeeder, WatchFeeder, supervise,
};
use crate::follows::Follows;
use crate::slot::{Loaded, Slot};

pub(crate) struct Feeding {
    controller: Arc<str>,
    context: Arc<Context>,
    slot: Arc<Slot>,
    queue: Queue<Key>,
    manages: Kind,
    gate: Gate,
    tasks: TaskTracker,
    /// Cancelled when the controller goes.
    end: CancellationToken,
    current: Mutex<Current>,
}

struct Current {
    /// Ends what the component's own description asks for.
    round: CancellationToken,
    /// Kinds that are followed on behalf of keys.
    followed: BTreeSet<Kind>,
}

impl Feeding {
    /// Starts the feeders that the slot's component asks for.
    pub(crate) fn start(
        controller: Arc<str>,
        context: Arc<Context>,
        slot: Arc<Slot>,
        queue: Queue<Key>,
        tasks: TaskTracker,
    ) -> Self {
        let loaded = slot.current();
        let feeders = feeders(&controller, &context, &slot, &loaded);
        let gate = Gate::new(feeders.iter().filter(|feeder| feeder.lists_first()).map(|feeder| feeder.name().into()));
        let manages = loaded.component().describe().manages.kind.clone();
        let end = CancellationToken::new();
        let current = Mutex::new(Current { round: end.child_token(), followed: BTreeSet::new() });
        let feeding = Self { controller, context, slot, queue, manages, gate, tasks, end, current };
        feeding.begin(feeders);
        feeding
    }

    /// Waits until every watch had its first full list.
    pub(crate) async fn listed(&self) {
        self.gate.opened().await;
    }

    /// Returns the feeders that lack their first full list.
    pub(crate) fn waiting_for(&self) -> Vec<Arc<str>> {
        self.gate.waiting_for()
    }

    /// Ends the feeders of the component before, and starts those of the one that the slot holds now.
    pub(crate) fn restart(&self) {
        let feeders = feeders(&self.controller, &self.context, &self.slot, &self.slot.current());
        let mut current = self.lock();
        current.round.cancel();
        current.round = self.end.child_token();
        drop(current);
        self.begin(feeders);
    }

    fn begin(&self, feeders: Vec<Arc<dyn Feeder>>) {
        let round = self.lock().round.clone();
        for feeder in feeders {
            self.supervise(feeder, round.clone());
        }
    }

    /// Adds a feeder that somebody else wrote. It runs until the controller goes.
    pub(crate) fn add(&self, feeder: Arc<dyn Feeder>) {
        self.supervise(feeder, self.end.clone());
    }

    /// Starts to follow the kinds that keys ask for and that are not followed yet.
    pub(crate) fn follow(&self, follows: &Arc<Follows>) {
        for kind in follows.kinds() {
            if self.lock().followed.insert(kind.clone()) {
                let feeder = FollowFeeder::new(self.context.store.clone(), kind, follows.clone());
                self.supervise(Arc::new(feeder), self.end.clone());
            }
        }
    }

    /// Waits until [`Feeding::stop`] is called.
    pub(crate) async fn stopped(&self) {
        self.end.cancelled().await;
    }

    /// Ends every feeder.
    pub(crate) fn stop(&self) {
        self.end.cancel();
    }

    fn supervise(&self, feeder: Arc<dyn Feeder>, stop: CancellationToken) {
        let intake = Intake::new(self.queue.clone(), self.manages.clone(), self.gate.clone(), feeder.name());
        self.tasks.spawn(supervise(feeder, intake, self.controller.clone(), self.context.clone(), stop));
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Current> {
        self.current.lock()
    }
}

/// Says whether two components ask for different feeders.
pub(crate) fn differs(before: (&ControllerSpec, &Settings), after: (&ControllerSpec, &Settings)) -> bool {
    before.0.watches != after.0.watches
        || before.0.manages != after.0.manages
        || before.1.poll != after.1.poll
        || before.1.resync != after.1.resync
}

/// Returns the feeders that a component asks for: a watch of its own kind, of the others, a poll, a resync.
fn feeders(controller: &Arc<str>, context: &Arc<Context>, slot: &Arc<Slot>, loaded: &Loaded) -> Vec<Arc<dyn Feeder>> {
    let spec = loaded.component().describe();
    let managed = &spec.manages.kind;
    let store = || context.store.clone();
    let mut feeders: Vec<Arc<dyn Feeder>> = Vec::new();
    if !spec.manages.keys_only {
        let itself = WatchFeeder::new(&managed.to_string(), store(), managed.clone(), managed.clone(), How::Itself);
        feeders.push(Arc::new(itself));
        feeders.push(Arc::new(ResyncFeeder { store: store(), kind: managed.clone(), every: loaded.settings.resync }));
    }
    for watch in &spec.watches {
        let how = match &watch.mapping {
            Mapping::Guest => How::Asked(GuestMap::new(&watch.name, controller.clone(), slot.clone(), context.clone())),
            mapping => How::Mapped(mapping.clone()),
        };
        feeders.push(Arc::new(WatchFeeder::new(&watch.name, store(), watch.of.kind.clone(), managed.clone(), how)));
    }
    if let Some(every) = loaded.settings.poll {
        let (controller, slot, context) = (controller.clone(), slot.clone(), context.clone());
        feeders.push(Arc::new(PollFeeder { controller, slot, context, every }));
    }
    feeders
}
