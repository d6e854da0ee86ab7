//! How another definition of a controller takes the place of the one that runs: tried on a share of the keys first, and back by itself.
//!
//! Everything here is pure: what is to be done follows from a plan, the figures of both versions and the time, which are arguments.
//! Where figures come from, and what a move does, is not known here.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::shadow::ShadowPlan;

mod chosen;
mod figures;
mod gate;
mod machine;
mod part;
mod share;

pub(crate) use chosen::{BYTES_MAX as CHOSEN_BYTES_MAX, PINNED_KEYS_MAX, PinnedKeys};
pub(crate) use figures::{
    BYTES_MAX as FIGURES_BYTES_MAX, Comparison, KEYS_MAX, RunRecord, RunResult, RunTotals, VersionStats,
};
pub(crate) use gate::{Analysis, analyse};
pub(crate) use machine::{Action, CanaryMachine, Observation, STEP_TIMEOUT_FACTOR};
pub(crate) use part::{KeySplit, Track, key_hash};
pub use share::{Factor, Share};

/// How a definition is put in.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// For all keys at once.
    Immediate,
    /// For some keys first.
    Canary(CanaryPlan),
}

/// Which keys a candidate gets, one step after the other, and when it goes back. Without a step it gets all at once.
#[derive(Clone, Debug, PartialEq)]
pub struct CanaryPlan {
    /// The shares of the keys, each greater than the one before. After the last one come all. The first is none at all when labels choose
    /// the keys of the first step.
    pub steps: Vec<Share>,
    /// The labels of the keys that take the candidate from the first step on, beside the share.
    pub labels: BTreeMap<String, String>,
    /// What it must hold to.
    pub gate: Gate,
    /// How it is tried before it has a key: with what the other version is answered, and nothing of it is applied.
    pub shadow: Option<ShadowPlan>,
}

/// What a candidate must hold to, beside the version that ran before over the same time.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    /// The share of reconciles that may answer a failure beyond the old one's.
    pub errors: Share,
    /// Traps in a step.
    pub traps: u32,
    /// Calls in a step that a limit ended.
    pub limits: u32,
    /// The length of a reconcile in the geometric mean, over the old one's.
    pub duration: Factor,
    /// Writes for each reconcile of a key that ran in the step before, over the old one's.
    pub writes: Factor,
    /// Reconciles of one key in a row of which each wrote or asked to run again within a second, over the old one's.
    pub hot_loops: Factor,
    /// How long a step lasts at least.
    pub lasts: Duration,
    /// Reconciles of the candidate in a step, at least, unless there is nothing to reconcile.
    pub reconciles: u32,
}

impl CanaryPlan {
    /// Returns the share that comes after this one; `None`: all keys.
    pub(crate) fn next_step(&self, share: Option<Share>) -> Option<Share> {
        self.steps.iter().copied().find(|step| share.is_none_or(|share| *step > share))
    }

    /// Returns which step a share belongs to, from 1; 0 before the first.
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

#[cfg(test)]
mod tests;
