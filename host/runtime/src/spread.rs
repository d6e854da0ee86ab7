//! A sum that many threads add to, in parts.

use std::ops::DerefMut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

/// The most parts that there are. Threads beyond share them: they wait for one another now and then.
const SHARDS: usize = 8;

/// A sum in parts: each thread adds to its own, and who asks puts them together.
///
/// Memory that two processors write to in turn costs each of them up to a microsecond a time, be it locked or not, and a reconcile is done
/// in a few. Takes 128 bytes, and memory for a part when a thread first adds to it.
#[derive(Debug, Default)]
pub struct ShardedSum<T>([OnceLock<Box<Shard<T>>>; SHARDS]);

/// Apart from whatever else is written to: processors fetch lines of 64 bytes, some of them two at a time.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard<T>(Mutex<T>);

impl<T: Default> ShardedSum<T> {
    /// Returns the calling thread's part, locked. Must not be held across a call of [`ShardedSum::each`].
    pub fn local(&self) -> impl DerefMut<Target = T> {
        self.0[number() % SHARDS].get_or_init(Box::default).0.lock()
    }

    /// Returns every part that something was added to, one after the other, each locked while it is looked at.
    pub fn shards(&self) -> impl Iterator<Item = impl DerefMut<Target = T>> {
        self.0.iter().filter_map(OnceLock::get).map(|part| part.0.lock())
    }
}

/// Returns the number of the calling thread among those that ever added to anything.
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
    fn what_many_threads_add_is_all_there() {
        let sum = ShardedSum::<u64>::default();
        std::thread::scope(|scope| {
            for _ in 0..2 * SHARDS {
                scope.spawn(|| (0..1000).for_each(|_| *sum.local() += 1));
            }
        });
        assert_eq!(sum.shards().map(|part| *part).sum::<u64>(), 2000 * SHARDS as u64);
    }

    #[test]
    fn threads_add_to_parts_of_their_own() {
        let sum = ShardedSum::<u64>::default();
        let _held = sum.local();
        let (own, other) = (number(), std::thread::spawn(number).join().unwrap());
        assert_ne!(own, other);
        assert_eq!(number(), own, "a thread keeps its number");
        assert_eq!(sum.0.iter().filter(|part| part.get().is_some()).count(), 1, "a part is made when it is needed");
    }
}
