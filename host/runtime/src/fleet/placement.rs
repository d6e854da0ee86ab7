//! The placement of one controller: the hosts on which its keys run, and the leases that this host holds.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use homeostat_component::layers::{Terms, WriteEnd, WriteTerm};
use homeostat_component::{Call, StoreError};
use homeostat_fleet::{Identity, Shards};
use homeostat_store::{Error, Key, Kind};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time;
use tokio_util::sync::CancellationToken;

use super::Fleet;
use super::gate::{GateChanges, GatePass, ShardGate};
use super::keeper::{Candidacy, KeptLease, LeaseKeeper};
use super::lease_room::LeaseRoom;
use super::other_fences::OtherStores;
use super::other_host::OtherHost;
use super::rollout_record::RolloutRecord;
use super::sharding::Sharding;
use crate::Stores;

/// How long one request of a release is waited for.
pub(super) const RELEASE_MAX: Duration = Duration::from_secs(3);

/// On which of several hosts that share a store a controller runs.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum PlacementSpec {
    /// On one host at a time. A store that one host alone has needs no lease for it.
    #[default]
    Singleton,
    /// On every host: each reconciles every key.
    EveryHost,
    /// Each shard of the keys on one host at a time.
    Sharded(Shards),
}

impl PlacementSpec {
    fn shards(self) -> Option<Shards> {
        match self {
            Self::Singleton => Some(Shards::SINGLETON),
            Self::EveryHost => None,
            Self::Sharded(shards) => Some(shards),
        }
    }
}

/// One lease of a controller, as this host sees it.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaseStatus {
    /// The number of the shard, from 0.
    pub shard: u32,
    /// The name of the store that has the lease.
    pub store: String,
    /// The identity of the holder, as the store named it last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// Whether the holder is this run of this host.
    pub is_held: bool,
    /// The number of this host's term.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// Why the store did not answer the last request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The leases of one controller on this host.
pub(crate) struct Placement {
    /// `None` where no other host can have its keys.
    leased: Option<LeasedPlacement>,
}

struct LeasedPlacement {
    fleet: Arc<Fleet>,
    stores: Stores,
    room: Arc<LeaseRoom>,
    /// The other stores that its workers may write.
    others: OtherStores,
    shards: Shards,
    /// By the number of the shard.
    gates: Vec<Arc<ShardGate>>,
    changes: GateChanges,
    /// Empty before [`Placement::begin`].
    keepers: Mutex<Vec<LeaseKeeper>>,
    /// The shards in force; `None` before [`Placement::begin`].
    sharding: OnceLock<Arc<Sharding>>,
    /// The record of the rollout; `None` for a name that the store cannot have.
    rollout: Option<Arc<RolloutRecord>>,
    /// Cancelled when the placement is left.
    end: CancellationToken,
}

impl Drop for LeasedPlacement {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

/// Whether a worker may run a key.
pub(crate) enum GateEntry {
    /// The key needs no lease.
    Free,
    /// This host holds the lease of the key.
    Inside(GatePass),
    /// It does not.
    Refused,
}

impl GateEntry {
    /// Records the processor time of the worker under its lease.
    pub(crate) fn note(&mut self, cpu: Duration) {
        if let Self::Inside(pass) = self {
            pass.note(cpu);
        }
    }

