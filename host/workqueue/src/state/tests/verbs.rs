use super::*;

impl Desk {
    fn postpone(&mut self, key: &'static str, delay_ms: u64) -> ChangeOutcome {
        self.state.postpone(self.now, &key, ms(delay_ms))
    }

    fn cancel(&mut self, key: &'static str) -> ChangeOutcome {
        self.state.cancel(self.now, &key)
    }

    fn expedite(&mut self, key: &'static str) -> ChangeOutcome {
        self.state.expedite(self.now, &key)
    }

    fn retry(&mut self, key: &'static str) -> ChangeOutcome {
        self.state.retry(self.now, &key)
    }
}

/// Q15: keys can be cancelled, postponed and expedited, and a missing key is reported.
#[test]
fn every_verb_on_an_absent_key_says_so() {
    let mut desk = Desk::new();
    let said = [desk.postpone("a", 5), desk.cancel("a"), desk.expedite("a"), desk.retry("a")];
    assert_eq!(said, [ChangeOutcome::Absent; 4]);
    desk.add("a");
    desk.run("a", Next::Done);
    assert_eq!(desk.cancel("a"), ChangeOutcome::Absent, "a finished key is absent too");
}

/// Q15: keys can be cancelled, postponed and expedited, and a missing key is reported.
#[test]
fn a_waiting_key_can_be_postponed_sooner_or_later() {
    let mut desk = Desk::new();
    desk.add_after("a", 50);
    assert_eq!(desk.postpone("a", 80), ChangeOutcome::Done);
    desk.pass(50);
    assert_eq!((desk.claim(), desk.due_in("a")), (None, Some(ms(30))));
    desk.postpone("a", 10);
    desk.pass(10);
    assert_eq!(desk.run_all(), ["a"]);
    assert_eq!(desk.state.next_due(), None);
}

/// Q15: keys can be cancelled, postponed and expedited, and a missing key is reported.
#[test]
fn a_ready_key_can_be_postponed_and_keeps_its_band() {
    let mut desk = Desk::new();
    desk.add_at("a", Priority::HIGH);
    desk.add("b");
    assert_eq!(desk.postpone("a", 50), ChangeOutcome::Done);
    assert_eq!(desk.at("a"), Some(KeyState::Waiting));
    desk.pass(50);
    assert_eq!(desk.run_all(), ["a", "b"]);
}

/// Q15: keys can be cancelled, postponed and expedited, and a missing key is reported.
#[test]
fn a_postponed_key_is_held_where_delays_are_floors() {
    let mut desk = Desk::holding();
    desk.add("a");
    desk.postpone("a", 50);
    assert_eq!(desk.add("a"), AddOutcome::Held);
    assert_eq!(desk.expedite("a"), ChangeOutcome::Done, "a person may cut it short");
    assert_eq!(desk.run_all(), ["a"]);
}

/// Q15: keys can be cancelled, postponed and expedited, and a missing key is reported.
#[test]
fn waiting_ready_and_parked_keys_can_be_cancelled() {
    let mut desk = Desk::new();
    desk.add_after("waiting", 50);
    desk.add("parked");
    desk.run("parked", parked());
    for key in ["first", "middle", "last"] {
        desk.add(key);
    }
    assert_eq!([desk.cancel("waiting"), desk.cancel("middle"), desk.cancel("parked")], [ChangeOutcome::Done; 3]);
    desk.pass(100);
    assert_eq!(desk.run_all(), ["first", "last"]);
    assert_eq!(desk.state.counters().cancelled, 3);
    desk.add("parked");
    assert_eq!(desk.failures("parked"), 0, "its failures are forgotten");
}

/// Q15: keys can be cancelled, postponed and expedited, and a missing key is reported.
#[test]
fn the_keys_of_a_part_can_be_cancelled_in_any_state() {
    let mut desk = Desk::new();
    for key in ["a-parked", "b-parked"] {
        desk.add(key);
        desk.run(key, parked());
    }
    for key in ["a-runs", "b-runs"] {
        desk.add(key);
        assert_eq!(desk.claim(), Some(key));
        // It runs once more afterwards.
        desk.add(key);
    }
    for (waits, ready) in [("a-waits", "a-ready"), ("b-waits", "b-ready")] {
        desk.add_after(waits, 50);
        desk.add(ready);
    }
    assert_eq!(desk.state.retain(desk.now, |key| key.starts_with('a')), 4);
    assert_eq!(["b-waits", "b-ready", "b-parked"].map(|key| desk.at(key)), [None; 3]);
    assert_eq!(desk.at("b-runs"), Some(KeyState::Running), "it may finish, and does not run again");
    assert_eq!(desk.state.retain(desk.now, |key| key.starts_with('a')), 0);
    for key in ["a-runs", "b-runs"] {
        desk.finish(key, Next::Done);
    }
    desk.pass(50);
    assert_eq!(desk.run_all(), ["a-ready", "a-runs", "a-waits"]);
    assert_eq!((desk.at("a-parked"), desk.at("b-runs")), (Some(KeyState::Parked), None));
}

