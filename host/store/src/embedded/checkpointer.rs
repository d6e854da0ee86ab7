//! The checkpointer thread: applies the write-ahead log to the pages, and compacts history.
//!
//! It applies synced batches to the pages in memory, while the writer decides and syncs the next ones. All
//! waiting batches go into one redb transaction, which costs about as much as a single change. A read waits
//! until the pages have all changes that were acknowledged before it; so it sees the content of the
//! write-ahead log, and nothing newer.
//!
//! Beside this, it builds the declared indexes, one piece per transaction, while no batch waits.
//!
//! If this work is lost, no data is lost: opening the file replays the write-ahead log.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use redb::{Database, Durability, WriteTransaction};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};

use super::codec::Meta;
use super::indexes;
use super::read::Snapshot;
use super::reopen::{recover_after_failure, reopen};
use super::retention::{self, CUT_EXTRA_MAX, CUT_IDLE_MAX, SLEEP_MAX, SLEEP_MIN, milliseconds};
use super::tables::Tables;
use super::unapplied::{ChangeBatch, UnappliedChange};
use super::writer::{CloseOnDrop, EngineResult, engine_error, read_meta};
use super::{CommitDurability, SharedStore};
use crate::history::Bounds;
use crate::schema::DeclaredIndexes;
use crate::{Options, Revision};

/// Queued batches at most, and batches per transaction at most. Their changes have a bound of their own.
const BATCHES_MAX: usize = 256;
/// Pieces of indexes after which the pages go to disk, unless the write-ahead log has newer changes.
const PIECES_IN_MEMORY_MAX: u32 = 16;
/// File size from which every commit to disk also saves redb's allocator state, for a quick repair after a
/// crash: 256 MiB.
const QUICK_REPAIR_BYTES: u64 = 256 << 20;

/// The writer's handle to the thread.
pub(super) struct Checkpointer {
    changes: mpsc::Sender<ChangeBatch>,
    thread: JoinHandle<()>,
}

impl Checkpointer {
    /// Queues changes that are in the write-ahead log. The changes of each call directly follow those of the
    /// call before. Blocks while the queue is full.
    pub(super) fn send(&self, changes: ChangeBatch) {
        // A checkpointer that ended has already closed the store.
        drop(self.changes.blocking_send(changes));
    }

    /// Wakes the thread so that it reads the store's clock: its sleep was computed from an earlier reading.
    pub(super) fn wake(&self) {
        // With a full queue it wakes anyway.
        drop(self.changes.try_send(ChangeBatch::default()));
    }

    /// Waits until the pages have all queued changes.
    pub(super) fn finish(self) {
        let Self { changes, thread } = self;
        drop(changes);
        if thread.join().is_err() {
            tracing::error!("the thread that writes the pages of the store panicked");
        }
    }
}

/// Starts the thread.
pub(super) fn spawn(shared: Arc<SharedStore>, options: Options) -> io::Result<Checkpointer> {
    // Used to wait for changes or a timeout, whichever comes first.
    let clock = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let (changes, queue) = mpsc::channel(BATCHES_MAX);
    let thread = thread::Builder::new().name("homeostat-pages".to_owned()).spawn(move || {
        // Closes the store even if this thread panics.
        let _end = CloseOnDrop(Arc::clone(&shared));
        run(&shared, &clock, queue, &options);
    })?;
    Ok(Checkpointer { changes, thread })
}

