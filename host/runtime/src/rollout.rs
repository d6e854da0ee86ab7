//! Rollouts: how a new definition of a controller replaces the stable one, on a share of the keys first, with
//! automatic rollback. The whole of a rollout lies here.
//!
//! * The rules are pure; statistics and time are their arguments. `plan` has the steps, `machine` decides the
//!   next action, `gate` judges the `figures` of both versions, `deal` and `key_split` give each key its
//!   version, and `shadow_report` judges a shadow.
//! * `canary_step` collects the figures of one step, and `shadow` runs a canary whose effects are not applied.
//! * `canary` gives a running controller's canary its keys and takes them back.
//! * `status` is the rollout in the status of its controller. `active_rollout` performs the next action of the
//!   machine, with the status written first.
//!
//! Deliberately absent: the versions of a controller (`slot`), and when a rollout starts
//! (`controller_reconciler`).

mod active_rollout;
mod canary;
mod canary_step;
mod deal;
mod figures;
mod gate;
mod key_split;
mod machine;
mod pinned_keys;
mod plan;
pub mod shadow;
mod shadow_report;
mod share;
mod shared_rollout;
mod status;

pub(crate) use active_rollout::{ActiveRollout, RolloutState, needs_rollout};
pub(crate) use canary_step::{CanaryStep, run_result};
pub(crate) use deal::Deal;
pub(crate) use figures::{
    BYTES_MAX as FIGURES_BYTES_MAX, Comparison, KEYS_MAX, RunRecord, RunResult, RunTotals, VersionStats,
};
pub(crate) use gate::{Analysis, analyse};
pub(crate) use key_split::{KeySplit, Track, key_hash};
pub(crate) use machine::{Action, CanaryMachine, Observation};
pub(crate) use pinned_keys::{BYTES_MAX as CHOSEN_BYTES_MAX, PINNED_KEYS_MAX, PinnedKeys};
pub use plan::{CanaryPlan, DifferenceLimit, Gate, Plan, ShadowPlan};
pub(crate) use shadow_report::CompareResult;
pub use shadow_report::{DifferenceCount, ReconcileDifference, ShadowReport, ShadowVerdict, UnfitReason};
pub use share::{Factor, Share};
pub(crate) use shared_rollout::{SeenRollout, SharedRollout, SharedStep, attempt_id, version_id};
pub(crate) use status::{RolloutPhase, RolloutStatus};

#[cfg(test)]
mod tests;
