//! The write-ahead log: changes that are on disk before they are in redb's pages.
//!
//! A change touches a dozen pages all over the file, and writing each of them costs about as much as the rest
//! of a write. So the changes of a batch are first appended here and synced. The pages follow in memory, and
//! go to disk together in a checkpoint when the log is full. After a crash, opening the store replays the
//! log.
//!
//! An *entry* is one batch: a header and the rows of its changes, each with its length. It starts on a sector
//! boundary, so that writing one entry never tears another. After each checkpoint a *round* starts: entries
//! are written from the beginning of the log again, and each entry has the *base* of its round: the revision
//! of that checkpoint. The first entry of the log identifies the current round. The pages on disk are at its
//! base or later: a process that fails can leave them after any entry.
//!
//! The revisions of entries are consecutive. The first entry that breaks the sequence or has a wrong checksum
//! ends the log: the crash happened while it was written, and it was never acknowledged. The file is damaged
//! in two cases. If an entry with changes that the pages lack lies *after* the end of the log, an entry in
//! between was lost. If an entry belongs to a later round than the pages, the pages were lost.
//!
//! Damage to the very last entry cannot be told from an incomplete write. Such an entry is reported
//! ([`CutOff`]). It is called damaged if all its errors lie in one sector, because a crash cannot leave it
//! so.

use std::fmt;
use std::io;
use std::sync::Arc;

use redb::StorageBackend;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use super::io_failure::IoFailure;
use super::layout::Layout;
use crate::Revision;

/// The unit that a disk writes completely or not at all.
const SECTOR_BYTES: usize = 512;
/// The start of an entry.
const MAGIC: &[u8; 8] = b"entry 1\n";
/// Length of an entry's header.
const HEAD_BYTES: usize = 80;
/// Bytes per read of a scan of the whole log.
const PIECE_BYTES: u64 = 1 << 20;

/// The write-ahead log of an open store, positioned at the place of the next entry.
#[derive(Debug)]
pub(super) struct WriteAheadLog {
    file: Arc<dyn StorageBackend>,
    layout: Layout,
    failure: IoFailure,
    /// The revision of the last checkpoint: the base of this round.
    base: Revision,
    /// The last change in the log, or in the pages.
    last: Revision,
    /// Length of the entries of this round, in bytes.
    used: u64,
    /// The buffer of the current entry, from its header on. Reused for all entries.
    entry: Vec<u8>,
    rows: u64,
}

/// Largest buffer kept for the next entry.
const BUFFER_BYTES_MAX: usize = 1 << 20;

/// The changes of one batch, as read from the log.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The revision of the first change; the others are consecutive.
    pub(super) first: Revision,
    /// Their time, in milliseconds since 1970.
    pub(super) at_ms: u64,
    /// The start of the history after them.
    pub(super) compacted: Revision,
    /// The rows, which are opaque to the write-ahead log.
    pub(super) rows: Vec<Vec<u8>>,
}

/// The location of an entry that was complete when it was read. Entries are read again one at a time, so that
/// they are not all in memory together.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EntryLocation {
    /// The revision of its last change.
    pub(super) last: Revision,
    /// Its offset in the log.
    at: u64,
    base: Revision,
}

/// The entries of a write-ahead log that are not in the pages.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UnappliedEntries {
    /// In order.
    pub(super) entries: Vec<EntryLocation>,
    /// The incomplete entry after them.
    pub(super) cut_off: Option<CutOff>,
}

/// The last entry of a write-ahead log, if it is incomplete: its changes are lost.
///
/// Either a crash interrupted its writing, before any of its changes was acknowledged, or it was damaged
/// later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CutOff {
    /// The revision of its first change.
    pub first: Revision,
    /// The revision of its last change, and its length in bytes; `None` if its header is damaged.
    pub extent: Option<(Revision, u64)>,
    /// It was complete once: no crash can have caused this.
    pub is_damage: bool,
}

