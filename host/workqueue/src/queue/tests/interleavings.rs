//! Two or three threads in many orders, chosen at random by shuttle. It prints a failing schedule, and
//! `shuttle::replay` runs that again. A claimer that sleeps for ever is a deadlock there, which also fails.
//! Due times pass on tokio's paused clock, which one of the threads advances.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Mutex, atomic::AtomicBool},
};

use shuttle::{
    Config, Runner,
    future::block_on,
    scheduler::{PctScheduler, RandomScheduler},
    thread::{self, JoinHandle},
};

use tokio::runtime::Runtime;

use super::*;
use crate::{
    DuringDelay,
    queue::schedule::{branch, exploring},
};

/// Schedules of each kind per test.
const SCHEDULES: usize = 1000;
/// Priority changes in a schedule of the second kind.
const DEPTH: usize = 3;

/// Stack of a thread: enough for tokio to advance a clock.
const STACK_BYTES: usize = 256 * 1024;

fn explore(test: impl Fn() + Clone + Send + Sync + 'static) {
    let random = RandomScheduler::new_from_seed(7, SCHEDULES);
    let by_priority = PctScheduler::new_from_seed(7, DEPTH, SCHEDULES);
    let mut config = Config::default();
    config.stack_size = STACK_BYTES;
    exploring(|| {
        Runner::new(random, config.clone()).run(test.clone());
        Runner::new(by_priority, config).run(test);
    });
}

/// As [`explore`], with a clock that only the test advances. All threads of a schedule are one thread, so
/// they share it.
fn explore_in_time(test: impl Fn(&Clock) + Clone + Send + Sync + 'static) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let clock = Clock(Arc::new(runtime));
    let runtime = Arc::clone(&clock.0);
    let _entered = runtime.enter();
    explore(move || test(&clock));
}

#[derive(Clone)]
struct Clock(Arc<Runtime>);

impl Clock {
    /// Advances the clock and wakes the due timers.
    fn advance(&self, by: Duration) {
        self.0.block_on(tokio::time::advance(by));
    }
}

/// A queue whose delays are floors, or not.
fn queue_with(during_delay: DuringDelay) -> Queue<u32> {
    let queue = queue();
    queue.configure(Options { backoff: BACKOFF, during_delay, ..Options::default() });
    queue
}

/// Half a second after each failure.
const BACKOFF: Backoff = Backoff { base: DELAY, max: DELAY, retries_max: None, jitter: 0.0 };
/// The delay with which the runs of these tests end.
const DELAY: Duration = ms(500);

/// The runs of the workers of one test.
#[derive(Default)]
struct Log {
    busy: [AtomicBool; 4],
    ran: Mutex<Vec<u32>>,
}

impl Log {
    fn run(&self, key: u32) {
        let busy = &self.busy[key as usize];
        assert!(!busy.swap(true, Ordering::SeqCst), "{key} runs twice at once");
        branch();
        busy.store(false, Ordering::SeqCst);
        self.ran.lock().unwrap().push(key);
    }

    fn ran(&self) -> Vec<u32> {
        let mut ran = self.ran.lock().unwrap().clone();
        ran.sort_unstable();
        ran
    }
}

/// Claims and runs keys until the queue is closed.
fn worker(queue: &Queue<u32>, log: &Arc<Log>) -> JoinHandle<()> {
    let (queue, log) = (queue.clone(), Arc::clone(log));
    thread::spawn(move || {
        while let Some(claim) = block_on(queue.claim()) {
            log.run(*claim.key());
            claim.finish(Next::Done);
        }
    })
}

/// As [`worker`], but without sleeping between keys.
fn busy_worker(queue: &Queue<u32>, log: &Arc<Log>) -> JoinHandle<()> {
    let (queue, log) = (queue.clone(), Arc::clone(log));
    thread::spawn(move || {
        let mut held = None;
        loop {
            held = if held.is_some() { held } else { block_on(queue.claim()) };
            let Some(claim) = held else { return };
            log.run(*claim.key());
            (_, held) = claim.finish_and_claim(Next::Done);
        }
    })
}

