//! The shards of a controller that are in force: a record in its store, which all hosts read.
//!
//! Hosts with different manifests divide the keys of a controller in different ways, so their leases do not exclude each
//! other. The record says which shards count, as the holder of a lease of its own, `CONTROLLER.shards`, which nobody
//! renews. A host reads the record after each acquisition, and works only if it names the host's own shards.
//!
//! A host replaces the record while it holds every lease of the former shards. Another host that acquires one of them
//! does so later, so it reads the new record. Each acquisition also ends the fence of the former term.
//!
//! Deliberately absent: a vote between hosts. Former shards stay in force as long as a host works with them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use homeostat_fleet::{
    AcquireCondition, Answer, Epoch, Identity, LeaseName, Observation, Request, Shards, Times, Version,
};
use homeostat_store::{Error, Fence, LeaseRequests, Result};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time;

use super::Fleet;
use super::gate::{GateChanges, ShardGate};
use super::keeper::{Candidacy, KeptLease, LeaseKeeper};
use super::lease_watch::LeaseRoom;

/// The length in the record. Nobody waits for it.
const RECORD_LENGTH: Duration = Duration::from_secs(1);

/// The shards of one controller, as this host wants them, and those that are in force.
pub(super) struct Sharding {
    controller: Arc<str>,
    own: Shards,
    /// The requests of the record, with the own shards as the holder.
    record: Arc<dyn LeaseRequests>,
    state: Mutex<ShardingState>,
    /// Notified when other shards were found in force.
    replaced: Notify,
    changes: GateChanges,
}

/// What this host knows of the record.
#[derive(Clone, Debug, PartialEq)]
enum ShardingState {
    /// It was not read yet. The reason is why not.
    Unknown(Option<String>),
    /// The own shards are in force.
    Own,
    /// Others are in force, with the text of the record.
    Other(String),
}

/// The record, if it names other shards than the own ones.
struct OtherShards {
    version: Version,
    text: String,
}

impl OtherShards {
    fn names(&self, shards: Shards) -> bool {
        self.text == shards.to_string()
    }
}

impl Sharding {
    pub(super) fn new(room: &LeaseRoom, controller: &str, own: Shards, changes: GateChanges) -> Result<Arc<Self>> {
        let name = LeaseName::of_shards(controller);
        let record = room.leases.lease(&name, &Identity::new(&own.to_string()), RECORD_LENGTH)?;
        let (state, replaced) = (Mutex::new(ShardingState::Unknown(None)), Notify::new());
        Ok(Arc::new(Self { controller: controller.into(), own, record, state, replaced, changes }))
    }

    /// Returns whether the own shards are in force, as far as this host knows.
    pub(super) fn is_own(&self) -> bool {
        *self.state.lock() == ShardingState::Own
    }

    /// Returns whether other shards are in force.
    pub(super) fn is_other(&self) -> bool {
        matches!(*self.state.lock(), ShardingState::Other(_))
    }

    /// Returns why the own shards are not in force, for a person.
    pub(super) fn problem(&self) -> Option<String> {
        match &*self.state.lock() {
            ShardingState::Own => None,
            ShardingState::Unknown(reason) => reason.clone(),
            ShardingState::Other(text) => Some(self.other_in_force(text)),
        }
    }

    fn other_in_force(&self, text: &str) -> String {
        format!(
            "the shards {text:?} are in force, and this host has {:?}: they change when no other host works with them",
            self.own.to_string()
        )
    }

    fn set(&self, state: ShardingState) {
        let mut known = self.state.lock();
        if *known == state {
            return;
        }
        match &state {
            ShardingState::Other(text) => {
                let (controller, own) = (&*self.controller, &self.own);
                tracing::warn!(controller, %own, in_force = ?text, "other shards are in force");
                self.replaced.notify_one();
            }
            ShardingState::Own | ShardingState::Unknown(_) => {}
        }
        *known = state;
        drop(known);
        self.changes.send_modify(|number| *number = number.wrapping_add(1));
    }

    /// Records that the record cannot be read. Own shards that were in force stay so while this host has leases of them.
    fn set_unknown(&self, error: &Error) {
        if !self.is_own() {
            self.set(ShardingState::Unknown(Some(error.to_string())));
        }
    }

    /// Reads the record within a bound of time.
    ///
    /// # Errors
    /// As [`Sharding::read`].
    async fn read_in_time(&self, times: &Times) -> Result<Option<OtherShards>> {
        let late = || Err(Error::unavailable("the server does not answer in time"));
        time::timeout(times.request_timeout, self.read()).await.unwrap_or_else(|_| late())
    }

    /// Reads the record. The first host writes it.
    ///
    /// # Errors
    /// The store does not answer.
    async fn read(&self) -> Result<Option<OtherShards>> {
        loop {
            let Answer::Found(observation) = self.record.carry_out(&Request::Read).await? else {
                return Err(Error::unavailable("the record of the shards was not read"));
            };
            let expected = match observation {
                Observation::Present(record) => match record.holder {
                    Some(holder) if holder.as_str() == self.own.to_string() => {
                        self.set(ShardingState::Own);
                        return Ok(None);
                    }
                    Some(holder) => {
                        self.set(ShardingState::Other(holder.to_string()));
                        return Ok(Some(OtherShards { version: record.version, text: holder.to_string() }));
                    }
                    None => AcquireCondition::Version(record.version),
                },
                Observation::Absent { fence } => AcquireCondition::Absent { fence },
            };
            // Another host that was faster is read in the next turn.
            self.record.carry_out(&Request::Acquire { expected, transitions: 0 }).await?;
        }
    }

