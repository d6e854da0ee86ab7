//! The writer thread: group commit into the write-ahead log, and handling of disk failures.
//!
//! It decides writes against the pages and the changes that are not applied to them yet
//! ([`UnappliedChanges`]). Once a batch is synced in the write-ahead log, the writer publishes and
//! acknowledges it. Then it hands the batch to the checkpointer, which applies it to the pages.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use redb::Database;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};

use super::checkpointer::{self, Checkpointer, apply_to_pages, checkpoint};
use super::codec::{self, Meta};
use super::read::Snapshot;
use super::reopen::{fail_writes, reopen};
use super::retention::{CUT_EXTRA_MAX, milliseconds};
use super::unapplied::{ChangeBatch, UnappliedChange, UnappliedChanges};
use super::{CheckpointState, CommitDurability, SharedStore};
use crate::fence::KnownTerms;
use crate::history::Bounds;
use crate::model::Path;
use crate::rule_check::RuleCheck;
use crate::semantics::{self, Validation, WritePlan};
use crate::{Error, Event, Key, Options, Request, Result, Revision, WriteResponse};

/// A write, and the channel for its response.
pub(super) struct WriteJob {
    pub(super) request: Request,
    /// The state on which the rules of the write rely; `None` for a write without rules.
    pub(super) check: Option<RuleCheck>,
    pub(super) reply: oneshot::Sender<Reply>,
}

/// The reply to a write.
pub(super) enum Reply {
    Answer(Result<WriteResponse>),
    /// The write was not decided: its rules have to be evaluated again, because its resource or their schema changed.
    Unchecked(Box<Request>),
}

/// A write, and the state on which its rules rely.
type CheckedRequest = (Request, Option<RuleCheck>);

/// Writes per sync at most.
const BATCH_MAX: usize = 128;
/// How long the thread spins for the next write before it sleeps.
const SPIN_TIME: Duration = Duration::from_micros(30);

/// The result of a redb call.
pub(super) type EngineResult<T> = std::result::Result<T, Box<redb::Error>>;

/// The result of a batch.
type BatchResult<T> = std::result::Result<T, BatchError>;

/// Why a batch failed.
enum BatchError {
    /// Writes are refused.
    Refused(Error),
    /// A read or a checkpoint that the batch needs has failed. Nothing of the batch was written.
    NothingWritten(Box<redb::Error>),
    /// The content of the disk is unknown.
    OutcomeUnknown(Box<redb::Error>),
}

/// Starts the thread. It ends when all senders of `queue` are gone, their writes are acknowledged, and the
/// pages have them.
pub(super) fn spawn(
    shared: Arc<SharedStore>,
    queue: mpsc::Receiver<WriteJob>,
    options: Options,
) -> io::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let follower = checkpointer::spawn(Arc::clone(&shared), options.clone())?;
    thread::Builder::new().name("homeostat-store".to_owned()).spawn(move || {
        // Closes the store even if this thread panics.
        let _end = CloseOnDrop(Arc::clone(&shared));
        // On a single processor, spinning would keep the next client from running.
        let is_alone = thread::available_parallelism().is_ok_and(|processors| processors.get() == 1);
        let awake = if is_alone { Duration::ZERO } else { SPIN_TIME };
        let mut writer = Writer {
            shared: &shared,
            runtime,
            checkpointer: follower,
            unapplied: UnappliedChanges::default(),
            terms: KnownTerms::default(),
            options,
            spin_time: awake,
        };
        writer.run(queue);
        writer.checkpointer.finish();
    })
}

/// Closes the store on drop.
pub(super) struct CloseOnDrop(pub(super) Arc<SharedStore>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.tip.close();
        // Wakes tasks that wait for the pages, so that they see the end.
        self.0.checkpoint.send_modify(|_| {});
    }
}

struct Writer<'a> {
    shared: &'a SharedStore,
    runtime: Runtime,
    checkpointer: Checkpointer,
    unapplied: UnappliedChanges,
    terms: KnownTerms,
    options: Options,
    /// How long it spins for the next write before it sleeps.
    spin_time: Duration,
}

/// A decided batch.
struct BatchDecision {
    /// One response per write, in order.
    answers: Vec<Reply>,
    batch: ChangeBatch,
}

/// Whether a batch fits into the write-ahead log.
enum AppendResult {
    /// The write-ahead log has its changes, if there are any.
    Appended(BatchDecision),
    /// The write-ahead log has no space for them.
    LogFull(BatchDecision),
}

