//! Reads files with secrets, and refuses those that other users can read.

use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// Maximum length of a file with secrets, in bytes.
const BYTES_MAX: u64 = 1 << 20;

/// Why a file with secrets or certificates is not used.
#[derive(Debug, thiserror::Error)]
pub enum BadFile {
    /// An I/O error.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The group or other users may read or write the file.
    #[error("other users can read or change it (mode {mode:04o}): run `chmod 600` on it")]
    Open {
        /// The permission bits.
        mode: u32,
    },
    /// Another user owns the file and could change its content.
    #[error("it belongs to user {owner}, and must be yours or root's: run `chown` on it")]
    Foreign {
        /// The owner's user id.
        owner: u32,
    },
    /// The content cannot be used.
    #[error("{0}")]
    Content(String),
}

/// Reads a file of at most 1 MiB that only its owner can read.
///
/// # Errors
/// A [`BadFile`], which never contains a part of the file.
pub fn read(path: &Path) -> Result<Vec<u8>, BadFile> {
    let file = homeostat_files::open(path)?;
    let found = file.metadata()?;
    let mode = found.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(BadFile::Open { mode });
    }
    if !homeostat_files::has_trusted_owner(&found) {
        return Err(BadFile::Foreign { owner: found.uid() });
    }
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(BadFile::Content(format!("it has more than {BYTES_MAX} bytes")));
    }
    Ok(bytes)
}
