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
    kind: LimitKind,
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
    client_factor: usize,
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
    permits: usize,
    grant: oneshot::Sender<()>,
}

impl State {
    /// Returns whether a client's share allows so many more permits.
    fn is_fair(&self, client: &Client, permits: usize) -> bool {
        let held = self.clients.get(client).map_or(0, |queue| queue.held);
        held == 0 || held + permits <= self.free.saturating_mul(self.client_factor)
    }

    /// Takes permits at once, if they are free and no request waits.
    fn try_acquire(&mut self, client: &Client, permits: usize) -> bool {
        let is_free = self.waiting == 0 && permits <= self.free && self.is_fair(client, permits);
        if is_free {
            self.free -= permits;
            self.clients.entry(client.clone()).or_default().held += permits;
        }
        is_free
    }

    /// Queues a request of a client. Returns `None` if too many requests wait.
    fn enqueue(&mut self, client: &Client, permits: usize) -> Option<(u64, oneshot::Receiver<()>)> {
        let of_one = self.clients.get(client).map_or(0, |queue| queue.waiting.len());
        if self.waiting >= WAITING_MAX || of_one >= WAITING_OF_ONE_MAX {
            return None;
        }
        let (grant, granted) = oneshot::channel();
        (self.number, self.waiting) = (self.number + 1, self.waiting + 1);
        let waiter = Waiter { number: self.number, permits, grant };
        self.clients.entry(client.clone()).or_default().waiting.push_back(waiter);
        if of_one == 0 {
            self.turns.push_back(client.clone());
        }
        self.grant_waiting();
        Some((self.number, granted))
    }

    /// Returns permits.
    fn release(&mut self, client: &Client, permits: usize) {
        self.free += permits;
        if let Some(queue) = self.clients.get_mut(client) {
            queue.held -= permits;
        }
        self.forget(client);
        self.grant_waiting();
    }

    /// Removes a waiting request. Returns `false` if it is not waiting any more, because it was granted.
    fn dequeue(&mut self, client: &Client, number: u64) -> bool {
        let Some(queue) = self.clients.get_mut(client) else { return false };
        let before = queue.waiting.len();
        queue.waiting.retain(|waiter| waiter.number != number);
        let (was_waiting, is_empty) = (queue.waiting.len() < before, queue.waiting.is_empty());
        if was_waiting {
            self.waiting -= 1;
            if is_empty {
                self.turns.retain(|waits| waits != client);
            }
            self.forget(client);
            self.grant_waiting();
        }
        was_waiting
    }

    /// Grants permits in the order of turns.
    ///
    /// A request that needs more than is free blocks those behind it, so that small requests cannot starve
    /// it. A client at its share is skipped instead.
    fn grant_waiting(&mut self) {
        let mut passed = 0;
        while passed < self.turns.len() {
            let Some(client) = self.turns.pop_front() else { return };
            let permits =
                self.clients.get(&client).and_then(|queue| queue.waiting.front()).map_or(0, |next| next.permits);
            if !self.is_fair(&client, permits) {
                self.turns.push_back(client);
                passed += 1;
                continue;
            }
            if permits > self.free {
                self.turns.push_front(client);
                return;
            }
            let queue = self.clients.entry(client.clone()).or_default();
            let is_received = queue.waiting.pop_front().is_some_and(|next| next.grant.send(()).is_ok());
            self.waiting -= 1;
            if is_received {
                self.free -= permits;
                queue.held += permits;
            }
            match queue.waiting.is_empty() {
                true => self.forget(&client),
                false => self.turns.push_back(client),
            }
            passed = 0;
        }
    }

    /// Removes a client that neither holds permits nor waits.
    fn forget(&mut self, client: &Client) {
        if let Entry::Occupied(queue) = self.clients.entry(client.clone())
            && queue.get().held == 0
            && queue.get().waiting.is_empty()
        {
            queue.remove();
        }
    }
}

/// Permits of a limiter, returned when this value is dropped.
pub(crate) struct LimiterPermit {
    shared: Arc<SharedLimiter>,
    client: Client,
    permits: usize,
}

impl LimiterPermit {
    /// Merges other permits of the same limiter and client into these.
    pub(crate) fn add(&mut self, mut other: Self) {
        self.permits += std::mem::take(&mut other.permits);
    }
}

impl Drop for LimiterPermit {
    fn drop(&mut self) {
        self.shared.state.lock().release(&self.client, self.permits);
    }
}

impl std::fmt::Debug for LimiterPermit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LimiterPermit")
            .field("client", &self.client)
            .field("permits", &self.permits)
            .finish_non_exhaustive()
    }
}

/// A request that waits, until it is granted or dropped.
struct PendingAcquire<'r> {
    shared: &'r Arc<SharedLimiter>,
    client: &'r Client,
    permits: usize,
    number: u64,
    granted: oneshot::Receiver<()>,
    is_received: bool,
}

impl Drop for PendingAcquire<'_> {
    fn drop(&mut self) {
        if self.is_received {
            return;
        }
        let mut state = self.shared.state.lock();
        if !state.dequeue(self.client, self.number) && self.granted.try_recv().is_ok() {
            // Granted, and dropped before the grant was received.
            state.release(self.client, self.permits);
        }
    }
}

impl Limiter {
    /// Makes a limiter of `size` permits. A request waits for at most `wait`.
    pub(crate) fn new(kind: LimitKind, size: usize, wait: Duration, metrics: Metrics) -> Self {
        let state = Mutex::new(State { free: size, client_factor: 1, ..State::default() });
        Self { kind, shared: Arc::new(SharedLimiter { size, state }), wait, metrics }
    }

    /// Sets the factor between the free permits and one client's share.
    pub(crate) fn with_client_factor(self, client_factor: usize) -> Self {
        self.shared.state.lock().client_factor = client_factor;
        self
    }

    /// Takes permits for a client, at most `size`.
    ///
    /// *Cancel safety*: nothing is taken.
    ///
    /// # Errors
    /// 429 if the permits are not free in time.
    pub(crate) async fn acquire(&self, client: &Client, permits: usize) -> Result<LimiterPermit, Failure> {
        let Self { shared, wait, .. } = self;
        let permits = permits.min(shared.size);
        let permit = || LimiterPermit { shared: shared.clone(), client: client.clone(), permits };
        let enqueued = {
            let mut state = shared.state.lock();
            if state.try_acquire(client, permits) {
                return Ok(permit());
            }
            state.enqueue(client, permits)
        };
        let Some((number, granted)) = enqueued else { return Err(self.refusal()) };
        let mut pending = PendingAcquire { shared, client, permits, number, granted, is_received: false };
        match tokio::time::timeout(*wait, &mut pending.granted).await {
            Ok(Ok(())) => {
                pending.is_received = true;
                Ok(permit())
            }
            _ => Err(self.refusal()),
        }
    }

    fn refusal(&self) -> Failure {
        self.metrics.refused(self.kind);
        let what = match self.kind {
            LimitKind::Watches => "the limit of watches is reached",
            LimitKind::Requests => "the limit of concurrent requests is reached",
            LimitKind::Lists => "the limit of concurrent lists is reached",
            LimitKind::Bodies => "the limit of all request bodies is reached",
            LimitKind::Webhooks => "the limit of concurrent webhooks is reached",
            LimitKind::WebhookBodies => "the limit of the bodies of all webhooks is reached",
            LimitKind::Connections => "the limit of connections is reached",
        };
        Failure::too_many(RETRY_AFTER_S, format!("{what}, for the server or for one client, please try again later"))
    }
}

#[cfg(test)]
mod tests;
