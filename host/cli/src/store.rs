//! Opens the store of a starting host, and waits for its file if another process still has it open.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::ValueEnum;
use homeostat_store::Store;
use homeostat_store::embedded::{EmbeddedStore, OpenError};
use homeostat_store::memory::MemoryStore;
use tokio::time::Instant;

use crate::layout::STORE;

/// How long to wait for another process to release the file.
const IN_USE_MAX: Duration = Duration::from_secs(1);
/// The pause between two attempts.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreChoice {
    /// A file on disk, safe against crashes.
    Embedded,
    /// Memory only: all resources are lost at the end.
    Memory,
}

/// Opens the store below `data`. The second value is the store for backups, if it supports them.
///
/// # Errors
/// An [`OpenError`] with the operation as context.
pub(crate) async fn open(choice: StoreChoice, data: &Path) -> Result<(Arc<dyn Store>, Option<Arc<EmbeddedStore>>)> {
    match choice {
        StoreChoice::Memory => Ok((Arc::new(MemoryStore::new(homeostat_store::Options::default())), None)),
        StoreChoice::Embedded => {
            homeostat_files::make_private_folder(data)
                .with_context(|| format!("the folder {} for the store cannot be created", data.display()))?;
            let file = data.join(STORE);
            let open = move || EmbeddedStore::open(&file, homeostat_store::Options::default());
            let store = Arc::new(once_free(open).await.context("the store cannot be opened")?);
            Ok((store.clone(), Some(store)))
        }
    }
}

/// Opens a file that may be in use: a host that was just killed holds its lock until the system has cleaned
/// up.
async fn once_free<S: Send + 'static>(open: impl Fn() -> Result<S, OpenError> + Clone + Send + 'static) -> Result<S> {
    let until = Instant::now() + IN_USE_MAX;
    loop {
        match tokio::task::spawn_blocking(open.clone()).await? {
            Err(OpenError::Locked { .. }) if Instant::now() < until => tokio::time::sleep(LOOK_EVERY).await,
            opened => return Ok(opened?),
        }
    }
}

#[cfg(test)]
mod tests;
