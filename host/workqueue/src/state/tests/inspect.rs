use super::*;

fn keys(desk: &mut Desk, limit: usize) -> Vec<&'static str> {
    desk.state.entries(desk.now, limit).into_iter().map(|entry| entry.key).collect()
}

#[test]
fn inspect_lists_running_ready_waiting_and_parked_keys_in_order() {
    let mut desk = Desk::new();
    desk.add("p");
    desk.run("p", parked());
    for key in ["r1", "r2", "n1", "n2"] {
        desk.add(key);
    }
    desk.add_at("h", Priority::HIGH);
    desk.add_after("w2", 70);
    desk.add_after("w1", 50);
    desk.add_after("gone", 10);
    desk.state.cancel(desk.now, &"gone");
    assert_eq!(keys(&mut desk, 100), ["h", "r1", "r2", "n1", "n2", "w1", "w2", "p"]);
    desk.claim();
    desk.claim();
    let all = ["h", "r1", "r2", "n1", "n2", "w1", "w2", "p"];
    for limit in 0..=all.len() + 1 {
        assert_eq!(keys(&mut desk, limit), all[..limit.min(all.len())]);
    }
}

#[test]
fn an_entry_has_all_details_of_its_key() {
    let mut desk = Desk::new();
    desk.add_at("a", Priority::HIGH);
    desk.pass(3);
    let entry = desk.state.entry(desk.now, &"a").unwrap();
    assert_eq!((entry.state, entry.priority, entry.ready_for), (KeyState::Ready, Priority::HIGH, Some(ms(3))));
    assert_eq!(desk.state.claim(desk.now).map(|claimed| claimed.queued_for), Some(ms(3)));
    desk.pass(4);
    desk.state.add_after(desk.now, "a", ms(9), Priority::LOW).unwrap();
    let entry = desk.state.entry(desk.now, &"a").unwrap();
    assert_eq!((entry.state, entry.running_for, entry.due_in), (KeyState::Dirty, Some(ms(4)), Some(ms(9))));
    assert_eq!(desk.state.entry(desk.now, &"b"), None);
}

/// B13: metrics count adds, depth, times, retries and results.
#[test]
fn time_in_the_queue_counts_from_the_add_or_the_due_time() {
    let mut desk = Desk::new();
    desk.add_after("due", 10);
    desk.add("running");
    desk.claim();
    desk.add("running");
    desk.pass(15);
    desk.finish("running", Next::Done);
    let queued: HashMap<_, _> =
        std::iter::from_fn(|| desk.state.claim(desk.now)).map(|claimed| (claimed.key, claimed.queued_for)).collect();
    assert_eq!((queued["due"], queued["running"]), (ms(5), ms(15)));
}

/// B13: metrics count adds, depth, times, retries and results.
#[test]
fn ages_follow_the_oldest_ready_and_the_longest_running_key() {
    let mut desk = Desk::new();
    assert_eq!(desk.state.ages(desk.now), crate::Ages::default());
    desk.add_at("a", Priority::LOW);
    desk.pass(5);
    desk.add("b");
    desk.pass(5);
    assert_eq!(desk.state.ages(desk.now).oldest_ready, Some(ms(10)));
    desk.claim();
    desk.pass(7);
    desk.claim();
    desk.pass(1);
    let ages = desk.state.ages(desk.now);
    assert_eq!((ages.longest_running, ages.unfinished_work, ages.oldest_ready), (Some(ms(8)), ms(9), None));
    desk.finish("b", Next::Done);
    assert_eq!(desk.state.ages(desk.now).unfinished_work, ms(1));
}

/// B13: metrics count adds, depth, times, retries and results.
#[test]
fn counters_meet_the_gauges() {
    let mut desk = Desk::new();
    for key in ["a", "b", "c", "d", "e", "f"] {
        desk.add(key);
    }
    for next in [Next::Done, after(5), Next::Again, failed(), parked(), Next::Drop] {
        let key = desk.claim().unwrap();
        desk.finish(key, next);
    }
    let counters = desk.state.counters();
    let finished = counters.finished;
    let kinds = [
        finished.done,
        finished.after,
        finished.again,
        finished.retry,
        finished.park,
        finished.drop,
        finished.returned,
    ];
    assert_eq!(kinds, [1, 1, 1, 1, 1, 1, 0]);
    assert_eq!((counters.adds, counters.claims, counters.retries, counters.dropped), (6, 6, 1, 1));
    let counts = desk.state.counts(desk.now);
    assert_eq!((counts.waiting, counts.ready, counts.parked), (2, 1, 1));
    assert_eq!(counts.ready_by_band, [0, 0, 1, 0, 0]);
}
