//! The leases of one store: the stream of their records, the hosts that share the store, and the moves of leases.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use homeostat_fleet::{Event, Identity, LeaseName, Member, Move, Observation, Times};
use homeostat_store::LeaseStore;
use homeostat_workqueue::Backoff;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio::time;

use super::LeaseClock;
use super::description::HostDescription;
use super::mirror::MirrorTrigger;
use super::roster::{self, Roster, SharingHost};

/// The wait before the stream is opened again. Meanwhile each keeper reads its own record.
const REOPEN: Backoff =
    Backoff { base: Duration::from_millis(100), max: Duration::from_secs(10), retries_max: None, jitter: 0.0 };

/// The leases of one store.
pub(super) struct LeaseRoom {
    /// The name of the store.
    pub(super) store: Arc<str>,
    pub(super) leases: Arc<dyn LeaseStore>,
    identity: Identity,
    times: Times,
    clock: LeaseClock,
    state: Mutex<RoomState>,
    /// Notified when a keeper was added.
    added: Notify,
    mirror: MirrorTrigger,
}

/// The state of a lease, for people.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LeaseView {
    /// The host that the store named last as the holder.
    pub(super) holder: Option<Identity>,
    /// Whether this host has a term, or workers of one that still end.
    pub(super) is_held: bool,
    /// Why the store did not answer the last request, or why its leases cannot be watched.
    pub(super) error: Option<String>,
}

/// The keeper of a lease, for the others.
#[derive(Clone)]
pub(super) struct KeeperEntry {
    /// Where the records of the lease go.
    pub(super) events: mpsc::Sender<Event>,
    pub(super) seen: Arc<Mutex<LeaseView>>,
}

struct RoomState {
    keepers: BTreeMap<LeaseName, KeeperEntry>,
    roster: Roster,
    /// Whether this host gives all its leases away.
    drains: bool,
    /// Why the leases cannot be watched now. Then hand-overs take longer.
    watch_error: Option<String>,
    /// Those who read a record when it changes.
    followers: BTreeMap<LeaseName, Arc<Notify>>,
}

/// A reader of a record, which is told of its changes until this is dropped.
pub(super) struct Follower<'r> {
    room: &'r LeaseRoom,
    name: LeaseName,
    changed: Arc<Notify>,
}

impl Drop for Follower<'_> {
    fn drop(&mut self) {
        let followers = &mut self.room.state.lock().followers;
        if followers.get(&self.name).is_some_and(|known| Arc::ptr_eq(known, &self.changed)) {
            followers.remove(&self.name);
        }
    }
}

impl LeaseRoom {
    pub(super) fn new(
        store: Arc<str>,
        leases: Arc<dyn LeaseStore>,
        identity: Identity,
        times: Times,
        clock: LeaseClock,
        weight: u32,
        mirror: MirrorTrigger,
    ) -> Self {
        let roster = Roster::new(&times, weight);
        let (keepers, followers) = Default::default();
        let state = RoomState { keepers, roster, drains: false, watch_error: None, followers };
        Self { store, leases, identity, times, clock, state: Mutex::new(state), added: Notify::new(), mirror }
    }

    /// Sends the records of a lease to its keeper.
    pub(super) fn add(&self, name: &LeaseName, keeper: KeeperEntry) {
        let mut state = self.state.lock();
        state.roster.add(name);
        state.keepers.insert(name.clone(), keeper);
        self.added.notify_one();
    }

    /// Forgets a keeper, unless another one of its name was added.
    pub(super) fn remove(&self, name: &LeaseName, keeper: &mpsc::Sender<Event>) {
        let mut state = self.state.lock();
        if state.keepers.get(name).is_some_and(|known| known.events.same_channel(keeper)) {
            state.keepers.remove(name);
            state.roster.remove(name);
        }
    }

