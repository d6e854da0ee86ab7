//! Instances that a controller keeps between calls, if it asks for that: the runtime of some languages takes
//! milliseconds to start.
//!
//! A call takes an instance out and, if it succeeds, puts it back. So an instance runs one call at a time, and one that
//! trapped, hit a limit, failed or was dropped in the middle is never called again. Only the memory of the guest outlives a
//! call: limits, costs, effects and the log belong to each call.
//!
//! Kept instances need no permit. The pool has room for as many as an engine keeps, beside those that run.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::Notify;
use wasmtime::Store;

use crate::bindings::reconciler;
use crate::call_context::{CallContext, State};
use crate::code::Code;
use crate::options::INSTANCES_KEPT_MAX;

/// Calls of one instance. Then a new one begins, so that no guest depends on a memory that lasts.
pub(crate) const CALLS_MAX: u32 = 1000;

/// The kept instances of one version of a controller. They end with it.
pub struct WarmInstances {
    table: Arc<WarmTable>,
    kept: Arc<KeptInstances>,
}

/// Instances that no call uses.
#[derive(Default)]
struct KeptInstances(Mutex<VecDeque<KeptInstance>>);

struct KeptInstance {
    instance: WarmInstance,
    /// Whether it was idle at the last eviction.
    was_idle: bool,
}

/// An instance, and the code that it runs.
pub(crate) struct WarmInstance {
    code: Arc<Code>,
    pub(crate) store: Store<State>,
    pub(crate) guest: reconciler::Guest,
    calls: u32,
}

/// All kept instances of an engine.
#[derive(Default)]
pub(crate) struct WarmTable {
    count: AtomicUsize,
    versions: Mutex<Vec<Weak<KeptInstances>>>,
    /// Wakes the eviction.
    woken: Notify,
}

impl std::fmt::Debug for WarmInstances {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WarmInstances").field("kept", &self.kept.0.lock().len()).finish_non_exhaustive()
    }
}

impl WarmInstances {
    /// Creates the instances of a version of a controller: none yet.
    pub(crate) fn new(table: &Arc<WarmTable>) -> Self {
        let kept = Arc::default();
        let mut versions = table.versions.lock();
        versions.retain(|version| version.strong_count() > 0);
        versions.push(Arc::downgrade(&kept));
        drop(versions);
        Self { table: Arc::clone(table), kept }
    }

    /// Takes an instance that runs this code, for a call with this context. Instances of replaced code end.
    pub(crate) fn take(&self, code: &Arc<Code>, context: &Arc<CallContext>) -> Option<WarmInstance> {
        loop {
            // The last one that was put back: its memory is the likeliest to be in the processor's cache.
            let KeptInstance { mut instance, .. } = self.kept.0.lock().pop_back()?;
            self.table.count.fetch_sub(1, Ordering::Relaxed);
            if Arc::ptr_eq(&instance.code, code) {
                State::begin(&mut instance.store, context);
                return Some(instance);
            }
        }
    }

    /// Keeps the instance of a call that succeeded, unless it is used up or the engine keeps enough.
    pub(crate) fn keep(&self, mut instance: WarmInstance) {
        instance.calls += 1;
        let is_worn = instance.calls >= CALLS_MAX || instance.store.data().is_memory_half_used();
        if is_worn || !self.table.reserve() {
            return;
        }
        self.kept.0.lock().push_back(KeptInstance { instance, was_idle: false });
        self.table.woken.notify_one();
    }
}

impl Drop for WarmInstances {
    fn drop(&mut self) {
        let ended = std::mem::take(&mut *self.kept.0.lock());
        self.table.count.fetch_sub(ended.len(), Ordering::Relaxed);
    }
}

impl WarmInstance {
    /// Returns a new instance before its first call.
    pub(crate) fn new(code: &Arc<Code>, store: Store<State>, guest: reconciler::Guest) -> Self {
        Self { code: Arc::clone(code), store, guest, calls: 0 }
    }
}

impl WarmTable {
    /// Counts one more instance, if there is room for it.
    fn reserve(&self) -> bool {
        let more = |count| (count < INSTANCES_KEPT_MAX).then_some(count + 1);
        self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Waits until an instance was kept since the last wait.
    pub(crate) async fn kept(&self) {
        self.woken.notified().await;
    }

    /// Returns the number of kept instances.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Ends the instances that were idle since the last eviction. Returns whether there are others.
    pub(crate) fn evict_idle(&self) -> bool {
        let versions: Vec<Arc<KeptInstances>> = self.versions.lock().iter().filter_map(Weak::upgrade).collect();
        for version in versions {
            let mut kept = version.0.lock();
            let (idle, mut used): (VecDeque<_>, VecDeque<_>) = kept.drain(..).partition(|kept| kept.was_idle);
            used.iter_mut().for_each(|kept| kept.was_idle = true);
            *kept = used;
            drop(kept);
            self.count.fetch_sub(idle.len(), Ordering::Relaxed);
        }
        self.count() > 0
    }
}