fn run(shared: &SharedStore, clock: &Runtime, mut queue: mpsc::Receiver<ChangeBatch>, options: &Options) {
    let mut batches = Vec::with_capacity(BATCHES_MAX);
    let mut sleep = next_compaction(shared, options);
    let mut indexes = IndexWork::new(shared);
    loop {
        let wake = clock.block_on(async {
            let slept = async {
                match sleep {
                    Some(sleep) => tokio::time::sleep(sleep).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                count = queue.recv_many(&mut batches, BATCHES_MAX) => Wake::Batches(count),
                () = indexes.is_due() => Wake::Indexes,
                () = slept => Wake::Compaction,
            }
        });
        match wake {
            Wake::Batches(0) => return,
            Wake::Indexes => {
                indexes.work(shared);
                continue;
            }
            Wake::Batches(_) | Wake::Compaction => {}
        }
        let before = shared.checkpoint.borrow().compacted;
        let limit = batches.iter().map(|batch| batch.compacted).max().unwrap_or_default();
        let changes: Vec<_> = batches.drain(..).flat_map(|batch| batch.changes).collect();
        if !changes.is_empty() {
            apply_changes(shared, &changes, limit, options);
            indexes.retry();
            // The remaining compaction waits for the next change, if that comes soon: a transaction of its
            // own costs syncs.
            sleep = next_compaction(shared, options).map(|sleep| sleep.max(SLEEP_MIN));
            continue;
        }
        if wake == Wake::Compaction {
            compact_idle(shared, options);
        }
        sleep = next_compaction(shared, options);
        if wake == Wake::Compaction && shared.checkpoint.borrow().compacted == before {
            // The compaction had no effect: do not retry at once.
            sleep = sleep.map(|_| SLEEP_MAX);
        }
    }
}

/// Why the thread wakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wake {
    /// So many batches were received: zero once the store is being closed.
    Batches(usize),
    /// There is work on indexes.
    Indexes,
    /// A compaction is due.
    Compaction,
}

/// The work that the declared indexes need.
struct IndexWork {
    declared: watch::Receiver<DeclaredIndexes>,
    is_due: bool,
    has_failed: bool,
    /// Pieces that are in memory alone.
    pieces: u32,
}

impl IndexWork {
    fn new(shared: &SharedStore) -> Self {
        let declared = shared.schemas.indexes();
        // A file can have indexes that were being built or dropped.
        Self { declared, is_due: true, has_failed: false, pieces: 0 }
    }

    /// Waits until there is work. Cancel safe.
    async fn is_due(&mut self) {
        // The sender lives as long as the store.
        if !self.is_due && self.declared.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        self.is_due = true;
    }

    /// Tries again after a failure.
    fn retry(&mut self) {
        self.is_due |= std::mem::take(&mut self.has_failed);
    }

    /// Builds or drops one piece of an index. The pages on disk follow after some pieces, and with the last one.
    fn work(&mut self, shared: &SharedStore) {
        let declared = self.declared.borrow_and_update().clone();
        let worked = {
            let database = shared.database.blocking_read();
            match database.as_ref().filter(|_| shared.write_refusal().is_none()) {
                Some(database) => self.piece(shared, database, &declared),
                None => {
                    self.has_failed = true;
                    Ok(false)
                }
            }
        };
        self.is_due = *worked.as_ref().unwrap_or(&false);
        if let Err(error) = worked {
            self.has_failed = true;
            recover_after_failure(shared, &error, Revision::ZERO);
        }
    }

    fn piece(&mut self, shared: &SharedStore, database: &Database, declared: &DeclaredIndexes) -> EngineResult<bool> {
        let snapshot = Snapshot::begin(database)?;
        let worked = !indexes::is_settled(&snapshot.indexes(snapshot.facts()?.revision)?, declared);
        drop(snapshot);
        if worked {
            let mut transaction = database.begin_write().map_err(engine_error)?;
            indexes::work(&transaction, declared, read_meta(database)?.revision)?;
            transaction.set_durability(Durability::None).map_err(engine_error)?;
            transaction.commit().map_err(engine_error)?;
            self.pieces += 1;
        }
        if self.pieces >= PIECES_IN_MEMORY_MAX || (!worked && self.pieces > 0) {
            self.pieces = 0;
            checkpoint(shared, database)?;
        }
        Ok(worked)
    }
}

/// Returns the time until the next compaction of an idle store; `None` if none is due ever.
fn next_compaction(shared: &SharedStore, options: &Options) -> Option<Duration> {
    if shared.write_refusal().is_some() {
        return None;
    }
    let database = shared.database.blocking_read();
    let snapshot = Snapshot::of(database.as_ref()?).ok()?;
    let (meta, oldest_ms) = (snapshot.meta().ok()?, snapshot.oldest_time().ok()?);
    retention::sleep_until_compaction(&meta, oldest_ms, milliseconds(options.clock.now()), &Bounds::of(options))
}

/// Applies changes to the pages that are already in the write-ahead log.
fn apply_changes(shared: &SharedStore, changes: &[UnappliedChange], limit: Revision, options: &Options) {
    let followed = {
        let database = shared.database.blocking_read();
        database
            .as_ref()
            .map(|database| apply_to_pages(shared, database, changes, CommitDurability::InJournal(limit), options))
    };
    match followed {
        Some(Ok(())) => {}
        Some(Err(error)) => {
            recover_after_failure(shared, &error, changes.last().map_or(Revision::ZERO, |last| last.event.revision))
        }
        // Opening the file replays the write-ahead log.
        None => reopen(shared),
    }
}