impl fmt::Display for CutOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, extent, is_damage } = self;
        match extent {
            Some((last, bytes)) => {
                write!(f, "its last entry, with the revisions {first} to {last} in {bytes} bytes, ")?
            }
            None => write!(f, "its last entry, from revision {first} on, ")?,
        }
        f.write_str(if *is_damage {
            "is damaged; acknowledged writes may be lost with it"
        } else {
            "is incomplete: a crash interrupted it before it was acknowledged, or it is damaged"
        })
    }
}

impl WriteAheadLog {
    /// Creates the log at its first round: everything up to `base` is in the pages on disk.
    ///
    /// `file` is the raw file, not the one that checks for failures.
    pub(super) fn new(file: Arc<dyn StorageBackend>, layout: Layout, base: Revision, failure: IoFailure) -> Self {
        Self { file, layout, failure, base, last: base, used: 0, entry: vec![0; HEAD_BYTES], rows: 0 }
    }

    /// Starts another round: everything up to `base` is in the pages on disk.
    pub(super) fn start_round(&mut self, base: Revision) {
        (self.base, self.last, self.used) = (base, base, 0);
    }

    /// Returns the failure state of the file.
    pub(super) fn failure(&self) -> &IoFailure {
        &self.failure
    }

    /// Returns the last change in the log, or in the pages.
    pub(super) fn last(&self) -> Revision {
        self.last
    }

    /// Returns whether the log has an entry of this round.
    pub(super) fn is_used(&self) -> bool {
        self.used > 0
    }

    /// Starts an entry, and discards one that was started before.
    pub(super) fn begin_entry(&mut self) {
        self.entry.truncate(HEAD_BYTES);
        self.entry.shrink_to(BUFFER_BYTES_MAX);
        self.rows = 0;
    }

    /// Adds a row to the started entry.
    pub(super) fn add(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let begin = self.entry.len() + 4;
        self.entry.extend([0; 4]);
        write(&mut self.entry);
        let length = u32::try_from(self.entry.len() - begin).expect("a row has a bounded document");
        self.entry[begin - 4..begin].copy_from_slice(&length.to_le_bytes());
        self.rows += 1;
    }

    /// Writes the started entry, and syncs it. Returns false, and writes nothing, if the entry is empty or
    /// does not fit.
    ///
    /// # Errors
    /// Errors of the disk. Its content is then unknown. Exception: after `FileTooLarge` nothing was written,
    /// and the next entry may succeed.
    pub(super) fn append(&mut self, first: Revision, at_ms: u64, compacted: Revision) -> io::Result<bool> {
        let (begin, length) = self.layout.wal();
        let whole = self.entry.len().next_multiple_of(SECTOR_BYTES);
        if self.rows == 0 || self.used + whole as u64 > length {
            return Ok(false);
        }
        seal(&mut self.entry, [first.0, self.rows, at_ms, compacted.0, self.base.0]);
        self.entry.resize(whole, 0);
        let mut beyond = None;
        self.failure.run_sync(|| match self.file.write(begin + self.used, &self.entry) {
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                beyond = Some(error);
                Ok(())
            }
            written => written.and_then(|()| self.file.sync_data()),
        })?;
        if let Some(error) = beyond {
            return Err(error);
        }
        self.used += whole as u64;
        self.last = Revision(first.0 + self.rows - 1);
        Ok(true)
    }
}

/// Writes the header of an entry with rows.
fn seal(entry: &mut [u8], facts: [u64; 5]) {
    let length = (entry.len() - HEAD_BYTES) as u64;
    let checksum = xxh3_128(&entry[HEAD_BYTES..]);
    entry[..8].copy_from_slice(MAGIC);
    for (number, place) in facts.into_iter().chain([length]).zip(entry[8..56].chunks_exact_mut(8)) {
        place.copy_from_slice(&number.to_le_bytes());
    }
    entry[56..72].copy_from_slice(&checksum.to_le_bytes());
    let checksum = xxh3_64(&entry[..72]);
    entry[72..HEAD_BYTES].copy_from_slice(&checksum.to_le_bytes());
}