    /// Fails unless the own shards are in force now.
    async fn check(&self) -> Result<()> {
        match self.read().await? {
            None => Ok(()),
            Some(OtherShards { text, .. }) => Err(Error::unavailable(self.other_in_force(&text))),
        }
    }

    /// Returns the requests of a lease of one of the own shards. An acquisition succeeds only if the own shards are in
    /// force after it.
    pub(super) fn checked(self: &Arc<Self>, requests: Arc<dyn LeaseRequests>) -> Arc<dyn LeaseRequests> {
        Arc::new(CheckedRequests { requests, sharding: Arc::clone(self) })
    }

    /// Reads the record until the own shards are in force, and again when others were found. Never returns.
    ///
    /// *Cancel safety*: leases that are held meanwhile are given up.
    pub(super) async fn keep(&self, fleet: &Fleet, room: &Arc<LeaseRoom>) {
        let times = &fleet.times;
        loop {
            let wait = match self.read_in_time(times).await {
                Ok(None) => {
                    room.send_candidacies();
                    self.replaced.notified().await;
                    continue;
                }
                Ok(Some(other)) => match other.text.parse() {
                    Ok(former) if !room.drains() => {
                        self.replace(fleet, room, former).await;
                        times.retry_period / 4
                    }
                    // A host of a later version, or this host takes no leases.
                    _ => times.length,
                },
                Err(error) => {
                    self.set_unknown(&error);
                    times.error_wait()
                }
            };
            time::sleep(wait).await;
        }
    }

    /// Puts the own shards in force, after no host works with the former ones any more.
    async fn replace(&self, fleet: &Fleet, room: &Arc<LeaseRoom>, former: Shards) {
        let (times, changes) = (&fleet.times, GateChanges::default());
        let mut held = FormerLeases { keepers: Vec::new(), changes };
        // A host that works with the former shards takes a free lease sooner.
        let delay = if room.has_others() { times.length } else { times.retry_period };
        let mut leases = former.leases(&self.controller).into_iter();
        // Of several hosts that replace the record, the one with the first lease goes on.
        if let Some(first) = leases.next() {
            if held.add(fleet, room, first, delay).is_err() {
                return;
            }
            while time::timeout(times.length, held.wait_until_held()).await.is_err() {
                let other = self.read_in_time(times).await;
                let is_former = other.is_ok_and(|other| other.is_some_and(|other| other.names(former)));
                if !is_former || room.drains() {
                    return held.leave().await;
                }
            }
        }
        for lease in leases {
            if held.add(fleet, room, lease, Duration::ZERO).is_err() {
                return held.leave().await;
            }
        }
        // The former shards may be worked on again by a host that has a lease of them.
        if time::timeout(times.settle_time(), held.wait_until_held()).await.is_ok()
            && let Ok(Some(other)) = self.read_in_time(times).await
            && other.names(former)
            && held.are_held()
        {
            let request = Request::Acquire { expected: AcquireCondition::Version(other.version), transitions: 0 };
            match time::timeout(times.request_timeout, self.record.carry_out(&request)).await {
                Ok(Ok(_)) => {}
                // No lease is given up before the write has arrived or never will.
                Ok(Err(_)) | Err(_) => held.mark_unanswered(),
            }
        }
        held.leave().await;
    }
}

/// The requests of a lease of one of the own shards.
struct CheckedRequests {
    requests: Arc<dyn LeaseRequests>,
    sharding: Arc<Sharding>,
}

#[async_trait]
impl LeaseRequests for CheckedRequests {
    fn fence(&self, epoch: Epoch) -> Option<Fence> {
        self.requests.fence(epoch)
    }

    async fn carry_out(&self, request: &Request) -> Result<Answer> {
        let answer = self.requests.carry_out(request).await?;
        if let (Request::Acquire { .. }, Answer::Stored { version, epoch }) = (request, &answer)
            && let Err(error) = self.sharding.check().await
        {
            let release = Request::Release { expected: *version, epoch: *epoch, preferred_holder: None };
            // A lease that is not released runs out.
            let _released = self.requests.carry_out(&release).await;
            return Err(error);
        }
        Ok(answer)
    }
}

/// Leases of former shards, under which nobody works. They are given up when this is dropped.
struct FormerLeases {
    keepers: Vec<LeaseKeeper>,
    changes: GateChanges,
}

impl FormerLeases {
    /// Starts to wait for a lease.
    fn add(&mut self, fleet: &Fleet, room: &LeaseRoom, lease: LeaseName, delay: Duration) -> Result<()> {
        // The keepers of the own shards can have leases with the same names.
        let identity = fleet.other_identity();
        let requests = room.leases.lease(&lease, &identity, fleet.times.length)?;
        let gate = Arc::new(ShardGate::new(lease, fleet, self.changes.clone()));
        let candidacy = Candidacy::Alone { delay };
        let lease = KeptLease { identity, requests, gate, candidacy, drain_deadline: Duration::ZERO };
        self.keepers.push(LeaseKeeper::start(fleet, lease));
        Ok(())
    }

    fn are_held(&self) -> bool {
        self.keepers.iter().all(|keeper| keeper.gate.is_open())
    }

    async fn wait_until_held(&self) {
        let mut changes = self.changes.subscribe();
        while !self.are_held() {
            if changes.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    fn mark_unanswered(&self) {
        self.keepers.iter().for_each(|keeper| keeper.gate.mark_unanswered());
    }

    /// Gives the leases up, and waits until the store knows.
    async fn leave(self) {
        let ends: Vec<_> = self.keepers.iter().map(|keeper| keeper.ended.clone()).collect();
        drop(self);
        for ended in ends {
            ended.cancelled().await;
        }
    }
}

impl Drop for FormerLeases {
    fn drop(&mut self) {
        self.keepers.iter().for_each(LeaseKeeper::leave);
    }
}