    /// Waits until the lease is lost.
    ///
    /// *Cancel safety*: nothing is lost.
    pub(crate) async fn lost(&self) {
        match self {
            Self::Inside(pass) => pass.lost().await,
            Self::Free | Self::Refused => std::future::pending().await,
        }
    }
}

impl Placement {
    /// Returns the placement of a controller that manages a kind. It holds nothing before [`Placement::begin`].
    pub(crate) fn new(fleet: &Arc<Fleet>, stores: &Stores, controller: &str, kind: &Kind, spec: PlacementSpec) -> Self {
        let room = stores.name_of(kind).and_then(|store| fleet.room(stores, &store));
        let leased = spec.shards().zip(room).map(|(shards, room)| {
            let changes = GateChanges::default();
            let gate = |lease| Arc::new(ShardGate::new(lease, fleet, changes.clone()));
            let gates = shards.leases(controller).into_iter().map(gate).collect();
            let (fleet, stores) = (Arc::clone(fleet), stores.clone());
            let (keepers, sharding, end) = Default::default();
            let others = OtherStores::besides(&room.store, &stores);
            let rollout = RolloutRecord::new(&fleet, &room, controller, changes.clone()).ok();
            LeasedPlacement { fleet, stores, room, others, shards, gates, changes, keepers, sharding, rollout, end }
        });
        Self { leased }
    }

    /// Starts to wait for the leases. The previous controller of this name has ended.
    ///
    /// # Errors
    /// A name that the store cannot have.
    pub(crate) fn begin(&self, drain_deadline: Duration) -> homeostat_store::Result<()> {
        let Some(LeasedPlacement {
            fleet, room, others, shards, gates, changes, keepers, sharding, rollout, end, ..
        }) = &self.leased
        else {
            return Ok(());
        };
        let own = Sharding::new(&fleet.times, room, gates[0].lease.controller(), *shards, changes.clone())?;
        let rollout =
            rollout.as_ref().ok_or_else(|| Error::invalid("controller", "its name cannot be that of a record"))?;
        let kept = |gate: &Arc<ShardGate>| {
            let requests = room.leases.lease(&gate.lease, &fleet.identity, fleet.times.length)?;
            let requests = own.confirmed(requests, rollout);
            let work = Some((Arc::clone(&own), Arc::clone(rollout)));
            let candidacy = Candidacy::Ranked { room: Arc::clone(room), work };
            let (identity, gate, others) = (fleet.identity.clone(), Arc::clone(gate), others.clone());
            Ok(KeptLease { identity, requests, gate, candidacy, others, drain_deadline })
        };
        let kept: Vec<_> = gates.iter().map(kept).collect::<homeostat_store::Result<_>>()?;
        *keepers.lock() = kept.into_iter().map(|lease| LeaseKeeper::start(fleet, lease)).collect();
        let own = Arc::clone(sharding.get_or_init(|| own));
        let (room, fleet, left, rollout) = (Arc::clone(room), Arc::clone(fleet), end.clone(), Arc::clone(rollout));
        let tasks = fleet.tasks.clone();
        tasks.spawn(async move {
            let records = async { tokio::join!(own.keep(&fleet, &room), rollout.keep(&fleet, &room)) };
            let keep = left.run_until_cancelled(records);
            fleet.end.run_until_cancelled(keep).await;
        });
        Ok(())
    }

    /// Returns the record of the rollout that all hosts carry out; `None` where no other host has the keys.
    pub(crate) fn rollout(&self) -> Option<&Arc<RolloutRecord>> {
        self.leased.as_ref()?.rollout.as_ref()
    }

    /// Returns whether this host decides the steps of a rollout: it holds the first lease.
    pub(crate) fn leads(&self) -> bool {
        self.leased.as_ref().is_some_and(|leased| leased.gates[0].is_open())
    }

    /// Returns whether the controller needs leases.
    pub(crate) fn is_leased(&self) -> bool {
        self.leased.is_some()
    }

    /// Lets a worker run a key.
    pub(crate) fn enter(&self, key: &Key) -> GateEntry {
        match self.leased.as_ref().map(|leased| leased.gate(key).enter()) {
            None => GateEntry::Free,
            Some(Some(pass)) => GateEntry::Inside(pass),
            Some(None) => GateEntry::Refused,
        }
    }

    /// Lets a call without a key run, under any lease that this host holds.
    pub(crate) fn enter_any(&self) -> GateEntry {
        let Some(leased) = &self.leased else { return GateEntry::Free };
        leased.gates.iter().find_map(ShardGate::enter).map_or(GateEntry::Refused, GateEntry::Inside)
    }

