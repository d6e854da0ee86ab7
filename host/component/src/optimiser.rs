//! The queue of the components whose baseline code is to be replaced by optimised code.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use homeostat_digest::Digest;
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::code::Code;
use crate::tiered_code::{TieredCode, UseEnd};

/// Bytes of all components that wait for their optimised code. Beyond it, a load waits for optimised code itself.
pub(crate) const WAITING_BYTES_MAX: usize = 256 << 20;

/// The components whose baseline code is to be replaced, in order.
pub(crate) struct Optimiser {
    waiting: Mutex<VecDeque<Job>>,
    woken: Notify,
    room: Arc<Semaphore>,
}

/// The right to wait for optimised code, with the bytes of one component.
pub(crate) struct Room(#[expect(dead_code, reason = "it is released when it is dropped")] OwnedSemaphorePermit);

/// One component that waits for its optimised code.
pub(crate) struct Job {
    pub(crate) digest: Digest,
    pub(crate) bytes: Arc<Vec<u8>>,
    pub(crate) code: Weak<TieredCode>,
    pub(crate) use_end: UseEnd,
    _room: Room,
}

impl Default for Optimiser {
    fn default() -> Self {
        Self { waiting: Mutex::default(), woken: Notify::new(), room: Arc::new(Semaphore::new(WAITING_BYTES_MAX)) }
    }
}

impl Optimiser {
    /// Reserves room for a component of this size; `None` if too many bytes wait.
    pub(crate) fn reserve(&self, bytes: usize) -> Option<Room> {
        let bytes = u32::try_from(bytes).ok()?;
        Arc::clone(&self.room).try_acquire_many_owned(bytes).ok().map(Room)
    }

    /// Adds baseline code, which waits until it is replaced or unused. Returns the code for all loads.
    pub(crate) fn add(&self, digest: &Digest, bytes: Arc<Vec<u8>>, code: Code, room: Room) -> Arc<TieredCode> {
        let (code, use_end) = TieredCode::new(code);
        let code = Arc::new(code);
        let job = Job { digest: digest.clone(), bytes, code: Arc::downgrade(&code), use_end, _room: room };
        let mut waiting = self.waiting.lock();
        waiting.retain(|job| job.code.strong_count() > 0);
        waiting.push_back(job);
        drop(waiting);
        self.woken.notify_one();
        code
    }

    /// Waits for the next job.
    ///
    /// *Cancel safety*: safe.
    pub(crate) async fn next(&self) -> Job {
        loop {
            if let Some(job) = self.waiting.lock().pop_front() {
                return job;
            }
            self.woken.notified().await;
        }
    }
}
