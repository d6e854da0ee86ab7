//! The one thread that writes: group commit, history, and what happens when the disk fails.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use redb::{Database, ReadableTable, Table, WriteTransaction};
use tokio::sync::{mpsc, oneshot};

use super::Shared;
use super::codec::{self, LOG, LogRow, META, META_COMPACTED, META_REVISION, Meta, OWNERS, RESOURCES};
use super::read::Snapshot;
use crate::model::{Path, owner_prefix};
use crate::schema::Schemas;
use crate::semantics::{self, Decision, Performed};
use crate::watch::Tip;
use crate::{Error, Event, EventType, Options, Request, Resource, Result, Revision, Written};

/// A write and who waits for it.
pub(super) struct Job {
    pub(super) request: Request,
    pub(super) reply: oneshot::Sender<Result<Written>>,
}

/// Writes that share one sync, at most.
const BATCH_MAX: usize = 128;
/// Rows of the log that one transaction removes beyond those that it adds, so that no commit is held up by much.
const CUT_EXTRA_MAX: u64 = 64;
/// Size of the file from which every commit also saves what makes opening after a crash quick: 256 MiB.
const QUICK_REPAIR_BYTES: u64 = 256 << 20;

/// What a failed transaction is: an error of the engine, after which the store takes no more writes.
type Engine<T> = std::result::Result<T, Box<redb::Error>>;

/// What one write came to, and its event with the bytes that it takes.
type Outcome = Result<(Written, Option<(Event, u64)>)>;

/// Starts the thread. It ends when all senders of `queue` are gone and their writes are answered.
pub(super) fn spawn(shared: Arc<Shared>, queue: mpsc::Receiver<Job>, options: Options) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name("homeostat-store".to_owned()).spawn(move || {
        // Tells the end also when this thread panics.
        let _end = End(Arc::clone(&shared));
        run(&shared, queue, &options);
    })
}

struct End(Arc<Shared>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.tip.send_modify(|tip| tip.closed = true);
    }
}

fn run(shared: &Shared, mut queue: mpsc::Receiver<Job>, options: &Options) {
    let mut batch = Vec::with_capacity(BATCH_MAX);
    while queue.blocking_recv_many(&mut batch, BATCH_MAX) > 0 {
        let (requests, replies): (Vec<_>, Vec<_>) =
            batch.drain(..).map(|Job { request, reply }| (request, reply)).unzip();
        let answers = answer(shared, requests, replies.len(), options);
        for (reply, answer) in replies.into_iter().zip(answers) {
            // Who asked may have gone; the write stands all the same.
            drop(reply.send(answer));
        }
    }
}

/// Carries out a batch: after this the file is synced, the watches are told, and the answers can go out.
fn answer(shared: &Shared, requests: Vec<Request>, count: usize, options: &Options) -> Vec<Result<Written>> {
    let refused = |error: Error| vec![Err(error); count];
    if let Some(reason) = shared.poison.get() {
        return refused(Error::unavailable(reason));
    }
    let outcome = {
        let database = shared.database.blocking_read();
        match &*database {
            Some(database) => transact(shared, database, requests, options),
            None => return refused(Error::Closed),
        }
    };
    match outcome {
        Ok(Batch { answers, events }) => {
            publish(shared, events);
            answers
        }
        Err(error) => {
            let error = shared.poison.get_or_init(|| {
                format!("a write to {} failed, and what the disk holds is not known: {error}; restart to go on from what it holds", shared.place.name().display())
            });
            tracing::error!(%error, "the store takes no more writes");
            go_on_reading(shared);
            refused(Error::unavailable(error))
        }
    }
}

/// What a transaction came to.
struct Batch {
    /// One per write, in their order.
    answers: Vec<Result<Written>>,
    /// In the order of revisions, with the bytes that each takes.
    events: Vec<(Event, u64)>,
}

fn transact(shared: &Shared, database: &Database, requests: Vec<Request>, options: &Options) -> Engine<Batch> {
    let mut transaction = database.begin_write().map_err(engine)?;
    transaction.set_quick_repair(shared.place.len().is_ok_and(|len| len > QUICK_REPAIR_BYTES));
    let meta = Snapshot::of(database).and_then(|snapshot| snapshot.meta());
    let meta = meta.map_err(|error| Box::new(redb::Error::Corrupted(error.to_string())))?;
    let mut batch = Batch { answers: Vec::with_capacity(requests.len()), events: Vec::new() };
    {
        let mut tables = Tables::open(&transaction)?;
        for request in requests {
            let revision = Revision(meta.revision.0 + batch.events.len() as u64).next();
            let answer = match tables.perform(request, revision, &shared.schemas, options)? {
                Ok((written, event)) => {
                    batch.events.extend(event);
                    Ok(written)
                }
                Err(error) => Err(error),
            };
            batch.answers.push(answer);
        }
        if !batch.events.is_empty() {
            tables.finish(&meta, batch.events.len() as u64, options.history_max)?;
        }
    }
    if batch.events.is_empty() {
        transaction.abort().map_err(engine)?;
    } else {
        transaction.commit().map_err(engine)?;
    }
    Ok(batch)
}

