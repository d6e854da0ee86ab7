//! What a call of a guest came to, as data: a guest that fails is not an error of the host.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::effect::EffectClass;
use crate::limits::LimitName;
use crate::{millis, reply};

/// What a reconcile came to, when it did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// The world is as it should be.
    Settled,
    /// Look again after this long, at most [`Outcome::DELAY_MAX`]; zero means at once, behind the others.
    #[serde(rename = "againAfterMs", with = "millis")]
    AgainAfter(Duration),
}

impl Outcome {
    /// The longest delay that a guest can ask for: 365 days. Longer ones are cut.
    pub const DELAY_MAX: Duration = Duration::from_secs(365 * 24 * 3600);
}

/// How to go on after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Retry {
    /// With the controller's backoff.
    Backoff,
    /// Not before this long, at most [`Outcome::DELAY_MAX`]; the backoff still holds when it is longer.
    #[serde(rename = "afterMs", with = "millis")]
    After(Duration),
    /// Not at all, until the resource changes or a person asks for it.
    Never,
}

/// Why a call of a guest did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Fault {
    /// The guest itself said that it failed.
    Failure {
        /// What went wrong, in the guest's words. At most 4096 bytes.
        message: String,
        /// What the guest asks for next.
        retry: Retry,
    },
    /// The guest crashed, or broke the contract.
    Trap {
        /// What happened, and the innermost frames of the guest where they are known.
        message: String,
    },
    /// The guest was stopped at a limit of its sandbox.
    Limit {
        /// Which one.
        limit: LimitName,
        /// What was asked for and what is allowed.
        message: String,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failure { message, .. } => f.write_str(message),
            Self::Trap { message } => write!(f, "trap: {message}"),
            Self::Limit { limit, message } => write!(f, "limit {limit}: {message}"),
        }
    }
}

/// What a call came to, and what it cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallReport<T> {
    /// The guest's answer, or why there is none.
    #[serde(with = "reply", bound(serialize = "T: Serialize", deserialize = "T: Deserialize<'de>"))]
    pub result: Result<T, Fault>,
    /// What it used, whatever it came to.
    pub cost: Cost,
}

/// What one call used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    /// Time for which the call held a thread: the guest itself and host code that did not wait.
    #[serde(rename = "cpuUs", with = "millis::micros")]
    pub cpu: Duration,
    /// Time from the start of the sandbox to the result, waits included.
    #[serde(rename = "wallUs", with = "millis::micros")]
    pub wall: Duration,
    /// The most linear memory that the guest had at once.
    pub memory_bytes_max: u64,
    /// What it asked for, refused effects included.
    pub effects: EffectCounts,
    /// Bytes that its effects carried out of the sandbox, as the limit `effect-bytes` counts them.
    pub bytes_out: u64,
    /// Bytes that the answers carried into it.
    pub bytes_in: u64,
}

/// Numbers of effects by their class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EffectCounts([u32; EffectClass::ALL.len()]);

impl EffectCounts {
    /// Takes counts in the order of [`EffectClass::ALL`].
    pub fn new(counts: [u32; EffectClass::ALL.len()]) -> Self {
        Self(counts)
    }

    /// Returns how many there were of one class.
    pub fn of(self, class: EffectClass) -> u32 {
        self.0[class as usize]
    }

    /// Returns how many there were in all, but for lines of the log: as the limit `effects` counts them.
    pub fn total(self) -> u32 {
        let classes = EffectClass::ALL.into_iter().filter(|class| *class != EffectClass::Log);
        classes.map(|class| self.of(class)).fold(0, u32::saturating_add)
    }
}

impl Serialize for EffectCounts {
    /// Writes a map by the names of the classes, without those that were not used.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let used = EffectClass::ALL.into_iter().filter(|class| self.of(*class) > 0);
        serializer.collect_map(used.map(|class| (class.as_str(), self.of(class))))
    }
}

impl<'de> Deserialize<'de> for EffectCounts {
    /// Reads the same map; a name that is no class is an error.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut counts = Self::default();
        for (name, count) in BTreeMap::<String, u32>::deserialize(deserializer)? {
            let class = EffectClass::ALL.into_iter().find(|class| class.as_str() == name);
            let class = class.ok_or_else(|| D::Error::custom(format!("{name:?} is no class of effects")))?;
            counts.0[class as usize] = count;
        }
        Ok(counts)
    }
}

#[cfg(test)]
mod tests;
