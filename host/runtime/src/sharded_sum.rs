//! A sum in shards, for updates from many threads.

use std::ops::DerefMut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

/// Maximum number of shards. More threads share them and sometimes block each other.
pub(crate) const SHARDS: usize = 8;

/// A sum in shards: each thread updates its own, and a reader adds them up.
///
/// Memory that two processors write in turn costs each of them up to a microsecond per write, locked or not,
/// and a reconcile takes only a few. Takes 128 bytes, plus memory for each shard in use.
#[derive(Debug, Default)]
pub struct ShardedSum<T>([OnceLock<Box<Shard<T>>>; SHARDS]);

/// Aligned against false sharing: processors fetch cache lines of 64 bytes, some of them two at a time.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard<T>(Mutex<T>);

impl<T: Default> ShardedSum<T> {
    /// Returns the calling thread's shard, locked. Must not be held across a call of [`ShardedSum::shards`].
    pub fn local(&self) -> impl DerefMut<Target = T> {
        self.0[number() % SHARDS].get_or_init(Box::default).0.lock()
    }

    /// Returns all shards in use, one after the other, each locked while it is read.
    pub fn shards(&self) -> impl Iterator<Item = impl DerefMut<Target = T>> {
        self.0.iter().filter_map(OnceLock::get).map(|part| part.0.lock())
    }
}

/// Returns the number of the calling thread, counted at its first use of any sum.
fn number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_contains_the_updates_of_all_threads() {
        let sum = ShardedSum::<u64>::default();
        std::thread::scope(|scope| {
            for _ in 0..2 * SHARDS {
                scope.spawn(|| (0..1000).for_each(|_| *sum.local() += 1));
            }
        });
        assert_eq!(sum.shards().map(|part| *part).sum::<u64>(), 2000 * SHARDS as u64);
    }

    #[test]
    fn each_thread_adds_to_its_own_shard() {
        let sum = ShardedSum::<u64>::default();
        let _held = sum.local();
        let (own, other) = (number(), std::thread::spawn(number).join().unwrap());
        assert_ne!(own, other);
        assert_eq!(number(), own, "a thread keeps its number");
        assert_eq!(sum.0.iter().filter(|part| part.get().is_some()).count(), 1, "a part is made when it is needed");
    }
}
