use super::*;

/// T1: no key is handed out before it is due.
#[test]
fn a_key_does_not_run_before_its_due_time() {
    let mut desk = Desk::new();
    desk.add_after("a", 50);
    assert_eq!(desk.state.next_due(), Some(desk.now.after(ms(50))));
    desk.pass(49);
    assert_eq!((desk.claim(), desk.due_in("a")), (None, Some(ms(1))));
    desk.pass(1);
    assert_eq!(desk.run_all(), ["a"]);
    assert_eq!(desk.state.next_due(), None);
}

/// T2: of two due times the earlier one holds, and the key runs once.
#[test]
fn of_two_due_times_the_earlier_wins_and_the_key_runs_once() {
    let mut desk = Desk::new();
    desk.add_after("a", 50);
    assert_eq!(desk.add_after("a", 70), AddOutcome::Merged);
    desk.add_after("b", 50);
    assert_eq!(desk.add_after("b", 30), AddOutcome::Merged);
    desk.pass(30);
    assert_eq!(desk.run_all(), ["b"]);
    desk.pass(20);
    assert_eq!(desk.run_all(), ["a"]);
    desk.pass(10_000);
    assert_eq!(desk.run_all(), [""; 0], "neither runs a second time");
}

/// T3: keys come in the order of their due times.
#[test]
fn keys_come_in_the_order_of_their_due_times_also_after_one_long_jump() {
    let mut desk = Desk::new();
    for (key, delay_ms) in [("third", 1000), ("second", 500), ("first", 250), ("also second", 500)] {
        desk.add_after(key, delay_ms);
    }
    desk.pass(100_000);
    assert_eq!(desk.run_all(), ["first", "second", "also second", "third"]);
}

/// T3: keys come in the order of their due times.
#[test]
fn a_key_that_came_due_precedes_one_that_was_added_later() {
    let mut desk = Desk::new();
    desk.add_after("due", 50);
    desk.pass(60);
    desk.add("added");
    assert_eq!(desk.run_all(), ["due", "added"]);
}

/// T4: an add makes a waiting key run now, and not once more later.
#[test]
fn an_add_while_waiting_runs_now_and_not_again_later() {
    let mut desk = Desk::new();
    desk.add_after("a", 50);
    assert_eq!(desk.add("a"), AddOutcome::Ready);
    assert_eq!(desk.run_all(), ["a"]);
    desk.pass(100);
    assert_eq!((desk.claim(), desk.at("a")), (None, None));
}

#[test]
fn a_delayed_add_of_a_ready_key_changes_nothing() {
    let mut desk = Desk::new();
    desk.add("a");
    assert_eq!(desk.add_after("a", 50), AddOutcome::Merged);
    assert_eq!(desk.run_all(), ["a"]);
    assert_eq!(desk.at("a"), None);
}

/// T5: with `hold` no event cuts a requested delay short.
#[test]
fn hold_keeps_a_requested_delay_despite_any_add() {
    let mut desk = Desk::holding();
    desk.add("a");
    desk.run("a", after(100));
    assert_eq!(desk.add("a"), AddOutcome::Held);
    assert_eq!(desk.add_after("a", 10), AddOutcome::Held);
    desk.pass(99);
    assert_eq!((desk.claim(), desk.due_in("a")), (None, Some(ms(1))));
    desk.pass(1);
    assert_eq!(desk.run_all(), ["a"], "once, and with the event seen");
}

/// T5: with `hold` no event cuts a requested delay short.
#[test]
fn hold_keeps_the_delay_of_a_backoff_and_of_an_add_during_the_run() {
    let mut desk = Desk::holding();
    desk.add("a");
    desk.claim();
    desk.add_at("a", Priority::HIGH);
    desk.finish("a", failed());
    assert_eq!((desk.at("a"), desk.due_in("a")), (Some(KeyState::Waiting), Some(ms(10))));
    assert_eq!(desk.state.entry(desk.now, &"a").unwrap().priority, Priority::HIGH);
}

/// T5: the promise of `EnqueueAfter` in the work queue of simple-controller-runtime.
#[test]
fn hold_keeps_the_delay_of_a_feeder_despite_any_add() {
    let mut desk = Desk::holding();
    assert_eq!(desk.add_after("fed", 100), AddOutcome::Waiting);
    for added in [desk.add("fed"), desk.add_after("fed", 10), desk.add_after("fed", 1000)] {
        assert_eq!((added, desk.due_in("fed")), (AddOutcome::Held, Some(ms(100))));
    }
    desk.add_at("fed", Priority::HIGH);
    desk.pass(99);
    assert_eq!(desk.claim(), None);
    desk.pass(1);
    assert_eq!((desk.run_all(), desk.at("fed")), (vec!["fed"], None), "once, for all of them");
}

