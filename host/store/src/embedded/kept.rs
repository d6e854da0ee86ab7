//! What a store in a file keeps in memory, and how much of it at most, as data for the table that people read: `docs/limits.md`.

use super::{JOBS_MAX, RECENT_BYTES_MAX, RECENT_EVENTS_MAX, pending};
use crate::listing::past;

/// Something of which so much is in memory at most.
#[derive(Clone, Copy, Debug)]
pub struct MemoryBound {
    /// What it is.
    pub what: &'static str,
    /// How much there is at most.
    pub most: u64,
    /// Whether that is in bytes.
    pub in_bytes: bool,
    /// What happens above it.
    pub then: &'static str,
}

/// Returns the bounds of what grows with what is written, however large the file is.
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