    /// Returns whether a key belongs on the queue of this host.
    pub(crate) fn has(&self, key: &Key) -> bool {
        self.leased.as_ref().is_none_or(|leased| leased.gate(key).is_open())
    }

    /// Returns the shards that this host holds; `None` for a controller without leases.
    pub(crate) fn held(&self) -> Option<Vec<u32>> {
        let leased = self.leased.as_ref()?;
        Some(leased.gates.iter().filter(|gate| gate.is_open()).map(|gate| gate.lease.shard()).collect())
    }

    /// Returns whether this host holds a lease of the controller, or needs none.
    pub(crate) fn is_holder(&self) -> bool {
        self.leased.as_ref().is_none_or(|leased| leased.gates.iter().any(|gate| gate.is_open()))
    }

    /// Returns the number of leases of the controller.
    pub(crate) fn count(&self) -> usize {
        self.leased.as_ref().map_or(0, |leased| leased.gates.len())
    }

    /// Returns a number that changes with every change of the leases of the controller.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.leased.as_ref().map_or_else(|| watch::Sender::new(0).subscribe(), |leased| leased.changes.subscribe())
    }

    /// Tells everyone who follows the leases that the controller has changed.
    pub(crate) fn notify(&self) {
        if let Some(leased) = &self.leased {
            leased.changes.send_modify(|number| *number = number.wrapping_add(1));
        }
    }