/// T5: with `hold` no event cuts a requested delay short.
#[test]
fn hold_keeps_the_delay_that_a_feeder_asks_for_during_a_run() {
    let mut desk = Desk::holding();
    for (next, due_ms) in [(Next::Done, 100), (after(30), 100), (after(300), 300), (failed(), 100), (Next::Again, 100)]
    {
        desk.add("a");
        desk.claim();
        assert_eq!(desk.add_after("a", 100), AddOutcome::Dirty);
        assert_eq!([desk.add("a"), desk.add_after("a", 20), desk.add_after("a", 500)], [AddOutcome::Held; 3]);
        assert_eq!(desk.finish("a", next.clone()).due_in, Some(ms(due_ms)), "{next:?}");
        desk.pass(due_ms);
        assert_eq!(desk.run_all(), ["a"]);
        assert_eq!(desk.at("a"), None);
    }
}

/// T5: with `hold` no event cuts a requested delay short.
#[test]
fn hold_does_not_put_off_a_key_whose_turn_has_come() {
    let mut desk = Desk::holding();
    desk.add("ready");
    assert_eq!(desk.add_after("ready", 100), AddOutcome::Merged);
    desk.claim();
    desk.add_after("ready", 100);
    desk.give_back("ready");
    assert_eq!(desk.run_all(), ["ready"], "its run came to nothing");
    desk.add("a");
    desk.claim();
    desk.add("a");
    assert_eq!(desk.add_after("a", 100), AddOutcome::Merged);
    assert_eq!(desk.finish("a", Next::Done).state, Some(KeyState::Ready));
}

/// T5: with `hold` no event cuts a requested delay short.
#[test]
fn a_held_add_is_a_floor_also_where_events_run_keys_at_once() {
    let mut desk = Desk::new();
    assert_eq!(desk.add_held("a", 50), AddOutcome::Waiting);
    assert_eq!(desk.add("a"), AddOutcome::Held);
    assert_eq!(desk.add_after("a", 10), AddOutcome::Held);
    assert_eq!(desk.add_held("a", 100), AddOutcome::Held, "repeated calls do not postpone it for ever");
    assert!(desk.state.entry(desk.now, &"a").unwrap().is_held);
    desk.pass(49);
    assert_eq!(desk.claim(), None);
    desk.pass(1);
    assert_eq!(desk.run_all(), ["a"]);
    desk.add_after("a", 50);
    assert_eq!(desk.add("a"), AddOutcome::Ready, "the floor ended with its delay");
}

/// T5: with `hold` no event cuts a requested delay short.
#[test]
fn a_held_add_replaces_a_delay_that_is_no_floor() {
    for delay_ms in [10, 1000] {
        let mut desk = Desk::new();
        desk.add_after("a", delay_ms);
        desk.add_held("a", 50);
        assert_eq!(desk.add("a"), AddOutcome::Held);
        desk.pass(49);
        assert_eq!(desk.claim(), None, "{delay_ms} ms");
        desk.pass(1);
        assert_eq!(desk.claim(), Some("a"), "{delay_ms} ms");
    }
}

/// T5: with `hold` no event cuts a requested delay short.
#[test]
fn a_held_add_during_a_run_outlasts_its_result() {
    for (next, due_ms) in [(Next::Done, 50), (Next::Again, 50), (after(20), 50), (after(80), 80), (failed(), 50)] {
        let mut desk = Desk::new();
        desk.add("a");
        desk.claim();
        desk.add_held("a", 50);
        assert_eq!(desk.add("a"), AddOutcome::Held);
        assert_eq!(desk.finish("a", next.clone()).due_in, Some(ms(due_ms)), "{next:?}");
        assert_eq!(desk.add("a"), AddOutcome::Held, "{next:?}");
    }
}

/// T5: with `hold` no event cuts a requested delay short.
#[test]
fn a_held_add_does_not_put_off_a_run_that_is_due() {
    let mut desk = Desk::new();
    desk.add("a");
    assert_eq!(desk.add_held("a", 50), AddOutcome::Merged);
    assert_eq!(desk.claim(), Some("a"));
    desk.add("a");
    desk.add_held("a", 50);
    assert_eq!(desk.finish("a", Next::Done).state, Some(KeyState::Ready));
    assert_eq!(desk.claim(), Some("a"));
    desk.add_held("a", 50);
    desk.pass(60);
    assert_eq!(desk.finish("a", after(100)).state, Some(KeyState::Ready), "it came due during the run");
}

