//! `spec.rollout`: the written form, its bounds, and the checked form.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Problems, Span};
use crate::rollout::{CanaryPlan, Factor, Gate, Plan, Share};
use crate::rollout::{DifferenceLimit, ShadowPlan};

/// Bounds of a step's minimum duration.
const LASTS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(7 * 86_400);
/// Maximum number of steps of a rollout.
const STEPS_MAX: usize = 20;
/// Maximum number of labels of a selector.
const LABELS_MAX: usize = 64;

/// How a new definition of a controller is rolled out.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RolloutWritten {
    /// For all keys at once, or for some keys first.
    #[serde(default)]
    pub strategy: Strategy,
    /// The canary's share of the keys, as a single step. Excludes `steps`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Share>,
    /// The canary's shares of the keys, step by step, each greater than the previous one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<Vec<Share>>,
    /// The keys that the canary gets from the first step on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<SelectorWritten>,
    /// The gate of each step.
    #[serde(default)]
    pub gate: GateWritten,
    /// The shadow phase before the canary gets keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow: Option<ShadowWritten>,
}

/// The strategy of a rollout.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Strategy {
    /// All keys at once.
    #[default]
    Immediate,
    /// A growing share of the keys.
    Canary,
    /// A shadow without keys first; then all keys, or a growing share if shares are given.
    Shadow,
}

/// A shadow as written; missing fields keep their defaults.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ShadowWritten {
    /// Minimum duration, as `1m`.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub lasts: Option<Span>,
    /// Minimum number of compared reconciles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reconciles: Option<u32>,
    /// Maximum number of reconciles that differ: a number, a share as `1%`, or `any`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub differences: Option<DifferencesWritten>,
}

/// The maximum number of reconciles that differ, as written.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(untagged, expecting = "expected how many may differ: a number, a share as 1%, or any")]
pub enum DifferencesWritten {
    /// A number.
    Count(u32),
    /// A share as `1%`, or `any`.
    Text(String),
}

/// Selects keys by the labels of their resources.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SelectorWritten {
    /// Required labels.
    pub match_labels: BTreeMap<String, String>,
}

/// A gate as written; missing fields keep their defaults.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GateWritten {
    /// The canary's additional share of failed reconciles, as `1%`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<Share>,
    /// Traps in a step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traps: Option<u32>,
    /// Reconciles in a step that hit a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<u32>,
    /// Duration of reconciles relative to the stable version, as `2x`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Factor>,
    /// Writes for each reconcile relative to the stable version, as `2x`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes: Option<Factor>,
    /// Consecutive reconciles of a key that cause the next one, relative to the stable version, as `10x`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hot_loops: Option<Factor>,
    /// Minimum duration of a step, as `1m`.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub lasts: Option<Span>,
    /// Minimum number of reconciles in a step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reconciles: Option<u32>,
}

/// Checks every bound and fills in the defaults.
pub(super) fn check(written: Option<&RolloutWritten>, problems: &mut Problems) -> Plan {
    let Some(RolloutWritten { strategy, share, steps, selector, gate, shadow }) = written else {
        return Plan::Immediate;
    };
    let canary = CanaryPlan {
        steps: check_steps(*share, steps.as_deref(), selector.is_some(), problems),
        labels: check_selector(selector.as_ref(), problems),
        gate: check_gate(gate, problems),
        shadow: shadow.as_ref().map(|shadow| check_shadow(shadow, problems)),
    };
    match strategy {
        Strategy::Immediate => {
            let tried = [
                ("spec.rollout.share", share.is_some()),
                ("spec.rollout.steps", steps.is_some()),
                ("spec.rollout.selector", selector.is_some()),
                ("spec.rollout.gate", *gate != GateWritten::default()),
                ("spec.rollout.shadow", shadow.is_some()),
            ];
            for (field, _) in tried.iter().filter(|(_, is_written)| *is_written) {
                problems.push(field, "needs the strategy `canary` or `shadow`: all keys change at once".to_owned());
            }
            Plan::Immediate
        }
        Strategy::Canary => Plan::Canary(canary),
        Strategy::Shadow => {
            let has_steps = share.is_some() || steps.is_some() || selector.is_some();
            if !has_steps && *gate != GateWritten::default() {
                let reason = "needs `share`, `steps` or `selector`: without them no step between the shadow and all keys has a gate";
                problems.push("spec.rollout.gate", reason.to_owned());
            }
            let steps = if has_steps { canary.steps } else { Vec::new() };
            Plan::Canary(CanaryPlan { steps, shadow: Some(canary.shadow.unwrap_or_default()), ..canary })
        }
    }
}

