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
}

/// Returns the bounds on memory that depends on writes. They hold for a file of any size.
pub fn memory_bounds() -> Vec<MemoryBound> {
    let count = |what, most, then| MemoryBound { what, most, in_bytes: false, then };
    let bytes = |what, most, then| MemoryBound { what, most, in_bytes: true, then };
    let writes_wait = "writes wait until the file has some of it";
    vec![
        count("writes that wait for the writer of the store", JOBS_MAX as u64, "the next one waits"),
        count("changes that are in the journal and not yet in the file", pending::CHANGES_MAX as u64, writes_wait),
        bytes("bytes of these, with what was there before", pending::BYTES_MAX, writes_wait),
        bytes(
            "bytes of resources that were written last",
            pending::RECENT_BYTES_MAX,
            "the oldest are read from the file",
        ),
        count("newest changes in memory", RECENT_EVENTS_MAX, "a watch that is further behind reads the file"),
        bytes(
            "bytes of these, with their documents as they are when somebody has read them",
            RECENT_BYTES_MAX,
            "a watch that is further behind reads the file",
        ),
        count(
            "lists page by page of which it is kept what changed",
            past::LISTS_MAX as u64,
            "the oldest read the history",
        ),
        count("keys of what changed under them", past::KEYS_MAX as u64, "the oldest read the history"),
    ]
}
