//! The report of a shadow, and its verdict. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use homeostat_store::Key;

use super::plan::STEP_TIMEOUT_FACTOR;
use super::{DifferenceLimit, ShadowPlan};
use crate::stats::ShadowOutcome;

/// Maximum number of differences in a status.
const BRIEF: usize = 8;
/// Maximum number of differences kept in addition to the counts.
const DIFFERENCES_MAX: usize = 64;

/// One difference of the candidate.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReconcileDifference {
    /// The resource that is written or mentioned, else the reconciled key.
    pub key: Key,
    /// The verb of a write, or `reconcile` (its result), `http`, `emit`, `follow` or `grants` (a denial of
    /// the candidate).
    pub verb: String,
    /// The path of the field. Empty for a write as a whole.
    pub field: String,
    /// The value of the stable version, at most 120 bytes; `None` if missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    /// The value of the candidate, at most 120 bytes; `None` if missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
}

/// Why two runs could not be compared.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum UnfitReason {
    /// The stable run exceeds the bound of a capture.
    TooLong,
    /// The candidate has no grant for the key.
    NotGranted,
    /// A trap or limit ended the stable run.
    OldStopped,
    /// The history before the stable version's write was compacted.
    PastIsGone,
    /// The candidate listed resources in pages that one of the versions had changed.
    ListOfChanged,
    /// The store could not be read.
    StoreFailed,
    /// The host failed.
    HostFailed,
}

/// The result of comparing two runs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum CompareResult {
    /// Both versions did the same.
    Equal,
    /// The versions differ.
    Differing {
        /// The differences.
        differences: Vec<ReconcileDifference>,
        /// The candidate failed and the stable version did not.
        failed_alone: bool,
    },
    /// They could not be compared.
    Unfit(UnfitReason),
}

impl CompareResult {
    /// Returns the label value in metrics.
    pub(crate) fn in_one_word(&self) -> ShadowOutcome {
        match self {
            Self::Equal => ShadowOutcome::Equal,
            Self::Differing { failed_alone: false, .. } => ShadowOutcome::Differing,
            Self::Differing { failed_alone: true, .. } => ShadowOutcome::Error,
            Self::Unfit(_) => ShadowOutcome::Unfit,
        }
    }
}

/// The report of a shadow so far.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShadowReport {
    /// Compared reconciles.
    pub compared: u64,
    /// Compared reconciles without differences.
    pub equal: u64,
    /// Compared reconciles with differences.
    pub differing: u64,
    /// Compared reconciles in which only the candidate failed, trapped or hit a limit.
    pub errors: u64,
    /// Reconciles that could not be compared.
    pub unfit: u64,
    /// The same by reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unfit_because: BTreeMap<UnfitReason, u64>,
    /// Reconciles of the stable version that were not captured because the shadow was busy.
    pub skipped: u64,
    /// The first 64 differences by resource and field.
    pub differences: Vec<DifferenceCount>,
    /// Occurrences of further differences.
    pub left_out: u64,
}

/// A difference and its number of occurrences.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DifferenceCount {
    /// The first occurrence.
    #[serde(flatten)]
    pub first: ReconcileDifference,
    /// How often this field of this resource differed.
    pub times: u64,
}

/// The verdict on a candidate.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ShadowVerdict {
    /// There is not enough data yet.
    Inconclusive,
    /// The candidate passed.
    Passed,
    /// The candidate failed, for this reason.
    Failed(String),
}

impl ShadowReport {
    pub(crate) fn note(&mut self, compared: CompareResult) {
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

    /// Returns the verdict under a plan.
    ///
    /// Exceeding an allowed number fails at once; a share is known only at the end. After four times its
    /// duration a shadow ends even with too few reconciles: there are no more.
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

    /// Returns the report with only the first eight differences, for a status.
    #[must_use]
    pub fn brief(&self) -> Self {
        let mut brief = self.clone();
        let cut = brief.differences.split_off(brief.differences.len().min(BRIEF));
        brief.left_out += cut.iter().map(|counted| counted.times).sum::<u64>();
        brief
    }

    /// Returns a text with the number of differing reconciles and the first differences.
    fn reason(&self) -> String {
        const TOLD: usize = 3;
        let told: Vec<String> = self.differences.iter().take(TOLD).map(|counted| counted.first.to_string()).collect();
        let more = if self.differences.len() > TOLD || self.left_out > 0 { "; and more" } else { "" };
        let Self { differing, compared, .. } = self;
        format!(
            "{differing} of {compared} reconciles differ from those of the stable version: {}{more}",
            told.join("; ")
        )
    }
}

#[cfg(test)]
mod tests;