fn check_steps(share: Option<Share>, steps: Option<&[Share]>, chooses: bool, problems: &mut Problems) -> Vec<Share> {
    if share.is_some() && steps.is_some() {
        problems.push("spec.rollout.share", "excludes `steps`: it is a single step".to_owned());
    }
    let (field, steps) = match (share, steps) {
        (Some(share), _) => ("spec.rollout.share", vec![share]),
        (None, Some(steps)) => ("spec.rollout.steps", steps.to_vec()),
        (None, None) if chooses => return vec![Share::NONE],
        (None, None) => return CanaryPlan::default().steps,
    };
    if steps.is_empty() || steps.len() > STEPS_MAX {
        problems.push(field, format!("must have from 1 to {STEPS_MAX} shares"));
    }
    if steps.iter().any(|share| *share == Share::NONE || *share == Share::ALL) {
        problems.push(field, "must be more than 0% and less than 100%: all keys come after the last step".to_owned());
    }
    if steps.windows(2).any(|pair| pair[0] >= pair[1]) {
        problems.push(field, "must grow from step to step".to_owned());
    }
    // The step of the selected keys comes before every share.
    chooses.then_some(Share::NONE).into_iter().chain(steps).collect()
}

fn check_selector(written: Option<&SelectorWritten>, problems: &mut Problems) -> BTreeMap<String, String> {
    let Some(SelectorWritten { match_labels }) = written else { return BTreeMap::new() };
    if match_labels.is_empty() || match_labels.len() > LABELS_MAX {
        problems.push("spec.rollout.selector.matchLabels", format!("must have from 1 to {LABELS_MAX} labels"));
    }
    match_labels.clone()
}

fn check_shadow(written: &ShadowWritten, problems: &mut Problems) -> ShadowPlan {
    let ShadowWritten { lasts, reconciles, differences } = written;
    let default = ShadowPlan::default();
    problems.span("spec.rollout.shadow.for", *lasts, LASTS);
    problems.number("spec.rollout.shadow.reconciles", *reconciles, 1..=1_000_000);
    let allowed = match differences {
        None => default.allowed,
        Some(DifferencesWritten::Count(most)) => DifferenceLimit::Count(u64::from(*most)),
        Some(DifferencesWritten::Text(text)) if text == "any" => DifferenceLimit::Any,
        Some(DifferencesWritten::Text(text)) => match text.parse() {
            Ok(share) => DifferenceLimit::Share(share),
            Err(reason) => {
                let reason = format!("{reason}, as a number, or as any");
                problems.push("spec.rollout.shadow.differences", reason);
                default.allowed
            }
        },
    };
    let lasts = lasts.map_or(default.lasts, |span| span.0);
    ShadowPlan { lasts, reconciles: reconciles.map_or(default.reconciles, u64::from), allowed }
}

fn check_gate(written: &GateWritten, problems: &mut Problems) -> Gate {
    let GateWritten { errors, traps, limits, duration, writes, hot_loops, lasts, reconciles } = written;
    let default = Gate::default();
    let factors = [
        ("spec.rollout.gate.duration", duration),
        ("spec.rollout.gate.writes", writes),
        ("spec.rollout.gate.hotLoops", hot_loops),
    ];
    for (field, factor) in factors {
        problems.within(field, *factor, Factor::times(1)..=Factor::times(1000), Factor::to_string);
    }
    problems.number("spec.rollout.gate.traps", *traps, 0..=1_000_000);
    problems.number("spec.rollout.gate.limits", *limits, 0..=1_000_000);
    problems.number("spec.rollout.gate.reconciles", *reconciles, 1..=1_000_000);
    problems.span("spec.rollout.gate.for", *lasts, LASTS);
    Gate {
        errors: errors.unwrap_or(default.errors),
        traps: traps.unwrap_or(default.traps),
        limits: limits.unwrap_or(default.limits),
        duration: duration.unwrap_or(default.duration),
        writes: writes.unwrap_or(default.writes),
        hot_loops: hot_loops.unwrap_or(default.hot_loops),
        lasts: lasts.map_or(default.lasts, |span| span.0),
        reconciles: reconciles.unwrap_or(default.reconciles),
    }
}
