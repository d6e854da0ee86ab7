//! Room: what all requests together may hold at once, and what one client may.
//!
//! Who finds none waits, and is asked to come back when the wait is over, or when too many wait already. The clients that wait have turns, one
//! after the other, however many requests of each do: nobody waits behind the many of somebody else. And nobody takes all: a client that
//! holds something takes more of the same only as long as as much is left as it has then, or a part of that. So one client alone comes to half of
//! a room, two to a third each, and who comes next finds something free.
//!
//! Source: dynamic thresholds, by which switches share out their buffers (Choudhury, Hahne, 1998).

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::Metrics;
use crate::client::Client;
use crate::metrics::LimitKind;
use crate::status::Failure;

/// Seconds after which a client may ask again for what there was no room for. An API server says the same.
const RETRY_AFTER_S: u32 = 1;

/// Requests that wait for one room, of all clients and of one. More are refused at once.
const WAITING_MAX: usize = 4096;
const WAITING_OF_ONE_MAX: usize = WAITING_MAX / 4;

/// Room of one sort. Clones are the same.
#[derive(Clone)]
pub(crate) struct Limiter {
    scarce: LimitKind,
    shared: Arc<SharedLimiter>,
    wait: Duration,
    metrics: Metrics,
}

struct SharedLimiter {
    /// All of it.
    size: usize,
    state: Mutex<State>,
}

/// Pure: who may take what is decided here, and who waits is told.
#[derive(Debug, Default)]
struct State {
    free: usize,
    /// How many times what is left a client that holds something may come to.
    times: usize,
    waiting: usize,
    /// Those that hold something or wait.
    clients: BTreeMap<Client, ClientQueue>,
    /// Those that wait, the next one first. Each is here once.
    turns: VecDeque<Client>,
    /// The last number that was given to one who waits.
    number: u64,
}

/// One client.
#[derive(Debug, Default)]
struct ClientQueue {
    held: usize,
    waiting: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    number: u64,
    parts: usize,
    grant: oneshot::Sender<()>,
}

impl State {
    /// Returns whether a client may have so many parts more beside what it holds, as far as its share goes.
    fn is_fair(&self, client: &Client, parts: usize) -> bool {
        let held = self.clients.get(client).map_or(0, |line| line.held);
        held == 0 || held + parts <= self.free.saturating_mul(self.times)
    }

    /// Takes parts at once, where there are some and nobody waits for them.
    fn try_acquire(&mut self, client: &Client, parts: usize) -> bool {
        let takes = self.waiting == 0 && parts <= self.free && self.is_fair(client, parts);
        if takes {
            self.free -= parts;
            self.clients.entry(client.clone()).or_default().held += parts;
        }
        takes
    }

    /// Puts a request in the line of its client. `None`: too many wait.
    fn enqueue(&mut self, client: &Client, parts: usize) -> Option<(u64, oneshot::Receiver<()>)> {
        let of_one = self.clients.get(client).map_or(0, |line| line.waiting.len());
        if self.waiting >= WAITING_MAX || of_one >= WAITING_OF_ONE_MAX {
            return None;
        }
        let (told, hears) = oneshot::channel();
        (self.number, self.waiting) = (self.number + 1, self.waiting + 1);
        let waiter = Waiter { number: self.number, parts, grant: told };
        self.clients.entry(client.clone()).or_default().waiting.push_back(waiter);
        if of_one == 0 {
            self.turns.push_back(client.clone());
        }
        self.grant_waiting();
        Some((self.number, hears))
    }

    /// Gives parts back.
    fn release(&mut self, client: &Client, parts: usize) {
        self.free += parts;
        if let Some(line) = self.clients.get_mut(client) {
            line.held -= parts;
        }
        self.forget(client);
        self.grant_waiting();
    }

    /// Takes a request out of the line. Returns `false` where it is not there any more: it was told.
    fn dequeue(&mut self, client: &Client, number: u64) -> bool {
        let Some(line) = self.clients.get_mut(client) else { return false };
        let before = line.waiting.len();
        line.waiting.retain(|waiter| waiter.number != number);
        let (left, is_empty) = (line.waiting.len() < before, line.waiting.is_empty());
        if left {
            self.waiting -= 1;
            if is_empty {
                self.turns.retain(|waits| waits != client);
            }
            self.forget(client);
            self.grant_waiting();
        }
        left
    }

