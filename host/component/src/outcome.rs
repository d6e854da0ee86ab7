//! The results of calls, as data: a guest that fails is not an error of the host.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::effect::EffectClass;
use crate::limits::LimitName;
use crate::{millis, result_serde};

/// The outcome of a reconcile that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// The world matches the resource.
    Settled,
    /// Reconcile again after this delay, at most [`Outcome::DELAY_MAX`]; zero means at once, behind the keys
    /// already queued.
    #[serde(rename = "againAfterMs", with = "millis")]
    AgainAfter(Duration),
}

impl Outcome {
    /// The maximum delay that a guest can ask for: 365 days. Longer ones are cut.
    pub const DELAY_MAX: Duration = Duration::from_secs(365 * 24 * 3600);
}

/// When to retry after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Retry {
    /// With the controller's backoff.
    Backoff,
    /// Not before this delay, at most [`Outcome::DELAY_MAX`]; the backoff still holds when it is longer.
    #[serde(rename = "afterMs", with = "millis")]
    After(Duration),
    /// Never, until the resource changes or a person requests a retry.
    Never,
}

/// The reason why a call of a guest failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Fault {
    /// The guest returned a failure.
    Failure {
        /// The guest's message. At most 4096 bytes.
        message: String,
        /// The guest's choice of when to retry.
        retry: Retry,
    },
    /// The guest crashed, or broke the contract.
    Trap {
        /// The trap, and the innermost frames of the guest if they are known.
        message: String,
    },
    /// The guest hit a limit of its sandbox.
    Limit {
        /// The limit.
        limit: LimitName,
        /// The requested and the allowed amount.
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

/// The result of a call, and its cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallReport<T> {
    /// The guest's answer, or the reason why there is none.
    #[serde(with = "result_serde", bound(serialize = "T: Serialize", deserialize = "T: Deserialize<'de>"))]
    pub result: Result<T, Fault>,
    /// The resources that it used, whether it failed or not.
    pub cost: Cost,
}

/// The resources that one call used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    /// Time for which the call occupied a thread: the guest, and host code that did not wait.
    #[serde(rename = "cpuUs", with = "millis::micros")]
    pub cpu: Duration,
    /// Time from the start of the sandbox to the result, waits included.
    #[serde(rename = "wallUs", with = "millis::micros")]
    pub wall: Duration,
    /// The peak linear memory of the guest.
    pub memory_bytes_max: u64,
    /// Pages of 64 KiB that the guest added to its memories after they were created. The system changes the protection
    /// of pages for each growth, which concurrent calls wait for.
    #[serde(default)]
    pub pages_grown: u64,
    /// Its effects, including refused ones.
    pub effects: EffectCounts,
    /// Bytes that its effects carried out of the sandbox, as the limit `effect-bytes` counts them.
    pub bytes_out: u64,
    /// Bytes that the answers carried into it.
    pub bytes_in: u64,
}

/// The numbers of effects by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EffectCounts([u32; EffectClass::ALL.len()]);

impl EffectCounts {
    /// Creates it from counts in the order of [`EffectClass::ALL`].
    pub fn new(counts: [u32; EffectClass::ALL.len()]) -> Self {
        Self(counts)
    }

    /// Returns the number of effects of one class.
    pub fn of(self, class: EffectClass) -> u32 {
        self.0[class as usize]
    }

    /// Returns the number of all effects except for log lines, as the limit `effects` counts them.
    pub fn total(self) -> u32 {
        let classes = EffectClass::ALL.into_iter().filter(|class| *class != EffectClass::Log);
        classes.map(|class| self.of(class)).fold(0, u32::saturating_add)
    }
}

impl Serialize for EffectCounts {
    /// Writes a map from class names to counts, without zeros.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let used = EffectClass::ALL.into_iter().filter(|class| self.of(*class) > 0);
        serializer.collect_map(used.map(|class| (class.as_str(), self.of(class))))
    }
}

impl<'de> Deserialize<'de> for EffectCounts {
    /// Reads the same map; an unknown class name is an error.
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
