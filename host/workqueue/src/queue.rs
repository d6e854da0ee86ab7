//! The shell around the rules: a lock, a clock, a source of randomness, sleeping claimers, and the claims of
//! those that found a key.

mod inspect;
#[cfg(test)]
mod schedule;
mod shutdown;
mod waiters;

use std::{
    fmt,
    hash::{BuildHasher, RandomState},
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::watch, time::Instant};

use crate::verbs::Delay;
use crate::{
    AddError, AddOutcome, ChangeOutcome, FinishOutcome, Key, Moment, Next, Options, Priority, SharedCapacity,
    ShutdownPhase,
    state::{ClaimToken, State},
};

use waiters::{Waiters, WaitingClaimer};

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

    /// Adds a key that runs after `delay`, counted from this call, and makes that delay a floor: no later add
    /// makes the key due earlier. It replaces a delay that is no floor, and changes neither an earlier floor nor
    /// a run that is due already. [`Queue::postpone`], [`Queue::expedite`] and [`Queue::retry`] still move it.
    ///
    /// # Errors
    /// As [`Queue::add_after`].
    pub fn add_held(&self, key: K, delay: Duration, priority: Priority) -> Result<AddOutcome, AddError> {
        self.with(|state, now| state.add_held(now, key, delay, priority))
    }

    /// Adds a key that runs after a delay: as [`Queue::add_held`] if the delay is a floor, else as
    /// [`Queue::add_after`].
    ///
    /// # Errors
    /// As [`Queue::add_after`].
    pub fn add_delayed(
        &self,
        key: K,
        Delay { after, hold }: Delay,
        priority: Priority,
    ) -> Result<AddOutcome, AddError> {
        if hold { self.add_held(key, after, priority) } else { self.add_after(key, after, priority) }
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

    /// Cancels all keys for which `keep` is false, as [`Queue::cancel`] does. Returns how many. A running key without a next
    /// run stays.
    ///
    /// It holds the lock of the queue for a time in proportion to the number of keys. `keep` must not use the queue.
    pub fn retain(&self, keep: impl Fn(&K) -> bool) -> usize {
        self.with(|state, now| state.retain(now, keep))
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

    #[inline]
    fn finish(&self, slot: u32, next: Next) -> FinishOutcome {
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
    fn finish_and_claim(&self, slot: u32, next: Next, held: &mut Option<ClaimToken<K>>) -> FinishOutcome {
        let (now, mut locked) = (self.shared.now(), self.shared.lock());
        let finished = locked.finish(now, slot, next);
        *held = locked.state.claim(now);
        self.shared.release(locked);
        finished
    }

    fn give_back(&self, claimed: ClaimToken<K>) {
        self.with(|state, now| state.give_back(now, claimed));
    }

    /// Applies a change to the state, and wakes the claimers that it concerns.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut State<K>, Moment) -> R) -> R {
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
    fn new(queue: Queue<K>, claimed: ClaimToken<K>) -> Claim<K> {
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

/// The one lock of a queue, a mutex without poisoning. A panic inside the lock can only come from the
/// `clone`, `eq` or `hash` of a key; at worst that key loses its entry.
///
/// In tests, the schedules of several threads branch here: before the lock is taken and after it is released.
/// No other point of the queue has effects that another thread can see.
struct Lock<T>(Mutex<T>);

/// The guard of the lock; releases it on drop.
struct LockGuard<'a, T> {
    guard: MutexGuard<'a, T>,
    /// Declared after the guard, so that it is dropped after the guard.
    #[cfg(test)]
    _branch: schedule::Branch,
}

impl<T> Lock<T> {
    fn new(value: T) -> Lock<T> {
        Lock(Mutex::new(value))
    }

    fn lock(&self) -> LockGuard<'_, T> {
        #[cfg(test)]
        schedule::branch();
        LockGuard {
            guard: self.0.lock().unwrap_or_else(PoisonError::into_inner),
            #[cfg(test)]
            _branch: schedule::Branch,
        }
    }
}

impl<T> Deref for LockGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for LockGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

impl<K: Key> fmt::Debug for Queue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("phase", &self.phase()).field("counts", &self.counts()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
