//! A store in one file on disk (redb). What was answered survives a crash of the process and of the machine.
//!
//! One writer thread decides everything that is waiting, and answers when it is on the disk, so that many
//! writers share one sync: in the journal at the beginning of the file. A second thread, the follower, brings it into the pages, behind the
//! answers. Reads go to a snapshot of the pages, on threads that may block, once these have what was answered before the read.
//! After a failed sync nobody knows what the disk holds, so the store takes no more writes; reads and watches go on. After a failed write of a page
//! the place is opened anew, and read through, with what is in the journal; nothing is written before that. After a failed read the engine reads nothing any more, so the place is opened anew: what is in the journal
//! comes into the pages by that, and writes go on as well as soon as it can be read. Writes that needed what could not be read are refused,
//! before anything of them is in the journal. Where there is no room for what waits in the journal, a file is opened all the same, and writes are
//! refused until there is.
//!
//! History is cut by number, age and size (see [`Options`]), a small piece with every transaction and, when nobody writes, in small
//! transactions of their own. The follower sleeps until a write comes or the next piece of history has had its time.
//!
//! [`backup()`] writes one moment of a running store into a file of its own, [`restore()`] makes a store of such a file, and [`fsck()`] looks for
//! everything that can be wrong with a file, without changing it.
//!
//! Deliberately absent: repair of what [`fsck()`] finds (that is what backups are for), a cache of resources for reads, and any rule about what a write does (that is [`semantics`](crate::semantics)).

mod ahead;
mod backup;
mod codec;
mod compact;
mod feed;
mod files;
mod follower;
mod fsck;
mod journal;
mod kept;
mod latch;
mod layout;
mod open;
mod pending;
mod place;
mod probe;
mod read;
mod reopen;
mod replay;
mod retention;
mod tables;
#[cfg(test)]
mod tests;
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
use crate::listing::past::ChangesSinceCache;
use crate::schema::Schemas;
use crate::tip::RevisionNotifier;
use crate::watch::WatchCursor;
use crate::{
    ClockAndIds, Error, Key, Kind, Options, Page, Query, Request, Resource, Result, Revision, Scope, Store, Watch,
    WriteResponse,
};
pub use backup::{BackupError, BackupReport, RestoreOptions, RestoreReport, backup, restore};
use feed::FileChangeLog;
pub use fsck::{CutOff, Fsck, PROBLEMS_MAX, Problem, fsck};
use journal::WriteAheadLog;
pub use kept::{MemoryBound, memory_bounds};
pub use open::OpenError;
use place::{Location, OpenFile, OpenStore};
use read::Snapshot;
use reopen::OutOfSpace;
use writer::WriteJob;

/// The newest format of the file that this program reads, and the one that it writes. A file of an older one has this from its next write on.
pub const FORMAT: u64 = 2;

/// Writes that wait for the writer thread. At the bound, the next writer waits before it can hand in its write.
const JOBS_MAX: usize = 1024;
/// Events kept in memory for watches that keep up; the others read the file.
const RECENT_EVENTS_MAX: u64 = 4096;
/// What those events may come to, in bytes of JSON.
const RECENT_BYTES_MAX: u64 = 64 << 20;

/// Resources in a file.
pub struct EmbeddedStore {
    shared: Arc<SharedStore>,
    /// Where writes go; `None` once closing has begun.
    jobs: Mutex<Option<mpsc::Sender<WriteJob>>>,
    writer: Option<JoinHandle<()>>,
}

/// What the store, its threads and its watches have in common.
struct SharedStore {
    id: String,
    location: Location,
    schemas: Schemas,
    /// `None` once the store is closed. Both threads and every read hold it for as long as they use it, and nobody who holds it waits for
    /// the pages.
    database: Arc<sync::RwLock<Option<Database>>>,
    /// Locked while the database is, and after a transaction was begun; never the other way round.
    wal: Mutex<WriteAheadLog>,
    recent: RwLock<History>,
    /// Of the lists that clients read on.
    changes_since: ChangesSinceCache,
    /// What is acknowledged, and so what can be seen. Moved after the events are in `recent`, and told to all when the answers are out.
    tip: RevisionNotifier,
    /// What is in the pages: never beyond the tip but while a batch is told. Told also when the place was opened anew, or could not be.
    checkpoint: watch::Sender<CheckpointState>,
    /// Tells when to try again what had no room.
    clock: Arc<dyn ClockAndIds>,
    /// Why writes are refused, once a commit has failed.
    write_failure: OnceLock<String>,
    /// Why writes are refused, as long as there is no room for what is in the journal.
    out_of_space: Mutex<Option<OutOfSpace>>,
    /// Why the place cannot be read, as long as that is so.
    unreadable: Mutex<Option<String>>,
}

