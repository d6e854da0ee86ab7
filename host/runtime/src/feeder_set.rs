//! The set of feeders of one controller, and when each starts and ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use homeostat_component::{Changes, Grants, Limits, Mapping, Watch};
use homeostat_store::{Key, Kind};
use homeostat_workqueue::{Options, Queue};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock::WallClock;
use crate::context::Context;
use crate::feeder_definition::{FeederDefinition, FeederSource, Webhook};
use crate::feeder_tally::{FeederStatus, FeederTally};
use crate::feeders::{
    CronFeeder, DynFeeder, FeederId, FilesFeeder, FollowFeeder, GuestMap, Inbox, Intake, IntervalFeeder, KeyAdder,
    KeyMapper, NatsFeeder, PollFeeder, ResyncFeeder, RunRecord, SlotGuest, SuspendFilter, SyncBarrier, WatchFeeder,
    WebhookFeeder, supervise,
};
use crate::follows::Follows;
use crate::mapping::ManagedKind;
use crate::rollout::{CanaryStep, Track};
use crate::scheduler::Tenant;
use crate::settle_waiters::SettleWaiters;
use crate::slot::LoadedVersion;
use crate::slot::Slot;

pub(crate) struct FeederSet {
    controller: Arc<str>,
    context: Arc<Context>,
    slot: Arc<Slot>,
    /// Feeders run as part of the controller's tenant: a guest's `map` and `poll` use as much time as its
    /// reconciles.
    account: Tenant,
    deletions: Arc<SuspendFilter>,
    /// The messages that wait for a reconcile of their keys.
    pub(crate) settled: Arc<SettleWaiters>,
    manages: ManagedKind,
    /// The sync barrier of the stable version's feeders.
    pub(crate) barrier: SyncBarrier,
    /// The sync barrier of feeders that only a canary needs. They hold back only the canary.
    canary_barrier: SyncBarrier,
    tasks: TaskTracker,
    /// Cancelled when the controller is removed.
    end: CancellationToken,
    current: Mutex<FeederList>,
    /// The webhooks of the manifest, by name. A feeder that has ended leaves nothing to upgrade.
    webhooks: Mutex<BTreeMap<Arc<str>, Weak<WebhookFeeder>>>,
}

#[derive(Default)]
struct FeederList {
    /// Number of feeders started so far.
    round: u64,
    /// The feeders that the slot's versions need.
    wanted: Vec<ActiveFeeder>,
    /// The feeders of the embedder.
    own: Vec<Arc<dyn DynFeeder>>,
    /// The counts of the declared feeders, by name. A lease that comes or goes keeps them.
    tallies: BTreeMap<Arc<str>, Arc<FeederTally>>,
    /// Cancelled when the feeders pause. `None` while they do: this host may have no key.
    running: Option<CancellationToken>,
}

/// One feeder that a component needs. Equal specs share a feeder.
#[derive(Clone, Debug, PartialEq)]
enum FeederSpec {
    /// A watch of the managed kind, within the grants.
    Managed(Kind, Changes, Box<Grants>),
    /// A watch of another kind, within the grants for it and for the managed kind.
    Watch(Box<Watch>, Box<Grants>),
    /// A periodic requeue of every key.
    Resync(Kind, Duration),
    /// The guest's poller.
    Poll(Duration),
    /// A feeder of the manifest.
    Declared(Box<FeederDefinition>),
}

struct ActiveFeeder {
    spec: FeederSpec,
    /// The canary that it was started for.
    owner: Option<Weak<LoadedVersion>>,
    barrier: SyncBarrier,
    id: FeederId,
    end: CancellationToken,
}

impl FeederSet {
    /// Creates the set. Starts nothing.
    pub(crate) fn new(
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
        Self {
            controller,
            context,
            slot,
            account,
            deletions,
            settled: Arc::default(),
            manages,
            barrier: gate,
            canary_barrier: tried,
            tasks,
            end,
            current,
            webhooks: Mutex::default(),
        }
    }

