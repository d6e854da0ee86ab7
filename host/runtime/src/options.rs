//! The parts and bounds that a host is started with.

use std::sync::Arc;
use std::time::Duration;

use homeostat_component::Engine;
use homeostat_component::layers::Secrets;
use homeostat_store::Store;

use crate::costs::NoopObserver;
use crate::events::{EVENT_TTL, EVENTS_MAX};
use crate::feeder_sources::{FeederFolder, MessageStores};
use crate::secrets::NoSecrets;
use crate::{BuiltInGroups, FleetOptions, NamespacePolicy, Observer, Stores};

/// Default bound on the keys of all queues together.
pub const QUEUE_KEYS_MAX: u64 = 500_000;
/// Default bound on the bytes of error texts kept for queued keys.
pub const QUEUE_ERROR_BYTES_MAX: u64 = 64 << 20;
/// Default bound on the number of controllers.
pub const CONTROLLERS_MAX: usize = 10_000;

/// The parts and bounds of a host. [`Options::new`] has the defaults.
pub struct Options {
    /// Compiles and runs guests.
    pub engine: Engine,
    /// Keep resources.
    pub stores: Stores,
    /// Which of Kubernetes' built-in kinds are served. Default: none.
    pub built_in: BuiltInGroups,
    /// Whether a namespace must exist before something is created in it. Only if `Namespace` is built in. Default: no.
    pub namespaces: NamespacePolicy,
    /// Where the secrets of HTTP grants come from. Default: no secrets.
    pub secrets: Arc<dyn Secrets>,
    /// The folder whose files the feeders of manifests may follow. Default: `None`, which allows none.
    pub feeder_folder: Option<Arc<dyn FeederFolder>>,
    /// The stores whose servers have messages for the feeders of manifests. Default: `None`, which has none.
    pub message_stores: Option<Arc<dyn MessageStores>>,
    /// Receives a record of every reconcile. Default: an observer that does nothing.
    pub observer: Arc<dyn Observer>,
    /// How long a removed controller may finish running reconciles. Default: 10 s.
    pub drain_deadline: Duration,
    /// Maximum number of keys on the queues of all controllers together. Default: 500 000. The limits of a
    /// controller bound its own queue. Half of this room is first come, first served; the other half is
    /// shared among all controllers.
    pub queue_keys_max: u64,
    /// Maximum bytes of error texts kept for those keys. Default: 64 MiB. Shared like `queue_keys_max`.
    pub queue_error_bytes_max: u64,
    /// Maximum number of events kept, of all controllers together, and of events as resources. Default: 4096.
    pub events_max: usize,
    /// How long events are kept as resources after their last occurrence. Default: [`EVENT_TTL`], an hour.
    pub event_ttl: Duration,
    /// Maximum number of controllers, including those that are ending. Default: 10 000.
    pub controllers_max: usize,
    /// Deletes the dependents of owners that lived in another store and are gone. Only the store in which an owner
    /// was named, with the content that it had then, can say that it is gone. Default: `false`.
    pub collects_across_stores: bool,
    /// Keeps a `Host` resource in the host's own store for this host and for each one that shares stores with it, as this
    /// host knows them. Default: `false`.
    pub mirrors_hosts: bool,
    /// The host's part in a fleet of hosts that share stores. Default: a name made from that of the machine, and the times
    /// of client-go.
    pub fleet: FleetOptions,
    /// Seed of the queues' randomness, which is the jitter of backoffs. Default: `None`, seeded by the
    /// operating system.
    pub seed: Option<u64>,
}

impl Options {
    /// Returns the defaults around an engine and a store.
    pub fn new(engine: Engine, store: Arc<dyn Store>) -> Self {
        Self::with_stores(engine, Stores::One(store))
    }

    /// Returns the defaults around an engine and one or more stores.
    pub fn with_stores(engine: Engine, stores: Stores) -> Self {
        Self {
            engine,
            stores,
            built_in: BuiltInGroups::default(),
            namespaces: NamespacePolicy::default(),
            secrets: Arc::new(NoSecrets),
            feeder_folder: None,
            message_stores: None,
            observer: Arc::new(NoopObserver),
            drain_deadline: Duration::from_secs(10),
            queue_keys_max: QUEUE_KEYS_MAX,
            queue_error_bytes_max: QUEUE_ERROR_BYTES_MAX,
            events_max: EVENTS_MAX,
            event_ttl: EVENT_TTL,
            controllers_max: CONTROLLERS_MAX,
            collects_across_stores: false,
            mirrors_hosts: false,
            fleet: FleetOptions::default(),
            seed: None,
        }
    }
}
