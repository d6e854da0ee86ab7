//! The writes under leases of one bucket. Those that wait for the same turn go to the server as one atomic batch.
//!
//! A write under a lease is a batch: the check of its term, and the value. A server without replicas makes files for each
//! batch, and flushes them. So the writes that arrive while a batch is on its way are the next one: one check for each term
//! and lane that they name, and their values. The server does not say whose condition does not hold. So a refused batch is
//! sent again in halves, until each refused write is alone.
//!
//! * A stream with replicas refuses a second check of a lane that is still in process. So the writes of one lane have the same
//!   turn there.
//! * The writer that has the turn sends the writes of all that wait. If it is dropped, the writers that it sent for look for
//!   their values in the bucket, and the others go on.
//! * A server without replicas that reaches a limit of its account in the middle of a batch has stored the values before. A
//!   later refusal of these has no meaning: their writers look for them in the bucket.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use crate::connection::{BatchMessage, Connection};
use crate::errors::{RequestError, RequestResult};

/// The turns of a stream with replicas. Their number is fixed: different lanes may share them.
const TURNS: usize = 64;
/// The most writes of one batch. Source: a server takes 1,000 messages.
const WRITES_MAX: usize = 64;
/// The payload after which a batch takes no further write, in bytes.
const BYTES_MAX: usize = 1 << 20;

/// The writes that are not answered yet.
#[derive(Debug)]
pub(crate) struct FencedWrites {
    turns: Vec<Turn>,
    /// Whether the stream has replicas.
    is_replicated: AtomicBool,
}

#[derive(Debug, Default)]
struct Turn {
    taken: tokio::sync::Mutex<()>,
    waiting: Mutex<VecDeque<FencedWrite>>,
}

/// The check of a term in one lane.
#[derive(Debug, Clone)]
pub(crate) struct TermCheck {
    /// The subject of the lane, and the sequence that it has while the term goes on.
    pub(crate) condition: (String, u64),
    pub(crate) message: BatchMessage,
}

/// A write that waits for its turn.
#[derive(Debug)]
struct FencedWrite {
    check: TermCheck,
    value: BatchMessage,
    reply: oneshot::Sender<RequestResult<u64>>,
}

impl Default for FencedWrites {
    fn default() -> Self {
        Self { turns: (0..TURNS).map(|_| Turn::default()).collect(), is_replicated: AtomicBool::new(true) }
    }
}

impl FencedWrites {
    /// Records whether the stream has replicas.
    pub(crate) fn set_replicated(&self, is_replicated: bool) {
        self.is_replicated.store(is_replicated, Ordering::Relaxed);
    }

    pub(crate) fn is_replicated(&self) -> bool {
        self.is_replicated.load(Ordering::Relaxed)
    }

    /// Sends a value with the check of its term, and returns the sequence of the value.
    ///
    /// *Cancel safety*: the value may be stored, or not.
    ///
    /// # Errors
    /// `Silent` also if the writer that sent this value was dropped.
    pub(crate) async fn send(
        &self,
        connection: &Connection,
        check: TermCheck,
        value: BatchMessage,
    ) -> RequestResult<u64> {
        let turn = self.turn(&check.condition.0);
        let (reply, mut replied) = oneshot::channel();
        turn.waiting().push_back(FencedWrite { check, value, reply });
        let _taken = turn.taken.lock().await;
        loop {
            match replied.try_recv() {
                Ok(reply) => return reply,
                Err(TryRecvError::Closed) => {
                    return Err(RequestError::Silent("the writer that sent it with its own write has gone".to_owned()));
                }
                Err(TryRecvError::Empty) => send_all(connection, turn.next_batch()).await,
            }
        }
    }

    fn turn(&self, lane: &str) -> &Turn {
        if !self.is_replicated() {
            return &self.turns[0];
        }
        let mut hasher = DefaultHasher::new();
        lane.hash(&mut hasher);
        // The remainder is below the number of turns.
        &self.turns[usize::try_from(hasher.finish() % TURNS as u64).unwrap_or(0)]
    }
}

impl Turn {
    fn waiting(&self) -> MutexGuard<'_, VecDeque<FencedWrite>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the first writes of those that wait, without those whose writers have gone.
    fn next_batch(&self) -> Vec<FencedWrite> {
        let mut waiting = self.waiting();
        waiting.retain(|write| !write.reply.is_closed());
        let mut bytes = 0;
        let fits = |write: &&FencedWrite| {
            bytes += write.value.payload.len();
            bytes <= BYTES_MAX
        };
        let count = waiting.iter().take(WRITES_MAX).take_while(fits).count();
        let count = count.max(1).min(waiting.len());
        waiting.drain(..count).collect()
    }
}

/// Sends writes as one batch, or in smaller ones if the server refuses that, and replies to their writers.
async fn send_all(connection: &Connection, batch: Vec<FencedWrite>) {
    let mut batches = vec![batch];
    let mut may_be_stored = false;
    while let Some(mut batch) = batches.pop() {
        batch.retain(|write| !write.reply.is_closed());
        if batch.is_empty() {
            continue;
        }
        match connection.publish_batch(messages(&batch)).await {
            Err(failure) if batch.len() > 1 && failure.refuses_batch() => {
                may_be_stored |= !failure.is_wrong_sequence() && !failure.is_incomplete_batch();
                // The first half is the next one.
                let second = batch.split_off(batch.len() / 2);
                batches.extend([second, batch]);
            }
            Err(failure) if failure.is_wrong_sequence() && may_be_stored => {
                let reason = "a limit of the server ended a batch with it".to_owned();
                reply_all(batch, |_| Err(RequestError::Silent(reason.clone())));
            }
            Err(failure) if failure.leaves_outcome_open() => {
                // The server does not answer, so the others of the turn ask for themselves too.
                reply_all(batch, |_| Err(failure.clone()));
                batches.drain(..).for_each(|batch| reply_all(batch, |_| Err(failure.clone())));
            }
            Err(failure) => reply_all(batch, |_| Err(failure.clone())),
            Ok(last) => {
                let count = batch.len() as u64;
                reply_all(batch, |at| Ok(last.saturating_sub(count - 1 - at)));
            }
        }
    }
}

/// Returns the messages of a batch: one check for each condition, and then the values.
fn messages(batch: &[FencedWrite]) -> Vec<BatchMessage> {
    let is_first = |at: usize| batch[..at].iter().all(|earlier| earlier.check.condition != batch[at].check.condition);
    let checks = batch.iter().enumerate().filter(|(at, _)| is_first(*at)).map(|(_, write)| write.check.message.clone());
    checks.chain(batch.iter().map(|write| write.value.clone())).collect()
}

/// Replies to the writers of a batch, in their order.
fn reply_all(batch: Vec<FencedWrite>, reply: impl Fn(u64) -> RequestResult<u64>) {
    for (at, write) in (0..).zip(batch) {
        // The writer may have gone.
        drop(write.reply.send(reply(at)));
    }
}
