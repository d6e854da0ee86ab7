//! The feeders of one controller: which there are, and when each begins and ends.

use std::sync::{Arc, Weak};
use std::time::Duration;

use homeostat_component::{Changes, Grants, Limits, Mapping, Watch};
use homeostat_store::{Key, Kind};
use homeostat_workqueue::{Options, Queue};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::context::Context;
use crate::feeders::{
    Feeder, FeederId, FollowFeeder, GuestMap, Intake, KeyMapper, PollFeeder, ResyncFeeder, SlotGuest, SuspendFilter,
    SyncBarrier, WatchFeeder, supervise,
};
use crate::follows::Follows;
use crate::mapping::ManagedKind;
use crate::rollout::Track;
use crate::slot::{LoadedVersion, Slot};
use crate::trial::CanaryStep;
use crate::turns::Tenant;

pub(crate) struct FeederSet {
    controller: Arc<str>,
    context: Arc<Context>,
    slot: Arc<Slot>,
    /// Feeders run in their controller's turns: a guest that maps or polls is as greedy as one that reconciles.
    account: Tenant,
    deletions: Arc<SuspendFilter>,
    manages: ManagedKind,
    barrier: SyncBarrier,
    /// Of the feeders that only a candidate asks for: they hold back nobody but it.
    canary_barrier: SyncBarrier,
    tasks: TaskTracker,
    /// Cancelled when the controller goes.
    end: CancellationToken,
    current: Mutex<FeederList>,
}

#[derive(Default)]
struct FeederList {
    /// Counts feeders that were started.
    round: u64,
    /// Those that the slot's component asks for.
    wanted: Vec<ActiveFeeder>,
}

/// What a component asks for: two that are equal are one feeder.
#[derive(Clone, Debug, PartialEq)]
enum FeederSpec {
    /// A watch of the managed kind, as far as it is granted.
    Managed(Kind, Changes, Box<Grants>),
    /// A watch of another kind, as far as that and the managed one are granted.
    Watch(Box<Watch>, Box<Grants>),
    /// A second look at every key, once in a while.
    Resync(Kind, Duration),
    /// The guest's own poll.
    Poll(Duration),
}

struct ActiveFeeder {
    spec: FeederSpec,
    /// The candidate for which it was begun.
    owner: Option<Weak<LoadedVersion>>,
    barrier: SyncBarrier,
    id: FeederId,
    end: CancellationToken,
}

impl FeederSet {
    /// Starts the feeders that the slot's component asks for.
    pub(crate) fn start(
        controller: Arc<str>,
        context: Arc<Context>,
        slot: Arc<Slot>,
        account: Tenant,
        queue: Queue<Key>,
        tasks: TaskTracker,
    ) -> Self {
        let manages = ManagedKind::of(&slot.current().component().describe().manages);
        let (gate, tried) = (SyncBarrier::new(), SyncBarrier::new());
        let (end, current) = (CancellationToken::new(), Mutex::default());
        let deletions = Arc::new(SuspendFilter::of(queue));
        let feeding = Self {
            controller,
            context,
            slot,
            account,
            deletions,
            manages,
            barrier: gate,
            canary_barrier: tried,
            tasks,
            end,
            current,
        };
        feeding.sync_feeders();
        feeding
    }

    /// Waits until every watch had its first full list. `false`: they never will, the feeders have ended.
    pub(crate) async fn wait_for_sync(&self) -> bool {
        tokio::select! {
            biased;
            () = self.barrier.wait_for_sync() => true,
            () = self.end.cancelled() => false,
        }
    }

    /// Returns whether every watch had its first full list.
    pub(crate) fn has_synced(&self) -> bool {
        self.barrier.has_synced()
    }

    /// Returns whether every watch that only a candidate asks for had its first full list.
    pub(crate) fn has_canary_synced(&self) -> bool {
        self.canary_barrier.has_synced()
    }

    /// Returns the feeders that lack their first full list.
    pub(crate) fn unsynced(&self) -> Vec<Arc<str>> {
        self.barrier.unsynced()
    }

    /// Returns which keys are let through while the controller is suspended but for deletions.
    pub(crate) fn deletions(&self) -> &Arc<SuspendFilter> {
        &self.deletions
    }

    /// Returns the feeders that fail, with why.
    pub(crate) fn failing(&self) -> Vec<String> {
        [self.barrier.failing(), self.canary_barrier.failing()].concat()
    }

