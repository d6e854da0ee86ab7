//! The parts that all controllers of a host share.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use homeostat_component::layers::{HttpClient, Secrets};
use homeostat_component::{Engine, Limits};
use homeostat_store::Store;
use homeostat_workqueue::SharedCapacity;
use tokio::runtime::Handle;

use crate::admission_chain::AdmissionChain;
use crate::conversion::ConvertingStore;
use crate::declarations::Declarations;
use crate::feeder_sources::{FeederFolder, MessageStores};
use crate::fleet::Fleet;
use crate::kinds::OwnerKindResolver;
use crate::scheduler::Scheduler;
use crate::shared_watches::SharedWatches;
use crate::{CodeSource, Error, EventLog, Kinds, LogBook, Observer, Options, Stores};

mod events;

pub(crate) struct Context {
    pub(crate) engine: Engine,
    /// All kinds.
    pub(crate) store: Arc<dyn Store>,
    /// The same, which shows and takes kinds with a conversion in every served version: for clients and guests.
    pub(crate) converting: Arc<dyn Store>,
    /// The same, one by one.
    pub(crate) stores: Stores,
    /// The watches that the feeders of all controllers share.
    pub(crate) watches: Arc<SharedWatches>,
    pub(crate) kinds: Arc<Kinds>,
    /// The plug-ins that the writes of clients and guests pass.
    pub(crate) admission: Arc<AdmissionChain>,
    /// The stored declarations of the components' kinds.
    pub(crate) declarations: Declarations,
    pub(crate) events: Arc<EventLog>,
    pub(crate) logs: Arc<LogBook>,
    pub(crate) http: HttpClient,
    pub(crate) secrets: Arc<dyn Secrets>,
    /// The folder whose files feeders may follow.
    pub(crate) feeder_folder: Option<Arc<dyn FeederFolder>>,
    /// The stores whose servers have messages for feeders.
    pub(crate) message_stores: Option<Arc<dyn MessageStores>>,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) scheduler: Arc<Scheduler>,
    pub(crate) fleet: Arc<Fleet>,
    /// How long reconciles may go on after their controller or their lease was given up.
    pub(crate) drain_deadline: Duration,
    /// The bound that all queues share.
    pub(crate) room: Arc<SharedCapacity>,
    /// Where the code of controllers comes from; set by `Host::run_controllers`.
    pub(crate) code: OnceLock<Arc<dyn CodeSource>>,
    seed: Option<u64>,
}

impl Context {
    /// Builds the shared parts from the options of a host.
    ///
    /// # Errors
    /// When the HTTP client cannot be built.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub(crate) fn new(options: Options) -> Result<Self, Error> {
        let Options {
            engine,
            stores,
            built_in,
            namespaces,
            secrets,
            feeder_folder,
            message_stores,
            observer,
            drain_deadline,
            queue_keys_max,
            queue_error_bytes_max,
            events_max,
            event_ttl: _,
            controllers_max: _,
            collects_across_stores: _,
            mirrors_hosts: _,
            fleet,
            seed,
        } = options;
        let kinds = Arc::new(Kinds::of_stores(&stores, &built_in));
        if let Stores::Routed(stores) = &stores {
            stores.set_owner_kinds(Arc::new(OwnerKindResolver(Arc::downgrade(&kinds))));
        }
        let store = stores.whole();
        let admission = Arc::new(AdmissionChain::new(namespaces, &stores));
        Ok(Self {
            engine,
            watches: SharedWatches::of(store.clone()),
            converting: Arc::new(ConvertingStore::new(Arc::clone(&store), kinds.converters())),
            store,
            stores,
            http: HttpClient::new(Limits::default().http_body_bytes_max)?,
            secrets,
            feeder_folder,
            message_stores,
            observer,
            scheduler: Scheduler::new(Handle::current().metrics().num_workers()),
            drain_deadline,
            fleet: Arc::new(Fleet::new(fleet)),
            code: OnceLock::new(),
            room: SharedCapacity::new(queue_keys_max, queue_error_bytes_max),
            seed,
            kinds,
            admission,
            declarations: Declarations::default(),
            events: Arc::new(EventLog::new(events_max)),
            logs: Arc::default(),
        })
    }

    /// Returns the seed of a controller's queue: equal for equal names, different for different ones.
    pub(crate) fn seed(&self, controller: &str) -> Option<u64> {
        let seed = self.seed?;
        let mut hasher = DefaultHasher::new();
        (seed, controller).hash(&mut hasher);
        Some(hasher.finish())
    }
}

#[cfg(test)]
pub(crate) mod tests;
