//! The lease of one controller or shard, as one host sees it: a state machine.
//!
//! The host waits, acquires, renews while its workers run, and ends: it releases the lease, or loses it. A
//! lease is acquired and renewed by compare-and-set on the version of its record. These rules keep two hosts
//! apart:
//!
//! * A term lasts [`Times::renew_deadline`] from the *sending* of its last acknowledged renewal. A renewal
//!   without an answer counts for nothing.
//! * Another host waits for the whole length of the lease, on its own clock, from the moment at which it saw
//!   the record change. It compares no clock with that of another host, and reads no time of day.
//! * A record that vanished is a change like another: it says nothing about the holder.
//! * A host that has lost the lease acquires it again only after its workers have ended, under a new epoch.
//! * After a lost answer the host reads the record before it writes again.
//!
//! Pure: times are arguments. They come from a clock that goes on while the machine sleeps
//! (`CLOCK_BOOTTIME`), and only differences between them count.

mod messages;
#[cfg(test)]
mod tests;

use std::mem;
use std::time::Duration;

pub use self::messages::{AcquireCondition, Action, Answer, Event, Request, RequestId};
use crate::record::{Epoch, Identity, Observation, Record, Version};
use crate::times::{LENGTH_MAX, Times};

/// The lease of one controller or shard.
#[derive(Debug, Clone)]
pub struct Lease {
    identity: Identity,
    times: Times,
    candidacy: Option<Duration>,
    /// The last state of the record that the store showed, unless this host holds the lease.
    last_seen: Option<LastObservation>,
    state: State,
    in_flight: Option<InFlight>,
    /// Whether the record has to be read before the next write.
    must_read: bool,
    /// No request is sent before.
    next_at: Duration,
    /// Whether the request in flight is followed by a renewal at once.
    renews_again: bool,
    /// A host that waits looks at the record again.
    poll_at: Duration,
    requests: u64,
    random: u64,
    /// Whether an absent record was deleted, also if this host has seen none.
    has_past: bool,
}

#[derive(Debug, Clone)]
enum State {
    /// Another host holds the lease, or nobody. No worker runs.
    Waiting,
    /// This host holds the lease until its deadline.
    Held(Term),
    /// The lease is lost, and workers still end.
    Ending,
    /// The workers have ended, and the store has not yet confirmed the release.
    Releasing(Term),
}

/// The time during which one host holds a lease.
#[derive(Debug, Clone)]
struct Term {
    epoch: Epoch,
    /// The last known version of the record.
    version: Version,
    /// The sending of the last acknowledged renewal.
    renewed: Duration,
    is_working: bool,
    /// The host that shall be next, once the term shall end.
    handover: Option<Option<Identity>>,
}

#[derive(Debug, Clone)]
struct InFlight {
    id: RequestId,
    kind: RequestKind,
    sent: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestKind {
    Read,
    Acquire,
    Renew,
    Release,
}

#[derive(Debug, Clone)]
struct LastObservation {
    observation: Observation,
    /// When this host saw it first.
    since: Duration,
    /// Whether this host has ever seen a record.
    was_present: bool,
}

impl Lease {
    /// Starts to wait for a lease. `times` are checked ([`Times::check`]). `seed` spreads the requests of
    /// several hosts.
    ///
    /// A process has one `Lease` for each name: its identity tells it from those of other processes alone.
    pub fn new(identity: Identity, times: Times, seed: u64) -> Self {
        Self {
            identity,
            times,
            candidacy: None,
            last_seen: None,
            state: State::Waiting,
            in_flight: None,
            must_read: true,
            next_at: Duration::ZERO,
            renews_again: false,
            poll_at: Duration::ZERO,
            requests: 0,
            random: seed,
            has_past: false,
        }
    }

    /// Says that the lease existed before, so that a record that is absent was deleted.
    pub fn with_past(self) -> Self {
        Self { has_past: true, ..self }
    }

    /// Returns the epoch under which this host may work now; `None` if it may not.
    ///
    /// Every write asks this directly before it is sent: the answer is true also when the machine has slept.
    pub fn holds(&self, now: Duration) -> Option<Epoch> {
        match &self.state {
            State::Held(term) if now < self.until(term) => Some(term.epoch),
            _ => None,
        }
    }

    /// Returns the time at which the term ends if it is not renewed.
    pub fn holds_until(&self) -> Option<Duration> {
        match &self.state {
            State::Held(term) => Some(self.until(term)),
            _ => None,
        }
    }

