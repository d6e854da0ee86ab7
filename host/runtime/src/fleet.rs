//! The part of this host in a fleet: the leases under which its controllers work.
//!
//! A controller whose kind lives in a store that several hosts share works under leases: one, or one for each shard.
//! A [`Placement`] has a [`ShardGate`] for each. A keeper task moves the machine of the lease ([`homeostat_fleet`]),
//! sends its requests, and opens and closes the gate. Workers enter the gate of their key, and every write asks it
//! directly before it is sent.
//!
//! Elsewhere called: leader election in client-go and controller-runtime.
//!
//! Deliberately absent: decisions about terms, which are those of [`homeostat_fleet::Lease`], and the protocols of
//! servers.

mod declines;
mod description;
mod gate;
mod keeper;
mod lease_room;
mod mirror;
mod other_fences;
mod other_host;
mod own_lease;
mod placement;
mod rollout_record;
mod roster;
mod sharding;
#[cfg(test)]
mod tests;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use homeostat_fleet::{Identity, LeaseName, Times};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use description::HostDescription;
use gate::{GateChanges, ShardGate};
pub use homeostat_fleet::LENGTH_MAX as LEASE_LENGTH_MAX;
use keeper::{Candidacy, KeptLease, LeaseKeeper};
use lease_room::LeaseRoom;
use mirror::MirrorTrigger;
pub(crate) use mirror::run as mirror;
use other_fences::OtherStores;
pub use other_host::OtherHost;
pub(crate) use own_lease::OwnLease;
pub(crate) use placement::{GateEntry, Placement};
pub use placement::{LeaseStatus, PlacementSpec};
pub(crate) use rollout_record::{RecordView, RolloutRecord};
pub(crate) use roster::HOSTS_MAX;
use roster::SharingHost;

use crate::Stores;

/// Returns the time of the machine, which goes on while it sleeps. Only differences count.
pub type LeaseClock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// Returns the time of day, which only people read.
pub type TimeOfDay = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// Returns the load of a reconcile from its processor time.
pub type LoadMeasure = Arc<dyn Fn(Duration) -> Duration + Send + Sync>;

/// The settings of a host in a fleet.
#[derive(Clone)]
pub struct FleetOptions {
    /// The name of this run of the host.
    pub identity: Identity,
    /// The times of its leases.
    pub times: Times,
    /// What it tells the other hosts.
    pub description: HostDescription,
    /// The clock of its leases. Default: that of the machine.
    pub clock: LeaseClock,
    /// The times in its `Host` resources. Default: that of the machine.
    pub time_of_day: TimeOfDay,
    /// The measure of the load that a reconcile adds to its lease. Default: the processor time of the reconcile.
    pub load: LoadMeasure,
}

impl FleetOptions {
    /// The default length of a lease.
    pub const LENGTH_DEFAULT: Duration = Times::LENGTH_DEFAULT;

    /// Returns the settings of a host with this name, by default that of the machine, and leases of this length.
    pub fn new(name: Option<&str>, length: Duration) -> Self {
        let name = name.map_or_else(machine_name, str::to_owned).to_ascii_lowercase();
        // A restart is another run, so another holder.
        let description = HostDescription::of_this();
        let clock: LeaseClock = Arc::new(boot_time);
        let (identity, times) = (new_identity(&name), Times::of_length(length));
        let load: LoadMeasure = Arc::new(|processor_time| processor_time);
        Self { identity, times, description, clock, time_of_day: Arc::new(SystemTime::now), load }
    }
}

/// Bytes of the name of a host at most. Source: a label of a DNS name, and a value of a label in Kubernetes.
const HOST_NAME_BYTES_MAX: usize = 63;

/// Returns whether a host can have this name: 1 to 63 letters, digits, `-` and `.`.
pub fn is_host_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= HOST_NAME_BYTES_MAX && text.chars().all(is_of_host_name)
}

fn is_of_host_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '-' | '.')
}

impl Default for FleetOptions {
    fn default() -> Self {
        Self::new(None, Self::LENGTH_DEFAULT)
    }
}

/// A host, as its leases tell.
#[derive(Clone, Debug, Eq, PartialEq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HostStatus {
    /// Its name.
    pub name: String,
    /// The name of its present run.
    pub identity: String,
    /// Whether it is the host that tells this.
    pub is_this: bool,
    /// Whether it gives its leases away and takes no other one. Another host does so when it holds leases and has
    /// released its own.
    pub is_draining: bool,
    /// The leases that it holds, of those of which this host knows, as `web` or `web/3-of-8`.
    pub leases: Vec<String>,
    /// The processor time of the keys of those of them that somebody has measured, in thousandths of a core, over about
    /// the last minute. `None` if nobody has measured any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_millicores: Option<u32>,
    /// The same, by lease.
    pub lease_cpu_millicores: BTreeMap<String, u32>,
    /// What it tells about itself, or told before it released its own lease.
    #[serde(flatten)]
    pub description: HostDescription,
}

