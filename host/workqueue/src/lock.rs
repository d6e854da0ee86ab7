//! The one lock of a queue. In tests, the schedules of several threads branch here: before the lock is taken
//! and after it is released. No other point of the queue has effects that another thread can see.

use std::{
    ops::{Deref, DerefMut},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// A mutex without poisoning. A panic inside the lock can only come from the `clone`, `eq` or `hash` of a
/// key; at worst that key loses its entry.
pub(crate) struct Lock<T>(Mutex<T>);

/// The guard of the lock; releases it on drop.
pub(crate) struct LockGuard<'a, T> {
    guard: MutexGuard<'a, T>,
    /// Declared after the guard, so that it is dropped after the guard.
    #[cfg(test)]
    _branch: schedule::Branch,
}

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Lock<T> {
        Lock(Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> LockGuard<'_, T> {
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

#[cfg(test)]
pub(crate) mod schedule {
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
}
