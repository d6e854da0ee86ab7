//! The points at which the schedules of several threads branch in tests.

use std::{cell::Cell, sync::atomic::Ordering::SeqCst};

use shuttle::sync::atomic::AtomicBool;

thread_local! {
    static EXPLORING: Cell<bool> = const { Cell::new(false) };
}

/// Branches when it is dropped.
pub(crate) struct Branch;

impl Drop for Branch {
    fn drop(&mut self) {
        branch();
    }
}

/// Lets another thread run first, if shuttle's scheduler decides so. Does nothing outside [`exploring`].
pub(crate) fn branch() {
    if EXPLORING.get() && !std::thread::panicking() {
        AtomicBool::new(false).load(SeqCst);
    }
}

/// Runs `run` with branches on: a run of shuttle, whose threads are all this one.
pub(crate) fn exploring(run: impl FnOnce()) {
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            EXPLORING.set(false);
        }
    }
    EXPLORING.set(true);
    let _reset = Reset;
    run();
}
