//! The plan of a rollout: its steps, its gate, and its shadow. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Factor, Share};

/// A step or a shadow that has not ended after this many times its minimum duration is decided anyway.
pub(super) const STEP_TIMEOUT_FACTOR: u32 = 4;

/// How a definition is rolled out.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// For all keys at once.
    Immediate,
    /// On some keys first.
    Canary(CanaryPlan),
}

/// The steps of a canary and its gate. Without a step it gets all keys at once.
#[derive(Clone, Debug, PartialEq)]
pub struct CanaryPlan {
    /// The shares of the keys, each greater than the previous one. After the last one the canary is promoted.
    /// The first is 0% if labels select the keys of the first step.
    pub steps: Vec<Share>,
    /// The labels of the keys that the canary gets from the first step on, in addition to its share.
    pub labels: BTreeMap<String, String>,
    /// The gate of each step.
    pub gate: Gate,
    /// The shadow phase before it has keys; no effect of a shadow is applied.
    pub shadow: Option<ShadowPlan>,
}

/// The limits of a canary relative to the stable version in the same time.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    /// The canary's additional share of failed reconciles.
    pub errors: Share,
    /// Traps in a step.
    pub traps: u32,
    /// Calls in a step that hit a limit.
    pub limits: u32,
    /// Geometric mean of the reconcile durations, relative to the stable version.
    pub duration: Factor,
    /// Writes for each reconcile of a key that ran before in the step, relative to the stable version.
    pub writes: Factor,
    /// Consecutive reconciles of one key that each wrote or asked to run again within a second, relative to
    /// the stable version.
    pub hot_loops: Factor,
    /// Minimum duration of a step.
    pub lasts: Duration,
    /// Minimum number of the canary's reconciles in a step, unless there is nothing to reconcile.
    pub reconciles: u32,
}

/// The duration of a shadow and the differences that it may have.
#[derive(Clone, Debug, PartialEq)]
pub struct ShadowPlan {
    /// Minimum duration.
    pub lasts: Duration,
    /// Minimum number of compared reconciles, unless four times the duration has passed.
    pub reconciles: u64,
    /// The allowed differences.
    pub allowed: DifferenceLimit,
}

/// The maximum number of reconciles that differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DifferenceLimit {
    /// Any number.
    Any,
    /// A number.
    Count(u64),
    /// A share of the compared reconciles.
    Share(Share),
}

impl CanaryPlan {
    /// Returns the share of the next step; `None` for all keys.
    pub(crate) fn next_step(&self, share: Option<Share>) -> Option<Share> {
        self.steps.iter().copied().find(|step| share.is_none_or(|share| *step > share))
    }

    /// Returns the number of the step with this share, from 1; 0 before the first.
    pub(crate) fn step(&self, share: Option<Share>) -> usize {
        share.map_or(0, |share| self.steps.iter().filter(|step| **step <= share).count())
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            errors: Share::percent(1),
            traps: 0,
            limits: 0,
            duration: Factor::hundredths(125),
            writes: Factor::times(2),
            hot_loops: Factor::times(10),
            lasts: Duration::from_secs(60),
            reconciles: 20,
        }
    }
}

impl Default for CanaryPlan {
    fn default() -> Self {
        let steps = vec![Share::percent(10), Share::percent(50)];
        Self { steps, labels: BTreeMap::new(), gate: Gate::default(), shadow: None }
    }
}

impl Default for ShadowPlan {
    fn default() -> Self {
        Self { lasts: Duration::from_secs(60), reconciles: 100, allowed: DifferenceLimit::Count(0) }
    }
}