fn publish(shared: &Shared, events: Vec<(Event, u64)>) {
    let Some(revision) = events.last().map(|(event, _)| event.revision) else {
        return;
    };
    {
        let mut recent = shared.recent.lock().expect("nobody panics while holding the events");
        for (event, bytes) in events {
            recent.push(event, bytes);
        }
    }
    shared.tip.send_replace(Tip { revision, closed: false });
}

/// Puts a database that never writes in place of the one that failed, which refuses even reads.
fn go_on_reading(shared: &Shared) {
    let mut database = shared.database.blocking_write();
    // The failed one has to let go of the file first.
    drop(database.take());
    match shared.place.open_read_only() {
        Ok(reading) => *database = Some(reading),
        Err(error) => tracing::error!(%error, path = %shared.place.name().display(), "the store cannot be read either"),
    }
}

/// The tables, open for writing.
struct Tables<'a> {
    resources: Table<'a, &'static [u8], &'static [u8]>,
    log: Table<'a, u64, &'static [u8]>,
    owners: Table<'a, &'static [u8], ()>,
    meta: Table<'a, &'static str, &'static str>,
}

impl<'a> Tables<'a> {
    fn open(transaction: &'a WriteTransaction) -> Engine<Self> {
        Ok(Self {
            resources: transaction.open_table(RESOURCES).map_err(engine)?,
            log: transaction.open_table(LOG).map_err(engine)?,
            owners: transaction.open_table(OWNERS).map_err(engine)?,
            meta: transaction.open_table(META).map_err(engine)?,
        })
    }

    /// Carries out one write. The inner error is the write's own; the outer one ends the whole transaction.
    fn perform(
        &mut self,
        request: Request,
        revision: Revision,
        schemas: &Schemas,
        options: &Options,
    ) -> Engine<Outcome> {
        let (mut failure, dry_run) = (None, request.dry_run);
        let performed = semantics::perform(&*options.source, schemas, request, revision, |key| {
            match self.resources.get(Path::of(key).0.as_slice()) {
                Ok(None) => Ok(None),
                Ok(Some(document)) => codec::resource(document.value()).map(Some),
                Err(error) => {
                    let answer = Error::unavailable(&error);
                    failure = Some(engine(error));
                    Err(answer)
                }
            }
        });
        if let Some(failure) = failure {
            return Err(failure);
        }
        let performed = match performed {
            Ok(performed) => performed,
            Err(error) => return Ok(Err(error)),
        };
        let change = performed.event();
        let resource = Arc::clone(performed.decision.resource());
        let mut event = None;
        if let Some(kind) = change.filter(|_| !dry_run) {
            let bytes = self.keep(&performed, kind, revision)?;
            let resource = Arc::clone(&resource);
            event = Some((Event { kind, resource, previous: performed.previous, revision }, bytes));
        }
        Ok(Ok((Written { resource, change }, event)))
    }

    /// Stores a change and its row of the log; returns how long that row is.
    fn keep(&mut self, performed: &Performed, kind: EventType, revision: Revision) -> Engine<u64> {
        let Performed { key, previous, decision } = performed;
        let path = Path::of(key);
        let document = codec::bytes(decision.resource());
        let before = previous.as_deref().map(codec::bytes).unwrap_or_default();
        for entry in previous.iter().flat_map(|previous| index(previous, &path)) {
            self.owners.remove(entry.as_slice()).map_err(engine)?;
        }
        if let Decision::Put(resource) = decision {
            self.resources.insert(path.0.as_slice(), document.as_slice()).map_err(engine)?;
            for entry in index(resource, &path) {
                self.owners.insert(entry.as_slice(), ()).map_err(engine)?;
            }
        } else {
            self.resources.remove(path.0.as_slice()).map_err(engine)?;
        }
        let row = LogRow { kind, path: &path.0, document: &document, previous: &before }.encode();
        self.log.insert(revision.0, row.as_slice()).map_err(engine)?;
        Ok(row.len() as u64)
    }

    /// Notes how far the store has come, and cuts a piece off the beginning of the log when it is too long.
    fn finish(&mut self, meta: &Meta, added: u64, history_max: u64) -> Engine<()> {
        let revision = Revision(meta.revision.0 + added);
        self.meta.insert(META_REVISION, revision.to_string().as_str()).map_err(engine)?;
        let excess = (revision.0 - meta.compacted.0).saturating_sub(history_max.max(1));
        let compacted = Revision(meta.compacted.0 + excess.min(added + CUT_EXTRA_MAX));
        if compacted == meta.compacted {
            return Ok(());
        }
        self.log.retain_in(..=compacted.0, |_, _| false).map_err(engine)?;
        self.meta.insert(META_COMPACTED, compacted.to_string().as_str()).map_err(engine)?;
        Ok(())
    }
}

/// Returns the entries of the owner index for a resource.
fn index(resource: &Resource, path: &Path) -> impl Iterator<Item = Vec<u8>> {
    resource.owners().into_iter().map(|owner| {
        let mut entry = owner_prefix(&owner.uid);
        entry.extend(&path.0);
        entry
    })
}

fn engine(error: impl Into<redb::Error>) -> Box<redb::Error> {
    Box::new(error.into())
}