/// The leases of this host.
pub(crate) struct Fleet {
    pub(crate) identity: Identity,
    pub(crate) times: Times,
    pub(crate) clock: LeaseClock,
    time_of_day: TimeOfDay,
    load: LoadMeasure,
    /// What the records of the leases of this host itself tell. Its lock is taken before that of `own`, and held while such a
    /// lease is added.
    description: Mutex<HostDescription>,
    mirror: MirrorTrigger,
    /// By the name of the store.
    rooms: Mutex<BTreeMap<Arc<str>, Arc<LeaseRoom>>>,
    /// The keepers of the leases of this host itself, and of its own controllers.
    own: Mutex<Vec<Arc<LeaseKeeper>>>,
    /// Whether this host gives all its leases away.
    drains: AtomicBool,
    /// The other identities of this run so far.
    others: AtomicU64,
    tasks: TaskTracker,
    end: CancellationToken,
}

impl Fleet {
    pub(crate) fn new(options: FleetOptions) -> Self {
        let FleetOptions { identity, times, description, clock, time_of_day, load } = options;
        let description = Mutex::new(description);
        let (rooms, own, drains, others, tasks, end) = Default::default();
        let mirror = MirrorTrigger::default();
        Self { identity, times, clock, time_of_day, load, description, mirror, rooms, own, drains, others, tasks, end }
    }

    /// Starts to hold the lease of this host in a store, by which the others know it.
    fn keep_host(&self, room: &Arc<LeaseRoom>) -> homeostat_store::Result<()> {
        let lease = LeaseName::of_host(self.identity.host());
        let requests = room.leases.lease(&lease, &self.identity, self.times.length)?;
        let description = self.description.lock();
        requests.describe(&description.text());
        let gate = Arc::new(ShardGate::new(lease, self, GateChanges::default()));
        let (identity, candidacy) = (self.identity.clone(), Candidacy::Ranked { room: Arc::clone(room), work: None });
        let others = OtherStores::default();
        let lease = KeptLease { identity, requests, gate, candidacy, others, drain_deadline: Duration::ZERO };
        self.keep_own(lease);
        drop(description);
        Ok(())
    }

    /// Starts to hold a lease that is of no controller of a guest, until the fleet is stopped.
    fn keep_own(&self, lease: KeptLease) -> Arc<LeaseKeeper> {
        let keeper = Arc::new(LeaseKeeper::start(self, lease));
        self.own.lock().push(Arc::clone(&keeper));
        keeper
    }

    /// Returns another identity of this host, for a lease that it holds besides one of the same name.
    fn other_identity(&self) -> Identity {
        self.identity.other(self.others.fetch_add(1, Ordering::Relaxed))
    }

    /// Tells the other hosts at once where this one serves its API: it renews its own leases.
    pub(crate) fn set_address(&self, address: &str) {
        let mut description = self.description.lock();
        description.set_address(address);
        let (text, own) = (description.text(), self.own.lock());
        own.iter().filter(|keeper| keeper.gate.lease.is_of_host()).for_each(|keeper| keeper.describe(&text));
        drop((description, own));
        self.mirror.look_soon();
    }

    /// Returns this host and those that share stores with it.
    pub(crate) fn status(&self) -> Vec<HostStatus> {
        self.sharing_hosts().into_iter().map(|host| self.status_of(host)).collect()
    }

    /// Returns other hosts by their identities, with where they serve their APIs. Names each host once.
    pub(crate) fn other_hosts(&self, identities: impl IntoIterator<Item = Identity>) -> Vec<OtherHost> {
        let runs = identities.into_iter().map(|identity| identity.run()).filter(|run| *run != self.identity);
        let (runs, hosts) = (runs.collect::<BTreeSet<_>>(), self.sharing_hosts());
        runs.iter().map(|identity| OtherHost::of(identity, &hosts)).collect()
    }

    /// Returns the other hosts that share stores with this one and renew leases, by identity.
    pub(crate) fn all_other_hosts(&self) -> Vec<OtherHost> {
        let hosts = self.sharing_hosts();
        let others = hosts.iter().filter(|host| host.identity != self.identity);
        others.map(|host| OtherHost::of(&host.identity, &hosts)).collect()
    }

    /// Returns the last run of the other host with a name. It may have ended.
    pub(crate) fn other_host(&self, name: &str) -> Option<OtherHost> {
        let rooms = self.rooms.lock().values().cloned().collect::<Vec<_>>();
        let (run, told) = rooms.iter().find_map(|room| room.last_run(name))?;
        (run != self.identity).then(|| OtherHost::new(&run, told.address))
    }

    /// Returns this host and those that share stores with it, by identity.
    fn sharing_hosts(&self) -> Vec<SharingHost> {
        let is_draining = self.drains.load(Ordering::Relaxed);
        let (identity, description) = (self.identity.clone(), self.description.lock().clone());
        let own = SharingHost { identity, is_draining, leases: Vec::new(), description, renewed: None };
        let mut found = BTreeMap::from([(self.identity.clone(), own)]);
        let rooms = self.rooms.lock().values().cloned().collect::<Vec<_>>();
        for host in rooms.iter().flat_map(|room| room.hosts()) {
            match found.entry(host.identity.clone()) {
                Entry::Vacant(entry) => drop(entry.insert(host)),
                Entry::Occupied(mut entry) => entry.get_mut().merge(host),
            }
        }
        found.into_values().collect()
    }

