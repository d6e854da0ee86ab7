//! A cache of compiled components on disk, so that a restarted host need not compile them again.
//!
//! An entry becomes code that this process runs. So only the host's user may access the folder, and every
//! entry carries a MAC with a key stored beside it; only verified bytes leave this module. An entry that is
//! damaged, truncated, signed with another key or stored under another name counts as absent: it is compiled
//! again and replaced. A disk failure is never an error here.

use std::fs::{self, DirBuilder, File};
use std::hash::{Hash, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use homeostat_digest::{Digest, to_hex};
use sha2::{Digest as _, Sha256};

mod restore;
mod seal;

pub(crate) use restore::{TrustedBytes, restore};
pub(crate) use seal::AuthenticBytes;
use seal::{MacKey, TAG_BYTES};

/// Part of every name, so that entries in another format are never found.
const FORMAT: &str = "homeostat compiled 1";
const SUFFIX: &str = ".compiled";
const DRAFT_PREFIX: &str = ".draft-";
/// An older draft was left behind by a process that ended.
const DRAFT_AGE_MAX: Duration = Duration::from_secs(3600);
/// The permission bits of all users except the owner.
const OTHERS: u32 = 0o077;

/// A folder of compiled components. Several processes may share it.
pub(crate) struct Cache {
    folder: PathBuf,
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

/// The name of an entry: a hash of the format, the component, the engine that compiled it, and the allocator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EntryName(String);

impl EntryName {
    pub(crate) fn of(digest: &Digest, engine: &wasmtime::Engine, pooled: bool) -> Self {
        let mut hasher = StableHasher(Sha256::new());
        (FORMAT, digest, pooled).hash(&mut hasher);
        engine.precompile_compatibility_hash().hash(&mut hasher);
        Self(to_hex(&hasher.0.finalize()))
    }
}

/// A hasher with the same result in every process.
struct StableHasher(Sha256);

impl Hasher for StableHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let digest = self.0.clone().finalize();
        u64::from_le_bytes(std::array::from_fn(|at| digest[at]))
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
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let owner = owner(folder)?;
        let key = Arc::new(MacKey::read_or_create(folder, owner)?);
        Ok(Self { folder: folder.to_owned(), bytes_max, key })
    }

    /// Opens the entry of this name and marks it as used. Its content is verified when it is read.
    pub(crate) fn find(&self, name: &EntryName) -> Option<Entry> {
        let file = File::open(self.path(name)).ok()?;
        if let Err(error) = file.set_modified(SystemTime::now()) {
            tracing::debug!(%error, "cannot record the use of a compiled component");
        }
        Some(Entry { file, name: name.clone(), key: Arc::clone(&self.key), bytes_max: self.bytes_max })
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
        let mut draft = draft(&self.folder)?;
        draft.write_all(&self.key.tag(name, compiled))?;
        draft.write_all(compiled)?;
        draft.persist(self.path(name)).map_err(|failed| failed.error)?;
        self.trim()
    }

    fn path(&self, name: &EntryName) -> PathBuf {
        self.folder.join(format!("{}{SUFFIX}", name.0))
    }

    /// Removes abandoned drafts, and entries beyond the bound. Other files are left alone.
    fn trim(&self) -> io::Result<()> {
        let now = SystemTime::now();
        let mut entries = Vec::new();
        for file in fs::read_dir(&self.folder)?.filter_map(Result::ok) {
            // Another process may have removed it in the meantime.
            let Ok(facts) = file.metadata() else { continue };
            let (name, path) = (file.file_name(), file.path());
            let used = facts.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let (is_draft, is_entry) = (
                name.as_encoded_bytes().starts_with(DRAFT_PREFIX.as_bytes()),
                name.as_encoded_bytes().ends_with(SUFFIX.as_bytes()),
            );
            if is_draft && now.duration_since(used).is_ok_and(|age| age > DRAFT_AGE_MAX) {
                remove(&path)?;
            } else if is_entry {
                entries.push((used, facts.len(), path));
            }
        }
        let mut bytes: u64 = entries.iter().map(|(_, length, _)| length).sum();
        entries.sort();
        for (_, length, path) in entries {
            if bytes <= self.bytes_max {
                break;
            }
            remove(&path)?;
            bytes -= length;
        }
        Ok(())
    }
}

/// Returns the owner of the folder, which must be this process's user. Other users must have no access.
fn owner(folder: &Path) -> io::Result<u32> {
    let facts = fs::metadata(folder)?;
    // A new file belongs to the user of this process.
    let own = draft(folder)?.as_file().metadata()?.uid();
    if facts.uid() != own || facts.mode() & OTHERS != 0 {
        return Err(io::Error::other("the folder must belong to the user of the host, and have the mode 0700"));
    }
    Ok(own)
}

/// Creates a temporary file, which only its owner can open.
fn draft(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    tempfile::Builder::new().prefix(DRAFT_PREFIX).tempfile_in(folder)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
