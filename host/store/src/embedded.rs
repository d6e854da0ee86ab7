//! A store in one file on disk, on top of redb. Acknowledged writes survive a crash of the process and of the
//! machine.
//!
//! Threads:
//!
//! * The *writer* decides all queued writes as one batch, appends the batch to the write-ahead log at the
//!   beginning of the file, syncs it, and acknowledges the writes. So concurrent writers share one sync.
//! * The *checkpointer* applies the batches to redb's pages in memory, after the acknowledgement. A
//!   checkpoint writes the pages to disk and empties the write-ahead log.
//! * Reads use a snapshot of the pages, on threads that may block. A read waits until the pages have all
//!   writes that were acknowledged before it.
//!
//! Failures:
//!
//! * After a failed sync the content of the disk is unknown, so the store refuses writes until a restart.
//!   Reads and watches go on.
//! * After a failed write of a page the file is reopened and read completely, and the write-ahead log is
//!   replayed. No write happens before that.
//! * After a failed read redb rejects all reads, so the file is reopened. Reopening replays the write-ahead
//!   log; writes resume once it succeeds. Writes that needed the unreadable data are refused before any part
//!   of them is in the write-ahead log.
//! * If the disk is full, a file can still be opened: its write-ahead log is replayed in memory. Writes are
//!   refused until there is space.
//!
//! History is compacted by count, age and size (see [`Options`]): a small piece with every transaction and,
//! while the store is idle, in small transactions of its own. The checkpointer sleeps until the next write,
//! or until the next piece of history is due.
//!
//! [`backup()`] copies one revision of a running store into a new file, [`restore()`] turns such a file into
//! a store, and [`fsck()`] checks a file without changing it.
//!
//! Deliberately absent: repair of problems that [`fsck()`] finds (restore a backup instead), a cache of
//! resources for reads, and all rules about the effect of a write (see [`semantics`](crate::semantics)).

mod backup;
mod checkpointer;
mod codec;
mod defragment;
mod files;
mod fsck;
mod indexes;
mod io_failure;
mod layout;
mod location;
mod memory_bounds;
mod open;
mod overlay;
mod read;
mod read_ahead;
mod reopen;
mod replay;
mod retention;
mod tables;
#[cfg(test)]
mod tests;
mod unapplied;
mod wal;
mod writer;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, RwLock};
use std::thread::JoinHandle;

use async_trait::async_trait;
use redb::{Database, StorageBackend};
use tokio::sync::{self, OwnedRwLockReadGuard, mpsc, oneshot, watch};

use crate::history::{Bounds, History, check_start};
use crate::index::ExaminedResources;
use crate::listing::changes_since::ChangesSinceCache;
use crate::rule_check::{RuleCheck, TRIES_MAX, needs_rules};
use crate::schema::Schemas;
use crate::watch::{RevisionNotifier, WatchCursor};
use crate::{
    Availability, ClockAndIds, Error, IndexTerm, Key, Kind, Options, Page, Query, Request, Resource, Result, Revision,
    Scope, Store, StoreStatus, Watch, WriteResponse,
};
pub use backup::{BackupError, BackupReport, RestoreOptions, RestoreReport, backup, restore};
pub use fsck::{CutOff, Fsck, PROBLEMS_MAX, Problem, fsck};
use location::{Location, OpenFile, OpenStore};
pub use memory_bounds::{Memory, MemoryBound, memory_bounds};
pub use open::OpenError;
use read::{FileChangeLog, Snapshot};
use reopen::OutOfSpace;
use wal::WriteAheadLog;
use writer::{Reply, WriteJob};

/// The newest file format that this program reads, and the one that it writes. The next write to an older
/// file upgrades it.
pub const FORMAT: u64 = 2;

/// Writes queued for the writer thread. At the bound, the next client waits before it can queue its write.
const JOBS_MAX: usize = 1024;
/// Events in memory for watches that keep up; other watches read the file.
const RECENT_EVENTS_MAX: u64 = 4096;
/// Total size of those events, in bytes of memory.
const RECENT_BYTES_MAX: u64 = 8 << 20;

/// A store in a file.
pub struct EmbeddedStore {
    shared: Arc<SharedStore>,
    /// The queue of writes; `None` once closing has begun.
    jobs: Mutex<Option<mpsc::Sender<WriteJob>>>,
    writer: Option<JoinHandle<()>>,
}

