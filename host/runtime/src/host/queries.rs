//! Queries: controllers, their costs and queues, and the parts that they share.

use std::sync::Arc;

use homeostat_component::Needs;
use homeostat_store::Store;

use super::Host;
use crate::costs::ControllerCosts;
use crate::stats::{HostCapacity, Measures};
use crate::status::{ControllerStatus, QueueEntry};
use crate::{Definition, Error, EventLog, Kinds, LogBook};

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

    /// Gives all leases of this host away, so that other hosts work on its controllers, and takes no other one. With
    /// `false` the host takes leases again. A restart ends it too.
    pub fn set_drains(&self, drains: bool) {
        self.inner.context.fleet.set_drains(drains);
    }

    /// Returns the status of every controller, by name.
    pub fn controllers(&self) -> Vec<ControllerStatus> {
        self.running().iter().map(|controller| controller.status()).collect()
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

    /// Returns the store through which all kinds are read and written.
    pub fn store(&self) -> Arc<dyn Store> {
        self.inner.context.store.clone()
    }
}