    /// Tells those whose turn it is. The first one for whom too little is free ends it, so that small ones do not pass it by for ever; one
    /// who has its share already does not.
    fn grant_waiting(&mut self) {
        let mut passed = 0;
        while passed < self.turns.len() {
            let Some(client) = self.turns.pop_front() else { return };
            let parts = self.clients.get(&client).and_then(|line| line.waiting.front()).map_or(0, |next| next.parts);
            if !self.is_fair(&client, parts) {
                self.turns.push_back(client);
                passed += 1;
                continue;
            }
            if parts > self.free {
                self.turns.push_front(client);
                return;
            }
            let line = self.clients.entry(client.clone()).or_default();
            let told = line.waiting.pop_front().is_some_and(|next| next.grant.send(()).is_ok());
            self.waiting -= 1;
            if told {
                self.free -= parts;
                line.held += parts;
            }
            match line.waiting.is_empty() {
                true => self.forget(&client),
                false => self.turns.push_back(client),
            }
            passed = 0;
        }
    }

    /// Forgets a client that has nothing and wants nothing.
    fn forget(&mut self, client: &Client) {
        if let Entry::Occupied(line) = self.clients.entry(client.clone())
            && line.get().held == 0
            && line.get().waiting.is_empty()
        {
            line.remove();
        }
    }
}

/// A part of a room, free again when it is dropped.
pub(crate) struct LimiterPermit {
    shared: Arc<SharedLimiter>,
    client: Client,
    parts: usize,
}

impl LimiterPermit {
    /// Adds another part of the same room, taken by the same client.
    pub(crate) fn add(&mut self, mut other: Self) {
        self.parts += std::mem::take(&mut other.parts);
    }
}

impl Drop for LimiterPermit {
    fn drop(&mut self) {
        self.shared.state.lock().release(&self.client, self.parts);
    }
}

impl std::fmt::Debug for LimiterPermit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held").field("client", &self.client).field("parts", &self.parts).finish_non_exhaustive()
    }
}

/// A request that waits, until it is told or gives up.
struct PendingAcquire<'r> {
    shared: &'r Arc<SharedLimiter>,
    client: &'r Client,
    parts: usize,
    number: u64,
    granted: oneshot::Receiver<()>,
    has_taken: bool,
}

impl Drop for PendingAcquire<'_> {
    fn drop(&mut self) {
        if self.has_taken {
            return;
        }
        let mut state = self.shared.state.lock();
        if !state.dequeue(self.client, self.number) && self.granted.try_recv().is_ok() {
            // Told, and gone before it heard.
            state.release(self.client, self.parts);
        }
    }
}

impl Limiter {
    /// Makes a room of `size` parts, in which there has to be a place within `wait`.
    pub(crate) fn new(scarce: LimitKind, size: usize, wait: Duration, metrics: Metrics) -> Self {
        let state = Mutex::new(State { free: size, times: 1, ..State::default() });
        Self { scarce, shared: Arc::new(SharedLimiter { size, state }), wait, metrics }
    }

    /// Lets one client come to so many times what it leaves.
    pub(crate) fn with_client_factor(self, times: usize) -> Self {
        self.shared.state.lock().times = times;
        self
    }

    /// Takes a part of the room for a client; all of it at most.
    ///
    /// # Errors
    /// 429 where there is none within the time. *Cancel safety*: nothing is taken.
    pub(crate) async fn acquire(&self, client: &Client, parts: usize) -> Result<LimiterPermit, Failure> {
        let Self { shared, wait, .. } = self;
        let parts = parts.min(shared.size);
        let held = || LimiterPermit { shared: shared.clone(), client: client.clone(), parts };
        let waits = {
            let mut state = shared.state.lock();
            if state.try_acquire(client, parts) {
                return Ok(held());
            }
            state.enqueue(client, parts)
        };
        let Some((number, hears)) = waits else { return Err(self.refusal()) };
        let mut waiting = PendingAcquire { shared, client, parts, number, granted: hears, has_taken: false };
        match tokio::time::timeout(*wait, &mut waiting.granted).await {
            Ok(Ok(())) => {
                waiting.has_taken = true;
                Ok(held())
            }
            _ => Err(self.refusal()),
        }
    }

    fn refusal(&self) -> Failure {
        self.metrics.refused(self.scarce);
        let what = match self.scarce {
            LimitKind::Watches => "there are as many watches as this server has room for",
            LimitKind::Requests => "there are as many requests as this server has room for",
            LimitKind::Lists => "there are as many lists being read as this server has room for",
            LimitKind::Bodies => "the bodies of other requests take all the room that this server has for them",
            LimitKind::Connections => "there are as many connections as this server has room for",
        };
        Failure::too_many(RETRY_AFTER_S, format!("{what}, or as many as one client may have, please try again later"))
    }
}

/// Holds something for as long as an answer is being sent.
pub(crate) fn hold_until_sent(response: Response, held: impl Send + Unpin + 'static) -> Response {
    response.map(|body| Body::new(HoldingBody { body, _held: held }))
}

/// A body that holds something.
struct HoldingBody<H> {
    body: Body,
    _held: H,
}

impl<H: Unpin> hyper::body::Body for HoldingBody<H> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests;
