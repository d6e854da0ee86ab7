//! The real state against a model: whatever is done in whatever order, both hand out the same keys and tell the same.

mod reference;

use std::{collections::HashMap, num::NonZeroU32, time::Duration};

use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};

use super::{BACKOFF, failed, failed_for, ms, parked};
use crate::{
    Backoff, DuringDelay, KeyState, Moment, Next, Options, Phase, Priority, Verdict,
    state::{Claimed, State},
};
use reference::{Known, Model};

/// One thing that is done. Few keys, few bands and few delays, so that they meet.
#[derive(Clone, Debug)]
enum Step {
    Add { key: u8, delay_ms: u64, band: usize },
    Postpone { key: u8, delay_ms: u64 },
    Cancel(u8),
    Expedite(u8),
    Retry(u8),
    Claim,
    Finish { nth: usize, next: Next },
    GiveBack { nth: usize },
    Pass(u64),
    Suspend(bool),
    Drain,
    Stop,
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..6_u8;
    let delay = prop_oneof![3 => Just(0), 3 => 1..40_u64, 1 => Just(u64::MAX)];
    let next = prop_oneof![
        3 => Just(Next::Done),
        1 => Just(Next::Again),
        1 => Just(Next::Drop),
        1 => Just(parked()),
        3 => Just(failed()),
        1 => (1..60_u64).prop_map(failed_for),
        2 => delay.clone().prop_map(|delay| Next::After(ms(delay))),
        1 => delay.clone().prop_map(|delay| Next::Resync(ms(delay))),
    ];
    prop_oneof![
        40 => (key.clone(), delay.clone(), 0..5_usize).prop_map(|(key, delay_ms, band)| Step::Add { key, delay_ms, band }),
        5 => (key.clone(), delay).prop_map(|(key, delay_ms)| Step::Postpone { key, delay_ms }),
        5 => key.clone().prop_map(Step::Cancel),
        5 => key.clone().prop_map(Step::Expedite),
        5 => key.prop_map(Step::Retry),
        30 => Just(Step::Claim),
        30 => (any::<usize>(), next).prop_map(|(nth, next)| Step::Finish { nth, next }),
        5 => any::<usize>().prop_map(|nth| Step::GiveBack { nth }),
        20 => (0..50_u64).prop_map(Step::Pass),
        1 => Just(Step::Pass(1_000_000_000)),
        2 => any::<bool>().prop_map(Step::Suspend),
        1 => Just(Step::Drain),
        1 => Just(Step::Stop),
    ]
}