/// Claims and runs one key.
fn one_claim(queue: &Queue<u32>, log: &Arc<Log>) -> JoinHandle<()> {
    let (queue, log) = (queue.clone(), Arc::clone(log));
    thread::spawn(move || {
        let claim = block_on(queue.claim()).expect("nobody closes the queue");
        log.run(*claim.key());
        claim.finish(Next::Done);
    })
}

fn join(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// As [`Queue::drain`], without the deadline, which needs a clock.
fn drain(queue: &Queue<u32>) -> CloseReport<u32> {
    let mut phase = queue.shared.phase.subscribe();
    queue.with(State::drain);
    drop(block_on(phase.wait_for(|phase| phase.is_closed())));
    queue.stop()
}

/// Q11: an add between the check and the sleep wakes the claimer.
#[test]
fn every_add_reaches_a_claimer_in_every_order() {
    explore(|| {
        let (queue, log) = (queue(), Arc::<Log>::default());
        let claimers = [one_claim(&queue, &log), one_claim(&queue, &log)];
        add(&queue, 1);
        add(&queue, 2);
        join(claimers);
        assert_eq!(log.ran(), [1, 2]);
    });
}

/// Q5, Q10, Q11: of two claimers and one key one gets it, and the other sleeps until the queue closes.
#[test]
fn one_key_and_two_claimers_give_one_run_in_every_order() {
    explore(|| {
        let (queue, log) = (queue(), Arc::<Log>::default());
        let workers = [worker(&queue, &log), busy_worker(&queue, &log)];
        add(&queue, 1);
        let report = drain(&queue);
        join(workers);
        assert!(report.dropped.is_empty() && report.running.is_empty());
        assert_eq!((log.ran(), queue.counters().claims), (vec![1], 1));
    });
}

/// Q3, Q5: adds of a possibly running key cause another, later run, and never two runs at once.
#[test]
fn the_last_add_is_seen_by_a_run_in_every_order() {
    explore(|| {
        let (queue, log) = (queue(), Arc::<Log>::default());
        let asked = Arc::new(AtomicUsize::new(0));
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let (queue, log, asked) = (queue.clone(), Arc::clone(&log), Arc::clone(&asked));
                thread::spawn(move || {
                    let mut seen = 0;
                    while let Some(claim) = block_on(queue.claim()) {
                        seen = asked.load(Ordering::SeqCst);
                        log.run(*claim.key());
                        claim.finish(Next::Done);
                    }
                    log.ran.lock().unwrap().push(seen as u32);
                })
            })
            .collect();
        for asking in 1..=3 {
            asked.store(asking, Ordering::SeqCst);
            add(&queue, 0);
        }
        drain(&queue);
        join(workers);
        assert!(log.ran().contains(&3), "no run began after the last add");
    });
}

/// Q11: a claimer that is cancelled after it was woken passes its wake-up on.
#[test]
fn a_claimer_that_gives_up_loses_no_key_in_any_order() {
    explore(|| {
        let (queue, log) = (queue(), Arc::<Log>::default());
        let impatient = queue.clone();
        let impatient = thread::spawn(move || {
            let mut claimer = PollTask::new(impatient.claim());
            drop(claimer.poll());
            branch();
        });
        let patient = one_claim(&queue, &log);
        add(&queue, 1);
        join([impatient, patient]);
        assert_eq!((log.ran(), queue.counts()), (vec![1], KeyCounts::default()));
    });
}

/// Q8, Q10: keys that a drain accepts are run; keys that it refuses are not.
#[test]
fn a_drain_runs_the_keys_that_it_accepted_in_every_order() {
    explore(|| {
        let (queue, log) = (queue(), Arc::<Log>::default());
        let worker = worker(&queue, &log);
        let feeder = queue.clone();
        let feeder = thread::spawn(move || {
            let taken = [1, 2, 3, 1].map(|key| feeder.add(key, Priority::NORMAL).is_ok());
            assert_eq!(
                feeder.counters().adds + feeder.counters().merges,
                taken.iter().filter(|taken| **taken).count() as u64
            );
        });
        let report = drain(&queue);
        join([feeder, worker]);
        assert!(report.dropped.is_empty() && report.running.is_empty());
        assert_eq!(queue.counters().adds, log.ran().len() as u64);
    });
}

