//! The network between one host and the store of the fleet: what it loses, delays and delivers late.

use std::collections::BTreeMap;
use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use homeostat_fleet::{Answer, Epoch, Identity, LeaseName, Observation, Request as LeaseRequest};
use homeostat_store::schema::Schemas;
use homeostat_store::{
    Changes, Error, Event, Fence, Key, Kind, LeaseRequests, LeaseStore, LeaseWatch, OtherTerm, Page, Query, Request,
    Resource, Result, Revision, Scope, Store, StoreStatus, Subscription, View, Watch, WriteResponse,
};
use homeostat_testing::Dice;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::journal::{Journal, Term};

/// How long a host waits for an answer to a request that is not of a lease.
const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// The faults of a link.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    /// Nothing passes.
    pub(super) is_cut: bool,
    /// A message takes up to this long.
    pub(super) delay_max: Duration,
    /// Of a hundred messages, the number that is lost.
    pub(super) lost_percent: u64,
    /// Of a hundred requests, the number that arrives up to [`Faults::late_max`] late, also if nobody waits any more: the
    /// host was frozen while it sent the request.
    pub(super) late_percent: u64,
    pub(super) late_max: Duration,
}

/// A link of one host.
pub(super) struct Link {
    faults: watch::Sender<Faults>,
    seed: u64,
    /// The dice of requests, by what these are about. Requests of one moment come in any order, which must not decide their
    /// delays.
    dice: Mutex<BTreeMap<String, Dice>>,
    /// A request arrives within this time, or never: a server without fences sees the time that a request has.
    bound: Option<Duration>,
}

impl Link {
    pub(super) fn new(seed: u64, bound: Option<Duration>) -> Arc<Self> {
        Arc::new(Self { faults: watch::Sender::default(), seed, dice: Mutex::default(), bound })
    }

    /// Casts the dice of the requests about something.
    fn cast<T>(&self, about: &str, cast: impl FnOnce(&mut Dice) -> T) -> T {
        let stream = || {
            let mut hasher = DefaultHasher::new();
            about.hash(&mut hasher);
            Dice::stream(self.seed, hasher.finish())
        };
        cast(self.dice.lock().entry(about.to_owned()).or_insert_with(stream))
    }

    pub(super) fn set(&self, faults: Faults) {
        self.faults.send_replace(faults);
    }

    fn faults(&self) -> Faults {
        *self.faults.borrow()
    }

    /// Returns the time that a message takes; `None` if it is lost.
    fn delay(&self, about: &str) -> Option<Duration> {
        let faults = self.faults();
        let micros = u64::try_from(faults.delay_max.as_micros()).unwrap();
        let (is_lost, delay) =
            self.cast(about, |dice| (dice.percent(faults.lost_percent), Duration::from_micros(dice.below(micros + 1))));
        (!faults.is_cut && !is_lost).then_some(delay)
    }

    /// Returns how late a request is.
    fn lateness(&self, about: &str) -> Duration {
        let faults = self.faults();
        let late_max = u64::try_from(faults.late_max.as_millis()).unwrap();
        let (is_late, millis) = self.cast(about, |dice| (dice.percent(faults.late_percent), dice.below(late_max + 1)));
        if is_late { Duration::from_millis(millis) } else { Duration::ZERO }
    }

    /// Sends a request, and waits for its answer. A request that is on its way arrives although its host has given it up,
    /// has died or is cut off.
    async fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        about: &str,
        carry_out: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let Some(delay) = self.delay(about) else { return std::future::pending().await };
        let (bound, sent) = (self.bound, Instant::now());
        let delay = delay + self.lateness(about);
        let arrival = tokio::spawn(async move {
            sleep(delay).await;
            if bound.is_some_and(|bound| sent.elapsed() > bound) {
                return std::future::pending().await;
            }
            carry_out.await
        });
        let answer = arrival.await.unwrap();
        let Some(delay) = self.delay(about) else { return std::future::pending().await };
        sleep(delay).await;
        answer
    }

    /// As [`Link::ask`], for a client that gives up.
    async fn ask_within<T: Send + 'static>(
        self: &Arc<Self>,
        about: &str,
        carry_out: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let late = |_| Err(Error::unavailable("the server does not answer in time"));
        timeout(ANSWER_WAIT, self.ask(about, carry_out)).await.unwrap_or_else(late)
    }

    /// Waits until the link is cut.
    async fn cut(&self) {
        let mut faults = self.faults.subscribe();
        // The sender lives as long as the link.
        let _cut = faults.wait_for(|faults| faults.is_cut).await;
    }
}

/// A store, as one host reaches it. It outlives the host.
pub(super) struct LinkedStore {
    pub(super) store: Arc<dyn Store>,
    /// `None` for the store that a host has to itself.
    pub(super) leases: Option<Arc<dyn LeaseStore>>,
    pub(super) link: Arc<Link>,
    pub(super) journal: Arc<Journal>,
    pub(super) host: Identity,
}

#[async_trait]
impl Store for LinkedStore {
    async fn get(&self, key: &Key) -> Result<Arc<Resource>> {
        let (store, key) = (Arc::clone(&self.store), key.clone());
        self.link.ask_within(&format!("get {key}"), async move { store.get(&key).await }).await
    }

    async fn list(&self, query: &Query) -> Result<Page> {
        let (store, query) = (Arc::clone(&self.store), query.clone());
        self.link.ask_within(&format!("list {}", query.kind), async move { store.list(&query).await }).await
    }