    /// Brings the feeders in line with what the slot's component asks for now, and with what a candidate asks for besides. Those that are
    /// asked for still go on undisturbed. One that asks the guest asks the version that wants it, and each of both has its own; one that
    /// does not is the same for both.
    ///
    /// A feeder that is no longer asked for ends when all new ones have listed: a change in between is told by one of them.
    pub(crate) fn sync_feeders(&self) {
        let trial = self.slot.canary();
        let wishes = feeder_specs(&self.slot.current());
        let tried = trial.as_deref().filter(|trial| !trial.is_shadow).map(|trial| canary_feeder_specs(&trial.loaded));
        let tried = tried.into_iter().flatten().filter(|wish| wish.asks_guest() || !wishes.contains(wish));
        let tried: Vec<_> = tried.map(|wish| (wish, Track::Canary)).collect();
        let mut missing: Vec<_> = wishes.into_iter().map(|wish| (wish, Track::Stable)).chain(tried).collect();
        let mut current = self.current.lock();
        let (kept, gone) = std::mem::take(&mut current.wanted).into_iter().partition(|running| {
            let side = running.side(trial.as_deref());
            let at = missing.iter().position(|(wish, wanted_by)| *wish == running.spec && *wanted_by == side);
            at.map(|at| missing.remove(at)).is_some()
        });
        current.wanted = kept;
        let mut new = Vec::new();
        for (wish, side) in missing {
            let (gate, whose) = match side {
                Track::Stable => (&self.barrier, None),
                Track::Canary => (&self.canary_barrier, trial.as_ref().map(|trial| Arc::downgrade(&trial.loaded))),
            };
            let end = self.end.child_token();
            let ticket = self.supervise(&mut current, self.feeder(&wish, whose.clone()), gate, end.clone());
            new.push((gate.clone(), ticket.clone()));
            current.wanted.push(ActiveFeeder { spec: wish, owner: whose, barrier: gate.clone(), id: ticket, end });
        }
        drop(current);
        self.end_after(gone, new);
    }

    fn end_after(&self, gone: Vec<ActiveFeeder>, new: Vec<(SyncBarrier, FeederId)>) {
        if gone.is_empty() {
            return;
        }
        let end = self.end.clone();
        self.tasks.spawn(async move {
            for (gate, ticket) in &new {
                tokio::select! {
                    biased;
                    () = gate.wait_for_feeder(ticket) => {}
                    () = end.cancelled() => return,
                }
            }
            for running in gone {
                running.end.cancel();
                running.barrier.mark_synced(&running.id);
            }
        });
    }

    /// Adds a feeder that somebody else wrote. It runs until the controller goes.
    pub(crate) fn add(&self, feeder: Arc<dyn Feeder>) {
        self.supervise(&mut self.current.lock(), feeder, &self.barrier, self.end.clone());
    }

    /// Starts to follow the kinds that keys ask for and that are not followed yet.
    pub(crate) fn watch_followed(&self, follows: &Arc<Follows>) {
        let mut current = self.current.lock();
        for kind in follows.take_unwatched() {
            let feeder = FollowFeeder::new(self.context.watches.clone(), kind, follows.clone());
            self.supervise(&mut current, Arc::new(feeder), &self.barrier, self.end.clone());
        }
    }

    /// Waits until [`FeederSet::stop`] is called.
    pub(crate) async fn stopped(&self) {
        self.end.cancelled().await;
    }

    /// Returns whether [`FeederSet::stop`] was called.
    pub(crate) fn is_stopped(&self) -> bool {
        self.end.is_cancelled()
    }

    /// Ends every feeder.
    pub(crate) fn stop(&self) {
        self.end.cancel();
    }

    fn supervise(
        &self,
        current: &mut FeederList,
        feeder: Arc<dyn Feeder>,
        gate: &SyncBarrier,
        stop: CancellationToken,
    ) -> FeederId {
        current.round += 1;
        let ticket = FeederId { feeder: feeder.name().into(), round: current.round };
        if feeder.lists_first() {
            gate.register(ticket.clone());
        }
        let (deletions, audience) = (self.deletions.clone(), self.slot.clone());
        let intake = Intake::new(deletions, audience, self.manages.clone(), gate.clone(), ticket.clone())
            .telling(self.controller.clone(), self.context.clone());
        let (controller, context) = (self.controller.clone(), self.context.clone());
        self.tasks.spawn(self.account.run(|_| supervise(feeder, intake, controller, context, stop)));
        ticket
    }

