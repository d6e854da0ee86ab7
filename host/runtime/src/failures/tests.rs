use super::*;

#[test]
fn failures_of_one_key_are_logged_ever_more_rarely() {
    let (log, mut now) = (FailureLog::default(), Instant::now());
    let told = (1..=100_000).filter(|failures| {
        now += REFILL;
        log.note(now, *failures).is_some()
    });
    assert_eq!(told.collect::<Vec<_>>(), [1, 10, 100, 1000, 10_000, 100_000]);
}

#[test]
fn failures_of_many_keys_log_ten_lines_and_then_one_per_second() {
    let (log, mut now) = (FailureLog::default(), Instant::now());
    let told = |log: &FailureLog, now| (0..1000).filter_map(|_| log.note(now, 1)).collect::<Vec<_>>();
    assert_eq!(told(&log, now), [0; 10]);
    now += REFILL / 2;
    assert_eq!(told(&log, now), [0_u64; 0]);
    for _ in 0..3 {
        now += REFILL;
        assert_eq!(told(&log, now).len(), 1);
    }
    now += REFILL * 100;
    assert_eq!(told(&log, now).len(), 10, "it never saves up more");
}

#[test]
fn suppressed_failures_are_counted_in_the_next_line() {
    let (log, now) = (FailureLog::default(), Instant::now());
    assert_eq!((0..25).filter(|_| log.note(now, 1).is_some()).count(), 10);
    assert_eq!((log.note(now + REFILL, 1), log.note(now + REFILL * 2, 1)), (Some(15), Some(0)));
}
