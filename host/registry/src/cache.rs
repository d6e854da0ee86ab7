//! A cache of pulled blobs: each is a file under its digest. The digest is verified on every read.

use std::path::PathBuf;

use homeostat_digest::Digest;
use homeostat_files::BlobFolder;

use crate::error::Error;

/// Maximum size of all files, in bytes. Beyond it, the least recently used files are evicted.
pub const CACHE_BYTES_MAX: u64 = 1 << 30;

/// A folder of blobs. Several processes may share one.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    blobs: BlobFolder,
    bytes_max: u64,
}

impl Cache {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { blobs: BlobFolder { folder, prefix: "sha256-", suffix: "" }, bytes_max: CACHE_BYTES_MAX }
    }

    /// Returns a blob; `None` if it is missing, damaged, or larger than `bytes_max`.
    pub(crate) async fn get(&self, digest: &Digest, bytes_max: u64) -> Option<Vec<u8>> {
        let (blobs, digest) = (self.blobs.clone(), digest.clone());
        blocking(move || {
            let bytes = blobs.read(&digest, bytes_max).ok()?;
            if bytes.is_none() {
                let path = blobs.path(&digest);
                tracing::warn!(path = %path.display(), "a cached blob is damaged or too large, and is pulled again");
            }
            // If the file cannot be marked, it is evicted earlier.
            drop(blobs.mark_used(&digest));
            bytes
        })
        .await
    }

    /// Stores a blob, and returns once the file is complete.
    ///
    /// # Errors
    /// [`Error::Cache`].
    pub(crate) async fn put(&self, digest: &Digest, bytes: Vec<u8>) -> Result<(), Error> {
        let (Self { blobs, bytes_max }, digest) = (self.clone(), digest.clone());
        blocking(move || {
            let written = homeostat_files::make_private_folder(&blobs.folder)
                .and_then(|()| blobs.put_evicting(&digest, &[&bytes], bytes_max));
            written.map_err(|source| Error::Cache { path: blobs.path(&digest), source })
        })
        .await
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("reading and writing files does not panic")
}

#[cfg(test)]
mod tests;
