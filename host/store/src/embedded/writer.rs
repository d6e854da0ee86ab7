//! The thread that decides: group commit into the journal, and what happens when the disk fails.
//!
//! It decides upon what is in the pages and on the changes that are not there yet ([`UnappliedChanges`]). A batch is told and answered when it is
//! synced in the journal, and handed to the follower, which brings it into the pages.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use redb::Database;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};

use super::codec::{self, Meta};
use super::follower::{self, Checkpointer, apply_to_pages, checkpoint};
use super::pending::{ChangeBatch, UnappliedChange, UnappliedChanges};
use super::read::Snapshot;
use super::reopen::{fail_writes, reopen};
use super::retention::{CUT_EXTRA_MAX, milliseconds};
use super::{CheckpointState, CommitDurability, SharedStore};
use crate::history::Bounds;
use crate::model::Path;
use crate::semantics::{self, WritePlan};
use crate::{Error, Event, Options, Request, Result, Revision, WriteResponse};

/// A write and who waits for it.
pub(super) struct WriteJob {
    pub(super) request: Request,
    pub(super) reply: oneshot::Sender<Result<WriteResponse>>,
}

/// Writes that share one sync, at most.
const BATCH_MAX: usize = 128;
/// How long the thread looks for the next write before it sleeps.
const SPIN_TIME: Duration = Duration::from_micros(30);

/// What a failed transaction is: an error of the engine, after which the store takes no more writes.
pub(super) type EngineResult<T> = std::result::Result<T, Box<redb::Error>>;

/// What a batch came to, or why it could not be carried out.
type BatchResult<T> = std::result::Result<T, BatchError>;

/// What kept a batch from being carried out.
enum BatchError {
    /// Writes are refused.
    Refused(Error),
    /// Something that it needs could not be used. Nothing was written, so it is as if nobody had asked.
    NothingWritten(Box<redb::Error>),
    /// What the disk holds is not known.
    OutcomeUnknown(Box<redb::Error>),
}

/// Starts the thread. It ends when all senders of `queue` are gone, their writes are answered, and the pages have them.
pub(super) fn spawn(
    shared: Arc<SharedStore>,
    queue: mpsc::Receiver<WriteJob>,
    options: Options,
) -> io::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let follower = follower::spawn(Arc::clone(&shared), options.clone())?;
    thread::Builder::new().name("homeostat-store".to_owned()).spawn(move || {
        // Tells the end also when this thread panics.
        let _end = CloseOnDrop(Arc::clone(&shared));
        // With one processor, whoever would write next waits for this thread.
        let is_alone = thread::available_parallelism().is_ok_and(|processors| processors.get() == 1);
        let awake = if is_alone { Duration::ZERO } else { SPIN_TIME };
        let mut writer = Writer {
            shared: &shared,
            runtime,
            checkpointer: follower,
            unapplied: UnappliedChanges::default(),
            options,
            spin_time: awake,
        };
        writer.run(queue);
        writer.checkpointer.finish();
    })
}

/// Tells that the store has ended, when it is dropped.
pub(super) struct CloseOnDrop(pub(super) Arc<SharedStore>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.tip.close();
        // Whoever waits for the pages waits in vain.
        self.0.checkpoint.send_modify(|_| {});
    }
}

struct Writer<'a> {
    shared: &'a SharedStore,
    runtime: Runtime,
    checkpointer: Checkpointer,
    unapplied: UnappliedChanges,
    options: Options,
    /// How long it looks for the next write before it sleeps.
    spin_time: Duration,
}

/// What a batch came to.
struct BatchDecision {
    /// One per write, in their order.
    answers: Vec<Result<WriteResponse>>,
    batch: ChangeBatch,
}

/// Whether a batch needs nothing more than the follower.
enum AppendResult {
    /// The journal has its changes, if it has any.
    Appended(BatchDecision),
    /// The journal has no room for them.
    LogFull(BatchDecision),
}

