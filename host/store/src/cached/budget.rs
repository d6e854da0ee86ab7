//! The bound on the memory of all caches of a store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Kind, Resource};

/// Memory of a cached resource beside its text, in bytes: its key, its entries in the indexes, its metadata.
const RESOURCE_BYTES: u64 = 512;

/// A kind grows while its bytes are at most this many times those that are left. So a kind alone can use all but a
/// sixteenth, and of several kinds the largest one reaches the bound first.
const LEFT_MULTIPLE_MAX: u64 = 15;

/// Bytes that the caches of one store may use together.
#[derive(Debug)]
pub(crate) struct Budget {
    used: AtomicU64,
    bytes_max: u64,
}

/// Bytes of one cache. They return to the budget when this is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    budget: Arc<Budget>,
    bytes: u64,
    /// Bytes that another charge has for the same kind.
    beside: u64,
}

/// The budget has no room for a kind of this size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BudgetExceeded;

impl Budget {
    pub(crate) fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(Self { used: AtomicU64::new(0), bytes_max })
    }

    /// Returns a charge of nothing.
    pub(crate) fn charge(self: &Arc<Self>) -> Charge {
        Charge { budget: Arc::clone(self), bytes: 0, beside: 0 }
    }

    /// Returns the reason that a kind has no cache, for a person who can change that.
    pub(crate) fn describe(&self, store: &str, kind: &Kind) -> String {
        let store = if store.is_empty() { String::new() } else { format!(" of store {store}") };
        let mib = self.bytes_max >> 20;
        format!(
            "the cache{store} is full ({mib} MiB): {kind} needs more; raise `cache.bytesMax`, or restrict the store to a namespace"
        )
    }
}

impl Charge {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns a charge of nothing, for further bytes of the same kind.
    pub(crate) fn further(&self) -> Self {
        Self { budget: Arc::clone(&self.budget), bytes: 0, beside: self.bytes }
    }

    /// Replaces `old` of the charged bytes by `new`.
    ///
    /// # Errors
    /// The kind would have more than [`LEFT_MULTIPLE_MAX`] times the bytes that are left. Nothing has changed.
    pub(crate) fn replace(&mut self, old: u64, new: u64) -> Result<(), BudgetExceeded> {
        let grown = new.saturating_sub(old);
        let used = self.budget.used.fetch_add(grown, Ordering::Relaxed) + grown;
        let left = self.budget.bytes_max.saturating_sub(used);
        if grown > 0 && self.beside + self.bytes + grown > left.saturating_mul(LEFT_MULTIPLE_MAX) {
            self.budget.used.fetch_sub(grown, Ordering::Relaxed);
            return Err(BudgetExceeded);
        }
        self.bytes += grown;
        self.release(old.saturating_sub(new));
        Ok(())
    }

    /// Returns some of the charged bytes, never more than those.
    pub(crate) fn release(&mut self, bytes: u64) {
        debug_assert!(bytes <= self.bytes, "{bytes} of {} bytes are returned", self.bytes);
        let bytes = bytes.min(self.bytes);
        self.budget.used.fetch_sub(bytes, Ordering::Relaxed);
        self.bytes -= bytes;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Returns the memory of a cached resource, in bytes.
pub(crate) fn bytes_of(resource: &Resource) -> u64 {
    resource.stored_bytes() + RESOURCE_BYTES
}
