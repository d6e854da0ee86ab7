//! `spec.feeders` as written and as checked.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use homeostat_component::Outcome;
use homeostat_workqueue::Priority;
use serde::de::{Error, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{OutOfBounds, Problems, Span};
use crate::cron::{MissedRuns, Schedule};
use crate::feeder_definition::{
    Cron, FEEDERS_MAX, FeederDefinition, FeederDelay, FeederKeys, FeederSource, Interval, LISTED_KEYS_MAX, ListedKey,
};

/// One feeder as written: a name, one source, and its keys.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FeederWritten {
    /// A DNS label, unique within the controller.
    pub name: String,
    /// Adds the keys once per period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<IntervalWritten>,
    /// Adds the keys at the moments of a schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<CronWritten>,
    /// The keys that it adds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<KeysWritten>,
    /// When an added key becomes due; absent: at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<DelayWritten>,
    /// The band of an added key: `lowest`, `low`, `normal`, `high` or `highest`; absent: `normal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<PriorityWritten>,
}

/// The source `interval` as written.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct IntervalWritten {
    /// The period, 1 s to 365 days.
    pub every: Span,
}

/// The source `cron` as written.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CronWritten {
    /// Five fields as in crontab, or a name as `@hourly`.
    pub schedule: String,
    /// A name of the IANA time zone database, as `Europe/Berlin`; absent: UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// What happens to missed runs; absent: `once`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<MissedWritten>,
    /// How long after its moment a missed run may start, 1 m to 365 days; absent: at any time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starting_deadline: Option<Span>,
}

/// What happens to missed runs, as written.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MissedWritten {
    /// All missed runs together run once.
    Once,
    /// They do not run.
    Skip,
}

/// The keys of a feeder as written: `all`, or a list.
#[derive(Clone, Debug, PartialEq)]
pub enum KeysWritten {
    /// The key of every stored resource of the managed kind.
    All,
    /// These keys, at most [`LISTED_KEYS_MAX`].
    Listed(Vec<KeyWritten>),
}

/// One key as written.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeyWritten {
    /// The namespace; absent for a cluster-scoped kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name of the resource.
    pub name: String,
}

/// The delay of added keys as written.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DelayWritten {
    /// How long after the add a key becomes due, as `5m`.
    pub after: Span,
    /// Whether no event makes the key due earlier; absent: `false`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hold: bool,
}

/// A band of the queue as written.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PriorityWritten {
    /// Work that yields to all other work.
    Lowest,
    /// As a resync.
    Low,
    /// As a change.
    Normal,
    /// Before changes.
    High,
    /// Before all other work.
    Highest,
}

/// The names of the sources, for errors.
const SOURCES: &str = "`interval` or `cron`";

/// The word for all keys.
const ALL: &str = "all";

impl Serialize for KeysWritten {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::All => serializer.serialize_str(ALL),
            Self::Listed(keys) => keys.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for KeysWritten {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeysVisitor;

        impl<'de> Visitor<'de> for KeysVisitor {
            type Value = KeysWritten;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "`{ALL}` or a list of keys, each with a name")
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<Self::Value, E> {
                if word == ALL { Ok(KeysWritten::All) } else { Err(E::invalid_value(Unexpected::Str(word), &self)) }
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
                let mut keys = Vec::new();
                while let Some(key) = sequence.next_element()? {
                    keys.push(key);
                }
                Ok(KeysWritten::Listed(keys))
            }
        }

        deserializer.deserialize_any(KeysVisitor)
    }
}

impl From<PriorityWritten> for Priority {
    fn from(written: PriorityWritten) -> Self {
        match written {
            PriorityWritten::Lowest => Self::LOWEST,
            PriorityWritten::Low => Self::LOW,
            PriorityWritten::Normal => Self::NORMAL,
            PriorityWritten::High => Self::HIGH,
            PriorityWritten::Highest => Self::HIGHEST,
        }
    }
}

/// The problems of one feeder.
struct FeederProblems<'p> {
    at: usize,
    problems: &'p mut Problems,
}

impl FeederProblems<'_> {
    /// Adds a problem of a field, as `.interval.every`.
    fn push(&mut self, field: &str, reason: String) {
        let item = format!("[{}]{field}", self.at);
        self.problems.0.push(OutOfBounds { field: "spec.feeders", item, reason });
    }

    fn span(&mut self, field: &str, span: Span, bounds: std::ops::RangeInclusive<Duration>) {
        if !bounds.contains(&span.0) {
            let (least, most) = (Span(*bounds.start()), Span(*bounds.end()));
            self.push(field, format!("{span} is out of bounds: from {least} to {most}"));
        }
    }
}

