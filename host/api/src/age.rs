//! Formats durations in kubectl's short form, for the cells of tables and for commands. Pure.

use jiff::Timestamp;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// Returns the time from an RFC 3339 timestamp to `now`; `<unknown>` if the timestamp is invalid.
pub fn since(time: &str, now: Timestamp) -> String {
    match time.parse::<Timestamp>() {
        Ok(time) => short(now.as_second() - time.as_second()),
        Err(_) => "<unknown>".to_owned(),
    }
}

/// Formats seconds in one or two units; large values have only one. Negative values count as 0.
pub fn short(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let two = |large: i64, large_name, small: i64, small_name| {
        let rest = seconds % large / small;
        let second = if rest == 0 { String::new() } else { format!("{rest}{small_name}") };
        format!("{}{large_name}{second}", seconds / large)
    };
    match seconds {
        s if s < 2 * MINUTE => format!("{s}s"),
        s if s < 10 * MINUTE => two(MINUTE, "m", 1, "s"),
        s if s < 3 * HOUR => format!("{}m", s / MINUTE),
        s if s < 8 * HOUR => two(HOUR, "h", MINUTE, "m"),
        s if s < 2 * DAY => format!("{}h", s / HOUR),
        s if s < 8 * DAY => two(DAY, "d", HOUR, "h"),
        s if s < 2 * YEAR => format!("{}d", s / DAY),
        s if s < 8 * YEAR => two(YEAR, "y", DAY, "d"),
        s => format!("{}y", s / YEAR),
    }
}

/// Formats milliseconds, with a tenth of a second below ten seconds.
pub fn short_ms(milliseconds: u64) -> String {
    if milliseconds < 10_000 {
        format!("{}.{}s", milliseconds / 1000, milliseconds % 1000 / 100)
    } else {
        short(i64::try_from(milliseconds / 1000).unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
mod tests;
