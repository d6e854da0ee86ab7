//! A cache of compiled components on disk, so that a restarted host need not compile them again.
//!
//! An entry becomes code that this process runs. So only the host's user may access the folder, and every
//! entry carries a MAC with a key stored beside it; only verified bytes leave this module. An entry that is
//! damaged, truncated, signed with another key or stored under another name counts as absent: it is compiled
//! again and replaced. A disk failure is never an error here.

use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use homeostat_digest::Digest;
use homeostat_files::{BlobFolder, make_private_folder};

use crate::tier::Tier;

mod restore;
mod seal;

pub(crate) use restore::{TrustedBytes, restore};
pub(crate) use seal::AuthenticBytes;
use seal::{MacKey, TAG_BYTES};

/// Part of every name, so that entries in another format are never found.
const FORMAT: &str = "homeostat compiled 1";
/// The permission bits of all users except the owner.
const OTHERS: u32 = 0o077;

/// A folder of compiled components. Several processes may share it.
pub(crate) struct Cache {
    blobs: BlobFolder,
    bytes_max: u64,
    key: Arc<MacKey>,
}

/// An open entry. It stays readable after it is replaced or removed from the folder.
pub(crate) struct Entry {
    file: File,
    name: EntryName,
    key: Arc<MacKey>,
    bytes_max: u64,
}

/// The name of an entry: a hash of the format, the component, the engine that compiled it, the allocator and the
/// tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EntryName(Digest);

impl EntryName {
    pub(crate) fn of(digest: &Digest, engine: &wasmtime::Engine, pooled: bool, tier: Tier) -> Self {
        let mut parts = HashedBytes::default();
        (FORMAT, digest, pooled, tier).hash(&mut parts);
        engine.precompile_compatibility_hash().hash(&mut parts);
        Self(Digest::of(&parts.0))
    }
}

/// The bytes that a value hands to its hasher. They are the same in every process.
#[derive(Default)]
struct HashedBytes(Vec<u8>);

impl Hasher for HashedBytes {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        self.0.len() as u64
    }
}

impl Entry {
    /// Reads and verifies the whole entry; `None` if it cannot be read or verified. Can be called repeatedly.
    pub(crate) fn read(&self) -> Option<AuthenticBytes> {
        let length = self.file.metadata().ok()?.len();
        if length > self.bytes_max {
            return None;
        }
        let mut sealed = vec![0; usize::try_from(length).ok()?];
        self.file.read_exact_at(&mut sealed, 0).ok()?;
        self.key.open(&self.name, sealed)
    }
}

impl Cache {
    /// Opens a folder, and creates it and its key if they are missing. Entries take at most `bytes_max` bytes
    /// in total.
    ///
    /// # Errors
    /// When the folder cannot be written, or other users may access it.
    pub(crate) fn open(folder: &Path, bytes_max: u64) -> io::Result<Self> {
        make_private_folder(folder)?;
        let blobs = BlobFolder { folder: folder.to_owned(), prefix: "", suffix: ".compiled" };
        let owner = owner(&blobs)?;
        let key = Arc::new(MacKey::read_or_create(&blobs, owner)?);
        Ok(Self { blobs, bytes_max, key })
    }

    /// Opens the entry of this name and marks it as used. Its content is verified when it is read.
    pub(crate) fn find(&self, name: &EntryName) -> Option<Entry> {
        let file = homeostat_files::open(&self.blobs.path(&name.0)).ok()?;
        if let Err(error) = self.blobs.mark_used(&name.0) {
            tracing::debug!(%error, "cannot record the use of a compiled component");
        }
        Some(Entry { file, name: name.clone(), key: Arc::clone(&self.key), bytes_max: self.bytes_max })
    }

    /// Removes an entry, if there is one. A reader that has it open still reads it.
    pub(crate) fn remove(&self, name: &EntryName) {
        if let Err(error) = fs::remove_file(self.blobs.path(&name.0))
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::debug!(%error, "cannot remove a compiled component that is not needed any more");
        }
    }

    /// Stores an entry, replacing one with the same name, and evicts the least recently used entries beyond
    /// the bound. An entry larger than the bound is not stored.
    ///
    /// # Errors
    /// When writing fails. The previous entry is then either intact or removed.
    pub(crate) fn put(&self, name: &EntryName, compiled: &[u8]) -> io::Result<()> {
        if (compiled.len() + TAG_BYTES) as u64 > self.bytes_max {
            return Ok(());
        }
        self.blobs.put_evicting(&name.0, &[self.key.tag(name, compiled).as_ref(), compiled], self.bytes_max)
    }
}

/// Returns the owner of the folder, which must be this process's user. Other users must have no access.
fn owner(blobs: &BlobFolder) -> io::Result<u32> {
    let facts = fs::metadata(&blobs.folder)?;
    // A new file belongs to the user of this process.
    let own = blobs.draft()?.as_file().metadata()?.uid();
    if facts.uid() != own || facts.mode() & OTHERS != 0 {
        return Err(io::Error::other("the folder must belong to the user of the host, and have the mode 0700"));
    }
    Ok(own)
}

#[cfg(test)]
mod tests;