/// Q9: a stop wakes every claimer, and each accepted key is either run or reported as dropped.
#[test]
fn a_stop_ends_every_claimer_and_reports_the_dropped_keys_in_every_order() {
    explore(|| {
        let (queue, log) = (queue(), Arc::<Log>::default());
        let workers = [worker(&queue, &log), busy_worker(&queue, &log)];
        let feeder = queue.clone();
        let feeder = thread::spawn(move || {
            let _ = feeder.add(1, Priority::NORMAL);
            let _ = feeder.add(2, Priority::HIGH);
        });
        queue.stop();
        join(workers.into_iter().chain([feeder]));
        let (counters, dropped) = (queue.counters(), queue.stop().dropped);
        assert_eq!(counters.adds, counters.claims + dropped.len() as u64);
        assert_eq!((counters.dropped, log.ran().len()), (dropped.len() as u64, counters.claims as usize));
    });
}

/// Q13: a dropped claim wakes a sleeping claimer, as an add does.
#[test]
fn a_dropped_claim_reaches_another_claimer_in_every_order() {
    explore(|| {
        let (queue, log) = (queue(), Arc::<Log>::default());
        add(&queue, 1);
        let clumsy = queue.clone();
        let clumsy = thread::spawn(move || drop(block_on(clumsy.claim())));
        let (other, its_log) = (queue.clone(), Arc::clone(&log));
        let other = thread::spawn(move || {
            let claim = block_on(other.claim()).expect("nobody closes the queue");
            its_log.run(*claim.key());
            claim.finish(Next::Drop);
        });
        other.join().unwrap();
        // It may be too late for a wake-up; then the claimer sleeps.
        queue.stop();
        join([clumsy]);
        assert_eq!(log.ran(), [1]);
    });
}

/// Q3, Q11: a key that runs again reaches a sleeping claimer, unless its worker claims it itself.
#[test]
fn a_key_that_was_added_while_running_reaches_another_claimer_in_every_order() {
    explore(|| {
        let queue = queue();
        add(&queue, 1);
        let held = queue.try_claim().unwrap();
        let other = queue.clone();
        let other = thread::spawn(move || {
            let claim = block_on(other.claim()).expect("nobody closes the queue");
            claim.finish(Next::Done);
        });
        add(&queue, 1);
        held.finish(Next::Done);
        join([other]);
        assert_eq!(queue.counts(), KeyCounts::default());
    });
}

/// Q10: the last run ends a drain, even if its worker never returns.
#[test]
fn the_last_finish_ends_a_drain_in_every_order() {
    explore(|| {
        for going_on in [false, true] {
            let queue = queue();
            add(&queue, 1);
            let claim = queue.try_claim().unwrap();
            let worker = thread::spawn(move || {
                if going_on {
                    assert!(claim.finish_and_claim(Next::Done).1.is_none());
                } else {
                    claim.finish(Next::Done);
                }
            });
            assert!(drain(&queue).running.is_empty());
            join([worker]);
        }
    });
}

/// C4: a resume wakes the claimers that slept through a suspension.
#[test]
fn a_suspension_that_ends_leaves_no_claimer_asleep_in_any_order() {
    explore(|| {
        let queue = queue();
        queue.suspend();
        let claimer = queue.clone();
        let claimer = thread::spawn(move || block_on(claimer.claim()).map(|claim| *claim.key()));
        let feeder = queue.clone();
        let feeder = thread::spawn(move || assert_eq!(add(&feeder, 1), AddOutcome::Ready));
        queue.resume();
        assert_eq!(claimer.join().unwrap(), Some(1));
        join([feeder]);
    });
}

/// How a run ends with [`DELAY`].
type End = fn(&Queue<u32>, Claim<u32>);

fn end(claim: Claim<u32>, next: Next) {
    claim.finish(next);
}

/// The ways that exist.
const ENDS: [End; 4] = [
    |_, claim| end(claim, Next::After(DELAY)),
    |_, claim| drop(claim.finish_and_claim(Next::After(DELAY))),
    |_, claim| end(claim, Next::Retry { at_least: None, error: "no route".into() }),
    |_, claim| end(claim, Next::Retry { at_least: Some(DELAY), error: "busy".into() }),
];

