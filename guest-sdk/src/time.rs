//! Moments and durations in the text forms of documents: RFC 3339, and `1m30s`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A moment in time, in UTC, to the millisecond. As text, and in documents, RFC 3339: `2026-01-31T12:00:00Z`.
///
/// The text has a fraction only if it is not zero. Covers the years 0 to 9999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    /// Since 1970-01-01T00:00:00Z.
    milliseconds: i64,
}

/// A text that is neither a moment nor a span.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {expected}")]
pub struct ParseError {
    text: String,
    expected: &'static str,
}

const DAY_MS: i64 = 86_400_000;
/// 9999-12-31T23:59:59.999Z.
const TIME_MS_MAX: i64 = 253_402_300_799_999;
/// 0000-01-01T00:00:00Z.
const TIME_MS_MIN: i64 = -62_167_219_200_000;

impl Time {
    /// Returns the host's current time. In a replay, it is the recorded time.
    #[must_use]
    pub fn now() -> Self {
        #[cfg(not(target_family = "wasm"))]
        if let Some(now) = crate::host::now() {
            return Self::from_unix_milliseconds(now);
        }
        Self::from_unix_milliseconds(i64::try_from(since_1970().as_millis()).unwrap_or(i64::MAX))
    }

    /// Creates the moment this many milliseconds after the start of 1970, clamped to the years 0 to 9999.
    #[must_use]
    pub fn from_unix_milliseconds(milliseconds: i64) -> Self {
        Self { milliseconds: milliseconds.clamp(TIME_MS_MIN, TIME_MS_MAX) }
    }

    /// Returns the milliseconds since the start of 1970.
    #[must_use]
    pub fn unix_milliseconds(self) -> i64 {
        self.milliseconds
    }

    /// Drops the fraction of a second, as in Kubernetes timestamps.
    #[must_use]
    pub fn whole_seconds(self) -> Self {
        Self { milliseconds: self.milliseconds.div_euclid(1000) * 1000 }
    }

    /// Returns the time elapsed since `earlier`; zero if it is not after it.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.milliseconds.saturating_sub(earlier.milliseconds)).unwrap_or(0))
    }
}

/// The clock of the standard library panics where there is no system.
#[cfg(target_family = "wasm")]
fn since_1970() -> Duration {
    let now = wasip2::clocks::wall_clock::now();
    Duration::new(now.seconds, now.nanoseconds)
}

#[cfg(not(target_family = "wasm"))]
fn since_1970() -> Duration {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}

impl std::ops::Add<Duration> for Time {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        let span = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        Self::from_unix_milliseconds(self.milliseconds.saturating_add(span))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil_from_days(self.milliseconds.div_euclid(DAY_MS));
        let in_day = self.milliseconds.rem_euclid(DAY_MS);
        let (hour, minute, second, fraction) =
            (in_day / 3_600_000, in_day / 60_000 % 60, in_day / 1000 % 60, in_day % 1000);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        if fraction != 0 {
            write!(f, ".{fraction:03}")?;
        }
        f.write_str("Z")
    }
}

impl FromStr for Time {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        parse_rfc3339(text)
            .map(|milliseconds| Self { milliseconds })
            .ok_or_else(|| ParseError { text: text.to_owned(), expected: "a time like 2026-01-31T12:00:00Z" })
    }
}

/// Parses RFC 3339 with any number of fraction digits and any offset into milliseconds since 1970.
fn parse_rfc3339(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    if !text.is_ascii() || bytes.len() < 20 {
        return None;
    }
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = &text[from..to];
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
    };
    let marks = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')];
    if marks.iter().any(|&(at, mark)| bytes[at] != mark) || !matches!(bytes[10], b'T' | b't' | b' ') {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let days = days_from_civil(year, month, day);
    // A leap second is read as the last second of its minute.
    if civil_from_days(days) != (year, month, day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let (fraction, offset) = match text[19..].strip_prefix('.') {
        Some(rest) => {
            let end = rest.find(|c: char| !c.is_ascii_digit())?;
            let digits: String = rest[..end].chars().chain("000".chars()).take(3).collect();
            (if end == 0 { None } else { digits.parse().ok() }?, &rest[end..])
        }
        None => (0, &text[19..]),
    };
    let in_day = ((hour * 60 + minute) * 60 + second.min(59)) * 1000 + fraction;
    let utc = days * DAY_MS + in_day - offset_ms(offset)?;
    (TIME_MS_MIN..=TIME_MS_MAX).contains(&utc).then_some(utc)
}

fn offset_ms(offset: &str) -> Option<i64> {
    if matches!(offset, "Z" | "z") {
        return Some(0);
    }
    let sign = match offset.bytes().next()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = offset.get(1..)?.split_once(':')?;
    let two_digits = |part: &str| (part.len() == 2).then(|| part.parse::<u8>().ok()).flatten().map(i64::from);
    let (hours, minutes) = (two_digits(hours)?, two_digits(minutes)?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes) * 60_000)
}

/// Returns the days since 1970-01-01 of a date in the proleptic Gregorian calendar, counting years from
/// March.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Returns the date that many days after 1970-01-01: year, month, day.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day_of_year - (153 * from_march + 2) / 5 + 1)
}

/// A duration in the text form of documents and settings: `300ms`, `10s`, `1m30s`, `36h`.
///
/// Units: `ms`, `s`, `m`, `h`, `d`; whole numbers. At most 365 days.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub Duration);

/// The units of a [`Span`] in milliseconds, largest first.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];
const SPAN_MS_MAX: u64 = 365 * 86_400_000;

impl FromStr for Span {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        parse_span(text)
            .map(|ms| Self(Duration::from_millis(ms)))
            .ok_or_else(|| ParseError { text: text.to_owned(), expected: "a length of time like 300ms, 10s or 1m30s" })
    }
}

fn parse_span(text: &str) -> Option<u64> {
    let mut rest = text;
    let mut total: u64 = 0;
    loop {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let unit = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (_, unit_ms) = UNITS.iter().find(|(name, _)| *name == &rest[..unit])?;
        total = total.checked_add(number.checked_mul(*unit_ms)?)?;
        rest = &rest[unit..];
        if rest.is_empty() {
            return (total <= SPAN_MS_MAX).then_some(total);
        }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = milliseconds(self.0);
        if rest == 0 {
            return f.write_str("0s");
        }
        for (name, unit_ms) in UNITS {
            if rest >= unit_ms {
                write!(f, "{}{name}", rest / unit_ms)?;
                rest %= unit_ms;
            }
        }
        Ok(())
    }
}

/// Returns whole milliseconds, rounded up, so that no duration becomes zero.
pub(crate) fn milliseconds(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

macro_rules! serde_as_text {
    ($type:ty) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
            }
        }
    };
}

serde_as_text!(Time);
serde_as_text!(Span);

#[cfg(test)]
mod tests;
