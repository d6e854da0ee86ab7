//! What a host tells: of its controllers, and of what they share.

use std::sync::Arc;

use homeostat_component::Needs;
use homeostat_store::Store;

use super::Host;
use crate::costs::ControllerCosts;
use crate::stats::{HostCapacity, Measures};
use crate::status::{ControllerStatus, QueueEntry};
use crate::{Definition, Error, EventLog, Kinds, LogBook};

impl Host {
    /// Returns every controller as it is now, by name.
    pub fn controllers(&self) -> Vec<ControllerStatus> {
        self.running().iter().map(|controller| controller.status()).collect()
    }

    /// Returns one controller as it is now; `None` when it does not run.
    pub fn status(&self, name: &str) -> Option<ControllerStatus> {
        self.controller(name).ok().map(|controller| controller.status())
    }

    /// Returns everything about the host and its controllers that is a number.
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

    /// Returns what the reconciles of controllers cost, by name; with their dearest keys where `with_keys` says so.
    pub fn costs(&self, with_keys: bool) -> Vec<ControllerCosts> {
        self.running().iter().map(|controller| controller.account(with_keys)).collect()
    }

    /// Returns what the reconciles of one controller cost, with its dearest keys.
    ///
    /// # Errors
    /// [`Error::UnknownController`].
    pub fn costs_of(&self, name: &str) -> Result<ControllerCosts, Error> {
        Ok(self.controller(name)?.account(true))
    }

    /// Returns what a controller was seen to ask for since it was added, or since that was forgotten.
    ///
    /// # Errors
    /// [`Error::UnknownController`].
    pub fn needs(&self, name: &str) -> Result<Arc<Needs>, Error> {
        Ok(self.controller(name)?.observations.needs.clone())
    }

    /// Returns what a controller was last given.
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

    /// Returns what happened.
    pub fn events(&self) -> Arc<EventLog> {
        self.inner.context.events.clone()
    }

    /// Returns what guests wrote.
    pub fn logs(&self) -> Arc<LogBook> {
        self.inner.context.logs.clone()
    }

    /// Returns the kinds that are known.
    pub fn kinds(&self) -> Arc<Kinds> {
        self.inner.context.kinds.clone()
    }

    /// Returns the store.
    pub fn store(&self) -> Arc<dyn Store> {
        self.inner.context.store.clone()
    }
}
