//! The memory bounds of a store in a file, as data for a table in the documentation: `docs/limits.md`.

use super::{JOBS_MAX, RECENT_BYTES_MAX, RECENT_EVENTS_MAX, pending};
use crate::listing::past;

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
    /// How it is known what it takes.
    pub memory: Memory,
}

/// How it is known what something takes in memory at its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// A test fills it, and measures the memory of its process.
    Measured,
    /// Tests count it, which suffices for this reason.
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
    let writes_wait = "writes wait until the file has some of it";
    let reads_file = "a watch that is further behind reads the file";
    let reads_history = "the oldest read the history";
    let documents = "bytes of these, with their documents as they are once parsed";
    vec![
        MemoryBound::count("writes that wait for the writer of the store", JOBS_MAX as u64, "the next one waits")
            .counted("each is of a request or of a call, which have its bytes"),
        MemoryBound::count(
            "changes that are in the journal and not yet in the file",
            pending::CHANGES_MAX as u64,
            writes_wait,
        ),
        MemoryBound::bytes("bytes of these, with what was there before", pending::BYTES_MAX, writes_wait),
        MemoryBound::bytes(
            "bytes of resources that were written last",
            pending::RECENT_BYTES_MAX,
            "the oldest are read from the file",
        ),
        MemoryBound::count("newest changes in memory", RECENT_EVENTS_MAX, reads_file),
        MemoryBound::bytes(documents, RECENT_BYTES_MAX, reads_file),
        MemoryBound::count(
            "lists page by page of which it is kept what changed",
            past::LISTS_MAX as u64,
            reads_history,
        ),
        MemoryBound::bytes("bytes of the keys of what changed under them", past::BYTES_MAX, reads_history),
        MemoryBound::bytes(
            "bytes of these that a page goes through at once",
            past::WINDOW_BYTES_MAX,
            "the page reads the history again for the rest",
        ),
    ]
}
