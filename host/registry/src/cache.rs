//! A cache of pulled blobs: each is a file under its digest. The digest is verified on every read.

use std::fs::{self, DirBuilder};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use homeostat_digest::Digest;

use crate::error::Error;

/// Maximum size of all files, in bytes. Beyond it, the least recently used files are evicted.
pub const CACHE_BYTES_MAX: u64 = 1 << 30;

/// The prefix of file names, before the digits of the digest.
const PREFIX: &str = "sha256-";

/// A folder of blobs. Several processes may share one.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    folder: PathBuf,
    bytes_max: u64,
}

impl Cache {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, bytes_max: CACHE_BYTES_MAX }
    }

    fn path(&self, digest: &Digest) -> PathBuf {
        self.folder.join(digest.as_str().replace(':', "-"))
    }

    /// Returns a blob; `None` if it is missing, damaged, or larger than `bytes_max`.
    pub(crate) async fn get(&self, digest: &Digest, bytes_max: u64) -> Option<Vec<u8>> {
        let (path, digest) = (self.path(digest), digest.clone());
        blocking(move || read(&path, &digest, bytes_max).ok().flatten()).await
    }

    /// Stores a blob, and returns once the file is complete.
    ///
    /// # Errors
    /// [`Error::Cache`].
    pub(crate) async fn put(&self, digest: &Digest, bytes: Vec<u8>) -> Result<(), Error> {
        let (this, path) = (self.clone(), self.path(digest));
        blocking(move || this.write(&path, &bytes).map_err(|source| Error::Cache { path, source })).await
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let mut draft = tempfile::Builder::new().prefix(".draft-").tempfile_in(&self.folder)?;
        draft.write_all(bytes)?;
        draft.persist(path).map_err(|failed| failed.error)?;
        self.make_room(path)
    }

    /// Evicts the least recently used files, except `kept`.
    fn make_room(&self, kept: &Path) -> io::Result<()> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let (entry, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
            let facts = fs::metadata(&entry);
            // Another process may evict at the same time.
            if let (Ok(facts), true) = (facts, name.to_string_lossy().starts_with(PREFIX)) {
                files.push((facts.modified()?, facts.len(), entry));
            }
        }
        files.sort();
        let mut total: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, bytes, path) in files {
            if total <= self.bytes_max {
                break;
            }
            if path != kept && fs::remove_file(path).is_ok() {
                total -= bytes;
            }
        }
        Ok(())
    }
}

fn read(path: &Path, digest: &Digest, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    let mut file = homeostat_files::open(path)?;
    let mut bytes = Vec::new();
    (&mut file).take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Ok(None);
    }
    if Digest::of(&bytes) != *digest {
        tracing::warn!(path = %path.display(), "a cached blob is damaged and is pulled again");
        return Ok(None);
    }
    // Marks the file as used. If that fails, the file is evicted earlier.
    drop(file.set_modified(SystemTime::now()));
    Ok(Some(bytes))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("reading and writing files does not panic")
}

#[cfg(test)]
mod tests;
