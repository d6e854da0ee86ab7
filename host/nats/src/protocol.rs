//! The requests and answers of JetStream that the store uses, as far as it needs them.
//!
//! Answers are read field by field, so that a newer server may add some. Source: the JSON API of JetStream,
//! ADR-1 and ADR-31 of NATS.

use std::collections::BTreeMap;
use std::time::Duration;

use async_nats::jetstream::stream::RawMessage;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::checks::BucketFacts;
use crate::errors::ServerError;
use crate::settings::Create;

/// An answer with an error in it, if it is one.
#[derive(Debug, Deserialize)]
pub(crate) struct Refusal {
    #[serde(default)]
    pub(crate) error: Option<ServerError>,
}

/// The answer to a published value.
#[derive(Debug, Deserialize)]
pub(crate) struct Acknowledgement {
    #[serde(default)]
    pub(crate) error: Option<ServerError>,
    #[serde(default)]
    pub(crate) seq: u64,
    /// The number of messages of an atomic batch.
    #[serde(default)]
    pub(crate) count: usize,
}

/// The answer to `INFO`.
#[derive(Debug, Deserialize)]
pub(crate) struct AccountInfo {
    #[serde(default)]
    pub(crate) api: ApiInfo,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct ApiInfo {
    #[serde(default)]
    pub(crate) level: u64,
}

/// The answer to `STREAM.INFO` and `STREAM.CREATE`.
#[derive(Debug, Deserialize)]
pub(crate) struct StreamInfo {
    pub(crate) config: StreamConfig,
    pub(crate) created: String,
    pub(crate) state: StreamState,
}

#[derive(Debug, Deserialize)]
pub(crate) struct StreamState {
    pub(crate) last_seq: u64,
    /// The subjects of the filter of the request, with the number of their values.
    #[serde(default)]
    pub(crate) subjects: BTreeMap<String, u64>,
}

/// The configuration of a stream. Numbers below 1 are no limits.
#[derive(Debug, Deserialize)]
#[serde(default)]
pub(crate) struct StreamConfig {
    subjects: Vec<String>,
    retention: String,
    max_msgs: i64,
    max_bytes: i64,
    /// In nanoseconds, as every duration here.
    max_age: i64,
    max_msgs_per_subject: i64,
    max_msg_size: i64,
    discard: String,
    storage: String,
    num_replicas: u64,
    no_ack: bool,
    duplicate_window: i64,
    sealed: bool,
    mirror: Option<Value>,
    sources: Option<Value>,
    subject_transform: Option<Value>,
    persist_mode: Option<String>,
    allow_msg_ttl: bool,
    allow_atomic: bool,
}

impl Default for StreamConfig {
    fn default() -> Self {
        Self {
            subjects: Vec::new(),
            retention: "limits".to_owned(),
            max_msgs: -1,
            max_bytes: -1,
            max_age: 0,
            max_msgs_per_subject: -1,
            max_msg_size: -1,
            discard: "old".to_owned(),
            storage: "file".to_owned(),
            num_replicas: 1,
            no_ack: false,
            duplicate_window: 0,
            sealed: false,
            mirror: None,
            sources: None,
            subject_transform: None,
            persist_mode: None,
            allow_msg_ttl: false,
            allow_atomic: false,
        }
    }
}

impl StreamConfig {
    /// Returns the facts about the bucket of this name.
    pub(crate) fn facts(&self, bucket: &str) -> BucketFacts {
        let limit = |number: i64| u64::try_from(number).ok().filter(|limit| *limit > 0);
        let time = |number: i64| limit(number).map(Duration::from_nanos);
        BucketFacts {
            replicas: self.num_replicas,
            in_memory: self.storage == "memory",
            history: limit(self.max_msgs_per_subject),
            age_max: time(self.max_age),
            bytes_max: limit(self.max_bytes),
            messages_max: limit(self.max_msgs),
            discards_old: self.discard == "old",
            value_bytes_max: limit(self.max_msg_size),
            duplicate_window: time(self.duplicate_window).unwrap_or_default(),
            has_ttl: self.allow_msg_ttl,
            has_atomic: self.allow_atomic,
            persists_late: self.persist_mode.as_deref() == Some("async"),
            acknowledges: !self.no_ack,
            copies_another: self.mirror.is_some() || self.sources.is_some(),
            sealed: self.sealed,
            keeps_values: self.retention == "limits",
            has_subjects: self.subjects.iter().any(|subject| *subject == format!("$KV.{bucket}.>"))
                && self.subject_transform.is_none(),
        }
    }
}

/// The answer to `CONSUMER.CREATE` and `CONSUMER.INFO`.
#[derive(Debug, Deserialize)]
pub(crate) struct ConsumerInfo {
    #[serde(default)]
    pub(crate) num_pending: u64,
    pub(crate) delivered: DeliveryPosition,
}

#[derive(Debug, Deserialize)]
pub(crate) struct DeliveryPosition {
    #[serde(default)]
    pub(crate) consumer_seq: u64,
}

/// The answer to `STREAM.MSG.GET`.
#[derive(Debug, Deserialize)]
pub(crate) struct StoredMessage {
    pub(crate) message: RawMessage,
}

/// Returns the request for the configuration of a new bucket.
///
/// The server leaves no marker for an expired marker: `subject_delete_marker_ttl` is not set. Otherwise each
/// deletion would have a second marker, without an end.
pub(crate) fn new_stream(stream: &str, bucket: &str, create: &Create) -> Value {
    let Create { replicas, history, memory, compression, bytes_max } = create;
    let mut config = json!({
        "name": stream,
        "subjects": [format!("$KV.{bucket}.>")],
        "retention": "limits",
        "max_consumers": -1,
        "max_msgs": -1,
        "max_bytes": bytes_max.map_or(-1, |bytes| i64::try_from(bytes).unwrap_or(i64::MAX)),
        "max_age": 0,
        "max_msgs_per_subject": history,
        "max_msg_size": -1,
        "discard": "new",
        "storage": if *memory { "memory" } else { "file" },
        "num_replicas": replicas,
        "duplicate_window": nanoseconds(Duration::from_secs(10)),
        "allow_rollup_hdrs": true,
        "allow_direct": true,
        "deny_delete": true,
        "allow_msg_ttl": true,
        "allow_atomic": true,
    });
    if *compression {
        config["compression"] = json!("s2");
    }
    config
}

/// The first delivery of a consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deliver {
    /// The last value of each subject, then changes.
    LastPerSubject,
    /// The changes after a sequence.
    After(u64),
}