/// Compacts a piece of history while the store is idle.
fn compact_idle(shared: &SharedStore, options: &Options) {
    if shared.write_refusal().is_some() {
        return;
    }
    let failed = {
        let database = shared.database.blocking_read();
        let cut = |database| apply_to_pages(shared, database, &[], CommitDurability::OnDisk, options);
        database.as_ref().and_then(|database| cut(database).err())
    };
    if let Some(error) = failed {
        // All acknowledged changes are in the write-ahead log, or in the pages on disk.
        recover_after_failure(shared, &error, Revision::ZERO);
    }
}

/// Applies changes to the pages, and compacts a piece of history if a bound is exceeded. The changes must
/// directly follow those in the pages.
///
/// Changes that the pages already have are skipped: the file was reopened meanwhile. Without changes, does
/// nothing while some changes are only in the write-ahead log.
pub(super) fn apply_to_pages(
    shared: &SharedStore,
    database: &Database,
    changes: &[UnappliedChange],
    durably: CommitDurability,
    options: &Options,
) -> EngineResult<()> {
    let mut transaction = database.begin_write().map_err(engine_error)?;
    let meta = read_meta(database)?;
    let rows_max = if changes.is_empty() { CUT_IDLE_MAX } else { CUT_EXTRA_MAX };
    let limit = if let CommitDurability::InJournal(limit) = durably { limit } else { Revision(u64::MAX) };
    let changes = &changes[changes.partition_point(|change| change.event.revision <= meta.revision)..];
    if changes.first().is_some_and(|first| first.event.revision != meta.revision.next()) {
        return Err(Box::new(redb::Error::Corrupted(format!(
            "the changes after revision {} are missing",
            meta.revision
        ))));
    }
    let finished = {
        let mut tables = Tables::open(&transaction)?;
        let mut bytes = 0;
        for change in changes {
            bytes += tables.apply(&change.row(), &change.event)?;
        }
        let added = (changes.len() as u64, bytes);
        let now_ms = milliseconds(options.clock.now());
        tables.write_meta(&meta, added, (rows_max, limit), now_ms, &Bounds::of(options))?
    };
    let Some((reached, _)) = finished else { return transaction.abort().map_err(engine_error) };
    // Before the commit: nobody whom the file has told that a revision is compacted may still read it from memory.
    evict_recent(shared, reached.compacted);
    if durably == CommitDurability::OnDisk {
        if !commit_on_disk(shared, transaction, meta.revision, reached.revision)? {
            return Ok(());
        }
    } else {
        transaction.set_durability(Durability::None).map_err(engine_error)?;
        transaction.commit().map_err(engine_error)?;
    }
    shared.checkpoint.send_replace(reached);
    Ok(())
}

/// Commits a transaction to disk, together with all transactions that are only in memory, and starts a new
/// round of the write-ahead log. Returns false, and commits nothing, if the pages lack changes of the log.
fn commit_on_disk(
    shared: &SharedStore,
    mut transaction: WriteTransaction,
    before: Revision,
    after: Revision,
) -> EngineResult<bool> {
    let mut journal = shared.wal();
    if journal.last() > before {
        transaction.abort().map_err(engine_error)?;
        return Ok(false);
    }
    transaction.set_quick_repair(shared.location.len().is_ok_and(|len| len > QUICK_REPAIR_BYTES));
    transaction.commit().map_err(engine_error)?;
    journal.start_round(after);
    Ok(true)
}

/// Checkpoints the pages to disk, which empties the write-ahead log. Does nothing if the pages lack changes
/// of the log.
pub(super) fn checkpoint(shared: &SharedStore, database: &Database) -> EngineResult<()> {
    let transaction = database.begin_write().map_err(engine_error)?;
    let Meta { revision, .. } = read_meta(database)?;
    commit_on_disk(shared, transaction, revision, revision).map(drop)
}

/// Evicts the events from memory that are compacted from the log.
fn evict_recent(shared: &SharedStore, compacted: Revision) {
    shared.recent.write().expect("no thread panics while holding the events").forget(compacted);
}
