//! Conditions: what is true of a resource, why, and since when. `status.conditions` in documents.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::time::Time;

/// Whether a condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// Nobody can say.
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What is said, as one CamelCase word: `Ready`. Unique in its list.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it holds.
    pub status: Status,
    /// The generation of the resource that this was said of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<u64>,
    /// When something about it last changed, for kinds that say so, like Deployment. The guest's own to set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// When `status` last changed. [`Conditions::set`] sees to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// Why, as one CamelCase word.
    #[serde(default)]
    pub reason: String,
    /// Why, for a person.
    #[serde(default)]
    pub message: String,
}

impl Condition {
    /// A condition that holds or not: `true`, `false`, or [`Status::Unknown`].
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

    /// The same with its reason, as one CamelCase word and for a person. The word is the condition's own name when not said.
    #[must_use]
    pub fn because(mut self, reason: &str, message: impl fmt::Display) -> Self {
        reason.clone_into(&mut self.reason);
        self.message = message.to_string();
        self
    }

    /// The same, said of this generation of the resource: `metadata.generation`.
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
    /// Sets one condition. `last_transition_time` becomes now when `status` is another than before, and stays as it was otherwise.
    pub fn set(&mut self, condition: Condition) {
        self.set_at(condition, Time::now);
    }

    /// As [`Conditions::set`], with a clock of the caller's.
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

    /// Takes one away. Whether it was there.
    pub fn remove(&mut self, kind: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|condition| condition.kind != kind);
        self.0.len() != before
    }

    /// The condition of this type.
    #[must_use]
    pub fn get(&self, kind: &str) -> Option<&Condition> {
        self.0.iter().find(|condition| condition.kind == kind)
    }

    /// Whether the condition of this type is there and holds.
    #[must_use]
    pub fn is_true(&self, kind: &str) -> bool {
        self.get(kind).is_some_and(|condition| condition.status == Status::True)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Condition> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests;