/// How far the pages have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CheckpointState {
    /// The last change that is in them.
    revision: Revision,
    /// The last change that is no longer in their log.
    compacted: Revision,
    /// The last change that should no longer be in it. It goes when the journal, or the disk, has that.
    compact_target: Revision,
}

/// Where a transaction of the engine has to be when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CommitDurability {
    /// The disk has it in the journal, so it may be in memory: all but what is cut off the log behind this revision.
    InJournal(Revision),
    /// On the disk.
    OnDisk,
}

impl EmbeddedStore {
    /// Opens the store in a file, or makes one where there is no file. Blocks for as long as the disk takes: the whole
    /// file is read, and every page of it compared with its checksum. Whatever its size, at most 128 MiB of it are in memory.
    ///
    /// One process at a time can have a file open. A file that is refused is left as it was, to the byte. On Linux it is read from the disk,
    /// not from what the system has of it in memory: that can be what a sync has failed to write.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(path: impl AsRef<Path>, options: Options) -> std::result::Result<Self, OpenError> {
        Self::at(Location::File(path.as_ref().to_owned()), options)
    }

    /// Opens the store in the bytes that a backend keeps, or makes one where there are none: for tests of what happens when a disk fails,
    /// and for other places to keep bytes than a file.
    ///
    /// A write is answered after [`StorageBackend::sync_data`] has returned. The store uses the backend several times in turn, so it
    /// takes no lock on it and never calls [`StorageBackend::close`]: it lets go of the backend by dropping it. While a new store is made, bytes of it can stand
    /// there that are no store yet, and stay when the process ends before this has returned.
    ///
    /// After a sync that failed, and when it is opened again, the backend has to show what it still has: see
    /// [`EmbeddedStore::over_cached`] for one that does not.
    ///
    /// # Errors
    /// See [`OpenError`], whose path is then the words `the backend`.
    pub fn over(backend: impl StorageBackend, options: Options) -> std::result::Result<Self, OpenError> {
        Self::over_cached(backend, || Ok(()), options)
    }

    /// Opens the store over a backend that keeps in memory what it was given, and shows that even where it did not arrive: as files do.
    ///
    /// `forget` is called after a sync and before anything is believed. After it, reads show what the backend still has after a loss of power.
    ///
    /// # Errors
    /// As [`EmbeddedStore::over`]; what `forget` answers too.
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
            compact::defragment(&mut ready.open.database, location.name(), bytes);
        }
        Self::start(location, ready, options)
    }

    /// Starts the writer thread over what is known to be a store, with an empty journal.
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

    /// Returns the file; `None` for a store over a backend.
    pub fn path(&self) -> Option<&Path> {
        match &self.shared.location {
            Location::File(path) => Some(path),
            Location::Backend(..) => None,
        }
    }

    fn jobs(&self) -> Option<mpsc::Sender<WriteJob>> {
        self.jobs.lock().expect("nobody panics while holding the sender").clone()
    }

    fn stop_taking_writes(&self) {
        self.jobs.lock().expect("nobody panics while holding the sender").take();
    }
}

