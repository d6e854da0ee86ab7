//! Events for people, stored beside the resource that they are about. `homeostat events` shows them.
//!
//! Equal events of one key are counted, not repeated. For the controller's own log use [`info!`](crate::info)
//! and its siblings.

use std::fmt;

use crate::host::events as wit;
use crate::kind::Key;

/// Emits an event about a normal operation. `reason` is one CamelCase word; `message` is cut at 1024 bytes.
pub fn normal(reason: &str, message: impl fmt::Display) {
    wit::emit(wit::Severity::Normal, reason, &message.to_string(), None);
}

/// Emits an event about a problem that needs attention.
pub fn warning(reason: &str, message: impl fmt::Display) {
    wit::emit(wit::Severity::Warning, reason, &message.to_string(), None);
}

/// As [`normal()`], about another resource than the one that is being reconciled.
pub fn normal_about(key: &Key, reason: &str, message: impl fmt::Display) {
    wit::emit(wit::Severity::Normal, reason, &message.to_string(), Some(key));
}

/// As [`warning()`], about another resource than the one that is being reconciled.
pub fn warning_about(key: &Key, reason: &str, message: impl fmt::Display) {
    wit::emit(wit::Severity::Warning, reason, &message.to_string(), Some(key));
}
