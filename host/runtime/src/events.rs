//! Events for people: kept in memory and bounded, with equal events counted.
//!
//! The bound is shared by all controllers. At the bound, the controller with the most events loses its oldest
//! one. So a controller that floods the log drowns only its own events.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use homeostat_component::Severity;
use homeostat_store::Key;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::host_kinds;

/// The namespace for events of cluster-scoped objects.
const DEFAULT_NAMESPACE: &str = "default";

/// Default maximum number of events of all controllers. At the bound, the controller with the most events loses
/// the one that occurred longest ago.
pub const EVENTS_MAX: usize = 4096;

/// How long an event is kept as a resource after its last occurrence, by default.
pub const EVENT_TTL: Duration = Duration::from_secs(3600);

/// Maximum bytes of an event's message. Longer messages are cut.
pub const MESSAGE_BYTES_MAX: usize = 8 << 10;

/// One event, possibly with many occurrences.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Increases with every occurrence; a repeated event gets a new sequence.
    pub sequence: u64,
    /// The sequence of the first occurrence; constant, and unique in this log.
    pub first_sequence: u64,
    /// Time of the first occurrence, RFC 3339.
    pub first_seen: String,
    /// Time of the last occurrence, RFC 3339.
    pub last_seen: String,
    /// Number of occurrences.
    pub count: u64,
    /// The controller.
    pub controller: Arc<str>,
    /// The source.
    pub source: EventSource,
    /// The key that the event is about; `None` for the controller itself.
    pub key: Option<Key>,
    /// The severity.
    pub severity: Severity,
    /// The reason, one CamelCase word.
    pub reason: String,
    /// The message, for a person.
    pub message: String,
}

/// The source of an event. Guests choose reason and message freely, so theirs can look like those of the
/// host.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum EventSource {
    /// The host.
    Host,
    /// The component of the controller.
    Guest,
}

/// A new occurrence of an event.
#[derive(Clone, Debug)]
pub struct NewEvent<'e> {
    /// The controller.
    pub controller: &'e Arc<str>,
    /// The source.
    pub source: EventSource,
    /// The key that the event is about; `None` for the controller itself.
    pub key: Option<Key>,
    /// The severity.
    pub severity: Severity,
    /// The reason, one CamelCase word.
    pub reason: &'e str,
    /// The message, for a person.
    pub message: &'e str,
}

/// A filter of events. Empty selects all.
#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    /// Only events of this controller.
    pub controller: Option<String>,
    /// Only events about this key.
    pub key: Option<Key>,
    /// Only events with a greater sequence.
    pub after: u64,
}

/// The events of a host, newest last.
pub struct EventLog {
    began: u64,
    inner: Mutex<Inner>,
    changed: watch::Sender<u64>,
}

#[derive(Default)]
struct Inner {
    events_max: usize,
    sequence: u64,
    events: HashMap<Arc<EventIdentity>, Event>,
    /// The same events by controller. No entry is empty.
    shares: HashMap<Arc<str>, ControllerEvents>,
    /// The size of every share. The last one loses the next event.
    sizes: BTreeSet<Size>,
    /// The greatest sequence of dropped events.
    forgotten: u64,
}

/// The events of one controller by their current sequence. The first is dropped first.
type ControllerEvents = BTreeMap<u64, Arc<EventIdentity>>;

/// The number of a controller's events, and the sequence of its first. At equal sizes, the controller with
/// the oldest event loses one.
type Size = (usize, Reverse<u64>, Arc<str>);

#[derive(Clone, Eq, Hash, PartialEq)]
struct EventIdentity {
    controller: Arc<str>,
    source: EventSource,
    key: Option<Key>,
    reason: String,
    message: String,
}

impl Default for EventLog {
    fn default() -> Self {
        Self::new(EVENTS_MAX)
    }
}

impl EventLog {
    /// Creates an empty log that keeps `events_max` events of all controllers together, at least one.
    pub fn new(events_max: usize) -> Self {
        let began = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let began = u64::try_from(began.as_micros()).unwrap_or_default();
        let inner = Mutex::new(Inner { events_max: events_max.max(1), ..Inner::default() });
        Self { began, inner, changed: watch::Sender::new(0) }
    }
}

impl EventLog {
    /// Returns the start of the log in microseconds since 1970. It distinguishes the sequences of different
    /// processes.
    pub fn began(&self) -> u64 {
        self.began
    }

    /// Returns the greatest sequence of dropped events. A reader at a lower sequence has missed events.
    pub fn forgotten(&self) -> u64 {
        self.inner.lock().forgotten
    }

    /// Records an event that occurred at `now` (RFC 3339). Returns how often it has occurred.
    pub fn record(&self, now: String, event: NewEvent<'_>) -> u64 {
        let NewEvent { controller, source, key, severity, reason, message } = event;
        let mut inner = self.inner.lock();
        inner.sequence += 1;
        let sequence = inner.sequence;
        let controller = controller.clone();
        let message = &message[..message.floor_char_boundary(MESSAGE_BYTES_MAX)];
        let identity = EventIdentity { controller, source, key, reason: reason.into(), message: message.into() };
        let count = inner.note(sequence, now, severity, Arc::new(identity));
        drop(inner);
        // Concurrent calls may arrive here in another order.
        self.changed.send_modify(|latest| *latest = sequence.max(*latest));
        count
    }

