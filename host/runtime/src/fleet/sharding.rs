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
use std::sync::atomic::{AtomicU64, Ordering};
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
use super::lease_room::LeaseRoom;
use super::other_fences::OtherStores;
use super::rollout_record::RolloutRecord;

/// The length in a record that nobody renews. Nobody waits for it.
pub(super) const RECORD_LENGTH: Duration = Duration::from_secs(1);

/// The shards of one controller, as this host wants them, and those that are in force.
pub(super) struct Sharding {
    controller: Arc<str>,
    own: Shards,
    /// The requests of the record, with the own shards as the holder.
    record: Arc<dyn LeaseRequests>,
    state: Mutex<ShardingState>,
    /// Notified when the record has to be read.
    stale: Notify,
    changes: GateChanges,
    /// Acquisitions of this host so far.
    acquired: AtomicU64,
    /// Those of them after which the record was written.
    confirmed: tokio::sync::Mutex<u64>,
    /// How long a deleted record stays away before this host writes it: its users write it sooner.
    restore_wait: Duration,
    /// Since when the record is known to be deleted.
    deleted_since: Mutex<Option<time::Instant>>,
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

/// The shards in force.
struct ShardsInForce {
    version: Version,
    text: String,
}

impl ShardsInForce {
    fn names(&self, shards: Shards) -> bool {
        self.text == shards.to_string()
    }
}

impl Sharding {
    pub(super) fn new(
        times: &Times,
        room: &LeaseRoom,
        controller: &str,
        own: Shards,
        changes: GateChanges,
    ) -> Result<Arc<Self>> {
        let name = LeaseName::of_shards(controller);
        let record = room.leases.lease(&name, &Identity::new(&own.to_string()), RECORD_LENGTH)?;
        let (stale, acquired, confirmed, deleted_since) = Default::default();
        Ok(Arc::new(Self {
            controller: controller.into(),
            own,
            record,
            state: Mutex::new(ShardingState::Unknown(None)),
            stale,
            changes,
            acquired,
            confirmed,
            restore_wait: times.length * 2,
            deleted_since,
        }))
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
            }
            ShardingState::Own | ShardingState::Unknown(_) => {}
        }
        *known = state;
        drop(known);
        self.changes.send_modify(|number| *number = number.wrapping_add(1));
    }

    /// Reads the record within a bound of time.
    ///
    /// # Errors
    /// As [`Sharding::read`].
    async fn read_in_time(&self, times: &Times) -> Result<ShardsInForce> {
        let late = || Err(Error::unavailable("the server does not answer in time"));
        time::timeout(times.request_timeout, self.read()).await.unwrap_or_else(|_| late())
    }

    /// Reads the record. The first host writes it.
    ///
    /// # Errors
    /// The store does not answer, or the record was deleted a moment ago.
    async fn read(&self) -> Result<ShardsInForce> {
        loop {
            let Answer::Found(observation) = self.record.carry_out(&Request::Read).await? else {
                return Err(Error::unavailable("the record of the shards was not read"));
            };
            let expected = match observation {
                Observation::Present(record) => match record.holder {
                    Some(holder) => {
                        *self.deleted_since.lock() = None;
                        let text = holder.to_string();
                        let is_own = text == self.own.to_string();
                        self.set(if is_own { ShardingState::Own } else { ShardingState::Other(text.clone()) });
                        return Ok(ShardsInForce { version: record.version, text });
                    }
                    None => AcquireCondition::Version(record.version),
                },
                Observation::Absent { fence } => {
                    if fence.is_some() && !self.may_restore() {
                        return Err(Error::unavailable("the record of the shards was deleted, and its users write it"));
                    }
                    AcquireCondition::Absent { fence }
                }
            };
            // Another host that was faster is read in the next turn.
            self.record.carry_out(&Request::Acquire { expected, transitions: 0 }).await?;
        }
    }

    /// Returns whether this host may write a record that was deleted: at once if its own shards were in force.
    fn may_restore(&self) -> bool {
        let now = time::Instant::now();
        let since = *self.deleted_since.lock().get_or_insert(now);
        self.is_own() || now >= since + self.restore_wait
    }

    /// Writes the record after an acquisition, so that a replacement which was decided before fails.
    ///
    /// # Errors
    /// Other shards are in force, or the store does not answer.
    async fn confirm(&self) -> Result<()> {
        let number = self.acquired.fetch_add(1, Ordering::AcqRel) + 1;
        let mut confirmed = self.confirmed.lock().await;
        if *confirmed >= number {
            return Ok(());
        }
        // One write confirms every acquisition before it.
        let all = self.acquired.load(Ordering::Acquire);
        loop {
            let ShardsInForce { version, text } = self.read().await?;
            if text != self.own.to_string() {
                return Err(Error::unavailable(self.other_in_force(&text)));
            }
            let again = Request::Acquire { expected: AcquireCondition::Version(version), transitions: 0 };
            if let Answer::Stored { .. } = self.record.carry_out(&again).await? {
                *confirmed = all;
                return Ok(());
            }
        }
    }

    /// Returns the requests of a lease of one of the own shards. An acquisition succeeds only if the own shards are in
    /// force after it, and this host follows the rollout.
    pub(super) fn confirmed(
        self: &Arc<Self>,
        requests: Arc<dyn LeaseRequests>,
        rollout: &Arc<RolloutRecord>,
    ) -> Arc<dyn LeaseRequests> {
        Arc::new(ConfirmedRequests { requests, sharding: Arc::clone(self), rollout: Arc::clone(rollout) })
    }

    /// Reads the record in each length of a lease, and replaces the shards in force when nobody works with them. Never
    /// returns.
    ///
    /// *Cancel safety*: leases that are held meanwhile are given up.
    pub(super) async fn keep(&self, fleet: &Fleet, room: &Arc<LeaseRoom>) {
        let (times, mut failures) = (&fleet.times, 0);
        loop {
            let wait = match self.read_in_time(times).await {
                Ok(in_force) => {
                    failures = 0;
                    match in_force.text.parse() {
                        Ok(shards) if shards == self.own || self.is_own() => {
                            room.send_candidacies();
                            times.length
                        }
                        Ok(former) if !room.drains() => {
                            self.replace(fleet, room, former).await;
                            times.retry_period / 4
                        }
                        // A host of a later version, or this host takes no leases.
                        _ => times.length,
                    }
                }
                Err(error) => {
                    failures += 1;
                    // One failure says nothing about own shards that were in force.
                    if failures > 1 || !self.is_own() {
                        self.set(ShardingState::Unknown(Some(error.to_string())));
                    }
                    times.error_wait()
                }
            };
            // Other shards that were found in between are read again, too.
            let _waited = time::timeout(wait, self.stale.notified()).await;
        }
    }

    /// Puts the own shards in force, after no host works with the former ones any more.
    async fn replace(&self, fleet: &Fleet, room: &Arc<LeaseRoom>, former: Shards) {
        let times = &fleet.times;
        let mut held = FormerLeases { keepers: Vec::new(), changes: GateChanges::default() };
        for lease in former.leases(&self.controller) {
            if let Err(error) = held.add(fleet, room, lease) {
                tracing::warn!(%error, "the former shards cannot be replaced");
                return;
            }
        }
        // Of several hosts that replace the record, the one with the first lease goes on.
        while time::timeout(times.length, held.wait_for(1)).await.is_err() {
            let in_force = self.read_in_time(times).await;
            if room.drains() || !in_force.is_ok_and(|in_force| in_force.names(former)) {
                return held.leave().await;
            }
        }
        held.propose_others();
        // A host with the former shards that holds one of their leases gets the others back after this time.
        if time::timeout(times.settle_time(), held.wait_for(usize::MAX)).await.is_ok()
            && let Ok(in_force) = self.read_in_time(times).await
            && in_force.names(former)
            && held.are_held(usize::MAX)
            && !room.drains()
        {
            let request = Request::Acquire { expected: AcquireCondition::Version(in_force.version), transitions: 0 };
            // An answer that is lost is read in the next turn.
            let _late = time::timeout(times.request_timeout, self.record.carry_out(&request)).await;
        }
        held.leave().await;
    }
}

