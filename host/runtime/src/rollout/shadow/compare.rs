//! Compares the runs of two versions. Pure.
//!
//! Writes are paired by resource and part, in order; equal ones first. A write that changes nothing is
//! compared with its pair and is no difference by itself. Texts in the result are bounded and contain nothing
//! of a `Secret`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use homeostat_component::{Answer, Effect, Exchange, Fault, HttpRequest, Outcome, Retry, StoreError, WriteData};
use homeostat_store::semantics::HOST_OWNED;
use homeostat_store::{Change, Key, Kind, Write};
use serde_json::{Value, json};

use super::ReconcileDifference;
use super::run::Run;
use crate::fields;
use crate::host_kinds::HIDDEN;

/// Maximum number of differences reported for one reconcile.
const DIFFERENCES_MAX: usize = 64;
/// Maximum bytes of a reported value.
const VALUE_BYTES_MAX: usize = 120;

/// Returns the first 64 differences; empty if both versions did the same.
pub(super) fn differences(key: &Key, old: &Run, new: &Run) -> Vec<ReconcileDifference> {
    let mut found = Vec::new();
    result(key, old, new, &mut found);
    writes(&old.exchanges, &new.exchanges, &mut found);
    requests(key, old, new, &mut found);
    events_and_follows(key, old, new, &mut found);
    for denial in new.denials.difference(&old.denials) {
        found.push(ReconcileDifference::new(key, "grants", denial, None, Some("denied")));
    }
    found.truncate(DIFFERENCES_MAX);
    found
}

impl ReconcileDifference {
    fn new(key: &Key, verb: &str, field: &str, old: Option<&str>, new: Option<&str>) -> Self {
        let text = |value: &str| cut(value.to_owned());
        Self {
            key: key.clone(),
            verb: verb.to_owned(),
            field: cut(field.to_owned()),
            old: old.map(text),
            new: new.map(text),
        }
    }
}

impl fmt::Display for ReconcileDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, verb, field, old, new } = self;
        let gap = if field.is_empty() { "" } else { " " };
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".to_owned());
        write!(f, "{key}: {verb}{gap}{field}: {} instead of {}", text(new), text(old))
    }
}

fn cut(mut text: String) -> String {
    if text.len() > VALUE_BYTES_MAX {
        text.truncate(text.floor_char_boundary(VALUE_BYTES_MAX - '…'.len_utf8()));
        text.push('…');
    }
    text
}

fn result(key: &Key, old: &Run, new: &Run, found: &mut Vec<ReconcileDifference>) {
    // The message of a failure may contain a time; only the retry counts.
    let is_same = match (&old.result, &new.result) {
        (Err(Fault::Failure { retry: before, .. }), Err(Fault::Failure { retry: after, .. })) => before == after,
        (old, new) => old == new,
    };
    if !is_same {
        found.push(ReconcileDifference::new(key, "reconcile", "", Some(&end(&old.result)), Some(&end(&new.result))));
    }
}

/// Returns the result of a reconcile as text.
pub(super) fn end(result: &Result<Outcome, Fault>) -> String {
    match result {
        Ok(Outcome::Settled) => "settled".to_owned(),
        Ok(Outcome::AgainAfter(delay)) => format!("again after {delay:?}"),
        Err(Fault::Failure { message, retry }) => {
            let retry = match retry {
                Retry::Backoff => String::new(),
                Retry::After(delay) => format!(", again after {delay:?}"),
                Retry::Never => ", not again".to_owned(),
            };
            format!("failed{retry}: {message}")
        }
        Err(fault) => fault.to_string(),
    }
}

/// The part of a resource that a write changes.
#[derive(Clone, Copy, Eq, Ord, PartialEq, PartialOrd)]
enum ResourcePart {
    Specification,
    Status,
    Existence,
}

/// One write with its answer.
struct RecordedWrite<'r> {
    write: &'r Write,
    answer: &'r Result<WriteData, StoreError>,
}

impl<'r> RecordedWrite<'r> {
    fn of(exchange: &'r Exchange) -> Option<Self> {
        match exchange {
            Exchange { effect: Effect::Write(write), answer: Answer::Written(answer) } => Some(Self { write, answer }),
            _ => None,
        }
    }

