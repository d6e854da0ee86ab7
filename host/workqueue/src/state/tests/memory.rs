use std::sync::Arc;

use super::*;

type Numbers = State<u32>;

/// Allocated memory of the state: cells, index slots, timers.
fn memory(state: &Numbers) -> [usize; 3] {
    [state.slab.capacity(), state.index.capacity(), state.timers.capacity()]
}

fn run_all(state: &mut Numbers, now: Moment) {
    while let Some(claimed) = state.claim(now) {
        state.finish(now, claimed, Next::Done, 0);
    }
}

/// Q12: a finished key leaves no memory behind.
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

/// Q12: a finished key leaves no memory behind.
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

/// Q12: a finished key leaves no memory behind.
#[test]
fn timers_that_events_cut_short_do_not_pile_up() {
    let mut state = Numbers::new(Options::default());
    for round in 0..100_000_u64 {
        let now = Moment::at(ms(round));
        state.add(now, 0, Priority::NORMAL).unwrap();
        let claimed = state.claim(now).unwrap();
        state.finish(now, claimed, Next::After(Duration::from_secs(36_000)), 0);
    }
    assert_eq!(state.counts(Moment::at(ms(100_000))).waiting, 1);
    assert!(state.timers.capacity() <= 256, "{} timers", state.timers.capacity());
}

/// Q12: the key itself is freed as well, on every path.
#[test]
fn a_removed_key_is_freed_on_every_path() {
    type Keys = State<Arc<str>>;
    type Way = fn(&mut Keys, ClaimToken<Arc<str>>);
    let ways: [Way; 5] = [
        |state, claimed| {
            state.finish(Moment::ZERO, claimed, Next::Done, 0);
        },
        |state, claimed| {
            state.finish(Moment::ZERO, claimed, Next::Drop, 0);
        },
        |state, claimed| {
            let key = claimed.key.clone();
            state.finish(Moment::ZERO, claimed, Next::After(ms(5)), 0);
            state.cancel(Moment::ZERO, &key);
        },
        |state, claimed| {
            let key = claimed.key.clone();
            state.finish(Moment::ZERO, claimed, parked(), 0);
            state.cancel(Moment::ZERO, &key);
        },
        |state, claimed| {
            state.give_back(Moment::ZERO, claimed);
            let claimed = state.claim(Moment::ZERO).unwrap();
            state.finish(Moment::ZERO, claimed, Next::Done, 0);
        },
    ];
    for way in ways {
        let (mut state, key) = (Keys::new(Options::default()), Arc::from("key"));
        state.add(Moment::ZERO, Arc::clone(&key), Priority::NORMAL).unwrap();
        let claimed = state.claim(Moment::ZERO).unwrap();
        way(&mut state, claimed);
        assert_eq!(Arc::strong_count(&key), 1);
    }
}

/// Q12: a finished key leaves no memory behind.
#[test]
fn an_entry_stays_small() {
    let entry = size_of::<Item<Arc<str>>>();
    assert!(entry == 64, "{entry} bytes");
}

/// T3: keys come in the order of their due times, with enough keys to rebuild every table on the way.
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
