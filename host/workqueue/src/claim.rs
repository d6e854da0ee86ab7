//! The claim of a key: proof that one worker alone holds it.

use std::{fmt, time::Duration};

use crate::{FinishOutcome, Key, Next, Priority, Queue, state::ClaimToken};

/// A claimed key. No other worker gets the key while this exists.
///
/// [`Claim::finish`] decides the next state of the key, and cannot be called twice. A claim that is dropped
/// instead, by a panic or a cancelled future, returns the key: it is ready again at the tail of its band, and
/// its failures are kept.
///
/// ```compile_fail,E0382
/// # use homeostat_workqueue::{Next, Priority, Queue};
/// # let queue = Queue::<&str>::default();
/// # queue.add("web", Priority::NORMAL).expect("it is open");
/// let claim = queue.try_claim().expect("a key is ready");
/// claim.finish(Next::Done);
/// claim.finish(Next::Done);
/// ```
#[must_use = "dropping a claim returns its key to the queue"]
pub struct Claim<K: Key> {
    queue: Queue<K>,
    /// `None` once the claim is finished.
    claimed: Option<ClaimToken<K>>,
}

impl<K: Key> Claim<K> {
    #[inline]
    pub(crate) fn new(queue: Queue<K>, claimed: ClaimToken<K>) -> Claim<K> {
        Claim { queue, claimed: Some(claimed) }
    }

    /// Returns the key.
    pub fn key(&self) -> &K {
        &self.claimed().key
    }

    /// Returns the key's failures in a row before this run.
    pub fn failures(&self) -> u32 {
        self.claimed().failures
    }

    /// Returns the band that the key was in.
    pub fn priority(&self) -> Priority {
        self.claimed().priority
    }

    /// Returns whether only [`Queue::add_without_event`] asked for this run: no event, no timer and no
    /// person.
    pub fn is_without_event(&self) -> bool {
        self.claimed().without_event
    }

    /// Returns how long the key was ready before this claim: since its add, or since its due time.
    pub fn queued_for(&self) -> Duration {
        self.claimed().queued_for
    }

    /// Ends the run and decides the next state of the key. Adds of the key during the run are merged in the
    /// same critical section, so none is lost.
    #[inline]
    pub fn finish(mut self, next: Next) -> FinishOutcome {
        let finished = self.queue.finish(self.claimed().slot, next);
        self.claimed = None;
        finished
    }

    /// As [`Claim::finish`], and claims the next key, if there is one: one lock and one clock reading for
    /// both. A key that runs again at once queues behind the keys that are already ready.
    ///
    /// It never waits. A worker that loops on it has to yield to other tasks of its thread by itself.
    #[inline]
    pub fn finish_and_claim(mut self, next: Next) -> (FinishOutcome, Option<Claim<K>>) {
        let finished = self.queue.finish_and_claim(self.claimed().slot, next, &mut self.claimed);
        (finished, self.claimed.is_some().then_some(self))
    }

    fn claimed(&self) -> &ClaimToken<K> {
        self.claimed.as_ref().expect("only finishing takes it, and that takes the claim too")
    }
}

impl<K: Key> Drop for Claim<K> {
    fn drop(&mut self) {
        if let Some(claimed) = self.claimed.take() {
            self.queue.give_back(claimed);
        }
    }
}

impl<K: Key + fmt::Debug> fmt::Debug for Claim<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim").field("key", self.key()).field("failures", &self.failures()).finish_non_exhaustive()
    }
}
