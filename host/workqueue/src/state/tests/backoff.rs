use super::*;

/// B1: the wait doubles with each failure in a row, and a success resets it.
#[test]
fn failures_double_the_wait_and_keys_are_independent() {
    let mut desk = Desk::new();
    desk.add("a");
    for (failures, wait_ms) in [(1, 10), (2, 20), (3, 40), (4, 80), (5, 160)] {
        let finished = desk.run("a", failed());
        assert_eq!((finished.failures, finished.due_in), (failures, Some(ms(wait_ms))));
        desk.pass(wait_ms);
    }
    desk.claim();
    desk.add("b");
    assert_eq!(desk.run("b", failed()).due_in, Some(ms(10)));
    desk.finish("a", Next::Done);
    desk.add("a");
    assert_eq!(desk.run("a", failed()).due_in, Some(ms(10)), "a success resets");
}

/// B2: the wait is capped and does not overflow.
#[test]
fn a_thousand_failures_stay_at_the_cap() {
    let mut desk = Desk::new();
    desk.add("a");
    let mut wait = ms(0);
    for _ in 0..1000 {
        wait = desk.run("a", failed()).due_in.unwrap();
        desk.now = desk.now.after(wait);
    }
    assert_eq!((wait, desk.failures("a")), (BACKOFF.max, 1000));
}

/// B4: failing events during a delay do not make the backoff grow.
#[test]
fn failing_events_during_the_wait_do_not_grow_the_exponent() {
    let mut desk = Desk::new();
    desk.add("a");
    desk.run("a", failed());
    for _ in 0..50 {
        desk.pass(1);
        desk.add("a");
        let finished = desk.run("a", failed());
        assert_eq!((finished.failures, finished.due_in), (1, Some(ms(10))));
    }
    desk.pass(10);
    assert_eq!(desk.run("a", failed()).failures, 2, "this one had waited");
}

/// B4: failing events during a delay do not make the backoff grow.
#[test]
fn failing_events_during_the_run_do_not_grow_the_exponent_either() {
    let mut desk = Desk::new();
    desk.add("a");
    for _ in 0..50 {
        desk.claim();
        desk.add("a");
        desk.pass(100);
        assert_eq!(desk.finish("a", failed()).state, Some(KeyState::Ready));
    }
    assert_eq!(desk.failures("a"), 1);
}

/// B4: failing events during a delay do not make the backoff grow.
#[test]
fn an_event_that_had_to_wait_until_the_backoff_was_over_counts() {
    let mut desk = Desk::new();
    desk.add("a");
    desk.run("a", failed());
    desk.add("a");
    desk.pass(10);
    assert_eq!(desk.run("a", failed()).failures, 2);
}

/// B4: failing events during a delay do not make the backoff grow.
#[test]
fn a_claim_given_back_during_the_wait_does_not_make_the_next_failure_count() {
    let mut desk = Desk::new();
    desk.add("a");
    desk.run("a", failed());
    desk.add("a");
    desk.claim();
    desk.give_back("a");
    assert_eq!(desk.run("a", failed()).failures, 1);
}

/// B5: a failure is retried with backoff, and a success clears the failures.
#[test]
fn a_success_after_a_failure_resets() {
    let mut desk = Desk::new();
    desk.add("a");
    assert_eq!(desk.run("a", failed()).state, Some(KeyState::Waiting));
    let entry = desk.state.entry(desk.now, &"a").unwrap();
    assert_eq!(entry.last_error.as_deref(), Some("no route"));
    desk.pass(10);
    let claimed = desk.state.claim(desk.now).unwrap();
    assert_eq!(claimed.failures, 1);
    assert_eq!(desk.state.finish(desk.now, claimed, after(5), 0).failures, 0);
    assert_eq!(desk.state.entry(desk.now, &"a").unwrap().last_error, None);
    assert_eq!(desk.state.counters().retries, 1);
}

/// B6: a requested delay clears the failures and is no failure.
#[test]
fn again_after_resets_failures_and_is_not_an_error() {
    let mut desk = Desk::new();
    desk.add("a");
    desk.run("a", failed());
    desk.pass(10);
    let finished = desk.run("a", after(30));
    assert_eq!((finished.state, finished.failures, finished.due_in), (Some(KeyState::Waiting), 0, Some(ms(30))));
    desk.pass(30);
    assert_eq!(desk.run("a", failed()).due_in, Some(ms(10)));
    let counters = desk.state.counters();
    assert_eq!((counters.finished.after, counters.finished.retry, counters.retries), (1, 2, 2));
}

