use super::*;

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn in_zone(text: &str, zone: &str) -> Schedule {
    Schedule::parse(text, Some(zone)).unwrap()
}

fn utc(text: &str) -> Schedule {
    Schedule::parse(text, None).unwrap()
}

/// Returns the moments after `from`, in UTC to the minute.
fn moments(schedule: &Schedule, from: &str, count: usize) -> Vec<String> {
    let next = |at: &Timestamp| schedule.next_after(*at);
    let first = next(&time(from));
    let all = std::iter::successors(first, next).take(count);
    all.map(|at| at.to_string()[5..16].replace('T', " ")).collect()
}

#[test]
fn a_schedule_runs_at_the_minutes_that_its_fields_name() {
    let from = "2026-11-24T12:00:00Z";
    let cases: [(&str, &[&str]); 11] = [
        ("*/20 * * * *", &["11-24 12:20", "11-24 12:40", "11-24 13:00"]),
        ("5,35 9-10 * * *", &["11-25 09:05", "11-25 09:35", "11-25 10:05"]),
        ("50/5 12 * * *", &["11-24 12:50", "11-24 12:55", "11-25 12:50"]),
        ("0 0 29 feb *", &["02-29 00:00", "02-29 00:00"]),
        ("0 0 * * mon-WED", &["11-25 00:00", "11-30 00:00", "12-01 00:00"]),
        ("0 0 * * 5-7", &["11-27 00:00", "11-28 00:00", "11-29 00:00", "12-04 00:00"]),
        ("0 0 * * 7", &["11-29 00:00", "12-06 00:00"]),
        ("0 0 * * */3", &["11-25 00:00", "11-28 00:00", "11-29 00:00"]),
        ("@hourly", &["11-24 13:00", "11-24 14:00"]),
        ("@yearly", &["01-01 00:00"]),
        ("@weekly", &["11-29 00:00"]),
    ];
    for (text, expected) in cases {
        assert_eq!(moments(&utc(text), from, expected.len()), expected, "{text}");
    }
}

/// Source: crontab(5).
#[test]
fn a_day_matches_by_either_day_field_if_both_are_restricted() {
    let from = "2026-11-24T12:00:00Z";
    assert_eq!(moments(&utc("0 0 1 * fri"), from, 3), ["11-27 00:00", "12-01 00:00", "12-04 00:00"]);
    assert_eq!(moments(&utc("0 0 */10 * fri"), from, 2), ["12-11 00:00", "01-01 00:00"], "it starts with a star");
}

#[test]
fn a_bad_schedule_is_refused_with_its_reason() {
    let cases = [
        ("* * * *", "has 4 fields"),
        ("0 * * * * *", "has 6 fields"),
        ("60 * * * *", "the minute has \"60\""),
        ("* 5-3 * * *", "ends before it starts"),
        ("*/0 * * * *", "the step \"0\""),
        ("* * 0 * *", "the day of the month has \"0\""),
        ("* * * foo *", "or a name of three letters"),
        ("+5 * * * *", "the minute has \"+5\""),
        ("1,,2 * * * *", "the minute has \"\""),
        ("@every 5m", "use `interval`"),
        ("0 0 30 2 *", "never runs"),
        ("CRON_TZ=UTC 0 0 * * *", "has 6 fields"),
    ];
    for (text, reason) in cases {
        let refused = Schedule::parse(text, None).unwrap_err();
        assert!(refused.contains(reason), "{text}: {refused}");
    }
    assert!(Schedule::parse(&"0,".repeat(200), None).unwrap_err().contains("256 bytes"));
    assert!(Schedule::parse("@daily", Some("Europe/Berlln")).unwrap_err().contains("not a time zone"));
}

#[test]
fn hours_are_those_of_the_time_zone() {
    let nine = in_zone("0 9 * * *", "Europe/Berlin");
    assert_eq!(moments(&nine, "2026-03-28T00:00:00Z", 2), ["03-28 08:00", "03-29 07:00"], "the clock goes forward");
    assert_eq!(moments(&nine, "2026-10-24T00:00:00Z", 2), ["10-24 07:00", "10-25 08:00"], "the clock goes back");
    assert_eq!(moments(&in_zone("0 9 * * *", "Asia/Kathmandu"), "2026-01-01T00:00:00Z", 1), ["01-01 03:15"]);
}

/// In Berlin, 02:00 to 03:00 does not exist on 29 March 2026.
#[test]
fn named_hours_in_a_gap_run_once_at_its_end() {
    let from = "2026-03-28T12:00:00Z";
    let daily = in_zone("30 2 * * *", "Europe/Berlin");
    assert_eq!(moments(&daily, from, 2), ["03-29 01:00", "03-30 00:30"]);
    let often = in_zone("*/20 2 * * *", "Europe/Berlin");
    assert_eq!(moments(&often, from, 2), ["03-29 01:00", "03-30 00:00"]);
    let clock = in_zone("30 * * * *", "Europe/Berlin");
    assert_eq!(moments(&clock, "2026-03-29T00:00:00Z", 3), ["03-29 00:30", "03-29 01:30", "03-29 02:30"]);
}

