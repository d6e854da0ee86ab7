//! Counts of what a controller did.

use std::sync::Arc;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use homeostat_component::Digest;
use parking_lot::Mutex;

use crate::settle::Label;
use crate::status::SwapRecord;

#[derive(Default)]
pub(crate) struct Stats {
    reconciles: AtomicU64,
    failures: AtomicU64,
    answered_by: ArcSwapOption<Digest>,
    last_swap: Mutex<Option<SwapRecord>>,
}

impl Stats {
    /// Counts one reconcile that ended, and who answered it.
    pub(crate) fn count(&self, label: Label, digest: &Digest) {
        self.reconciles.fetch_add(1, Ordering::Relaxed);
        if label.is_failure() {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
        if self.answered_by.load().as_deref() != Some(digest) {
            self.answered_by.store(Some(Arc::new(digest.clone())));
        }
    }

    pub(crate) fn reconciles(&self) -> u64 {
        self.reconciles.load(Ordering::Relaxed)
    }

    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    pub(crate) fn answered_by(&self) -> Option<String> {
        self.answered_by.load().as_deref().map(ToString::to_string)
    }

    pub(crate) fn swapped(&self, record: SwapRecord) {
        *self.last_swap.lock() = Some(record);
    }

    pub(crate) fn last_swap(&self) -> Option<SwapRecord> {
        self.last_swap.lock().clone()
    }
}

/// The number of workers that run. It follows the number that is wanted: up at once, down as they finish what they have.
#[derive(Default)]
pub(crate) struct Workers(AtomicU32);

impl Workers {
    /// Counts up to `wanted`, and returns how many workers to start for that.
    pub(crate) fn missing(&self, wanted: u32) -> u32 {
        wanted.saturating_sub(self.0.fetch_max(wanted, Ordering::SeqCst))
    }

    /// Lets the calling worker leave when more run than are wanted.
    pub(crate) fn leave_if_surplus(&self, wanted: u32) -> bool {
        self.0
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |running| (running > wanted).then(|| running - 1))
            .is_ok()
    }
}

#[cfg(test)]
mod tests;
