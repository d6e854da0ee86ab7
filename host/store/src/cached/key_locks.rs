//! Locks by key, for an [`Upstream`](super::Upstream) whose server lets concurrent writes of a resource fail.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard};

#[cfg(test)]
mod tests;

/// Number of locks.
const LOCKS: usize = 1024;

/// Locks by key, so that the writers of one host do not race each other. Their number is fixed: different keys may
/// share a lock.
#[derive(Debug)]
pub struct KeyLocks(Vec<KeyLock>);

#[derive(Debug, Default)]
struct KeyLock {
    mutex: Mutex<()>,
    /// How often a writer got the lock.
    turns: AtomicU64,
}

impl Default for KeyLocks {
    fn default() -> Self {
        Self((0..LOCKS).map(|_| KeyLock::default()).collect())
    }
}

impl KeyLocks {
    /// Waits for the lock of a key, which is freed when the guard is dropped. Waiters get it in their order. Cancel
    /// safe.
    pub async fn lock(&self, key: &(impl Hash + ?Sized)) -> MutexGuard<'_, ()> {
        self.of(key).lock().await
    }

    /// The same, but returns `None` when no writer has got the lock for so long. Many writers that wait in a row, each
    /// of whom is answered, do not end the wait. Cancel safe.
    pub async fn lock_within(&self, key: &(impl Hash + ?Sized), turn_max: Duration) -> Option<MutexGuard<'_, ()>> {
        let lock = self.of(key);
        let mut locked = pin!(lock.lock());
        loop {
            let turns = lock.turns.load(Ordering::Relaxed);
            if let Ok(guard) = tokio::time::timeout(turn_max, &mut locked).await {
                return Some(guard);
            }
            if lock.turns.load(Ordering::Relaxed) == turns {
                return None;
            }
        }
    }

    fn of(&self, key: &(impl Hash + ?Sized)) -> &KeyLock {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        // The remainder is below the number of locks.
        let at = usize::try_from(hasher.finish() % LOCKS as u64).unwrap_or(0);
        &self.0[at]
    }
}

impl KeyLock {
    async fn lock(&self) -> MutexGuard<'_, ()> {
        let guard = self.mutex.lock().await;
        self.turns.fetch_add(1, Ordering::Relaxed);
        guard
    }
}