/// State shared by the store, its threads and its watches.
struct SharedStore {
    id: String,
    location: Location,
    schemas: Schemas,
    /// `None` once the store is closed, or while the file cannot be read. Both threads and every read hold
    /// this lock during their use; no holder waits for the checkpointer.
    database: Arc<sync::RwLock<Option<Database>>>,
    /// Lock order: after `database`, and after the begin of a transaction; never the reverse.
    wal: Mutex<WriteAheadLog>,
    recent: RwLock<History>,
    /// Cache for the later pages of lists.
    changes_since: ChangesSinceCache,
    examined: ExaminedResources,
    /// The last durable revision, which reads and watches can see. Advanced under the lock of `recent`, which has no
    /// later event; most watches are notified after the acknowledgements.
    tip: RevisionNotifier,
    /// The state of the pages. Never ahead of `tip`, except while a batch is being published. Also notified
    /// when the file was reopened, or could not be.
    checkpoint: watch::Sender<CheckpointState>,
    /// The clock for retries after a full disk.
    clock: Arc<dyn ClockAndIds>,
    /// Why writes are refused, after a failed commit.
    write_failure: OnceLock<String>,
    /// Why writes are refused, while there is no space for the content of the write-ahead log.
    out_of_space: Mutex<Option<OutOfSpace>>,
    /// Why the file cannot be read, as long as it cannot.
    unreadable: Mutex<Option<String>>,
}

/// The state of the pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CheckpointState {
    /// The last change in the pages.
    revision: Revision,
    /// The last change that is compacted from the change log.
    compacted: Revision,
    /// The last change that should be compacted. It is removed once the write-ahead log, or the disk, records
    /// the compaction.
    compact_target: Revision,
}

/// The durability of a redb transaction at its commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CommitDurability {
    /// In memory, because the write-ahead log on disk has its changes. The log records compaction up to this
    /// revision; the transaction compacts no further.
    InJournal(Revision),
    /// On disk.
    OnDisk,
}

