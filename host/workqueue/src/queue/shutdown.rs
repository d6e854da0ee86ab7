//! Suspending and closing a queue.

use std::time::Duration;

use tokio::time::timeout;

use super::Queue;
use crate::{CloseReport, Key, Priority, ShutdownPhase, state::State};

impl<K: Key> Queue<K> {
    /// Suspends the queue until [`Queue::resume`]: no key is handed out. Adds are kept, due times pass, and
    /// running keys continue.
    pub fn suspend(&self) {
        self.with(State::suspend);
    }

    /// As [`Queue::suspend`], except for the keys in the band `floor` and above. These are handed out, the
    /// highest band first.
    pub fn suspend_below(&self, floor: Priority) {
        self.with(|state, now| state.suspend_below(now, floor));
    }

    /// Ends a suspension.
    pub fn resume(&self) {
        self.with(State::resume);
    }

    /// Returns whether the queue is suspended, in whole or in part.
    pub fn is_suspended(&self) -> bool {
        self.with(|state, _| state.is_suspended())
    }

    /// Stops the queue: drops the queued keys, wakes all claimers with `None`, and hands out no more keys.
    /// Running keys may finish.
    ///
    /// Closing twice, in any combination, is harmless; an abort stays an abort.
    pub fn stop(&self) -> CloseReport<K> {
        self.with(State::stop)
    }

    /// Drains the queue: drops the waiting keys, runs all keys that are ready or become dirty, and then
    /// stops. Stops early when `deadline` has passed, or on a stop or abort by another task. The report lists
    /// the keys that were left.
    ///
    /// # Cancel safety
    /// If the future is dropped, the queue goes on draining, without a deadline.
    ///
    /// # Panics
    /// Outside a tokio runtime with a clock.
    pub async fn drain(&self, deadline: Duration) -> CloseReport<K> {
        let mut phase = self.shared.phase.subscribe();
        self.with(State::drain);
        // Both errors end in a stop: the deadline, and a sender that is gone (impossible, as this handle
        // holds it).
        drop(timeout(deadline, phase.wait_for(|phase| phase.is_closed())).await);
        self.stop()
    }

    /// As [`Queue::stop`], and resolves every [`Queue::aborted`].
    pub fn abort(&self) -> CloseReport<K> {
        self.with(State::abort)
    }

    /// Resolves when the queue is aborted (at once if it was), or no longer exists. Workers await it beside
    /// their run.
    ///
    /// # Cancel safety
    /// A dropped future changes nothing.
    pub fn aborted(&self) -> impl Future<Output = ()> + Send + use<K> {
        let mut phase = self.shared.phase.subscribe();
        async move {
            // An error means that the queue is gone, which ends its work as well.
            drop(phase.wait_for(|phase| *phase == ShutdownPhase::Aborted).await);
        }
    }

    /// Returns the phase of the shutdown.
    pub fn phase(&self) -> ShutdownPhase {
        self.with(|state, _| state.phase())
    }
}
