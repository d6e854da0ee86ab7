//! Where events about resources are written besides the host's own log: to the server that has the resources.

use crate::Key;

/// An event of the host about a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRecord {
    /// The name of the controller.
    pub controller: String,
    /// The resource.
    pub regarding: Key,
    /// The uid of the resource; may be empty.
    pub uid: String,
    /// The reason, one word in CamelCase.
    pub reason: String,
    /// The text for people.
    pub note: String,
    /// Whether it is a warning.
    pub is_warning: bool,
    /// How often the event has occurred, 1 or more.
    pub count: u64,
}

/// Writes events to the server of a store.
pub trait EventSink: Send + Sync + 'static {
    /// Has an event written, later. Never waits, and may lose events: they are for people.
    fn record(&self, event: EventRecord);
}