impl EmbeddedStore {
    /// Opens the store in a file, or creates the file. Blocks for as long as the disk takes: the whole file
    /// is read, and the checksum of every page verified. At most 8 MiB of pages are in memory, for a file
    /// of any size.
    ///
    /// Only one process at a time can open a file. A refused file stays unchanged, to the byte. On Linux the
    /// file is read from disk, not from the page cache: the page cache can have data that a sync failed to
    /// write.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(path: impl AsRef<Path>, options: Options) -> std::result::Result<Self, OpenError> {
        Self::at(Location::File(path.as_ref().to_owned()), options)
    }

    /// Opens the store in a custom backend, or creates one if the backend is empty: for tests of failing
    /// disks, and for storage other than files.
    ///
    /// A write is acknowledged after [`StorageBackend::sync_data`] has returned. The store opens the backend
    /// several times in turn, so it never locks it and never calls [`StorageBackend::close`]: it drops the
    /// backend instead. If the process ends while a new store is being created, an incomplete store stays in
    /// the backend.
    ///
    /// After a failed sync, and when the store is opened again, the backend has to return its durable
    /// content. For a backend with a cache, see [`EmbeddedStore::over_cached`].
    ///
    /// # Errors
    /// See [`OpenError`], whose path is then the words `the backend`.
    pub fn over(backend: impl StorageBackend, options: Options) -> std::result::Result<Self, OpenError> {
        Self::over_cached(backend, || Ok(()), options)
    }

    /// Opens the store over a backend with a cache that can hold data which never became durable, as files
    /// do.
    ///
    /// The store calls `forget` after a sync, and before it relies on any data. After that call, reads must
    /// return the data that would survive a loss of power.
    ///
    /// # Errors
    /// As [`EmbeddedStore::over`]; also the errors of `forget`.
    pub fn over_cached(
        backend: impl StorageBackend,
        forget: impl Fn() -> io::Result<()> + Send + Sync + 'static,
        options: Options,
    ) -> std::result::Result<Self, OpenError> {
        Self::at(Location::Backend(Arc::new(backend), Arc::new(forget)), options)
    }

    fn at(location: Location, options: Options) -> std::result::Result<Self, OpenError> {
        let mut ready = open::store(&location, &options)?;
        if ready.was_not_closed && ready.out_of_space.is_none() {
            let bytes = location.len().map_err(|error| open::io(location.name(), error))?;
            defragment::defragment(&mut ready.open.database, location.name(), bytes);
        }
        Self::start(location, ready, options)
    }

    /// Starts the writer thread over an open store with an empty write-ahead log.
    fn start(
        location: Location,
        ready: impl Into<OpenStore>,
        options: Options,
    ) -> std::result::Result<Self, OpenError> {
        let OpenStore {
            open: OpenFile { database, file, layout, failure: latch },
            out_of_space: full,
            was_not_closed: _,
        } = ready.into();
        let failed = |location: &Location, error| open::io(location.name(), error);
        let meta = Snapshot::of(&database).and_then(|snapshot| snapshot.meta());
        let meta = meta.map_err(|error| failed(&location, std::io::Error::other(error)))?;
        let bounds = Bounds::of(&options);
        tracing::info!(
            path = %location.name().display(),
            bytes = location.len().unwrap_or_default(),
            changes = meta.revision.0.saturating_sub(meta.compacted.0),
            history_bytes = meta.measure.map_or(0, |measure| measure.bytes),
            "the store is open"
        );
        let shared = Arc::new(SharedStore {
            id: meta.id,
            location,
            schemas: Schemas::default(),
            database: Arc::new(sync::RwLock::new(Some(database))),
            wal: Mutex::new(WriteAheadLog::new(file, layout, meta.revision, latch)),
            recent: RwLock::new(History::new(
                meta.revision,
                Bounds {
                    events_max: bounds.events_max.min(RECENT_EVENTS_MAX),
                    bytes_max: bounds.bytes_max.min(RECENT_BYTES_MAX),
                    ..bounds
                },
            )),
            changes_since: ChangesSinceCache::default(),
            examined: ExaminedResources::default(),
            tip: RevisionNotifier::at(meta.revision),
            checkpoint: watch::Sender::new(CheckpointState {
                revision: meta.revision,
                compacted: meta.compacted,
                compact_target: meta.compacted,
            }),
            clock: Arc::clone(&options.clock),
            write_failure: OnceLock::new(),
            out_of_space: Mutex::new(full.map(|reason| OutOfSpace::new(reason, options.clock.now()))),
            unreadable: Mutex::default(),
        });
        let (jobs, queue) = mpsc::channel(JOBS_MAX);
        let writer = writer::spawn(Arc::clone(&shared), queue, options);
        let writer = writer.map_err(|error| failed(&shared.location, error))?;
        Ok(Self { shared, jobs: Mutex::new(Some(jobs)), writer: Some(writer) })
    }

    /// Returns the path of the file; `None` for a store over a backend.
    pub fn path(&self) -> Option<&Path> {
        match &self.shared.location {
            Location::File(path) => Some(path),
            Location::Backend(..) => None,
        }
    }

    /// Returns the id of the file, which a backup keeps and a restore changes.
    pub fn id(&self) -> &str {
        &self.shared.id
    }

    /// Returns the number of resources that lists have compared with their selectors so far.
    pub fn examined(&self) -> u64 {
        self.shared.examined.get()
    }

    /// Returns the terms of a kind whose index is complete, in order. A declared index is built beside the writes.
    ///
    /// # Errors
    /// `Unavailable`, `Closed`. Cancel safe.
    pub async fn complete_indexes(&self, kind: &Kind) -> Result<Vec<IndexTerm>> {
        let kind = kind.clone();
        self.shared.read(move |snapshot| snapshot.complete_indexes(&kind)).await
    }

    fn jobs(&self) -> Option<mpsc::Sender<WriteJob>> {
        self.jobs.lock().expect("no thread panics while holding the sender").clone()
    }

    fn stop_taking_writes(&self) {
        self.jobs.lock().expect("no thread panics while holding the sender").take();
    }
}

impl SharedStore {
    /// Returns the database for one read, which close() waits for. The pages have all writes that were
    /// acknowledged before the call.
    async fn database(self: &Arc<Self>) -> Result<OwnedRwLockReadGuard<Option<Database>, Database>> {
        let answered = self.tip.revision();
        let mut reached = self.checkpoint.subscribe();
        loop {
            let mut database = Arc::clone(&self.database).read_owned().await;
            if database.is_none() && !self.tip.is_closed() {
                // The disk was unreadable; it may have recovered.
                drop(database);
                let shared = Arc::clone(self);
                tokio::task::spawn_blocking(move || reopen::reopen(&shared)).await.map_err(Error::unavailable)?;
                database = Arc::clone(&self.database).read_owned().await;
            }
            let database =
                OwnedRwLockReadGuard::try_map(database, Option::as_ref).map_err(|_| self.health_error_or_closed())?;
            let is_closed = self.tip.is_closed();
            if reached.borrow_and_update().revision >= answered {
                return Ok(database);
            }
            if is_closed {
                return Err(Error::Closed);
            }
            // The checkpointer needs the lock as well.
            drop(database);
            reached.changed().await.map_err(|_| Error::Closed)?;
        }
    }