    /// Returns the epoch of the present term.
    fn epoch(&self) -> Option<Epoch> {
        match &self.state {
            State::Held(term) | State::Releasing(term) => Some(term.epoch),
            State::Waiting | State::Ending => None,
        }
    }

    /// Returns the host that the store named last as the holder.
    pub fn holder(&self) -> Option<&Identity> {
        match (&self.state, &self.last_seen) {
            (State::Held(_), _) => Some(&self.identity),
            (_, Some(LastObservation { observation: Observation::Present(record), .. })) => record.holder.as_ref(),
            _ => None,
        }
    }

    /// Returns whether this host has no term, and no worker of a former one.
    pub fn is_waiting(&self) -> bool {
        matches!(self.state, State::Waiting)
    }

    /// Returns whether workers of this host run, or still end.
    pub fn is_working(&self) -> bool {
        match &self.state {
            State::Held(term) => term.is_working,
            State::Ending => true,
            State::Waiting | State::Releasing(_) => false,
        }
    }

    /// Returns whether this host neither holds the lease nor has a request on its way that may acquire it.
    pub fn is_idle(&self) -> bool {
        let acquires = self.in_flight.as_ref().is_some_and(|request| request.kind == RequestKind::Acquire);
        matches!(self.state, State::Waiting) && !acquires
    }

    /// Takes an input at a time, and returns what to do.
    pub fn step(&mut self, now: Duration, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        self.expire(now, &mut actions);
        match event {
            Event::Tick => {}
            Event::Answered { id, answer } => {
                // The answer to a request that counts as lost says nothing any more.
                if let Some(request) = self.in_flight.take_if(|request| request.id == id) {
                    self.answered(now, &request, answer, &mut actions);
                }
            }
            Event::Observed(observation) => self.observed(now, observation, &mut actions),
            Event::Candidacy(candidacy) => self.candidacy = candidacy,
            Event::Release { preferred_holder } => self.end_term(now, preferred_holder, &mut actions),
            Event::Renew => self.renew_soon(now),
            Event::Fenced { epoch } if self.epoch() == Some(epoch) => self.lose(now, &mut actions),
            Event::Fenced { .. } => {}
            Event::WorkersEnded => self.workers_ended(now),
        }
        self.send(now, &mut actions);
        actions
    }

    /// Returns when to call [`Lease::step`] at the latest; `None` if only another event changes anything.
    pub fn next_tick(&self) -> Option<Duration> {
        let timeout = self.in_flight.as_ref().map(|request| request.sent + self.times.request_timeout);
        let deadline = match &self.state {
            State::Held(term) | State::Releasing(term) => Some(self.until(term)),
            State::Waiting | State::Ending => None,
        };
        let request = match &self.state {
            _ if self.in_flight.is_some() => None,
            State::Ending => None,
            State::Waiting if !self.must_read => {
                let wanted = self.try_at().map_or(self.poll_at, |at| at.min(self.poll_at));
                Some(wanted.max(self.next_at))
            }
            _ => Some(self.next_at),
        };
        [timeout, deadline, request].into_iter().flatten().min()
    }

    fn until(&self, term: &Term) -> Duration {
        term.renewed + self.times.renew_deadline
    }

    /// Ends what the passing of time ends.
    fn expire(&mut self, now: Duration, actions: &mut Vec<Action>) {
        let timeout = self.times.request_timeout;
        if let Some(request) = self.in_flight.take_if(|request| now >= request.sent + timeout) {
            self.answered(now, &request, Answer::Unknown, actions);
        }
        match &self.state {
            State::Held(term) if now >= self.until(term) => self.lose(now, actions),
            State::Releasing(term) if now >= self.until(term) => self.wait(now),
            _ => {}
        }
    }

    /// Ends the term without a release.
    fn lose(&mut self, now: Duration, actions: &mut Vec<Action>) {
        let is_working = self.is_working();
        self.wait(now);
        if is_working {
            self.state = State::Ending;
            actions.push(Action::Abort);
        }
    }

    fn wait(&mut self, now: Duration) {
        self.state = State::Waiting;
        self.in_flight = None;
        self.renews_again = false;
        self.must_read = true;
        self.next_at = now;
    }

