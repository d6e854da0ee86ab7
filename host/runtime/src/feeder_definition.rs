//! A feeder that the manifest declares: its source, the keys that it adds, and how the queue takes them. Pure.

use std::sync::Arc;
use std::time::Duration;

use homeostat_component::KindDeclaration;
use homeostat_store::{Key, check_key};
use homeostat_workqueue::{Delay, Priority};
use jiff::Timestamp;

use crate::Error;
use crate::cron::{MissedRuns, Schedule};
use crate::message_keys::MessageKeys;

/// Maximum number of feeders that a manifest may declare for one controller.
pub const FEEDERS_MAX: usize = 32;
/// Maximum number of keys that a manifest may list for one feeder.
pub const LISTED_KEYS_MAX: usize = 1000;

/// One feeder of `spec.feeders`, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct FeederDefinition {
    /// A DNS label, unique within the controller.
    pub name: Arc<str>,
    /// The cause of its adds.
    pub source: FeederSource,
    /// The keys that the feeder adds.
    pub keys: FeederKeys,
    /// When an added key becomes due; `None`: at once.
    pub delay: Option<Delay>,
    /// The band of an added key.
    pub priority: Priority,
}

/// The cause of the adds of a feeder.
#[derive(Clone, Debug, PartialEq)]
pub enum FeederSource {
    /// The passing of a fixed period.
    Interval(Interval),
    /// The moments of a schedule.
    Cron(Box<Cron>),
    /// Requests of a program to the host.
    Webhook(Box<Webhook>),
    /// Messages of a NATS server.
    Nats(Box<Nats>),
    /// Changes of files.
    Files(Files),
}

impl FeederSource {
    /// Returns the word for the source, as it appears in manifests and listings.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Interval(_) => "interval",
            Self::Cron(_) => "cron",
            Self::Webhook(_) => "webhook",
            Self::Files(_) => "files",
            Self::Nats(_) => "nats",
        }
    }

    /// Returns whether its messages are those of a durable consumer, which one host acknowledges.
    pub(crate) fn is_consumer(&self) -> bool {
        matches!(self, Self::Nats(nats) if matches!(nats.origin, MessageOrigin::Consumer { .. }))
    }

    /// Returns whether nothing but the clock causes its adds.
    pub fn is_clock(&self) -> bool {
        matches!(self, Self::Interval(_) | Self::Cron(_))
    }
}

/// The period of an `interval` feeder.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Interval {
    /// The period, 1 s to 366 days.
    pub every: Duration,
}

impl Interval {
    /// Returns the first moment after `now`. `seed` shifts the grid within the period.
    pub fn next_after(self, now: Timestamp, seed: u64) -> Timestamp {
        let every = i64::try_from(self.every.as_millis()).unwrap_or(i64::MAX).max(1);
        let shift = i64::try_from(seed % every.unsigned_abs()).unwrap_or_default();
        let now = now.as_millisecond();
        let passed = (now - shift).rem_euclid(every);
        // A sum beyond the last representable time is centuries away.
        Timestamp::from_millisecond(now.saturating_add(every - passed)).unwrap_or(Timestamp::MAX)
    }
}

/// The schedule of a `cron` feeder.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Cron {
    /// When it runs.
    pub schedule: Schedule,
    /// The fate of a run that was missed.
    pub missed: MissedRuns,
}

/// The requests of a `webhook` feeder.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Webhook {
    /// How a request proves that its sender may add keys.
    pub auth: WebhookAuth,
    /// Maximum length of a body, in bytes.
    pub body_bytes_max: usize,
    /// The header with the id of a delivery, in lower case. A request with the id of an accepted one adds nothing.
    pub dedupe_header: Option<String>,
    /// Whether the host stores the keys of a request before it answers.
    pub inbox: bool,
}

/// The messages of a `nats` feeder.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Nats {
    /// The name of the store whose server has the messages.
    pub store: String,
    /// Where the messages come from.
    pub origin: MessageOrigin,
    /// When a message is acknowledged.
    pub acknowledged: AcknowledgedWhen,
}

