use super::*;

/// Q1: keys of a band come in the order of arrival.
#[test]
fn keys_come_in_the_order_of_adding() {
    let mut desk = Desk::new();
    for key in ["c", "a", "b"] {
        assert_eq!(desk.add(key), AddOutcome::Ready);
    }
    assert_eq!(desk.run_all(), ["c", "a", "b"]);
}

/// Q2: a key that is added twice is handed out once.
#[test]
fn a_second_add_of_a_queued_key_merges() {
    let mut desk = Desk::new();
    desk.add("a");
    assert_eq!(desk.add("a"), AddOutcome::Merged);
    assert_eq!(desk.len(), 1);
    assert_eq!(desk.run_all(), ["a"]);
    let counters = desk.state.counters();
    assert_eq!((counters.adds, counters.merges), (1, 1));
}

/// Q3: adds during a run give exactly one more run.
#[test]
fn adds_while_running_give_one_more_run_after_finish() {
    let mut desk = Desk::new();
    desk.add("a");
    desk.claim();
    assert_eq!(desk.add("a"), AddOutcome::Dirty);
    assert_eq!(desk.add("a"), AddOutcome::Merged);
    assert_eq!(desk.claim(), None, "not while it runs");
    assert_eq!(desk.finish("a", Next::Done).state, Some(KeyState::Ready));
    assert_eq!(desk.run_all(), ["a"]);
    assert_eq!(desk.at("a"), None);
}

/// Q3, T2, P2: adds during a run give exactly one more run; of two due times the earlier one holds, and the
/// key runs once; adding a key again raises its band and never lowers it.
#[test]
fn adds_while_running_merge_to_the_earliest_due_time_and_the_highest_priority() {
    let mut desk = Desk::new();
    desk.add("a");
    desk.claim();
    for (delay_ms, priority) in [(70, Priority::LOW), (50, Priority::HIGH), (90, Priority::NORMAL)] {
        desk.state.add_after(desk.now, "a", ms(delay_ms), priority).unwrap();
    }
    assert_eq!(desk.finish("a", Next::Done).due_in, Some(ms(50)));
    assert_eq!(desk.state.entry(desk.now, &"a").unwrap().priority, Priority::HIGH);
}

/// Q4: a key that is added during its run goes to the end of the queue.
#[test]
fn a_key_that_was_added_while_running_goes_to_the_tail() {
    let mut desk = Desk::new();
    desk.add("a");
    desk.claim();
    desk.add("a");
    desk.add("b");
    desk.finish("a", Next::Done);
    assert_eq!(desk.run_all(), ["b", "a"]);
}

/// Q7: length, presence and state are right in every state of a key.
#[test]
fn state_and_counts_are_right_in_every_state_of_a_key() {
    let mut desk = Desk::new();
    let counts = |desk: &mut Desk| {
        let counts = desk.state.counts(desk.now);
        [counts.waiting, counts.ready, counts.running, counts.dirty, counts.parked]
    };
    assert_eq!((desk.at("a"), counts(&mut desk)), (None, [0, 0, 0, 0, 0]));
    assert_eq!(desk.add_after("a", 10), AddOutcome::Waiting);
    assert_eq!((desk.at("a"), counts(&mut desk)), (Some(KeyState::Waiting), [1, 0, 0, 0, 0]));
    desk.pass(10);
    assert_eq!((desk.at("a"), counts(&mut desk)), (Some(KeyState::Ready), [0, 1, 0, 0, 0]));
    desk.claim();
    assert_eq!((desk.at("a"), counts(&mut desk)), (Some(KeyState::Running), [0, 0, 1, 0, 0]));
    desk.add("a");
    assert_eq!((desk.at("a"), counts(&mut desk)), (Some(KeyState::Dirty), [0, 0, 1, 1, 0]));
    desk.finish("a", Next::Done);
    desk.run("a", parked());
    assert_eq!((desk.at("a"), counts(&mut desk)), (Some(KeyState::Parked), [0, 0, 0, 0, 1]));
    assert_eq!(desk.state.cancel(desk.now, &"a"), ChangeOutcome::Done);
    assert_eq!((desk.at("a"), counts(&mut desk)), (None, [0, 0, 0, 0, 0]));
}

/// Q13: a dropped claim returns its key.
#[test]
fn a_claim_given_back_is_ready_again_with_its_failures() {
    let mut desk = Desk::new();
    desk.add("a");
    desk.run("a", failed());
    desk.pass(10);
    desk.add("b");
    desk.claim();
    desk.give_back("a");
    assert_eq!(desk.at("a"), Some(KeyState::Ready));
    assert_eq!(desk.failures("a"), 1);
    assert_eq!(desk.run_all(), ["b", "a"], "at the tail, so that a key whose worker panics holds up nobody");
    assert_eq!(desk.state.counters().finished.returned, 1);
}