/// Returns whether the log has an entry, complete or not, of the round with this base.
///
/// # Errors
/// Errors of the disk.
pub(super) fn has_round(file: &dyn StorageBackend, layout: Layout, after: Revision) -> io::Result<bool> {
    Ok(sector(file, layout, 0)?.and_then(|sector| EntryHeader::decode(&sector)).is_some_and(|head| head.base == after))
}

/// Returns the entries after a revision, which is that of the pages on disk. Has one entry in memory at a
/// time.
///
/// # Errors
/// The inner result has the damage, for a person; the outer result has errors of the disk.
pub(super) fn entries(
    file: &dyn StorageBackend,
    layout: Layout,
    after: Revision,
) -> io::Result<Result<UnappliedEntries, String>> {
    let heads = heads(file, layout)?;
    if let Some((_, later)) = heads.iter().find(|(_, head)| head.base > after) {
        return Ok(Err(format!(
            "its pages are at revision {after}, but its write-ahead log starts after {}",
            later.base
        )));
    }
    let round = heads.first().filter(|(at, _)| *at == 0).map(|(_, head)| head.base);
    let base = round.unwrap_or(after);
    let (mut found, mut last, mut end) = (Vec::new(), base, 0);
    while let Some((entry, length)) =
        Entry::read(file, layout, end, base)?.filter(|(entry, _)| entry.first == last.next())
    {
        last = entry.last();
        if entry.first > after {
            found.push(EntryLocation { last, at: end, base });
        } else if last > after {
            return Ok(Err(format!(
                "its pages are at revision {after}, in the middle of an entry of its write-ahead log"
            )));
        }
        end += length;
    }
    // The entry that ends the log may be an incomplete write.
    let ends = |at: u64, head: &EntryHeader| at == end && head.base == base && head.first == last.next();
    // Entries of other rounds are leftovers. If the current round is unknown, every entry that the pages lack
    // may be of it.
    let counts = |head: &EntryHeader| round.is_none_or(|base| head.base == base);
    let known = last.max(after);
    let lost = heads.iter().find(|(at, head)| counts(head) && head.last() > known && !ends(*at, head));
    if let Some((_, head)) = lost {
        return Ok(Err(format!("its write-ahead log has revision {}, but lacks revisions after {known}", head.last())));
    }
    let rest = sector(file, layout, end)?;
    let cut_off = rest.and_then(|rest| CutOff::at(&rest, base, last.next())).filter(|cut_off| cut_off.first > after);
    Ok(Ok(UnappliedEntries { entries: found, cut_off }))
}

/// Returns all headers in the log, with their offsets.
fn heads(file: &dyn StorageBackend, layout: Layout) -> io::Result<Vec<(u64, EntryHeader)>> {
    let (begin, length) = layout.wal();
    let mut heads = Vec::new();
    let mut piece = Vec::new();
    let mut at = 0;
    while at < length {
        let bytes = PIECE_BYTES.min(length - at);
        piece.resize(usize::try_from(bytes).map_err(io::Error::other)?, 0);
        file.read(begin + at, &mut piece)?;
        let sectors = (at..).step_by(SECTOR_BYTES).zip(piece.chunks_exact(SECTOR_BYTES));
        heads.extend(sectors.filter_map(|(at, sector)| Some((at, EntryHeader::decode(sector)?))));
        at += bytes;
    }
    Ok(heads)
}

/// Reads the sector at an offset in the log; `None` past its end.
fn sector(file: &dyn StorageBackend, layout: Layout, at: u64) -> io::Result<Option<[u8; SECTOR_BYTES]>> {
    let (begin, length) = layout.wal();
    if at >= length {
        return Ok(None);
    }
    let mut sector = [0; SECTOR_BYTES];
    file.read(begin + at, &mut sector)?;
    Ok(Some(sector))
}