/// In Berlin, 02:00 to 03:00 comes twice on 25 October 2026.
#[test]
fn named_hours_that_come_twice_run_the_first_time_alone() {
    let daily = in_zone("30 2 * * *", "Europe/Berlin");
    assert_eq!(moments(&daily, "2026-10-24T12:00:00Z", 2), ["10-25 00:30", "10-26 01:30"]);
    let clock = in_zone("30 * * * *", "Europe/Berlin");
    assert_eq!(moments(&clock, "2026-10-24T23:45:00Z", 3), ["10-25 00:30", "10-25 01:30", "10-25 02:30"]);
}

/// In Havana, the clock goes back from 01:00 to 00:00; in Beirut from 00:00 to 23:00 of the day before.
#[test]
fn an_hour_that_comes_twice_around_midnight_keeps_the_order_of_moments() {
    for (zone, from) in [("America/Havana", "2026-10-31T20:00:00Z"), ("Asia/Beirut", "2026-10-24T12:00:00Z")] {
        let schedule = in_zone("*/10 * * * *", zone);
        let all = std::iter::successors(Some(time(from)), |at| schedule.next_after(*at)).take(150);
        let steps: Vec<i64> = all.collect::<Vec<_>>().windows(2).map(|two| (two[1] - two[0]).get_seconds()).collect();
        assert!(steps.iter().all(|step| *step == 600), "{zone}: {steps:?}");
    }
}

/// Samoa had no 30 December 2011.
#[test]
fn a_day_that_does_not_exist_runs_at_the_begin_of_the_next_one() {
    let schedule = in_zone("0 9 30 12 *", "Pacific/Apia");
    assert_eq!(schedule.next_after(time("2011-12-01T00:00:00Z")), Some(time("2011-12-30T10:00:00Z")));
}

#[test]
fn the_last_moment_is_found_backwards_and_is_the_inverse_of_the_next_one() {
    for (text, zone) in [("*/7 * * * *", "America/New_York"), ("30 1,2 * * *", "Europe/Berlin"), ("0 0 29 2 *", "UTC")]
    {
        let schedule = in_zone(text, zone);
        let mut at = time("2026-03-07T00:00:00Z");
        for _ in 0..300 {
            let next = schedule.next_after(at).unwrap();
            assert_eq!(schedule.last_until(next, at), Some(next), "{text}");
            assert_eq!(schedule.last_until(next - Span::new().seconds(1), at), None, "{text}");
            at = next;
        }
    }
}

#[test]
fn a_run_within_its_minute_is_on_time() {
    let schedule = utc("0 * * * *");
    let done = time("2026-11-24T12:00:00Z");
    assert_eq!(schedule.due(done, time("2026-11-24T12:59:59Z"), MissedRuns::Skip), None);
    let last = time("2026-11-24T13:00:00Z");
    let due = schedule.due(done, time("2026-11-24T13:00:59Z"), MissedRuns::Skip);
    assert_eq!(due, Some(DueRuns { last, missed: 0, starts: true }));
}

#[test]
fn missed_runs_run_once_or_not_at_all_as_the_definition_says() {
    let schedule = utc("0 * * * *");
    let (done, now, last) = (time("2026-11-24T12:00:00Z"), time("2026-11-24T15:10:00Z"), time("2026-11-24T15:00:00Z"));
    let due = |missed_runs| schedule.due(done, now, missed_runs).unwrap();
    let within = |minutes: u64| MissedRuns::Once { deadline: Some(Duration::from_secs(minutes * 60)) };
    assert_eq!(due(MissedRuns::Skip), DueRuns { last, missed: 3, starts: false });
    assert_eq!(due(MissedRuns::Once { deadline: None }), DueRuns { last, missed: 3, starts: true });
    assert_eq!(due(within(10)), DueRuns { last, missed: 3, starts: true });
    assert_eq!(due(within(9)), DueRuns { last, missed: 3, starts: false });
}

#[test]
fn the_count_of_missed_runs_is_bounded() {
    let schedule = utc("* * * * *");
    let due = schedule.due(time("1999-01-01T00:00:00Z"), time("2026-11-24T12:00:30Z"), MissedRuns::Skip).unwrap();
    assert_eq!(due, DueRuns { last: time("2026-11-24T12:00:00Z"), missed: MISSED_RUNS_MAX, starts: true });
}
