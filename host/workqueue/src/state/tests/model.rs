//! The real state against a model, for any operations in any order: 60 lines with the promises for each key,
//! and checks over all keys together.

mod reference;

use std::{collections::BTreeMap, num::NonZeroU32};

use proptest::{
    prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest},
    test_runner::{RngAlgorithm, RngSeed},
};

use super::{BACKOFF, failed, failed_for, ms, parked};
use crate::{
    Backoff, ChangeOutcome, DuringDelay, Entry, KeyCounts, KeyState, Moment, Next, Options, Priority, ShutdownPhase,
    state::{ClaimToken, State},
};
use reference::KeyModel;

/// More than the keys of any case, so that none is refused.
const KEYS_MAX: u32 = 100;

/// One operation. Keys, bands and delays are few, so that they collide.
#[derive(Clone, Debug)]
enum Step {
    Add {
        key: u8,
        delay_ms: u64,
        band: Priority,
    },
    AddHeld {
        key: u8,
        delay_ms: u64,
        band: Priority,
    },
    LookAgain {
        key: u8,
        band: Priority,
        unpark: bool,
    },
    Postpone {
        key: u8,
        delay_ms: u64,
    },
    Cancel(u8),
    Expedite(u8),
    Retry(u8),
    Prioritize {
        key: u8,
        band: Priority,
    },
    Claim,
    Finish {
        nth: usize,
        next: Next,
    },
    GiveBack {
        nth: usize,
    },
    Pass(u64),
    /// Hands out only keys of this band and above; 5 suspends all bands, 0 none.
    Suspend(usize),
    Hold(bool),
    Close(ShutdownPhase),
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..6_u8;
    let band = || proptest::sample::select(Priority::ALL.to_vec());
    let delay = prop_oneof![3 => Just(0), 3 => 1..40_u64, 1 => Just(u64::MAX)];
    let next = prop_oneof![
        3 => Just(Next::Done),
        1 => Just(Next::Again),
        1 => Just(Next::Drop),
        1 => Just(parked()),
        3 => Just(failed()),
        1 => (1..60_u64).prop_map(failed_for),
        2 => delay.clone().prop_map(|delay| Next::After(ms(delay))),
    ];
    let close = prop_oneof![3 => Just(ShutdownPhase::Draining), 2 => Just(ShutdownPhase::Stopped), 1 => Just(ShutdownPhase::Aborted)];
    prop_oneof![
        80 => (key.clone(), delay.clone(), band()).prop_map(|(key, delay_ms, band)| Step::Add { key, delay_ms, band }),
        20 => (key.clone(), delay.clone(), band()).prop_map(|(key, delay_ms, band)| Step::AddHeld { key, delay_ms, band }),
        10 => (key.clone(), band(), any::<bool>()).prop_map(|(key, band, unpark)| Step::LookAgain { key, band, unpark }),
        10 => (key.clone(), delay).prop_map(|(key, delay_ms)| Step::Postpone { key, delay_ms }),
        10 => key.clone().prop_map(Step::Cancel),
        10 => key.clone().prop_map(Step::Expedite),
        10 => key.clone().prop_map(Step::Retry),
        10 => (key, band()).prop_map(|(key, band)| Step::Prioritize { key, band }),
        70 => Just(Step::Claim),
        60 => (any::<usize>(), next).prop_map(|(nth, next)| Step::Finish { nth, next }),
        10 => any::<usize>().prop_map(|nth| Step::GiveBack { nth }),
        40 => (0..50_u64).prop_map(Step::Pass),
        2 => Just(Step::Pass(1_000_000_000)),
        4 => prop_oneof![2 => Just(0), 1 => 1..5_usize, 1 => Just(5)].prop_map(Step::Suspend),
        4 => any::<bool>().prop_map(Step::Hold),
        2 => close.prop_map(Step::Close),
    ]
}

