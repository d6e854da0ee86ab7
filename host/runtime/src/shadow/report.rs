//! What a shadow came to so far, and whether that is enough. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::compare::ReconcileDifference;
use crate::rollout::{STEP_TIMEOUT_FACTOR, Share};
use crate::stats::ShadowOutcome;

/// Differences that stand in a status.
const BRIEF: usize = 8;
/// Differences that are kept beside the counts.
const DIFFERENCES_MAX: usize = 64;

/// For how long a new version is tried as a shadow, and what is let pass.
#[derive(Clone, Debug, PartialEq)]
pub struct ShadowPlan {
    /// How long it lasts at least.
    pub lasts: Duration,
    /// Reconciles that are compared, at least, unless four times its length has passed.
    pub reconciles: u64,
    /// Reconciles that may differ.
    pub allowed: DifferenceLimit,
}

/// How many reconciles may differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DifferenceLimit {
    /// All of them: they are to.
    Any,
    /// So many.
    Count(u64),
    /// This share of those that were compared.
    Share(Share),
}

/// Why two reconciles could not be compared.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum UnfitReason {
    /// What the old one did is more than may be kept.
    TooLong,
    /// The grants of the new one do not let it be told of the key.
    NotGranted,
    /// The old one was stopped, by a trap or a limit.
    OldStopped,
    /// What was there before the old one wrote is not known any more.
    PastIsGone,
    /// The new one listed, page by page, what it or the old one had changed.
    ListOfChanged,
    /// The store could not be read.
    StoreFailed,
    /// The host failed.
    HostFailed,
}

/// What came of one pair of reconciles.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum CompareResult {
    /// Both did the same.
    Equal,
    /// They differ.
    Differing {
        /// In this.
        differences: Vec<ReconcileDifference>,
        /// The new one failed, and the old one did not.
        failed_alone: bool,
    },
    /// They could not be compared.
    Unfit(UnfitReason),
}

impl Default for ShadowPlan {
    fn default() -> Self {
        Self { lasts: Duration::from_secs(60), reconciles: 100, allowed: DifferenceLimit::Count(0) }
    }
}

impl CompareResult {
    /// Returns what metrics call it.
    pub(super) fn in_one_word(&self) -> ShadowOutcome {
        match self {
            Self::Equal => ShadowOutcome::Equal,
            Self::Differing { failed_alone: false, .. } => ShadowOutcome::Differing,
            Self::Differing { failed_alone: true, .. } => ShadowOutcome::Error,
            Self::Unfit(_) => ShadowOutcome::Unfit,
        }
    }
}

/// What a shadow came to so far.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShadowReport {
    /// Reconciles that were compared.
    pub compared: u64,
    /// Of those, in which both did the same.
    pub equal: u64,
    /// Of those, in which they did not.
    pub differing: u64,
    /// Of those, in which the new version alone failed, trapped or hit a limit.
    pub errors: u64,
    /// Reconciles that could not be compared.
    pub unfit: u64,
    /// Why they could not.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unfit_because: BTreeMap<UnfitReason, u64>,
    /// Reconciles of the old version that the new one had no time for.
    pub skipped: u64,
    /// What differs, the first 64 by resource and field.
    pub differences: Vec<DifferenceCount>,
    /// How often something else differed.
    pub left_out: u64,
}

/// A difference, and how often it was found.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DifferenceCount {
    /// As it was found first.
    #[serde(flatten)]
    pub first: ReconcileDifference,
    /// How often this field of this resource differed.
    pub times: u64,
}

/// Whether a new version may go on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ShadowVerdict {
    /// It is not known yet.
    Inconclusive,
    /// It may.
    Passed,
    /// It may not, and why.
    Failed(String),
}

impl ShadowReport {
    pub(super) fn note(&mut self, compared: CompareResult) {
        match compared {
            CompareResult::Equal => {
                self.compared += 1;
                self.equal += 1;
            }
            CompareResult::Differing { differences, failed_alone } => {
                self.compared += 1;
                self.differing += 1;
                self.errors += u64::from(failed_alone);
                for difference in differences {
                    self.keep(difference);
                }
            }
            CompareResult::Unfit(why) => {
                self.unfit += 1;
                *self.unfit_because.entry(why).or_default() += 1;
            }
        }
    }

    fn keep(&mut self, found: ReconcileDifference) {
        let is_same = |known: &&mut DifferenceCount| {
            let ReconcileDifference { key, verb, field, old: _, new: _ } = &known.first;
            (key, verb, field) == (&found.key, &found.verb, &found.field)
        };
        let has_room = self.differences.len() < DIFFERENCES_MAX;
        match self.differences.iter_mut().find(is_same) {
            Some(known) => known.times += 1,
            None if has_room => {
                self.differences.push(DifferenceCount { first: found, times: 1 });
            }
            None => self.left_out += 1,
        }
    }

    /// Returns whether this is enough for a plan.
    ///
    /// More differences than a number that is allowed fail at once; a share is only known at the end. A shadow that has come to fewer
    /// reconciles than it wants after four times its length ends, too: there are no more.
    pub fn verdict(&self, plan: &ShadowPlan, lasted: Duration) -> ShadowVerdict {
        let ShadowPlan { lasts, reconciles, allowed } = *plan;
        let is_late = lasted >= lasts * STEP_TIMEOUT_FACTOR;
        let is_over = is_late || lasted >= lasts && self.compared >= reconciles;
        let is_beyond = match allowed {
            DifferenceLimit::Any => false,
            DifferenceLimit::Count(most) => self.differing > most,
            DifferenceLimit::Share(most) => {
                is_over && self.differing * 10_000 > u64::from(most.of_ten_thousand()) * self.compared
            }
        };
        if is_beyond {
            ShadowVerdict::Failed(self.reason())
        } else if !is_over {
            ShadowVerdict::Inconclusive
        } else if self.compared == 0 && self.unfit > 0 {
            ShadowVerdict::Failed(format!("none of {} reconciles could be compared", self.unfit))
        } else {
            ShadowVerdict::Passed
        }
    }

    /// Returns the same with the first eight differences alone, as it stands in a status.
    #[must_use]
    pub fn brief(&self) -> Self {
        let mut brief = self.clone();
        let cut = brief.differences.split_off(brief.differences.len().min(BRIEF));
        brief.left_out += cut.iter().map(|counted| counted.times).sum::<u64>();
        brief
    }

    /// Says how many differ, and the first things in which they do.
    fn reason(&self) -> String {
        const TOLD: usize = 3;
        let told: Vec<String> = self.differences.iter().take(TOLD).map(|counted| counted.first.to_string()).collect();
        let more = if self.differences.len() > TOLD || self.left_out > 0 { "; and more" } else { "" };
        let Self { differing, compared, .. } = self;
        format!(
            "{differing} of {compared} reconciles differ from those of the version that runs: {}{more}",
            told.join("; ")
        )
    }
}

#[cfg(test)]
mod tests;
