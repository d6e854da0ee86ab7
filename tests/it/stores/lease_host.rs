//! A host with the machine of one lease, for tests against the servers that keep its record.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use homeostat_fleet::{
    AcquireCondition, Action, Answer, Epoch, Event, Identity, Lease, LeaseName, Request, RequestId, Times, Version,
};
use homeostat_store::cached::Upstream;
use homeostat_store::{LeaseRequests, LeaseStore};
use homeostat_testing::soon;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

/// Times with room for a busy machine.
pub(super) const TIMES: Times = Times {
    length: Duration::from_secs(4),
    renew_deadline: Duration::from_millis(2500),
    retry_period: Duration::from_millis(300),
    request_timeout: Duration::from_secs(1),
    in_flight_max: Duration::from_secs(1),
};

/// Times with which a server can be started again within a term.
pub(super) const LONG: Times = Times {
    length: Duration::from_secs(120),
    renew_deadline: Duration::from_secs(90),
    retry_period: Duration::from_millis(300),
    ..TIMES
};

/// Returns the name of the lease of a singleton.
pub(super) fn name(controller: &str) -> LeaseName {
    LeaseName::new(controller, 0, 1).unwrap()
}

/// Returns the requests of one lease of a store.
pub(super) fn lease(store: &Arc<impl Upstream>, controller: &str, identity: &str) -> Arc<dyn LeaseRequests> {
    store.leases().unwrap().lease(&name(controller), &Identity::new(identity), TIMES.length).unwrap()
}

/// The first acquisition of a lease.
pub(super) const NEW: Request = Request::Acquire { expected: AcquireCondition::Absent { fence: None }, transitions: 0 };

/// Acquires a lease, and returns its new version and epoch.
pub(super) async fn acquired(lease: &Arc<dyn LeaseRequests>, request: &Request) -> (Version, Epoch) {
    match lease.carry_out(request).await {
        Ok(Answer::Stored { version, epoch }) => (version, epoch),
        answer => panic!("{request:?}: {answer:?}"),
    }
}

/// Returns the acquisition of a lease whose record has a version.
pub(super) fn over(version: Version) -> Request {
    Request::Acquire { expected: AcquireCondition::Version(version), transitions: 1 }
}

/// All terms of one lease, as its hosts began them.
#[derive(Default)]
pub(super) struct Terms {
    holders: AtomicU64,
    holders_max: AtomicU64,
    begun: Mutex<Vec<Term>>,
}

struct Term {
    epoch: Epoch,
    identity: String,
    from: SystemTime,
    /// `None` while it goes on.
    until: Option<SystemTime>,
}

impl Terms {
    /// Checks that no two hosts held the lease at once, and that every term has an epoch above those before.
    pub(super) fn check(&self) -> Vec<(Epoch, String)> {
        assert!(self.holders_max.load(Ordering::SeqCst) <= 1, "two hosts held the lease");
        let begun: Vec<_> = self.begun.lock().unwrap().iter().map(|term| (term.epoch, term.identity.clone())).collect();
        assert!(begun.windows(2).all(|terms| terms[0].0 < terms[1].0), "{begun:?}");
        begun
    }

    /// Returns the times between which each term went on.
    pub(super) fn spans(&self) -> Vec<(SystemTime, SystemTime)> {
        let now = SystemTime::now();
        self.begun.lock().unwrap().iter().map(|term| (term.from, term.until.unwrap_or(now))).collect()
    }

    fn begin(&self, epoch: Epoch, identity: &str) {
        self.count_in();
        let (from, identity) = (SystemTime::now(), identity.to_owned());
        self.begun.lock().unwrap().push(Term { epoch, identity, from, until: None });
    }

    fn end(&self, epoch: Epoch) {
        let mut begun = self.begun.lock().unwrap();
        if let Some(term) = begun.iter_mut().find(|term| term.epoch == epoch) {
            term.until = Some(SystemTime::now());
        }
    }

    fn count_in(&self) {
        let holders = self.holders.fetch_add(1, Ordering::SeqCst) + 1;
        self.holders_max.fetch_max(holders, Ordering::SeqCst);
    }

