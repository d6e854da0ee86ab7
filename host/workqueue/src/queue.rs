//! The shell around the rules: a lock, a clock, a source of randomness, and sleeping claimers.

mod sleeper;

use std::{
    fmt,
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

use crate::{
    AddError, AddOutcome, Ages, ChangeOutcome, Claim, CloseReport, Counters, Entry, FinishOutcome, Key, KeyCounts,
    KeyState, Moment, Next, Options, Priority, SharedCapacity, ShutdownPhase,
    lock::{Lock, LockGuard},
    state::{ClaimToken, State},
    waiters::Waiters,
};

use sleeper::WaitingClaimer;

/// How many keys [`Queue::add_all`] adds under one lock.
const ADDED_AT_ONCE: usize = 256;

/// The queue of one controller: a cheap handle, all clones of which are the same queue.
///
/// Every method but [`Queue::claim`], [`Queue::ready`] and [`Queue::drain`] returns at once and can be called
/// from any thread. Those three need a tokio runtime with a clock. The clock is tokio's, so a paused one
/// drives the queue.
pub struct Queue<K: Key> {
    shared: Arc<Shared<K>>,
}

struct Shared<K> {
    locked: Lock<LockedState<K>>,
    origin: Instant,
    /// A copy of the state's phase, for tasks that await it.
    phase: watch::Sender<ShutdownPhase>,
}

struct LockedState<K> {
    state: State<K>,
    waiters: Waiters,
    random: u64,
}

impl<K: Key> Clone for Queue<K> {
    fn clone(&self) -> Queue<K> {
        Queue { shared: Arc::clone(&self.shared) }
    }
}

impl<K: Key> Default for Queue<K> {
    fn default() -> Queue<K> {
        Queue::new(Options::default())
    }
}

impl<K: Key> Queue<K> {
    /// Creates an empty queue. Starts nothing.
    pub fn new(options: Options) -> Queue<K> {
        Queue::of(State::new(options), options)
    }

    /// Creates an empty queue that shares its capacity with other queues. Starts nothing.
    pub fn within(room: Arc<SharedCapacity>, options: Options) -> Queue<K> {
        Queue::of(State::within(room, options), options)
    }

    fn of(state: State<K>, options: Options) -> Queue<K> {
        let seed = options.seed.unwrap_or_else(|| RandomState::new().hash_one(0_u8));
        let locked = LockedState { state, waiters: Waiters::new(), random: seed };
        let shared = Shared {
            locked: Lock::new(locked),
            origin: Instant::now(),
            phase: watch::Sender::new(ShutdownPhase::Open),
        };
        Queue { shared: Arc::new(shared) }
    }

    /// Changes the settings. Queued keys stay unchanged, and the seed is ignored.
    pub fn configure(&self, options: Options) {
        self.with(|state, _| state.configure(options));
    }

    /// Adds a key that runs now. An existing key merges.
    ///
    /// # Errors
    /// [`AddError::Closed`] when the queue takes no new keys. While it drains, ready and running keys still
    /// merge, so that a change during a run is not lost. [`AddError::Full`] when there is no capacity for one
    /// more key.
    pub fn add(&self, key: K, priority: Priority) -> Result<AddOutcome, AddError> {
        let mut locked = self.shared.lock();
        // Reads the clock inside the lock, which holds it longer: most adds of a busy queue merge and need no
        // time.
        let added = locked.state.add_with(|| self.shared.now(), key, priority);
        self.shared.release(locked);
        added
    }

    /// Adds a key that runs after `delay`, counted from this call. Zero is now; of two due times the earlier
    /// wins.
    ///
    /// # Errors
    /// As [`Queue::add`]; while the queue drains, every delay is refused.
    pub fn add_after(&self, key: K, delay: Duration, priority: Priority) -> Result<AddOutcome, AddError> {
        self.with(|state, now| state.add_after(now, key, delay, priority))
    }

    /// Adds a key that runs now, without an event: a waiting key keeps its due time. A parked key stays
    /// parked unless `unpark` is set.
    ///
    /// # Errors
    /// As [`Queue::add`].
    pub fn add_without_event(&self, key: K, priority: Priority, unpark: bool) -> Result<AddOutcome, AddError> {
        self.with(|state, now| state.add_without_event(now, key, priority, unpark))
    }

    /// Adds many keys that run now, and returns how many of them had no queued run. Takes the lock once for
    /// every 256 keys.
    ///
    /// # Errors
    /// [`AddError`] of the first refused key; the keys before it were added.
    pub fn add_all(&self, keys: impl IntoIterator<Item = K>, priority: Priority) -> Result<usize, AddError> {
        let mut keys = keys.into_iter();
        let mut fresh = 0;
        loop {
            // Collected before locking: the iterator is the caller's code.
            let some: Vec<K> = keys.by_ref().take(ADDED_AT_ONCE).collect();
            if some.is_empty() {
                return Ok(fresh);
            }
            fresh += self.with(|state, now| {
                let before = state.counters().adds;
                some.into_iter().try_for_each(|key| state.add(now, key, priority).map(drop))?;
                Ok((state.counters().adds - before) as usize)
            })?;
        }
    }

    /// Moves a queued key's due time to `delay` from this call, earlier or later. For a running key, moves
    /// its next run. A parked key stays parked.
    pub fn postpone(&self, key: &K, delay: Duration) -> ChangeOutcome {
        self.with(|state, now| state.postpone(now, key, delay))
    }

    /// Removes a key from the queue, parked or not, and resets its failures. For a running key, cancels its
    /// next run.
    pub fn cancel(&self, key: &K) -> ChangeOutcome {
        self.with(|state, now| state.cancel(now, key))
    }

    /// Makes a waiting, ready or parked key ready in the highest band and discards its delay; failures are
    /// kept. For a running key, expedites its next run.
    pub fn expedite(&self, key: &K) -> ChangeOutcome {
        self.with(|state, now| state.expedite(now, key))
    }

    /// Moves a key to another band, up or down, in any state. Its due time and its failures stay. For a
    /// running key, moves its next run.
    pub fn prioritize(&self, key: &K, priority: Priority) -> ChangeOutcome {
        self.with(|state, now| state.prioritize(now, key, priority))
    }

    /// Resets the failures of a key. A parked or waiting key is ready now, in its band. A running key runs
    /// once more.
    pub fn retry(&self, key: &K) -> ChangeOutcome {
        self.with(|state, now| state.retry(now, key))
    }

    /// Waits for the next key; `None` when the queue is closed.
    ///
    /// # Cancel safety
    /// A dropped future takes no claim: the key goes to another claimer.
    ///
    /// # Panics
    /// When it has to wait for a due time outside a tokio runtime with a clock.
    pub async fn claim(&self) -> Option<Claim<K>> {
        let claimed = WaitingClaimer::new(&self.shared).until(|state, now| state.claim(now)).await?;
        Some(Claim::new(self.clone(), claimed))
    }

    /// Claims the next key, if there is one.
    #[inline]
    pub fn try_claim(&self) -> Option<Claim<K>> {
        let claimed = self.with(|state, now| state.claim(now))?;
        Some(Claim::new(self.clone(), claimed))
    }

    /// Waits until a key can be claimed, without claiming it; returns false when the queue is closed. Another
    /// claimer may claim the key first.
    ///
    /// # Cancel safety
    /// A dropped future changes nothing.
    ///
    /// # Panics
    /// As [`Queue::claim`].
    pub async fn ready(&self) -> bool {
        let look = |state: &mut State<K>, now| (state.counts(now).ready > 0 && state.claimable() > 0).then_some(());
        WaitingClaimer::new(&self.shared).until(look).await.is_some()
    }

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

    /// Returns how many keys are ready.
    pub fn len(&self) -> usize {
        self.counts().ready
    }

    /// Returns whether no key is ready.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many more keys the queue can take now. Existing keys need no capacity.
    pub fn remaining_capacity(&self) -> u64 {
        self.with(|state, _| state.remaining_capacity())
    }

    /// Returns how many keys are in each state.
    pub fn counts(&self) -> KeyCounts {
        self.with(State::counts)
    }

    /// Returns the counters since the queue was created.
    pub fn counters(&self) -> Counters {
        self.with(|state, _| state.counters())
    }

    /// Returns the ages of the ready and running keys.
    pub fn ages(&self) -> Ages {
        self.with(State::ages)
    }

    /// Returns the state of a key; `None` for an unknown key.
    pub fn state(&self, key: &K) -> Option<KeyState> {
        self.with(|state, now| state.state(now, key))
    }

    /// Returns the details of one key.
    pub fn entry(&self, key: &K) -> Option<Entry<K>> {
        self.with(|state, now| state.entry(now, key))
    }

    /// Returns up to `limit` keys: the running ones, longest first; the ready ones in the order of their
    /// bands; the waiting ones by due time; the parked ones.
    ///
    /// Takes time in proportion to `limit`. If the result includes waiting keys, also in proportion to their
    /// number.
    pub fn inspect(&self, limit: usize) -> Vec<Entry<K>> {
        self.with(|state, now| state.entries(now, limit))
    }

    #[inline]
    pub(crate) fn finish(&self, slot: u32, next: Next) -> FinishOutcome {
        // `Done` and `Drop` need no clock: the state uses the latest time that it was given.
        let timeless = matches!(next, Next::Done | Next::Drop);
        let now = if timeless { Moment::ZERO } else { self.shared.now() };
        let mut locked = self.shared.lock();
        let finished = locked.finish(now, slot, next);
        self.shared.release(locked);
        finished
    }

    /// Finishes the held entry, and replaces it with the next claim.
    #[inline]
    pub(crate) fn finish_and_claim(&self, slot: u32, next: Next, held: &mut Option<ClaimToken<K>>) -> FinishOutcome {
        let (now, mut locked) = (self.shared.now(), self.shared.lock());
        let finished = locked.finish(now, slot, next);
        *held = locked.state.claim(now);
        self.shared.release(locked);
        finished
    }

    pub(crate) fn give_back(&self, claimed: ClaimToken<K>) {
        self.with(|state, now| state.give_back(now, claimed));
    }

    /// Applies a change to the state, and wakes the claimers that it concerns.
    fn with<R>(&self, act: impl FnOnce(&mut State<K>, Moment) -> R) -> R {
        let (now, mut locked) = (self.shared.now(), self.shared.lock());
        let result = act(&mut locked.state, now);
        self.shared.release(locked);
        result
    }
}

impl<K: Key> Shared<K> {
    /// Read before locking, to keep the critical section short. The state corrects for two threads that
    /// arrive in the other order.
    fn now(&self) -> Moment {
        Moment::at(self.origin.elapsed())
    }

    fn lock(&self) -> LockGuard<'_, LockedState<K>> {
        self.locked.lock()
    }

    /// Unlocks after a change, and wakes the claimers that it concerns.
    fn release(&self, mut locked: LockGuard<'_, LockedState<K>>) {
        let LockedState { state, waiters, .. } = &mut *locked;
        let phase = state.phase();
        if waiters.is_empty() && phase == ShutdownPhase::Open {
            return;
        }
        let wake = if phase.is_closed() {
            waiters.wake_all()
        } else {
            waiters.wake_for(state.claimable(), || state.next_due())
        };
        drop(locked);
        wake.wake();
        if phase != ShutdownPhase::Open {
            // Two threads may arrive in the other order; phases only move forward.
            self.phase.send_if_modified(|published| {
                let forward = *published < phase;
                *published = phase.max(*published);
                forward
            });
        }
    }
}

impl<K: Key> LockedState<K> {
    fn finish(&mut self, now: Moment, slot: u32, next: Next) -> FinishOutcome {
        let random = if matches!(next, Next::Retry { .. }) { self.draw() } else { 0 };
        self.state.finish_slot(now, slot, next, random)
    }

    /// Returns the next random number. Source: splitmix64, by Steele, Lea and Flood, 2014.
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

impl<K: Key> fmt::Debug for Queue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("phase", &self.phase()).field("counts", &self.counts()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
