//! Waits for the next reconcile of a key that begins from now on and has no failure.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use homeostat_store::Key;
use parking_lot::Mutex;
use tokio::sync::oneshot;

/// The waits of one controller. Each belongs to a [`SettleWait`], whose owners bound their number.
#[derive(Default)]
pub(crate) struct SettleWaiters {
    /// The number of waits, so that a worker needs no lock while there are none.
    count: AtomicUsize,
    waiting: Mutex<HashMap<Key, Vec<oneshot::Sender<()>>>>,
}

/// One wait. Dropping it ends it.
pub(crate) struct SettleWait {
    waiters: Arc<SettleWaiters>,
    key: Key,
    settled: oneshot::Receiver<()>,
}

/// The waits that one run of a key can end. Dropped without [`RunWaiters::settle`], they wait for the next run.
pub(crate) struct RunWaiters<'w> {
    waiters: &'w SettleWaiters,
    key: Key,
    taken: Vec<oneshot::Sender<()>>,
}

impl SettleWaiters {
    /// Begins to wait for a key. A run that has begun already does not count.
    pub(crate) fn wait(self: &Arc<Self>, key: &Key) -> SettleWait {
        let (send, settled) = oneshot::channel();
        self.waiting.lock().entry(key.clone()).or_default().push(send);
        self.count.fetch_add(1, Ordering::SeqCst);
        SettleWait { waiters: self.clone(), key: key.clone(), settled }
    }

    /// Returns the waits for a key whose run begins now.
    pub(crate) fn begin_run(&self, key: &Key) -> Option<RunWaiters<'_>> {
        if self.count.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let taken = self.waiting.lock().remove(key)?;
        Some(RunWaiters { waiters: self, key: key.clone(), taken })
    }
}

impl SettleWait {
    /// Waits until a run of the key has ended without a failure.
    pub(crate) async fn settled(mut self) {
        if (&mut self.settled).await.is_err() {
            // The controller is gone with its waits.
            std::future::pending().await
        }
    }
}

impl Drop for SettleWait {
    fn drop(&mut self) {
        self.settled.close();
        self.waiters.count.fetch_sub(1, Ordering::SeqCst);
        let mut waiting = self.waiters.waiting.lock();
        if let Some(of_key) = waiting.get_mut(&self.key) {
            of_key.retain(|wait| !wait.is_closed());
            if of_key.is_empty() {
                waiting.remove(&self.key);
            }
        }
    }
}

impl RunWaiters<'_> {
    /// Ends the waits: the run had no failure.
    pub(crate) fn settle(mut self) {
        for wait in self.taken.drain(..) {
            // A wait that has ended meanwhile needs no news.
            let _ = wait.send(());
        }
    }
}

impl Drop for RunWaiters<'_> {
    fn drop(&mut self) {
        self.taken.retain(|wait| !wait.is_closed());
        if !self.taken.is_empty() {
            self.waiters.waiting.lock().entry(self.key.clone()).or_default().append(&mut self.taken);
        }
    }
}

#[cfg(test)]
mod tests;
