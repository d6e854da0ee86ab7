//! Helpers for backends over files, and system calls on files.

use std::fs::File;
use std::io;

use redb::backends::FileBackend;
use redb::{DatabaseError, StorageBackend};

/// Allocates disk space for the beginning of a file, so that writes there need none. The content stays
/// unchanged. Returns whether the file system supports it.
///
/// # Errors
/// Errors of the system: `StorageFull` above all.
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

/// Does nothing: this system has no such call.
#[cfg(not(target_os = "linux"))]
pub(super) fn reserve(_: &File, _: u64) -> io::Result<bool> {
    Ok(false)
}

/// Forwards locks and `close` to `self.file`. redb's byte ranges are passed on as they are; they lock the
/// file as a whole.
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

/// A file that respects the process's limit on file sizes: a write beyond it fails with `FileTooLarge` and
/// writes nothing. The system call itself would write as much as fits, and leave that amount unknown.
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
            // The limit was lowered in between.
            io::ErrorKind::FileTooLarge => io::Error::other(error.to_string()),
            _ => error,
        })
    }

    pass_on_locks!();
}

/// Returns the process's limit on file sizes, as `ulimit -f` sets it.
#[cfg(target_os = "linux")]
fn size_max() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Fsize).current
}

/// Not supported on this system.
#[cfg(not(target_os = "linux"))]
fn size_max() -> Option<u64> {
    None
}
