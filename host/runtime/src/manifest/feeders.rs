//! `spec.feeders` as written and as checked.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use homeostat_component::{Outcome, is_secret_name};
use homeostat_workqueue::Priority;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Bytes, OutOfBounds, Problems, Span};
use crate::cron::{MissedRuns, Schedule};
use crate::feeder_definition::{
    Cron, FEEDERS_MAX, FeederDefinition, FeederDelay, FeederKeys, FeederSource, Files, Interval, LISTED_KEYS_MAX,
    ListedKey, SignatureEncoding, Webhook, WebhookAuth,
};
use crate::message_keys::{MessageKeys, Pointer, Template};

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

/// The source `webhook` as written.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WebhookWritten {
    /// How a request proves that its sender may add keys.
    pub auth: WebhookAuthWritten,
    /// Maximum length of a body, 1 to 2 MiB; absent: 1 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_max: Option<Bytes>,
    /// The header with the id of a delivery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedupe_header: Option<String>,
}

/// The source `files` as written.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FilesWritten {
    /// Relative to the folder that the operator allows, as `orders/*.json`.
    pub path: String,
}

/// How a request to a webhook proves that its sender may add keys, as written: exactly one of both.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WebhookAuthWritten {
    /// By the HMAC-SHA256 of its body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hmac: Option<HmacWritten>,
    /// By the secret itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<TokenWritten>,
}

/// The HMAC of a request as written. The defaults are those of GitHub.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HmacWritten {
    /// The name of the secret.
    pub secret: String,
    /// The header; absent: `X-Hub-Signature-256`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// The text before the HMAC; absent: `sha256=`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// The form of the HMAC; absent: `hex`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<EncodingWritten>,
}

/// The form of an HMAC as written.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EncodingWritten {
    /// Hexadecimal digits.
    Hex,
    /// Base64 with padding.
    Base64,
}

/// The token of a request as written.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TokenWritten {
    /// The name of the secret.
    pub secret: String,
    /// The header; absent: `Authorization`, with the prefix `Bearer `.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// The text before the token; absent: none, except for the default header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
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
const SOURCES: &str = "`interval`, `cron`, `webhook` or `files`";

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
    let FeederWritten { name, interval, cron, webhook, files, keys, delay, priority } = written;
    let interval = interval.as_ref().map(|interval| check_interval(interval, problems));
    let cron = cron.as_ref().map(|cron| check_cron(cron, problems));
    let webhook = webhook.as_ref().map(|webhook| check_webhook(webhook, problems));
    let files = files.as_ref().map(|files| check_files(files, problems));
    let sources = [interval.map(Some), cron, webhook, files];
    let named = sources.iter().flatten().count();
    if named != 1 {
        problems.push("", format!("must have exactly one source: {SOURCES}; it has {named}"));
    }
    let source = sources.into_iter().flatten().flatten().next();
    let keys = check_keys(keys.as_ref(), source.as_ref(), problems);
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

/// Default and maximum length of the body of a webhook, in bytes.
const BODY_BYTES: u64 = 1 << 20;
const BODY_BYTES_MAX: u64 = 2 << 20;
/// The longest name of a header, and the longest text before a signature.
const HEADER_BYTES_MAX: usize = 128;

fn check_webhook(written: &WebhookWritten, problems: &mut FeederProblems<'_>) -> Option<FeederSource> {
    let WebhookWritten { auth, body_max, dedupe_header } = written;
    let body_bytes_max = body_max.map_or(BODY_BYTES, |bytes| bytes.0);
    if !(1..=BODY_BYTES_MAX).contains(&body_bytes_max) {
        problems.push(".webhook.bodyMax", format!("{} is out of bounds: from 1 to 2Mi", Bytes(body_bytes_max)));
    }
    let dedupe_header = dedupe_header.as_ref().map(|header| header_name(".webhook.dedupeHeader", header, problems));
    let auth = match auth {
        WebhookAuthWritten { hmac: Some(hmac), token: None } => check_hmac(hmac, problems),
        WebhookAuthWritten { hmac: None, token: Some(token) } => check_token(token, problems),
        WebhookAuthWritten { .. } => {
            problems.push(".webhook.auth", "must have exactly one of `hmac` and `token`".to_owned());
            return None;
        }
    };
    let body_bytes_max = usize::try_from(body_bytes_max).unwrap_or(usize::MAX);
    Some(FeederSource::Webhook(Box::new(Webhook { auth, body_bytes_max, dedupe_header })))
}

fn check_files(FilesWritten { path }: &FilesWritten, problems: &mut FeederProblems<'_>) -> Option<FeederSource> {
    if let Err(reason) = Files::check_path(path) {
        problems.push(".files.path", reason);
    }
    Some(FeederSource::Files(Files { path: path.clone() }))
}

fn check_hmac(written: &HmacWritten, problems: &mut FeederProblems<'_>) -> WebhookAuth {
    let HmacWritten { secret, header, prefix, encoding } = written;
    let at = ".webhook.auth.hmac";
    secret_name(at, secret, problems);
    WebhookAuth::Hmac {
        secret: secret.clone(),
        header: header_name(at, header.as_deref().unwrap_or("x-hub-signature-256"), problems),
        prefix: value_prefix(at, prefix.as_deref().unwrap_or("sha256="), problems),
        encoding: match encoding {
            None | Some(EncodingWritten::Hex) => SignatureEncoding::Hex,
            Some(EncodingWritten::Base64) => SignatureEncoding::Base64,
        },
    }
}

fn check_token(written: &TokenWritten, problems: &mut FeederProblems<'_>) -> WebhookAuth {
    let TokenWritten { secret, header, prefix } = written;
    let at = ".webhook.auth.token";
    secret_name(at, secret, problems);
    let default = if header.is_none() { "Bearer " } else { "" };
    WebhookAuth::Token {
        secret: secret.clone(),
        header: header_name(at, header.as_deref().unwrap_or("authorization"), problems),
        prefix: value_prefix(at, prefix.as_deref().unwrap_or(default), problems),
    }
}

fn secret_name(at: &str, name: &str, problems: &mut FeederProblems<'_>) {
    if !is_secret_name(name) {
        problems.push(&format!("{at}.secret"), format!("{name:?} is not the name of a secret"));
    }
}

/// Returns the name of a header in lower case.
fn header_name(at: &str, name: &str, problems: &mut FeederProblems<'_>) -> String {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if !(1..=HEADER_BYTES_MAX).contains(&name.len()) || !name.bytes().all(is_token) {
        problems.push(at, format!("{name:?} is not the name of a header"));
    }
    name.to_ascii_lowercase()
}

fn value_prefix(at: &str, prefix: &str, problems: &mut FeederProblems<'_>) -> String {
    if prefix.len() > HEADER_BYTES_MAX || !prefix.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        problems
            .push(at, format!("the prefix {prefix:?} must be at most {HEADER_BYTES_MAX} printable ASCII characters"));
    }
    prefix.to_owned()
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
