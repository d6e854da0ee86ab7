//! The tables of the file, and the encoding of their rows.

use std::borrow::Cow;
use std::sync::Arc;

use redb::TableDefinition;

use crate::{Error, Event, EventType, Resource, Result, Revision, model};

/// Path of the resource → its document as JSON text.
pub(super) const RESOURCES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("resources");
/// Revision → the change, see [`LogRow`].
pub(super) const LOG: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("log");
/// Uid of the owner, then path of the dependent → nothing.
pub(super) const OWNERS: TableDefinition<'_, &[u8], ()> = TableDefinition::new("owners");
/// Revision → the time by which the store had reached it, in milliseconds since 1970. Both increase; about
/// one row a minute. Programs that do not know this table leave it unchanged: then a change counts as younger
/// than it is.
pub(super) const TIMES: TableDefinition<'_, u64, u64> = TableDefinition::new("times");
/// Group and name of a kind and a term → the state of its index, see
/// [`IndexState`](super::indexes::IndexState).
pub(super) const INDEXES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("indexes");
/// Group and name of a kind, a term and a value, then the path of the resource within its kind → nothing.
pub(super) const INDEX_ENTRIES: TableDefinition<'_, &[u8], ()> = TableDefinition::new("index entries");
/// Metadata of the store, by name, as text.
pub(super) const META: TableDefinition<'_, &str, &str> = TableDefinition::new("meta");

/// The rows of [`META`], by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Meta {
    /// The id of the store.
    pub(super) id: String,
    /// The last change.
    pub(super) revision: Revision,
    /// The last change that is no longer in the log; a watch can start here.
    pub(super) compacted: Revision,
    /// Size and age of the log; `None` when its last writer was a program that does not record them.
    pub(super) measure: Option<Measure>,
}

/// Size and age of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Measure {
    /// Total size of its rows, in bytes.
    pub(super) bytes: u64,
    /// Time of its last row, in milliseconds since 1970.
    pub(super) at_ms: u64,
}

impl Measure {
    /// Encodes the revision that it holds for, the bytes, and the milliseconds.
    pub(super) fn encode(self, revision: Revision) -> String {
        let Self { bytes, at_ms } = self;
        format!("{revision} {bytes} {at_ms}")
    }

    /// Decodes it; `None` when it holds for another revision.
    pub(super) fn decode(text: &str, revision: Revision) -> Option<Self> {
        let mut numbers = text.split(' ').map(|number| number.parse::<u64>().ok());
        let (about, bytes, at_ms) = (numbers.next()??, numbers.next()??, numbers.next()??);
        (about == revision.0 && numbers.next().is_none()).then_some(Self { bytes, at_ms })
    }
}

pub(super) const META_FORMAT: &str = "format";
pub(super) const META_ID: &str = "id";
pub(super) const META_REVISION: &str = "revision";
pub(super) const META_COMPACTED: &str = "compacted";
/// The revision of the indexes. Absent without indexes. Another one than that of the store was left by a program that
/// does not know indexes: then they are of no use.
pub(super) const META_INDEXED: &str = "indexed";
/// See [`Measure`].
pub(super) const META_MEASURE: &str = "log";

/// A decoded row of the log, whose documents are not parsed.
///
/// Encoding, with all lengths as 4 bytes, big endian:
///
/// * The kind of the event, in 1 byte.
/// * The path, after its length.
/// * The document after the change, after its length.
/// * The document before the change, if there was one.
///
/// The flag [`DIFFERS`] in the kind marks a document before the change that is encoded as a difference. The
/// difference has the length of the prefix and of the suffix that both documents share, and the bytes in
/// between. In files of format 1 there is no flag, and the document is there in full.
///
/// Most changes are small, so this halves the size of the log.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LogRow<'a> {
    pub(super) kind: EventType,
    pub(super) path: &'a [u8],
    pub(super) document: &'a [u8],
    pub(super) previous: Cow<'a, [u8]>,
}

/// Flag: the document before the change is encoded as a difference.
const DIFFERS: u8 = 1 << 7;

impl<'a> LogRow<'a> {
    /// Returns its size with the full document before the change, in bytes: about its size in memory.
    pub(super) fn length(&self) -> u64 {
        let Self { kind: _, path, document, previous } = self;
        (9 + path.len() + document.len() + previous.len()) as u64
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let Self { kind: _, path, document, previous: _ } = self;
        // Few differences are longer than this.
        let mut bytes = Vec::with_capacity(9 + path.len() + document.len() + 256);
        self.append(&mut bytes);
        bytes
    }

