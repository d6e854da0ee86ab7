//! The journal: changes that are on the disk before they are in the pages of the engine.
//!
//! A change to the pages touches a dozen of them all over the file, and each costs the disk about as much as all the rest of a write. So the
//! changes of a batch are first written here, one after the other, and synced; the pages follow in memory, and go to the disk together when
//! the journal is full. What a crash has left here is done again when the store is opened.
//!
//! An *entry* is one batch: a head and the rows of its changes, each with its length. It begins where a sector begins, so that the writing of one
//! never tears another. Whenever the pages are on the disk, a *round* begins: entries are written from the beginning of the journal again, and
//! each says at which revision its round began. So the round that counts is the one that the first entry is of. The pages are where it began, or
//! further: who closes the file in trouble leaves them anywhere between two entries. Its entries follow upon
//! each other by their revisions; the first one that does not, or whose checksum is wrong, ends the journal: the crash came while it was
//! written, and nobody was told that it was done. Where an entry with changes that the pages lack stands *behind* such a one, something between
//! them was lost, and where one is of a round that began later, the pages were: the file is damaged.
//!
//! What this cannot see is damage to the very last entry: it looks as if it had never been written whole. Such an entry is told
//! ([`CutOff`]), and called damaged where a crash cannot have left it so, because all that is wrong with it lies in one sector.

use std::fmt;
use std::io;
use std::sync::Arc;

use redb::StorageBackend;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use super::latch::IoFailure;
use super::layout::Layout;
use crate::Revision;

/// What a disk writes as a whole or not at all.
const SECTOR_BYTES: usize = 512;
/// How an entry begins.
const MAGIC: &[u8; 8] = b"entry 1\n";
/// Length of the head of an entry.
const HEAD_BYTES: usize = 80;
/// How much is read at a time where all of it is looked through.
const PIECE_BYTES: u64 = 1 << 20;

/// The journal of a store that is open, at the place where the next entry goes.
#[derive(Debug)]
pub(super) struct WriteAheadLog {
    file: Arc<dyn StorageBackend>,
    layout: Layout,
    failure: IoFailure,
    /// What is in the pages on the disk: where this round began.
    base: Revision,
    /// The last change that is in it, or in the pages.
    last: Revision,
    /// How much of it has entries of this round.
    used: u64,
    /// The entry that is being made, from its head on. Its memory is used again and again.
    entry: Vec<u8>,
    rows: u64,
}

/// Memory that is kept for the next entry, at most.
const BUFFER_BYTES_MAX: usize = 1 << 20;

/// The changes of one batch, as they are found.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The revision of the first change; the others follow.
    pub(super) first: Revision,
    /// When they were made, in milliseconds since 1970.
    pub(super) at_ms: u64,
    /// Where the history begins after them.
    pub(super) compacted: Revision,
    /// The rows, which mean nothing to the journal.
    pub(super) rows: Vec<Vec<u8>>,
}

/// Where an entry lies that was whole when it was looked at, so that not all of them are in memory together.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EntryLocation {
    /// The revision of its last change.
    pub(super) last: Revision,
    /// Where it begins in the journal.
    at: u64,
    base: Revision,
}

/// What a journal has that is not in the pages.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UnappliedEntries {
    /// In their order.
    pub(super) entries: Vec<EntryLocation>,
    /// What stands behind them.
    pub(super) cut_off: Option<CutOff>,
}

/// The last entry of a journal, when it is not whole: its changes are not made.
///
/// A crash leaves it so while the entry is written, before anybody is told that its changes are kept; damage can leave it so as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CutOff {
    /// The revision of its first change.
    pub first: Revision,
    /// The revision of its last change, and its length in bytes; `None` where it does not even say that.
    pub extent: Option<(Revision, u64)>,
    /// It was whole once: no crash leaves it so.
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
            "is damaged; writes that were acknowledged may be lost with it"
        } else {
            "is not whole: a crash cut it off before anything of it was acknowledged, or it is damaged"
        })
    }
}

impl WriteAheadLog {
    /// Begins the first round: everything up to a revision is in the pages, and on the disk.
    ///
    /// The file is the one under the latch, not the one that goes through it.
    pub(super) fn new(file: Arc<dyn StorageBackend>, layout: Layout, base: Revision, failure: IoFailure) -> Self {
        Self { file, layout, failure, base, last: base, used: 0, entry: vec![0; HEAD_BYTES], rows: 0 }
    }

    /// Begins another round: everything up to a revision is in the pages, and on the disk.
    pub(super) fn start_round(&mut self, base: Revision) {
        (self.base, self.last, self.used) = (base, base, 0);
    }

