use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Instant;

use homeostat_testing::eventually_blocking;

use super::*;

/// How long a test waits for the thread.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Returns a clock, and a receiver of its ticks.
fn clock() -> (EpochClock, Receiver<()>) {
    let (send, ticks) = sync_channel(1_000);
    (EpochClock::start_with(move || send.send(()).is_ok()).unwrap(), ticks)
}

fn wait_until_asleep(clock: &EpochClock) {
    eventually_blocking("the thread sleeps", || clock.state.asleep.load(Ordering::SeqCst).then_some(()));
}

#[test]
fn the_clock_ticks_while_a_guest_may_run_and_sleeps_after_the_last_one() {
    let (clock, ticks) = clock();
    for _ in 0..3 {
        let guard = clock.keep_ticking();
        let second = clock.keep_ticking();
        drop(guard);
        for _ in 0..3 {
            ticks.recv_timeout(WAIT_MAX).unwrap();
        }
        drop(second);
        let seen = ticks.try_iter().count();
        wait_until_asleep(&clock);
        let late = ticks.try_iter().count();
        assert!(late <= 2, "{late} ticks without a guest, after {seen}");
    }
}

#[test]
fn a_wake_up_is_followed_by_a_tick_even_if_the_guest_has_ended() {
    let (clock, ticks) = clock();
    wait_until_asleep(&clock);
    drop(clock.keep_ticking());
    ticks.recv_timeout(WAIT_MAX).unwrap();
}

#[test]
fn the_thread_ends_with_its_clock() {
    let (clock, ticks) = clock();
    wait_until_asleep(&clock);
    drop(clock);
    let began = Instant::now();
    while ticks.recv_timeout(WAIT_MAX) != Err(RecvTimeoutError::Disconnected) {
        assert!(began.elapsed() < WAIT_MAX, "the thread goes on");
    }
}
