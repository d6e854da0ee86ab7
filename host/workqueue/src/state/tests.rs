//! Tests of the rules, with explicit times. The letters name the items of the conformance list.

mod backoff;
mod closing;
mod fairness;
mod inspect;
mod memory;
mod model;
mod queueing;
mod room;
mod time;
mod verbs;

use std::{collections::HashMap, num::NonZeroU32, time::Duration};

use super::*;
use crate::{Backoff, ChangeOutcome, KeyState};

/// A state machine, its clock, and the held claims.
struct Desk {
    state: State<&'static str>,
    now: Moment,
    held: HashMap<&'static str, ClaimToken<&'static str>>,
}

/// The backoff of the tests: 10 ms doubling to 1 s, without jitter.
const BACKOFF: Backoff =
    Backoff { base: Duration::from_millis(10), max: Duration::from_secs(1), retries_max: None, jitter: 0.0 };

impl Desk {
    fn new() -> Desk {
        Desk::with(Options { backoff: BACKOFF, ..Options::default() })
    }

    fn holding() -> Desk {
        Desk::with(Options { backoff: BACKOFF, during_delay: DuringDelay::Hold, ..Options::default() })
    }

    fn with(options: Options) -> Desk {
        Desk { state: State::new(options), now: Moment::at(ms(1000)), held: HashMap::new() }
    }

    fn add(&mut self, key: &'static str) -> AddOutcome {
        self.add_at(key, Priority::NORMAL)
    }

    fn add_at(&mut self, key: &'static str, priority: Priority) -> AddOutcome {
        self.state.add(self.now, key, priority).unwrap()
    }

    fn add_after(&mut self, key: &'static str, delay_ms: u64) -> AddOutcome {
        self.state.add_after(self.now, key, ms(delay_ms), Priority::NORMAL).unwrap()
    }

    fn add_held(&mut self, key: &'static str, delay_ms: u64) -> AddOutcome {
        self.state.add_held(self.now, key, ms(delay_ms), Priority::NORMAL).unwrap()
    }

    fn pass(&mut self, passed_ms: u64) {
        self.now = self.now.after(ms(passed_ms));
    }

    fn claim(&mut self) -> Option<&'static str> {
        let claimed = self.state.claim(self.now)?;
        let key = claimed.key;
        assert!(self.held.insert(key, claimed).is_none(), "{key} was handed out twice at once");
        Some(key)
    }

    fn finish(&mut self, key: &'static str, next: Next) -> FinishOutcome {
        let claimed = self.held.remove(key).expect("the test holds that key");
        self.state.finish(self.now, claimed, next, 0)
    }

    /// Claims the next key, checks that it is this one, and finishes it.
    fn run(&mut self, key: &'static str, next: Next) -> FinishOutcome {
        assert_eq!(self.claim(), Some(key));
        self.finish(key, next)
    }

    fn give_back(&mut self, key: &'static str) {
        let claimed = self.held.remove(key).expect("the test holds that key");
        self.state.give_back(self.now, claimed);
    }

    /// Claims and finishes all ready keys.
    fn run_all(&mut self) -> Vec<&'static str> {
        let mut ran = Vec::new();
        while let Some(key) = self.claim() {
            ran.push(key);
            self.finish(key, Next::Done);
        }
        ran
    }

    fn at(&mut self, key: &'static str) -> Option<KeyState> {
        self.state.state(self.now, &key)
    }

    fn due_in(&mut self, key: &'static str) -> Option<Duration> {
        self.state.entry(self.now, &key).expect("the key is there").due_in
    }

    fn failures(&mut self, key: &'static str) -> u32 {
        self.state.entry(self.now, &key).expect("the key is there").failures
    }

    fn len(&mut self) -> usize {
        self.state.counts(self.now).ready
    }
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn failed() -> Next {
    Next::Retry { at_least: None, error: "no route".into() }
}

fn failed_for(at_least_ms: u64) -> Next {
    Next::Retry { at_least: Some(ms(at_least_ms)), error: "busy".into() }
}

fn parked() -> Next {
    Next::Park { error: "bad spec".into() }
}

fn after(delay_ms: u64) -> Next {
    Next::After(ms(delay_ms))
}