impl Writer<'_> {
    fn run(&mut self, mut queue: mpsc::Receiver<WriteJob>) {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        // Number of consecutive batches with a single write.
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
                batch.drain(..).map(|WriteJob { request, check, reply }| ((request, check), reply)).unzip();
            let count = requests.len();
            lone = if count == 1 { lone.saturating_add(1) } else { 0 };
            let BatchDecision { answers, batch: decided } = self.commit_batch(requests).unwrap_or_else(|error| {
                let answers = std::iter::repeat_with(|| Reply::Answer(Err(error.clone()))).take(count).collect();
                BatchDecision { answers, batch: ChangeBatch::default() }
            });
            for (reply, answer) in replies.into_iter().zip(answers) {
                // The client may be gone; the write stays.
                drop(reply.send(answer));
            }
            // Before waiting for the checkpointer.
            self.shared.tip.notify_rest();
            if decided.changes.is_empty() {
                self.checkpointer.wake();
            } else {
                self.checkpointer.send(decided);
            }
        }
    }

    /// Spins for the next write for a moment, yielding to all other threads. A single client that writes
    /// again after each response does so faster than this thread could sleep and wake. With several clients,
    /// their next writes are already queued.
    fn spin(&self, queue: &mpsc::Receiver<WriteJob>) {
        let until = Instant::now() + self.spin_time;
        while queue.is_empty() && !queue.is_closed() && Instant::now() < until {
            thread::yield_now();
        }
    }

    /// Waits until enough changes are applied to the pages, or the checkpointer can no longer apply any.
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

    /// Commits a batch. Afterwards it is synced and published, and the responses can be sent.
    ///
    /// Returns the changes for the checkpointer. An error applies to every write of the batch.
    fn commit_batch(&mut self, requests: Vec<CheckedRequest>) -> Result<BatchDecision> {
        let shared = self.shared;
        if let Some(error) = shared.write_refusal() {
            return Err(error);
        }
        if shared.has_engine_failed() || shared.database.blocking_read().is_none() {
            // A read or a write has failed, and the file is not reopened yet.
            reopen(shared);
        }
        let tried = match self.append(requests) {
            Ok(AppendResult::LogFull(decided)) => self.checkpoint_and_append(decided),
            Ok(AppendResult::Appended(decided)) => Ok(decided),
            Err(failure) => Err(failure),
        };
        tried.map_err(|failure| self.refuse_batch(failure))
    }

    /// Decides a batch, and appends it to the write-ahead log.
    fn append(&mut self, requests: Vec<CheckedRequest>) -> BatchResult<AppendResult> {
        let shared = self.shared;
        let database = shared.database.blocking_read();
        let database = self.writable_database(database.as_ref())?;
        let mut decided = self.decide(database, requests).map_err(BatchError::NothingWritten)?;
        if decided.batch.changes.is_empty() {
            return Ok(AppendResult::Appended(decided));
        }
        if self.append_to_wal(&mut decided.batch)? {
            // Published before another thread can reopen the file: a reopening replays the log only up to
            // `tip`.
            publish(shared, &decided.batch.changes, &self.options);
            return Ok(AppendResult::Appended(decided));
        }
        Ok(AppendResult::LogFull(decided))
    }

    /// Commits a batch that does not fit into the write-ahead log: checkpoints the log, and then appends the
    /// batch. If the disk has no space for the pages, this fails before any part of the batch is written.
    ///
    /// A batch that is longer than the whole log goes directly to the pages on disk.
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
        // redb may write pages before it commits.
        let is_known = || !shared.wal().failure().has_write_failed();
        written.map_err(|error| {
            if is_known() { BatchError::NothingWritten(error) } else { BatchError::OutcomeUnknown(error) }
        })?;
        publish(shared, &decided.batch.changes, &self.options);
        Ok(BatchDecision { batch: ChangeBatch::default(), ..decided })
    }

    /// Waits until the pages have all acknowledged writes, or the checkpointer can no longer apply any.
    fn wait_for_all(&mut self) {
        let shared = self.shared;
        let last = shared.tip.revision();
        self.wait_for_pages(|_| shared.checkpoint.borrow().revision >= last);
    }

    /// Refuses a batch and returns the reason. If the disk may have the batch, all later batches are refused,
    /// too.
    fn refuse_batch(&mut self, failure: BatchError) -> Error {
        let shared = self.shared;
        let refusal = match failure {
            BatchError::OutcomeUnknown(error) => fail_writes(shared, &error),
            BatchError::Refused(error) => error,
            BatchError::NothingWritten(error) => {
                let path = shared.location.name().display();
                tracing::error!(%error, %path, "refusing a batch of writes; none of them was written");
                reopen(shared);
                // The original failure says more than redb's note that one happened.
                let met = shared.unreadable.lock().expect("no thread panics while holding the reason").clone();
                let met = met.filter(|_| matches!(*error, redb::Error::PreviousIo));
                let reason = met.unwrap_or_else(|| format!("using {path} failed: {error}"));
                Error::unavailable(format!("{reason}; nothing was written"))
            }
        };
        // Discard the decisions of this batch. All other unapplied changes are in the pages by now, or will
        // be once these can be read again; no batch is decided before that.
        self.wait_for_all();
        self.unapplied.clear();
        refusal
    }

    /// Returns the database for writing, or the reason why writes are refused.
    fn writable_database<'d>(&self, database: Option<&'d Database>) -> BatchResult<&'d Database> {
        match (self.shared.write_refusal(), database) {
            (Some(refusal), _) => Err(BatchError::Refused(refusal)),
            (None, Some(database)) => Ok(database),
            (None, None) => Err(BatchError::Refused(self.shared.health_error_or_closed())),
        }
    }

    /// Decides every write of a batch, each against the result of those before it.
    fn decide(&mut self, database: &Database, requests: Vec<CheckedRequest>) -> EngineResult<BatchDecision> {
        // Read before the snapshot: changes that are applied by now are in the snapshot.
        let CheckpointState { revision: settled, .. } = *self.shared.checkpoint.borrow();
        self.unapplied.mark_applied(settled);
        let documents = Snapshot::begin(database)?.resources()?;
        let mut revision = self.shared.tip.revision();
        let mut decided = BatchDecision { answers: Vec::with_capacity(requests.len()), batch: ChangeBatch::default() };
        for (request, check) in requests {
            if let Err(fenced) = self.terms.check(request.fence.as_ref()) {
                decided.answers.push(Reply::Answer(Err(fenced)));
                continue;
            }
            let (mut failure, dry_run) = (None, request.dry_run);
            let (source, schemas) = (&*self.options.clock, &self.shared.schemas);
            let mut lookup = |key: &Key| {
                let path = Path::of(key);
                if let Some(latest) = self.unapplied.latest(&path) {
                    return Ok(latest);
                }
                match documents.get(path.0.as_slice()) {
                    Ok(document) => document.map(|document| codec::resource(document.value())).transpose(),
                    Err(error) => {
                        let answer = Error::unavailable(&error);
                        failure = Some(engine_error(error));
                        Err(answer)
                    }
                }
            };
            let performed = match RuleCheck::is_current(check.as_ref(), schemas, &request, &mut lookup) {
                Ok(true) => semantics::plan_write(
                    source,
                    schemas,
                    request,
                    revision.next(),
                    Validation::WithoutRules,
                    &mut lookup,
                ),
                Ok(false) => {
                    decided.answers.push(Reply::Unchecked(Box::new(request)));
                    continue;
                }
                Err(error) => Err(error),
            };
            if let Some(failure) = failure {
                return Err(failure);
            }
            decided.answers.push(Reply::Answer(performed.map(|performed| {
                let change = performed.event();
                let WritePlan { key, previous, decision, unknown_fields } = performed;
                let resource = Arc::clone(decision.resource());
                if let (Some(kind), false) = (change, dry_run) {
                    revision = revision.next();
                    let event = Event { kind, resource: Arc::clone(&resource), previous: previous.clone(), revision };
                    let change = UnappliedChange { path: Path::of(&key), event };
                    self.unapplied.add(&change);
                    decided.batch.changes.push(change);
                }
                WriteResponse { resource, change, previous, unknown_fields }
            })));
        }
        Ok(decided)
    }

    /// Appends changes to the write-ahead log, and syncs it; returns whether they fit.
    fn append_to_wal(&self, batch: &mut ChangeBatch) -> BatchResult<bool> {
        let (Some(first), Some(last)) = (batch.changes.first(), batch.changes.last()) else { return Ok(true) };
        batch.compacted = self.compacted(last.event.revision);
        let mut journal = self.shared.wal();
        journal.begin_entry();
        for change in &batch.changes {
            // Without the document before the change: the replay finds it in the pages.
            journal.add(|entry| change.row().append(entry));
        }
        let appended = journal.append(first.event.revision, milliseconds(self.options.clock.now()), batch.compacted);
        appended.map_err(|error| {
            // If an earlier write of the checkpointer has failed, nothing was written.
            let is_known = !journal.failure().has_sync_failed();
            if is_known {
                BatchError::NothingWritten(engine_error(error))
            } else {
                BatchError::OutcomeUnknown(engine_error(error))
            }
        })
    }

    /// Returns the start of the history once the pages have everything up to a revision. The write-ahead log
    /// records it before the compaction, so that compacted history never comes back.
    fn compacted(&self, last: Revision) -> Revision {
        let CheckpointState { revision, compacted, compact_target: wanted } = *self.shared.checkpoint.borrow();
        let numbered = last.0.saturating_sub(Bounds::of(&self.options).events_max);
        let cut_max = compacted.0 + (last.0 - revision.0) + CUT_EXTRA_MAX;
        Revision(numbered.min(cut_max)).max(wanted)
    }
}

/// Publishes synced changes, and wakes the first group of watches; the others are woken after the
/// acknowledgements.
fn publish(shared: &SharedStore, changes: &[UnappliedChange], options: &Options) {
    let Some(last) = changes.last() else { return };
    let now = options.clock.now();
    {
        let mut recent = shared.recent.write().expect("no thread panics while holding the events");
        for change in changes {
            recent.push(change.event.clone(), change.event.memory_bytes(), now);
        }
        // Under the lock: a watch that is behind reads these events before it is woken for them. A read that follows such
        // an event waits for the pages of this revision.
        shared.tip.publish(last.event.revision);
    }
    shared.tip.notify_first();
}

/// Reads the current metadata of the store.
///
/// # Errors
/// As [`Snapshot::facts`].
pub(super) fn read_meta(database: &Database) -> EngineResult<Meta> {
    Snapshot::begin(database)?.facts()
}

pub(super) fn engine_error(error: impl Into<redb::Error>) -> Box<redb::Error> {
    Box::new(error.into())
}