    /// Returns the key of the written resource; the name is empty if the store would have generated it.
    fn key(&self) -> Key {
        if let Ok(written) = self.answer {
            return written.resource.key.clone();
        }
        match self.write.target() {
            Ok(target) => Key::new(target.kind, &target.namespace, &target.name.unwrap_or_default()),
            Err(_) => Key::new(Kind::new("", "", ""), "", ""),
        }
    }

    fn part(&self) -> ResourcePart {
        match self.write {
            Write::Create { .. } | Write::Update { .. } | Write::Patch { .. } | Write::Apply { .. } => {
                ResourcePart::Specification
            }
            Write::UpdateStatus { .. } | Write::PatchStatus { .. } | Write::ApplyStatus { .. } => ResourcePart::Status,
            Write::Delete { .. } => ResourcePart::Existence,
        }
    }

    fn changes(&self) -> bool {
        matches!(self.answer, Ok(written) if written.change.is_some())
    }

    fn changes_nothing(&self) -> bool {
        matches!(self.answer, Ok(written) if written.change.is_none())
    }

    /// Returns the requested document; `None` for a patch, which has a meaning only together with the
    /// resource.
    fn asked(&self) -> Option<Value> {
        match self.write {
            Write::Create { document } | Write::Update { document, .. } | Write::Apply { document, .. } => {
                Some(wanted(document.clone(), ResourcePart::Specification))
            }
            Write::ApplyStatus { document, .. } => Some(wanted(document.clone(), ResourcePart::Status)),
            Write::UpdateStatus { status, .. } => Some(json!({ "status": status })),
            Write::Delete { key: _, precondition: _, propagation, grace_seconds } => {
                Some(json!({ "propagation": propagation, "graceSeconds": grace_seconds }))
            }
            Write::Patch { .. } | Write::PatchStatus { .. } => None,
        }
    }

    /// Returns the resulting document; `None` if the write was refused.
    fn led_to(&self) -> Option<Value> {
        let written = self.answer.as_ref().ok()?;
        Some(wanted(serde_json::from_str(&written.resource.json).ok()?, self.part()))
    }

    /// Returns the value to report when there is nothing to compare with.
    fn whole(&self) -> Value {
        self.asked().or_else(|| self.led_to()).unwrap_or_else(|| match self.write {
            Write::Patch { change, .. } | Write::PatchStatus { change, .. } => match change {
                Change::Merge(change) | Change::Strategic(change) | Change::Json(change) => change.clone(),
            },
            _ => Value::Null,
        })
    }
}

/// Reduces a document to the fields of that part that its writer sets.
fn wanted(mut document: Value, part: ResourcePart) -> Value {
    if part == ResourcePart::Status {
        return json!({ "status": document["status"].take() });
    }
    if let Some(fields) = document.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) {
        // Fields that only the host sets.
        for field in HOST_OWNED {
            metadata.remove(field);
        }
    }
    document
}

fn writes(old: &[Exchange], new: &[Exchange], found: &mut Vec<ReconcileDifference>) {
    let old = old.iter().filter_map(RecordedWrite::of);
    let mut new: VecDeque<RecordedWrite<'_>> = new.iter().filter_map(RecordedWrite::of).collect();
    let mut left: BTreeMap<(Key, ResourcePart), (VecDeque<RecordedWrite<'_>>, VecDeque<RecordedWrite<'_>>)> =
        BTreeMap::new();
    for deed in old {
        match new.iter().position(|other| other.write == deed.write) {
            Some(at) => drop(new.remove(at)),
            None => left.entry((deed.key(), deed.part())).or_default().0.push_back(deed),
        }
    }
    for deed in new {
        left.entry((deed.key(), deed.part())).or_default().1.push_back(deed);
    }
    for ((key, _), (mut old, mut new)) in left {
        loop {
            match (old.pop_front(), new.pop_front()) {
                (Some(before), Some(after)) => pair(&key, &before, &after, found),
                (Some(before), None) => alone(&key, &before, true, found),
                (None, Some(after)) => alone(&key, &after, false, found),
                (None, None) => break,
            }
        }
    }
}

