//! The one thread that writes: group commit, journal, history, and what happens when the disk fails.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use redb::{Database, Durability, ReadableTable, Table, WriteTransaction};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};

use super::Shared;
use super::codec::{
    self, LOG, LogRow, META, META_COMPACTED, META_MEASURE, META_REVISION, Meta, OWNERS, RESOURCES, TIMES,
};
use super::journal::Journal;
use super::read::Snapshot;
use super::reopen::{go_on_reading, reopen};
use super::retention::{self, CUT_EXTRA_MAX, CUT_IDLE_MAX, Kept, Rows, SLEEP_MAX, milliseconds};
use crate::history::Bounds;
use crate::model::{Path, owner_prefix};
use crate::schema::Schemas;
use crate::semantics::{self, Performed};
use crate::watch::Tip;
use crate::{Error, Event, EventType, Options, Request, Resource, Result, Revision, Written};

/// A write and who waits for it.
pub(super) struct Job {
    pub(super) request: Request,
    pub(super) reply: oneshot::Sender<Result<Written>>,
}

/// Writes that share one sync, at most.
const BATCH_MAX: usize = 128;
/// Size of the file from which every commit also saves what makes opening after a crash quick: 256 MiB.
const QUICK_REPAIR_BYTES: u64 = 256 << 20;

/// What a failed transaction is: an error of the engine, after which the store takes no more writes.
pub(super) type Engine<T> = std::result::Result<T, Box<redb::Error>>;

/// What one write came to, and its event with the bytes that it takes.
type Outcome = Result<(Written, Option<(Event, u64)>)>;

/// What a transaction came to, or why it could not be carried out.
type Tried<T> = std::result::Result<T, Failure>;

/// What kept a transaction from being carried out.
enum Failure {
    /// Something that it needs could not be read. Nothing was written, so it is as if nobody had asked.
    Before(Box<redb::Error>),
    /// What the disk holds is not known.
    Written(Box<redb::Error>),
}

/// Starts the thread. It ends when all senders of `queue` are gone and their writes are answered.
pub(super) fn spawn(shared: Arc<Shared>, queue: mpsc::Receiver<Job>, options: Options) -> io::Result<JoinHandle<()>> {
    // To wait for a write or for a time, whichever comes first.
    let clock = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    thread::Builder::new().name("homeostat-store".to_owned()).spawn(move || {
        // Tells the end also when this thread panics.
        let _end = End(Arc::clone(&shared));
        run(&shared, &clock, queue, &options);
    })
}

struct End(Arc<Shared>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.tip.send_modify(|tip| tip.closed = true);
    }
}

fn run(shared: &Shared, clock: &Runtime, mut queue: mpsc::Receiver<Job>, options: &Options) {
    let mut batch = Vec::with_capacity(BATCH_MAX);
    let mut sleep = next_cut(shared, options);
    loop {
        let jobs = queue.recv_many(&mut batch, BATCH_MAX);
        let received = clock.block_on(async {
            match sleep {
                Some(sleep) => tokio::time::timeout(sleep, jobs).await.ok(),
                None => Some(jobs.await),
            }
        });
        match received {
            Some(0) => return,
            Some(_) => {}
            None => {
                let cut = cut_idle(shared, options);
                sleep = next_cut(shared, options);
                if !cut {
                    // Nothing came of it: not again at once, whatever the reason.
                    sleep = sleep.map(|_| SLEEP_MAX);
                }
                continue;
            }
        }
        let (requests, replies): (Vec<_>, Vec<_>) =
            batch.drain(..).map(|Job { request, reply }| (request, reply)).unzip();
        let answers = answer(shared, requests, options);
        for (reply, answer) in replies.into_iter().zip(answers) {
            // Who asked may have gone; the write stands all the same.
            drop(reply.send(answer));
        }
        sleep = next_cut(shared, options);
    }
}

/// Returns how long nothing has to be cut off the log when nobody writes; `None` for ever.
fn next_cut(shared: &Shared, options: &Options) -> Option<Duration> {
    if shared.refusal().is_some() {
        return None;
    }
    let database = shared.database.blocking_read();
    let snapshot = Snapshot::of(database.as_ref()?).ok()?;
    let (meta, oldest_ms) = (snapshot.meta().ok()?, snapshot.oldest_time().ok()?);
    retention::sleep(&meta, oldest_ms, milliseconds(options.source.now()), &Bounds::of(options))
}