    fn answered(&mut self, now: Duration, request: &InFlight, answer: Answer, actions: &mut Vec<Action>) {
        let renews_again = mem::take(&mut self.renews_again);
        match (request.kind, answer) {
            (RequestKind::Read, Answer::Found(observation)) => self.found(now, observation, actions),
            (RequestKind::Acquire, Answer::Stored { version, epoch }) => {
                self.begin_term(now, request.sent, version, epoch, actions);
                if renews_again {
                    self.next_at = now;
                }
            }
            (RequestKind::Renew, Answer::Stored { version, .. }) => {
                if let State::Held(term) | State::Releasing(term) = &mut self.state {
                    term.version = version;
                    term.renewed = request.sent;
                }
                self.next_at = match self.state {
                    State::Held(_) if !renews_again => request.sent + self.spread(self.times.retry_period),
                    _ => now,
                };
            }
            (RequestKind::Release, Answer::Stored { .. }) => self.wait(now),
            (RequestKind::Read, _) => self.next_at = now + self.spread(self.times.error_wait()),
            (_, answer) => {
                self.must_read = true;
                // A conflict has told that the store answers, so the next look is soon.
                let wait = self.times.error_wait();
                self.next_at = now + self.spread(if answer == Answer::Conflict { wait / 4 } else { wait });
            }
        }
    }

    fn begin_term(&mut self, now: Duration, sent: Duration, version: Version, epoch: Epoch, actions: &mut Vec<Action>) {
        // The placement may have changed its mind meanwhile.
        let is_working = self.candidacy.is_some();
        let term = Term { epoch, version, renewed: sent, is_working, handover: None };
        self.next_at = if is_working { sent + self.spread(self.times.retry_period) } else { now };
        self.state = if is_working { State::Held(term) } else { State::Releasing(term) };
        if is_working {
            actions.push(Action::Begin { epoch });
        }
    }

    /// Renews a term at once, or after the answer to the request in flight.
    fn renew_soon(&mut self, now: Duration) {
        match &self.state {
            _ if self.in_flight.is_some() => self.renews_again = true,
            // A store that does not answer is not asked more often.
            State::Held(_) if !self.must_read => self.next_at = now,
            // The next request tells the change.
            _ => {}
        }
    }

    /// Takes the answer to a look at the record.
    fn found(&mut self, now: Duration, observation: Observation, actions: &mut Vec<Action>) {
        self.must_read = false;
        self.next_at = now;
        self.poll_at = now + self.spread(self.times.retry_period);
        match &mut self.state {
            State::Held(term) | State::Releasing(term) => {
                let own = own_version(&observation, &self.identity, term.epoch);
                if let Some(version) = own {
                    term.version = term.version.max(version);
                } else if !is_older(&observation, term.version) {
                    self.lose(now, actions);
                    self.note(now, observation);
                }
            }
            State::Waiting | State::Ending => self.note(now, observation),
        }
    }

    fn observed(&mut self, now: Duration, observation: Observation, actions: &mut Vec<Action>) {
        match &self.state {
            State::Held(term) | State::Releasing(term) => match &observation {
                // A watch has no order with the answers to writes.
                Observation::Absent { .. } => {
                    self.must_read = true;
                    self.next_at = now;
                }
                _ if own_version(&observation, &self.identity, term.epoch).is_some() => {}
                _ if is_older(&observation, term.version) => {}
                Observation::Present(_) => {
                    self.lose(now, actions);
                    self.note(now, observation);
                }
            },
            State::Waiting | State::Ending => self.note(now, observation),
        }
    }

    /// Remembers what the store showed, and since when.
    fn note(&mut self, now: Duration, observation: Observation) {
        let known = self.last_seen.as_ref();
        let is_known = known.is_some_and(|known| match (&known.observation, &observation) {
            (Observation::Present(known), Observation::Present(record)) => record.version <= known.version,
            (known, observation) => known == observation,
        });
        if !is_known {
            let was_present = self.has_past || known.is_some_and(|known| known.was_present);
            let was_present = was_present || matches!(observation, Observation::Present(_));
            self.last_seen = Some(LastObservation { observation, since: now, was_present });
        }
    }

    fn end_term(&mut self, now: Duration, preferred_holder: Option<Identity>, actions: &mut Vec<Action>) {
        let State::Held(term) = &mut self.state else { return };
        if term.handover.is_some() {
            return;
        }
        term.handover = Some(preferred_holder);
        if term.is_working {
            actions.push(Action::Drain);
        } else {
            self.workers_ended(now);
        }
    }

