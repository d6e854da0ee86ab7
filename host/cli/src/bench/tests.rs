use super::*;

#[test]
fn a_percentile_is_a_value_that_was_measured() {
    let values: Vec<Duration> = (1..=200).map(Duration::from_millis).collect();
    assert_eq!(percentile(&values, 50), Duration::from_millis(100));
    assert_eq!(percentile(&values, 99), Duration::from_millis(198));
    assert_eq!(percentile(&values[..1], 99), Duration::from_millis(1));
    assert_eq!(percentile(&[], 50), Duration::ZERO);
}

#[test]
fn figures_are_one_line() {
    let figures = BenchResult {
        reconciles: 2000,
        failures: 3,
        per_second: 12345.6,
        p50: Duration::from_micros(1500),
        p99: Duration::from_millis(20),
        instances_per_second: 99.5,
        idle_bytes: Some(4096),
    };
    let expected = "12346 reconciles/s, add to start p50 1.5 ms p99 20.0 ms, 100 instances/s, 4096 bytes per idle controller, \
        3 of 2000 failed";
    assert_eq!(figures.line(), expected);
}

#[test]
fn resident_memory_is_counted_in_bytes() {
    assert!(resident_bytes().is_none_or(|bytes| bytes > 100_000));
}
