//! Conditions of a resource: `status.conditions` in documents.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::Time;

/// Whether a condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Status {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// It is not known.
    Unknown,
}

impl From<bool> for Status {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// One statement about a resource.
///
/// ```
/// use homeostat_sdk::Condition;
///
/// let ready = Condition::new("Ready", true).because("AllUp", "3 of 3 replicas are up").observed(7);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// The type of the condition, as one CamelCase word: `Ready`. Unique in its list.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it holds.
    pub status: Status,
    /// The generation of the resource that the condition describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<u64>,
    /// The time of its last update, for kinds that record one, like Deployment. The guest sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// The time when `status` last changed. [`Conditions::set`] maintains it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// The reason, as one CamelCase word.
    #[serde(default)]
    pub reason: String,
    /// The reason, as a message for people.
    #[serde(default)]
    pub message: String,
}

impl Condition {
    /// Creates a condition that holds, does not hold, or is [`Status::Unknown`].
    #[must_use]
    pub fn new(kind: &str, status: impl Into<Status>) -> Self {
        Self {
            kind: kind.to_owned(),
            status: status.into(),
            observed_generation: None,
            last_update_time: None,
            last_transition_time: None,
            reason: kind.to_owned(),
            message: String::new(),
        }
    }

    /// Sets the reason, as one CamelCase word, and the message for people. The default reason is the
    /// condition's type.
    #[must_use]
    pub fn because(mut self, reason: &str, message: impl fmt::Display) -> Self {
        reason.clone_into(&mut self.reason);
        self.message = message.to_string();
        self
    }

    /// Sets the generation of the resource that the condition describes: `metadata.generation`.
    #[must_use]
    pub fn observed(mut self, generation: u64) -> Self {
        self.observed_generation = Some(generation);
        self
    }
}

/// The conditions of a resource, one of each type, in the order in which they were first set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Conditions(Vec<Condition>);

impl Conditions {
    /// Sets one condition. `last_transition_time` becomes now if `status` changes; otherwise it stays.
    pub fn set(&mut self, condition: Condition) {
        self.set_at(condition, Time::now);
    }

    /// As [`Conditions::set`], with the caller's clock.
    pub fn set_at(&mut self, mut condition: Condition, now: impl FnOnce() -> Time) {
        let place = self.0.iter_mut().find(|there| there.kind == condition.kind);
        let since = place
            .as_ref()
            .filter(|there| there.status == condition.status)
            .and_then(|there| there.last_transition_time);
        condition.last_transition_time = Some(since.unwrap_or_else(|| now().whole_seconds()));
        match place {
            Some(there) => *there = condition,
            None => self.0.push(condition),
        }
    }

    /// Removes a condition. Returns whether it existed.
    pub fn remove(&mut self, kind: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|condition| condition.kind != kind);
        self.0.len() != before
    }

    /// Returns the condition of this type.
    #[must_use]
    pub fn get(&self, kind: &str) -> Option<&Condition> {
        self.0.iter().find(|condition| condition.kind == kind)
    }

    /// Returns whether the condition of this type exists and holds.
    #[must_use]
    pub fn is_true(&self, kind: &str) -> bool {
        self.get(kind).is_some_and(|condition| condition.status == Status::True)
    }

    /// Returns whether there are no conditions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over all conditions.
    pub fn iter(&self) -> impl Iterator<Item = &Condition> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests;
