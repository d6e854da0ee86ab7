use super::*;

impl Desk {
    fn try_add(&mut self, key: &'static str) -> Result<AddOutcome, AddError> {
        self.state.add(self.now, key, Priority::NORMAL)
    }
}

fn bounded(keys_max: u32) -> Options {
    Options { backoff: BACKOFF, keys_max: Some(keys_max), ..Options::default() }
}

#[test]
fn a_key_above_the_bound_is_refused_and_touches_no_other() {
    let mut desk = Desk::with(bounded(2));
    desk.add("a");
    desk.run("a", parked());
    desk.add_after("b", 50);
    let before = desk.state.entries(desk.now, 10);
    assert_eq!(desk.try_add("c"), Err(AddError::Full));
    assert_eq!(desk.state.add_after(desk.now, "c", ms(5), Priority::HIGH), Err(AddError::Full));
    assert_eq!(desk.state.add_without_event(desk.now, "c", Priority::LOW, true), Err(AddError::Full));
    assert_eq!(desk.state.entries(desk.now, 10), before);
    assert_eq!((desk.state.counters().refused, desk.state.remaining_capacity()), (3, 0));
}

#[test]
fn an_existing_key_merges_at_the_bound_and_a_finished_one_frees_capacity() {
    let mut desk = Desk::with(bounded(2));
    desk.add("a");
    desk.add("b");
    assert_eq!(desk.try_add("a"), Ok(AddOutcome::Merged));
    assert_eq!(desk.claim(), Some("a"));
    assert_eq!(desk.try_add("a"), Ok(AddOutcome::Dirty));
    desk.finish("a", parked());
    assert_eq!(desk.try_add("c"), Err(AddError::Full), "it runs once more");
    desk.run("b", Next::Done);
    assert_eq!(desk.try_add("c"), Ok(AddOutcome::Ready));
    desk.state.cancel(desk.now, &"c");
    assert_eq!(desk.state.remaining_capacity(), 1);
}

#[test]
fn a_lower_bound_takes_no_key_off_and_lets_no_new_one_on() {
    let mut desk = Desk::with(bounded(3));
    for key in ["a", "b", "c"] {
        desk.add(key);
    }
    desk.state.configure(bounded(1));
    assert_eq!(desk.try_add("d"), Err(AddError::Full));
    desk.run("a", Next::Done);
    desk.run("b", Next::Done);
    assert_eq!(desk.try_add("d"), Err(AddError::Full));
    desk.run("c", Next::Done);
    assert_eq!(desk.try_add("d"), Ok(AddOutcome::Ready));
}

#[test]
fn texts_of_errors_are_kept_up_to_their_bound_and_their_room_comes_back() {
    let mut desk = Desk::with(Options { error_bytes_max: Some(10), ..bounded(9) });
    for key in ["a", "b", "c"] {
        desk.add(key);
        desk.run(key, parked());
    }
    let text = |desk: &mut Desk, key| desk.state.entry(desk.now, &key).unwrap().last_error.unwrap().to_string();
    assert_eq!(text(&mut desk, "a"), "bad spec");
    assert!(text(&mut desk, "b").starts_with("limit error-bytes: "));
    assert_eq!((desk.state.counts(desk.now).error_bytes, desk.state.counters().errors_left_out), (8, 2));
    desk.state.retry(desk.now, &"a");
    assert_eq!(desk.state.counts(desk.now).error_bytes, 0);
    desk.run("a", failed());
    assert_eq!(text(&mut desk, "a"), "no route");
    desk.pass(10_000);
    desk.run("a", parked());
    assert_eq!(desk.state.counts(desk.now).error_bytes, 8, "the last text took the place of the one before");
    desk.state.cancel(desk.now, &"a");
    desk.state.stop(desk.now);
    assert_eq!(desk.state.counts(desk.now).error_bytes, 0);
}

#[test]
fn a_queue_that_takes_all_it_can_leaves_the_others_their_part() {
    let room = SharedCapacity::new(100, 80);
    let mut queues: Vec<State<u32>> = (0..5).map(|_| State::within(Arc::clone(&room), Options::default())).collect();
    let fill = |state: &mut State<u32>| {
        (0..).take_while(|key| state.add(Moment::ZERO, *key, Priority::NORMAL).is_ok()).count()
    };
    assert_eq!(fill(&mut queues[0]), 50, "the half that goes to whoever comes first");
    for queue in &mut queues[1..] {
        assert_eq!(fill(queue), 10, "a fifth of the other half");
    }
    assert_eq!(room.keys(), 90);
    let fail = |state: &mut State<u32>| {
        while let Some(claimed) = state.claim(Moment::ZERO) {
            state.finish(Moment::ZERO, claimed, parked(), 0);
        }
    };
    queues.iter_mut().for_each(fail);
    assert!(room.error_bytes() <= 80);
    for queue in &mut queues {
        assert!(queue.counts(Moment::ZERO).error_bytes >= 8, "everybody has one text at least");
    }
    queues.truncate(1);
    assert_eq!(room.keys(), 50, "a queue that is gone leaves its room");
    drop(queues);
    assert_eq!((room.keys(), room.error_bytes()), (0, 0));
}