    fn feeder(&self, wish: &FeederSpec, whose: Option<Weak<LoadedVersion>>) -> Arc<dyn Feeder> {
        let (store, watches) = (self.context.store.clone(), self.context.watches.clone());
        let manages = self.manages.clone();
        let (controller, slot, context) = (self.controller.clone(), self.slot.clone(), self.context.clone());
        match wish.clone() {
            FeederSpec::Managed(kind, changes, grants) => Arc::new(WatchFeeder::new(
                &kind.to_string(),
                watches,
                kind,
                manages,
                KeyMapper::Identity,
                changes,
                *grants,
            )),
            FeederSpec::Watch(watch, grants) => {
                let how = match &watch.mapping {
                    Mapping::Guest => {
                        // As much as the controller's own queue: what waits here is bounded like what waits there.
                        let Limits { keys_max, error_bytes_max, .. } = slot.current().definition.limits;
                        let (keys_max, error_bytes_max) = (Some(keys_max), Some(error_bytes_max));
                        let seed = context.seed(&watch.name);
                        let options = Options { seed, keys_max, error_bytes_max, ..Options::default() };
                        let changes = Queue::within(context.room.clone(), options);
                        let guest = Arc::new(SlotGuest { controller, slot, owner: whose, context });
                        KeyMapper::Guest(GuestMap::new(watch.clone(), guest, changes))
                    }
                    mapping => KeyMapper::Declared(mapping.clone()),
                };
                Arc::new(WatchFeeder::new(&watch.name, watches, watch.of.kind, manages, how, watch.changes, *grants))
            }
            FeederSpec::Resync(kind, every) => Arc::new(ResyncFeeder { store, kind, every }),
            FeederSpec::Poll(every) => Arc::new(PollFeeder { controller, slot, owner: whose, context, every }),
        }
    }
}

impl FeederSpec {
    /// Returns whether the guest answers which keys there are.
    fn asks_guest(&self) -> bool {
        match self {
            Self::Watch(watch, _) => matches!(watch.mapping, Mapping::Guest),
            Self::Poll(_) => true,
            Self::Managed(..) | Self::Resync(..) => false,
        }
    }
}

impl ActiveFeeder {
    /// Returns for which version it feeds. What was begun for a candidate is what runs' when that is promoted.
    fn side(&self, trial: Option<&CanaryStep>) -> Track {
        let is_candidates = |trial: &CanaryStep| self.owner.as_ref().is_some_and(|whose| trial.is_candidate(whose));
        if trial.is_some_and(is_candidates) { Track::Canary } else { Track::Stable }
    }
}

/// Returns what a component asks for: watches, a resync, a poll.
fn feeder_specs(loaded: &LoadedVersion) -> Vec<FeederSpec> {
    let manages = &loaded.component().describe().manages;
    let mut wishes = watches(loaded);
    if !manages.keys_only {
        wishes.push(FeederSpec::Resync(manages.kind.clone(), loaded.settings.resync));
    }
    wishes.extend(loaded.settings.poll.map(FeederSpec::Poll));
    wishes
}

/// Returns what a candidate asks for: the resync is that of what runs.
fn canary_feeder_specs(loaded: &LoadedVersion) -> Vec<FeederSpec> {
    feeder_specs(loaded).into_iter().filter(|wish| !matches!(wish, FeederSpec::Resync(..))).collect()
}

/// Returns the watches that a component asks for: of its own kind, and of the others. Other grants for their kinds make other watches, which
/// list anew.
fn watches(loaded: &LoadedVersion) -> Vec<FeederSpec> {
    let (spec, grants) = (loaded.component().describe(), &loaded.definition.grants);
    let managed = &spec.manages.kind;
    let about = |kinds: &[&Kind]| Box::new(grants.for_kinds(kinds));
    let itself =
        (!spec.manages.keys_only).then(|| FeederSpec::Managed(managed.clone(), spec.changes, about(&[managed])));
    let others = spec.watches.iter();
    let others = others.map(|watch| FeederSpec::Watch(Box::new(watch.clone()), about(&[managed, &watch.of.kind])));
    itself.into_iter().chain(others).collect()
}
