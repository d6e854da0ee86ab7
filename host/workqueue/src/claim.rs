//! Proof that one worker alone holds a key.

use std::{fmt, time::Duration};

use crate::{FinishOutcome, Key, Next, Priority, Queue, state::ClaimToken};

/// A key that nobody else gets while this exists.
///
/// [`Claim::finish`] says what becomes of the key, and cannot be called twice. A claim that is dropped instead, by a
/// panic or a cancelled future, returns the key: it is ready again at the tail of its band, with its failures kept.
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
    /// `None` once it is finished.
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

    /// Returns the band in which the key stood.
    pub fn priority(&self) -> Priority {
        self.claimed().priority
    }

    /// Returns whether nothing but a [second look](Queue::look_again) asked for this run: no event, no timer and no person.
    pub fn is_without_event(&self) -> bool {
        self.claimed().without_event
    }

    /// Returns how long the key was ready before it was claimed: from its add, or from its due time.
    pub fn queued_for(&self) -> Duration {
        self.claimed().queued_for
    }

    /// Ends the run and says what becomes of the key. Keys added meanwhile are merged in at the same instant, so no
    /// add slips between.
    #[inline]
    pub fn finish(mut self, next: Next) -> FinishOutcome {
        let finished = self.queue.finish(self.claimed().slot, next);
        self.claimed = None;
        finished
    }

    /// As [`Claim::finish`], and takes the key whose turn it is then, if there is one: one lock and one look at the clock
    /// for both. A key that runs again at once stands behind those that are ready already.
    ///
    /// It never waits, so a worker that goes from key to key with it has to let other tasks of its thread run itself.
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