    /// Returns the last runs of the other hosts that have released their own leases: they drain, or have ended.
    pub(crate) fn released_hosts(&self) -> Vec<OtherHost> {
        self.released().iter().filter_map(|name| self.other_host(name)).collect()
    }

    /// Returns the names of the hosts that have released their own leases in a store.
    fn released(&self) -> BTreeSet<String> {
        let rooms = self.rooms.lock().values().cloned().collect::<Vec<_>>();
        rooms.iter().flat_map(|room| room.released()).collect()
    }

    /// Returns the same as documents of the kind `Host`, as they are now.
    pub(crate) fn documents(&self) -> Vec<serde_json::Value> {
        mirror::documents(self)
    }

    fn status_of(&self, host: SharingHost) -> HostStatus {
        let loads = host.leases.iter().filter_map(|lease| Some((lease.name.to_string(), lease.millicores?)));
        let lease_cpu_millicores: BTreeMap<_, _> = loads.collect();
        HostStatus {
            name: host.identity.host().to_owned(),
            is_this: host.identity == self.identity,
            identity: host.identity.to_string(),
            is_draining: host.is_draining,
            leases: host.leases.iter().map(|lease| lease.name.to_string()).collect(),
            cpu_millicores: host.millicores(),
            lease_cpu_millicores,
            description: host.description,
        }
    }

    /// Gives all leases of this host away and takes no other one, or takes leases again.
    pub(crate) fn set_drains(&self, drains: bool) {
        let rooms = self.rooms.lock();
        self.drains.store(drains, Ordering::Relaxed);
        for room in rooms.values() {
            room.set_drains(drains);
        }
        self.mirror.look_soon();
    }

    /// Gives the leases of this host itself and of its own controllers up. Those of guests are given up before.
    async fn leave(&self) {
        let ends: Vec<_> = {
            let own = self.own.lock();
            own.iter().for_each(|keeper| keeper.leave());
            own.iter().map(|keeper| keeper.ended.clone()).collect()
        };
        let end = tokio::time::Instant::now() + self.times.request_timeout.min(placement::RELEASE_MAX);
        for ended in ends {
            // A store that is away gets no release: the lease runs out.
            let _late = tokio::time::timeout_at(end, ended.cancelled()).await;
        }
    }

    /// Returns the leases of the store that has a kind; `None` where no other host has its resources.
    fn room(&self, stores: &Stores, store: &Arc<str>) -> Option<Arc<LeaseRoom>> {
        let mut rooms = self.rooms.lock();
        if let Some(known) = rooms.get(store) {
            return Some(Arc::clone(known));
        }
        let part = stores.parts().into_iter().find(|part| part.name == *store)?;
        let (identity, clock) = (self.identity.clone(), Arc::clone(&self.clock));
        let (leases, weight) = (part.store.leases()?, self.description.lock().weight());
        let room = Arc::new(LeaseRoom::new(
            Arc::clone(store),
            leases,
            identity,
            self.times,
            clock,
            weight,
            self.mirror.clone(),
        ));
        let (watched, end) = (Arc::clone(&room), self.end.clone());
        self.tasks.spawn(async move { end.run_until_cancelled(watched.run()).await });
        if let Err(error) = self.keep_host(&room) {
            tracing::warn!(store = &**store, %error, "this host cannot have a lease of its own");
        }
        room.set_drains(self.drains.load(Ordering::Relaxed));
        rooms.insert(Arc::clone(store), Arc::clone(&room));
        Some(room)
    }

    /// Gives the leases of [`Fleet::leave`] up, and ends keepers and watches. Leases that are still held run out.
    pub(crate) async fn stop(&self) {
        self.leave().await;
        self.end.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

#[cfg(test)]
impl Default for Fleet {
    fn default() -> Self {
        Self::new(FleetOptions::default())
    }
}

/// Returns an identity that no other process has, and no other keeper of this one.
fn new_identity(host: &str) -> Identity {
    Identity::new(&format!("{host}_{}", uuid::Uuid::new_v4().simple()))
}

/// Returns the time since the start of the machine, the time of its sleep included.
#[cfg(target_os = "linux")]
fn boot_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    time.try_into().unwrap_or_default()
}

/// Returns the time since the first call. A machine without such a clock stops it while it sleeps.
#[cfg(not(target_os = "linux"))]
fn boot_time() -> Duration {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed()
}

/// Returns the name of the machine, with the characters that a host's name can have.
fn machine_name() -> String {
    #[cfg(target_os = "linux")]
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    #[cfg(not(target_os = "linux"))]
    let name = String::new();
    let name: String = name.chars().filter(|character| is_of_host_name(*character)).take(HOST_NAME_BYTES_MAX).collect();
    if name.is_empty() { "host".to_owned() } else { name }
}
