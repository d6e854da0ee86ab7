use super::*;

/// P1, P3: a higher band goes first; the order over all bands is strict.
#[test]
fn bands_come_in_strict_order_with_delays_in_between() {
    let mut desk = Desk::new();
    let keys = [("e", Priority::LOWEST), ("d", Priority::LOW), ("c", Priority::NORMAL), ("b", Priority::HIGH)];
    for (key, priority) in keys {
        desk.state.add_after(desk.now, key, ms(5), priority).unwrap();
    }
    desk.add_at("a2", Priority::HIGH);
    desk.add_at("c2", Priority::NORMAL);
    desk.pass(5);
    desk.add_at("a", Priority::HIGHEST);
    assert_eq!(desk.run_all(), ["a", "a2", "b", "c2", "c", "d", "e"]);
}

/// P2: adding a key again raises its band and never lowers it.
#[test]
fn a_second_add_raises_to_the_tail_of_the_new_band_and_never_lowers() {
    let mut desk = Desk::new();
    desk.add_at("raised", Priority::LOW);
    desk.add_at("high", Priority::HIGH);
    assert_eq!(desk.add_at("raised", Priority::HIGH), AddOutcome::Merged);
    desk.add_at("high", Priority::LOWEST);
    desk.add_at("also high", Priority::HIGH);
    assert_eq!(desk.run_all(), ["high", "raised", "also high"]);
}

/// P2: adding a key again raises its band and never lowers it.
#[test]
fn the_same_priority_again_keeps_the_place_in_line() {
    let mut desk = Desk::new();
    for key in ["a", "b", "a"] {
        desk.add(key);
    }
    assert_eq!(desk.run_all(), ["a", "b"]);
}

/// P2: adding a key again raises its band and never lowers it.
#[test]
fn a_waiting_key_is_raised_too() {
    let mut desk = Desk::new();
    desk.add_after("a", 50);
    desk.state.add_after(desk.now, "a", ms(90), Priority::HIGH).unwrap();
    desk.pass(50);
    desk.add("b");
    assert_eq!(desk.run_all(), ["a", "b"]);
}

/// P2: adding a key again raises its band and never lowers it.
#[test]
fn a_key_runs_again_in_the_higher_of_its_bands() {
    let mut desk = Desk::new();
    for (first, second, third) in
        [(Priority::HIGH, Priority::LOW, Priority::HIGH), (Priority::LOW, Priority::HIGH, Priority::HIGH)]
    {
        desk.add_at("a", first);
        desk.claim();
        desk.add_at("a", second);
        desk.finish("a", Next::Again);
        assert_eq!(desk.state.claim(desk.now).unwrap().priority, third);
        desk = Desk::new();
    }
    desk.add_at("a", Priority::HIGH);
    desk.claim();
    desk.add_at("a", Priority::LOW);
    desk.finish("a", Next::Done);
    assert_eq!(desk.state.claim(desk.now).unwrap().priority, Priority::LOW, "what was done does not count any more");
}

/// P4: a key of a low band runs within the stated bound.
#[test]
fn a_band_is_served_after_the_stated_number_of_other_claims() {
    let mut desk = Desk::new();
    desk.add_at("low", Priority::LOW);
    desk.add_at("high", Priority::HIGH);
    let ageing = crate::AGEING_CLAIMS.get();
    for _ in 0..ageing {
        desk.run("high", Next::Again);
    }
    desk.run("low", Next::Again);
    for _ in 0..ageing {
        desk.run("high", Next::Again);
    }
    desk.run("low", Next::Done);
}

/// P4: a key of a low band runs within the stated bound.
#[test]
fn no_band_starves_while_all_five_are_full() {
    let keys = ["lowest", "low", "normal", "high", "highest"];
    for ageing in [1, 2, 16, 100] {
        let options = Options { ageing_claims: NonZeroU32::new(ageing).unwrap(), ..Options::default() };
        let mut desk = Desk::with(options);
        for (key, priority) in keys.into_iter().zip(Priority::ALL) {
            desk.add_at(key, priority);
        }
        let mut passed = [0; 5];
        let mut served = [0; 5];
        for _ in 0..5000 {
            let key = desk.claim().unwrap();
            desk.finish(key, Next::Again);
            for band in 0..5 {
                passed[band] = if keys[band] == key { 0 } else { passed[band] + 1 };
                served[band] += usize::from(keys[band] == key);
                assert!(passed[band] <= options.passes_max(), "{} was passed over {} times", keys[band], passed[band]);
            }
        }
        assert!(served.iter().all(|served| *served > 0));
        if ageing >= 16 {
            assert!(served[4] >= 5000 * 3 / 4, "the highest band still gets most: {served:?}");
        }
    }
}

/// P4: a key of a low band runs within the stated bound.
#[test]
fn a_low_key_behind_others_runs_within_its_place_times_the_bound() {
    let mut desk = Desk::new();
    let low = ["l0", "l1", "l2", "l3", "l4"];
    for key in low {
        desk.add_at(key, Priority::LOWEST);
    }
    desk.add_at("high", Priority::HIGHEST);
    let bound = Options::default().passes_max() + 1;
    let mut served = Vec::new();
    for claim in 1..=bound * low.len() as u32 {
        let key = desk.claim().unwrap();
        desk.finish(key, if key == "high" { Next::Again } else { Next::Done });
        if key != "high" {
            served.push(key);
            assert!(claim <= bound * served.len() as u32, "{key} came with claim {claim}");
        }
    }
    assert_eq!(served, low);
}