impl Writer<'_> {
    fn run(&mut self, mut queue: mpsc::Receiver<WriteJob>) {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        // How many batches in a row were of one write.
        let mut lone = 0_u32;
        loop {
            if lone > 1 {
                self.spin(&queue);
            }
            if self.runtime.block_on(queue.recv_many(&mut batch, BATCH_MAX)) == 0 {
                return;
            }
            self.wait_for_pages(|pending| !pending.is_full());
            let (requests, replies): (Vec<_>, Vec<_>) =
                batch.drain(..).map(|WriteJob { request, reply }| (request, reply)).unzip();
            let count = requests.len();
            lone = if count == 1 { lone.saturating_add(1) } else { 0 };
            let BatchDecision { answers, batch: decided } = self.commit_batch(requests).unwrap_or_else(|error| {
                BatchDecision { answers: vec![Err(error); count], batch: ChangeBatch::default() }
            });
            for (reply, answer) in replies.into_iter().zip(answers) {
                // Who asked may have gone; the write stands all the same.
                drop(reply.send(answer));
            }
            // Before waiting for the follower.
            self.shared.tip.notify_rest();
            if decided.changes.is_empty() {
                self.checkpointer.wake();
            } else {
                self.checkpointer.send(decided);
            }
        }
    }

    /// Looks for the next write for a moment, giving way to everybody else. A writer that is alone and writes again as soon as it is answered is
    /// back in less time than it takes to put this thread to sleep and to wake it; where there are several, their next writes are there already.
    fn spin(&self, queue: &mpsc::Receiver<WriteJob>) {
        let until = Instant::now() + self.spin_time;
        while queue.is_empty() && !queue.is_closed() && Instant::now() < until {
            thread::yield_now();
        }
    }

    /// Waits until the pages have come far enough, or no longer come any further.
    fn wait_for_pages(&mut self, is_enough: impl Fn(&UnappliedChanges) -> bool) {
        let mut reached = self.shared.checkpoint.subscribe();
        loop {
            self.unapplied.mark_applied(reached.borrow_and_update().revision);
            if is_enough(&self.unapplied) || self.shared.health_error().is_some() {
                return;
            }
            if self.runtime.block_on(reached.changed()).is_err() {
                return;
            }
        }
    }

    /// Carries out a batch: after this it is synced, the watches are told, and the answers can go out.
    ///
    /// Answers what the follower has to bring into the pages. An error is about every write of the batch.
    fn commit_batch(&mut self, requests: Vec<Request>) -> Result<BatchDecision> {
        let shared = self.shared;
        if let Some(error) = shared.write_refusal() {
            return Err(error);
        }
        if shared.has_engine_failed() || shared.database.blocking_read().is_none() {
            // Something has failed, and nobody has opened the place anew yet.
            reopen(shared);
        }
        let tried = match self.append(requests) {
            Ok(AppendResult::LogFull(decided)) => self.checkpoint_and_append(decided),
            Ok(AppendResult::Appended(decided)) => Ok(decided),
            Err(failure) => Err(failure),
        };
        tried.map_err(|failure| self.refuse_batch(failure))
    }

    /// Decides a batch, and writes it to the journal.
    fn append(&mut self, requests: Vec<Request>) -> BatchResult<AppendResult> {
        let shared = self.shared;
        let database = shared.database.blocking_read();
        let database = self.writable_database(database.as_ref())?;
        let mut decided = self.decide(database, requests).map_err(BatchError::NothingWritten)?;
        if decided.batch.changes.is_empty() {
            return Ok(AppendResult::Appended(decided));
        }
        if self.append_to_wal(&mut decided.batch)? {
            // Before anybody can open the place anew, who asks the tip how much of the journal counts.
            publish(shared, &decided.batch.changes, &self.options);
            return Ok(AppendResult::Appended(decided));
        }
        Ok(AppendResult::LogFull(decided))
    }

    /// Carries out a batch for which the journal has no room: what is in the journal goes to its place on the disk, and then the batch into the
    /// journal. So a disk that has no room for the pages fails before anything of the batch is written.
    ///
    /// A batch that is longer than the whole journal goes to its place at once.
    fn checkpoint_and_append(&mut self, mut decided: BatchDecision) -> BatchResult<BatchDecision> {
        let shared = self.shared;
        self.wait_for_all();
        let database = shared.database.blocking_read();
        let database = self.writable_database(database.as_ref())?;
        if shared.wal().is_used() {
            checkpoint(shared, database).map_err(BatchError::NothingWritten)?;
            if self.append_to_wal(&mut decided.batch)? {
                publish(shared, &decided.batch.changes, &self.options);
                return Ok(decided);
            }
        }
        let written = apply_to_pages(shared, database, &decided.batch.changes, CommitDurability::OnDisk, &self.options);
        // The engine may write pages before it commits.
        let is_known = || !shared.wal().failure().has_write_failed();
        written.map_err(|error| {
            if is_known() { BatchError::NothingWritten(error) } else { BatchError::OutcomeUnknown(error) }
        })?;
        publish(shared, &decided.batch.changes, &self.options);
        Ok(BatchDecision { batch: ChangeBatch::default(), ..decided })
    }

    /// Waits until the pages have everything that was acknowledged, or no longer come any further.
    fn wait_for_all(&mut self) {
        let shared = self.shared;
        let last = shared.tip.revision();
        self.wait_for_pages(|_| shared.checkpoint.borrow().revision >= last);
    }

    /// Returns why a batch is refused. When the disk may have it, all later ones are, too.
    fn refuse_batch(&mut self, failure: BatchError) -> Error {
        let shared = self.shared;
        let refusal = match failure {
            BatchError::OutcomeUnknown(error) => fail_writes(shared, &error),
            BatchError::Refused(error) => error,
            BatchError::NothingWritten(error) => {
                let path = shared.location.name().display();
                tracing::error!(%error, %path, "writes are refused, and nothing of them was written");
                reopen(shared);
                // That something failed before says less than what fails now.
                let met = shared.unreadable.lock().expect("nobody panics while holding the reason").clone();
                let met = met.filter(|_| matches!(*error, redb::Error::PreviousIo));
                let reason = met.unwrap_or_else(|| format!("using {path} failed: {error}"));
                Error::unavailable(format!("{reason}; nothing was written"))
            }
        };
        // What this batch has decided is to be forgotten. The rest of what is pending is in the pages: now, or once they can be read again, and
        // nothing is decided before that.
        self.wait_for_all();
        self.unapplied.clear();
        refusal
    }

    /// Returns the database to write to, unless there is a reason not to.
    fn writable_database<'d>(&self, database: Option<&'d Database>) -> BatchResult<&'d Database> {
        match (self.shared.write_refusal(), database) {
            (Some(refusal), _) => Err(BatchError::Refused(refusal)),
            (None, Some(database)) => Ok(database),
            (None, None) => Err(BatchError::Refused(self.shared.health_error_or_closed())),
        }
    }

    /// Decides every write of a batch, on top of those before it.
    fn decide(&mut self, database: &Database, requests: Vec<Request>) -> EngineResult<BatchDecision> {
        // First how far the pages are, then their snapshot: what is no longer pending is in it.
        let CheckpointState { revision: settled, .. } = *self.shared.checkpoint.borrow();
        self.unapplied.mark_applied(settled);
        let documents = Snapshot::begin(database)?.resources()?;
        let mut revision = self.shared.tip.revision();
        let mut decided = BatchDecision { answers: Vec::with_capacity(requests.len()), batch: ChangeBatch::default() };
        for request in requests {
            let (mut failure, dry_run) = (None, request.dry_run);
            let (source, schemas) = (&*self.options.clock, &self.shared.schemas);
            let performed = semantics::plan_write(source, schemas, request, revision.next(), |key| {
                let path = Path::of(key);
                if let Some(latest) = self.unapplied.latest(&path) {
                    return Ok(latest.cloned());
                }
                match documents.get(path.0.as_slice()) {
                    Ok(document) => document.map(|document| codec::resource(document.value())).transpose(),
                    Err(error) => {
                        let answer = Error::unavailable(&error);
                        failure = Some(engine_error(error));
                        Err(answer)
                    }
                }
            });
            if let Some(failure) = failure {
                return Err(failure);
            }
            decided.answers.push(performed.map(|performed| {
                let change = performed.event();
                let WritePlan { key, previous, decision, unknown_fields: unknown } = performed;
                let resource = Arc::clone(decision.resource());
                if let (Some(kind), false) = (change, dry_run) {
                    revision = revision.next();
                    let event = Event { kind, resource: Arc::clone(&resource), previous, revision };
                    let change = UnappliedChange { path: Path::of(&key), event };
                    self.unapplied.add(&change);
                    decided.batch.changes.push(change);
                }
                WriteResponse { resource, change, unknown_fields: unknown }
            }));
        }
        Ok(decided)
    }

    /// Writes changes to the journal, and syncs it; returns whether there was room.
    fn append_to_wal(&self, batch: &mut ChangeBatch) -> BatchResult<bool> {
        let (Some(first), Some(last)) = (batch.changes.first(), batch.changes.last()) else { return Ok(true) };
        batch.compacted = self.compacted(last.event.revision);
        let mut journal = self.shared.wal();
        journal.begin_entry();
        for change in &batch.changes {
            // What was there before the change is there when it is made again.
            journal.add(|entry| change.row().append(entry));
        }
        let appended = journal.append(first.event.revision, milliseconds(self.options.clock.now()), batch.compacted);
        appended.map_err(|error| {
            // Where the follower's writing has failed before, nothing was written.
            let is_known = !journal.failure().has_sync_failed();
            if is_known {
                BatchError::NothingWritten(engine_error(error))
            } else {
                BatchError::OutcomeUnknown(engine_error(error))
            }
        })
    }

    /// Returns where history is to begin when the pages have everything up to a revision: what is cut is in the journal first, so that it never
    /// comes back.
    fn compacted(&self, last: Revision) -> Revision {
        let CheckpointState { revision, compacted, compact_target: wanted } = *self.shared.checkpoint.borrow();
        let numbered = last.0.saturating_sub(Bounds::of(&self.options).events_max);
        let cut_max = compacted.0 + (last.0 - revision.0) + CUT_EXTRA_MAX;
        Revision(numbered.min(cut_max)).max(wanted)
    }
}

/// Begins to tell the watches what is synced: the rest when the answers are out.
fn publish(shared: &SharedStore, changes: &[UnappliedChange], options: &Options) {
    let Some(last) = changes.last() else { return };
    let now = options.clock.now();
    {
        let mut recent = shared.recent.write().expect("nobody panics while holding the events");
        for change in changes {
            recent.push(change.event.clone(), change.event.memory_bytes(), now);
        }
    }
    shared.tip.advance(last.event.revision);
}

/// Reads the facts about the store as they are now.
///
/// # Errors
/// As [`Snapshot::facts`].
pub(super) fn read_meta(database: &Database) -> EngineResult<Meta> {
    Snapshot::begin(database)?.facts()
}

pub(super) fn engine_error(error: impl Into<redb::Error>) -> Box<redb::Error> {
    Box::new(error.into())
}
