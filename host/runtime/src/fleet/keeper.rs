//! The keeper of one lease: moves its machine, sends its requests, and opens and closes the gate.

use std::sync::Arc;
use std::time::Duration;

use homeostat_fleet::{Action, Answer, Epoch, Event, Identity, Lease, LeaseName, LoadMeter, Request, RequestId, Times};
use homeostat_store::LeaseRequests;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time;
use tokio_util::sync::CancellationToken;

use super::description::LeaseDescription;
use super::gate::ShardGate;
use super::lease_room::{KeeperEntry, LeaseRoom, LeaseView};
use super::other_fences::{OtherFences, OtherStores, RaiseOutcome};
use super::rollout_record::RolloutRecord;
use super::sharding::Sharding;
use super::{Fleet, LeaseClock};

/// Records and commands that wait for a keeper. More of them hold up their sender.
const EVENTS_MAX: usize = 64;

/// The keeper of one lease.
pub(super) struct LeaseKeeper {
    pub(super) gate: Arc<ShardGate>,
    requests: Arc<dyn LeaseRequests>,
    events: mpsc::Sender<Event>,
    seen: Arc<Mutex<LeaseView>>,
    /// Cancelled when the lease shall be given up for good.
    leave: CancellationToken,
    /// Cancelled when the keeper has ended.
    pub(super) ended: CancellationToken,
}

/// A lease to keep.
pub(super) struct KeptLease {
    /// The holder, if this host acquires it. No other keeper of the process has this one for a lease of the same name.
    pub(super) identity: Identity,
    pub(super) requests: Arc<dyn LeaseRequests>,
    pub(super) gate: Arc<ShardGate>,
    pub(super) candidacy: Candidacy,
    /// The other stores to which its workers may write.
    pub(super) others: OtherStores,
    /// How long workers have to finish before the lease is released.
    pub(super) drain_deadline: Duration,
}

/// When this host tries a lease that is free.
pub(super) enum Candidacy {
    /// The hosts that share the store are ranked, and the lease moves between them. For the lease of a controller, this
    /// host is a candidate while its own shards are in force and it follows the rollout.
    Ranked { room: Arc<LeaseRoom>, work: Option<(Arc<Sharding>, Arc<RolloutRecord>)> },
    /// This long after the lease is free, and only while this host holds the lease `after`. The lease does not move. It
    /// existed before, although its record may have been deleted.
    Alone { delay: Duration, after: Option<Arc<ShardGate>> },
}

impl Candidacy {
    /// Returns how long after the lease is free this host tries to acquire it; `None` for never.
    fn delay(&self, lease: &LeaseName) -> Option<Duration> {
        match self {
            Self::Ranked { room, .. } => self.is_open().then(|| room.candidacy(lease)).flatten(),
            Self::Alone { delay, .. } => self.is_open().then_some(*delay),
        }
    }

    /// Returns whether this host may be a candidate at all.
    fn is_open(&self) -> bool {
        match self {
            Self::Ranked { work, .. } => {
                work.as_ref().is_none_or(|(sharding, rollout)| sharding.is_own() && rollout.is_settled())
            }
            Self::Alone { after, .. } => after.as_ref().is_none_or(|gate| gate.is_open()),
        }
    }

    /// Returns whether a term has to end, because other shards are in force.
    fn is_replaced(&self) -> bool {
        matches!(self, Self::Ranked { work: Some((sharding, _)), .. } if sharding.is_other())
    }

    /// Returns the host that shall be next when this one gives the lease up.
    fn receiver(&self, lease: &LeaseName) -> Option<Identity> {
        match self {
            Self::Ranked { room, .. } => room.receiver(lease),
            Self::Alone { .. } => None,
        }
    }

    /// Returns why this host may not notice that the lease is free.
    fn problem(&self) -> Option<String> {
        match self {
            Self::Ranked { room, work } => {
                let problem =
                    work.as_ref().and_then(|(sharding, rollout)| sharding.problem().or_else(|| rollout.problem()));
                problem.or_else(|| room.watch_error())
            }
            Self::Alone { .. } => None,
        }
    }
}

