//! The epoch clock, which makes guests yield: a thread that advances an engine's epoch every millisecond.
//!
//! It sleeps while no guest runs, holds the engine weakly, and ends with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::Thread;
use std::time::Duration;

use wasmtime::{Engine, EngineWeak};

/// The length of one tick.
pub(crate) const TICK: Duration = Duration::from_millis(1);

/// Ticks without a running guest before the thread sleeps. Waking it costs a system call, so it should not
/// sleep between two calls of a busy host.
const IDLE_TICKS_MAX: u32 = 200;

/// The running clock of one engine.
#[derive(Debug)]
pub(crate) struct Ticker {
    shared: Arc<TickerState>,
    thread: Thread,
}

#[derive(Debug, Default)]
struct TickerState {
    running: AtomicUsize,
    asleep: AtomicBool,
    ended: AtomicBool,
}

/// Registration of a caller that runs guests; the clock ticks while there is one.
#[derive(Debug)]
pub(crate) struct TickGuard(Arc<TickerState>);

impl Ticker {
    /// Starts the clock of `engine`.
    pub(crate) fn start(engine: &Engine) -> std::io::Result<Self> {
        let shared = Arc::new(TickerState::default());
        let engine = engine.weak();
        let handle = std::thread::Builder::new().name("homeostat-epoch".to_owned()).spawn({
            let shared = Arc::clone(&shared);
            move || tick(&engine, &shared)
        })?;
        Ok(Self { shared, thread: handle.thread().clone() })
    }

    /// Keeps the clock ticking until the result is dropped.
    pub(crate) fn keep_ticking(&self) -> TickGuard {
        self.shared.running.fetch_add(1, Ordering::SeqCst);
        if self.shared.asleep.load(Ordering::SeqCst) {
            self.thread.unpark();
        }
        TickGuard(Arc::clone(&self.shared))
    }
}

impl Drop for TickGuard {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

fn tick(engine: &EngineWeak, shared: &TickerState) {
    let mut idle_ticks = 0;
    while !shared.ended.load(Ordering::SeqCst) {
        #[expect(clippy::disallowed_methods, reason = "this thread does nothing else")]
        std::thread::sleep(TICK);
        let Some(engine) = engine.upgrade() else { return };
        engine.increment_epoch();
        drop(engine);
        if shared.running.load(Ordering::SeqCst) > 0 {
            idle_ticks = 0;
            continue;
        }
        idle_ticks += 1;
        if idle_ticks >= IDLE_TICKS_MAX {
            // A caller that registers after this line sees `asleep`; a caller that registered before it is
            // seen by the check of `running`.
            shared.asleep.store(true, Ordering::SeqCst);
            if shared.running.load(Ordering::SeqCst) == 0 && !shared.ended.load(Ordering::SeqCst) {
                std::thread::park();
            }
            shared.asleep.store(false, Ordering::SeqCst);
            idle_ticks = 0;
        }
    }
}