    /// Starts the feeders that the slot's versions need. Starts them anew if they run: they list all keys again, and the
    /// former ones end when they have.
    pub(crate) fn begin(&self) {
        let mut current = self.current.lock();
        if current.running.is_none() {
            let running = self.end.child_token();
            current.running = Some(running.clone());
            for feeder in current.own.clone() {
                self.supervise(&mut current, feeder, &self.barrier, running.clone(), None);
            }
        }
        let former = std::mem::take(&mut current.wanted);
        drop(current);
        self.sync_after(former);
    }

    /// Ends all feeders until [`FeederSet::begin`]: no key may run on this host.
    pub(crate) fn pause(&self) {
        let mut current = self.current.lock();
        if let Some(running) = current.running.take() {
            running.cancel();
        }
        for feeder in current.wanted.drain(..) {
            feeder.barrier.mark_synced(&feeder.id);
        }
    }

    /// Waits until every watch had its first full list. Returns `false` if the feeders were stopped instead.
    pub(crate) async fn wait_for_sync(&self) -> bool {
        tokio::select! {
            biased;
            () = self.barrier.wait_for_sync() => true,
            () = self.end.cancelled() => false,
        }
    }

    /// Returns whether every watch that only a canary needs had its first full list.
    pub(crate) fn has_canary_synced(&self) -> bool {
        self.canary_barrier.has_synced()
    }

    /// Returns the feeders without a first full list.
    pub(crate) fn unsynced(&self) -> Vec<Arc<str>> {
        self.barrier.unsynced()
    }

    /// Returns the filter of keys while the controller is suspended except for deletions.
    pub(crate) fn deletions(&self) -> &Arc<SuspendFilter> {
        &self.deletions
    }

    /// Returns the failing feeders, with their errors.
    pub(crate) fn failing(&self) -> Vec<String> {
        [self.barrier.failing(), self.canary_barrier.failing()].concat()
    }

    /// Starts and stops feeders to match the slot's current version and its canary. Feeders that are still
    /// needed keep running. A feeder that calls the guest belongs to one version; other feeders are shared by
    /// both.
    ///
    /// A feeder that is no longer needed ends only when all new ones have listed, so no change in between is
    /// missed.
    pub(crate) fn sync_feeders(&self) {
        self.sync_after(Vec::new());
    }

