//! Writes under a lease that wait for the same turn go to the server as one atomic batch.
//!
//! A write under a lease is a batch: the check of its term, and the value. A server without replicas makes files for each
//! batch, and flushes them. So the writes that arrive while a batch is on its way are the next one: one check for each lane
//! that they name, and their values. The server stores all of them or none, and does not say whose condition does not hold.
//! So after a refusal each is sent alone.
//!
//! * A stream with replicas refuses a second check of a lane that is still in process. Each lane has turns of its own there.
//! * The writer that has the turn sends the writes of all that wait. If it is dropped, the writers that it sent for look for
//!   their values in the bucket, and the others go on.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use crate::connection::{BatchMessage, Connection};
use crate::errors::{RequestError, RequestResult};
use crate::state::lock;

/// The turns of a stream with replicas. Their number is fixed: different lanes may share them.
const TURNS: usize = 64;
/// The most writes of one batch. Source: a server takes 1,000 messages.
const WRITES_MAX: usize = 64;
/// The payload after which a batch takes no further write, in bytes.
const BYTES_MAX: usize = 1 << 20;

/// The writes under leases of one bucket that are not answered yet.
#[derive(Debug)]
pub(crate) struct WriteBatches {
    turns: Vec<Turn>,
    /// Whether each lane has turns of its own.
    is_replicated: AtomicBool,
}

#[derive(Debug, Default)]
struct Turn {
    taken: tokio::sync::Mutex<()>,
    waiting: Mutex<VecDeque<FencedWrite>>,
}

/// A write that waits for its turn.
#[derive(Debug)]
struct FencedWrite {
    lane: String,
    check: BatchMessage,
    value: BatchMessage,
    answer: oneshot::Sender<RequestResult<u64>>,
}

impl Default for WriteBatches {
    fn default() -> Self {
        Self { turns: (0..TURNS).map(|_| Turn::default()).collect(), is_replicated: AtomicBool::new(true) }
    }
}

impl WriteBatches {
    /// Records whether the stream has replicas.
    pub(crate) fn set_replicated(&self, is_replicated: bool) {
        self.is_replicated.store(is_replicated, Ordering::Relaxed);
    }

    /// Sends a value with the check of its lane, and returns the sequence of the value.
    ///
    /// *Cancel safety*: the value may be stored, or not.
    ///
    /// # Errors
    /// `Silent` also if the writer that sent this one was dropped.
    pub(crate) async fn send(
        &self,
        connection: &Connection,
        lane: &str,
        check: BatchMessage,
        value: BatchMessage,
    ) -> RequestResult<u64> {
        let turn = self.turn(lane);
        let (answer, mut answered) = oneshot::channel();
        lock(&turn.waiting).push_back(FencedWrite { lane: lane.to_owned(), check, value, answer });
        let _taken = turn.taken.lock().await;
        loop {
            match answered.try_recv() {
                Ok(answer) => return answer,
                Err(TryRecvError::Closed) => {
                    return Err(RequestError::Silent("the writer that sent it with its own write has gone".to_owned()));
                }
                Err(TryRecvError::Empty) => send_all(connection, turn.next_batch()).await,
            }
        }
    }

    fn turn(&self, lane: &str) -> &Turn {
        if !self.is_replicated.load(Ordering::Relaxed) {
            return &self.turns[0];
        }
        let mut hasher = DefaultHasher::new();
        lane.hash(&mut hasher);
        // The remainder is below the number of turns.
        &self.turns[usize::try_from(hasher.finish() % TURNS as u64).unwrap_or(0)]
    }
}

impl Turn {
    /// Takes the first writes of those that wait, without those whose writers have gone.
    fn next_batch(&self) -> Vec<FencedWrite> {
        let mut waiting = lock(&self.waiting);
        waiting.retain(|write| !write.answer.is_closed());
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

/// Sends writes as one batch, or each alone if the server refuses that, and answers them.
async fn send_all(connection: &Connection, batch: Vec<FencedWrite>) {
    let stored = connection.publish_batch(messages(&batch)).await;
    match stored {
        Err(failure) if batch.len() > 1 && !failure.leaves_outcome_open() => {
            for write in batch {
                let stored = connection.publish_batch(messages(std::slice::from_ref(&write))).await;
                answer(write, stored);
            }
        }
        stored => {
            let count = batch.len() as u64;
            for (at, write) in batch.into_iter().enumerate() {
                let before_last = count - 1 - at as u64;
                answer(write, stored.clone().map(|last| last.saturating_sub(before_last)));
            }
        }
    }
}

/// Returns the messages of a batch: one check for each lane, and then the values.
fn messages(batch: &[FencedWrite]) -> Vec<BatchMessage> {
    let is_first = |at: usize| batch[..at].iter().all(|earlier| earlier.lane != batch[at].lane);
    let checks = batch.iter().enumerate().filter(|(at, _)| is_first(*at)).map(|(_, write)| write.check.clone());
    checks.chain(batch.iter().map(|write| write.value.clone())).collect()
}

fn answer(write: FencedWrite, stored: RequestResult<u64>) {
    // The writer may have gone.
    drop(write.answer.send(stored));
}