    fn count_out(&self) {
        self.holders.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A host with the machine of one lease, whose workers end at once when they have to. It crashes when this is
/// dropped.
pub(super) struct LeaseHost {
    events: mpsc::Sender<Input>,
    held: watch::Receiver<Option<Epoch>>,
    task: AbortHandle,
}

#[derive(Debug)]
enum Input {
    Event(Event),
    Answer(RequestId, Answer),
    /// Nothing of the host runs until the other end is dropped.
    Freeze(oneshot::Receiver<()>),
}

impl Drop for LeaseHost {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl LeaseHost {
    /// Starts a host that does not want the lease yet.
    pub(super) fn start(
        store: &Arc<impl Upstream>,
        controller: &str,
        identity: &str,
        times: Times,
        terms: &Arc<Terms>,
    ) -> Self {
        times.check().unwrap();
        let leases = store.leases().unwrap();
        let requests = leases.lease(&name(controller), &Identity::new(identity), times.length).unwrap();
        let (events, inputs) = mpsc::channel(64);
        let (held, holds) = watch::channel(None);
        let machine = Lease::new(Identity::new(identity), times, identity.bytes().map(u64::from).sum());
        let driver = Driver {
            machine,
            requests,
            held,
            started: Instant::now(),
            events: events.clone(),
            terms: Arc::clone(terms),
            identity: identity.to_owned(),
            term: None,
            tasks: JoinSet::new(),
        };
        let watcher = observe(leases, name(controller), events.clone());
        let task = tokio::spawn(driver.run(inputs, watcher)).abort_handle();
        Self { events, held: holds, task }
    }

    pub(super) async fn send(&self, event: Event) {
        self.events.send(Input::Event(event)).await.unwrap();
    }

    /// Lets the host acquire the lease from now on.
    pub(super) async fn wants(&self) {
        self.send(Event::Candidacy(Some(Duration::ZERO))).await;
    }

    /// Ends the term, and wants no other one.
    pub(super) async fn gives_up(&self, preferred_holder: Option<&str>) {
        self.send(Event::Candidacy(None)).await;
        self.send(Event::Release { preferred_holder: preferred_holder.map(Identity::new) }).await;
    }

    /// Stops the host until the returned value is dropped.
    pub(super) async fn freeze(&self) -> oneshot::Sender<()> {
        let (thaw, thawed) = oneshot::channel();
        self.events.send(Input::Freeze(thawed)).await.unwrap();
        thaw
    }

    /// Returns the epoch of the present term.
    pub(super) fn epoch(&self) -> Option<Epoch> {
        *self.held.borrow()
    }

    /// Waits for a term.
    pub(super) async fn holds(&self) -> Epoch {
        let mut held = self.held.clone();
        let epoch = *soon(held.wait_for(Option::is_some)).await.unwrap();
        epoch.unwrap()
    }

    /// Waits for the end of the term.
    pub(super) async fn has_lost(&self) {
        let mut held = self.held.clone();
        soon(held.wait_for(Option::is_none)).await.unwrap();
    }
}

/// Passes what the stream of leases tells, and opens it again when it ends.
async fn observe(leases: Arc<dyn LeaseStore>, name: LeaseName, events: mpsc::Sender<Input>) {
    loop {
        if let Ok(mut stream) = leases.watch_leases().await {
            while let Ok((of, observation)) = stream.next().await {
                if of == name && events.send(Input::Event(Event::Observed(observation))).await.is_err() {
                    return;
                }
            }
        }
        // The servers are away.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

struct Driver {
    machine: Lease,
    requests: Arc<dyn LeaseRequests>,
    held: watch::Sender<Option<Epoch>>,
    started: Instant,
    events: mpsc::Sender<Input>,
    terms: Arc<Terms>,
    identity: String,
    /// The term under which workers run.
    term: Option<Epoch>,
    tasks: JoinSet<()>,
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.end();
    }
}

impl Driver {
    async fn run(mut self, mut inputs: mpsc::Receiver<Input>, watcher: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(watcher);
        loop {
            let tick = self
                .machine
                .next_tick()
                .map_or(Duration::from_millis(100), |at| at.saturating_sub(self.started.elapsed()));
            let input = tokio::time::timeout(tick, inputs.recv()).await;
            let event = match input {
                Ok(None) => return,
                Ok(Some(Input::Event(event))) => event,
                Ok(Some(Input::Answer(id, answer))) => Event::Answered { id, answer },
                Ok(Some(Input::Freeze(thawed))) => {
                    self.freeze(thawed).await;
                    continue;
                }
                Err(_) => Event::Tick,
            };
            self.step(event);
        }
    }

    /// Does nothing until `thawed`. Frozen workers do nothing either; afterwards they work as long as the machine
    /// says that they may.
    async fn freeze(&mut self, thawed: oneshot::Receiver<()>) {
        let term = self.term.take();
        if term.is_some() {
            self.terms.count_out();
        }
        // The sender is dropped.
        thawed.await.unwrap_or_default();
        let Some(epoch) = term else { return };
        if self.machine.holds(self.started.elapsed()) == Some(epoch) {
            self.term = Some(epoch);
            self.terms.count_in();
        } else {
            self.terms.end(epoch);
        }
    }

    fn step(&mut self, event: Event) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            for action in self.machine.step(self.started.elapsed(), event) {
                match action {
                    Action::Send { id, request } => {
                        let (requests, events) = (Arc::clone(&self.requests), self.events.clone());
                        self.tasks.spawn(async move {
                            let answer = requests.carry_out(&request).await.unwrap_or(Answer::Unknown);
                            // The host may have ended meanwhile.
                            events.send(Input::Answer(id, answer)).await.unwrap_or_default();
                        });
                    }
                    Action::Begin { epoch } => {
                        self.term = Some(epoch);
                        self.terms.begin(epoch, &self.identity);
                        self.held.send_replace(Some(epoch));
                    }
                    Action::Drain | Action::Abort => {
                        self.end();
                        events.push(Event::WorkersEnded);
                    }
                }
            }
        }
    }

    fn end(&mut self) {
        self.held.send_replace(None);
        if let Some(epoch) = self.term.take() {
            self.terms.end(epoch);
            self.terms.count_out();
        }
    }
}

/// Two hosts take turns: the holder names the next host, and that one then crashes. `in_first` looks at the first term.
pub(super) async fn take_turns<S: Upstream>(one: &Arc<S>, two: &Arc<S>, in_first: impl AsyncFnOnce(Epoch)) {
    let terms = Arc::new(Terms::default());
    let a = LeaseHost::start(one, "web", "a_1", TIMES, &terms);
    let b = LeaseHost::start(two, "web", "b_1", TIMES, &terms);
    a.wants().await;
    let first = a.holds().await;
    b.wants().await;
    in_first(first).await;
    a.gives_up(Some("b_1")).await;
    a.has_lost().await;
    let second = b.holds().await;
    assert!(second > first);
    let crashed = Instant::now();
    drop(b);
    a.wants().await;
    let third = a.holds().await;
    assert!(third > second);
    assert!(crashed.elapsed() + TIMES.renew_deadline > TIMES.length, "the holder may have gone on until then");
    terms.check();
}