/// Cuts a piece off the log in a transaction of its own; returns whether there was something.
fn cut_idle(shared: &Shared, options: &Options) -> bool {
    if shared.refusal().is_some() {
        return false;
    }
    match carry_out(shared, Vec::new(), options) {
        Some(Ok(Batch { compacted, .. })) => compacted.inspect(|compacted| forget(shared, *compacted)).is_some(),
        Some(Err(failure)) => {
            give_up(shared, &failure);
            false
        }
        None => false,
    }
}

/// Lets go of the events in memory that are no longer in the log.
fn forget(shared: &Shared, compacted: Revision) {
    shared.recent.lock().expect("nobody panics while holding the events").forget(compacted);
}

/// Returns why a batch is refused. When it may be on the disk, all later ones are too.
fn give_up(shared: &Shared, failure: &Failure) -> Error {
    match failure {
        Failure::Written(error) => fail(shared, error),
        Failure::Before(error) => {
            let path = shared.place.name().display();
            tracing::error!(%error, %path, "writes are refused, because what they need cannot be read");
            reopen(shared);
            Error::unavailable(format!("reading {path} failed: {error}; nothing was written"))
        }
    }
}

/// Refuses writes from now on, because of what happened to one.
fn fail(shared: &Shared, error: &redb::Error) -> Error {
    let error = shared.poison.get_or_init(|| {
        format!(
            "a write to {} failed, and what the disk holds is not known: {error}; restart to go on from what it holds",
            shared.place.name().display()
        )
    });
    tracing::error!(%error, "the store takes no more writes");
    go_on_reading(shared);
    Error::unavailable(error)
}

/// Carries out a batch: after this the file is synced, the watches are told, and the answers can go out.
fn answer(shared: &Shared, requests: Vec<Request>, options: &Options) -> Vec<Result<Written>> {
    let count = requests.len();
    let refused = |error: Error| vec![Err(error); count];
    if let Some(error) = shared.refusal() {
        return refused(error);
    }
    match carry_out(shared, requests, options) {
        Some(Ok(Batch { answers, events, compacted })) => {
            publish(shared, events, options.source.now());
            if let Some(compacted) = compacted {
                forget(shared, compacted);
            }
            answers
        }
        Some(Err(failure)) => refused(give_up(shared, &failure)),
        None => refused(shared.why_gone()),
    }
}

/// Carries out a transaction; `None` when nothing is open.
fn carry_out(shared: &Shared, requests: Vec<Request>, options: &Options) -> Option<Tried<Batch>> {
    {
        let database = shared.database.blocking_read();
        match database.as_ref()?.begin_write() {
            Ok(transaction) => return Some(transact(shared, database.as_ref()?, transaction, requests, options)),
            Err(error) if shared.is_shut() => return Some(Err(Failure::Written(engine(error)))),
            // A read has failed, and nobody has opened the place anew yet.
            Err(_) => {}
        }
    }
    reopen(shared);
    let database = shared.database.blocking_read();
    let database = database.as_ref()?;
    Some(match database.begin_write() {
        Ok(transaction) => transact(shared, database, transaction, requests, options),
        Err(error) => Err(Failure::Before(engine(error))),
    })
}

/// What a transaction came to.
struct Batch {
    /// One per write, in their order.
    answers: Vec<Result<Written>>,
    /// In the order of revisions, with the bytes that each takes in the log.
    events: Vec<(Event, u64)>,
    /// Where the log begins now, when that or what is known of the log has changed.
    compacted: Option<Revision>,
}

fn transact(
    shared: &Shared,
    database: &Database,
    transaction: WriteTransaction,
    requests: Vec<Request>,
    options: &Options,
) -> Tried<Batch> {
    let mut journal = shared.journal();
    // The engine may write pages before it commits.
    let prepared = prepare(shared, database, &transaction, &mut journal, requests, options)
        .map_err(|error| if shared.is_shut() { Failure::Written(error) } else { Failure::Before(error) });
    let (batch, meta, now_ms) = prepared?;
    let Some(compacted) = batch.compacted else {
        return match transaction.abort() {
            Ok(()) => Ok(batch),
            Err(error) if shared.is_shut() => Err(Failure::Written(engine(error))),
            Err(error) => Err(Failure::Before(engine(error))),
        };
    };
    let last = Revision(meta.revision.0 + batch.events.len() as u64);
    commit(shared, transaction, &mut journal, (meta.revision, last), now_ms, compacted).map_err(Failure::Written)?;
    Ok(batch)
}