    /// Notifies someone of each change of a record, instead of the one before.
    pub(super) fn follow(&self, name: &LeaseName, changed: &Arc<Notify>) -> Follower<'_> {
        self.state.lock().followers.insert(name.clone(), Arc::clone(changed));
        Follower { room: self, name: name.clone(), changed: Arc::clone(changed) }
    }

    /// Returns how long after a lease is free this host tries to acquire it; `None` for never.
    pub(super) fn candidacy(&self, lease: &LeaseName) -> Option<Duration> {
        let state = self.state.lock();
        self.candidacy_among(&state, &state.roster.candidates((self.clock)(), &self.identity), lease)
    }

    fn candidacy_among(&self, state: &RoomState, candidates: &[Member], lease: &LeaseName) -> Option<Duration> {
        // The lease of a host has one candidate.
        let rank = if lease.is_of_host() { 0 } else { roster::rank(candidates, &self.identity, lease) };
        (!state.drains).then(|| self.times.retry_period / 4 * rank)
    }

    /// Returns the host that shall be next when this one gives a lease up; `None` for the lease of a host.
    pub(super) fn receiver(&self, lease: &LeaseName) -> Option<Identity> {
        self.receiver_among(&self.state.lock(), (self.clock)(), lease)
    }

    fn receiver_among(&self, state: &RoomState, now: Duration, lease: &LeaseName) -> Option<Identity> {
        if lease.is_of_host() { None } else { state.roster.receiver(now, &self.identity, lease) }
    }

    /// Returns the processor time of the keys of a lease, as its records tell it: thousandths of a core. `None` if
    /// nobody has measured it.
    pub(super) fn millicores(&self, lease: &LeaseName) -> Option<u32> {
        self.state.lock().roster.millicores(lease)
    }

    /// Gives all leases of this host away and takes no other one, or takes leases again.
    pub(super) fn set_drains(&self, drains: bool) {
        self.state.lock().drains = drains;
        self.send_candidacies();
    }

    /// Returns whether this host gives all its leases away.
    pub(super) fn drains(&self) -> bool {
        self.state.lock().drains
    }

    /// Returns this host, and the others that renew leases, each with the leases that it holds.
    pub(super) fn hosts(&self) -> Vec<SharingHost> {
        let (state, now) = (self.state.lock(), (self.clock)());
        // Of its own leases this host knows more than their records.
        let is_held =
            |(name, keeper): &(&LeaseName, &KeeperEntry)| name.is_of_controller() && keeper.seen.lock().is_held;
        let own = state.keepers.iter().filter(is_held).map(|(name, _)| state.roster.held(name, &self.identity));
        let told = state.roster.hosts(now);
        let this = SharingHost {
            identity: self.identity.clone(),
            is_draining: state.drains,
            leases: own.collect(),
            description: HostDescription::default(),
            renewed: told.iter().find(|host| host.identity == self.identity).and_then(|host| host.renewed),
        };
        let others = told.into_iter().filter(|host| host.identity != self.identity);
        std::iter::once(this).chain(others).collect()
    }

    /// Returns the names of the hosts that have released their own leases.
    pub(super) fn released(&self) -> Vec<String> {
        self.state.lock().roster.released().map(str::to_owned).collect()
    }

    /// Returns the last run of the host with a name, with what it told about itself. It may have ended.
    pub(super) fn last_run(&self, name: &str) -> Option<(Identity, HostDescription)> {
        self.state.lock().roster.last_run(name)
    }

    /// Passes the records of all leases to their keepers, and moves leases. Never returns.
    ///
    /// *Cancel safety*: each keeper reads its own record in any case.
    pub(super) async fn run(&self) {
        // A host without leases in this store asks it nothing.
        self.added.notified().await;
        tokio::join!(self.watch(), self.balance());
    }

    /// Opens the stream again when it ends.
    async fn watch(&self) {
        let mut failures = 0;
        loop {
            match self.leases.watch_leases().await {
                Ok(mut stream) => {
                    let mut is_first = true;
                    let error = loop {
                        match stream.next().await {
                            Ok((name, observation)) => {
                                (failures, is_first) = (0, false);
                                self.set_watch_error(None);
                                self.observe(&name, observation).await;
                            }
                            Err(error) => break error,
                        }
                    };
                    // A stream ends now and then; it is opened again.
                    if is_first {
                        self.set_watch_error(Some((&error, failures)));
                    }
                }
                Err(error) => self.set_watch_error(Some((&error, failures))),
            }
            failures += 1;
            time::sleep(REOPEN.delay(failures, 0)).await;
        }
    }

    /// Records why the leases cannot be watched, after so many earlier failures in a row.
    fn set_watch_error(&self, failure: Option<(&homeostat_store::Error, u32)>) {
        let error = failure.map(|(error, _)| format!("the leases cannot be watched: {error}"));
        // One alone is usual: before the first contact with a server, and when a connection is lost.
        if let (Some(error), Some((_, 1))) = (&error, failure) {
            tracing::warn!(store = &*self.store, error, "this host takes longer to notice a lease that is free");
        }
        self.state.lock().watch_error = error;
    }

    /// Returns why the leases cannot be watched now.
    pub(super) fn watch_error(&self) -> Option<String> {
        self.state.lock().watch_error.clone()
    }

    async fn observe(&self, name: &LeaseName, observation: Observation) {
        let keeper = {
            let mut state = self.state.lock();
            state.roster.observe((self.clock)(), name, &observation);
            if let Some(changed) = state.followers.get(name) {
                changed.notify_one();
            }
            state.keepers.get(name).cloned()
        };
        if let Some(keeper) = keeper {
            // A keeper that has ended needs no records.
            let _ended = keeper.events.send(Event::Observed(observation)).await;
        }
    }

    async fn balance(&self) {
        let mut ticks = time::interval(self.times.retry_period);
        ticks.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.send_candidacies();
            // A lease that runs out is no event.
            self.mirror.look_soon();
            let planned = {
                let mut state = self.state.lock();
                let planned = state.roster.next_move((self.clock)(), &self.identity);
                planned.and_then(|Move { lease, to }| Some((state.keepers.get(&lease)?.clone(), lease, to)))
            };
            if let Some((keeper, lease, to)) = planned {
                tracing::info!(%lease, %to, "this host gives a lease away, so that the load evens out");
                let _ended = keeper.events.send(Event::Release { preferred_holder: Some(to) }).await;
            }
        }
    }

    /// Tells each keeper when this host tries its lease.
    pub(super) fn send_candidacies(&self) {
        let state = self.state.lock();
        let now = (self.clock)();
        let candidates = state.roster.candidates(now, &self.identity);
        for (name, KeeperEntry { events: keeper, .. }) in &state.keepers {
            let candidacy = self.candidacy_among(&state, &candidates, name);
            // A full channel gets the next one.
            let _full = keeper.try_send(Event::Candidacy(candidacy));
            if candidacy.is_none() {
                let _full =
                    keeper.try_send(Event::Release { preferred_holder: self.receiver_among(&state, now, name) });
            }
        }
    }
}
