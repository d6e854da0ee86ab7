use super::*;

fn plain(base_ms: u64, max_ms: u64) -> Backoff {
    Backoff { base: Duration::from_millis(base_ms), max: Duration::from_millis(max_ms), retries_max: None, jitter: 0.0 }
}

/// B1: the wait doubles with each failure in a row, and a success resets it.
#[test]
fn the_wait_doubles_with_every_failure() {
    let backoff = plain(10, 1_000_000);
    let waits: Vec<u128> = (1..=5).map(|failures| backoff.delay(failures, 0).as_millis()).collect();
    assert_eq!(waits, [10, 20, 40, 80, 160]);
    assert_eq!(backoff.delay(0, 0), backoff.base, "who has not failed waits no longer than who failed once");
}

/// B2: the wait is capped and does not overflow.
#[test]
fn the_wait_stops_at_its_maximum_and_never_overflows() {
    for (base, max) in [
        (Duration::from_millis(5), Duration::from_secs(1000)),
        (Duration::from_secs(3600), Duration::MAX),
        (Duration::MAX, Duration::MAX),
    ] {
        let backoff = Backoff { base, max, retries_max: None, jitter: 0.5 };
        for failures in (0..1000).chain([u32::MAX]) {
            let delay = backoff.delay(failures, u64::MAX);
            assert!(delay > Duration::ZERO && delay <= max, "{failures} failures: {delay:?}");
        }
    }
    assert_eq!(plain(5, 1_000_000).delay(18, 0), Duration::from_millis(5 << 17));
    assert_eq!(plain(5, 1_000_000).delay(19, 0), Duration::from_secs(1000));
}

/// B3: jitter stays within its band.
#[test]
fn jitter_stays_below_the_wait_and_within_its_band_also_at_the_cap() {
    let backoff = Backoff { jitter: 0.25, ..plain(100, 1000) };
    for (failures, full) in [(1, 100), (3, 400), (9, 1000)] {
        let full = Duration::from_millis(full);
        let (mut least, mut most) = (Duration::MAX, Duration::ZERO);
        for step in 0..=1000 {
            let delay = backoff.delay(failures, (u64::MAX / 1000) * step);
            (least, most) = (least.min(delay), most.max(delay));
        }
        assert_eq!(most, full);
        assert!(least >= full.mul_f64(0.75) && least < full.mul_f64(0.76), "spread over the whole band: {least:?}");
    }
}

#[test]
fn senseless_settings_still_give_a_wait() {
    for jitter in [f64::NAN, -1.0, 7.0, f64::INFINITY] {
        let delay = Backoff { jitter, ..plain(100, 1000) }.delay(1, u64::MAX);
        assert!(delay > Duration::ZERO && delay <= Duration::from_millis(100), "jitter {jitter}: {delay:?}");
    }
    assert!(plain(0, 0).delay(5, 0) > Duration::ZERO);
    assert!(plain(10, 5).delay(1, 0) <= Duration::from_millis(5), "the maximum holds for the base too");
}

/// B9: with n retries a key runs n + 1 times, and is then parked.
#[test]
fn retries_are_used_up_after_one_more_failure_than_there_are_retries() {
    let backoff = Backoff { retries_max: Some(2), ..plain(1, 1) };
    assert!(!backoff.used_up(2) && backoff.used_up(3));
    assert!(Backoff { retries_max: Some(0), ..backoff }.used_up(1));
    assert!(!plain(1, 1).used_up(u32::MAX));
}