impl CutOff {
    /// Looks for an incomplete entry in the sector after the last entry.
    fn at(sector: &[u8; SECTOR_BYTES], base: Revision, next: Revision) -> Option<Self> {
        match EntryHeader::decode(sector) {
            Some(head) if head.base == base && head.first == next => {
                let bytes = (HEAD_BYTES as u64).saturating_add(head.length as u64);
                let is_damage = bytes <= SECTOR_BYTES as u64;
                Some(Self { first: next, extent: Some((head.last(), bytes)), is_damage })
            }
            // A header lies in one sector, and document text contains no line feed.
            None if sector.starts_with(MAGIC) => Some(Self { first: next, extent: None, is_damage: true }),
            _ => None,
        }
    }
}

/// The header of an entry.
struct EntryHeader {
    first: Revision,
    count: u64,
    at_ms: u64,
    compacted: Revision,
    base: Revision,
    length: usize,
    checksum: u128,
}

impl EntryHeader {
    /// Decodes a header; `None` if there is none.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (head, _) = bytes.split_at_checked(HEAD_BYTES)?;
        let number = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
        if !head.starts_with(MAGIC) || xxh3_64(&head[..72]) != number(72) {
            return None;
        }
        let checksum = u128::from_le_bytes(head[56..72].try_into().expect("sixteen bytes"));
        let (first, count, at_ms, compacted) = (Revision(number(8)), number(16), number(24), Revision(number(32)));
        let (base, length) = (Revision(number(40)), usize::try_from(number(48)).ok()?);
        (count > 0).then_some(Self { first, count, at_ms, compacted, base, length, checksum })
    }

    fn last(&self) -> Revision {
        Revision(self.first.0.saturating_add(self.count - 1))
    }
}

impl EntryLocation {
    /// Reads the entry again; `None` if it has changed.
    ///
    /// # Errors
    /// Errors of the disk.
    pub(super) fn read(&self, file: &dyn StorageBackend, layout: Layout) -> io::Result<Option<Entry>> {
        let entry = Entry::read(file, layout, self.at, self.base)?;
        Ok(entry.map(|(entry, _)| entry).filter(|entry| entry.last() == self.last))
    }
}

impl Entry {
    /// Returns the revision of the last change.
    pub(super) fn last(&self) -> Revision {
        Revision(self.first.0 + self.rows.len() as u64 - 1)
    }

    /// Reads the complete entry of that round at an offset in the log, and the length up to the next one;
    /// `None` if there is none.
    fn read(file: &dyn StorageBackend, layout: Layout, at: u64, base: Revision) -> io::Result<Option<(Self, u64)>> {
        let head = sector(file, layout, at)?.and_then(|sector| EntryHeader::decode(&sector));
        let Some(head) = head.filter(|head| head.base == base) else { return Ok(None) };
        let (begin, length) = layout.wal();
        let bytes = (HEAD_BYTES as u64).saturating_add(head.length as u64);
        if bytes > length - at {
            return Ok(None);
        }
        let mut rows = vec![0; head.length];
        file.read(begin + at + HEAD_BYTES as u64, &mut rows)?;
        Ok(Self::decode(head, &rows).map(|entry| (entry, bytes.next_multiple_of(SECTOR_BYTES as u64))))
    }

    /// Decodes the rows after a header; `None` if they do not match it.
    fn decode(head: EntryHeader, mut rest: &[u8]) -> Option<Self> {
        let EntryHeader { first, count, at_ms, compacted, base: _, length: _, checksum } = head;
        if xxh3_128(rest) != checksum {
            return None;
        }
        let mut rows = Vec::new();
        while let Some((length, behind)) = rest.split_first_chunk::<4>() {
            let (row, behind) = behind.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
            rows.push(row.to_vec());
            rest = behind;
        }
        let whole = rest.is_empty() && rows.len() as u64 == count;
        whole.then_some(Self { first, at_ms, compacted, rows })
    }
}

#[cfg(test)]
mod tests;
