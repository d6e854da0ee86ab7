use super::*;

type Numbers = State<u32>;

/// What has memory in the state: cells, places of the index, timers.
fn memory(state: &Numbers) -> [usize; 3] {
    [state.slab.capacity(), state.index.capacity(), state.timers.capacity()]
}

fn run_all(state: &mut Numbers, now: Moment) {
    while let Some(claimed) = state.claim(now) {
        state.finish(now, claimed, Next::Done, 0);
    }
}

/// Q12
#[test]
fn a_hundred_thousand_finished_keys_leave_no_memory_behind() {
    let mut state = Numbers::new(Options::default());
    for key in 0..100_000 {
        state.add_after(Moment::ZERO, key, ms(u64::from(key % 100)), Priority::NORMAL).unwrap();
    }
    let full = memory(&state);
    assert!(full.iter().all(|used| *used >= 99_000), "{full:?}");
    run_all(&mut state, Moment::at(ms(1000)));
    let empty = memory(&state);
    assert!(empty.iter().all(|used| *used <= 256), "{empty:?}");
}

/// Q12
#[test]
fn a_key_that_comes_and_goes_uses_the_same_memory_over_and_over() {
    let mut state = Numbers::new(Options::default());
    for key in 0..10 {
        state.add(Moment::ZERO, key, Priority::NORMAL).unwrap();
    }
    let before = memory(&state);
    for round in 0..10_000 {
        let claimed = state.claim(Moment::ZERO).unwrap();
        state.finish(Moment::ZERO, claimed, Next::Done, 0);
        state.add(Moment::ZERO, round + 10, Priority::NORMAL).unwrap();
    }
    assert_eq!(memory(&state), before);
}

/// Q12
#[test]
fn timers_that_events_cut_short_do_not_pile_up() {
    let mut state = Numbers::new(Options::default());
    for round in 0..100_000_u64 {
        let now = Moment::at(ms(round));
        state.add(now, 0, Priority::NORMAL).unwrap();
        let claimed = state.claim(now).unwrap();
        state.finish(now, claimed, Next::Resync(Duration::from_secs(36_000)), 0);
    }
    assert_eq!(state.counts(Moment::at(ms(100_000))).waiting, 1);
    assert!(state.timers.capacity() <= 256, "{} timers", state.timers.capacity());
}

/// Q12
#[test]
fn an_entry_stays_small() {
    let entry = size_of::<Item<std::sync::Arc<str>>>();
    assert!(entry <= 112, "{entry} bytes");
}

/// P5: the claim of a key costs the same however many are queued; the bound between controllers is the runtime's.
#[test]
fn full_bands_and_many_timers_keep_their_order() {
    let mut state = Numbers::new(Options::default());
    for key in 0..100_000_u32 {
        state.add_after(Moment::ZERO, key, ms(u64::from(key.wrapping_mul(7919) % 1000)), Priority::NORMAL).unwrap();
    }
    let mut last = (0, 0);
    let now = Moment::at(ms(1000));
    while let Some(claimed) = state.claim(now) {
        let this = (claimed.key.wrapping_mul(7919) % 1000, claimed.key);
        assert!(this > last || last == (0, 0), "{this:?} after {last:?}");
        last = this;
        state.finish(now, claimed, Next::Done, 0);
    }
}