pub(super) fn check(written: &[FeederWritten], problems: &mut Problems) -> Vec<FeederDefinition> {
    if written.len() > FEEDERS_MAX {
        problems.push("spec.feeders", format!("has {} feeders, and {FEEDERS_MAX} are allowed", written.len()));
    }
    let mut names = BTreeSet::new();
    let one = |(at, feeder): (usize, &FeederWritten)| {
        let mut problems = FeederProblems { at, problems };
        if !is_dns_label(&feeder.name) {
            problems.push(".name", "must be a DNS label: 1 to 63 of `a` to `z`, `0` to `9` and `-`".to_owned());
        }
        if !names.insert(feeder.name.clone()) {
            problems.push(".name", "another feeder of the controller has this name".to_owned());
        }
        check_one(feeder, &mut problems)
    };
    written.iter().enumerate().filter_map(one).collect()
}

fn check_one(written: &FeederWritten, problems: &mut FeederProblems<'_>) -> Option<FeederDefinition> {
    let FeederWritten { name, interval, cron, keys, delay, priority } = written;
    let interval = interval.as_ref().map(|interval| check_interval(interval, problems));
    let cron = cron.as_ref().map(|cron| check_cron(cron, problems));
    let sources = [interval.map(Some), cron];
    let named = sources.iter().flatten().count();
    if named != 1 {
        problems.push("", format!("must have exactly one source: {SOURCES}; it has {named}"));
    }
    let source = sources.into_iter().flatten().flatten().next();
    let keys = check_keys(keys.as_ref(), problems);
    if let Some(DelayWritten { after, hold: _ }) = delay {
        problems.span(".delay.after", *after, Duration::from_millis(1)..=Outcome::DELAY_MAX);
    }
    let delay = delay.as_ref().map(|DelayWritten { after, hold }| FeederDelay { after: after.0, hold: *hold });
    let priority = priority.map_or(Priority::NORMAL, Priority::from);
    Some(FeederDefinition { name: name.as_str().into(), source: source?, keys: keys?, delay, priority })
}

fn check_interval(IntervalWritten { every }: &IntervalWritten, problems: &mut FeederProblems<'_>) -> FeederSource {
    problems.span(".interval.every", *every, Duration::from_secs(1)..=Outcome::DELAY_MAX);
    FeederSource::Interval(Interval { every: every.0 })
}

fn check_cron(written: &CronWritten, problems: &mut FeederProblems<'_>) -> Option<FeederSource> {
    let CronWritten { schedule, time_zone, missed, starting_deadline } = written;
    if let Some(deadline) = starting_deadline {
        problems.span(".cron.startingDeadline", *deadline, Duration::from_secs(60)..=Outcome::DELAY_MAX);
    }
    let missed = match (missed, starting_deadline) {
        (Some(MissedWritten::Skip), Some(_)) => {
            problems.push(".cron.startingDeadline", "has no meaning with `missed: skip`: remove one".to_owned());
            MissedRuns::Skip
        }
        (Some(MissedWritten::Skip), None) => MissedRuns::Skip,
        (Some(MissedWritten::Once) | None, deadline) => MissedRuns::Once { deadline: deadline.map(|span| span.0) },
    };
    match Schedule::parse(schedule, time_zone.as_deref()) {
        Ok(schedule) => Some(FeederSource::Cron(Box::new(Cron { schedule, missed }))),
        Err(reason) => {
            problems.push(".cron", reason);
            None
        }
    }
}

fn check_keys(written: Option<&KeysWritten>, problems: &mut FeederProblems<'_>) -> Option<FeederKeys> {
    match written {
        None => {
            problems.push(".keys", "must name the keys to add: `all`, or a list".to_owned());
            None
        }
        Some(KeysWritten::All) => Some(FeederKeys::All),
        Some(KeysWritten::Listed(keys)) => {
            if keys.is_empty() || keys.len() > LISTED_KEYS_MAX {
                problems.push(".keys", format!("has {} keys, and must have 1 to {LISTED_KEYS_MAX}", keys.len()));
            }
            let key = |KeyWritten { namespace, name }: &KeyWritten| ListedKey {
                namespace: namespace.clone().unwrap_or_default(),
                name: name.clone(),
            };
            Some(FeederKeys::Listed(keys.iter().map(key).collect()))
        }
    }
}

fn is_dns_label(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&text.len()) && text.bytes().all(is_inner) && !text.starts_with('-') && !text.ends_with('-')
}
