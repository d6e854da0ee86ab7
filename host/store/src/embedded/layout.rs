//! How a store lies in its file: a page that says so, the journal, and the pages of the engine.
//!
//! A file without a journal is a plain file of the engine, as backups are.

use std::io;
use std::sync::Arc;

use redb::StorageBackend;
use xxhash_rust::xxh3::xxh3_64;

use super::files;

/// Length of the first page.
const HEADER_BYTES: u64 = 4096;
/// How a file with a journal begins.
const MAGIC: &[u8; 16] = b"homeostat store\n";
/// How a plain file of the engine begins.
const ENGINE_MAGIC: &[u8; 4] = b"redb";
/// The journal is a whole number of these.
pub(super) const PAGE_BYTES: u64 = 4096;
/// How much of the journal is written at a time where all of it is.
const PIECE_BYTES: u64 = 1 << 20;
/// A journal of any file that a program has made is no longer.
const WAL_BYTES_MAX: u64 = 1 << 30;

/// Where things are in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    wal_bytes: u64,
}

impl Layout {
    /// A plain file of the engine.
    pub(super) const PLAIN: Self = Self { wal_bytes: 0 };

    /// Returns the layout with a journal of about so many bytes; zero for none.
    pub(super) fn with_wal(bytes: u64) -> Self {
        Self { wal_bytes: bytes.min(WAL_BYTES_MAX).next_multiple_of(PAGE_BYTES) }
    }

    /// Reads what a file says of itself.
    ///
    /// # Errors
    /// `InvalidData` when it is no store, and what reading it answers.
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

    /// Writes the first page and an empty journal, where there are any. They are on the disk when the next sync has ended.
    ///
    /// The journal is written, so that it has its room on the disk: what is acknowledged goes there also when nothing else has room. A
    /// file that is long enough has it already.
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

    /// Writes the journal where it is, as it is, so that it has its room on the disk.
    pub(super) fn rewrite_wal(self, file: &dyn StorageBackend) -> io::Result<()> {
        self.each_piece(|at, piece| {
            file.read(at, piece)?;
            file.write(at, piece)
        })
    }

    /// Calls `each` with the place of every piece of the journal, and with room for it.
    fn each_piece(self, mut each: impl FnMut(u64, &mut [u8]) -> io::Result<()>) -> io::Result<()> {
        let (begin, length) = self.wal();
        let mut piece = vec![0; usize::try_from(PIECE_BYTES.min(length)).map_err(io::Error::other)?];
        for at in (0..length).step_by(usize::try_from(PIECE_BYTES).map_err(io::Error::other)?) {
            let bytes = usize::try_from(PIECE_BYTES.min(length - at)).map_err(io::Error::other)?;
            each(begin + at, &mut piece[..bytes])?;
        }
        Ok(())
    }

    /// Returns how much of a file is to have its room on the disk: all that lies before the pages.
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

    /// Returns where the journal begins, and how long it is.
    pub(super) fn wal(self) -> (u64, u64) {
        (HEADER_BYTES, self.wal_bytes)
    }

    /// Returns where the pages of the engine begin.
    fn pages_at(self) -> u64 {
        if self == Self::PLAIN { 0 } else { HEADER_BYTES + self.wal_bytes }
    }
}

/// The pages of the engine: all of a file that lies behind its journal.
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