    /// Appends the row to `bytes`.
    pub(super) fn append(&self, bytes: &mut Vec<u8>) {
        let Self { kind, path, document, previous } = self;
        let kind = match kind {
            EventType::Added => 0,
            EventType::Modified => 1,
            EventType::Deleted => 2,
        };
        bytes.push(if previous.is_empty() { kind } else { kind | DIFFERS });
        for piece in [path, document] {
            bytes.extend(count(piece.len()).to_be_bytes());
            bytes.extend(*piece);
        }
        if !previous.is_empty() {
            let (begin, end) = in_common(document, previous);
            bytes.extend(count(begin).to_be_bytes());
            bytes.extend(count(end).to_be_bytes());
            bytes.extend(&previous[begin..previous.len() - end]);
        }
    }

    pub(super) fn decode(bytes: &'a [u8]) -> Result<Self> {
        let number = |bytes: &'a [u8]| {
            let (number, rest) = bytes.split_first_chunk::<4>()?;
            Some((usize::try_from(u32::from_be_bytes(*number)).ok()?, rest))
        };
        let piece = |bytes: &'a [u8]| {
            let (length, rest) = number(bytes)?;
            rest.split_at_checked(length)
        };
        let row = || {
            let (first, rest) = bytes.split_first()?;
            let kind = match first & !DIFFERS {
                0 => EventType::Added,
                1 => EventType::Modified,
                2 => EventType::Deleted,
                _ => return None,
            };
            let (path, rest) = piece(rest)?;
            let (document, rest) = piece(rest)?;
            let previous = if first & DIFFERS == 0 {
                Cow::Borrowed(rest)
            } else {
                let (begin, rest) = number(rest)?;
                let (end, between) = number(rest)?;
                let end_at = document.len().checked_sub(end).filter(|end_at| begin <= *end_at)?;
                Cow::Owned([&document[..begin], between, &document[end_at..]].concat())
            };
            Some(Self { kind, path, document, previous })
        };
        row().ok_or_else(|| damaged("a row of its log", "is malformed"))
    }

    pub(super) fn event(&self, revision: Revision) -> Result<Event> {
        Ok(Event { kind: self.kind, resource: resource(self.document)?, previous: self.before()?, revision })
    }

    /// Returns the resource before the change.
    pub(super) fn before(&self) -> Result<Option<Arc<Resource>>> {
        if self.previous.is_empty() { Ok(None) } else { resource(&self.previous).map(Some) }
    }

    /// Returns whether the row's path has this prefix.
    pub(super) fn is_under(&self, prefix: &model::Path) -> bool {
        self.path.starts_with(&prefix.0)
    }
}

fn count(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("documents and paths are bounded far below")
}

/// Returns the length of the common prefix of two documents, and of the common suffix of the rest.
fn in_common(one: &[u8], other: &[u8]) -> (usize, usize) {
    /// Bytes per comparison: as many as the processor compares quickly.
    const BLOCK: usize = 32;
    let same = |(one, other): &(&[u8], &[u8])| one == other;
    let shortest = one.len().min(other.len());
    let mut begin = BLOCK * one.chunks_exact(BLOCK).zip(other.chunks_exact(BLOCK)).take_while(same).count();
    begin += one[begin..].iter().zip(&other[begin..]).take_while(|(one, other)| one == other).count();
    let (one, other) = (&one[one.len() - (shortest - begin)..], &other[other.len() - (shortest - begin)..]);
    let mut end = BLOCK * one.rchunks_exact(BLOCK).zip(other.rchunks_exact(BLOCK)).take_while(same).count();
    let (one, other) = (&one[..one.len() - end], &other[..other.len() - end]);
    end += one.iter().rev().zip(other.iter().rev()).take_while(|(one, other)| one == other).count();
    (begin, end)
}

/// Parses a document that this store has written.
pub(super) fn resource(bytes: &[u8]) -> Result<Arc<Resource>> {
    let text = str::from_utf8(bytes).map_err(|error| damaged("a document", error))?;
    Resource::from_text(text).map(Arc::new).map_err(|error| damaged("a document", error))
}

/// Returns the error for content that no version of this program writes.
pub(super) fn damaged(what: &str, how: impl std::fmt::Display) -> Error {
    Error::unavailable(format!("the file is damaged: {what} cannot be read: {how}"))
}