    fn workers_ended(&mut self, now: Duration) {
        match &mut self.state {
            State::Ending => self.wait(now),
            State::Held(term) => {
                term.is_working = false;
                if term.handover.is_some() {
                    let term = term.clone();
                    self.state = State::Releasing(term);
                    self.next_at = now;
                }
            }
            State::Waiting | State::Releasing(_) => {}
        }
    }

    /// Sends the next request, if it is time.
    fn send(&mut self, now: Duration, actions: &mut Vec<Action>) {
        if self.in_flight.is_some() || now < self.next_at {
            return;
        }
        let (kind, request) = match &self.state {
            State::Ending => return,
            _ if self.must_read => (RequestKind::Read, Request::Read),
            State::Held(term) => (RequestKind::Renew, Request::Renew { expected: term.version, epoch: term.epoch }),
            State::Releasing(Term { version, epoch, handover, .. }) => {
                let preferred_holder = handover.clone().flatten();
                (RequestKind::Release, Request::Release { expected: *version, epoch: *epoch, preferred_holder })
            }
            State::Waiting if self.try_at().is_some_and(|at| now >= at) => (RequestKind::Acquire, self.acquisition()),
            State::Waiting if now >= self.poll_at => (RequestKind::Read, Request::Read),
            State::Waiting => return,
        };
        self.requests += 1;
        let id = RequestId(self.requests);
        self.in_flight = Some(InFlight { id, kind, sent: now });
        actions.push(Action::Send { id, request });
    }

    fn acquisition(&self) -> Request {
        match self.last_seen.as_ref().map(|seen| &seen.observation) {
            Some(Observation::Present(record)) => {
                let is_change = record.holder.as_ref() != Some(&self.identity);
                let transitions = record.transitions.saturating_add(u32::from(is_change));
                Request::Acquire { expected: AcquireCondition::Version(record.version), transitions }
            }
            Some(Observation::Absent { fence }) => {
                Request::Acquire { expected: AcquireCondition::Absent { fence: *fence }, transitions: 0 }
            }
            None => Request::Read,
        }
    }

    /// Returns when this host tries to acquire the lease, by the last state that it has seen.
    fn try_at(&self) -> Option<Duration> {
        let (delay, LastObservation { observation, since, was_present }) = (self.candidacy?, self.last_seen.as_ref()?);
        let record = match observation {
            // No host can hold a lease that never was.
            Observation::Absent { fence: None } if !was_present => return Some(*since + delay),
            Observation::Absent { .. } => return Some(*since + self.times.length + delay),
            Observation::Present(record) => record,
        };
        let is_own = |identity: &Identity| *identity == self.identity;
        Some(match (&record.holder, &record.preferred_holder) {
            // Of a term that has ended here, or of an acquisition whose answer was lost.
            (Some(holder), _) if is_own(holder) => *since,
            (Some(_), _) => *since + record.length.min(LENGTH_MAX) + delay,
            (None, Some(preferred)) if is_own(preferred) => *since,
            (None, Some(_)) => *since + self.times.retry_period * 2 + delay,
            (None, None) => *since + delay,
        })
    }

    /// Returns a wait between three quarters and five quarters of `wait`.
    fn spread(&mut self, wait: Duration) -> Duration {
        // Source: Knuth's generator MMIX; the upper bits are the good ones.
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let part = u32::try_from(self.random >> 33).unwrap_or(0) % 501;
        wait * (750 + part) / 1000
    }
}

/// Returns the version of a record of this term; `None` if it is another one.
fn own_version(observation: &Observation, identity: &Identity, epoch: Epoch) -> Option<Version> {
    match observation {
        Observation::Present(Record { version, holder: Some(holder), epoch: of, .. })
            if holder == identity && *of == epoch =>
        {
            Some(*version)
        }
        _ => None,
    }
}

/// Returns whether a record is older than a version.
fn is_older(observation: &Observation, version: Version) -> bool {
    matches!(observation, Observation::Present(record) if record.version < version)
}

#[cfg(any(test, feature = "simulation"))]
impl Lease {
    /// Counts the present term from another time. The simulation makes wrong machines with it.
    pub(crate) fn renewed_at(&mut self, renewed: Duration) {
        if let State::Held(term) = &mut self.state {
            term.renewed = term.renewed.max(renewed);
        }
    }
}