/// Makes the changes of a transaction in memory. Returns the facts from before it, and when it was, in milliseconds since 1970.
fn prepare(
    shared: &Shared,
    database: &Database,
    transaction: &WriteTransaction,
    journal: &mut Journal,
    requests: Vec<Request>,
    options: &Options,
) -> Engine<(Batch, Meta, u64)> {
    let meta = meta(database)?;
    let now_ms = milliseconds(options.source.now());
    let idle = requests.is_empty();
    let mut batch = Batch { answers: Vec::with_capacity(requests.len()), events: Vec::new(), compacted: None };
    journal.begin_entry();
    let mut tables = Tables::open(transaction)?;
    for request in requests {
        let revision = Revision(meta.revision.0 + batch.events.len() as u64).next();
        let answer = tables.perform(request, revision, journal, &shared.schemas, options)?;
        batch.answers.push(answer.map(|(written, event)| {
            batch.events.extend(event);
            written
        }));
    }
    if idle || !batch.events.is_empty() {
        let added = (batch.events.len() as u64, batch.events.iter().map(|(_, bytes)| bytes).sum());
        let rows_max = if idle { CUT_IDLE_MAX } else { CUT_EXTRA_MAX };
        let kept = tables.finish(&meta, added, rows_max, now_ms, &Bounds::of(options))?;
        batch.compacted = kept.map(|meta| meta.compacted);
    }
    Ok((batch, meta, now_ms))
}

/// Puts the changes of a transaction on the disk: from the first revision up to the last one.
fn commit(
    shared: &Shared,
    mut transaction: WriteTransaction,
    journal: &mut Journal,
    (before, last): (Revision, Revision),
    now_ms: u64,
    compacted: Revision,
) -> Engine<()> {
    if journal.append(before.next(), now_ms, compacted).map_err(engine)? {
        // On the disk already, in the journal; the pages follow when that is full, or the store is closed.
        transaction.set_durability(Durability::None).map_err(engine)?;
        transaction.commit().map_err(engine)?;
    } else {
        transaction.set_quick_repair(shared.place.len().is_ok_and(|len| len > QUICK_REPAIR_BYTES));
        transaction.commit().map_err(engine)?;
        journal.restart(last);
    }
    Ok(())
}

/// Reads the facts about the store as they are now.
pub(super) fn meta(database: &Database) -> Engine<Meta> {
    let meta = Snapshot::of(database).and_then(|snapshot| snapshot.meta());
    meta.map_err(|error| Box::new(redb::Error::Corrupted(error.to_string())))
}

fn publish(shared: &Shared, events: Vec<(Event, u64)>, now: SystemTime) {
    let Some(revision) = events.last().map(|(event, _)| event.revision) else {
        return;
    };
    {
        let mut recent = shared.recent.lock().expect("nobody panics while holding the events");
        for (event, bytes) in events {
            recent.push(event, bytes, now);
        }
    }
    shared.tip.send_replace(Tip { revision, closed: false });
}

/// The tables, open for writing.
pub(super) struct Tables<'a> {
    resources: Table<'a, &'static [u8], &'static [u8]>,
    log: Table<'a, u64, &'static [u8]>,
    owners: Table<'a, &'static [u8], ()>,
    times: Table<'a, u64, u64>,
    meta: Table<'a, &'static str, &'static str>,
}

impl<'a> Tables<'a> {
    pub(super) fn open(transaction: &'a WriteTransaction) -> Engine<Self> {
        Ok(Self {
            resources: transaction.open_table(RESOURCES).map_err(engine)?,
            log: transaction.open_table(LOG).map_err(engine)?,
            owners: transaction.open_table(OWNERS).map_err(engine)?,
            times: transaction.open_table(TIMES).map_err(engine)?,
            meta: transaction.open_table(META).map_err(engine)?,
        })
    }