/// Where messages come from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum MessageOrigin {
    /// A subject, which may have wildcards. Messages are lost while no host runs the feeder.
    Subject(String),
    /// A durable consumer of a stream. It is created if there is none.
    Consumer {
        /// The name of the stream.
        stream: String,
        /// The name of the consumer.
        consumer: String,
        /// The subject that a new consumer filters by; `None` for all.
        subject: Option<String>,
    },
}

/// When a message of a consumer is acknowledged.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AcknowledgedWhen {
    /// When its keys are queued.
    Queued,
    /// When each of its keys was reconciled without a failure.
    Settled,
}

/// The files of a `files` feeder.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Files {
    /// Relative to the folder that the operator allows. `*` stands for any text in the last segment.
    pub path: String,
}

/// How a request to a webhook proves that its sender may add keys.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum WebhookAuth {
    /// By the HMAC-SHA256 of its body.
    Hmac {
        /// The name of the secret.
        secret: String,
        /// The header with the HMAC, in lower case.
        header: String,
        /// The text before the HMAC.
        prefix: String,
        /// The form of the HMAC.
        encoding: SignatureEncoding,
    },
    /// By the secret itself.
    Token {
        /// The name of the secret.
        secret: String,
        /// The header with the token, in lower case.
        header: String,
        /// The text before the token.
        prefix: String,
    },
}

/// The form of a signature in a header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SignatureEncoding {
    /// Hexadecimal digits.
    Hex,
    /// Base64 with padding.
    Base64,
}

/// The keys that a feeder adds.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum FeederKeys {
    /// These keys of the managed kind.
    Listed(Vec<ListedKey>),
    /// The key of every stored resource of the managed kind.
    All,
    /// Those that templates make of a message.
    OfMessage(Box<MessageKeys>),
}

impl FeederKeys {
    /// Returns whether one message never makes several keys.
    pub(crate) fn is_one_per_message(&self) -> bool {
        match self {
            Self::All => false,
            Self::Listed(keys) => keys.len() <= 1,
            Self::OfMessage(templates) => templates.each.is_none(),
        }
    }
}

/// One key of the managed kind.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct ListedKey {
    /// Empty for a cluster-scoped kind.
    pub namespace: String,
    /// The name of the resource.
    pub name: String,
}

impl FeederDefinition {
    /// Checks the keys against the kind that a component manages.
    ///
    /// # Errors
    /// [`Error::Feeder`] for a key that no resource of the kind can have, and for all keys of a kind without
    /// stored resources.
    pub(crate) fn check(&self, manages: &KindDeclaration) -> Result<(), Error> {
        let refused = |reason: String| Err(Error::Feeder { feeder: self.name.to_string(), reason });
        let kind = &manages.kind;
        match &self.keys {
            FeederKeys::All if manages.keys_only => {
                refused(format!("`keys: all` needs stored resources, and {kind} has keys only: list the keys"))
            }
            FeederKeys::All => Ok(()),
            FeederKeys::OfMessage(keys) if manages.namespaced == keys.namespace.is_none() => {
                let scope = if manages.namespaced { "namespaced: add" } else { "cluster-scoped: remove" };
                refused(format!("the keys do not fit: {kind} is {scope} the template of the namespace"))
            }
            FeederKeys::OfMessage(_) => Ok(()),
            FeederKeys::Listed(keys) => {
                for ListedKey { namespace, name } in keys {
                    if manages.namespaced == namespace.is_empty() {
                        let scope = if manages.namespaced { "namespaced: add" } else { "cluster-scoped: remove" };
                        return refused(format!("the key of {name:?} does not fit: {kind} is {scope} the namespace"));
                    }
                    if let Err(error) = check_key(&Key::new(kind.clone(), namespace, name)) {
                        return refused(error.to_string());
                    }
                }
                Ok(())
            }
        }
    }
}