/// Compares two writes to the same part of a resource.
fn pair(key: &Key, old: &RecordedWrite<'_>, new: &RecordedWrite<'_>, found: &mut Vec<ReconcileDifference>) {
    if old.changes_nothing() && new.changes_nothing() {
        return;
    }
    let (old_verb, new_verb) = (old.write.verb(), new.write.verb());
    let asked = (old.asked(), new.asked());
    let led_to = (old.led_to(), new.led_to());
    let (before, after) = match (asked, led_to) {
        ((Some(before), Some(after)), _) if old_verb == new_verb => (before, after),
        (_, (Some(before), Some(after))) => (before, after),
        _ => (old.whole(), new.whole()),
    };
    if old_verb != new_verb {
        found.push(ReconcileDifference::new(key, new_verb, "verb", Some(old_verb), Some(new_verb)));
    }
    for field in fields::differences(&before, &after) {
        let shown = |value: Option<Value>| value.map(|value| shown(key, &field.path, &value));
        let (old, new) = (shown(field.old), shown(field.new));
        found.push(ReconcileDifference::new(key, new_verb, &field.path, old.as_deref(), new.as_deref()));
    }
}

/// Reports a write that only one version made, if it changes the resource.
fn alone(key: &Key, deed: &RecordedWrite<'_>, is_old: bool, found: &mut Vec<ReconcileDifference>) {
    if deed.changes() {
        let text = shown(key, "", &deed.whole());
        let (old, new) = if is_old { (Some(&*text), None) } else { (None, Some(&*text)) };
        found.push(ReconcileDifference::new(key, deed.write.verb(), "", old, new));
    }
}

/// Returns a value as text, without the content of secrets.
fn shown(key: &Key, path: &str, value: &Value) -> String {
    let Kind { group, name, .. } = key.kind();
    let is_secret = group.is_empty() && name == "Secret";
    match value {
        _ if is_secret && !path.starts_with("metadata") => HIDDEN.to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn requests(key: &Key, old: &Run, new: &Run, found: &mut Vec<ReconcileDifference>) {
    let of = |run: &Run| -> Vec<HttpRequest> {
        let requests = run.exchanges.iter().filter_map(|exchange| match &exchange.effect {
            Effect::Http(request) => Some(request.clone()),
            _ => None,
        });
        requests.collect()
    };
    let mut left = of(new);
    for request in of(old) {
        match left.iter().position(|other| *other == request) {
            Some(at) => drop(left.remove(at)),
            // Reading less is no difference.
            None if matches!(&*request.method, "GET" | "HEAD") => {}
            None => found.push(ReconcileDifference::new(key, "http", &address(&request), Some("sent"), None)),
        }
    }
    for request in left {
        found.push(ReconcileDifference::new(key, "http", &address(&request), None, Some("not sent")));
    }
}

/// Returns the method and URL of a request, without parts that may be secret.
fn address(HttpRequest { method, url, .. }: &HttpRequest) -> String {
    let bare = url.split(['?', '#']).next().unwrap_or_default();
    let bare = match bare.split_once("://") {
        Some((scheme, rest)) => {
            let (place, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            format!("{scheme}://{}{path}", place.rsplit('@').next().unwrap_or_default())
        }
        None => bare.to_owned(),
    };
    format!("{method} {bare}")
}

/// Compares events by reason, followed resources, and enqueued keys.
fn events_and_follows(key: &Key, old: &Run, new: &Run, found: &mut Vec<ReconcileDifference>) {
    let of = |run: &Run| -> BTreeSet<(Key, &'static str, String, String)> {
        let told = run.exchanges.iter().filter_map(|exchange| match &exchange.effect {
            Effect::Emit { severity, reason, message: _, regarding } => {
                let about = regarding.as_ref().unwrap_or(key).clone();
                Some((about, "emit", reason.clone(), format!("{severity:?}")))
            }
            Effect::Enqueue { key: target, after_ms, priority, hold } => {
                let held = if *hold { ", held" } else { "" };
                let how = format!("after {after_ms} ms, {priority:?}{held}").to_lowercase();
                Some((key.clone(), "enqueue", target.to_string(), how))
            }
            Effect::Follow { target } => Some((key.clone(), "follow", target.to_string(), "followed".to_owned())),
            Effect::FollowAll { kind, selector } => {
                let selector = json!(selector);
                Some((key.clone(), "follow", format!("{kind} {selector}"), "followed".to_owned()))
            }
            _ => None,
        });
        told.collect()
    };
    let (before, after) = (of(old), of(new));
    for (key, verb, field, text) in before.difference(&after) {
        found.push(ReconcileDifference::new(key, verb, field, Some(text), None));
    }
    for (key, verb, field, text) in after.difference(&before) {
        found.push(ReconcileDifference::new(key, verb, field, None, Some(text)));
    }
}

#[cfg(test)]
mod tests;
