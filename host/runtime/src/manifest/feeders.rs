//! `spec.feeders` as written and as checked.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use homeostat_component::{Outcome, QueuePriority};
use homeostat_workqueue::{Delay, Priority};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::feeder_sources::{
    CronWritten, FilesWritten, IntervalWritten, NatsWritten, WebhookWritten, check_cron, check_files, check_interval,
    check_nats, check_webhook,
};
use super::{OutOfBounds, Problems, Span};
use crate::PlacementSpec;
use crate::bands::band;
use crate::feeder_definition::{FEEDERS_MAX, FeederDefinition, FeederKeys, FeederSource, LISTED_KEYS_MAX, ListedKey};
use crate::message_keys::{MessageKeys, Pointer, Template, is_subject_word};

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
    /// Adds the keys of requests of a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<WebhookWritten>,
    /// Adds the keys of files that change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<FilesWritten>,
    /// Adds the keys of messages of a NATS server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nats: Option<NatsWritten>,
    /// The keys that it adds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<KeysWritten>,
    /// When an added key becomes due; absent: at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<DelayWritten>,
    /// The band of an added key: `lowest`, `low`, `normal`, `high` or `highest`; absent: `normal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<QueuePriority>,
}

/// The keys of a message as written.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TemplateWritten {
    /// A JSON pointer to a list, each item of which makes one key; absent: the message makes one key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub each: Option<String>,
    /// The template of the namespace; absent for a cluster-scoped kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The template of the name, as `{/repository/name}`.
    pub name: String,
}

/// The keys of a feeder as written: `all`, a list, or templates.
#[derive(Clone, Debug, PartialEq)]
pub enum KeysWritten {
    /// The key of every stored resource of the managed kind.
    All,
    /// These keys, at most [`LISTED_KEYS_MAX`].
    Listed(Vec<KeyWritten>),
    /// Those that templates make of a message.
    OfMessage(TemplateWritten),
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

/// The names of the sources, for errors.
const SOURCES: &str = "`interval`, `cron`, `webhook`, `files` or `nats`";

/// The word for all keys.
const ALL: &str = "all";

impl Serialize for KeysWritten {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::All => serializer.serialize_str(ALL),
            Self::Listed(keys) => keys.serialize(serializer),
            Self::OfMessage(template) => template.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for KeysWritten {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeysVisitor;

        impl<'de> Visitor<'de> for KeysVisitor {
            type Value = KeysWritten;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "`{ALL}`, a list of keys, each with a name, or templates for messages")
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

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                TemplateWritten::deserialize(MapAccessDeserializer::new(map)).map(KeysWritten::OfMessage)
            }
        }

        deserializer.deserialize_any(KeysVisitor)
    }
}

/// The problems of one feeder.
pub(super) struct FeederProblems<'p> {
    at: usize,
    problems: &'p mut Problems,
}