fn options() -> impl Strategy<Value = Options> {
    (any::<bool>(), 1..6_u32, proptest::option::of(0..3_u32)).prop_map(|(hold, ageing, retries_max)| Options {
        during_delay: if hold { DuringDelay::Hold } else { DuringDelay::RunNow },
        ageing_claims: NonZeroU32::new(ageing).unwrap(),
        backoff: Backoff { retries_max, ..BACKOFF },
        seed: None,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_state_does_what_the_model_does(options in options(), steps in proptest::collection::vec(step(), 1..120)) {
        let mut pair = Pair { real: State::new(options), model: Model { options, ..Model::default() }, now: Moment::ZERO, held: Vec::new() };
        for step in steps {
            pair.take(step);
            pair.compare();
        }
        pair.end();
    }
}

struct Pair {
    real: State<u8>,
    model: Model,
    now: Moment,
    held: Vec<Claimed<u8>>,
}

impl Pair {
    fn take(&mut self, step: Step) {
        let (now, known) = (self.now, self.model.keys.clone());
        let absent = |key: u8, verdict| assert_eq!(verdict == Verdict::Absent, !known.contains_key(&key));
        match step {
            Step::Add { key, delay_ms, band } => {
                let added = self.real.add_after(now, key, ms(delay_ms), Priority::ALL[band]);
                assert_eq!(added.is_ok(), self.model.add(key, now.after(ms(delay_ms)), Priority::ALL[band]));
            }
            Step::Postpone { key, delay_ms } => {
                absent(key, self.real.postpone(now, &key, ms(delay_ms)));
                if let Some(Known { due: Some(_), band, .. }) = known.get(&key) {
                    self.model.queue(key, now.after(ms(delay_ms)), *band, true);
                }
            }
            Step::Cancel(key) => {
                absent(key, self.real.cancel(now, &key));
                match self.model.keys.get_mut(&key) {
                    Some(known) if known.held.is_some() => known.due = None,
                    _ => drop(self.model.keys.remove(&key)),
                }
            }
            Step::Expedite(key) => {
                absent(key, self.real.expedite(now, &key));
                let first = self.model.state(key) == Some(KeyState::Ready) && known[&key].band == Priority::HIGHEST;
                if !first && !matches!(self.model.state(key), None | Some(KeyState::Running)) {
                    self.model.queue(key, now, Priority::HIGHEST, false);
                }
            }
            Step::Retry(key) => {
                absent(key, self.real.retry(now, &key));
                self.retry_model(key);
            }
            Step::Claim => {
                let claimed = self.real.claim(now);
                assert_eq!(claimed.as_ref().map(|claimed| claimed.key), self.model.claim());
                self.held.extend(claimed);
            }
            ends => self.end_run_or_close(ends),
        }
    }

    fn retry_model(&mut self, key: u8) {
        let Some(state) = self.model.state(key) else { return };
        let known = self.model.keys.get_mut(&key).unwrap();
        let band = known.held.map_or(known.band, |(band, _)| band);
        if known.held.is_some() {
            self.model.add(key, self.now, band);
            return;
        }
        (known.failures, known.until) = (0, Moment::ZERO);
        if state != KeyState::Ready {
            self.model.queue(key, self.now, band, false);
        }
    }

    fn end_run_or_close(&mut self, step: Step) {
        let now = self.now;
        match step {
            Step::Finish { nth, next } if !self.held.is_empty() => {
                let claimed = self.held.swap_remove(nth % self.held.len());
                self.model.finish(claimed.key, Some(next.clone()));
                self.real.finish(now, claimed, next, 0);
            }
            Step::GiveBack { nth } if !self.held.is_empty() => {
                let claimed = self.held.swap_remove(nth % self.held.len());
                self.model.finish(claimed.key, None);
                self.real.give_back(now, claimed);
            }
            Step::Pass(passed_ms) => {
                self.now = now.after(ms(passed_ms));
                self.model.now = self.now;
            }
            Step::Suspend(suspended) => {
                self.model.suspended = suspended;
                if suspended { self.real.suspend(now) } else { self.real.resume(now) }
            }
            Step::Drain => {
                self.real.drain(now);
                self.model.close(Phase::Draining);
            }
            Step::Stop => {
                drop(self.real.stop(now));
                self.model.close(Phase::Stopped);
            }
            _ => {}
        }
    }

    /// Everything that can be asked is the same in both.
    fn compare(&mut self) {
        self.model.close(Phase::Open);
        assert_eq!(self.real.phase(), self.model.phase);
        let entries: HashMap<u8, _> =
            self.real.entries(self.now, usize::MAX).into_iter().map(|entry| (entry.key, entry)).collect();
        assert_eq!(entries.len(), self.model.keys.len());
        for (key, known) in &self.model.keys {
            let entry = &entries[key];
            let due_in = known.due.map(|due| due.since(self.now)).filter(|due_in| *due_in > Duration::ZERO);
            assert_eq!((Some(entry.state), entry.due_in), (self.model.state(*key), due_in), "key {key}");
            assert_eq!((entry.failures, self.real.entry(self.now, key).as_ref()), (known.failures, Some(entry)));
        }
        let counts = self.real.counts(self.now);
        assert_eq!(counts.waiting + counts.ready + counts.running + counts.parked, entries.len());
        let due = self.model.keys.values().filter(|known| known.held.is_none()).filter_map(|known| known.due);
        let next_due = due.filter(|due| *due > self.now).min();
        if !self.model.suspended && !self.model.phase.is_closed() {
            assert_eq!(self.real.next_due(), next_due);
        }
    }

    /// Whatever came before, a drained queue ends empty and has lost no claim.
    fn end(mut self) {
        self.real.resume(self.now);
        self.real.drain(self.now);
        for claimed in std::mem::take(&mut self.held) {
            self.real.finish(self.now, claimed, Next::Done, 0);
        }
        while let Some(claimed) = self.real.claim(self.now) {
            self.real.finish(self.now, claimed, Next::Done, 0);
        }
        assert!(self.real.phase().is_closed());
        assert!(self.real.entries(self.now, usize::MAX).is_empty());
        let counters = self.real.counters();
        let ends = counters.finished;
        assert_eq!(
            counters.claims,
            ends.done + ends.after + ends.again + ends.retry + ends.park + ends.drop + ends.returned
        );
    }
}
