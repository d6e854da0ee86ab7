//! The capacity that several queues share, and the use of each queue.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Capacity for keys and for their error texts, shared by the queues of one host.
///
/// One half is first come, first served. The other half is reserved in equal parts, one per queue: a queue
/// that uses less than its part always finds capacity. So a greedy queue cannot starve the others.
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
    /// Creates a capacity of so many keys and so many bytes of error texts.
    pub fn new(keys_max: u64, error_bytes_max: u64) -> Arc<SharedCapacity> {
        let pool = |most| Pool { most, taken: AtomicU64::new(0) };
        Arc::new(SharedCapacity { keys: pool(keys_max), error_bytes: pool(error_bytes_max), queues: AtomicU64::new(0) })
    }

    /// Returns the number of keys in all queues.
    pub fn keys(&self) -> u64 {
        self.keys.taken.load(Ordering::Relaxed)
    }

    /// Returns the bytes of error texts in all queues.
    pub fn error_bytes(&self) -> u64 {
        self.error_bytes.taken.load(Ordering::Relaxed)
    }

    /// Returns the capacity for keys.
    pub fn keys_max(&self) -> u64 {
        self.keys.most
    }

    /// Returns the capacity for error texts, in bytes.
    pub fn error_bytes_max(&self) -> u64 {
        self.error_bytes.most
    }
}

impl Pool {
    /// Returns the free capacity for one of `queues` queues. It uses `own`, and all queues together use
    /// `taken`.
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

/// The capacity in use by one queue: keys, and bytes of error texts.
pub(crate) struct CapacityUse {
    /// `None` for a queue that shares with no other.
    room: Option<Arc<SharedCapacity>>,
    keys: u64,
    error_bytes: u64,
    /// Replaces error texts that do not fit.
    left_out: Arc<str>,
}

/// The replacement for an error text that does not fit.
const LEFT_OUT: &str = "limit error-bytes: no space left for error texts; the events and the log have this one";

impl CapacityUse {
    pub(crate) fn of(room: Option<Arc<SharedCapacity>>) -> CapacityUse {
        if let Some(room) = &room {
            room.queues.fetch_add(1, Ordering::Relaxed);
        }
        CapacityUse { room, keys: 0, error_bytes: 0, left_out: LEFT_OUT.into() }
    }

    /// Returns the bytes of error texts in use.
    pub(crate) fn error_bytes(&self) -> u64 {
        self.error_bytes
    }

    /// Returns how many more keys fit now.
    pub(crate) fn free(&self, keys_max: Option<u32>) -> u64 {
        let own = keys_max.map_or(u64::MAX, |most| u64::from(most).saturating_sub(self.keys));
        let shared =
            |room: &Arc<SharedCapacity>| room.keys.free(room.keys(), self.keys, room.queues.load(Ordering::Relaxed));
        self.room.as_ref().map_or(own, |room| own.min(shared(room)))
    }

    /// Reserves capacity for one key; returns false if there is none.
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

    /// Reserves capacity for an error text. Returns the text with its bytes. Without capacity, returns a
    /// replacement of 0 bytes.
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
