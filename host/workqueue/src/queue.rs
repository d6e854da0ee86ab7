//! The shell around the rules: a lock, a clock, a source of randomness, and claimers that sleep.

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
/// Every method but [`Queue::claim`], [`Queue::ready`] and [`Queue::drain`] returns at once and can be called from any
/// thread; those three need a tokio runtime with a clock. The clock is tokio's, so a paused one drives the queue.
pub struct Queue<K: Key> {
    shared: Arc<Shared<K>>,
}

struct Shared<K> {
    locked: Lock<LockedState<K>>,
    origin: Instant,
    /// A copy of the state's phase, for those who wait for it.
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
    /// Returns a queue without keys. Starts nothing.
    pub fn new(options: Options) -> Queue<K> {
        Queue::of(State::new(options), options)
    }

    /// Returns a queue without keys that shares the room for them with others. Starts nothing.
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

    /// Changes the settings; the queued keys stay as they are. The seed is not looked at.
    pub fn configure(&self, options: Options) {
        self.with(|state, _| state.configure(options));
    }

    /// Adds a key that is to run now. A key that is there already merges.
    ///
    /// # Errors
    /// [`AddError::Closed`] when the queue takes no new keys. While it drains, keys that are ready or running still merge, so that
    /// a change during a run is seen. [`AddError::Full`] when there is no room for one more key.
    pub fn add(&self, key: K, priority: Priority) -> Result<AddOutcome, AddError> {
        let mut locked = self.shared.lock();
        // Told inside the lock, which it prolongs, because most adds of a busy queue merge and need no time.
        let added = locked.state.add_with(|| self.shared.now(), key, priority);
        self.shared.release(locked);
        added
    }

    /// Adds a key that is to run after `delay`, counted from this call. Zero is now; of two due times the earlier wins.
    ///
    /// # Errors
    /// As [`Queue::add`]; while the queue drains, every delay is refused.
    pub fn add_after(&self, key: K, delay: Duration, priority: Priority) -> Result<AddOutcome, AddError> {
        self.with(|state, now| state.add_after(now, key, delay, priority))
    }

    /// Adds a key that is to run now, for a second look, which is no event: a key that waits keeps its due time. A parked key stays
    /// parked unless `unpark` says otherwise.
    ///
    /// # Errors
    /// As [`Queue::add`].
    pub fn add_without_event(&self, key: K, priority: Priority, unpark: bool) -> Result<AddOutcome, AddError> {
        self.with(|state, now| state.add_without_event(now, key, priority, unpark))
    }