    /// Runs a read on a thread that may block: any page may have to come from disk.
    ///
    /// The snapshot is taken on that thread, after the call.
    async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Snapshot) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let database = self.database().await?;
        let shared = Arc::clone(self);
        let read = tokio::task::spawn_blocking(move || {
            let outcome = Snapshot::of(&database).and_then(|snapshot| read(&snapshot));
            let is_stuck = matches!(&outcome, Err(Error::Unavailable { .. })) && shared.has_engine_failed();
            // Reopening waits until all reads have ended.
            drop(database);
            if is_stuck {
                reopen::reopen(&shared);
            }
            outcome
        });
        read.await.map_err(Error::unavailable)?
    }

    /// Evaluates the rules in CEL of a write, on a thread that may block; `None` if it has none.
    async fn evaluate_rules(self: &Arc<Self>, request: &mut Request) -> Result<Option<RuleCheck>> {
        if !needs_rules(&self.schemas, request) {
            return Ok(None);
        }
        let (shared, mut checked) = (Arc::clone(self), request.clone());
        let (check, checked) = self
            .read(move |snapshot| {
                let lookup = |key: &Key| snapshot.get(key);
                let check = RuleCheck::evaluate(&*shared.clock, &shared.schemas, &mut checked, lookup)?;
                Ok((check, checked))
            })
            .await?;
        *request = checked;
        Ok(check)
    }

    /// Reopens a file that was unreadable or on a full disk, so that a write need not wait until a read does
    /// it.
    async fn try_recover(self: &Arc<Self>) {
        // `health` reports the result.
        let is_unreadable = self.unreadable.lock().expect("no thread panics while holding the reason").is_some();
        if is_unreadable {
            self.database().await.ok();
        } else if self.is_retry_due() {
            let shared = Arc::clone(self);
            tokio::task::spawn_blocking(move || reopen::retry_writing(&shared)).await.ok();
        }
    }

    /// Returns whether it is time to retry after a full disk.
    fn is_retry_due(&self) -> bool {
        let full = self.out_of_space.lock().expect("no thread panics while holding the reason");
        full.as_ref().is_some_and(|full| full.is_due(self.clock.now())) && self.write_failure.get().is_none()
    }

    /// Returns why writes are refused.
    fn write_refusal(&self) -> Option<Error> {
        let full = self.out_of_space.lock().expect("no thread panics while holding the reason");
        self.write_failure.get().or(full.as_ref().map(|full| &full.reason)).map(Error::unavailable)
    }

    fn wal(&self) -> MutexGuard<'_, WriteAheadLog> {
        self.wal.lock().expect("no thread panics while holding the log")
    }

    /// Returns whether redb has failed, and the file has to be reopened.
    fn has_engine_failed(&self) -> bool {
        self.wal().failure().has_failed()
    }

    /// Returns why the store can neither be read nor written.
    fn health_error_or_closed(&self) -> Error {
        self.health_error().unwrap_or(Error::Closed)
    }

    /// Returns the error of the store's health; `None` when it is healthy.
    fn health_error(&self) -> Option<Error> {
        if self.tip.is_closed() {
            return Some(Error::Closed);
        }
        let unreadable = self.unreadable.lock().expect("no thread panics while holding the reason").clone();
        self.write_refusal().or(unreadable.map(Error::unavailable))
    }
}

#[async_trait]
impl Store for EmbeddedStore {
    async fn get(&self, key: &Key) -> Result<Arc<Resource>> {
        let wanted = key.clone();
        let found = self.shared.read(move |snapshot| snapshot.get(&wanted)).await?;
        found.ok_or_else(|| Error::not_found(key))
    }

