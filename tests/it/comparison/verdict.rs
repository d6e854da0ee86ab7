//! The answer of a server to a document, without what differs between two servers that do the same.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::LazyLock;

use homeostat_tests::Answer;
use regex::Regex;
use serde_json::Value;

/// What a server says of a document.
#[derive(Debug, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) decision: Decision,
    /// The warnings for the client.
    warnings: Vec<String>,
}

/// The decision of a server on a document.
#[derive(Debug, PartialEq)]
pub(crate) enum Decision {
    /// The document with its defaults.
    Stored(Value),
    /// The status code, and the causes.
    Refused(u16, Causes),
}

/// The causes of a refusal, in the order in which the server names them.
#[derive(Debug)]
pub(crate) struct Causes(Vec<Cause>);

/// Why a document is refused.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Cause {
    pub(crate) field: String,
    pub(crate) reason: String,
    pub(crate) message: String,
}

impl Verdict {
    pub(crate) fn of(answer: &Answer) -> Self {
        let is_of_both = |warning: &&String| OF_HOST.iter().all(|words| !warning.contains(words));
        let warnings = answer.warnings.iter().filter(is_of_both).cloned().collect();
        Self { decision: Decision::of(answer), warnings }
    }

    /// Returns the verdict with another decision.
    pub(crate) fn map(self, change: impl FnOnce(Decision) -> Decision) -> Self {
        Self { decision: change(self.decision), ..self }
    }
}

impl Decision {
    /// Returns the decision with its causes in the order of their fields.
    pub(crate) fn with_sorted_causes(mut self) -> Self {
        if let Self::Refused(_, Causes(causes)) = &mut self {
            causes.sort();
        }
        self
    }

    fn of(answer: &Answer) -> Self {
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
        let mut known = BTreeSet::new();
        // An API server says some causes twice.
        let causes = causes.iter().map(cause).filter(|cause| known.insert(cause.clone()));
        Self::Refused(answer.status, Causes(causes.collect()))
    }
}

impl Causes {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Cause> {
        self.0.iter()
    }

    /// Returns the causes in the order of their fields.
    fn sorted(&self) -> Vec<&Cause> {
        let mut causes: Vec<&Cause> = self.iter().collect();
        causes.sort();
        causes
    }

    /// Returns the fields of the causes without the keys of maps, and the positions of items.
    fn places(&self) -> impl Iterator<Item = Cow<'_, str>> {
        static KEY: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\[[^\]]*\]").unwrap());
        self.iter().map(|cause| KEY.replace_all(&cause.field, "[]"))
    }
}

impl PartialEq for Causes {
    /// The causes are the same, in the same order. An API server takes the keys of a map in any order.
    fn eq(&self, other: &Self) -> bool {
        self.sorted() == other.sorted() && self.places().eq(other.places())
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
    /// Writes a line for each field of a document, or for each cause of a refusal, and for each warning.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.decision {
            Decision::Stored(document) => writeln!(f, "{document:#}")?,
            Decision::Refused(status, causes) => {
                writeln!(f, "{status}")?;
                let mut causes = causes.iter();
                causes.try_for_each(|Cause { field, reason, message }| writeln!(f, "{field} {reason} {message}"))?;
            }
        }
        self.warnings.iter().try_for_each(|warning| writeln!(f, "Warning: {warning}"))
    }
}

/// Words of warnings that only a host has: it lacks some parts of a cluster.
const OF_HOST: [&str; 2] = ["this host calls no services", "does not act on this host"];

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