impl LeaseKeeper {
    /// Starts to wait for a lease.
    pub(super) fn start(fleet: &Fleet, lease: KeptLease) -> Self {
        let Fleet { times, clock, .. } = fleet;
        let KeptLease { identity, requests, gate, candidacy, others, drain_deadline } = lease;
        let (events, inputs) = mpsc::channel(EVENTS_MAX);
        let (seen, leave, ended) = (Arc::default(), CancellationToken::new(), CancellationToken::new());
        let room = match &candidacy {
            Candidacy::Ranked { room, .. } => Some(Arc::clone(room)),
            Candidacy::Alone { .. } => None,
        };
        if let Some(room) = &room {
            room.add(&gate.lease, KeeperEntry { events: events.clone(), seen: Arc::clone(&seen) });
        }
        let seed = xxhash_rust::xxh3::xxh3_64(format!("{identity} {}", gate.lease).as_bytes());
        let machine = Lease::new(identity.clone(), *times, seed);
        let task = KeeperTask {
            meter: (room.is_some() && gate.lease.is_of_controller()).then(|| LoadMeter::new(times.load_window())),
            candidacy,
            identity,
            others: OtherFences::new(others, times.request_timeout, times.retry_period),
            opening: None,
            machine: if room.is_some() { machine } else { machine.with_past() },
            times: *times,
            clock: Arc::clone(clock),
            requests: Arc::clone(&requests),
            gate: Arc::clone(&gate),
            seen: Arc::clone(&seen),
            drain_deadline,
            under_way: JoinSet::new(),
            is_ending: false,
            request_error: None,
            failures: 0,
        };
        let (own, leaves, end) = (events.clone(), leave.clone(), fleet.end.clone());
        let done = ended.clone();
        fleet.tasks.spawn(async move {
            let name = task.gate.lease.clone();
            let gate = Arc::clone(&task.gate);
            let _guard = done.drop_guard();
            end.run_until_cancelled(task.run(inputs, leaves)).await;
            // No worker runs under the lease after its keeper.
            gate.abort();
            if let Some(room) = room {
                room.remove(&name, &own);
            }
        });
        Self { gate, requests, events, seen, leave, ended }
    }

    /// Returns what is known of the lease.
    pub(super) fn view(&self) -> LeaseView {
        self.seen.lock().clone()
    }

    /// Says that a store refused a write of a term.
    pub(super) fn fenced(&self, epoch: homeostat_fleet::Epoch) {
        // A full channel has the record that says the same.
        let _full = self.events.try_send(Event::Fenced { epoch });
    }

    /// Makes this host try the lease this long after it is free.
    pub(super) fn propose(&self, delay: Duration) {
        // A full channel gets the next one.
        let _full = self.events.try_send(Event::Candidacy(Some(delay)));
    }

    /// Changes what the record of the lease tells, and renews the lease before its time, so that the other hosts see it.
    pub(super) fn describe(&self, text: &str) {
        self.requests.describe(text);
        // A full channel loses this, and the next renewal tells the same.
        let _full = self.events.try_send(Event::Renew);
    }

    /// Gives the lease up for good: the workers finish, then another host may begin. [`LeaseKeeper::ended`] says when
    /// that is done.
    pub(super) fn leave(&self) {
        self.leave.cancel();
    }
}

/// The task of a keeper.
struct KeeperTask {
    candidacy: Candidacy,
    identity: Identity,
    others: OtherFences,
    /// The term whose gate opens when the other stores were asked.
    opening: Option<Epoch>,
    /// The meter of the load; `None` for a lease without keys.
    meter: Option<LoadMeter>,
    machine: Lease,
    times: Times,
    clock: LeaseClock,
    requests: Arc<dyn LeaseRequests>,
    gate: Arc<ShardGate>,
    seen: Arc<Mutex<LeaseView>>,
    drain_deadline: Duration,
    under_way: JoinSet<(RequestId, homeostat_store::Result<Answer>)>,
    /// Whether workers end.
    is_ending: bool,
    /// Why the store did not answer the last request.
    request_error: Option<String>,
    /// Requests in a row without an answer.
    failures: u32,
}

impl KeeperTask {
    /// Keeps the lease until it is given up for good.
    async fn run(mut self, mut inputs: mpsc::Receiver<Event>, leave: CancellationToken) {
        self.step(Event::Candidacy(self.candidacy.delay(&self.gate.lease)));
        let (mut is_leaving, mut drain_end) = (false, None);
        loop {
            if is_leaving && self.machine.is_idle() {
                return;
            }
            let tick = self.machine.next_tick().map(|at| at.saturating_sub((self.clock)()));
            let event = tokio::select! {
                biased;
                Some(done) = self.under_way.join_next() => match done {
                    Ok((id, answer)) => self.answer(id, answer),
                    // The timeout of the machine ends the request.
                    Err(_) => Event::Tick,
                },
                outcome = self.others.asked(&self.gate) => match (outcome, self.opening.take()) {
                    (RaiseOutcome::Fenced, opening) => match opening.or_else(|| self.gate.epoch()) {
                        Some(epoch) => Event::Fenced { epoch },
                        None => Event::Tick,
                    },
                    (RaiseOutcome::Asked, Some(epoch)) => {
                        self.gate.open(epoch, self.requests.fence(epoch));
                        Event::Tick
                    }
                    (RaiseOutcome::Asked, None) => Event::Tick,
                },
                () = self.gate.wait_for_quiet(), if self.is_ending => {
                    (self.is_ending, drain_end) = (false, None);
                    self.gate.close();
                    Event::WorkersEnded
                }
                () = sleep_until(drain_end), if self.is_ending && drain_end.is_some() => {
                    drain_end = None;
                    self.gate.abort_workers();
                    Event::Tick
                }
                Some(event) = inputs.recv() => match event {
                    // A keeper that leaves is no candidate any more.
                    Event::Candidacy(_) if is_leaving => Event::Tick,
                    Event::Candidacy(_) if self.candidacy.is_replaced() => {
                        self.step(Event::Candidacy(None));
                        Event::Release { preferred_holder: None }
                    }
                    Event::Candidacy(_) if !self.candidacy.is_open() => Event::Candidacy(None),
                    event => event,
                },
                () = leave.cancelled(), if !is_leaving => {
                    is_leaving = true;
                    self.step(Event::Candidacy(None));
                    Event::Release { preferred_holder: self.candidacy.receiver(&self.gate.lease) }
                }
                () = sleep(tick) => Event::Tick,
            };
            let was_ending = self.is_ending;
            self.step(event);
            if self.is_ending && !was_ending {
                drain_end = Some(time::Instant::now() + self.drain_deadline);
            }
        }
    }

