use super::*;

#[test]
fn a_time_is_written_as_it_was_read() {
    for text in [
        "1970-01-01T00:00:00Z",
        "2000-02-29T23:59:59Z",
        "2026-11-20T07:41:02.345Z",
        "0000-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999Z",
    ] {
        assert_eq!(text.parse::<Time>().expect(text).to_string(), text);
    }
}

#[test]
fn the_calendar_goes_day_by_day() {
    let mut last = (1899, 12, 31);
    for days in days_from_civil(1900, 1, 1)..days_from_civil(2101, 1, 1) {
        let (year, month, day) = civil_from_days(days);
        assert_eq!(days_from_civil(year, month, day), days);
        let next_day = (year, month, day) == (last.0, last.1, last.2 + 1);
        let next_month = (year, month, day) == (last.0, last.1 + 1, 1) && last.2 >= 28;
        let next_year = (year, month, day) == (last.0 + 1, 1, 1) && (last.1, last.2) == (12, 31);
        assert!(next_day || next_month || next_year, "{last:?} is followed by {year}-{month}-{day}");
        last = (year, month, day);
    }
}

#[test]
fn offsets_and_fractions_count() {
    let time = |text: &str| text.parse::<Time>().expect(text);
    assert_eq!(time("2026-01-01T02:30:00+02:30"), time("2026-01-01T00:00:00Z"));
    assert_eq!(time("2025-12-31T23:00:00-01:00"), time("2026-01-01T00:00:00Z"));
    assert_eq!(time("2026-01-01T00:00:00.5Z").unix_milliseconds() % 1000, 500);
    assert_eq!(time("2026-01-01T00:00:00.123456789Z").unix_milliseconds() % 1000, 123);
}

#[test]
fn malformed_times_are_refused() {
    for text in [
        "",
        "2026-01-01",
        "2026-02-29T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-01-01T24:00:00Z",
        "2026-01-01T00:00:00",
        "2026-01-01T00:00:00.Z",
        "2026-01-01T00:00:00+2:00",
        "2026-01-01T00:00:00Zzz",
        "+026-01-01T00:00:00Z",
        "2026-01-01T00:00:00é",
    ] {
        assert!(text.parse::<Time>().is_err(), "{text:?} was taken");
    }
}

#[test]
fn time_since_a_later_moment_is_zero() {
    let (earlier, later) = (Time::from_unix_milliseconds(1000), Time::from_unix_milliseconds(3500));
    assert_eq!(later.since(earlier), Duration::from_millis(2500));
    assert_eq!(earlier.since(later), Duration::ZERO);
    assert_eq!(earlier + Duration::from_millis(2500), later);
    assert_eq!(later.whole_seconds(), Time::from_unix_milliseconds(3000));
}

#[test]
fn a_span_is_the_sum_of_its_parts() {
    for (text, ms) in [("300ms", 300), ("10s", 10_000), ("1m30s", 90_000), ("1d2h", 93_600_000), ("0s", 0)] {
        let span: Span = text.parse().expect(text);
        assert_eq!(span.0, Duration::from_millis(ms));
        assert_eq!(span.to_string(), text);
    }
    for text in ["", "5", "s", "1.5s", "-1s", "1 s", "366d", "99999999999999999999s", "1y"] {
        assert!(text.parse::<Span>().is_err(), "{text:?} was taken");
    }
}

#[test]
fn a_part_of_a_millisecond_rounds_up() {
    assert_eq!(milliseconds(Duration::from_nanos(1)), 1);
    assert_eq!(milliseconds(Duration::ZERO), 0);
    assert_eq!(milliseconds(Duration::MAX), u64::MAX);
}