/// Q15: keys can be cancelled, postponed and expedited, and a missing key is reported.
#[test]
fn of_a_running_key_the_verbs_act_on_the_run_that_follows() {
    let mut desk = Desk::new();
    desk.add("a");
    desk.claim();
    let said = [desk.postpone("a", 5), desk.cancel("a"), desk.expedite("a")];
    assert_eq!(said, [ChangeOutcome::Unchanged; 3], "no run follows");

    desk.add("a");
    assert_eq!(desk.cancel("a"), ChangeOutcome::Done);
    assert_eq!(desk.at("a"), Some(KeyState::Running));

    desk.add("a");
    assert_eq!(desk.postpone("a", 50), ChangeOutcome::Done);
    assert_eq!(desk.due_in("a"), Some(ms(50)));
    assert_eq!(desk.expedite("a"), ChangeOutcome::Done);
    desk.postpone("a", 50);
    assert_eq!(desk.finish("a", Next::Done).due_in, Some(ms(50)));
}

/// Q15: keys can be cancelled, postponed and expedited, and a missing key is reported.
#[test]
fn an_expedited_key_runs_before_all_others() {
    let mut desk = Desk::new();
    desk.add_at("high", Priority::HIGH);
    desk.add_after("waiting", 50);
    desk.add_at("ready", Priority::LOW);
    desk.add_at("dirty", Priority::HIGHEST);
    desk.claim();
    desk.add_after("dirty", 500);
    assert_eq!([desk.expedite("waiting"), desk.expedite("ready"), desk.expedite("dirty")], [ChangeOutcome::Done; 3]);
    assert_eq!(desk.expedite("ready"), ChangeOutcome::Unchanged);
    desk.finish("dirty", Next::Done);
    assert_eq!(desk.run_all(), ["waiting", "ready", "dirty", "high"]);
}

/// Q15: keys can be cancelled, postponed and expedited, and a missing key is reported.
#[test]
fn an_expedited_parked_key_keeps_its_failures_and_a_postponed_one_stays_parked() {
    let mut desk = Desk::new();
    desk.add("a");
    desk.run("a", parked());
    assert_eq!(desk.postpone("a", 5), ChangeOutcome::Unchanged);
    assert_eq!(desk.expedite("a"), ChangeOutcome::Done);
    assert_eq!((desk.at("a"), desk.failures("a")), (Some(KeyState::Ready), 1));
}

/// Q15, B8: keys can be cancelled, postponed and expedited, and a missing key is reported; a terminal failure
/// parks the key until a change or a request.
#[test]
fn a_retried_key_starts_afresh() {
    let mut desk = Desk::new();
    desk.add("waiting");
    desk.run("waiting", failed());
    desk.add("parked");
    desk.run("parked", parked());
    assert_eq!([desk.retry("waiting"), desk.retry("parked")], [ChangeOutcome::Done; 2]);
    for key in ["waiting", "parked"] {
        let finished = desk.run(key, failed());
        assert_eq!((finished.failures, finished.due_in), (1, Some(ms(10))));
    }
}

/// Q15: keys can be cancelled, postponed and expedited, and a missing key is reported.
#[test]
fn a_retried_running_key_runs_once_more_and_a_ready_one_loses_its_failures() {
    let mut desk = Desk::new();
    desk.add("a");
    desk.run("a", failed());
    desk.add("a");
    desk.retry("a");
    assert_eq!(desk.failures("a"), 0);
    desk.claim();
    assert_eq!(desk.retry("a"), ChangeOutcome::Done);
    assert_eq!(desk.at("a"), Some(KeyState::Dirty));
    desk.finish("a", Next::Done);
    assert_eq!(desk.run_all(), ["a"]);
}