    /// Adds many keys that are to run now, under one lock for every 256, and returns how many had no run queued yet.
    ///
    /// # Errors
    /// [`AddError`] as soon as a key is refused; the keys before it were added.
    pub fn add_all(&self, keys: impl IntoIterator<Item = K>, priority: Priority) -> Result<usize, AddError> {
        let mut keys = keys.into_iter();
        let mut fresh = 0;
        loop {
            // Gathered before locking: the iterator is the caller's code.
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

    /// Moves a queued key's due time to `delay` from this call, sooner or later. Of a running key it moves the run that
    /// follows. A parked key stays parked.
    pub fn postpone(&self, key: &K, delay: Duration) -> ChangeOutcome {
        self.with(|state, now| state.postpone(now, key, delay))
    }

    /// Takes a key off the queue, parked or not, and forgets its failures. Of a running key it takes off the run that
    /// follows.
    pub fn cancel(&self, key: &K) -> ChangeOutcome {
        self.with(|state, now| state.cancel(now, key))
    }

    /// Makes a waiting, ready or parked key ready in the highest band, whatever delay it has; failures are kept. Of a
    /// running key it expedites the run that follows.
    pub fn expedite(&self, key: &K) -> ChangeOutcome {
        self.with(|state, now| state.expedite(now, key))
    }

    /// Moves a key to another band, up or down, whatever its state; its due time and its failures stay. Of a running key it
    /// moves the run that follows.
    pub fn prioritize(&self, key: &K, priority: Priority) -> ChangeOutcome {
        self.with(|state, now| state.prioritize(now, key, priority))
    }

    /// Gives a key a fresh start: its failures are forgotten, and a parked or waiting key is ready now, in its band. A
    /// running key runs once more.
    pub fn retry(&self, key: &K) -> ChangeOutcome {
        self.with(|state, now| state.retry(now, key))
    }

    /// Waits for a key whose turn it is; `None` when the queue is closed.
    ///
    /// # Cancel safety
    /// A claim that is not returned is not taken: the key goes to another claimer.
    ///
    /// # Panics
    /// When it has to wait for a due time outside of a tokio runtime with a clock.
    pub async fn claim(&self) -> Option<Claim<K>> {
        let claimed = WaitingClaimer::new(&self.shared).until(|state, now| state.claim(now)).await?;
        Some(Claim::new(self.clone(), claimed))
    }

    /// Hands out the key whose turn it is, if there is one.
    #[inline]
    pub fn try_claim(&self) -> Option<Claim<K>> {
        let claimed = self.with(|state, now| state.claim(now))?;
        Some(Claim::new(self.clone(), claimed))
    }

    /// Waits until a key can be claimed, without claiming it; false when the queue is closed. Another claimer may be
    /// faster.
    ///
    /// # Cancel safety
    /// It takes nothing.
    ///
    /// # Panics
    /// As [`Queue::claim`].
    pub async fn ready(&self) -> bool {
        let look = |state: &mut State<K>, now| (state.counts(now).ready > 0 && state.claimable() > 0).then_some(());
        WaitingClaimer::new(&self.shared).until(look).await.is_some()
    }

    /// Hands nothing out until [`Queue::resume`]. Adds are kept, due times pass, what runs goes on.
    pub fn suspend(&self) {
        self.with(State::suspend);
    }

    /// As [`Queue::suspend`], but for the keys in the band `floor` and above: these are handed out, the highest band first.
    pub fn suspend_below(&self, floor: Priority) {
        self.with(|state, now| state.suspend_below(now, floor));
    }

    /// Ends a suspension.
    pub fn resume(&self) {
        self.with(State::resume);
    }

    /// Says whether the queue is suspended, be it for some bands alone.
    pub fn is_suspended(&self) -> bool {
        self.with(|state, _| state.is_suspended())
    }

    /// Drops what is queued, wakes all claimers with `None`, and hands nothing out any more. What runs may finish.
    ///
    /// Closing twice, in whatever ways, is harmless; an abort stays one.
    pub fn stop(&self) -> CloseReport<K> {
        self.with(State::stop)
    }

    /// Drops what is waiting, lets everything run that is ready or becomes dirty, and then stops; or stops when
    /// `deadline` has passed, or when someone else stops or aborts the queue. The report lists what was left.
    ///
    /// # Cancel safety
    /// A queue whose `drain` is dropped goes on draining, without a deadline.
    ///
    /// # Panics
    /// Outside of a tokio runtime with a clock.
    pub async fn drain(&self, deadline: Duration) -> CloseReport<K> {
        let mut phase = self.shared.phase.subscribe();
        self.with(State::drain);
        // Both ways of not getting there end in a stop: the deadline, and a sender that is gone (it is not: we hold it).
        drop(timeout(deadline, phase.wait_for(|phase| phase.is_closed())).await);
        self.stop()
    }

    /// As [`Queue::stop`], and resolves every [`Queue::aborted`].
    pub fn abort(&self) -> CloseReport<K> {
        self.with(State::abort)
    }

    /// Resolves when the queue is aborted (at once if it was), or exists no more. Workers wait for it beside their run.
    ///
    /// # Cancel safety
    /// It takes nothing.
    pub fn aborted(&self) -> impl Future<Output = ()> + Send + use<K> {
        let mut phase = self.shared.phase.subscribe();
        async move {
            // An error says that the queue is gone, which ends its work just as well.
            drop(phase.wait_for(|phase| *phase == ShutdownPhase::Aborted).await);
        }
    }

    /// Returns how far the closing is.
    pub fn phase(&self) -> ShutdownPhase {
        self.with(|state, _| state.phase())
    }

    /// Returns how many keys are ready.
    pub fn len(&self) -> usize {
        self.counts().ready
    }

    /// Says whether no key is ready.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns for how many more keys there is room now. Keys that are there already need none.
    pub fn remaining_capacity(&self) -> u64 {
        self.with(|state, _| state.remaining_capacity())
    }

    /// Returns how many keys are in each state.
    pub fn counts(&self) -> KeyCounts {
        self.with(State::counts)
    }

    /// Returns what happened since the queue was made.
    pub fn counters(&self) -> Counters {
        self.with(|state, _| state.counters())
    }

    /// Returns how long things have taken so far.
    pub fn ages(&self) -> Ages {
        self.with(State::ages)
    }

    /// Returns where a key is; `None` when the queue does not know it.
    pub fn state(&self, key: &K) -> Option<KeyState> {
        self.with(|state, now| state.state(now, key))
    }

    /// Returns all there is to know of one key.
    pub fn entry(&self, key: &K) -> Option<Entry<K>> {
        self.with(|state, now| state.entry(now, key))
    }

    /// Returns up to `limit` keys: the running ones, longest first; the ready ones in the order of their bands; the
    /// waiting ones by due time; the parked ones.
    ///
    /// Takes time in proportion to `limit` and, if that reaches the waiting keys, to their number.
    pub fn inspect(&self, limit: usize) -> Vec<Entry<K>> {
        self.with(|state, now| state.entries(now, limit))
    }

    #[inline]
    pub(crate) fn finish(&self, slot: u32, next: Next) -> FinishOutcome {
        // Forgetting a key takes no clock: the state goes by the latest time that it was told.
        let timeless = matches!(next, Next::Done | Next::Drop);
        let now = if timeless { Moment::ZERO } else { self.shared.now() };
        let mut locked = self.shared.lock();
        let finished = locked.finish(now, slot, next);
        self.shared.release(locked);
        finished
    }

    /// Finishes the entry that is held, and holds what is claimed instead.
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

    /// Does something to the state, and tells those whom it concerns.
    fn with<R>(&self, act: impl FnOnce(&mut State<K>, Moment) -> R) -> R {
        let (now, mut locked) = (self.shared.now(), self.shared.lock());
        let result = act(&mut locked.state, now);
        self.shared.release(locked);
        result
    }
}

impl<K: Key> Shared<K> {
    /// Taken before locking, to keep the critical section short: the state takes care of two threads that come in the
    /// other order.
    fn now(&self) -> Moment {
        Moment::at(self.origin.elapsed())
    }

    fn lock(&self) -> LockGuard<'_, LockedState<K>> {
        self.locked.lock()
    }

    /// Unlocks after a change, and wakes whom it concerns.
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
            // Two threads may come here in the other order; phases only move forward.
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
