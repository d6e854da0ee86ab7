use std::time::Duration;

use homeostat_fleet::{Identity, LeaseName};

use super::{Declines, PAIRS_MAX, PAUSE_MAX};

const FIRST: Duration = Duration::from_secs(60);

fn shard(number: u32) -> LeaseName {
    LeaseName::new("web", number, 4).unwrap()
}

#[test]
fn a_host_that_declines_again_and_again_gets_fewer_offers() {
    let (mut declines, a, b) = (Declines::new(FIRST), Identity::new("a_1"), Identity::new("b_1"));
    let mut now = Duration::ZERO;
    for length in [1, 2, 4, 8, 16, 32, 60, 60].map(|minutes| FIRST * minutes) {
        assert!(declines.allow(now, &shard(0), &b));
        declines.add(now, &shard(0), &b, &a);
        assert!(!declines.allow(now + length - Duration::from_nanos(1), &shard(3), &b), "{length:?}");
        assert!(declines.allow(now, &shard(0), &a) && declines.allow(now, &LeaseName::new("api", 0, 1).unwrap(), &b));
        now += length;
    }
    assert_eq!(PAUSE_MAX, FIRST * 60);
    declines.add(now, &shard(0), &b, &a);
    declines.remove(&shard(2), &b);
    assert!(declines.allow(now, &shard(0), &b), "it holds a shard, so it has the controller");
}

#[test]
fn an_offer_that_was_taken_is_no_decline() {
    let (mut declines, b) = (Declines::new(FIRST), Identity::new("b_1"));
    declines.add(Duration::ZERO, &shard(0), &b, &b);
    assert!(declines.allow(Duration::ZERO, &shard(0), &b));
}

#[test]
fn declines_without_end_are_not_remembered() {
    let (mut declines, a) = (Declines::new(FIRST), Identity::new("a_1"));
    for number in 0..2 * PAIRS_MAX {
        declines.add(Duration::ZERO, &shard(0), &Identity::new(&format!("h{number}_1")), &a);
    }
    assert_eq!(declines.pairs.len(), PAIRS_MAX);
    declines.add(PAUSE_MAX, &shard(0), &Identity::new("new_1"), &a);
    assert_eq!(declines.pairs.len(), 1);
}
