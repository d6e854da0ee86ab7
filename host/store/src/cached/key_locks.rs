//! Locks by key, for an [`Upstream`](super::Upstream) whose server lets concurrent writes of a resource fail.

use std::hash::{DefaultHasher, Hash, Hasher};

use tokio::sync::{Mutex, MutexGuard};

/// Number of locks.
const LOCKS: usize = 1024;

/// Locks by key, so that the writers of one host do not race each other. Their number is fixed: different keys may
/// share a lock.
#[derive(Debug)]
pub struct KeyLocks(Vec<Mutex<()>>);

impl Default for KeyLocks {
    fn default() -> Self {
        Self((0..LOCKS).map(|_| Mutex::new(())).collect())
    }
}

impl KeyLocks {
    /// Waits for the lock of a key, which is freed when the guard is dropped. Waiters get it in their order. Cancel
    /// safe.
    pub async fn lock(&self, key: &(impl Hash + ?Sized)) -> MutexGuard<'_, ()> {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        // The remainder is below the number of locks.
        let at = usize::try_from(hasher.finish() % LOCKS as u64).unwrap_or(0);
        self.0[at].lock().await
    }
}