    /// Returns the selected events in the order of their last occurrence.
    pub fn list(&self, filter: &EventFilter) -> Vec<Event> {
        let inner = self.inner.lock();
        let mut events: Vec<Event> = inner.events.values().filter(|event| filter.wants(event)).cloned().collect();
        drop(inner);
        events.sort_by_key(|event| event.sequence);
        events
    }

    /// Waits until an event has a sequence greater than `sequence`.
    ///
    /// *Cancel safety*: nothing is lost.
    pub async fn changed(&self, sequence: u64) {
        let mut receiver = self.changed.subscribe();
        // The sender lives as long as `self`, so the wait cannot fail.
        drop(receiver.wait_for(|latest| *latest > sequence).await);
    }
}

impl EventLog {
    /// Returns the revision of a sequence: a number that no earlier process has given.
    pub fn revision(&self, sequence: u64) -> u64 {
        self.began + sequence
    }

    /// Returns an event as a resource of the core group.
    pub fn document(&self, event: &Event) -> Value {
        let Event { sequence, first_sequence, first_seen, last_seen, count, controller, source, key, .. } = event;
        let Event { severity, reason, message, .. } = event;
        let (namespace, name, object) = match key {
            Some(key) => {
                let namespace = Some(key.namespace()).filter(|namespace| !namespace.is_empty());
                let object = json!({
                    "apiVersion": key.kind().api_version(), "kind": key.kind().name, "namespace": namespace,
                    "name": key.name(),
                });
                (namespace.unwrap_or(DEFAULT_NAMESPACE), key.name(), object)
            }
            None => {
                let object = json!({
                    "apiVersion": host_kinds::API_VERSION, "kind": host_kinds::KIND, "name": controller.as_ref(),
                });
                (DEFAULT_NAMESPACE, controller.as_ref(), object)
            }
        };
        let kind = match severity {
            Severity::Normal => "Normal",
            Severity::Warning => "Warning",
        };
        // An event of a guest must not look like an event of the host.
        let (component, instance) = match source {
            EventSource::Host => ("homeostat", controller.as_ref()),
            EventSource::Guest => (controller.as_ref(), ""),
        };
        json!({
            "kind": "Event", "apiVersion": "v1",
            "metadata": {
                "name": format!("{name}.{:x}", self.revision(*first_sequence)), "namespace": namespace,
                "uid": self.uid(*first_sequence),
                "resourceVersion": self.revision(*sequence).to_string(), "creationTimestamp": first_seen,
            },
            "involvedObject": object, "reason": reason, "message": message, "type": kind,
            "source": { "component": component }, "reportingComponent": component, "reportingInstance": instance,
            "firstTimestamp": first_seen, "lastTimestamp": last_seen, "count": count,
        })
    }

    /// Returns a uid that no other event has, in this process or an earlier one.
    fn uid(&self, first_sequence: u64) -> String {
        let digits = format!("{:016x}{first_sequence:016x}", self.began);
        [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
    }
}

impl EventFilter {
    fn wants(&self, event: &Event) -> bool {
        event.sequence > self.after
            && self.controller.as_deref().is_none_or(|name| name == &*event.controller)
            && self.key.as_ref().is_none_or(|key| Some(key) == event.key.as_ref())
    }
}

impl Inner {
    /// Adds an occurrence, and returns its number.
    fn note(&mut self, sequence: u64, now: String, severity: Severity, identity: Arc<EventIdentity>) -> u64 {
        let (before, count) = if let Some(event) = self.events.get_mut(&identity) {
            event.count += 1;
            event.last_seen = now;
            (Some(std::mem::replace(&mut event.sequence, sequence)), event.count)
        } else {
            if self.events.len() >= self.events_max {
                self.forget_one();
            }
            self.events.insert(identity.clone(), identity.first(sequence, now, severity));
            (None, 1)
        };
        self.change(&identity.controller.clone(), |share| {
            before.map(|before| share.remove(&before));
            share.insert(sequence, identity);
        });
        count
    }

    fn forget_one(&mut self) {
        let Some((_, _, controller)) = self.sizes.last().cloned() else { return };
        if let Some((sequence, oldest)) = self.change(&controller, ControllerEvents::pop_first) {
            self.forgotten = self.forgotten.max(sequence);
            self.events.remove(&oldest);
        }
    }

    /// Changes a share and updates its size.
    fn change<T>(&mut self, controller: &Arc<str>, change: impl FnOnce(&mut ControllerEvents) -> T) -> T {
        let share = self.shares.entry(controller.clone()).or_default();
        let before = size(controller, share);
        let changed = change(share);
        let after = size(controller, share);
        if after.is_none() {
            self.shares.remove(controller);
        }
        if before != after {
            before.map(|before| self.sizes.remove(&before));
            self.sizes.extend(after);
        }
        changed
    }
}

/// Returns the size of a share, `None` for an empty one.
fn size(controller: &Arc<str>, share: &ControllerEvents) -> Option<Size> {
    let (first, _) = share.first_key_value()?;
    Some((share.len(), Reverse(*first), controller.clone()))
}

impl EventIdentity {
    fn first(&self, sequence: u64, now: String, severity: Severity) -> Event {
        let Self { controller, source, key, reason, message } = self.clone();
        Event {
            sequence,
            first_sequence: sequence,
            first_seen: now.clone(),
            last_seen: now,
            count: 1,
            controller,
            source,
            key,
            severity,
            reason,
            message,
        }
    }
}

#[cfg(test)]
mod tests;
