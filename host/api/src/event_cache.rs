//! A cache of encoded watch events. Watches that need the same event in the same form share one encoding.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use homeostat_store::Revision;
use parking_lot::Mutex;

/// Maximum number of cached events.
const LINES_MAX: usize = 128;

/// Maximum size of all cached events, in bytes.
const BYTES_MAX: usize = 4 << 20;

/// The newest encoded events, the latest last. Clones share one cache.
#[derive(Clone, Default)]
pub(crate) struct EncodedEventCache(Arc<Mutex<EncodedEvents>>);

#[derive(Default)]
struct EncodedEvents {
    lines: VecDeque<(EventCacheKey, Bytes)>,
    bytes: usize,
}

/// Everything that determines an encoding. A revision identifies one event of one resource of a kind: each store has revisions
/// of its own.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct EventCacheKey {
    pub(crate) revision: Revision,
    /// `ADDED`, `MODIFIED` or `DELETED`, which depends on the selector of the watch.
    pub(crate) event_type: &'static str,
    pub(crate) format: EventFormat,
    /// The kind with its version, and the revision of a definition with defaults.
    pub(crate) kind: Arc<str>,
}

/// The form of a cached event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum EventFormat {
    /// The whole document.
    Document,
    /// Only the metadata of the resource.
    Metadata,
    /// The whole document, in protobuf.
    Protobuf,
    /// Only the metadata of the resource, in protobuf.
    ProtobufMetadata,
    /// The whole document, in CBOR.
    Cbor,
}

impl EncodedEventCache {
    /// Returns the cached encoding of an event, or encodes the event and caches it.
    pub(crate) fn get_or_encode(&self, key: EventCacheKey, encode: impl FnOnce() -> Bytes) -> Bytes {
        if let Some(line) = self.0.lock().find(&key) {
            return line;
        }
        // Outside of the lock, because a document may be long. A concurrent caller encodes the same bytes.
        let line = encode();
        let mut cache = self.0.lock();
        if cache.find(&key).is_none() {
            cache.push(key, line.clone());
        }
        line
    }
}

impl EncodedEvents {
    fn find(&self, key: &EventCacheKey) -> Option<Bytes> {
        self.lines.iter().rev().find(|(cached, _)| cached == key).map(|(_, line)| line.clone())
    }

    fn push(&mut self, key: EventCacheKey, line: Bytes) {
        self.bytes += line.len();
        self.lines.push_back((key, line));
        while self.lines.len() > LINES_MAX || self.bytes > BYTES_MAX {
            let Some((_, line)) = self.lines.pop_front() else { return };
            self.bytes -= line.len();
        }
    }
}

#[cfg(test)]
mod tests;