/// B6: a requested delay clears the failures and is no failure.
#[test]
fn a_failure_that_an_event_brought_during_a_requested_delay_counts() {
    let mut desk = Desk::new();
    desk.add("a");
    desk.run("a", after(1000));
    desk.add("a");
    assert_eq!(desk.run("a", failed()).failures, 1, "that delay was no backoff");
}

/// B7: a delay of zero puts the key at the end of the queue at once.
#[test]
fn again_after_zero_is_queued_at_once_at_the_tail() {
    for next in [Next::After(Duration::ZERO), Next::Again] {
        let mut desk = Desk::new();
        desk.add("a");
        desk.add("b");
        assert_eq!(desk.run("a", next).state, Some(KeyState::Ready));
        assert_eq!(desk.run_all(), ["b", "a"]);
        assert_eq!(desk.state.counters().finished.again, 1);
    }
}

/// B8: a terminal failure parks the key until a change or a request.
#[test]
fn a_parked_key_is_not_retried_until_it_is_added() {
    let mut desk = Desk::new();
    desk.add("a");
    let finished = desk.run("a", parked());
    assert_eq!((finished.state, finished.failures, finished.dropped), (Some(KeyState::Parked), 1, false));
    desk.pass(1_000_000_000);
    assert_eq!(desk.claim(), None);
    assert_eq!(desk.add("a"), AddOutcome::Unparked);
    assert_eq!(desk.state.claim(desk.now).unwrap().failures, 1, "failures are kept");
}

/// B8: a terminal failure parks the key until a change or a request.
#[test]
fn a_parked_key_that_is_added_with_a_delay_waits() {
    let mut desk = Desk::new();
    desk.add("a");
    desk.run("a", parked());
    assert_eq!(desk.add_after("a", 50), AddOutcome::Unparked);
    assert_eq!((desk.at("a"), desk.failures("a")), (Some(KeyState::Waiting), 1));
}

/// B8: a terminal failure parks the key until a change or a request.
#[test]
fn a_change_during_the_run_that_parks_runs_the_key_again() {
    let mut desk = Desk::new();
    desk.add("a");
    desk.claim();
    desk.add("a");
    let finished = desk.finish("a", parked());
    assert_eq!((finished.state, finished.failures), (Some(KeyState::Ready), 1));
}

/// B9: with n retries a key runs n + 1 times, and is then parked.
#[test]
fn n_retries_give_n_plus_one_runs_and_then_the_key_is_parked_and_counted() {
    for retries_max in [0, 1, 3] {
        let backoff = Backoff { retries_max: Some(retries_max), ..BACKOFF };
        let mut desk = Desk::with(Options { backoff, ..Options::default() });
        desk.add("a");
        let mut runs = 0;
        while desk.at("a") != Some(KeyState::Parked) {
            let finished = desk.run("a", failed());
            runs += 1;
            assert_eq!(finished.dropped, runs == retries_max + 1);
            desk.pass(10_000);
        }
        assert_eq!((runs, desk.state.counters().dropped), (retries_max + 1, 1));
        assert_eq!(u64::from(retries_max), desk.state.counters().retries);
        desk.add("a");
        assert!(desk.run("a", failed()).dropped, "one run per event, with failures kept");
    }
}

/// B9: with n retries a key runs n + 1 times, and is then parked.
#[test]
fn an_event_storm_does_not_use_retries_up() {
    let backoff = Backoff { retries_max: Some(1), ..BACKOFF };
    let mut desk = Desk::with(Options { backoff, ..Options::default() });
    for _ in 0..20 {
        desk.add("a");
        assert!(!desk.run("a", failed()).dropped);
    }
}

/// B10: a failure that requests a delay waits for the longer of delay and backoff.
#[test]
fn a_failure_with_a_delay_waits_the_larger_of_delay_and_backoff() {
    let mut desk = Desk::new();
    desk.add("a");
    assert_eq!(desk.run("a", failed_for(500)).due_in, Some(ms(500)));
    desk.pass(500);
    assert_eq!(desk.run("a", failed_for(5)).due_in, Some(ms(20)));
    let forever = Next::Retry { at_least: Some(Duration::MAX), error: "never".into() };
    desk.pass(20);
    desk.run("a", forever);
    desk.pass(u64::from(u32::MAX));
    assert_eq!(desk.claim(), None);
}

/// B1: the wait doubles with each failure in a row, and a success resets it.
#[test]
fn new_backoff_settings_hold_from_the_next_failure_on() {
    let mut desk = Desk::new();
    desk.add("a");
    desk.run("a", failed());
    desk.state.configure(Options { backoff: Backoff { base: ms(100), ..BACKOFF }, ..Options::default() });
    assert_eq!(desk.due_in("a"), Some(ms(10)));
    desk.pass(10);
    assert_eq!(desk.run("a", failed()).due_in, Some(ms(200)));
}