/// A way that does not exist: an add could come between its two steps.
fn in_two_steps(queue: &Queue<u32>, claim: Claim<u32>) {
    let key = *claim.key();
    claim.finish(Next::Done);
    add_after(queue, key, DELAY);
}

/// A run ends with a delay that is a floor, while another thread adds its key and a worker waits for it.
fn a_floor_holds(clock: &Clock, ends: End) {
    let queue = queue_with(DuringDelay::Hold);
    add(&queue, 1);
    let held = queue.try_claim().unwrap();
    let due = queue.shared.now().after(DELAY);
    let (claimer, feeder) = (queue.clone(), queue.clone());
    let claimer = thread::spawn(move || {
        let claim = block_on(claimer.claim()).expect("nobody closes the queue");
        assert!(claimer.shared.now() >= due, "an add got the key out of its delay");
        end(claim, Next::Done);
    });
    let feeder = thread::spawn(move || assert_ne!(add(&feeder, 1), AddOutcome::Unparked));
    ends(&queue, held);
    join([feeder]);
    clock.advance(DELAY);
    join([claimer]);
    assert_eq!((queue.counts(), queue.counters().claims), (KeyCounts::default(), 2), "it ran once more");
}

/// A run ends with a delay that an add cuts short, while another thread adds its key and a worker waits for
/// it.
fn a_delay_that_was_cut_short_is_forgotten(ends: End) {
    let queue = queue_with(DuringDelay::RunNow);
    add(&queue, 1);
    let held = queue.try_claim().unwrap();
    let (claimer, feeder) = (queue.clone(), queue.clone());
    let claimer = thread::spawn(move || end(block_on(claimer.claim()).expect("the add reaches it"), Next::Done));
    let feeder = thread::spawn(move || assert_ne!(add(&feeder, 1), AddOutcome::Unparked));
    ends(&queue, held);
    join([feeder, claimer]);
    assert_eq!(queue.counts(), KeyCounts::default(), "the delay is still there");
}

/// T5, T8: no schedule lets an add come between the end of a run and its delay.
#[test]
fn a_run_that_ends_with_a_floor_is_not_disturbed_in_any_order() {
    for end in ENDS {
        explore_in_time(move |clock| a_floor_holds(clock, end));
    }
}

/// T4, T8: an add makes a waiting key run now, and not once more later; ending a claim with a delay is one
/// step.
#[test]
fn a_run_that_ends_with_a_delay_leaves_none_behind_in_any_order() {
    for end in ENDS {
        explore_in_time(move |_| a_delay_that_was_cut_short_is_forgotten(end));
    }
}

/// Verifies the two tests above: with an end in two steps they fail in some schedule.
#[test]
fn an_end_of_a_run_in_two_steps_fails_the_exploration() {
    let fails = |test: fn(&Clock)| catch_unwind(AssertUnwindSafe(|| explore_in_time(test))).is_err();
    assert!(fails(|clock| a_floor_holds(clock, in_two_steps)));
    assert!(fails(|_| a_delay_that_was_cut_short_is_forgotten(in_two_steps)));
}

/// T1, T11: the timer passes from claimer to claimer, and a due key reaches one of them.
#[test]
fn a_key_that_comes_due_reaches_a_claimer_in_every_order() {
    explore_in_time(|clock| {
        let (queue, log) = (queue(), Arc::<Log>::default());
        let claimers = [one_claim(&queue, &log), one_claim(&queue, &log)];
        let feeder = queue.clone();
        let feeder = thread::spawn(move || {
            add_after(&feeder, 1, ms(20));
            add_after(&feeder, 2, ms(10));
        });
        let impatient = queue.clone();
        let impatient = thread::spawn(move || {
            drop(PollTask::new(impatient.claim()).poll());
            branch();
        });
        join([feeder, impatient]);
        clock.advance(ms(10));
        clock.advance(ms(10));
        join(claimers);
        assert_eq!((log.ran(), queue.counts()), (vec![1, 2], KeyCounts::default()));
    });
}
