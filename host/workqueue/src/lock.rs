//! The one lock of a queue. In tests the schedules of several threads branch here: before it is taken, and after it is
//! released. Nothing that another thread could see happens anywhere else.

use std::{
    ops::{Deref, DerefMut},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// A mutex that knows no poison: a panic inside the lock can only come from the key's own `clone`, `eq` or `hash`, and costs at most
/// that key its place.
pub(crate) struct Lock<T>(Mutex<T>);

/// What is locked, for as long as this exists.
pub(crate) struct LockGuard<'a, T> {
    guard: MutexGuard<'a, T>,
    /// Behind the guard, so that it is dropped after that.
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

    /// Lets another thread go first, if shuttle's scheduler says so; outside of [`exploring`] it does nothing.
    pub(crate) fn branch() {
        if EXPLORING.get() && !std::thread::panicking() {
            AtomicBool::new(false).load(SeqCst);
        }
    }

    /// Does something with branches: a run of shuttle, all of whose threads are this one.
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
