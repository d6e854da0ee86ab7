//! Proof that one worker alone holds a key.

use std::{fmt, time::Duration};

use crate::{Finished, Key, Next, Priority, Queue, state::Claimed};

/// A key that nobody else gets while this exists.
///
/// [`Claim::finish`] says what becomes of the key, and cannot be called twice. A claim that is dropped instead, by a
/// panic or a cancelled future, returns the key: it is ready again at the tail of its band, with its failures kept.
#[must_use = "dropping a claim returns its key to the queue"]
pub struct Claim<K: Key> {
    queue: Queue<K>,
    /// `None` once it is finished.
    claimed: Option<Claimed<K>>,
}

impl<K: Key> Claim<K> {
    pub(crate) fn new(queue: Queue<K>, claimed: Claimed<K>) -> Claim<K> {
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

    /// Returns how long the key was ready before it was claimed: from its add, or from its due time.
    pub fn queued_for(&self) -> Duration {
        self.claimed().queued_for
    }

    /// Ends the run and says what becomes of the key. Keys added meanwhile are merged in at the same instant, so no
    /// add slips between.
    pub fn finish(mut self, next: Next) -> Finished {
        let Some(claimed) = self.claimed.take() else { unreachable!("finishing takes the claim, so it happens once") };
        self.queue.finish(claimed, next)
    }

    fn claimed(&self) -> &Claimed<K> {
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