/// The requests of a lease of one of the own shards.
struct ConfirmedRequests {
    requests: Arc<dyn LeaseRequests>,
    sharding: Arc<Sharding>,
    rollout: Arc<RolloutRecord>,
}

#[async_trait]
impl LeaseRequests for ConfirmedRequests {
    fn fence(&self, epoch: Epoch) -> Option<Fence> {
        self.requests.fence(epoch)
    }

    fn describe(&self, description: &str) {
        self.requests.describe(description);
    }

    async fn carry_out(&self, request: &Request) -> Result<Answer> {
        let answer = self.requests.carry_out(request).await?;
        if let (Request::Acquire { .. }, Answer::Stored { version, epoch }) = (request, &answer)
            && let Err(error) = tokio::try_join!(self.sharding.confirm(), self.rollout.confirm())
        {
            self.sharding.stale.notify_one();
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
    /// Starts to wait for the next lease. This host tries the first one alone, until it holds that.
    fn add(&mut self, fleet: &Fleet, room: &LeaseRoom, lease: LeaseName) -> Result<()> {
        // The keepers of the own shards can have leases with the same names.
        let identity = fleet.other_identity();
        let requests = room.leases.lease(&lease, &identity, fleet.times.length)?;
        let gate = Arc::new(ShardGate::new(lease, fleet, self.changes.clone()));
        let candidacy = match self.keepers.first() {
            // A host that works with the former shards takes a free lease sooner.
            None => Candidacy::Alone { delay: fleet.times.length, after: None },
            Some(first) => Candidacy::Alone { delay: Duration::ZERO, after: Some(Arc::clone(&first.gate)) },
        };
        let others = OtherStores::default();
        let lease = KeptLease { identity, requests, gate, candidacy, others, drain_deadline: Duration::ZERO };
        self.keepers.push(LeaseKeeper::start(fleet, lease));
        Ok(())
    }

    /// Makes this host try all leases, since it holds the first one.
    fn propose_others(&self) {
        self.keepers.iter().skip(1).for_each(|keeper| keeper.propose(Duration::ZERO));
    }

    /// Returns whether this host holds so many of the leases, or all.
    fn are_held(&self, count: usize) -> bool {
        self.keepers.iter().take(count).all(|keeper| keeper.gate.is_open())
    }

    async fn wait_for(&self, count: usize) {
        let mut changes = self.changes.subscribe();
        while !self.are_held(count) {
            if changes.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
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
