//! What is known of a key's failures, and the room that the texts of their errors take.

use std::sync::Arc;

use super::State;
use crate::Moment;

impl<K> State<K> {
    /// Forgets the failures of an entry.
    pub(super) fn forget_failures(&mut self, slot: u32) {
        self.release_error(slot);
        self.slab[slot].forget_failures();
    }

    /// Notes the failure of a run that began then.
    pub(super) fn record_failure(&mut self, slot: u32, began: Moment, error: Arc<str>) {
        self.release_error(slot);
        let is_empty = error.is_empty();
        let kept = self.capacity.reserve_error(error, self.options.error_bytes_max);
        self.counters.errors_left_out += u64::from(kept.1 == 0 && !is_empty);
        self.slab[slot].record_failure(began, kept);
    }

    /// Gives back the room of an entry's error text; the caller forgets the text at once.
    #[inline]
    pub(super) fn release_error(&mut self, slot: u32) {
        let bytes = self.slab[slot].error_bytes();
        if bytes > 0 {
            self.capacity.release_error(bytes);
        }
    }
}
