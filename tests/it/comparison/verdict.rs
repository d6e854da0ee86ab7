//! The answer of a server to a document, without what differs between two servers that do the same.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::LazyLock;

use homeostat_tests::Answer;
use regex::Regex;
use serde_json::Value;

/// What a server says of a document.
#[derive(Debug, PartialEq)]
pub(crate) enum Verdict {
    /// The document with its defaults.
    Stored(Value),
    /// The status code, and the causes.
    Refused(u16, BTreeSet<Cause>),
}

/// Why a document is refused.
#[derive(Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Cause {
    pub(crate) field: String,
    pub(crate) reason: String,
    pub(crate) message: String,
}

impl Verdict {
    pub(crate) fn of(answer: &Answer) -> Self {
        let body = answer.json();
        if matches!(answer.status, 200 | 201) {
            return Self::Stored(comparable(body));
        }
        let causes = body["details"]["causes"].as_array().cloned().unwrap_or_default();
        let text = |cause: &Value, name: &str| cause[name].as_str().unwrap_or_default().to_owned();
        let cause = |cause: &Value| {
            let [field, reason, message] = ["field", "reason", "message"].map(|name| text(cause, name));
            // The decoder of an API server names its own types, and each server chooses the ports of nodes.
            let is_left_out = field == "patch" || field.ends_with(".nodePort");
            let message = if is_left_out { String::new() } else { without_forms(&message) };
            Cause { field, reason, message }
        };
        Self::Refused(answer.status, causes.iter().map(cause).collect())
    }
}

/// Returns the message of a cause without what an API server shows in the form of its own types: values that are no scalars,
/// and the difference of two of them. A long text is cut here.
fn without_forms(message: &str) -> String {
    static VALUE: LazyLock<Regex> = LazyLock::new(|| {
        let value = r#"\{.*[}…]|\[.*[\]…]|null|"map\[.*\]"|"[{\[].*("|…)|"""#;
        Regex::new(&format!(r"^((?:Invalid|Unsupported|Duplicate) value): (?:{value})(: |$)")).unwrap()
    });
    let message = message.split_once("\n@@").map_or(message, |(words, _)| words);
    VALUE.replace(&without_uids(message), "$1$3").into_owned()
}

/// Returns a text without the uids of resources.
pub(crate) fn without_uids(text: &str) -> String {
    static UID: LazyLock<Regex> = LazyLock::new(|| Regex::new("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").unwrap());
    UID.replace_all(text, "UID").into_owned()
}

impl fmt::Display for Verdict {
    /// Writes a line for each field of a document, or for each cause of a refusal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stored(document) => write!(f, "{document:#}"),
            Self::Refused(status, causes) => {
                writeln!(f, "{status}")?;
                causes.iter().try_for_each(|Cause { field, reason, message }| writeln!(f, "{field} {reason} {message}"))
            }
        }
    }
}

/// Fields that differ between two writes.
const OF_EACH: [&str; 5] = ["uid", "creationTimestamp", "resourceVersion", "managedFields", "selfLink"];

/// Who asks for a certificate.
const REQUESTER: [&str; 4] = ["username", "uid", "groups", "extra"];

/// Returns a document without named differences: without a cluster nobody allocates addresses or protects volumes, and a
/// null is absent.
pub(crate) fn comparable(mut document: Value) -> Value {
    let uid = document["metadata"]["uid"].as_str().unwrap_or("-").to_owned();
    let kind = document["kind"].as_str().unwrap_or_default().to_owned();
    if let Some(metadata) = document["metadata"].as_object_mut() {
        OF_EACH.iter().for_each(|name| drop(metadata.remove(*name)));
        // A second may begin between the two servers.
        if let Some(deleted) = metadata.get_mut("deletionTimestamp").filter(|deleted| deleted.is_string()) {
            *deleted = "TIME".into();
        }
        if kind.starts_with("PersistentVolume") || kind == "VolumeAttributesClass" {
            metadata.remove("finalizers");
        }
    }
    if kind == "CertificateSigningRequest"
        && let Some(spec) = document["spec"].as_object_mut()
    {
        // The clients of the two servers are different users.
        REQUESTER.iter().for_each(|name| drop(spec.remove(*name)));
    }
    if let Some(status) = document["status"].as_object_mut() {
        status.remove("lastPhaseTransitionTime");
        let conditions = status.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten();
        conditions.filter_map(Value::as_object_mut).for_each(|condition| drop(condition.remove("lastTransitionTime")));
    }
    if let Some(spec) = document["spec"].as_object_mut().filter(|_| kind == "Service") {
        for name in ["clusterIP", "clusterIPs"] {
            let is_allocated = spec.get(name).is_some_and(|value| value.to_string().contains("\"10."));
            if is_allocated {
                spec.remove(name);
            }
        }
        spec.remove("healthCheckNodePort");
        for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(port) = port.as_object_mut() {
                port.remove("nodePort");
            }
        }
    }
    without_nulls(&mut document);
    // The selector of a job contains its uid.
    serde_json::from_str(&document.to_string().replace(&uid, "UID")).unwrap()
}

/// Returns the owners of a document's fields, without their times.
pub(crate) fn owners(document: &Value) -> Value {
    let uid = document["metadata"]["uid"].as_str().unwrap_or("-");
    let mut entries = document["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    for entry in entries.iter_mut().filter_map(Value::as_object_mut) {
        entry.remove("time");
    }
    entries.sort_by_cached_key(Value::to_string);
    serde_json::from_str(&Value::Array(entries).to_string().replace(uid, "UID")).unwrap()
}

/// Removes fields that are null: they are absent.
pub(crate) fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        _ => {}
    }
}
