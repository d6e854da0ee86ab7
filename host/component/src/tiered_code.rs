//! The code of one component, whose baseline may be replaced by optimised code while calls run.

use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwap, Guard};
use tokio::sync::oneshot;

use crate::code::Code;
use crate::tier::Tier;

/// The code of one component, shared by all loads of the same bytes.
pub(crate) struct TieredCode {
    /// The code for the next call. Calls that run keep theirs.
    current: ArcSwap<Code>,
    /// The reason why optimised code will not replace the baseline.
    failed: OnceLock<String>,
    /// Closes when nobody uses the component any more.
    _used: oneshot::Sender<()>,
}

/// The end of the use of a component: it resolves when nobody has the code any more.
pub(crate) struct UseEnd(oneshot::Receiver<()>);

impl TieredCode {
    pub(crate) fn new(code: Code) -> (Self, UseEnd) {
        let (used, end) = oneshot::channel();
        (Self { current: ArcSwap::from_pointee(code), failed: OnceLock::new(), _used: used }, UseEnd(end))
    }

    /// Returns the code for the next call. The guard is cheaper than a reference, and must not be kept.
    pub(crate) fn peek(&self) -> Guard<Arc<Code>> {
        self.current.load()
    }

    /// Returns the code for the next call.
    pub(crate) fn current(&self) -> Arc<Code> {
        self.current.load_full()
    }

    /// Makes all calls from now on use this code.
    pub(crate) fn replace(&self, code: Code) {
        self.current.store(Arc::new(code));
    }

    /// Records that no optimised code will come.
    pub(crate) fn set_failed(&self, reason: String) {
        // The first reason stays.
        drop(self.failed.set(reason));
    }

    pub(crate) fn tier(&self) -> Tier {
        self.peek().tier
    }

    pub(crate) fn failed(&self) -> Option<&str> {
        self.failed.get().map(String::as_str)
    }
}

impl UseEnd {
    /// Waits until nobody uses the code.
    pub(crate) async fn wait(self) {
        // Nothing is sent; the sender is dropped with the code.
        let _ = self.0.await;
    }
}