/// A consumer of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NewConsumer<'a> {
    pub(crate) stream: &'a str,
    pub(crate) name: &'a str,
    pub(crate) filter: &'a str,
    /// Where its deliveries go.
    pub(crate) inbox: &'a str,
    pub(crate) deliver: Deliver,
    pub(crate) heartbeat: Duration,
}

impl NewConsumer<'_> {
    /// Returns the request that makes the consumer.
    pub(crate) fn request(&self) -> Value {
        let Self { stream, name, filter, inbox, deliver, heartbeat } = self;
        let mut config = json!({
            "name": name,
            "deliver_subject": inbox,
            "ack_policy": "none",
            "replay_policy": "instant",
            "max_deliver": 1,
            "filter_subject": filter,
            "flow_control": true,
            "idle_heartbeat": nanoseconds(*heartbeat),
            "mem_storage": true,
            "num_replicas": 1,
            "inactive_threshold": nanoseconds(*heartbeat * 6),
        });
        match deliver {
            Deliver::LastPerSubject => config["deliver_policy"] = json!("last_per_subject"),
            Deliver::After(sequence) => {
                config["deliver_policy"] = json!("by_start_sequence");
                config["opt_start_seq"] = json!(sequence + 1);
            }
        }
        json!({"stream_name": stream, "config": config})
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
