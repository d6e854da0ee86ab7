//! The lines of the newest events, written once for all watches that tell the same of them.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use homeostat_store::Revision;
use parking_lot::Mutex;

/// Lines that are kept.
const LINES_MAX: usize = 128;

/// Bytes that they come to at most.
const BYTES_MAX: usize = 4 << 20;

/// The newest lines, the last one at the end. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct EncodedEventCache(Arc<Mutex<EncodedEvents>>);

#[derive(Default)]
struct EncodedEvents {
    lines: VecDeque<(EventCacheKey, Bytes)>,
    bytes: usize,
}

/// What decides how a line reads. A revision is one event of one resource.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct EventCacheKey {
    pub(crate) revision: Revision,
    /// `ADDED`, `MODIFIED` or `DELETED`, which depends on what a watch selects.
    pub(crate) word: &'static str,
    /// Its metadata alone.
    pub(crate) metadata: bool,
    /// In which version of the kind.
    pub(crate) version: Arc<str>,
}

impl EncodedEventCache {
    /// Returns a line as somebody has written it, or writes it.
    pub(crate) fn get_or_encode(&self, about: EventCacheKey, write: impl FnOnce() -> Bytes) -> Bytes {
        if let Some(line) = self.0.lock().find(&about) {
            return line;
        }
        // Not under the lock: a document may be long. Who writes it at the same time writes the same.
        let line = write();
        let mut kept = self.0.lock();
        if kept.find(&about).is_none() {
            kept.push(about, line.clone());
        }
        line
    }
}

impl EncodedEvents {
    fn find(&self, wanted: &EventCacheKey) -> Option<Bytes> {
        self.lines.iter().rev().find(|(about, _)| about == wanted).map(|(_, line)| line.clone())
    }

    fn push(&mut self, about: EventCacheKey, line: Bytes) {
        self.bytes += line.len();
        self.lines.push_back((about, line));
        while self.lines.len() > LINES_MAX || self.bytes > BYTES_MAX {
            let Some((_, line)) = self.lines.pop_front() else { return };
            self.bytes -= line.len();
        }
    }
}

#[cfg(test)]
mod tests;
