use std::time::Duration;

use proptest::prelude::{any, prop};
use proptest::{prop_assert, proptest};

use super::{CLEAN_ANSWERS, LIMIT_MIN, Pace, Refusal, Wait, wait};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_refusal_halves_the_requests_in_flight_and_clean_answers_add_one() {
    let mut pace = Pace::new(64, None);
    for _ in 0..64 {
        assert_eq!(pace.start(Duration::ZERO), Ok(()));
    }
    assert_eq!(pace.start(Duration::ZERO), Err(Wait::Slot));
    pace.end(true);
    assert_eq!(pace.start(Duration::ZERO), Err(Wait::Slot), "63 are in flight, 32 may be");
    for _ in 0..63 {
        pace.end(false);
    }
    let started = (0..100).filter(|_| pace.start(Duration::ZERO).is_ok()).count();
    assert_eq!(started, 32 + 63 / CLEAN_ANSWERS);
}

#[test]
fn the_limit_ends_at_its_bounds() {
    let mut pace = Pace::new(64, None);
    for _ in 0..20 {
        pace.end(true);
    }
    assert_eq!((0..100).filter(|_| pace.start(Duration::ZERO).is_ok()).count(), LIMIT_MIN);
    for _ in 0..100 * CLEAN_ANSWERS {
        pace.end(false);
    }
    assert_eq!((0..100).filter(|_| pace.start(Duration::ZERO).is_ok()).count(), 64);
    let mut narrow = Pace::new(2, None);
    narrow.end(true);
    assert_eq!((0..9).filter(|_| narrow.start(Duration::ZERO).is_ok()).count(), 2, "never above the setting");
}

#[test]
fn requests_are_spaced_after_a_burst_of_one_second() {
    let mut pace = Pace::new(1000, Some(10));
    assert_eq!((0..100).filter(|_| pace.start(SECOND).is_ok()).count(), 10);
    let Err(Wait::Until(next)) = pace.start(SECOND) else { panic!() };
    assert_eq!(next, SECOND + SECOND / 10);
    assert_eq!(pace.start(next), Ok(()));
    assert_eq!((0..1000).filter(|n| pace.start(SECOND * 2 + SECOND / 100 * *n).is_ok()).count(), 100 + 8);
}

#[test]
fn a_wait_for_a_busy_server_is_what_it_asks_for_within_a_bound() {
    let busy = |retry_after| Refusal::Busy { retry_after };
    assert_eq!(wait(busy(Some(SECOND)), 0, 0.0), SECOND);
    assert_eq!(wait(busy(Some(SECOND * 1000)), 0, 0.0), SECOND * 30);
    assert_eq!(wait(busy(None), 0, 0.0), Duration::from_millis(200));
    assert_eq!(wait(busy(None), 3, 0.0), Duration::from_millis(1600));
    assert_eq!(wait(busy(None), u32::MAX, 1.0), Duration::from_millis(7500));
}

#[test]
fn a_server_that_starts_is_asked_again_before_the_end_of_its_wait() {
    let starting = |seconds| Refusal::Unavailable { retry_after: SECOND * seconds };
    let waits = [0, 1, 2, 3].map(|retries| wait(starting(5), retries, 0.0).as_millis());
    assert_eq!(waits, [200, 400, 800, 1600]);
    assert_eq!(wait(starting(1), 9, 0.0), SECOND);
}

proptest! {
    #[test]
    fn the_requests_in_flight_never_exceed_the_limit(steps in prop::collection::vec(any::<(bool, bool)>(), 0..500), limit in 1_usize..80) {
        let mut pace = Pace::new(limit, None);
        let mut in_flight = 0_usize;
        for (start, refused) in steps {
            if start {
                in_flight += usize::from(pace.start(Duration::ZERO).is_ok());
            } else if in_flight > 0 {
                pace.end(refused);
                in_flight -= 1;
            }
            prop_assert!(in_flight <= limit);
            prop_assert!(in_flight > 0 || pace.has_slot(), "an idle client can always send");
        }
    }
}
