//! What is known of a key's failures, and the room that the texts of their errors take.

use std::sync::Arc;

use super::State;
use crate::Moment;

impl<K> State<K> {
    /// Forgets the failures of an entry.
    pub(super) fn succeed(&mut self, slot: u32) {
        self.give_error_back(slot);
        self.slab[slot].succeed();
    }

    /// Notes the failure of a run that began then.
    pub(super) fn fail(&mut self, slot: u32, began: Moment, error: Arc<str>) {
        self.give_error_back(slot);
        let is_empty = error.is_empty();
        let kept = self.share.keep(error, self.options.error_bytes_max);
        self.counters.errors_left_out += u64::from(kept.1 == 0 && !is_empty);
        self.slab[slot].fail(began, kept);
    }

    /// Gives back the room of an entry's error text; the caller forgets the text at once.
    #[inline]
    pub(super) fn give_error_back(&mut self, slot: u32) {
        let bytes = self.slab[slot].error_bytes();
        if bytes > 0 {
            self.share.give_error_back(bytes);
        }
    }
}
