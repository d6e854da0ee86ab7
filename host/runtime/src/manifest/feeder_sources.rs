//! The sources of `spec.feeders` as written and as checked.

use std::time::Duration;

use homeostat_component::{Outcome, is_secret_name};
use serde::{Deserialize, Serialize};

use super::feeders::FeederProblems;
use super::{Bytes, Span};
use crate::cron::{MissedRuns, Schedule};
use crate::feeder_definition::{
    AcknowledgedWhen, Cron, FeederSource, Files, Interval, MessageOrigin, Nats, SignatureEncoding, Webhook, WebhookAuth,
};

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
    /// The fate of missed runs; absent: `once`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<MissedWritten>,
    /// How long after its moment a missed run may start, 1 m to 365 days; absent: at any time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starting_deadline: Option<Span>,
}

/// The fate of missed runs, as written.
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
    /// Whether the host stores the keys of a request before it answers; absent: `false`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inbox: bool,
}

/// The source `files` as written.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FilesWritten {
    /// Relative to the folder that the operator allows, as `orders/*.json`.
    pub path: String,
}

/// The source `nats` as written: a subject, or a consumer of a stream.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NatsWritten {
    /// The name of a store in NATS.
    pub store: String,
    /// The subject. With a stream, it is the filter of a new consumer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The name of a stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<String>,
    /// The name of a durable consumer of the stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer: Option<String>,
    /// When a message of a stream is acknowledged; absent: `settled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ack: Option<AckWritten>,
}

/// When a message is acknowledged, as written.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AckWritten {
    /// When its keys are queued.
    Queued,
    /// When each of its keys was reconciled without a failure.
    Settled,
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

pub(super) fn check_interval(
    IntervalWritten { every }: &IntervalWritten,
    problems: &mut FeederProblems<'_>,
) -> FeederSource {
    problems.span(".interval.every", *every, Duration::from_secs(1)..=Outcome::DELAY_MAX);
    FeederSource::Interval(Interval { every: every.0 })
}

pub(super) fn check_cron(written: &CronWritten, problems: &mut FeederProblems<'_>) -> Option<FeederSource> {
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

pub(super) fn check_webhook(written: &WebhookWritten, problems: &mut FeederProblems<'_>) -> Option<FeederSource> {
    let WebhookWritten { auth, body_max, dedupe_header, inbox } = written;
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
    Some(FeederSource::Webhook(Box::new(Webhook { auth, body_bytes_max, dedupe_header, inbox: *inbox })))
}

pub(super) fn check_files(
    FilesWritten { path }: &FilesWritten,
    problems: &mut FeederProblems<'_>,
) -> Option<FeederSource> {
    if let Err(reason) = Files::check_path(path) {
        problems.push(".files.path", reason);
    }
    Some(FeederSource::Files(Files { path: path.clone() }))
}

pub(super) fn check_nats(written: &NatsWritten, problems: &mut FeederProblems<'_>) -> Option<FeederSource> {
    const NAME_BYTES_MAX: usize = 255;
    let NatsWritten { store, subject, stream, consumer, ack } = written;
    let subjects = [("subject", subject), ("stream", stream), ("consumer", consumer)];
    for (field, text) in subjects.into_iter().filter_map(|(field, text)| Some((field, text.as_ref()?))) {
        let is_plain = |letter: char| letter.is_ascii_graphic() && (field == "subject" || !".*>/\\".contains(letter));
        let has_parts = field != "subject" || text.split('.').all(|token| !token.is_empty());
        if text.is_empty() || text.len() > NAME_BYTES_MAX || !text.chars().all(is_plain) || !has_parts {
            problems.push(&format!(".nats.{field}"), format!("{text:?} is not a {field} of NATS"));
        }
    }
    let (origin, acknowledged) = match (subject, stream, consumer) {
        (subject, Some(stream), Some(consumer)) => {
            let (stream, consumer, subject) = (stream.clone(), consumer.clone(), subject.clone());
            let acknowledged = match ack {
                None | Some(AckWritten::Settled) => AcknowledgedWhen::Settled,
                Some(AckWritten::Queued) => AcknowledgedWhen::Queued,
            };
            (MessageOrigin::Consumer { stream, consumer, subject }, acknowledged)
        }
        (Some(subject), None, None) if ack.is_none() => {
            (MessageOrigin::Subject(subject.clone()), AcknowledgedWhen::Queued)
        }
        _ => {
            let reason = "must have a `stream` and a `consumer`, or a `subject` alone, without `ack`";
            problems.push(".nats", reason.to_owned());
            return None;
        }
    };
    Some(FeederSource::Nats(Box::new(Nats { store: store.clone(), origin, acknowledged })))
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
