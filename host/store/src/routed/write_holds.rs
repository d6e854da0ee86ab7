//! The kinds whose writes are held while they are moved.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{RwLock, RwLockReadGuard};

use crate::{Error, Kind, Result};

/// Kinds share these gates, so that a move waits for few writes of other kinds.
const GATES: usize = 16;

/// The kinds whose writes are held.
#[derive(Default)]
pub(super) struct WriteHolds {
    reasons: Mutex<Vec<(Kind, Arc<str>)>>,
    /// Read by each write while it is under way.
    gates: [RwLock<()>; GATES],
}

impl WriteHolds {
    fn lock(&self) -> MutexGuard<'_, Vec<(Kind, Arc<str>)>> {
        self.reasons.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn gate(&self, kind: &Kind) -> &RwLock<()> {
        let sum = kind.group.bytes().chain(kind.name.bytes()).fold(0_usize, |sum, byte| sum + usize::from(byte));
        &self.gates[sum % GATES]
    }

    /// Lets a write begin, once no step of a move stops it.
    ///
    /// # Errors
    /// `Unavailable` while the writes of the kind are held. Cancel safe.
    pub(super) async fn enter(&self, kind: &Kind) -> Result<RwLockReadGuard<'_, ()>> {
        let guard = self.gate(kind).read().await;
        match self.lock().iter().find(|(held, _)| held.same_type(kind)) {
            Some((_, reason)) => Err(Error::unavailable(reason)),
            None => Ok(guard),
        }
    }

    /// Holds the writes of a kind. Returns when no earlier write is under way.
    pub(super) async fn hold(self: &Arc<Self>, kind: &Kind, reason: String) -> WriteHold {
        self.set(kind, Some(reason));
        let hold = WriteHold { holds: Arc::clone(self), kind: kind.clone(), is_kept: false };
        drop(self.gate(kind).write().await);
        hold
    }

    /// Returns why writes are held.
    pub(super) fn reasons(&self) -> Vec<String> {
        self.lock().iter().map(|(_, reason)| reason.to_string()).collect()
    }

    fn set(&self, kind: &Kind, reason: Option<String>) {
        let mut reasons = self.lock();
        reasons.retain(|(held, _)| !held.same_type(kind));
        reasons.extend(reason.map(|reason| (kind.clone(), reason.into())));
    }
}

/// The writes of a kind are held while this lives, or until the host ends.
pub(crate) struct WriteHold {
    holds: Arc<WriteHolds>,
    kind: Kind,
    is_kept: bool,
}

impl WriteHold {
    /// Holds the writes until the host ends.
    pub(crate) fn keep(mut self, reason: String) {
        self.is_kept = true;
        self.holds.set(&self.kind, Some(reason));
    }
}

impl Drop for WriteHold {
    fn drop(&mut self) {
        if !self.is_kept {
            self.holds.set(&self.kind, None);
        }
    }
}
