//! The demands on a server and a bucket, so that no acknowledged write is lost.
//!
//! Pure: facts in, problems out.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use homeostat_store::DOCUMENT_BYTES_MAX;

/// Oldest API level of JetStream that has all that the store needs. Source: the server, whose version 2.12
/// has level 2.
const API_LEVEL_MIN: u64 = 2;
/// Oldest version of the server.
const VERSION_MIN: ServerVersion = ServerVersion(2, 12, 0);
/// Versions whose index of a bucket's files can forget a key at a restart, so that the key is missing from
/// reads and its name can be created again. Source: nats-server pull requests 8254 and 8285.
const STALE_INDEX: (ServerVersion, ServerVersion) = (ServerVersion(2, 12, 7), ServerVersion(2, 12, 10));
/// Longest window of duplicate detection without a warning: the server keeps each id of the window in memory.
const DUPLICATES_MAX: Duration = Duration::from_secs(2 * 60);
/// Smallest largest value with which a store is of use.
const VALUE_BYTES_MIN: u64 = 64 << 10;
/// Largest value that a store can write, with its headers.
const VALUE_BYTES_WANTED: u64 = DOCUMENT_BYTES_MAX + (1 << 10);
/// Longest history without a warning.
const HISTORY_MAX: u64 = 10;

/// A version of the server: major, minor, patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ServerVersion(u64, u64, u64);

impl ServerVersion {
    /// Parses `2.15.1` and `2.15.1-RC.2`.
    fn parse(text: &str) -> Option<Self> {
        let numbers = text.strip_prefix('v').unwrap_or(text).split(['-', '+']).next()?;
        let mut numbers = numbers.split('.').map(|number| number.parse::<u64>().ok());
        Some(Self(numbers.next()??, numbers.next()??, numbers.next()??))
    }
}

impl fmt::Display for ServerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(major, minor, patch) = self;
        write!(f, "{major}.{minor}.{patch}")
    }
}

/// The known facts about the server, the account and the bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The version that the server says it has.
    pub(crate) version: String,
    /// The API level of the account's JetStream.
    pub(crate) api_level: u64,
    /// The largest message that the server accepts, in bytes.
    pub(crate) payload_bytes_max: u64,
    /// Whether the connection is encrypted.
    pub(crate) encrypted: bool,
    /// Whether the server is on this machine.
    pub(crate) local: bool,
    /// The bucket.
    pub(crate) bucket: BucketFacts,
}

/// The configuration of the stream of a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BucketFacts {
    pub(crate) replicas: u64,
    pub(crate) in_memory: bool,
    pub(crate) history: Option<u64>,
    pub(crate) age_max: Option<Duration>,
    pub(crate) bytes_max: Option<u64>,
    pub(crate) messages_max: Option<u64>,
    /// Whether a full bucket drops its oldest values.
    pub(crate) discards_old: bool,
    pub(crate) value_bytes_max: Option<u64>,
    pub(crate) duplicate_window: Duration,
    pub(crate) has_ttl: bool,
    pub(crate) has_atomic: bool,
    /// Whether values are acknowledged before they are handed to the disk.
    pub(crate) persists_late: bool,
    pub(crate) acknowledges: bool,
    pub(crate) copies_another: bool,
    pub(crate) sealed: bool,
    /// Whether values stay until a limit is reached, and not only until they are delivered.
    pub(crate) keeps_values: bool,
    /// Whether the bucket has all of its subjects, and gives them no other names.
    pub(crate) has_subjects: bool,
}

/// A setting that loses data, or may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingProblem {
    /// Its name, by which an operator accepts it: `replicas`.
    pub name: &'static str,
    /// Whether the store refuses to work with it.
    pub severity: Severity,
    /// The problem and its consequence, for a person.
    pub text: String,
    /// The remedy, for a person.
    pub fix: &'static str,
}

/// How grave a [`SettingProblem`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The store works.
    Warned,
    /// The store refuses to work.
    Refused,
}

impl fmt::Display for SettingProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, severity: _, text, fix } = self;
        write!(f, "{name}: {text}; {fix}")
    }
}

/// Returns what is wrong, refusals first. A problem that is accepted by its name is left out, except where
/// nothing would work.
pub(crate) fn setting_problems(facts: &Facts, wants_memory: bool, accept: &BTreeSet<String>) -> Vec<SettingProblem> {
    let mut found = outdated(&facts.version, facts.api_level);
    found.extend(stale_index(facts));
    found.extend(refused_settings(&facts.bucket, wants_memory));
    found.extend(warnings(facts));
    found.retain(|problem| !(is_acceptable(problem) && accept.contains(problem.name)));
    found.sort_by_key(|problem| std::cmp::Reverse(problem.severity));
    found
}

/// Returns whether an operator can accept a problem: every warning, and a fault that a server has only at
/// times.
fn is_acceptable(problem: &SettingProblem) -> bool {
    problem.severity == Severity::Warned || problem.name == "stale-index"
}

fn refused(name: &'static str, text: impl Into<String>, fix: &'static str) -> SettingProblem {
    SettingProblem { name, severity: Severity::Refused, text: text.into(), fix }
}

fn warned(name: &'static str, text: impl Into<String>, fix: &'static str) -> SettingProblem {
    SettingProblem { name, severity: Severity::Warned, text: text.into(), fix }
}