    /// Carries out one write. The inner error is the write's own; the outer one ends the whole transaction.
    fn perform(
        &mut self,
        request: Request,
        revision: Revision,
        journal: &mut Journal,
        schemas: &Schemas,
        options: &Options,
    ) -> Engine<Outcome> {
        let (mut failure, mut before, dry_run) = (None, Vec::new(), request.dry_run);
        let performed = semantics::perform(&*options.source, schemas, request, revision, |key| {
            match self.resources.get(Path::of(key).0.as_slice()) {
                Ok(None) => {
                    before.clear();
                    Ok(None)
                }
                Ok(Some(document)) => {
                    before = document.value().to_vec();
                    codec::resource(&before).map(Some)
                }
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
        let unknown = performed.unknown.clone();
        let mut changed = None;
        if let Some(kind) = change.filter(|_| !dry_run) {
            let Performed { key, previous, decision: _, unknown: _ } = performed;
            let (path, document) = (Path::of(&key), codec::bytes(&resource));
            let row = LogRow { kind, path: &path.0, document: &document, previous: &before };
            let event = Event { kind, resource: Arc::clone(&resource), previous, revision };
            let bytes = self.keep(&row, &event)?;
            // What was there before the change is there when it is made again.
            journal.add(|entry| LogRow { previous: &[], ..row }.append(entry));
            changed = Some((event, bytes));
        }
        Ok(Ok((Written { resource, change, unknown }, changed)))
    }

    /// Stores a change and its row of the log; returns how long that row is.
    fn keep(&mut self, row: &LogRow<'_>, event: &Event) -> Engine<u64> {
        let path = Path(row.path.to_vec());
        for entry in event.previous.iter().flat_map(|previous| index(previous, &path)) {
            self.owners.remove(entry.as_slice()).map_err(engine)?;
        }
        if event.kind == EventType::Deleted {
            self.resources.remove(row.path).map_err(engine)?;
        } else {
            self.resources.insert(row.path, row.document).map_err(engine)?;
            for entry in index(&event.resource, &path) {
                self.owners.insert(entry.as_slice(), ()).map_err(engine)?;
            }
        }
        let bytes = row.encode();
        self.log.insert(event.revision.0, bytes.as_slice()).map_err(engine)?;
        Ok(bytes.len() as u64)
    }

    /// Makes a change again that is in the journal; returns how long its row of the log is.
    pub(super) fn redo(&mut self, row: &[u8], revision: Revision) -> Engine<u64> {
        let damaged = |error: Error| Box::new(redb::Error::Corrupted(error.to_string()));
        let row = LogRow::decode(row).map_err(damaged)?;
        let before = self.resources.get(row.path).map_err(engine)?.map(|document| document.value().to_vec());
        let row = LogRow { previous: before.as_deref().unwrap_or_default(), ..row };
        let event = row.event(revision).map_err(damaged)?;
        self.keep(&row, &event)
    }

    /// Notes how far the store has come, and cuts a piece off the beginning of the log when it is too long, too old or too large.
    ///
    /// Returns the facts as they are now; `None` when nothing was added, cut or learnt.
    pub(super) fn finish(
        &mut self,
        meta: &Meta,
        added: (u64, u64),
        rows_max: u64,
        now_ms: u64,
        bounds: &Bounds,
    ) -> Engine<Option<Meta>> {
        let mut rows = Rows { log: &mut self.log, times: &mut self.times };
        let Kept { compacted, measure } = rows.keep(meta, added, rows_max, now_ms, bounds)?;
        if added.0 == 0 && compacted == meta.compacted && meta.measure == Some(measure) {
            return Ok(None);
        }
        let revision = Revision(meta.revision.0 + added.0);
        self.meta.insert(META_REVISION, revision.to_string().as_str()).map_err(engine)?;
        self.meta.insert(META_COMPACTED, compacted.to_string().as_str()).map_err(engine)?;
        self.meta.insert(META_MEASURE, measure.encode(revision).as_str()).map_err(engine)?;
        Ok(Some(Meta { id: meta.id.clone(), revision, compacted, measure: Some(measure) }))
    }
}

/// Returns the entries of the owner index for a resource.
pub(super) fn index(resource: &Resource, path: &Path) -> impl Iterator<Item = Vec<u8>> {
    resource.owners().into_iter().map(|owner| {
        let mut entry = owner_prefix(&owner.uid);
        entry.extend(&path.0);
        entry
    })
}

pub(super) fn engine(error: impl Into<redb::Error>) -> Box<redb::Error> {
    Box::new(error.into())
}
