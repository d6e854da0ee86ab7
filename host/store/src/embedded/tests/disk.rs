//! A disk that refuses the operations that a test chooses.

use std::fmt;

use super::*;

/// An operation of a disk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Ask {
    /// Read at an offset.
    Read,
    /// Write at this offset.
    Write(u64),
    /// Make the file longer or shorter.
    SetLength,
    /// Sync the writes.
    Sync,
}

impl Ask {
    /// Returns whether the operation changes the content of the disk.
    pub(super) fn is_change(self) -> bool {
        self != Self::Read
    }
}

/// A file, and the rule for refused operations.
#[derive(Clone)]
pub(super) struct Disk {
    file: Arc<FileBackend>,
    rule: Arc<dyn Fn(Ask) -> io::Result<()> + Send + Sync>,
}

impl Disk {
    /// Creates a disk over the file `path`, which is created if it does not exist.
    pub(super) fn at(path: &Path, rule: impl Fn(Ask) -> io::Result<()> + Send + Sync + 'static) -> Self {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let file = FileBackend::new(file.expect("it can be made")).expect("it is a file");
        Self { file: Arc::new(file), rule: Arc::new(rule) }
    }

    /// Opens the store on it without a page cache, so that every access reaches the disk. After it is
    /// reopened, the store has a cache.
    pub(super) fn open(&self) -> OpenFile {
        OpenFile::over(Arc::new(self.clone()), 0).expect("it is a store")
    }

    /// Returns it as the location of a store.
    pub(super) fn place(&self) -> Location {
        Location::Backend(Arc::new(self.clone()), Arc::new(|| Ok(())))
    }
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk").finish_non_exhaustive()
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        (self.rule)(Ask::Read)?;
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        (self.rule)(Ask::SetLength)?;
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        (self.rule)(Ask::Sync)?;
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        (self.rule)(Ask::Write(offset))?;
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }
}

/// Refuses as long as the switch is on.
pub(super) fn refuse_while(refusing: &AtomicBool, reason: &str) -> io::Result<()> {
    if refusing.load(Ordering::SeqCst) { Err(io::Error::other(reason)) } else { Ok(()) }
}
