use std::time::Duration;

use proptest::prelude::{ProptestConfig, proptest};

use super::{Times, TimesError};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn the_default_times_keep_two_holders_apart() {
    assert_eq!(Times::default().check(), Ok(()));
    assert_eq!(Times::default().margin(), seconds(5));
}

#[test]
fn times_of_every_length_keep_two_holders_apart() {
    for length in [1, 2, 15, 60, 3600].map(seconds) {
        assert_eq!(Times::of_length(length).check(), Ok(()), "{length:?}");
    }
}

#[test]
fn a_deadline_without_a_margin_is_refused() {
    let times = Times { renew_deadline: seconds(15), ..Times::default() };
    let refused = times.check().unwrap_err();
    assert!(matches!(refused, TimesError::Deadline { .. }), "{refused}");
}

#[test]
fn a_deadline_without_room_for_a_second_renewal_is_refused() {
    let times = Times { retry_period: seconds(5), ..Times::default() };
    let refused = times.check().unwrap_err();
    assert!(matches!(refused, TimesError::Period { .. }), "{refused}");
    let never = Times { retry_period: Duration::ZERO, ..Times::default() };
    assert!(never.check().is_err());
}

#[test]
fn a_lease_of_more_than_an_hour_is_refused() {
    let times = Times { length: seconds(3601), ..Times::default() };
    assert_eq!(times.check(), Err(TimesError::Length(seconds(3601))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// In true time, and in the worst case for both clocks.
    #[test]
    fn the_last_write_of_a_holder_arrives_before_another_may_begin(length in 1_000_u64..3_600_000, flight in 0_u64..5_000) {
        let times = Times {
            length: Duration::from_millis(length),
            in_flight_max: Duration::from_millis(flight.min(length / 2)),
            ..Times::default()
        };
        let last_write = times.renew_deadline_max().as_secs_f64() / 0.99 + times.in_flight_max.as_secs_f64();
        let other_begins = times.length.as_secs_f64() / 1.01;
        assert!(last_write <= other_begins + 1e-6, "{last_write} {other_begins}");
    }
}

#[test]
fn loads_are_measured_over_a_minute_and_over_less_with_short_leases() {
    let window = |seconds| Times::of_length(Duration::from_secs(seconds)).load_window();
    assert_eq!([1, 15, 3600].map(window), [4, 60, 60].map(Duration::from_secs));
}