/// Q13: a dropped claim returns its key.
#[test]
fn a_claim_given_back_keeps_the_run_added_meanwhile() {
    let mut desk = Desk::new();
    desk.add_at("a", Priority::LOW);
    desk.claim();
    desk.add_at("a", Priority::HIGH);
    desk.give_back("a");
    assert_eq!(desk.state.entry(desk.now, &"a").unwrap().priority, Priority::HIGH);
    assert_eq!(desk.run_all(), ["a"]);
}

/// Q14: a running key delays no other key.
#[test]
fn a_running_key_does_not_hold_up_the_others() {
    let mut desk = Desk::new();
    for key in ["a", "b", "c"] {
        desk.add(key);
    }
    assert_eq!(desk.claim(), Some("a"));
    desk.add("a");
    assert_eq!(desk.claim(), Some("b"));
    assert_eq!(desk.claim(), Some("c"));
    assert_eq!(desk.claim(), None);
}

/// C4: a suspended controller keeps events as keys and runs none.
#[test]
fn a_suspended_queue_keeps_keys_and_hands_out_none() {
    let mut desk = Desk::new();
    desk.add_after("b", 10);
    desk.state.suspend(desk.now);
    desk.add("a");
    desk.pass(20);
    assert_eq!(desk.claim(), None);
    assert_eq!((desk.len(), desk.state.claimable(), desk.state.next_due()), (2, 0, None));
    desk.state.resume(desk.now);
    assert_eq!(desk.run_all(), ["a", "b"]);
}

/// C4: while some bands are suspended, the others are served strictly in their order.
#[test]
fn a_suspension_below_a_band_hands_out_that_one_and_those_above() {
    let mut desk = Desk::with(Options { ageing_claims: NonZeroU32::MIN, ..Options::default() });
    desk.state.suspend_below(desk.now, Priority::HIGH);
    for (key, band) in [("n", Priority::NORMAL), ("h", Priority::HIGH), ("i", Priority::HIGH), ("j", Priority::HIGHEST)]
    {
        desk.add_at(key, band);
    }
    desk.state.add_after(desk.now, "late", ms(10), Priority::HIGH).unwrap();
    desk.add_after("held", 10);
    assert!(desk.state.is_suspended());
    assert_eq!((desk.state.claimable(), desk.state.next_due()), (3, Some(desk.now.after(ms(10)))));
    assert_eq!(desk.run_all(), ["j", "h", "i"]);
    desk.pass(10);
    assert_eq!((desk.run_all(), desk.len()), (vec!["late"], 2));
    // A full suspension replaces it, and is ended in the same way.
    desk.state.suspend(desk.now);
    desk.add_at("j", Priority::HIGHEST);
    assert_eq!((desk.claim(), desk.state.next_due()), (None, None));
    desk.state.suspend_below(desk.now, Priority::HIGHEST);
    assert_eq!(desk.run_all(), ["j"]);
    desk.state.resume(desk.now);
    assert_eq!((desk.run_all(), desk.state.is_suspended()), (vec!["n", "held"], false));
}

/// C4, P4: a suspension does not age bands: a suspended key comes first no sooner than it would have without
/// it.
#[test]
fn a_partial_suspension_does_not_age_bands() {
    let mut desk = Desk::with(Options { ageing_claims: NonZeroU32::new(2).unwrap(), ..Options::default() });
    desk.add("n");
    desk.state.suspend_below(desk.now, Priority::HIGHEST);
    for key in ["a", "b", "c"] {
        desk.add_at(key, Priority::HIGHEST);
    }
    assert_eq!(desk.run_all(), ["a", "b", "c"]);
    for key in ["d", "e", "f"] {
        desk.add_at(key, Priority::HIGHEST);
    }
    desk.state.resume(desk.now);
    assert_eq!(desk.run_all(), ["d", "e", "n", "f"]);
}

#[test]
fn a_dropped_key_is_forgotten_with_the_run_that_was_to_follow() {
    let mut desk = Desk::new();
    desk.add("a");
    desk.claim();
    desk.add("a");
    assert_eq!(desk.finish("a", Next::Drop).state, None);
    assert_eq!((desk.at("a"), desk.state.counters().dropped), (None, 1));
    assert_eq!(desk.state.counts(desk.now).dirty, 0);
}