    async fn submit(&self, request: Request) -> Result<WriteResponse> {
        let (store, journal, host) = (Arc::clone(&self.store), Arc::clone(&self.journal), self.host.clone());
        let about = format!("write {:?}", request.write.target()?);
        self.link
            .ask_within(&about, async move {
                // The journal checks the fence.
                let Request { fence, .. } = request.clone();
                if let Some(Fence { lease, epoch }) = fence {
                    journal.arrive(&request, Term { host, lease, epoch })?;
                }
                let response = store.submit(Request { fence: None, ..request }).await?;
                journal.check_version(&response.resource);
                Ok(response)
            })
            .await
    }

    fn schemas(&self) -> Option<&Schemas> {
        self.store.schemas()
    }

    async fn watch(&self, scope: Scope, from: Revision) -> Result<Watch> {
        let (store, link) = (Arc::clone(&self.store), Arc::clone(&self.link));
        let about = format!("watch {scope:?}");
        let inner = self.link.ask_within(&about, async move { store.watch(scope, from).await }).await?;
        Ok(Watch::new(LinkedWatch { inner, link }))
    }

    async fn revision(&self, scope: &Scope) -> Result<Revision> {
        let (store, scope) = (Arc::clone(&self.store), scope.clone());
        self.link.ask_within(&format!("revision {scope:?}"), async move { store.revision(&scope).await }).await
    }

    fn subscribe(&self, kind: &Kind, view: View) -> Subscription {
        self.store.subscribe(kind, view)
    }

    fn status(&self) -> Vec<StoreStatus> {
        self.store.status()
    }

    fn leases(&self) -> Option<Arc<dyn LeaseStore>> {
        let (leases, link, journal) = (self.leases.clone()?, Arc::clone(&self.link), Arc::clone(&self.journal));
        Some(Arc::new(LinkedLeases { leases, link, journal }))
    }

    /// The store stays for the other hosts, and for the next start of this one.
    async fn close(&self) {}

    async fn kinds(&self) -> Result<Vec<Kind>> {
        let store = Arc::clone(&self.store);
        self.link.ask_within("kinds", async move { store.kinds().await }).await
    }
}

/// A watch that ends when the link is cut.
struct LinkedWatch {
    inner: Watch,
    link: Arc<Link>,
}

#[async_trait]
impl Changes for LinkedWatch {
    async fn next(&mut self) -> Result<Event> {
        tokio::select! {
            biased;
            () = self.link.cut() => Err(Error::unavailable("the connection is lost")),
            event = self.inner.next() => event,
        }
    }
}

/// The leases of the fleet, as one host reaches them.
struct LinkedLeases {
    leases: Arc<dyn LeaseStore>,
    link: Arc<Link>,
    journal: Arc<Journal>,
}

#[async_trait]
impl LeaseStore for LinkedLeases {
    fn lease(&self, name: &LeaseName, identity: &Identity, length: Duration) -> Result<Arc<dyn LeaseRequests>> {
        let requests = self.leases.lease(name, identity, length)?;
        let (link, journal, name, identity) =
            (Arc::clone(&self.link), Arc::clone(&self.journal), name.clone(), identity.clone());
        Ok(Arc::new(LinkedLease { requests, link, journal, name, identity }))
    }

    async fn raise_fence(&self, term: &OtherTerm) -> Result<Option<Fence>> {
        let (leases, term) = (Arc::clone(&self.leases), term.clone());
        self.link.ask_within(&format!("fence {}", term.lease), async move { leases.raise_fence(&term).await }).await
    }

    async fn watch_leases(&self) -> Result<Box<dyn LeaseWatch>> {
        let leases = Arc::clone(&self.leases);
        let inner = self.link.ask_within("watch of leases", async move { leases.watch_leases().await }).await?;
        Ok(Box::new(LinkedLeaseWatch { inner, link: Arc::clone(&self.link) }))
    }
}

struct LinkedLease {
    requests: Arc<dyn LeaseRequests>,
    link: Arc<Link>,
    journal: Arc<Journal>,
    name: LeaseName,
    identity: Identity,
}

#[async_trait]
impl LeaseRequests for LinkedLease {
    fn fence(&self, epoch: Epoch) -> Option<Fence> {
        self.requests.fence(epoch)
    }

    fn describe(&self, description: &str) {
        if self.name.is_of_rollout() {
            self.journal.note(&format!("{} writes into {}: {description}", self.identity, self.name));
        }
        self.requests.describe(description);
    }

    async fn carry_out(&self, request: &LeaseRequest) -> Result<Answer> {
        let (requests, request) = (Arc::clone(&self.requests), request.clone());
        let (journal, name, identity) = (Arc::clone(&self.journal), self.name.clone(), self.identity.clone());
        self.link
            .ask(&format!("lease {}", self.name), async move {
                let answer = requests.carry_out(&request).await?;
                if let (LeaseRequest::Acquire { .. }, Answer::Stored { epoch, .. }) = (&request, &answer) {
                    journal.acquired(&name, &identity, *epoch);
                }
                if let (LeaseRequest::Release { .. }, Answer::Stored { .. }) = (&request, &answer) {
                    journal.released(&name, &identity);
                }
                Ok(answer)
            })
            .await
    }
}

struct LinkedLeaseWatch {
    inner: Box<dyn LeaseWatch>,
    link: Arc<Link>,
}

#[async_trait]
impl LeaseWatch for LinkedLeaseWatch {
    async fn next(&mut self) -> Result<(LeaseName, Observation)> {
        tokio::select! {
            biased;
            () = self.link.cut() => Err(Error::unavailable("the connection is lost")),
            record = self.inner.next() => record,
        }
    }
}
