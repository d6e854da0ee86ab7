//! The suspension of a controller: which of its keys may run.

use std::sync::Arc;

use homeostat_store::Key;
use homeostat_workqueue::Queue;
use parking_lot::Mutex;

use crate::Suspend;
use crate::feeders::{DELETIONS_BAND, SuspendFilter};
use crate::rollout::shadow::ShadowSlot;
use crate::slot::Slot;

/// The operator's suspension and that of the current definition; the stricter one applies.
pub(crate) struct Suspension {
    queue: Queue<Key>,
    slot: Arc<Slot>,
    deletions: Arc<SuspendFilter>,
    shadow: Arc<ShadowSlot>,
    /// The operator's suspension. Locked while either is applied to the queue.
    held: Mutex<Suspend>,
}

impl Suspension {
    pub(super) fn new(
        queue: Queue<Key>,
        slot: Arc<Slot>,
        deletions: Arc<SuspendFilter>,
        shadow: Arc<ShadowSlot>,
        held: Suspend,
    ) -> Self {
        Self { queue, slot, deletions, shadow, held: Mutex::new(held) }
    }

    /// Sets the operator's suspension.
    pub(crate) fn hold(&self, hold: Suspend) {
        let mut held = self.held.lock();
        *held = hold;
        self.apply_with(*held);
    }

    /// Applies the suspension of the definition and of the operator to the queue.
    pub(crate) fn apply(&self) {
        let held = self.held.lock();
        self.apply_with(*held);
    }

    /// The caller keeps `held` locked.
    fn apply_with(&self, held: Suspend) {
        match self.effective(held) {
            Suspend::No => {
                self.deletions.set_deletions_only(false);
                self.queue.resume();
            }
            Suspend::Yes => {
                self.shadow.end();
                self.queue.suspend();
                self.deletions.set_deletions_only(false);
            }
            Suspend::ExceptDeletes => {
                // Suspended completely first, so that no key slips through while the bands are reordered.
                self.queue.suspend();
                self.deletions.set_deletions_only(true);
                self.queue.suspend_below(DELETIONS_BAND);
            }
        }
    }

    /// Calls `act` with the effective suspension, which cannot change meanwhile.
    pub(crate) fn with<R>(&self, act: impl FnOnce(Suspend) -> R) -> R {
        let held = self.held.lock();
        act(self.effective(*held))
    }

    fn effective(&self, held: Suspend) -> Suspend {
        held.and(self.slot.current().definition.suspend)
    }
}