    /// Waits until this host holds a lease, or needs none.
    ///
    /// *Cancel safety*: nothing is lost.
    pub(crate) async fn wait_until_held(&self) {
        let mut changes = self.changes();
        while !self.is_holder() {
            if changes.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// Waits until another host holds all leases, or other shards are in force.
    ///
    /// *Cancel safety*: nothing is lost.
    pub(crate) async fn wait_for_other_holder(&self) {
        let Some(leased) = &self.leased else { return std::future::pending().await };
        let mut changes = self.changes();
        loop {
            let is_other =
                |keeper: &LeaseKeeper| keeper.view().holder.is_some_and(|holder| holder != leased.fleet.identity);
            let is_begun = |keepers: &[LeaseKeeper]| !keepers.is_empty() && keepers.iter().all(is_other);
            let is_other_sharding = leased.sharding.get().is_some_and(|sharding| sharding.is_other());
            if is_other_sharding || is_begun(&leased.keepers.lock()) || changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Returns the holders of the leases of the controller, as the stores named them last.
    pub(crate) fn holders(&self) -> Vec<Identity> {
        let Some(leased) = &self.leased else { return Vec::new() };
        leased.keepers.lock().iter().filter_map(|keeper| keeper.view().holder).collect()
    }

    /// Returns the other host that holds the lease of a key; `None` if no other host holds it.
    pub(crate) fn other_holder_of(&self, key: &Key) -> Option<OtherHost> {
        let shard = self.leased.as_ref()?.gate(key).lease.shard();
        self.other_holder_of_shard(shard)
    }

    /// Returns the other host that leads the rollouts of the controller: it holds the first lease.
    pub(crate) fn other_leader(&self) -> Option<OtherHost> {
        self.other_holder_of_shard(0)
    }

    fn other_holder_of_shard(&self, shard: u32) -> Option<OtherHost> {
        let LeasedPlacement { fleet, keepers, .. } = self.leased.as_ref()?;
        let holder = keepers.lock().get(shard as usize)?.view().holder?;
        fleet.other_hosts([holder]).pop()
    }

    /// Returns the other hosts that hold leases of the controller, by identity.
    pub(crate) fn other_holders(&self) -> Vec<OtherHost> {
        self.leased.as_ref().map_or_else(Vec::new, |leased| leased.fleet.other_hosts(self.holders()))
    }

    /// Returns why no key runs on this host, for a person.
    pub(crate) fn standby_message(&self) -> String {
        let status = self.status();
        let holder = status.iter().find_map(|lease| lease.holder.clone());
        let error = status.into_iter().find_map(|lease| lease.error);
        match (holder, error) {
            (_, Some(error)) => format!("waits for its lease: {error}"),
            (Some(holder), None) => format!("{holder:?} holds its lease"),
            (None, None) => "waits for its lease".to_owned(),
        }
    }

    /// Gives up all leases for good, after the workers have left. Waits for the store within a bound.
    pub(crate) async fn leave(&self) {
        let Some(LeasedPlacement { fleet, keepers, end, .. }) = &self.leased else { return };
        end.cancel();
        let ends: Vec<_> = {
            let keepers = keepers.lock();
            keepers.iter().for_each(LeaseKeeper::leave);
            keepers.iter().map(|keeper| keeper.ended.clone()).collect()
        };
        // Longer than a request without an answer and another one. A store that is away gets no release.
        let end = time::Instant::now() + 2 * fleet.times.request_timeout.min(RELEASE_MAX);
        for ended in ends {
            if time::timeout_at(end, ended.cancelled()).await.is_err() {
                tracing::warn!("a lease could not be released: it runs out");
            }
        }
    }

    /// Returns the leases, as this host sees them.
    pub(crate) fn status(&self) -> Vec<LeaseStatus> {
        let Some(LeasedPlacement { fleet, room, keepers, .. }) = &self.leased else { return Vec::new() };
        let status = |keeper: &LeaseKeeper| {
            let (view, epoch) = (keeper.view(), keeper.gate.epoch());
            LeaseStatus {
                shard: keeper.gate.lease.shard(),
                store: room.store.to_string(),
                is_held: view.holder.as_ref() == Some(&fleet.identity) && epoch.is_some(),
                holder: view.holder.map(|holder| holder.to_string()),
                epoch: epoch.map(|epoch| epoch.0),
                error: view.error,
            }
        };
        keepers.lock().iter().map(status).collect()
    }
}

impl LeasedPlacement {
    fn gate(&self, key: &Key) -> &Arc<ShardGate> {
        &self.gates[self.shards.shard_of(key.namespace(), key.name()) as usize]
    }

    /// Returns the gate under which a call writes.
    fn gate_of_call(&self, call: &Call) -> &Arc<ShardGate> {
        match &call.key {
            Some(key) => self.gate(key),
            None => self.gates.iter().find(|gate| gate.is_open()).unwrap_or(&self.gates[0]),
        }
    }
}

impl Terms for Placement {
    fn term(&self, call: &Call, kind: Option<&Kind>) -> Result<WriteTerm, StoreError> {
        let Some(leased) = &self.leased else { return Ok(WriteTerm { fence: None, timeout: Duration::MAX }) };
        let timeout = leased.fleet.times.in_flight_max;
        let gate = leased.gate_of_call(call);
        let own = gate.fence().map_err(|lost| StoreError::Unavailable(lost.to_string()))?;
        let fence = match kind.and_then(|kind| leased.stores.name_of(kind)) {
            Some(store) if store == leased.room.store => own,
            // Another store numbers its terms in another way.
            Some(store) if leased.others.has(&store) => {
                gate.other_fence(&store).map_err(|why| StoreError::Unavailable(why.to_string()))?
            }
            // An effect outside of every store, or a store that no other host has.
            _ => None,
        };
        Ok(WriteTerm { fence, timeout })
    }

    fn ended(&self, call: &Call, end: WriteEnd) {
        let Some(leased) = &self.leased else { return };
        let gate = leased.gate_of_call(call);
        match end {
            WriteEnd::Answered => {}
            WriteEnd::Unanswered => gate.mark_unanswered(),
            WriteEnd::Fenced => {
                let keepers = leased.keepers.lock();
                if let (Some(keeper), Some(epoch)) = (keepers.get(gate.lease.shard() as usize), gate.epoch()) {
                    keeper.fenced(epoch);
                }
            }
        }
    }
}