fn options() -> impl Strategy<Value = Options> {
    (any::<bool>(), 1..6_u32, proptest::option::of(0..3_u32)).prop_map(|(hold, ageing, retries_max)| Options {
        keys_max: Some(KEYS_MAX),
        error_bytes_max: None,
        during_delay: during_delay(hold),
        ageing_claims: NonZeroU32::new(ageing).unwrap(),
        backoff: Backoff { retries_max, ..BACKOFF },
        seed: None,
    })
}

fn during_delay(hold: bool) -> DuringDelay {
    if hold { DuringDelay::Hold } else { DuringDelay::RunNow }
}

/// The same cases every time; a failure prints the shortest steps that still fail.
fn config() -> ProptestConfig {
    let rng_seed = RngSeed::Fixed(7);
    ProptestConfig {
        cases: 2000,
        failure_persistence: None,
        rng_algorithm: RngAlgorithm::ChaCha,
        rng_seed,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    /// Q1: the order of arrival, and all other rules that the model states: Q2 to Q5, Q7 to Q10, Q13 to Q15, T1 to
    /// T10, P1, P2, P4, B1, B4 to B10 and C4.
    #[test]
    fn the_state_does_what_the_model_does(options in options(), steps in proptest::collection::vec(step(), 1..120)) {
        let mut pair = Pair::new(options);
        for step in steps {
            pair.take(&step);
            pair.compare();
        }
        pair.end();
    }
}

/// The real state, and the facts observed from outside.
struct Pair {
    real: State<u8>,
    claims: Vec<ClaimToken<u8>>,
    now: Moment,
    options: Options,
    open_from: usize,
    phase: ShutdownPhase,
    keys: BTreeMap<u8, KeyModel>,
    /// Keys whose run was dropped by the closing.
    lost: Vec<u8>,
    /// The ready keys with their bands, in their latest order in the real state.
    line: Vec<(u8, Priority)>,
    /// Claims in a row that passed over each band.
    passes: [u32; 5],
}

impl Pair {
    fn new(options: Options) -> Pair {
        Pair {
            real: State::new(options),
            claims: Vec::new(),
            now: Moment::ZERO,
            options,
            open_from: 0,
            phase: ShutdownPhase::Open,
            keys: BTreeMap::new(),
            lost: Vec::new(),
            line: Vec::new(),
            passes: [0; 5],
        }
    }

    fn state(&self, key: u8) -> Option<KeyState> {
        self.keys.get(&key).map(|known| known.state(self.now))
    }

    fn take(&mut self, step: &Step) {
        let (now, hold) = (self.now, self.options.during_delay == DuringDelay::Hold);
        match *step {
            Step::Add { key, delay_ms, band } => {
                let taken = self.takes(key, delay_ms == 0);
                let added = match delay_ms {
                    0 => self.real.add(now, key, band),
                    _ => self.real.add_after(now, key, ms(delay_ms), band),
                };
                assert_eq!(added.is_ok(), taken);
                if taken {
                    self.keys.entry(key).or_default().add(now, now.after(ms(delay_ms)), band, hold);
                }
            }
            Step::AddHeld { key, delay_ms, band } => {
                let taken = self.takes(key, delay_ms == 0);
                assert_eq!(self.real.add_held(now, key, ms(delay_ms), band).is_ok(), taken);
                if taken {
                    self.keys.entry(key).or_default().add_held(now, now.after(ms(delay_ms)), band, hold);
                }
            }
            Step::LookAgain { key, band, unpark } => {
                let taken = self.takes(key, true);
                assert_eq!(self.real.add_without_event(now, key, band, unpark).is_ok(), taken);
                let known = self.keys.get(&key).map(|known| known.state(now));
                match (known, self.keys.get_mut(&key)) {
                    _ if !taken => {}
                    (Some(KeyState::Waiting), Some(known)) => known.add(now, Moment::NEVER, band, hold),
                    (Some(KeyState::Parked), Some(known)) if !unpark => known.band = known.band.max(band),
                    _ => self.keys.entry(key).or_default().add(now, now, band, hold),
                }
            }
            Step::Claim => self.claim(),
            Step::Finish { .. } | Step::GiveBack { .. } if self.claims.is_empty() => {}
            Step::Finish { nth, ref next } => {
                let claimed = self.claims.swap_remove(nth % self.claims.len());
                self.ended(claimed.key, Some(next));
                let finished = self.real.finish(now, claimed, next.clone(), 0);
                assert!(!finished.dropped || finished.state.is_none_or(|state| state == KeyState::Parked));
            }
            Step::GiveBack { nth } => {
                let claimed = self.claims.swap_remove(nth % self.claims.len());
                self.ended(claimed.key, None);
                self.real.give_back(now, claimed);
            }
            Step::Pass(passed_ms) => self.now = now.after(ms(passed_ms)),
            Step::Suspend(open_from) => {
                self.open_from = open_from;
                match Priority::ALL.get(open_from) {
                    Some(_) if open_from == 0 => self.real.resume(now),
                    Some(floor) => self.real.suspend_below(now, *floor),
                    None => self.real.suspend(now),
                }
                assert_eq!(self.real.is_suspended(), open_from > 0);
            }
            Step::Hold(hold) => {
                self.options.during_delay = during_delay(hold);
                self.real.configure(self.options);
            }
            Step::Close(phase) => {
                match phase {
                    ShutdownPhase::Stopped => drop(self.real.stop(now)),
                    ShutdownPhase::Aborted => drop(self.real.abort(now)),
                    ShutdownPhase::Open | ShutdownPhase::Draining => self.real.drain(now),
                }
                self.close(phase);
            }
            Step::Postpone { key, .. }
            | Step::Cancel(key)
            | Step::Expedite(key)
            | Step::Retry(key)
            | Step::Prioritize { key, .. } => {
                self.verb(key, step);
            }
        }
    }

    /// Whether an add is accepted: a draining queue accepts only adds to runs that it waits for anyway.
    fn takes(&self, key: u8, at_once: bool) -> bool {
        let busy = !matches!(self.state(key), None | Some(KeyState::Waiting | KeyState::Parked));
        self.phase == ShutdownPhase::Open || self.phase == ShutdownPhase::Draining && busy && at_once
    }

    /// A change to one key. It replaces the next run, also of a running key, or reports that there is nothing
    /// to do.
    fn verb(&mut self, key: u8, step: &Step) {
        let (now, state, closed) = (self.now, self.state(key), self.phase.is_closed());
        let verdict = match *step {
            Step::Postpone { delay_ms, .. } => self.real.postpone(now, &key, ms(delay_ms)),
            Step::Cancel(_) => self.real.cancel(now, &key),
            Step::Expedite(_) => self.real.expedite(now, &key),
            Step::Prioritize { band, .. } => self.real.prioritize(now, &key, band),
            _ => self.real.retry(now, &key),
        };
        assert_eq!(verdict == ChangeOutcome::Absent, state.is_none());
        let Some(known) = self.keys.get_mut(&key) else { return };
        let idle = known.held.is_none();
        match *step {
            Step::Postpone { delay_ms, .. } => {
                // Also without a new due time: the key leaves its place.
                self.line.retain(|at| at.0 != key);
                known.floor = known.is_floor(now);
                known.run = known.run.map(|(_, band)| (now.after(ms(delay_ms)), band));
            }
            Step::Cancel(_) if idle => drop(self.keys.remove(&key)),
            Step::Cancel(_) => (known.run, known.floor) = (None, false),
            Step::Expedite(_) if idle || known.run.is_some() => {
                (known.run, known.floor) = (Some((now, Priority::HIGHEST)), false);
            }
            Step::Prioritize { band, .. } => {
                known.run = known.run.map(|(due, _)| (due, band));
                known.band = band;
            }
            Step::Retry(_) if idle => {
                let band = known.run.map_or(known.band, |(_, band)| band);
                (known.failures, known.until, known.floor) = (0, Moment::ZERO, false);
                known.add(now, now, band, false);
            }
            Step::Retry(_) if !closed => {
                known.floor = false;
                known.add(now, now, known.band, false);
            }
            _ => {}
        }
    }

    fn claim(&mut self) {
        let claimed = self.real.claim(self.now);
        let is_open = |(_, band): &(u8, Priority)| band.index() >= self.open_from;
        if self.phase.is_closed() || !self.line.iter().any(is_open) {
            return assert!(claimed.is_none(), "nothing may be handed out");
        }
        let claimed = claimed.expect("a ready key is handed out");
        let ready = |band: Priority| self.line.iter().any(|(_, its)| *its == band);
        let first = self.line.iter().find(|(_, its)| *its == claimed.priority);
        assert_eq!(first, Some(&(claimed.key, claimed.priority)), "first come, first served inside a band");
        let aged = |band: Priority| ready(band) && self.passes[band.index()] >= self.options.ageing_claims.get();
        if self.open_from == 0 && Priority::ALL.into_iter().any(aged) {
            assert!(aged(claimed.priority), "a band that was passed over so often comes first");
        } else {
            assert_eq!(Some(claimed.priority), Priority::ALL.into_iter().rfind(|band| ready(*band)));
        }
        if self.open_from == 0 {
            self.passes = Priority::ALL
                .map(|band| if band != claimed.priority && ready(band) { self.passes[band.index()] + 1 } else { 0 });
        }
        assert!(self.passes.iter().all(|passes| *passes <= self.options.passes_max()), "{:?}", self.passes);
        let known = self.keys.get_mut(&claimed.key).unwrap();
        assert!(known.held.is_none(), "{} runs already", claimed.key);
        assert_eq!(claimed.failures, known.failures);
        known.claim(self.now);
        self.claims.push(claimed);
    }

    /// A run has ended. A closing queue keeps the runs that it may still hand out, and drops the rest.
    fn ended(&mut self, key: u8, next: Option<&Next>) {
        let known = self.keys.get_mut(&key).unwrap();
        known.finish(self.now, next, self.options);
        let (open, run) = (self.phase == ShutdownPhase::Open, known.run);
        let failed = matches!(next, Some(Next::Retry { .. } | Next::Park { .. }));
        let stays = match run {
            Some((due, _)) => open || self.phase == ShutdownPhase::Draining && due <= self.now,
            None => open && failed,
        };
        if !stays {
            self.keys.remove(&key);
            self.lost.extend(run.map(|_| key));
        }
    }

    /// A drain and a stop drop the keys that are not ready; neither affects running keys.
    fn close(&mut self, phase: ShutdownPhase) {
        if phase > self.phase {
            self.phase = phase;
            let (now, draining) = (self.now, phase == ShutdownPhase::Draining);
            let goes = |known: &KeyModel| known.held.is_none() && !(draining && known.state(now) == KeyState::Ready);
            let gone = self.keys.extract_if(.., |_, known| goes(known));
            self.lost.extend(gone.filter(|(_, known)| known.run.is_some()).map(|(key, _)| key));
        }
    }

    /// All queries return the same on both.
    fn compare(&mut self) {
        let now = self.now;
        let is_open = |known: &KeyModel| known.run.is_some_and(|(_, band)| band.index() >= self.open_from);
        let busy = |known: &KeyModel| known.held.is_some() || known.state(now) == KeyState::Ready && is_open(known);
        if self.phase == ShutdownPhase::Draining && !self.keys.values().any(busy) {
            self.close(ShutdownPhase::Stopped);
        }
        assert_eq!(self.real.phase(), self.phase);
        let entries = self.real.entries(now, usize::MAX);
        assert_eq!(entries.len(), self.keys.len(), "no key is lost, and none is doubled");
        for entry in &entries {
            let known = &self.keys[&entry.key];
            let due_in = known.run.map(|(due, _)| due.since(now)).filter(|due_in| !due_in.is_zero());
            assert_eq!((entry.state, entry.due_in), (known.state(now), due_in), "key {}", entry.key);
            assert_eq!(entry.is_held, known.is_floor(now), "key {}", entry.key);
            let band = known.run.filter(|_| known.held.is_none()).map_or(known.band, |(_, band)| band);
            assert_eq!((entry.failures, entry.priority), (known.failures, band), "key {}", entry.key);
            assert_eq!(self.real.entry(now, &entry.key).as_ref(), Some(entry));
        }
        let (mut lost, mut told) = (self.lost.clone(), self.real.report().dropped);
        lost.sort_unstable();
        told.sort_unstable();
        assert_eq!(told, lost);
        self.compare_line(&entries);
        self.compare_counts(&entries);
        let runs = self.keys.values().filter(|known| known.held.is_none()).filter_map(|known| known.run);
        let next_due = runs.map(|(due, _)| due).filter(|due| *due > now).min();
        if self.open_from < 5 && !self.phase.is_closed() {
            assert_eq!(self.real.next_due(), next_due);
        }
    }

    /// Keys that were in a band keep their order; new keys come after them, first due first.
    fn compare_line(&mut self, entries: &[Entry<u8>]) {
        let ready = entries.iter().filter(|entry| entry.state == KeyState::Ready);
        let line: Vec<(u8, Priority)> = ready.map(|entry| (entry.key, entry.priority)).collect();
        for band in Priority::ALL {
            let old: Vec<_> = self.line.iter().filter(|at| at.1 == band && line.contains(at)).collect();
            let new: Vec<_> = line.iter().filter(|at| at.1 == band).collect();
            assert_eq!(new[..old.len()], old, "{band}: {:?} became {line:?}", self.line);
            let due = |at: &&&(u8, Priority)| self.keys[&at.0].run.map(|(due, _)| due);
            assert!(new[old.len()..].iter().is_sorted_by_key(|at| due(&at)), "{band}: {line:?}");
        }
        self.line = line;
    }

    /// B13: the gauges agree with the listed keys.
    fn compare_counts(&mut self, entries: &[Entry<u8>]) {
        let count = |state: KeyState| entries.iter().filter(|entry| entry.state == state).count();
        let in_band = |band: Priority| self.line.iter().filter(|at| at.1 == band).count();
        let counts = KeyCounts {
            waiting: count(KeyState::Waiting),
            ready: self.line.len(),
            ready_by_band: Priority::ALL.map(in_band),
            running: count(KeyState::Running) + count(KeyState::Dirty),
            dirty: count(KeyState::Dirty),
            parked: count(KeyState::Parked),
            error_bytes: entries
                .iter()
                .filter_map(|entry| entry.last_error.as_ref())
                .map(|error| error.len() as u64)
                .sum(),
        };
        assert_eq!(self.real.counts(self.now), counts);
        assert_eq!(self.real.remaining_capacity(), u64::from(KEYS_MAX) - entries.len() as u64);
    }

    /// After any operations, a drained queue ends empty and has lost no claim.
    fn end(mut self) {
        self.real.resume(self.now);
        self.real.drain(self.now);
        for claimed in std::mem::take(&mut self.claims) {
            self.real.finish(self.now, claimed, Next::Done, 0);
        }
        while let Some(claimed) = self.real.claim(self.now) {
            self.real.finish(self.now, claimed, Next::Done, 0);
        }
        assert!(self.real.phase().is_closed());
        assert!(self.real.entries(self.now, usize::MAX).is_empty());
        let counters = self.real.counters();
        let ends = counters.finished;
        let ended = ends.done + ends.after + ends.again + ends.retry + ends.park + ends.drop + ends.returned;
        assert_eq!(counters.claims, ended);
    }
}