    async fn list(&self, query: &Query) -> Result<Page> {
        let (query, shared) = (query.clone(), Arc::clone(&self.shared));
        let list =
            move |snapshot: &Snapshot| snapshot.list(&query, (&shared.id, &shared.examined), &shared.changes_since);
        self.shared.read(list).await
    }

    fn schemas(&self) -> Option<&Schemas> {
        Some(&self.shared.schemas)
    }

    async fn submit(&self, mut request: Request) -> Result<WriteResponse> {
        self.shared.try_recover().await;
        self.shared.health_error().map_or(Ok(()), Err)?;
        let mut conflict = None;
        for _ in 0..TRIES_MAX {
            let check = self.shared.evaluate_rules(&mut request).await?;
            conflict = check.as_ref().map(|RuleCheck { key, previous, .. }| (key.clone(), *previous));
            let (reply, answer) = oneshot::channel();
            let jobs = self.jobs().ok_or(Error::Closed)?;
            let job = WriteJob { request, check, reply };
            jobs.send(job).await.map_err(|_| self.shared.health_error_or_closed())?;
            drop(jobs);
            match answer.await.map_err(|_| Error::unavailable("the writer ended before it answered"))? {
                Reply::Answer(answer) => return answer,
                Reply::Unchecked(again) => request = *again,
            }
        }
        Err(match conflict {
            Some((key, current)) => Error::Conflict { key, current },
            None => Error::unavailable("the rules of the kind changed all the time"),
        })
    }

    async fn watch(&self, scope: Scope, from: Revision) -> Result<Watch> {
        // Checked against the file, not `tip`: a list can have seen a commit that is not published yet.
        let meta = self.shared.read(Snapshot::meta).await?;
        check_start(from, meta.compacted, meta.revision)?;
        Ok(Watch::new(WatchCursor::new(Arc::new(FileChangeLog(Arc::clone(&self.shared))), scope, from)))
    }

    async fn revision(&self, _: &Scope) -> Result<Revision> {
        Ok(self.shared.tip.revision())
    }

    fn status(&self) -> Vec<StoreStatus> {
        let availability = match self.shared.health_error() {
            None => Availability::Ready,
            Some(Error::Unavailable { reason }) => Availability::Unhealthy { reason },
            Some(_) => Availability::Closed,
        };
        vec![StoreStatus::local("embedded", &self.shared.id, availability, self.shared.tip.revision())]
    }

    async fn close(&self) {
        self.stop_taking_writes();
        // The threads finish the queued work and then close `tip`; they cannot end without closing it.
        self.shared.tip.closed().await;
        let mut database = self.shared.database.write().await.take();
        let shared = Arc::clone(&self.shared);
        // Closing the file syncs it. If the runtime is shutting down, the file is closed here.
        let closed = tokio::task::spawn_blocking(move || {
            if let (Some(database), None, Ok(bytes)) = (&mut database, shared.write_refusal(), shared.location.len()) {
                defragment::defragment(database, shared.location.name(), bytes);
            }
            drop(database);
        });
        let closed = closed.await;
        if let Err(error) = closed {
            tracing::warn!(path = %self.shared.location.name().display(), %error, "closing the store did not finish cleanly");
        }
    }

    async fn kinds(&self) -> Result<Vec<Kind>> {
        self.shared.read(Snapshot::kinds).await
    }

    async fn dependents(&self, owner: &str) -> Result<Vec<Arc<Resource>>> {
        let owner = owner.to_owned();
        self.shared.read(move |snapshot| snapshot.dependents(&owner)).await
    }
}

impl Drop for EmbeddedStore {
    /// Waits for the queued writes, and closes the file when its last read has ended.
    fn drop(&mut self) {
        self.stop_taking_writes();
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!(path = %self.shared.location.name().display(), "the writer of the store panicked");
        }
        let Ok(mut database) = self.shared.database.try_write() else {
            // A watch can live long and keep the file open. Blocking is not allowed on threads of a runtime.
            let database = Arc::clone(&self.shared.database);
            let closing = std::thread::Builder::new().name("homeostat-store-closing".to_owned());
            if let Err(error) = closing.spawn(move || drop(database.blocking_write().take())) {
                tracing::warn!(path = %self.shared.location.name().display(), %error, "the file stays open");
            }
            return;
        };
        database.take();
    }
}

impl fmt::Debug for EmbeddedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedStore")
            .field("place", &self.shared.location.name())
            .field("id", &self.shared.id)
            .finish_non_exhaustive()
    }
}
