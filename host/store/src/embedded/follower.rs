//! The thread that brings the pages after the journal, and cuts history.
//!
//! What the writer has synced in the journal is brought into the pages here, in memory, while the writer decides and syncs the next. All that
//! has come meanwhile goes in one transaction of the engine, which is about as much work as for one change. Whoever reads waits until the pages
//! have what was acknowledged before, so a read sees what the journal has, and nothing sees more.
//!
//! Losing this work loses nothing: whoever opens the place anew reads the journal.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use redb::{Database, Durability, WriteTransaction};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use super::codec::Meta;
use super::pending::{ChangeBatch, UnappliedChange};
use super::read::Snapshot;
use super::reopen::{recover_after_failure, reopen};
use super::retention::{self, CUT_EXTRA_MAX, CUT_IDLE_MAX, SLEEP_MAX, SLEEP_MIN, milliseconds};
use super::tables::Tables;
use super::writer::{CloseOnDrop, EngineResult, engine_error, read_meta};
use super::{CommitDurability, SharedStore};
use crate::history::Bounds;
use crate::{Options, Revision};

/// Batches of the writer that wait, at most; that share one transaction, too. Their changes have a bound of their own.
const BATCHES_MAX: usize = 256;
/// Size of the file from which every commit to the disk also saves what makes opening after a crash quick: 256 MiB.
const QUICK_REPAIR_BYTES: u64 = 256 << 20;

/// The thread, as the writer has it.
pub(super) struct Checkpointer {
    changes: mpsc::Sender<ChangeBatch>,
    thread: JoinHandle<()>,
}

impl Checkpointer {
    /// Hands changes over that are in the journal; those of one call follow upon those of the one before. Waits while too many wait.
    pub(super) fn send(&self, changes: ChangeBatch) {
        // A follower that ended has told so.
        drop(self.changes.blocking_send(changes));
    }

    /// Lets it look at the clock: how long it sleeps is known from when it looked last.
    pub(super) fn wake(&self) {
        // Where there is no room it looks anyway.
        drop(self.changes.try_send(ChangeBatch::default()));
    }

    /// Waits until the pages have everything that was handed over.
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
    // To wait for changes or for a time, whichever comes first.
    let clock = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let (changes, queue) = mpsc::channel(BATCHES_MAX);
    let thread = thread::Builder::new().name("homeostat-pages".to_owned()).spawn(move || {
        // Tells the end also when this thread panics.
        let _end = CloseOnDrop(Arc::clone(&shared));
        run(&shared, &clock, queue, &options);
    })?;
    Ok(Checkpointer { changes, thread })
}

fn run(shared: &SharedStore, clock: &Runtime, mut queue: mpsc::Receiver<ChangeBatch>, options: &Options) {
    let mut batches = Vec::with_capacity(BATCHES_MAX);
    let mut sleep = next_compaction(shared, options);
    loop {
        let received = queue.recv_many(&mut batches, BATCHES_MAX);
        let received = clock.block_on(async {
            match sleep {
                Some(sleep) => tokio::time::timeout(sleep, received).await.ok(),
                None => Some(received.await),
            }
        });
        if received == Some(0) {
            return;
        }
        let before = shared.checkpoint.borrow().compacted;
        let limit = batches.iter().map(|batch| batch.compacted).max().unwrap_or_default();
        let changes: Vec<_> = batches.drain(..).flat_map(|batch| batch.changes).collect();
        if !changes.is_empty() {
            apply_changes(shared, &changes, limit, options);
            // What is left to cut is cut with the next change, if that comes soon: on its own it costs syncs.
            sleep = next_compaction(shared, options).map(|sleep| sleep.max(SLEEP_MIN));
            continue;
        }
        if received.is_none() {
            compact_idle(shared, options);
        }
        sleep = next_compaction(shared, options);
        if received.is_none() && shared.checkpoint.borrow().compacted == before {
            // Nothing came of it: not again at once, whatever the reason.
            sleep = sleep.map(|_| SLEEP_MAX);
        }
    }
}

/// Returns how long nothing has to be cut off the log when nobody writes; `None` for ever.
fn next_compaction(shared: &SharedStore, options: &Options) -> Option<Duration> {
    if shared.write_refusal().is_some() {
        return None;
    }
    let database = shared.database.blocking_read();
    let snapshot = Snapshot::of(database.as_ref()?).ok()?;
    let (meta, oldest_ms) = (snapshot.meta().ok()?, snapshot.oldest_time().ok()?);
    retention::sleep_until_compaction(&meta, oldest_ms, milliseconds(options.clock.now()), &Bounds::of(options))
}

/// Brings changes into the pages that are in the journal.
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
        // Whoever opens the place brings the pages up to the journal.
        None => reopen(shared),
    }
}

/// Cuts a piece off the log while nobody writes.
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
        // All that was acknowledged is in the journal, or in pages of before.
        recover_after_failure(shared, &error, Revision::ZERO);
    }
}

/// Brings changes into the pages that follow upon what is there, and cuts a piece off the log where that is too long.
///
/// What the pages have already is left out: the place was opened anew meanwhile. Without changes nothing is done while some are in the
/// journal alone.
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
    if durably == CommitDurability::OnDisk {
        if !commit_on_disk(shared, transaction, meta.revision, reached.revision)? {
            return Ok(());
        }
    } else {
        transaction.set_durability(Durability::None).map_err(engine_error)?;
        transaction.commit().map_err(engine_error)?;
    }
    evict_recent(shared, reached.compacted);
    shared.checkpoint.send_replace(reached);
    Ok(())
}

/// Commits a transaction to the disk, and all that was in memory alone with it, and begins a round of the journal. Returns whether the pages
/// had all of the journal; where not, nothing was done.
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

/// Brings the pages to the disk as they are in memory, so that the journal is empty. Where they lack something of it, nothing is done.
pub(super) fn checkpoint(shared: &SharedStore, database: &Database) -> EngineResult<()> {
    let transaction = database.begin_write().map_err(engine_error)?;
    let Meta { revision, .. } = read_meta(database)?;
    commit_on_disk(shared, transaction, revision, revision).map(drop)
}

/// Lets go of the events in memory that are no longer in the log.
fn evict_recent(shared: &SharedStore, compacted: Revision) {
    shared.recent.write().expect("nobody panics while holding the events").forget(compacted);
}
