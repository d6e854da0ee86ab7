//! The failures of keys, and the capacity that their error texts take.

use std::sync::Arc;

use super::State;
use crate::Moment;

impl<K> State<K> {
    /// Resets the failures of an entry.
    pub(super) fn forget_failures(&mut self, slot: u32) {
        self.release_error(slot);
        self.slab[slot].forget_failures();
    }

    /// Records the failure of a run that started at `began`.
    pub(super) fn record_failure(&mut self, slot: u32, began: Moment, error: Arc<str>) {
        self.release_error(slot);
        let is_empty = error.is_empty();
        let kept = self.capacity.reserve_error(error, self.options.error_bytes_max);
        self.counters.errors_left_out += u64::from(kept.1 == 0 && !is_empty);
        self.slab[slot].record_failure(began, kept);
    }

    /// Releases the capacity of an entry's error text; the caller discards the text at once.
    #[inline]
    pub(super) fn release_error(&mut self, slot: u32) {
        let bytes = self.slab[slot].error_bytes();
        if bytes > 0 {
            self.capacity.release_error(bytes);
        }
    }
}