const UPDATE: &str = "update the server to 2.14 or newer";

/// Returns what is too old for the store to work at all: it has to be known before a bucket is created.
pub(crate) fn outdated(version: &str, api_level: u64) -> Vec<SettingProblem> {
    let mut found = Vec::new();
    match ServerVersion::parse(version) {
        None => found.push(refused("version", format!("the server has the unknown version {version:?}"), UPDATE)),
        Some(version) if version < VERSION_MIN => {
            found.push(refused("version", format!("the server has version {version}, which is too old"), UPDATE));
        }
        Some(_) => {}
    }
    if api_level < API_LEVEL_MIN {
        let text = format!("JetStream has API level {api_level}, the store needs {API_LEVEL_MIN}");
        found.push(refused("api-level", text, UPDATE));
    }
    found
}

fn stale_index(facts: &Facts) -> Option<SettingProblem> {
    let (first, last) = STALE_INDEX;
    let version = ServerVersion::parse(&facts.version).filter(|version| (first..=last).contains(version))?;
    let text = format!(
        "the server has version {version}, which can forget keys of a bucket when it restarts, and lets them be \
         created a second time"
    );
    (!facts.bucket.in_memory).then(|| refused("stale-index", text, UPDATE))
}

fn refused_settings(bucket: &BucketFacts, wants_memory: bool) -> Vec<SettingProblem> {
    const OTHER_BUCKET: &str = "use another bucket";
    let mut found = Vec::new();
    let mut refuse = |holds: bool, name, text: &str, fix| {
        if holds {
            found.push(refused(name, text, fix));
        }
    };
    refuse(!bucket.has_ttl, "no-ttl", "the marks of deletions would stay for ever", "set `allow_msg_ttl`");
    refuse(!bucket.has_atomic, "no-atomic", "writes cannot be fenced by a lease", "set `allow_atomic`");
    refuse(bucket.age_max.is_some(), "max-age", "resources vanish by their age", "set `max_age` to 0");
    let drops = bucket.discards_old && (bucket.bytes_max.is_some() || bucket.messages_max.is_some());
    refuse(drops, "discard-old", "a full bucket drops its oldest resources", "set `discard` to `new`");
    let late = bucket.persists_late;
    refuse(late, "persist-async", "writes are acknowledged before they are stored", "set `persist_mode` to `default`");
    refuse(!bucket.acknowledges, "no-ack", "writes are not acknowledged", "set `no_ack` to false");
    refuse(bucket.copies_another, "mirror", "the bucket is the copy of another one", OTHER_BUCKET);
    refuse(bucket.sealed, "sealed", "the bucket refuses all writes", OTHER_BUCKET);
    refuse(!bucket.keeps_values, "retention", "resources vanish once they are delivered", OTHER_BUCKET);
    refuse(!bucket.has_subjects, "subjects", "the bucket does not have the subjects of a bucket", OTHER_BUCKET);
    let small = bucket.value_bytes_max.is_some_and(|bytes| bytes < VALUE_BYTES_MIN);
    refuse(small, "max-msg-size", "most resources would be too large", "set `max_msg_size` to -1");
    let memory = bucket.in_memory && !wants_memory;
    refuse(memory, "memory", "the bucket is lost with its servers", "use a bucket with `storage: file`");
    found
}

fn warnings(facts: &Facts) -> Vec<SettingProblem> {
    let Facts { bucket, payload_bytes_max, encrypted, local, .. } = facts;
    let mut found = Vec::new();
    if bucket.replicas == 1 {
        let text = "one server has the bucket: when its disk is lost, so are all resources";
        found.push(warned("replicas", text, "use 3 replicas on servers that fail independently"));
    } else if bucket.replicas.is_multiple_of(2) {
        let text = format!("{} replicas survive as few lost servers as {} do", bucket.replicas, bucket.replicas - 1);
        found.push(warned("replicas", text, "use 3 or 5 replicas"));
    }
    if !bucket.in_memory {
        let text = "a server that does not set `sync_interval: always` acknowledges writes up to 2 minutes before they \
                    are on its disk, and whether it does cannot be seen from here";
        found.push(warned("sync-interval", text, "set `sync_interval: always` in each server, or accept the loss"));
    }
    let value_bytes_max = bucket.value_bytes_max.unwrap_or(u64::MAX).min(*payload_bytes_max);
    if (VALUE_BYTES_MIN..VALUE_BYTES_WANTED).contains(&value_bytes_max) {
        let text = format!("resources above {} bytes are refused", value_bytes_max.saturating_sub(1 << 10));
        found.push(warned("max-payload", text, "set `max_payload` of each server to 2MB, and `max_msg_size` to -1"));
    }
    if bucket.history.is_none_or(|history| history > HISTORY_MAX) {
        let text = "the bucket keeps many old values of each resource, which nothing reads";
        found.push(warned("history", text, "set `max_msgs_per_subject` to 1"));
    }
    if bucket.duplicate_window > DUPLICATES_MAX {
        let text = "the server keeps the id of each write in memory for the window of duplicates";
        found.push(warned("duplicate-window", text, "set `duplicate_window` to 10s"));
    }
    if !encrypted && !local {
        found.push(warned("no-tls", "resources and credentials pass the network in clear text", "use TLS"));
    }
    found
}
