//! The room that several queues share, and what each of them has of it.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Room for keys, and for the texts of their errors, that the queues of one host share.
///
/// One half of it goes to whoever comes first. The other half is there for all alike: a queue that has less than its part of that
/// finds room, however much the others have taken. So a queue that takes all it can keeps no other one from its part.
#[derive(Debug)]
pub struct SharedCapacity {
    keys: Pool,
    error_bytes: Pool,
    queues: AtomicU64,
}

#[derive(Debug)]
struct Pool {
    most: u64,
    taken: AtomicU64,
}

impl SharedCapacity {
    /// Returns room for so many keys, and for so many bytes of error texts.
    pub fn new(keys_max: u64, error_bytes_max: u64) -> Arc<SharedCapacity> {
        let pool = |most| Pool { most, taken: AtomicU64::new(0) };
        Arc::new(SharedCapacity { keys: pool(keys_max), error_bytes: pool(error_bytes_max), queues: AtomicU64::new(0) })
    }

    /// Returns how many keys all queues have.
    pub fn keys(&self) -> u64 {
        self.keys.taken.load(Ordering::Relaxed)
    }

    /// Returns how many bytes of error texts all queues have.
    pub fn error_bytes(&self) -> u64 {
        self.error_bytes.taken.load(Ordering::Relaxed)
    }

    /// Returns for how many keys there is room.
    pub fn keys_max(&self) -> u64 {
        self.keys.most
    }

    /// Returns for how many bytes of error texts there is room.
    pub fn error_bytes_max(&self) -> u64 {
        self.error_bytes.most
    }
}

impl Pool {
    /// Returns how much more somebody finds who has `own`, one of so many queues, when so much is taken in all.
    fn free(&self, taken: u64, own: u64, queues: u64) -> u64 {
        let first_come = (self.most / 2).saturating_sub(taken);
        let part = (self.most / 2 / queues.max(1)).saturating_sub(own);
        first_come.max(part).min(self.most.saturating_sub(taken))
    }

    fn take(&self, amount: u64, own: u64, queues: u64) -> bool {
        let more = |taken| (self.free(taken, own, queues) >= amount).then(|| taken + amount);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }
}

/// What one queue has: keys, and bytes of error texts.
pub(crate) struct CapacityUse {
    /// `None`: it shares with nobody.
    room: Option<Arc<SharedCapacity>>,
    keys: u64,
    error_bytes: u64,
    /// What stands in place of an error that is not kept.
    left_out: Arc<str>,
}

/// What stands in place of the text of an error for which there is no room.
const LEFT_OUT: &str =
    "limit error-bytes: the texts of other errors have taken all room; the events and the log have this one";

impl CapacityUse {
    pub(crate) fn of(room: Option<Arc<SharedCapacity>>) -> CapacityUse {
        if let Some(room) = &room {
            room.queues.fetch_add(1, Ordering::Relaxed);
        }
        CapacityUse { room, keys: 0, error_bytes: 0, left_out: LEFT_OUT.into() }
    }

    /// Returns how many bytes of error texts it has.
    pub(crate) fn error_bytes(&self) -> u64 {
        self.error_bytes
    }

    /// Returns for how many more keys there is room now.
    pub(crate) fn free(&self, keys_max: Option<u32>) -> u64 {
        let own = keys_max.map_or(u64::MAX, |most| u64::from(most).saturating_sub(self.keys));
        let shared =
            |room: &Arc<SharedCapacity>| room.keys.free(room.keys(), self.keys, room.queues.load(Ordering::Relaxed));
        self.room.as_ref().map_or(own, |room| own.min(shared(room)))
    }

    /// Takes room for one key, if there is some.
    #[inline]
    pub(crate) fn reserve_key(&mut self, keys_max: Option<u32>) -> bool {
        let fits = keys_max.is_none_or(|most| self.keys < u64::from(most));
        let is_taken = fits
            && self.room.as_ref().is_none_or(|room| room.keys.take(1, self.keys, room.queues.load(Ordering::Relaxed)));
        self.keys += u64::from(is_taken);
        is_taken
    }

    #[inline]
    pub(crate) fn release_key(&mut self) {
        self.keys -= 1;
        if let Some(room) = &self.room {
            room.keys.taken.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Takes room for the text of an error. Returns it with its bytes; what stands in its place, of no bytes, where there is no room.
    pub(crate) fn reserve_error(&mut self, error: Arc<str>, error_bytes_max: Option<u64>) -> (Arc<str>, u32) {
        let bytes = error.len() as u64;
        let fits = error_bytes_max.is_none_or(|most| self.error_bytes + bytes <= most) && bytes <= u64::from(u32::MAX);
        let is_taken = fits
            && self
                .room
                .as_ref()
                .is_none_or(|room| room.error_bytes.take(bytes, self.error_bytes, room.queues.load(Ordering::Relaxed)));
        if !is_taken {
            return (Arc::clone(&self.left_out), 0);
        }
        self.error_bytes += bytes;
        (error, bytes as u32)
    }

    pub(crate) fn release_error(&mut self, bytes: u32) {
        self.error_bytes -= u64::from(bytes);
        if let Some(room) = &self.room {
            room.error_bytes.taken.fetch_sub(u64::from(bytes), Ordering::Relaxed);
        }
    }
}

impl Drop for CapacityUse {
    fn drop(&mut self) {
        if let Some(room) = &self.room {
            room.queues.fetch_sub(1, Ordering::Relaxed);
            room.keys.taken.fetch_sub(self.keys, Ordering::Relaxed);
            room.error_bytes.taken.fetch_sub(self.error_bytes, Ordering::Relaxed);
        }
    }
}