    /// Returns what tells whether something has failed.
    pub(super) fn failure(&self) -> &IoFailure {
        &self.failure
    }

    /// Returns the last change that is in it, or in the pages.
    pub(super) fn last(&self) -> Revision {
        self.last
    }

    /// Returns whether it has an entry of this round.
    pub(super) fn is_used(&self) -> bool {
        self.used > 0
    }

    /// Begins an entry, and forgets one that was begun before.
    pub(super) fn begin_entry(&mut self) {
        self.entry.truncate(HEAD_BYTES);
        self.entry.shrink_to(BUFFER_BYTES_MAX);
        self.rows = 0;
    }

    /// Adds a row to the entry that was begun.
    pub(super) fn add(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let begin = self.entry.len() + 4;
        self.entry.extend([0; 4]);
        write(&mut self.entry);
        let length = u32::try_from(self.entry.len() - begin).expect("a row has a document of 1 MiB at most");
        self.entry[begin - 4..begin].copy_from_slice(&length.to_le_bytes());
        self.rows += 1;
    }

    /// Writes the entry that was begun, and syncs it. Returns whether there was room, and anything to write; where not, nothing was written.
    ///
    /// # Errors
    /// What the disk answers. Then nobody knows what it holds, unless it is `FileTooLarge`: nothing was written, and the next entry may be.
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

/// Writes the head of an entry whose rows are there.
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

/// Returns whether a round that began at a revision has an entry, whole or not.
///
/// # Errors
/// What the disk answers.
pub(super) fn has_round(file: &dyn StorageBackend, layout: Layout, after: Revision) -> io::Result<bool> {
    Ok(sector(file, layout, 0)?.and_then(|sector| EntryHeader::decode(&sector)).is_some_and(|head| head.base == after))
}

/// Returns the entries that follow upon a revision: the one up to which the pages on the disk are. Has one of them in memory at a time.
///
/// # Errors
/// What is wrong, for a person; in the outer result what the disk answers.
pub(super) fn entries(
    file: &dyn StorageBackend,
    layout: Layout,
    after: Revision,
) -> io::Result<Result<UnappliedEntries, String>> {
    let heads = heads(file, layout)?;
    if let Some((_, later)) = heads.iter().find(|(_, head)| head.base > after) {
        return Ok(Err(format!("its pages are at revision {after}, and its journal follows upon {}", later.base)));
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
            return Ok(Err(format!("its pages are at revision {after}, in the middle of an entry of its journal")));
        }
        end += length;
    }
    // The one that ends the journal may be the one that was being written.
    let ends = |at: u64, head: &EntryHeader| at == end && head.base == base && head.first == last.next();
    // What other rounds have left says nothing; where it is not known which round counts, whatever the pages lack may be of it.
    let counts = |head: &EntryHeader| round.is_none_or(|base| head.base == base);
    let known = last.max(after);
    let lost = heads.iter().find(|(at, head)| counts(head) && head.last() > known && !ends(*at, head));
    if let Some((_, head)) = lost {
        return Ok(Err(format!("its journal has revision {}, and lacks some after {known}", head.last())));
    }
    let rest = sector(file, layout, end)?;
    let cut_off = rest.and_then(|rest| CutOff::at(&rest, base, last.next())).filter(|cut_off| cut_off.first > after);
    Ok(Ok(UnappliedEntries { entries: found, cut_off }))
}

/// Returns every head that the journal has, with its place in it.
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

/// Reads the sector at a place in the journal; `None` behind its end.
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
    /// Looks for what is left of an entry in the sector where it would begin.
    fn at(sector: &[u8; SECTOR_BYTES], base: Revision, next: Revision) -> Option<Self> {
        match EntryHeader::decode(sector) {
            Some(head) if head.base == base && head.first == next => {
                let bytes = (HEAD_BYTES as u64).saturating_add(head.length as u64);
                let is_damage = bytes <= SECTOR_BYTES as u64;
                Some(Self { first: next, extent: Some((head.last(), bytes)), is_damage })
            }
            // The head lies in one sector, and no text of a document has the end of a line in it.
            None if sector.starts_with(MAGIC) => Some(Self { first: next, extent: None, is_damage: true }),
            _ => None,
        }
    }
}

/// What stands at the beginning of an entry.
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
    /// Reads a head; `None` where there is none.
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
    /// Reads it again; `None` where it is not what it was.
    ///
    /// # Errors
    /// What the disk answers.
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

    /// Reads the entry at a place in the journal, and how far behind it the next one may begin; `None` where there is none of that round that
    /// is whole.
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

    /// Takes apart what stands behind a head; `None` where it is not what that says.
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
