//! One look at one file: the only part of the looks that touches the disk.

use std::fs::Metadata;
use std::path::Path;
use std::time::SystemTime;

/// What a look at a file sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStamp {
    pub(crate) bytes: u64,
    pub(crate) modified: SystemTime,
}

impl FileStamp {
    /// Looks at a file. `None`: it is not there, or it is no file.
    pub(crate) fn read(path: &Path) -> Option<Self> {
        std::fs::metadata(path).ok().filter(Metadata::is_file).map(|metadata| Self::of(&metadata))
    }

    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self { bytes: metadata.len(), modified: metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH) }
    }
}
