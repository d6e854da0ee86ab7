//! What every backend over a file does alike, and what is asked of the system about files.

use std::fs::File;
use std::io;

use redb::backends::FileBackend;
use redb::{DatabaseError, StorageBackend};

/// Gives the beginning of a file its room on the disk, so that writing there needs none. What stands there stays. Returns whether the file
/// system can.
///
/// # Errors
/// What the system answers: `StorageFull` above all.
#[cfg(target_os = "linux")]
pub(super) fn reserve(file: &File, bytes: u64) -> io::Result<bool> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;

    loop {
        match fallocate(file, FallocateFlags::empty(), 0, bytes) {
            Ok(()) => return Ok(true),
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Nothing: this system has no way to ask for it.
#[cfg(not(target_os = "linux"))]
pub(super) fn reserve(_: &File, _: u64) -> io::Result<bool> {
    Ok(false)
}

/// Passes locks, and the end, on to `self.file`: what is locked is the file as a whole, by whatever ranges the engine has for that.
macro_rules! pass_on_locks {
    () => {
        fn close(&self) -> std::io::Result<()> {
            self.file.close()
        }

        fn try_lock_range(
            &self,
            start: std::ops::Bound<u64>,
            end: std::ops::Bound<u64>,
        ) -> Result<bool, redb::BackendError> {
            self.file.try_lock_range(start, end)
        }

        fn try_lock_shared_range(
            &self,
            start: std::ops::Bound<u64>,
            end: std::ops::Bound<u64>,
        ) -> Result<bool, redb::BackendError> {
            self.file.try_lock_shared_range(start, end)
        }

        fn lock_range(&self, start: std::ops::Bound<u64>, end: std::ops::Bound<u64>) -> Result<(), redb::BackendError> {
            self.file.lock_range(start, end)
        }

        fn lock_shared_range(
            &self,
            start: std::ops::Bound<u64>,
            end: std::ops::Bound<u64>,
        ) -> Result<(), redb::BackendError> {
            self.file.lock_shared_range(start, end)
        }

        fn unlock_range(
            &self,
            start: std::ops::Bound<u64>,
            end: std::ops::Bound<u64>,
        ) -> Result<(), redb::BackendError> {
            self.file.unlock_range(start, end)
        }

        fn query_lock_range(
            &self,
            start: std::ops::Bound<u64>,
            end: std::ops::Bound<u64>,
        ) -> Result<bool, redb::BackendError> {
            self.file.query_lock_range(start, end)
        }
    };
}

pub(super) use pass_on_locks;

/// A file that is not written beyond the bound on the size of files that the process has: such a write answers `FileTooLarge`, and nothing of it was
/// written. The system would write as much as there is room for, and nobody would know how much that was.
#[derive(Debug)]
pub(super) struct SizeLimitedFile {
    file: FileBackend,
}

impl SizeLimitedFile {
    pub(super) fn over(file: File) -> Result<Self, DatabaseError> {
        Ok(Self { file: FileBackend::new(file)? })
    }
}

impl StorageBackend for SizeLimitedFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if size_max().is_some_and(|bytes| offset.saturating_add(data.len() as u64) > bytes) {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.file.write(offset, data).map_err(|error| match error.kind() {
            // The bound was lowered in between.
            io::ErrorKind::FileTooLarge => io::Error::other(error.to_string()),
            _ => error,
        })
    }

    pass_on_locks!();
}

/// Returns the bound on the size of files that the process has, as `ulimit -f` sets it.
#[cfg(target_os = "linux")]
fn size_max() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Fsize).current
}

/// Nothing: this system is not asked.
#[cfg(not(target_os = "linux"))]
fn size_max() -> Option<u64> {
    None
}
