//! What happened that a person should know: kept in memory, bounded, equal ones counted.
//!
//! The room is shared out: where there is no more, the controller that has the most events loses one. So a controller that floods the log
//! drowns its own events and nobody else's.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::SystemTime;

use homeostat_component::Severity;
use homeostat_store::Key;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::watch;

/// Events kept, of all controllers together. When one more comes, the controller that has the most loses the one that it saw longest ago.
pub const EVENTS_MAX: usize = 4096;

/// Bytes of the message of an event. More is cut.
pub const MESSAGE_BYTES_MAX: usize = 8 << 10;

/// One thing that happened, perhaps many times.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Grows with everything that happens; a repeated event gets a new one.
    pub sequence: u64,
    /// The sequence of the first time: it stays, and no other event of this log has it.
    pub first_sequence: u64,
    /// When it happened first, RFC 3339.
    pub first_seen: String,
    /// When it happened last, RFC 3339.
    pub last_seen: String,
    /// How often.
    pub count: u64,
    /// Whose it is.
    pub controller: Arc<str>,
    /// Who told it.
    pub source: EventSource,
    /// What it is about; `None` when it is about the controller itself.
    pub key: Option<Key>,
    /// How bad it is.
    pub severity: Severity,
    /// One CamelCase word.
    pub reason: String,
    /// What a person reads.
    pub message: String,
}

/// Who tells an event. A guest chooses its reason and its message freely, so that they can look like those of the host.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum EventSource {
    /// The host.
    Host,
    /// The component of the controller.
    Guest,
}

/// One thing that happens now.
#[derive(Clone, Debug)]
pub struct NewEvent<'e> {
    /// Whose it is.
    pub controller: &'e Arc<str>,
    /// Who tells it.
    pub source: EventSource,
    /// What it is about; `None` when it is about the controller itself.
    pub key: Option<Key>,
    /// How bad it is.
    pub severity: Severity,
    /// One CamelCase word.
    pub reason: &'e str,
    /// What a person reads.
    pub message: &'e str,
}

/// Which events are wanted. Empty means all.
#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    /// Of this controller alone.
    pub controller: Option<String>,
    /// About this key alone.
    pub key: Option<Key>,
    /// Only those with a greater sequence.
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
    sequence: u64,
    events: HashMap<Arc<EventIdentity>, Event>,
    /// The same events, by controller. None is empty.
    shares: HashMap<Arc<str>, ControllerEvents>,
    /// Every share once, and the one that loses the next event last.
    sizes: BTreeSet<Size>,
    /// The greatest sequence of those that were forgotten.
    forgotten: u64,
}

/// The events of one controller by the sequence each has now: the first is the one to forget.
type ControllerEvents = BTreeMap<u64, Arc<EventIdentity>>;

/// How many events a controller has, and the sequence of its first: among equals loses who has had one for longest.
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
        let began = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let began = u64::try_from(began.as_micros()).unwrap_or_default();
        Self { began, inner: Mutex::default(), changed: watch::Sender::new(0) }
    }
}

impl EventLog {
    /// Returns when the log began, in microseconds since 1970: what tells its sequences from those of a process before.
    pub fn began(&self) -> u64 {
        self.began
    }

    /// Returns the greatest sequence of the events that were forgotten: who has read less far has missed something.
    pub fn forgotten(&self) -> u64 {
        self.inner.lock().forgotten
    }

    /// Notes one event that happened at `now` (RFC 3339).
    pub fn record(&self, now: String, event: NewEvent<'_>) {
        let NewEvent { controller, source, key, severity, reason, message } = event;
        let mut inner = self.inner.lock();
        inner.sequence += 1;
        let sequence = inner.sequence;
        let controller = controller.clone();
        let message = &message[..message.floor_char_boundary(MESSAGE_BYTES_MAX)];
        let identity = EventIdentity { controller, source, key, reason: reason.into(), message: message.into() };
        inner.note(sequence, now, severity, Arc::new(identity));
        drop(inner);
        // Two who note at once may come here in the other order.
        self.changed.send_modify(|latest| *latest = sequence.max(*latest));
    }

    /// Returns the events that the filter wants, in the order in which they last happened.
    pub fn list(&self, filter: &EventFilter) -> Vec<Event> {
        let inner = self.inner.lock();
        let mut events: Vec<Event> = inner.events.values().filter(|event| filter.wants(event)).cloned().collect();
        drop(inner);
        events.sort_by_key(|event| event.sequence);
        events
    }

    /// Waits until something happened after `sequence`.
    ///
    /// *Cancel safety*: nothing is lost.
    pub async fn changed(&self, sequence: u64) {
        let mut receiver = self.changed.subscribe();
        // The sender lives as long as `self`, so this ends only by success.
        drop(receiver.wait_for(|latest| *latest > sequence).await);
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
    fn note(&mut self, sequence: u64, now: String, severity: Severity, identity: Arc<EventIdentity>) {
        let before = if let Some(event) = self.events.get_mut(&identity) {
            event.count += 1;
            event.last_seen = now;
            Some(std::mem::replace(&mut event.sequence, sequence))
        } else {
            if self.events.len() >= EVENTS_MAX {
                self.forget_one();
            }
            self.events.insert(identity.clone(), identity.first(sequence, now, severity));
            None
        };
        self.change(&identity.controller.clone(), |share| {
            before.map(|before| share.remove(&before));
            share.insert(sequence, identity);
        });
    }

    fn forget_one(&mut self) {
        let Some((_, _, controller)) = self.sizes.last().cloned() else { return };
        if let Some((sequence, oldest)) = self.change(&controller, ControllerEvents::pop_first) {
            self.forgotten = self.forgotten.max(sequence);
            self.events.remove(&oldest);
        }
    }

    /// Changes a share, and keeps its size in step.
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

/// Returns the size of a share that is not empty.
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
