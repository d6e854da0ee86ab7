//! What an admission plug-in has read from the store, until a write changes it.

use parking_lot::Mutex;

/// State that was read, and the number of writes that made the plug-in forget it. The default of `T` is nothing.
#[derive(Default)]
pub(crate) struct Remembered<T>(Mutex<State<T>>);

#[derive(Default)]
struct State<T> {
    writes: u64,
    content: T,
}

impl<T: Default> Remembered<T> {
    /// Returns what `read` finds, or else the number of writes until now.
    ///
    /// # Errors
    /// The number, for [`Remembered::add`].
    pub(crate) fn find<R>(&self, read: impl FnOnce(&T) -> Option<R>) -> Result<R, u64> {
        let state = self.0.lock();
        read(&state.content).ok_or(state.writes)
    }

    /// Adds what was read since [`Remembered::find`], unless a write came in between.
    pub(crate) fn add(&self, writes: u64, add: impl FnOnce(&mut T)) {
        let mut state = self.0.lock();
        if state.writes == writes {
            add(&mut state.content);
        }
    }

    /// Forgets everything, after a write.
    pub(crate) fn forget(&self) {
        let mut state = self.0.lock();
        *state = State { writes: state.writes.wrapping_add(1), content: T::default() };
    }
}