/// T5: with `hold` no event cuts a requested delay short.
#[test]
fn verbs_of_a_person_move_a_held_key() {
    let mut desk = Desk::new();
    desk.add_held("a", 50);
    desk.state.postpone(desk.now, &"a", ms(20));
    assert_eq!(desk.add("a"), AddOutcome::Held, "a postponed floor stays one");
    desk.state.expedite(desk.now, &"a");
    assert_eq!(desk.run_all(), ["a"]);
    desk.add_held("a", 50);
    desk.state.retry(desk.now, &"a");
    assert_eq!(desk.run_all(), ["a"]);
    desk.add_held("a", 50);
    desk.state.cancel(desk.now, &"a");
    assert_eq!(desk.at("a"), None);
}

/// T5: with `hold` no event cuts a requested delay short.
#[test]
fn run_now_forgets_a_requested_delay() {
    let mut desk = Desk::new();
    desk.add("a");
    desk.run("a", after(100));
    assert_eq!(desk.add("a"), AddOutcome::Ready);
    assert_eq!(desk.run_all(), ["a"]);
    assert_eq!(desk.at("a"), None);
}

/// T5: with `hold` no event cuts a requested delay short.
#[test]
fn a_changed_setting_holds_for_delays_that_run_already() {
    let mut desk = Desk::new();
    desk.add("a");
    desk.run("a", after(100));
    desk.state.configure(Options { during_delay: DuringDelay::Hold, ..Options::default() });
    assert_eq!(desk.add("a"), AddOutcome::Held);
}

/// T6: a delay of zero or a past due time means now.
#[test]
fn a_delay_of_zero_is_now() {
    let mut desk = Desk::new();
    assert_eq!(desk.add_after("a", 0), AddOutcome::Ready);
    assert_eq!(desk.run_all(), ["a"]);
    desk.add_after("a", 50);
    assert_eq!(desk.state.postpone(desk.now, &"a", Duration::ZERO), ChangeOutcome::Done);
    assert_eq!(desk.run_all(), ["a"]);
}

/// T7: a delay counts from the call.
#[test]
fn a_delay_counts_from_the_call_also_when_the_key_is_running() {
    let mut desk = Desk::new();
    desk.add("a");
    desk.claim();
    desk.add_after("a", 50);
    desk.pass(40);
    assert_eq!(desk.finish("a", Next::Done).due_in, Some(ms(10)));
    desk.pass(10);
    assert_eq!(desk.claim(), Some("a"));
    desk.add_after("a", 50);
    desk.pass(60);
    assert_eq!(desk.finish("a", Next::Done).state, Some(KeyState::Ready), "it came due meanwhile");
}

/// T8: ending a claim with a delay is one step.
#[test]
fn an_add_during_a_run_and_the_requested_delay_merge_to_the_earlier() {
    let mut desk = Desk::new();
    for (added_ms, requested_ms, due_ms) in [(50, 100, 50), (100, 50, 50)] {
        desk.add("a");
        desk.claim();
        desk.add_after("a", added_ms);
        assert_eq!(desk.finish("a", after(requested_ms)).due_in, Some(ms(due_ms)));
        desk.pass(due_ms);
        assert_eq!(desk.run_all(), ["a"]);
        assert_eq!(desk.at("a"), None);
    }
}

/// T9: a delay of years neither panics nor ends early.
#[test]
fn a_very_long_delay_neither_overflows_nor_fires_early() {
    let mut desk = Desk::new();
    let years = Duration::from_secs(300 * 365 * 24 * 3600);
    for (key, delay) in [("long", years), ("for ever", Duration::MAX)] {
        desk.state.add_after(desk.now, key, delay, Priority::NORMAL).unwrap();
    }
    desk.now = desk.now.after(years - ms(1));
    assert_eq!(desk.claim(), None);
    desk.pass(1);
    assert_eq!(desk.run_all(), ["long"]);
    desk.now = desk.now.after(Duration::from_secs(200 * 365 * 24 * 3600));
    assert_eq!(desk.claim(), None);
}

/// T10: a key that comes due in a higher band goes before ready keys of a lower one.
#[test]
fn a_higher_priority_that_comes_due_beats_a_lower_one_that_was_ready_before() {
    let mut desk = Desk::new();
    desk.add("normal");
    desk.state.add_after(desk.now, "high", ms(50), Priority::HIGH).unwrap();
    desk.pass(50);
    assert_eq!(desk.run_all(), ["high", "normal"]);
}

#[test]
fn a_clock_that_goes_back_stands_still() {
    let mut desk = Desk::new();
    desk.add_after("a", 50);
    desk.pass(50);
    assert_eq!(desk.at("a"), Some(KeyState::Ready));
    desk.now = Moment::ZERO;
    desk.add_after("b", 5);
    assert_eq!(desk.claim(), Some("a"));
    assert_eq!(desk.finish("a", after(7)).due_in, Some(ms(7)), "counted from the latest time that was told");
}
