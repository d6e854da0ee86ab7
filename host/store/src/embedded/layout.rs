//! The layout of the file: a header page, the write-ahead log, and redb's pages.
//!
//! A file without a write-ahead log is a plain redb file, as backups are.

use std::io;
use std::sync::Arc;

use redb::StorageBackend;
use xxhash_rust::xxh3::xxh3_64;

use super::files;

/// Length of the first page.
const HEADER_BYTES: u64 = 4096;
/// The start of a file with a write-ahead log.
const MAGIC: &[u8; 16] = b"homeostat store\n";
/// The start of a plain redb file.
const ENGINE_MAGIC: &[u8; 4] = b"redb";
/// The write-ahead log is a whole number of these.
pub(super) const PAGE_BYTES: u64 = 4096;
/// Bytes per write, where the whole write-ahead log is written.
const PIECE_BYTES: u64 = 1 << 20;
/// Longest write-ahead log that this program creates.
const WAL_BYTES_MAX: u64 = 1 << 30;

/// The layout of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    wal_bytes: u64,
}

impl Layout {
    /// A plain redb file.
    pub(super) const PLAIN: Self = Self { wal_bytes: 0 };

    /// Returns the layout with a write-ahead log of about so many bytes; zero for none.
    pub(super) fn with_wal(bytes: u64) -> Self {
        Self { wal_bytes: bytes.min(WAL_BYTES_MAX).next_multiple_of(PAGE_BYTES) }
    }

    /// Reads the layout from a file.
    ///
    /// # Errors
    /// `InvalidData` for a file that is not a store, and errors of the disk.
    pub(super) fn read(file: &dyn StorageBackend) -> io::Result<Self> {
        let mut header = [0; HEADER_BYTES as usize];
        let there = usize::try_from(file.len()?).unwrap_or(usize::MAX).min(header.len());
        file.read(0, &mut header[..there])?;
        if header.starts_with(ENGINE_MAGIC) {
            return Ok(Self::PLAIN);
        }
        let journal_bytes = u64::from_le_bytes(header[16..24].try_into().expect("eight bytes"));
        let layout = Self { wal_bytes: journal_bytes };
        let is_ours = journal_bytes > 0 && journal_bytes <= WAL_BYTES_MAX && header == layout.header();
        if is_ours { Ok(layout) } else { Err(io::ErrorKind::InvalidData.into()) }
    }

    /// Writes the header page and an empty write-ahead log, if the layout has them. They are durable after
    /// the next sync.
    ///
    /// Writes the whole log, so that its disk space is allocated: writes to it succeed even on a full disk. A
    /// file that is long enough already has the space.
    pub(super) fn write(self, file: &dyn StorageBackend) -> io::Result<()> {
        if self == Self::PLAIN {
            return Ok(());
        }
        if file.len()? < self.pages_at() {
            file.set_len(self.pages_at())?;
            self.each_piece(|at, piece| file.write(at, piece))?;
        }
        file.write(0, &self.header())
    }

    /// Writes the write-ahead log with its own content, so that its disk space is allocated.
    pub(super) fn rewrite_wal(self, file: &dyn StorageBackend) -> io::Result<()> {
        self.each_piece(|at, piece| {
            file.read(at, piece)?;
            file.write(at, piece)
        })
    }

    /// Calls `each` with the offset of every piece of the write-ahead log, and with a buffer for it.
    fn each_piece(self, mut each: impl FnMut(u64, &mut [u8]) -> io::Result<()>) -> io::Result<()> {
        let (begin, length) = self.wal();
        let mut piece = vec![0; usize::try_from(PIECE_BYTES.min(length)).map_err(io::Error::other)?];
        for at in (0..length).step_by(usize::try_from(PIECE_BYTES).map_err(io::Error::other)?) {
            let bytes = usize::try_from(PIECE_BYTES.min(length - at)).map_err(io::Error::other)?;
            each(begin + at, &mut piece[..bytes])?;
        }
        Ok(())
    }

    /// Returns the length to allocate on disk: everything before the pages.
    pub(super) fn reserved_bytes(self) -> u64 {
        self.pages_at()
    }

    fn header(self) -> [u8; HEADER_BYTES as usize] {
        let mut header = [0; HEADER_BYTES as usize];
        header[..16].copy_from_slice(MAGIC);
        header[16..24].copy_from_slice(&self.wal_bytes.to_le_bytes());
        let checksum = xxh3_64(&header[..24]);
        header[24..32].copy_from_slice(&checksum.to_le_bytes());
        header
    }

    /// Returns the offset and the length of the write-ahead log.
    pub(super) fn wal(self) -> (u64, u64) {
        (HEADER_BYTES, self.wal_bytes)
    }

    /// Returns the offset of redb's pages.
    fn pages_at(self) -> u64 {
        if self == Self::PLAIN { 0 } else { HEADER_BYTES + self.wal_bytes }
    }
}

/// redb's pages: the part of a file after the write-ahead log.
#[derive(Debug)]
pub(super) struct Pages {
    file: Arc<dyn StorageBackend>,
    at: u64,
}

impl Pages {
    pub(super) fn of(file: Arc<dyn StorageBackend>, layout: Layout) -> Self {
        Self { file, at: layout.pages_at() }
    }
}

impl StorageBackend for Pages {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.len()?.saturating_sub(self.at))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(self.at + offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(self.at + len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write(self.at + offset, data)
    }

    files::pass_on_locks!();
}
