//! The state that all requests and streams of one bucket share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use homeostat_store::cached::KeyLocks;
use homeostat_store::schema::Schemas;
use homeostat_store::{ClockAndIds, Error, Kind, Result};
use serde_json::json;
use tokio::sync::watch;

use crate::connection::Connection;
use crate::errors::{RequestError, RequestResult};
use crate::fenced_writes::FencedWrites;
use crate::protocol::StreamInfo;
use crate::refused_writes::RefusedWrites;
use crate::settings::BucketSettings;
use crate::subject::Subjects;
use crate::watermarks::Watermarks;

/// A bucket, its connection, and the knowledge of this host about it.
pub(crate) struct BucketState {
    pub(crate) settings: BucketSettings,
    pub(crate) subjects: Subjects,
    pub(crate) schemas: Schemas,
    pub(crate) clock: Arc<dyn ClockAndIds>,
    /// The name of the stream.
    pub(crate) stream: String,
    pub(crate) key_locks: KeyLocks,
    /// The writes under leases. A lock of `key_locks` is taken before.
    pub(crate) fenced_writes: FencedWrites,
    pub(crate) refused_writes: RefusedWrites,
    /// Messages after the first one of each write.
    pub(crate) retried: AtomicU64,
    /// Writes that were not sent, since they change nothing in the state that this host knows.
    pub(crate) skipped: AtomicU64,
    pub(crate) marks: Arc<Marks>,
    /// The kinds that have an entry, so far as this host knows.
    pub(crate) written_kinds: Mutex<BTreeSet<Kind>>,
    link: Mutex<Link>,
    content: Mutex<Option<BucketIncarnation>>,
    /// By the filter of each consumer: the last sequence of which any part of this host has heard.
    heard: Mutex<BTreeMap<String, watch::Sender<u64>>>,
}

/// The connection, once there is one.
enum Link {
    Unopened,
    Open(Arc<Connection>),
    Closed,
}

/// Tells one content of the bucket from another one, as of a bucket that was deleted and made again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BucketIncarnation {
    /// When the stream was created, as the server writes it.
    pub(crate) created: String,
    /// The id in the store's own entry.
    pub(crate) id: String,
}

/// The watermarks by the monotonic clock, as the bucket and its streams share them.
#[derive(Debug)]
pub(crate) struct Marks {
    started: Instant,
    watermarks: Mutex<Watermarks>,
}

impl Marks {
    /// Notes that the bucket has no sequence above this one yet.
    pub(crate) fn note(&self, last: u64) {
        lock(&self.watermarks).note(self.started.elapsed(), last);
    }

    /// Returns whether all that happened since a sequence can still be read from the bucket.
    pub(crate) fn is_recent(&self, sequence: u64) -> bool {
        lock(&self.watermarks).is_recent(self.started.elapsed(), sequence)
    }
}

impl BucketState {
    /// Takes checked settings.
    pub(crate) fn new(settings: BucketSettings, schemas: Schemas, clock: Arc<dyn ClockAndIds>) -> Self {
        Self {
            subjects: Subjects::new(&settings.bucket, &settings.prefix),
            stream: format!("KV_{}", settings.bucket),
            schemas,
            clock,
            key_locks: KeyLocks::default(),
            fenced_writes: FencedWrites::default(),
            refused_writes: RefusedWrites::default(),
            retried: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            marks: Arc::new(Marks {
                started: Instant::now(),
                watermarks: Mutex::new(Watermarks::new(settings.markers / 2)),
            }),
            written_kinds: Mutex::new(BTreeSet::new()),
            link: Mutex::new(Link::Unopened),
            content: Mutex::new(None),
            heard: Mutex::new(BTreeMap::new()),
            settings,
        }
    }

    /// Returns the connection.
    pub(crate) fn connection(&self) -> Result<Arc<Connection>> {
        match &*lock(&self.link) {
            Link::Open(connection) => Ok(Arc::clone(connection)),
            Link::Unopened => Err(Error::unavailable("there was no contact with the servers yet")),
            Link::Closed => Err(Error::Closed),
        }
    }

    /// Returns whether a connection was opened, or the store was closed.
    pub(crate) fn is_opened(&self) -> bool {
        !matches!(&*lock(&self.link), Link::Unopened)
    }

    /// Keeps the first connection. Returns whether the store is still open.
    pub(crate) fn opened(&self, connection: &Arc<Connection>) -> bool {
        let mut link = lock(&self.link);
        let is_open = !matches!(*link, Link::Closed);
        if is_open {
            *link = Link::Open(Arc::clone(connection));
        }
        is_open
    }

    /// Takes the connection; every later request fails with `Closed`.
    pub(crate) fn close(&self) -> Option<Arc<Connection>> {
        match std::mem::replace(&mut *lock(&self.link), Link::Closed) {
            Link::Open(connection) => Some(connection),
            Link::Unopened | Link::Closed => None,
        }
    }

    /// Returns the error of a failed request.
    pub(crate) fn error(&self, failure: RequestError, what: &str) -> Error {
        failure.into_error(&self.settings.bucket, what)
    }

    /// Returns the time since the store was made.
    pub(crate) fn elapsed(&self) -> Duration {
        self.marks.started.elapsed()
    }

    /// Reads the state of the stream and notes its last sequence.
    pub(crate) async fn info(&self, connection: &Connection) -> RequestResult<StreamInfo> {
        let info: StreamInfo = connection.call(&format!("STREAM.INFO.{}", self.stream), &json!({})).await?;
        self.marks.note(info.state.last_seq);
        Ok(info)
    }

    /// Returns whether this host has seen the content of the bucket.
    pub(crate) fn knows_content(&self) -> bool {
        lock(&self.content).is_some()
    }

    /// Returns whether a stream has the content that was found last.
    pub(crate) fn has_content(&self, info: &StreamInfo) -> bool {
        lock(&self.content).as_ref().is_some_and(|content| content.created == info.created)
    }

    /// Keeps which content was found. Forgets all that this host knew of other content.
    pub(crate) fn found(&self, content: BucketIncarnation, last: u64) {
        let mut known = lock(&self.content);
        if known.as_ref() != Some(&content) {
            lock(&self.marks.watermarks).clear();
            lock(&self.written_kinds).clear();
            self.marks.note(last);
        }
        *known = Some(content);
    }

    /// Returns a receiver of the last sequences that were heard of, for the consumer of a filter.
    pub(crate) fn follow_heard(&self, filter: &str) -> watch::Receiver<u64> {
        let mut heard = lock(&self.heard);
        heard.retain(|_, sender| sender.receiver_count() > 0);
        heard.entry(filter.to_owned()).or_insert_with(|| watch::Sender::new(0)).subscribe()
    }

    /// Makes the consumers of a filter ask whether they have reached a sequence.
    pub(crate) fn hear(&self, filter: &str, last: u64) {
        if let Some(heard) = lock(&self.heard).get(filter) {
            heard.send_if_modified(|known| {
                let is_news = *known < last;
                *known = last.max(*known);
                is_news
            });
        }
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