impl FeederProblems<'_> {
    /// Adds a problem of a field, as `.interval.every`.
    pub(super) fn push(&mut self, field: &str, reason: String) {
        let item = format!("[{}]{field}", self.at);
        self.problems.0.push(OutOfBounds { field: "spec.feeders", item, reason });
    }

    pub(super) fn span(&mut self, field: &str, span: Span, bounds: std::ops::RangeInclusive<Duration>) {
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

/// Checks feeders against the hosts that run the controller. A message of a consumer is acknowledged by one host, which
/// must have all of its keys; a host with some of the shards may have a part of them.
pub(super) fn check_placement(feeders: &[FeederDefinition], placement: PlacementSpec, problems: &mut Problems) {
    if !matches!(placement, PlacementSpec::Sharded(_)) {
        return;
    }
    for feeder in feeders.iter().filter(|feeder| feeder.source.is_consumer() && !feeder.keys.is_one_per_message()) {
        let reason = format!(
            "the feeder {:?} makes several keys of one message of a consumer, and hosts share the keys of a sharded \
             controller: make one key of each message, or use a plain subject",
            feeder.name
        );
        problems.push("spec.feeders", reason);
    }
}

fn check_one(written: &FeederWritten, problems: &mut FeederProblems<'_>) -> Option<FeederDefinition> {
    let FeederWritten { name, interval, cron, webhook, files, nats, keys, delay, priority } = written;
    let interval = interval.as_ref().map(|interval| check_interval(interval, problems));
    let cron = cron.as_ref().map(|cron| check_cron(cron, problems));
    let webhook = webhook.as_ref().map(|webhook| check_webhook(webhook, problems));
    let files = files.as_ref().map(|files| check_files(files, problems));
    let nats = nats.as_ref().map(|nats| check_nats(nats, problems));
    let sources = [interval.map(Some), cron, webhook, files, nats];
    let named = sources.iter().flatten().count();
    if named != 1 {
        problems.push("", format!("must have exactly one source: {SOURCES}; it has {named}"));
    }
    let source = sources.into_iter().flatten().flatten().next();
    let keys = check_keys(keys.as_ref(), source.as_ref(), problems);
    if let (Some(FeederSource::Webhook(webhook)), Some(FeederKeys::All)) = (&source, &keys)
        && webhook.inbox
    {
        let reason = "keeps nothing of `keys: all`: a host that starts adds all stored resources by itself";
        problems.push(".webhook.inbox", reason.to_owned());
    }
    if let Some(DelayWritten { after, hold: _ }) = delay {
        problems.span(".delay.after", *after, Duration::from_millis(1)..=Outcome::DELAY_MAX);
    }
    let delay = delay.as_ref().map(|DelayWritten { after, hold }| Delay { after: after.0, hold: *hold });
    let priority = priority.map_or(Priority::NORMAL, band);
    Some(FeederDefinition { name: name.as_str().into(), source: source?, keys: keys?, delay, priority })
}

fn check_templates(
    written: &TemplateWritten,
    source: &FeederSource,
    problems: &mut FeederProblems<'_>,
) -> Option<FeederKeys> {
    let TemplateWritten { each, namespace, name } = written;
    let Some(is_word) = words(source) else {
        problems.push(".keys", format!("a feeder `{}` has no messages: use `all`, or a list", source.name()));
        return None;
    };
    let mut said = |field: &str, reason: String| problems.push(field, reason);
    let each = each.as_deref().map(Pointer::parse).transpose();
    let each = each.map_err(|reason| said(".keys.each", reason));
    let namespace = namespace.as_deref().map(|text| Template::parse(text, is_word)).transpose();
    let namespace = namespace.map_err(|reason| said(".keys.namespace", reason));
    let name = Template::parse(name, is_word).map_err(|reason| said(".keys.name", reason));
    let keys = MessageKeys { each: each.ok()?, namespace: namespace.ok()?, name: name.ok()? };
    Some(FeederKeys::OfMessage(Box::new(keys)))
}

/// Returns what tells the words of the templates of a source; `None` for a source without messages.
fn words(source: &FeederSource) -> Option<fn(&str) -> bool> {
    match source {
        FeederSource::Interval(_) | FeederSource::Cron(_) => None,
        FeederSource::Webhook(_) => Some(|_| false),
        FeederSource::Files(_) => Some(|word| matches!(word, "file" | "stem")),
        FeederSource::Nats(_) => Some(is_subject_word),
    }
}

fn check_keys(
    written: Option<&KeysWritten>,
    source: Option<&FeederSource>,
    problems: &mut FeederProblems<'_>,
) -> Option<FeederKeys> {
    match written {
        None => {
            problems.push(".keys", "must name the keys to add: `all`, a list, or templates".to_owned());
            None
        }
        Some(KeysWritten::All) => Some(FeederKeys::All),
        Some(KeysWritten::OfMessage(written)) => check_templates(written, source?, problems),
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

#[cfg(test)]
mod tests;
