//! What stands in the file: the tables, and the bytes of their rows.

use std::sync::Arc;

use redb::TableDefinition;
use serde_json::Value;

use crate::{Error, Event, EventType, Resource, Result, Revision, model};

/// Path of the resource → its document as JSON text.
pub(super) const RESOURCES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("resources");
/// Revision → what changed, see [`LogRow`].
pub(super) const LOG: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("log");
/// Uid of the owner, then path of the dependent → nothing.
pub(super) const OWNERS: TableDefinition<'_, &[u8], ()> = TableDefinition::new("owners");
/// Revision → when it had been reached, in milliseconds since 1970. Rising in both; about one row a minute. Programs that know nothing of
/// it leave it as it is: then a change counts as younger than it is.
pub(super) const TIMES: TableDefinition<'_, u64, u64> = TableDefinition::new("times");
/// Facts about the store, by name, as text.
pub(super) const META: TableDefinition<'_, &str, &str> = TableDefinition::new("meta");

/// The facts in [`META`], by the names under which they stand there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Meta {
    /// What tells this store from any other.
    pub(super) id: String,
    /// The last change.
    pub(super) revision: Revision,
    /// The last change that is no longer in the log; a watch can begin here.
    pub(super) compacted: Revision,
    /// What is known of the log; `None` when it was last written by a program that does not keep this.
    pub(super) measure: Option<Measure>,
}

/// Size and age of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Measure {
    /// What its rows come to, in bytes.
    pub(super) bytes: u64,
    /// When its last row was written, in milliseconds since 1970.
    pub(super) at_ms: u64,
}

impl Measure {
    /// Writes the fact: revision that it holds for, bytes, milliseconds.
    pub(super) fn encode(self, revision: Revision) -> String {
        let Self { bytes, at_ms } = self;
        format!("{revision} {bytes} {at_ms}")
    }

    /// Reads the fact; `None` when it is not about this revision.
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
/// See [`Measure`].
pub(super) const META_MEASURE: &str = "log";

/// A row of the log, taken apart but not parsed.
///
/// Bytes: kind of event (1), length of the path (4, big endian), path, length of the document (4, big endian), document after the change,
/// document before the change (empty when there was none).
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LogRow<'a> {
    pub(super) kind: EventType,
    pub(super) path: &'a [u8],
    pub(super) document: &'a [u8],
    pub(super) previous: &'a [u8],
}

impl<'a> LogRow<'a> {
    /// Returns how many bytes it is.
    pub(super) fn length(&self) -> u64 {
        let Self { kind: _, path, document, previous } = self;
        (9 + path.len() + document.len() + previous.len()) as u64
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(usize::try_from(self.length()).unwrap_or_default());
        self.append(&mut bytes);
        bytes
    }

    /// Writes the row behind what is there.
    pub(super) fn append(&self, bytes: &mut Vec<u8>) {
        let Self { kind, path, document, previous } = self;
        bytes.push(match kind {
            EventType::Added => 0,
            EventType::Modified => 1,
            EventType::Deleted => 2,
        });
        for piece in [path, document] {
            let length = u32::try_from(piece.len()).expect("documents are at most 1 MiB long, paths shorter");
            bytes.extend(length.to_be_bytes());
            bytes.extend(*piece);
        }
        bytes.extend(*previous);
    }

    pub(super) fn decode(bytes: &'a [u8]) -> Result<Self> {
        let piece = |bytes: &'a [u8]| {
            let (length, rest) = bytes.split_first_chunk::<4>()?;
            rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)
        };
        let row = || {
            let (kind, rest) = bytes.split_first()?;
            let kind = match kind {
                0 => EventType::Added,
                1 => EventType::Modified,
                2 => EventType::Deleted,
                _ => return None,
            };
            let (path, rest) = piece(rest)?;
            let (document, previous) = piece(rest)?;
            Some(Self { kind, path, document, previous })
        };
        row().ok_or_else(|| damaged("a row of its log", "has another layout"))
    }

    pub(super) fn event(&self, revision: Revision) -> Result<Event> {
        Ok(Event { kind: self.kind, resource: resource(self.document)?, previous: self.before()?, revision })
    }

    /// Returns the resource before the change.
    pub(super) fn before(&self) -> Result<Option<Arc<Resource>>> {
        if self.previous.is_empty() { Ok(None) } else { resource(self.previous).map(Some) }
    }

    /// Returns whether the row is about a resource whose path begins like this.
    pub(super) fn is_under(&self, prefix: &model::Path) -> bool {
        self.path.starts_with(&prefix.0)
    }
}

/// Reads a document that this store has written.
pub(super) fn resource(bytes: &[u8]) -> Result<Arc<Resource>> {
    let document: Value = serde_json::from_slice(bytes).map_err(|error| damaged("a document", error))?;
    let resource = Resource::of_length(document, bytes.len() as u64).map_err(|error| damaged("a document", error))?;
    Ok(Arc::new(resource))
}

/// Builds the error for content that no version of this program writes.
pub(super) fn damaged(what: &str, how: impl std::fmt::Display) -> Error {
    Error::unavailable(format!("the file is damaged: {what} cannot be read: {how}"))
}