    fn answer(&mut self, id: RequestId, answer: homeostat_store::Result<Answer>) -> Event {
        let error = answer.as_ref().err().map(ToString::to_string);
        self.failures = if error.is_some() { self.failures.saturating_add(1) } else { 0 };
        // One alone is usual: before the first contact with a server, and when a connection is lost.
        if let Some(error) = &error
            && (self.failures == 2 || (self.failures > 2 && self.request_error.as_ref() != Some(error)))
        {
            tracing::warn!(lease = %self.gate.lease, %error, "a request for a lease has no answer");
        }
        self.request_error = error;
        Event::Answered { id, answer: answer.unwrap_or(Answer::Unknown) }
    }

    /// Tells the load of the lease in the record that a request writes anyway.
    fn describe(&mut self, now: Duration, request: &Request) {
        let (Candidacy::Ranked { room, .. }, Some(meter)) = (&self.candidacy, &mut self.meter) else { return };
        match request {
            Request::Acquire { .. } => meter.begin(now, room.millicores(&self.gate.lease)),
            Request::Renew { .. } => {}
            Request::Read | Request::Release { .. } => return,
        }
        let cpu_millicores = meter.sample(now, self.gate.spent());
        self.requests.describe(&LeaseDescription { cpu_millicores }.text());
    }

    /// Moves the machine, and does what it says.
    fn step(&mut self, event: Event) {
        let now = (self.clock)();
        let actions = self.machine.step(now, event);
        // Before the workers: a write needs the new term.
        self.gate.set_until(self.machine.holds_until());
        let has_begun = actions.iter().any(|action| matches!(action, Action::Begin { .. }));
        for action in actions {
            match action {
                Action::Send { id, request } => {
                    self.describe(now, &request);
                    let (requests, timeout) = (Arc::clone(&self.requests), self.times.request_timeout);
                    self.under_way.spawn(async move {
                        let late = || Err(homeostat_store::Error::unavailable("the server does not answer in time"));
                        let answer = time::timeout(timeout, requests.carry_out(&request)).await;
                        (id, answer.unwrap_or_else(|_| late()))
                    });
                }
                Action::Begin { epoch } => {
                    tracing::info!(lease = %self.gate.lease, %epoch, "this host holds the lease");
                    if self.others.begin(&self.gate, &self.identity, epoch) {
                        self.opening = Some(epoch);
                    } else {
                        self.gate.open(epoch, self.requests.fence(epoch));
                    }
                }
                Action::Drain => {
                    (self.is_ending, self.opening) = (true, None);
                    self.gate.drain();
                }
                Action::Abort => {
                    tracing::warn!(lease = %self.gate.lease, "this host has lost the lease");
                    (self.is_ending, self.opening) = (true, None);
                    self.others.end();
                    self.gate.abort();
                }
            }
        }
        let error = self.request_error.clone().or_else(|| self.candidacy.problem());
        let view = LeaseView { holder: self.machine.holder().cloned(), is_held: !self.machine.is_waiting(), error };
        let mut seen = self.seen.lock();
        if *seen != view {
            *seen = view;
            self.gate.notify();
        }
        drop(seen);
        // The request was on its way when the host began to drain.
        if has_begun && self.candidacy.delay(&self.gate.lease).is_none() {
            self.step(Event::Release { preferred_holder: self.candidacy.receiver(&self.gate.lease) });
        }
    }
}

async fn sleep(wait: Option<Duration>) {
    match wait {
        Some(wait) => time::sleep(wait).await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(end: Option<time::Instant>) {
    match end {
        Some(end) => time::sleep_until(end).await,
        None => std::future::pending().await,
    }
}