/// W10, C3: an add without an event is no event.
#[test]
fn an_add_without_event_keeps_a_due_time_and_unparks_a_key_only_on_request() {
    let mut desk = Desk::new();
    let look = |desk: &mut Desk, unpark| desk.state.add_without_event(desk.now, "a", Priority::LOW, unpark).unwrap();
    assert_eq!(look(&mut desk, false), AddOutcome::Ready, "an absent key is added");
    desk.run("a", Next::After(ms(50)));
    assert_eq!((look(&mut desk, true), desk.due_in("a")), (AddOutcome::Merged, Some(ms(50))));
    desk.pass(50);
    desk.run("a", Next::Park { error: "no".into() });
    assert_eq!((look(&mut desk, false), desk.claim()), (AddOutcome::Merged, None));
    assert_eq!(look(&mut desk, true), AddOutcome::Unparked);
}

/// Q15: a key moves to another band in every state, and is otherwise unchanged.
#[test]
fn a_key_can_be_moved_to_another_band_in_every_state() {
    let mut desk = Desk::new();
    let (high, low) = (Priority::HIGH, Priority::LOW);
    let band = |desk: &mut Desk, key| desk.state.entry(desk.now, &key).unwrap().priority;
    assert_eq!(desk.state.prioritize(desk.now, &"nobody", high), ChangeOutcome::Absent);
    desk.add("parked");
    desk.run("parked", parked());
    desk.add("waits");
    desk.run("waits", failed());
    desk.add("runs");
    desk.add("dirty");
    desk.claim();
    desk.claim();
    desk.add_at("dirty", Priority::HIGHEST);
    for key in ["ready", "other"] {
        desk.add(key);
    }
    for (key, state) in [
        ("parked", KeyState::Parked),
        ("waits", KeyState::Waiting),
        ("runs", KeyState::Running),
        ("dirty", KeyState::Dirty),
        ("ready", KeyState::Ready),
    ] {
        let before = (desk.due_in(key), desk.failures(key));
        for priority in [high, low] {
            assert_eq!(desk.state.prioritize(desk.now, &key, priority), ChangeOutcome::Done, "{key}");
            assert_eq!(desk.state.prioritize(desk.now, &key, priority), ChangeOutcome::Unchanged, "{key}");
            assert_eq!((band(&mut desk, key), desk.at(key)), (priority, Some(state)));
        }
        assert_eq!((desk.due_in(key), desk.failures(key)), before);
    }
    // The next run is in the new band, also after earlier requests.
    desk.finish("dirty", Next::Done);
    desk.finish("runs", Next::Again);
    for key in ["dirty", "runs"] {
        assert_eq!(band(&mut desk, key), low);
    }
    assert_eq!(desk.run_all(), ["other", "ready", "dirty", "runs"]);
    desk.pass(1000);
    assert_eq!(desk.run_all(), ["waits"]);
}

#[test]
fn a_run_is_without_event_only_if_no_event_asked_for_it() {
    let is_look = |asks: &dyn Fn(&mut Desk)| {
        let mut desk = Desk::new();
        asks(&mut desk);
        desk.state.claim(desk.now).unwrap().without_event
    };
    let look = |desk: &mut Desk| {
        desk.state.add_without_event(desk.now, "a", Priority::LOW, true).unwrap();
    };
    let add = |desk: &mut Desk| {
        desk.state.add(desk.now, "a", Priority::LOW).unwrap();
    };
    let while_it_runs = |asks: &dyn Fn(&mut Desk)| {
        is_look(&|desk: &mut Desk| {
            add(desk);
            let claimed = desk.state.claim(desk.now).unwrap();
            asks(desk);
            desk.state.finish(desk.now, claimed, Next::Done, 0);
        })
    };
    for (asks, expected) in [
        (&look as &dyn Fn(&mut Desk), true),
        (&add, false),
        (&|desk: &mut Desk| (look(desk), add(desk)).1, false),
        (&|desk: &mut Desk| (add(desk), look(desk)).1, false),
    ] {
        assert_eq!((is_look(asks), while_it_runs(asks)), (expected, expected));
    }
    let returned = is_look(&|desk: &mut Desk| {
        look(desk);
        let claimed = desk.state.claim(desk.now).unwrap();
        desk.state.give_back(desk.now, claimed);
    });
    assert!(returned, "what came to no result is the same run still");
    let timer = is_look(&|desk: &mut Desk| {
        look(desk);
        let claimed = desk.state.claim(desk.now).unwrap();
        desk.state.finish(desk.now, claimed, Next::Again, 0);
    });
    assert!(!timer, "it asked for that itself");
}
