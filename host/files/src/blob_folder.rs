//! A folder of blobs: files that are named by a digest, and that appear whole or not at all.
//!
//! Several processes may share a folder without a lock: a blob only replaces one of the same name, and removing
//! it does not disturb its readers. Files of other names stay.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use homeostat_digest::Digest;
use tempfile::NamedTempFile;

/// The prefix of files that are still being written.
const DRAFT_PREFIX: &str = ".draft-";
/// An older draft was left behind by a process that ended.
const DRAFT_AGE_MAX: Duration = Duration::from_secs(3600);

/// A folder of blobs, in files named by `prefix`, the 64 digits of a digest, and `suffix`.
#[derive(Clone, Debug)]
pub struct BlobFolder {
    /// The folder.
    pub folder: PathBuf,
    /// The part of a file's name before the digits.
    pub prefix: &'static str,
    /// The part of a file's name after the digits.
    pub suffix: &'static str,
}

/// A blob or a draft.
struct FoundFile {
    /// When it was last written or marked as used.
    used: SystemTime,
    bytes: u64,
    path: PathBuf,
    /// `None` for a draft.
    name: Option<Digest>,
}

impl FoundFile {
    fn is_unused_for(&self, age_min: Duration, now: SystemTime) -> bool {
        now.duration_since(self.used).is_ok_and(|age| age >= age_min)
    }
}

impl BlobFolder {
    /// Returns the file of a blob, which need not exist.
    pub fn path(&self, name: &Digest) -> PathBuf {
        self.folder.join(format!("{}{}{}", self.prefix, name.digits(), self.suffix))
    }

    /// Reads a blob whose name is the digest of its content. Returns `None` for more than `bytes_max` bytes, and
    /// for content with another digest.
    ///
    /// # Errors
    /// As [`read`](crate::read).
    pub fn read(&self, name: &Digest, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
        Ok(crate::read(&self.path(name), bytes_max)?.filter(|bytes| Digest::of(bytes) == *name))
    }

    /// Marks a blob as used now.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn mark_used(&self, name: &Digest) -> io::Result<()> {
        crate::open(&self.path(name))?.set_modified(SystemTime::now())
    }

    /// Creates a temporary file, which only its owner can open. Dropping it removes it.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn draft(&self) -> io::Result<NamedTempFile> {
        tempfile::Builder::new().prefix(DRAFT_PREFIX).tempfile_in(&self.folder)
    }

    /// Writes a blob, or replaces it. Returns when it is durable.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn put_durable(&self, name: &Digest, bytes: &[u8]) -> io::Result<()> {
        replace_durable(&self.path(name), bytes)
    }

    /// Writes a blob from its parts, or replaces it. Then removes the least recently used blobs until at most
    /// `bytes_max` bytes are left, and abandoned drafts. A loss of power may damage the blob.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn put_evicting(&self, name: &Digest, parts: &[&[u8]], bytes_max: u64) -> io::Result<()> {
        let mut draft = self.draft()?;
        parts.iter().try_for_each(|part| draft.write_all(part))?;
        draft.persist(self.path(name))?;
        let now = SystemTime::now();
        let (mut blobs, drafts): (Vec<_>, Vec<_>) = self.files()?.into_iter().partition(|file| file.name.is_some());
        for draft in drafts.iter().filter(|draft| draft.is_unused_for(DRAFT_AGE_MAX, now)) {
            remove(&draft.path)?;
        }
        blobs.sort_by_key(|blob| blob.used);
        let mut bytes: u64 = blobs.iter().map(|blob| blob.bytes).sum();
        for blob in blobs {
            if bytes <= bytes_max {
                break;
            }
            remove(&blob.path)?;
            bytes -= blob.bytes;
        }
        Ok(())
    }

    /// Removes unused blobs, and drafts, of at least the age `age_min`. A missing folder has none.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn remove_unused(
        &self,
        age_min: Duration,
        now: SystemTime,
        is_used: impl Fn(&Digest) -> bool,
    ) -> io::Result<()> {
        for file in self.files()? {
            if file.is_unused_for(age_min, now) && !file.name.is_some_and(|name| is_used(&name)) {
                remove(&file.path)?;
            }
        }
        Ok(())
    }

    fn files(&self) -> io::Result<Vec<FoundFile>> {
        let mut files = Vec::new();
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(files),
            entries => entries?,
        };
        for entry in entries.filter_map(Result::ok) {
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_draft = name.starts_with(DRAFT_PREFIX);
            let digits = name.strip_prefix(self.prefix).and_then(|rest| rest.strip_suffix(self.suffix));
            let name = digits.and_then(|digits| Digest::parse(&format!("sha256:{digits}")));
            // Another process may have removed it in the meantime.
            if let (true, Ok(facts)) = (is_draft || name.is_some(), entry.metadata()) {
                files.push(FoundFile { used: facts.modified()?, bytes: facts.len(), path: entry.path(), name });
            }
        }
        Ok(files)
    }
}

/// Writes a file that only its owner can open, or replaces it as a whole. Returns when it is durable.
///
/// # Errors
/// Errors of the system. The file is then as it was before, or replaced.
pub fn replace_durable(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut draft = tempfile::Builder::new().prefix(DRAFT_PREFIX).tempfile_in(folder)?;
    draft.write_all(bytes)?;
    draft.as_file().sync_all()?;
    draft.persist(path)?;
    File::open(folder)?.sync_all()
}

/// Creates a folder for its owner alone, with missing parents. An existing folder stays unchanged.
///
/// # Errors
/// Errors of the system.
pub fn make_private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
