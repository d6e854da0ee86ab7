//! Queries: controllers, their costs and queues, and the parts that they share.

use std::sync::Arc;

use homeostat_component::Needs;
use homeostat_store::{Key, Store};

use super::Host;
use crate::controller::Controller;
use crate::costs::ControllerCosts;
use crate::kind_graph::ControllerKinds;
use crate::stats::{HostCapacity, Measures};
use crate::status::{ControllerStatus, QueueEntry};
use crate::{Definition, Error, EventLog, KindGraph, Kinds, LogBook, OtherHost};

impl Host {
    /// Returns this host and those that share stores with it, by identity. Others are known only while the kind of
    /// a controller lives in a store that several hosts can share.
    pub fn hosts(&self) -> Vec<crate::HostStatus> {
        self.inner.context.fleet.status()
    }

    /// Returns the same as documents of the kind `Host`, as they are at this moment. The stored ones follow within a few
    /// seconds.
    pub fn host_documents(&self) -> Vec<serde_json::Value> {
        self.inner.context.fleet.documents()
    }

    /// Tells the other hosts at once where this one serves its API: it renews its own leases.
    pub fn set_address(&self, address: &str) {
        self.inner.context.fleet.set_address(address);
    }

    /// Returns the name of this run of the host.
    pub fn identity(&self) -> &str {
        self.inner.context.fleet.identity.as_str()
    }

    /// Returns the name of this host, in lower case.
    pub fn name(&self) -> &str {
        self.inner.context.fleet.identity.host()
    }

    /// Returns the last run of another host that has shared a store with this one. It may have ended, or
    /// drain.
    pub fn other_host(&self, name: &str) -> Option<OtherHost> {
        self.inner.context.fleet.other_host(name)
    }

    /// Returns the other hosts that share stores with this one and renew leases, by identity.
    pub fn other_hosts(&self) -> Vec<OtherHost> {
        self.inner.context.fleet.all_other_hosts()
    }

    /// Returns the last runs of the other hosts that have released their own leases, by name: they drain, or have ended.
    pub fn released_hosts(&self) -> Vec<OtherHost> {
        self.inner.context.fleet.released_hosts()
    }

    /// Returns the other hosts that hold leases of these controllers, by identity. A controller that does not
    /// run here has no leases.
    pub fn other_holders<'n>(&self, controllers: impl IntoIterator<Item = &'n str>) -> Vec<OtherHost> {
        let running = controllers.into_iter().filter_map(|name| self.controller(name).ok());
        let holders = running.flat_map(|controller| controller.slot.placement.holders());
        self.inner.context.fleet.other_hosts(holders)
    }

    /// Returns whether a controller runs here and works under leases.
    pub fn has_leases(&self, controller: &str) -> bool {
        self.controller(controller).is_ok_and(|controller| controller.slot.placement.is_leased())
    }

    /// Returns the controllers that run here and work under leases, by name.
    pub fn leased_controllers(&self) -> Vec<Arc<str>> {
        let running = self.running().into_iter().filter(|controller| controller.slot.placement.is_leased());
        running.map(|controller| Arc::clone(&controller.name)).collect()
    }

    /// Returns the other host that holds the lease of a key of a controller; `None` if this host holds it,
    /// nobody does, or the key needs none.
    ///
    /// # Errors
    /// [`Error::UnknownController`].
    pub fn other_holder_of(&self, controller: &str, key: &Key) -> Result<Option<OtherHost>, Error> {
        Ok(self.controller(controller)?.slot.placement.other_holder_of(key))
    }

    /// Returns the other host that leads the rollouts of a controller; `None` if no other host leads them.
    ///
    /// # Errors
    /// [`Error::UnknownController`].
    pub fn other_leader(&self, controller: &str) -> Result<Option<OtherHost>, Error> {
        Ok(self.controller(controller)?.slot.placement.other_leader())
    }

    /// Gives all leases of this host away, so that other hosts work on its controllers, and takes no other one. With
    /// `false` the host takes leases again. A restart ends it too.
    pub fn set_drains(&self, drains: bool) {
        self.inner.context.fleet.set_drains(drains);
    }

    /// Returns the status of every controller, by name.
    pub fn controllers(&self) -> Vec<ControllerStatus> {
        self.running().iter().map(|controller| controller.status()).collect()
    }

    /// Returns which kinds the running controllers turn into one another.
    pub fn kind_graph(&self) -> KindGraph {
        let kinds = |controller: &Arc<Controller>| ControllerKinds::of(&controller.slot.current().definition);
        KindGraph::new(self.running().iter().map(kinds).collect())
    }

    /// Returns the status of a controller, `None` if it does not run.
    pub fn status(&self, name: &str) -> Option<ControllerStatus> {
        self.controller(name).ok().map(|controller| controller.status())
    }

    /// Returns all measures of the host and its controllers.
    pub fn measure(&self) -> Measures {
        let engine = &self.inner.context.engine;
        let (instances_max, instances_free) = (engine.options().instances_max as usize, engine.instances_free());
        Measures {
            controllers: self.running().iter().map(|controller| controller.measure()).collect(),
            instances_running: instances_max.saturating_sub(instances_free),
            instances_free,
            room: HostCapacity::of(
                &self.inner.context.room,
                self.inner.controllers.read().count(),
                self.inner.controllers_max,
            ),
            compiled: engine.compilation_counts(),
            baseline: engine.components_with_baseline_code(),
        }
    }

    /// Returns the costs of all controllers, by name; with their most expensive keys if `with_keys`.
    pub fn costs(&self, with_keys: bool) -> Vec<ControllerCosts> {
        self.running().iter().map(|controller| controller.telemetry.account(&controller.name, with_keys)).collect()
    }

    /// Returns the costs of one controller, with its most expensive keys.
    ///
    /// # Errors
    /// [`Error::UnknownController`].
    pub fn costs_of(&self, name: &str) -> Result<ControllerCosts, Error> {
        let controller = self.controller(name)?;
        Ok(controller.telemetry.account(&controller.name, true))
    }

    /// Returns the capabilities that a controller has used or asked for, since it was added or since they
    /// were reset.
    ///
    /// # Errors
    /// [`Error::UnknownController`].
    pub fn needs(&self, name: &str) -> Result<Arc<Needs>, Error> {
        Ok(self.controller(name)?.telemetry.observations.needs.clone())
    }

    /// Returns the current definition of a controller.
    pub fn definition(&self, name: &str) -> Option<Definition> {
        self.controller(name).ok().map(|controller| controller.slot.current().definition.clone())
    }

    /// Returns keys on a controller's queue, at most `limit`.
    ///
    /// # Errors
    /// [`Error::UnknownController`].
    pub fn queue(&self, name: &str, limit: usize) -> Result<Vec<QueueEntry>, Error> {
        Ok(self.controller(name)?.queue.inspect(limit).into_iter().map(QueueEntry::from).collect())
    }

    /// Returns the event log.
    pub fn events(&self) -> Arc<EventLog> {
        self.inner.context.events.clone()
    }

    /// Returns the log of the guests.
    pub fn logs(&self) -> Arc<LogBook> {
        self.inner.context.logs.clone()
    }

    /// Returns the registry of kinds.
    pub fn kinds(&self) -> Arc<Kinds> {
        self.inner.context.kinds.clone()
    }

    /// Returns the store through which all kinds are read and written, in every served version.
    pub fn store(&self) -> Arc<dyn Store> {
        self.inner.context.converting.clone()
    }
}
