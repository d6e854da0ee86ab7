//! The way of a key from the guest of a controller to that controller's queue.
//!
//! A key takes effect at once: the guest learns whether the queue took it, and another worker may run it before the
//! reconcile ends. A reconcile that fails later runs again and enqueues it again, and equal keys merge.

use std::sync::{Arc, OnceLock, Weak};

use homeostat_component::StoreError;
use homeostat_component::layers::EnqueuedKey;
use homeostat_store::Key;
use homeostat_workqueue::{AddError, Delay, Queue};

use crate::bands::band;
use crate::feeder_set::FeederSet;
use crate::feeders::SuspendFilter;
use crate::mapping::ManagedKind;
use crate::slot::{Audience, Slot};

/// Takes keys of a guest. It takes none before it is connected to a queue.
#[derive(Default)]
pub(crate) struct GuestQueue(OnceLock<ConnectedQueue>);

struct ConnectedQueue {
    /// The slot has the effect layers, and these have this queue.
    slot: Weak<Slot>,
    filter: Arc<SuspendFilter>,
    manages: ManagedKind,
}

impl GuestQueue {
    /// Connects the queue of the controller. Repeating it does nothing.
    pub(crate) fn connect(&self, slot: &Arc<Slot>, feeders: &FeederSet) {
        let manages = ManagedKind::of(&slot.current().component().describe().manages);
        let connected = ConnectedQueue { slot: Arc::downgrade(slot), filter: feeders.deletions().clone(), manages };
        drop(self.0.set(connected));
    }

    /// Adds a key that a guest enqueues.
    ///
    /// # Errors
    /// `Invalid` for a key that no managed resource can have. `Forbidden` if the version that would run the key has no
    /// grant to watch it. `Unavailable` when the queue is full or closed, or when another host holds the lease of the key.
    pub(crate) fn add(&self, enqueued: EnqueuedKey) -> Result<(), StoreError> {
        let unavailable = |why: &str| StoreError::Unavailable(why.to_owned());
        let EnqueuedKey { key, after, priority, hold } = enqueued;
        let connected = self.0.get().ok_or_else(|| unavailable("the controller has no queue yet"))?;
        let slot = connected.slot.upgrade().ok_or_else(|| unavailable("the controller is ending"))?;
        if let Some(refusal) = connected.manages.refusal(&key) {
            return Err(StoreError::Invalid(format!("key: {refusal}")));
        }
        if !slot.may_get(&key) {
            return Err(StoreError::Forbidden("no grant lets the controller watch this key".to_owned()));
        }
        if !slot.current().component().describe().manages.keys_only
            && let Err(error) = key.check()
        {
            return Err(StoreError::Invalid(format!("key: {error}")));
        }
        // The holder has the same changes, but not this key.
        if !slot.has(&key) {
            return Err(unavailable("another host holds the lease of this key"));
        }
        let key = Key::new(connected.manages.kind.clone(), key.namespace(), key.name());
        let delay = Delay { after, hold };
        let add = |queue: &Queue<Key>, key, band| queue.add_delayed(key, delay, band);
        connected.filter.add(key, band(priority), add).map(drop).map_err(|refused| match refused {
            AddError::Closed => unavailable("the queue is closed"),
            AddError::Full => unavailable("limit keys: the queue is full"),
        })
    }
}
