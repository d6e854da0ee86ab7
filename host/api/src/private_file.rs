//! Files with secrets: those that other users can read are refused.

use std::fs::Permissions;
use std::io::{self, Read, Write};
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

/// Writes a file atomically, readable only by its owner.
///
/// # Errors
/// [`BadFile::Io`], also if the folder does not exist.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), BadFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().set_permissions(Permissions::from_mode(0o600))?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}
