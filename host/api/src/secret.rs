//! Reads files that hold secrets, and refuses those that others can read too.

use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// Bytes of a file of secrets.
const BYTES_MAX: u64 = 1 << 20;

/// Why a file of secrets, or of certificates, is not used.
#[derive(Debug, thiserror::Error)]
pub enum BadFile {
    /// The system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The group or everybody may read or write it.
    #[error("other users can read or change it (mode {mode:04o}): run `chmod 600` on it")]
    Open {
        /// Its permissions.
        mode: u32,
    },
    /// It is another user's, who could say in it whatever they like.
    #[error("it belongs to the user with the number {owner}, and must be yours or root's: run `chown` on it")]
    Foreign {
        /// Whose it is.
        owner: u32,
    },
    /// What it says cannot be used.
    #[error("{0}")]
    Content(String),
}

/// Reads a file that is its owner's alone, of 1 MiB at most.
///
/// # Errors
/// A [`BadFile`]. It never has a part of the file in it.
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
