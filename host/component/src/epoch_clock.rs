//! The clock that makes guests yield: a thread that advances the epoch of an engine every millisecond.
//!
//! The thread sleeps while no guest may run, so it wakes no processor of a host that has nothing to do. It holds
//! the engine weakly, and ends with it.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::Thread;
use std::time::Duration;

/// The length of one tick.
const TICK: Duration = Duration::from_millis(1);

/// The running clock of one engine.
#[derive(Debug)]
pub(crate) struct EpochClock {
    state: Arc<ClockState>,
    thread: Thread,
}

#[derive(Debug, Default)]
struct ClockState {
    /// The number of guards.
    guards: AtomicUsize,
    asleep: AtomicBool,
    ended: AtomicBool,
}

/// The registration of a caller that runs guests: the clock ticks while there is one.
#[derive(Debug)]
pub(crate) struct TickGuard(Arc<ClockState>);

impl EpochClock {
    /// Starts the clock of `engine`.
    pub(crate) fn start(engine: &wasmtime::Engine) -> std::io::Result<Self> {
        let engine = engine.weak();
        Self::start_with(move || engine.upgrade().map(|engine| engine.increment_epoch()).is_some())
    }

    /// Starts a clock that calls `advance` in every tick, until it returns `false`.
    fn start_with(advance: impl FnMut() -> bool + Send + 'static) -> std::io::Result<Self> {
        let state = Arc::new(ClockState::default());
        let handle = std::thread::Builder::new().name("homeostat-epoch".to_owned()).spawn({
            let state = Arc::clone(&state);
            move || run(&state, advance)
        })?;
        Ok(Self { state, thread: handle.thread().clone() })
    }

    /// Keeps the clock ticking until the result is dropped. A system call wakes the thread if it sleeps, at most
    /// once a tick.
    pub(crate) fn keep_ticking(&self) -> TickGuard {
        self.state.guards.fetch_add(1, Ordering::SeqCst);
        if self.state.asleep.load(Ordering::SeqCst) {
            self.thread.unpark();
        }
        TickGuard(Arc::clone(&self.state))
    }
}

impl Drop for TickGuard {
    fn drop(&mut self) {
        self.0.guards.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for EpochClock {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

impl ClockState {
    /// Returns whether the thread has nothing to do.
    fn is_idle(&self) -> bool {
        self.guards.load(Ordering::SeqCst) == 0 && !self.ended.load(Ordering::SeqCst)
    }
}

/// Calls `advance` in every tick, until it returns `false` or the clock is dropped.
fn run(state: &ClockState, mut advance: impl FnMut() -> bool) {
    while !state.ended.load(Ordering::SeqCst) {
        if state.is_idle() {
            state.asleep.store(true, Ordering::SeqCst);
            // A caller that registers from here on sees `asleep`; one that registered before is seen here.
            if state.is_idle() {
                std::thread::park();
            }
            state.asleep.store(false, Ordering::SeqCst);
        }
        // A tick follows each wake-up, also when the caller has left already: this bounds the system calls.
        #[expect(clippy::disallowed_methods, reason = "this thread does nothing else")]
        std::thread::sleep(TICK);
        if !advance() {
            return;
        }
    }
}