    /// As [`FeederSet::sync_feeders`]; also ends the feeders of `former` when the new ones have listed.
    fn sync_after(&self, former: Vec<ActiveFeeder>) {
        let trial = self.slot.canary();
        let wishes = feeder_specs(&self.slot.current());
        let tried = trial.as_deref().filter(|trial| !trial.is_shadow).map(|trial| canary_feeder_specs(&trial.loaded));
        let tried = tried.into_iter().flatten().filter(|wish| wish.asks_guest() || !wishes.contains(wish));
        let tried: Vec<_> = tried.map(|wish| (wish, Track::Canary)).collect();
        let mut missing: Vec<_> = wishes.into_iter().map(|wish| (wish, Track::Stable)).chain(tried).collect();
        let mut current = self.current.lock();
        let declared = self.slot.current().definition.feeders.iter().map(|feeder| feeder.name.clone()).collect();
        current.keep_tallies(&declared);
        let Some(running) = current.running.clone() else { return };
        let (kept, mut gone): (Vec<_>, Vec<_>) = std::mem::take(&mut current.wanted).into_iter().partition(|feeder| {
            let side = feeder.side(trial.as_deref());
            let at = missing.iter().position(|(wish, wanted_by)| *wish == feeder.spec && *wanted_by == side);
            at.map(|at| missing.remove(at)).is_some()
        });
        current.wanted = kept;
        let mut new = Vec::new();
        for (wish, side) in missing {
            let (gate, whose) = match side {
                Track::Stable => (&self.barrier, None),
                Track::Canary => (&self.canary_barrier, trial.as_ref().map(|trial| Arc::downgrade(&trial.loaded))),
            };
            let end = running.child_token();
            let tally = wish.declared().map(|name| current.tally(name));
            let ticket = self.supervise(&mut current, self.feeder(&wish, whose.clone()), gate, end.clone(), tally);
            new.push((gate.clone(), ticket.clone()));
            current.wanted.push(ActiveFeeder { spec: wish, owner: whose, barrier: gate.clone(), id: ticket, end });
        }
        drop(current);
        gone.extend(former);
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

    /// Adds a feeder of the embedder. It runs until the controller is removed, while this host may have keys.
    pub(crate) fn add(&self, feeder: Arc<dyn DynFeeder>) {
        let mut current = self.current.lock();
        current.own.push(feeder.clone());
        if let Some(running) = current.running.clone() {
            self.supervise(&mut current, feeder, &self.barrier, running, None);
        }
    }

    /// Runs a feeder that ends by itself, unless the feeders pause.
    pub(crate) fn run_once(&self, feeder: Arc<dyn DynFeeder>) {
        let mut current = self.current.lock();
        if let Some(running) = current.running.clone() {
            self.supervise(&mut current, feeder, &self.barrier, running, None);
        }
    }

    /// Starts watches for followed kinds that are not watched yet.
    pub(crate) fn watch_followed(&self, follows: &Arc<Follows>) {
        let mut current = self.current.lock();
        for kind in follows.take_unwatched() {
            let feeder = FollowFeeder::new(self.context.watches.clone(), kind, follows.clone());
            self.supervise(&mut current, Arc::new(feeder), &self.barrier, self.end.clone(), None);
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

    /// Stops every feeder.
    pub(crate) fn stop(&self) {
        self.end.cancel();
    }

    fn supervise(
        &self,
        current: &mut FeederList,
        feeder: Arc<dyn DynFeeder>,
        gate: &SyncBarrier,
        stop: CancellationToken,
        tally: Option<Arc<FeederTally>>,
    ) -> FeederId {
        current.round += 1;
        let ticket = FeederId { feeder: feeder.name().into(), round: current.round };
        if feeder.lists_first() {
            gate.register(ticket.clone());
        }
        let (deletions, audience) = (self.deletions.clone(), self.slot.clone());
        let intake = Intake::new(deletions, audience, self.manages.clone(), gate.clone(), ticket.clone())
            .telling(self.controller.clone(), self.context.clone())
            .counting(tally);
        let (controller, context) = (self.controller.clone(), self.context.clone());
        self.tasks.spawn(self.account.run(|_| supervise(feeder, intake, controller, context, stop)));
        ticket
    }

    fn feeder(&self, wish: &FeederSpec, whose: Option<Weak<LoadedVersion>>) -> Arc<dyn DynFeeder> {
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
                        // Bounded like the controller's own queue.
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
            FeederSpec::Poll(every) => {
                let (account, tasks, end) = (self.account.clone(), self.tasks.clone(), self.end.clone());
                Arc::new(PollFeeder { controller, slot, owner: whose, context, every, account, tasks, end })
            }
            FeederSpec::Declared(definition) => {
                let (source, clock) = (definition.source.clone(), WallClock::system());
                let adder = KeyAdder { store: store.clone(), definition: *definition };
                match source {
                    FeederSource::Interval(interval) => {
                        Arc::new(IntervalFeeder::new(&controller, interval, adder, clock))
                    }
                    FeederSource::Cron(cron) => {
                        let feeder = adder.definition.name.clone();
                        let record = RunRecord::new(store, controller, feeder, cron.schedule.as_str());
                        Arc::new(CronFeeder::new(*cron, adder, record, clock))
                    }
                    FeederSource::Files(files) => {
                        Arc::new(FilesFeeder::new(files, adder, context.feeder_folder.clone(), clock))
                    }
                    FeederSource::Nats(nats) => {
                        let (stores, settled) = (context.message_stores.clone(), self.settled.clone());
                        Arc::new(NatsFeeder::new(*nats, adder, stores, settled, clock))
                    }
                    FeederSource::Webhook(webhook) => {
                        let name = adder.definition.name.clone();
                        let feeder = Arc::new(self.webhook_feeder(*webhook, adder));
                        let mut webhooks = self.webhooks.lock();
                        webhooks.retain(|_, feeder| feeder.strong_count() > 0);
                        webhooks.insert(name, Arc::downgrade(&feeder));
                        feeder
                    }
                }
            }
        }
    }

    fn webhook_feeder(&self, webhook: Webhook, adder: KeyAdder) -> WebhookFeeder {
        let (clock, slot) = (WallClock::system(), self.slot.clone());
        let keys_only = slot.current().component().describe().manages.keys_only;
        let inbox = webhook.inbox.then(|| {
            let (store, controller, feeder) =
                (adder.store.clone(), self.controller.clone(), adder.definition.name.clone());
            Inbox::new(store, controller, feeder, self.settled.clone(), clock.clone(), keys_only)
        });
        let (secrets, kind) = (self.context.secrets.clone(), self.manages.kind.clone());
        WebhookFeeder::new(webhook, adder, secrets, clock, kind, slot, inbox)
    }

    /// Returns a webhook of the manifest; `None` if there is none of this name. While this host may have no key, it
    /// takes none, and knows who may.
    pub(crate) fn webhook(&self, name: &str) -> Option<Arc<WebhookFeeder>> {
        let current = self.slot.current();
        let definition = current.definition.feeders.iter().find(|feeder| &*feeder.name == name)?;
        let FeederSource::Webhook(webhook) = &definition.source else { return None };
        let running = self.webhooks.lock().get(name).and_then(Weak::upgrade);
        running.or_else(|| {
            let adder = KeyAdder { store: self.context.store.clone(), definition: definition.clone() };
            Some(Arc::new(self.webhook_feeder((**webhook).clone(), adder)))
        })
    }

    /// Returns the status of the declared feeders, in the order of the manifest.
    pub(crate) fn declared(&self) -> Vec<FeederStatus> {
        let loaded = self.slot.current();
        let mut current = self.current.lock();
        let runs = current.running.is_some() && !self.end.is_cancelled();
        let one =
            |feeder: &FeederDefinition| current.tally(&feeder.name).status(&feeder.name, feeder.source.name(), runs);
        loaded.definition.feeders.iter().map(one).collect()
    }
}

impl FeederList {
    /// Returns the counts of a declared feeder.
    fn tally(&mut self, feeder: &Arc<str>) -> Arc<FeederTally> {
        self.tallies.entry(feeder.clone()).or_default().clone()
    }

    /// Forgets the counts of feeders that are no longer declared.
    fn keep_tallies(&mut self, declared: &BTreeSet<Arc<str>>) {
        self.tallies.retain(|feeder, _| declared.contains(feeder));
    }
}

impl FeederSpec {
    /// Returns whether the guest returns the keys.
    fn asks_guest(&self) -> bool {
        match self {
            Self::Watch(watch, _) => matches!(watch.mapping, Mapping::Guest),
            Self::Poll(_) => true,
            Self::Managed(..) | Self::Resync(..) | Self::Declared(_) => false,
        }
    }

    /// Returns the name of a feeder of the manifest.
    fn declared(&self) -> Option<&Arc<str>> {
        if let Self::Declared(feeder) = self { Some(&feeder.name) } else { None }
    }
}

impl ActiveFeeder {
    /// Returns the track that it feeds. A feeder started for a canary belongs to the stable version after
    /// promotion.
    fn side(&self, trial: Option<&CanaryStep>) -> Track {
        let is_candidates = |trial: &CanaryStep| self.owner.as_ref().is_some_and(|whose| trial.is_candidate(whose));
        if trial.is_some_and(is_candidates) { Track::Canary } else { Track::Stable }
    }
}

/// Returns the feeders that a definition needs: watches, a resync, a poll, and those of the manifest.
fn feeder_specs(loaded: &LoadedVersion) -> Vec<FeederSpec> {
    let manages = &loaded.component().describe().manages;
    let mut wishes = watches(loaded);
    if !manages.keys_only {
        wishes.push(FeederSpec::Resync(manages.kind.clone(), loaded.settings.resync));
    }
    wishes.extend(loaded.settings.poll.map(FeederSpec::Poll));
    wishes.extend(loaded.definition.feeders.iter().map(|feeder| FeederSpec::Declared(Box::new(feeder.clone()))));
    wishes
}

/// Returns the feeders that a canary needs. The resync and the feeders of the manifest are those of the stable
/// version.
fn canary_feeder_specs(loaded: &LoadedVersion) -> Vec<FeederSpec> {
    feeder_specs(loaded)
        .into_iter()
        .filter(|wish| !matches!(wish, FeederSpec::Resync(..) | FeederSpec::Declared(_)))
        .collect()
}

/// Returns the watches that a component needs: of the managed kind and of others. A change of the grants for
/// these kinds makes a new watch, which lists again.
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
