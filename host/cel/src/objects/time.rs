//! The texts of moments and lengths of time.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// Parses a moment as in RFC 3339.
pub(crate) fn timestamp(text: &str) -> Option<Timestamp> {
    let is_full = text.len() >= 20 && text.as_bytes()[10].eq_ignore_ascii_case(&b'T');
    text.parse().ok().filter(|_| is_full)
}

/// Parses a moment, or the beginning of a day.
pub(crate) fn timestamp_or_date(text: &str) -> Option<Timestamp> {
    let day = || text.parse::<jiff::civil::Date>().ok().filter(|_| text.len() == 10);
    timestamp(text).or_else(|| Some(day()?.to_zoned(TimeZone::UTC).ok()?.timestamp()))
}

/// Parses a length of time as Go writes it, such as `1h30m` or `-1.5s`.
pub fn duration(text: &str) -> Option<SignedDuration> {
    let (is_negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(SignedDuration::ZERO);
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let units = [
            ("ns", 1),
            ("us", 1_000),
            ("µs", 1_000),
            ("μs", 1_000),
            ("ms", 1_000_000),
            ("s", 1_000_000_000),
            ("m", 60_000_000_000),
            ("h", 3_600_000_000_000_i128),
        ];
        let (unit, nanos) = units.into_iter().find(|(unit, _)| after.starts_with(unit))?;
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        total = total.checked_add(whole.checked_mul(nanos)?)?;
        let fraction = &fraction[..fraction.len().min(15)];
        if !fraction.is_empty() {
            let scale = 10_i128.pow(u32::try_from(fraction.len()).ok()?);
            total = total.checked_add(fraction.parse::<i128>().ok()? * nanos / scale)?;
        }
        rest = &after[unit.len()..];
    }
    let nanos = i64::try_from(if is_negative { -total } else { total }).ok()?;
    Some(SignedDuration::from_nanos(nanos)).filter(|_| !text.is_empty())
}

/// Writes a length of time as CEL does: in seconds.
pub(crate) fn duration_text(duration: SignedDuration) -> String {
    let nanos = duration.as_nanos();
    let (sign, nanos) = if nanos < 0 { ("-", -nanos) } else { ("", nanos) };
    let (whole, fraction) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    if fraction == 0 {
        return format!("{sign}{whole}s");
    }
    let fraction = format!("{fraction:09}");
    format!("{sign}{whole}.{}s", fraction.trim_end_matches('0'))
}