impl SharedStore {
    /// Returns the database for one read, which close() waits for. What was answered before the call is in its pages.
    async fn database(self: &Arc<Self>) -> Result<OwnedRwLockReadGuard<Option<Database>, Database>> {
        let answered = self.tip.revision();
        let mut reached = self.checkpoint.subscribe();
        loop {
            let mut database = Arc::clone(&self.database).read_owned().await;
            if database.is_none() && !self.tip.is_closed() {
                // The disk could not be read; it may be back.
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
            // The follower needs the database as well.
            drop(database);
            reached.changed().await.map_err(|_| Error::Closed)?;
        }
    }

    /// Runs a read on a thread that may block: any page that it needs may have to come from the disk.
    ///
    /// The snapshot is taken there, after the call.
    async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Snapshot) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let database = self.database().await?;
        let shared = Arc::clone(self);
        let read = tokio::task::spawn_blocking(move || {
            let outcome = Snapshot::of(&database).and_then(|snapshot| read(&snapshot));
            let is_stuck = matches!(&outcome, Err(Error::Unavailable { .. })) && shared.has_engine_failed();
            // Reopening waits until nobody reads.
            drop(database);
            if is_stuck {
                reopen::reopen(&shared);
            }
            outcome
        });
        read.await.map_err(Error::unavailable)?
    }

    /// Opens the place anew where it could not be read, so that writes need not wait for a read that does that, or had no room.
    async fn try_recover(self: &Arc<Self>) {
        // What comes of it is in the health.
        let is_unreadable = self.unreadable.lock().expect("nobody panics while holding the reason").is_some();
        if is_unreadable {
            self.database().await.ok();
        } else if self.is_retry_due() {
            let shared = Arc::clone(self);
            tokio::task::spawn_blocking(move || reopen::retry_writing(&shared)).await.ok();
        }
    }

    /// Returns whether there was no room, and may be by now.
    fn is_retry_due(&self) -> bool {
        let full = self.out_of_space.lock().expect("nobody panics while holding the reason");
        full.as_ref().is_some_and(|full| full.is_due(self.clock.now())) && self.write_failure.get().is_none()
    }

    /// Returns why writes are refused.
    fn write_refusal(&self) -> Option<Error> {
        let full = self.out_of_space.lock().expect("nobody panics while holding the reason");
        self.write_failure.get().or(full.as_ref().map(|full| &full.reason)).map(Error::unavailable)
    }

    fn wal(&self) -> MutexGuard<'_, WriteAheadLog> {
        self.wal.lock().expect("nobody panics while holding the journal")
    }

    /// Returns whether the engine has given up on what is open, and the place is to be opened anew.
    fn has_engine_failed(&self) -> bool {
        self.wal().failure().has_failed()
    }

    /// Returns why nothing can be read or written.
    fn health_error_or_closed(&self) -> Error {
        self.health_error().unwrap_or(Error::Closed)
    }

    /// Returns what is wrong; `None` when all is well.
    fn health_error(&self) -> Option<Error> {
        if self.tip.is_closed() {
            return Some(Error::Closed);
        }
        let unreadable = self.unreadable.lock().expect("nobody panics while holding the reason").clone();
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
        self.shared.read(move |snapshot| snapshot.list(&query, &shared.id, &shared.changes_since)).await
    }

    fn schemas(&self) -> &Schemas {
        &self.shared.schemas
    }

    async fn submit(&self, request: Request) -> Result<WriteResponse> {
        self.shared.try_recover().await;
        self.health()?;
        let (reply, answer) = oneshot::channel();
        let jobs = self.jobs().ok_or(Error::Closed)?;
        jobs.send(WriteJob { request, reply }).await.map_err(|_| self.shared.health_error_or_closed())?;
        drop(jobs);
        answer.await.map_err(|_| Error::unavailable("the writer ended before it answered"))?
    }

    async fn watch(&self, scope: Scope, from: Revision) -> Result<Watch> {
        // The file is the judge, not the tip: a list can have seen a commit that has not been told yet.
        let meta = self.shared.read(Snapshot::meta).await?;
        check_start(from, meta.compacted, meta.revision)?;
        Ok(Watch::new(WatchCursor::new(Arc::new(FileChangeLog(Arc::clone(&self.shared))), scope, from)))
    }

    fn revision(&self) -> Revision {
        self.shared.tip.revision()
    }

    fn id(&self) -> &str {
        &self.shared.id
    }

    fn health(&self) -> Result<()> {
        self.shared.health_error().map_or(Ok(()), Err)
    }

    async fn close(&self) {
        self.stop_taking_writes();
        // The threads finish what they were given, then say that they are done; they cannot go away without saying so.
        self.shared.tip.closed().await;
        let mut database = self.shared.database.write().await.take();
        let shared = Arc::clone(&self.shared);
        // Closing the file syncs it. Should the runtime be shutting down, it is closed here.
        let closed = tokio::task::spawn_blocking(move || {
            if let (Some(database), None, Ok(bytes)) = (&mut database, shared.write_refusal(), shared.location.len()) {
                compact::defragment(database, shared.location.name(), bytes);
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
    /// Waits for the writes that were handed in, and closes the file when the last read in it is done.
    fn drop(&mut self) {
        self.stop_taking_writes();
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!(path = %self.shared.location.name().display(), "the writer of the store panicked");
        }
        let Ok(mut database) = self.shared.database.try_write() else {
            // A watch may live for long and would keep the file open. Waiting is not allowed on the threads of a runtime.
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
