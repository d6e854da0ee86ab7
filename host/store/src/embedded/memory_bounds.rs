//! The memory bounds of a store in a file, as data for a table in the documentation: `docs/limits.md`.

use super::{JOBS_MAX, RECENT_BYTES_MAX, RECENT_EVENTS_MAX, unapplied};
use crate::listing::changes_since;

/// A bound on memory.
#[derive(Clone, Copy, Debug)]
pub struct MemoryBound {
    /// The bounded items.
    pub what: &'static str,
    /// The bound.
    pub most: u64,
    /// Whether the bound is in bytes.
    pub in_bytes: bool,
    /// The behaviour at the bound.
    pub then: &'static str,
    /// How its memory is verified.
    pub memory: Memory,
}

/// How the memory of a bound is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// A test fills it and measures the memory of its process.
    Measured,
    /// Tests only count the items. The text says why that suffices.
    Counted(&'static str),
}

impl MemoryBound {
    fn count(what: &'static str, most: u64, then: &'static str) -> Self {
        Self { what, most, in_bytes: false, then, memory: Memory::Measured }
    }

    fn bytes(what: &'static str, most: u64, then: &'static str) -> Self {
        Self { in_bytes: true, ..Self::count(what, most, then) }
    }

    fn counted(self, why: &'static str) -> Self {
        Self { memory: Memory::Counted(why), ..self }
    }
}

/// Returns the bounds on memory that depends on writes. They hold for a file of any size.
pub fn memory_bounds() -> Vec<MemoryBound> {
    let writes_wait = "writes wait until some are in the pages";
    let reads_file = "a watch that is further behind reads the file";
    let reads_history = "the oldest lists read the history again";
    let documents = "bytes of the newest changes, with their parsed documents";
    vec![
        MemoryBound::count("writes queued for the store's writer thread", JOBS_MAX as u64, "the next one waits")
            .counted("each belongs to a request or a call, whose bytes are bounded"),
        MemoryBound::count(
            "changes in the write-ahead log that are not in the pages yet",
            unapplied::CHANGES_MAX as u64,
            writes_wait,
        ),
        MemoryBound::bytes("bytes of these, with the documents before them", unapplied::BYTES_MAX, writes_wait),
        MemoryBound::bytes(
            "bytes of recently written resources",
            unapplied::RECENT_BYTES_MAX,
            "the oldest are read from the file",
        ),
        MemoryBound::count(
            "texts of at most 8 KiB that these are compressed with",
            unapplied::DICTIONARIES_MAX as u64,
            "the resources of further kinds stay as they are",
        )
        .counted("512 KiB at most"),
        MemoryBound::count("newest changes in memory", RECENT_EVENTS_MAX, reads_file),
        MemoryBound::bytes(documents, RECENT_BYTES_MAX, reads_file),
        MemoryBound::count("paginated lists with cached changes", changes_since::LISTS_MAX as u64, reads_history),
        MemoryBound::bytes("bytes of the changed keys of these lists", changes_since::BYTES_MAX, reads_history),
        MemoryBound::bytes(
            "bytes of changed keys that one page holds at once",
            changes_since::WINDOW_BYTES_MAX,
            "the page reads the history again for the rest",
        ),
    ]
}
