//! Writes of a move to one store, some of them at the same time.

use std::sync::Arc;

use tokio::task::JoinSet;

use crate::routed::movable::MovableStore;
use crate::{Error, Request, Result, Store, Write};

/// Concurrent writes: they share the store's syncs.
const WRITES_MAX: usize = 64;

/// Writes to one store, some of them at the same time.
pub(super) struct ConcurrentWrites {
    store: Arc<MovableStore>,
    under_way: JoinSet<Result<()>>,
    pub(super) done: u64,
}

impl ConcurrentWrites {
    pub(super) fn of(store: &Arc<MovableStore>) -> Self {
        Self { store: Arc::clone(store), under_way: JoinSet::new(), done: 0 }
    }

    pub(super) async fn submit(&mut self, write: Write) -> Result<()> {
        if self.under_way.len() >= WRITES_MAX {
            self.join().await?;
        }
        let store = Arc::clone(&self.store);
        let is_removal = matches!(write, Write::Delete { .. });
        self.under_way.spawn(async move {
            match store.submit(Request { is_move: true, ..write.into() }).await {
                // Somebody else has removed it.
                Ok(_) => Ok(()),
                Err(Error::NotFound { .. }) if is_removal => Ok(()),
                Err(error) => Err(error),
            }
        });
        Ok(())
    }

    async fn join(&mut self) -> Result<bool> {
        let Some(written) = self.under_way.join_next().await else { return Ok(false) };
        written.map_err(Error::unavailable)??;
        self.done += 1;
        Ok(true)
    }

    pub(super) async fn end(mut self) -> Result<()> {
        while self.join().await? {}
        Ok(())
    }
}
