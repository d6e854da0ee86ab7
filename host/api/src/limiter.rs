//! A limiter shares a number of permits between all requests, fairly by client.
//!
//! A request without permits waits. It is refused when its time is over, or at once if too many requests wait
//! already. Waiting clients take turns, however many requests each has, so no client waits behind a long
//! queue of another. No client takes everything: a client that holds permits gets more only if its new total
//! is at most the free permits times a factor. With a factor of 1, a single client gets half of the permits,
//! and two get a third each. So the next client always finds free permits.
//!
//! Source: dynamic thresholds, by which switches share their buffers (Choudhury, Hahne, 1998).

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::Metrics;
use crate::client::Client;
use crate::metrics::LimitKind;
use crate::status::Failure;

/// The `Retry-After` of a refused request, in seconds, as in an API server.
const RETRY_AFTER_S: u32 = 1;

/// Maximum number of waiting requests at one limiter, of all clients and of one. More are refused at once.
const WAITING_MAX: usize = 4096;
const WAITING_OF_ONE_MAX: usize = WAITING_MAX / 4;

/// A limiter of one kind. Clones share their permits.
#[derive(Clone)]
pub(crate) struct Limiter {
    scarce: LimitKind,
    shared: Arc<SharedLimiter>,
    wait: Duration,
    metrics: Metrics,
}

struct SharedLimiter {
    /// The number of permits.
    size: usize,
    state: Mutex<State>,
}

/// Pure: decides which client gets permits, and notifies the waiting requests.
#[derive(Debug, Default)]
struct State {
    free: usize,
    /// A client that holds permits may reach this factor times the free permits.
    times: usize,
    waiting: usize,
    /// The clients that hold permits or wait.
    clients: BTreeMap<Client, ClientQueue>,
    /// The waiting clients in the order of their turns, each once.
    turns: VecDeque<Client>,
    /// The number of the last waiting request.
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
    /// Returns whether a client's share allows so many more permits.
    fn is_fair(&self, client: &Client, parts: usize) -> bool {
        let held = self.clients.get(client).map_or(0, |line| line.held);
        held == 0 || held + parts <= self.free.saturating_mul(self.times)
    }

    /// Takes permits at once, if they are free and no request waits.
    fn try_acquire(&mut self, client: &Client, parts: usize) -> bool {
        let takes = self.waiting == 0 && parts <= self.free && self.is_fair(client, parts);
        if takes {
            self.free -= parts;
            self.clients.entry(client.clone()).or_default().held += parts;
        }
        takes
    }

    /// Queues a request of a client. Returns `None` if too many requests wait.
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

    /// Returns permits.
    fn release(&mut self, client: &Client, parts: usize) {
        self.free += parts;
        if let Some(line) = self.clients.get_mut(client) {
            line.held -= parts;
        }
        self.forget(client);
        self.grant_waiting();
    }

    /// Removes a waiting request. Returns `false` if it is not waiting any more, because it was granted.
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

    /// Grants permits in the order of turns.
    ///
    /// A request that needs more than is free blocks those behind it, so that small requests cannot starve
    /// it. A client at its share is skipped instead.
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

    /// Removes a client that neither holds permits nor waits.
    fn forget(&mut self, client: &Client) {
        if let Entry::Occupied(line) = self.clients.entry(client.clone())
            && line.get().held == 0
            && line.get().waiting.is_empty()
        {
            line.remove();
        }
    }
}

/// Permits of a limiter, returned when this value is dropped.
pub(crate) struct LimiterPermit {
    shared: Arc<SharedLimiter>,
    client: Client,
    parts: usize,
}

impl LimiterPermit {
    /// Merges other permits of the same limiter and client into these.
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
        f.debug_struct("LimiterPermit")
            .field("client", &self.client)
            .field("parts", &self.parts)
            .finish_non_exhaustive()
    }
}

/// A request that waits, until it is granted or dropped.
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
            // Granted, and dropped before the grant was received.
            state.release(self.client, self.parts);
        }
    }
}

impl Limiter {
    /// Makes a limiter of `size` permits. A request waits for at most `wait`.
    pub(crate) fn new(scarce: LimitKind, size: usize, wait: Duration, metrics: Metrics) -> Self {
        let state = Mutex::new(State { free: size, times: 1, ..State::default() });
        Self { scarce, shared: Arc::new(SharedLimiter { size, state }), wait, metrics }
    }

    /// Sets the factor between the free permits and one client's share.
    pub(crate) fn with_client_factor(self, times: usize) -> Self {
        self.shared.state.lock().times = times;
        self
    }

    /// Takes permits for a client, at most `size`.
    ///
    /// *Cancel safety*: nothing is taken.
    ///
    /// # Errors
    /// 429 if the permits are not free in time.
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
            LimitKind::Watches => "the limit of watches is reached",
            LimitKind::Requests => "the limit of concurrent requests is reached",
            LimitKind::Lists => "the limit of concurrent lists is reached",
            LimitKind::Bodies => "the limit of all request bodies is reached",
            LimitKind::Connections => "the limit of connections is reached",
        };
        Failure::too_many(RETRY_AFTER_S, format!("{what}, for the server or for one client, please try again later"))
    }
}

#[cfg(test)]
mod tests;
