//! What the feeders of manifests need of the process around the host: its files.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;

/// The folder of the machine whose files feeders may follow.
#[async_trait]
pub trait FeederFolder: Send + Sync + 'static {
    /// Opens a folder below it. `path` has plain segments only, separated by `/`; empty for the folder itself.
    ///
    /// # Errors
    /// The reason, for a person: it is missing, or lies outside, as through a symbolic link.
    async fn open(&self, path: &str) -> Result<Box<dyn FolderWatch>, String>;
}

/// One folder, followed.
#[async_trait]
pub trait FolderWatch: Send + Sync {
    /// Returns the regular files whose names `accepts` takes, at most `most`, and a stamp of each. A changed file has
    /// another stamp.
    ///
    /// # Errors
    /// The reason, for a person. Also for more than `most` files.
    async fn list(&mut self, accepts: NameFilter, most: usize) -> Result<BTreeMap<String, u64>, String>;

    /// Waits until a file may have changed, or for a while.
    ///
    /// *Cancel safety*: no change is lost: the next list has it.
    async fn changed(&mut self);
}

/// Tells the names of wanted files.
pub type NameFilter = Arc<dyn Fn(&str) -> bool + Send + Sync>;
