//! Things worth telling a person, kept beside the resource they are about. `homeostat events` shows them.
//!
//! Equal events of one key are counted, not repeated. For the controller's own log there are [`info!`](crate::info) and its siblings.

use std::fmt;

use crate::bindings::imports::homeostat::reconciler::events as wit;
use crate::kind::Key;

/// Tells that something went its way. `reason` is one CamelCase word; `message` is cut at 1024 bytes.
pub fn normal(reason: &str, message: impl fmt::Display) {
    wit::emit(wit::Severity::Normal, reason, &message.to_string(), None);
}

/// Tells that something needs attention.
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
