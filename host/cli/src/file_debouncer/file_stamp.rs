//! The size and modification time of a file. This is the only part of the debouncer that touches the disk.

use std::fs::Metadata;
use std::path::Path;
use std::time::SystemTime;

/// The size and modification time of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStamp {
    pub(crate) bytes: u64,
    pub(crate) modified: SystemTime,
}

impl FileStamp {
    /// Reads the stamp of a file; `None` if there is no regular file.
    pub(crate) fn read(path: &Path) -> Option<Self> {
        std::fs::metadata(path).ok().filter(Metadata::is_file).map(|metadata| Self::of(&metadata))
    }

    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self { bytes: metadata.len(), modified: metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH) }
    }
}
