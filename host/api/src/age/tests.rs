use super::*;

#[test]
fn ages_read_as_kubectl_prints_them() {
    let cases = [
        (-5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (185, "3m5s"),
        (10 * MINUTE, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR + 5 * MINUTE, "3h5m"),
        (8 * HOUR, "8h"),
        (2 * DAY - 1, "47h"),
        (3 * DAY + 5 * HOUR, "3d5h"),
        (8 * DAY, "8d"),
        (2 * YEAR + 5 * DAY, "2y5d"),
        (9 * YEAR, "9y"),
    ];
    for (seconds, expected) in cases {
        assert_eq!(short(seconds), expected, "{seconds}");
    }
}

#[test]
fn an_age_is_counted_from_a_time() {
    let now = "2026-11-20T08:00:00Z".parse().unwrap();
    assert_eq!(since("2026-11-20T07:57:00Z", now), "3m");
    assert_eq!(since("yesterday", now), "<unknown>");
}

#[test]
fn short_waits_have_tenths() {
    assert_eq!(short_ms(0), "0.0s");
    assert_eq!(short_ms(1250), "1.2s");
    assert_eq!(short_ms(125_000), "2m5s");
}
