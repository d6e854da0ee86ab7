//! The analysis: does a canary pass its gate? Pure.
//!
//! It must rarely roll back a canary that behaves like the stable version, and rarely pass a bad one. Each
//! check is a hypothesis test: the canary is no worse than the gate allows, relative to the stable version
//! over the same time and for the same cause. If the evidence against that is strong, the canary is rolled
//! back at once. The required evidence grows with each doubling of the data, so analysing after every
//! reconcile does not raise the error rate. Weaker evidence prolongs the step and counts at its end.
//! `tests/simulation.rs` measures both error rates.
//!
//! Source: likelihood ratios of two binomial shares and of two means. The error is spent over epochs that
//! double, as sequential tests need it (Johari, Pekelis, Walsh: Always Valid Inference, 2015; Howard, Ramdas
//! et al.: Time-uniform confidence sequences, 2021).

use std::time::Duration;

use super::figures::{DURATION_MIN, FailureCount, Sample, WorkStats};
use super::{Comparison, Factor, Gate, RunTotals, VersionStats};

/// Failures that a canary may have before their share can roll it back at once.
const FAILURES_MIN: u64 = 3;
/// Odds at which a canary is rolled back at once, in the first epoch.
const ODDS: f64 = 1000.0;
/// Odds at which it is rolled back at the end of a step.
const ODDS_AT_END: f64 = 100.0;
/// Odds at which traps in [`DETECTABLE_SHARE`] more reconciles are excluded. Higher than at the end of a
/// step: the check runs once a second, and chance needs to succeed only once.
const ODDS_TOLD: f64 = 300.0;
/// Minimum number of the stable version's reconciles. Missing ones are credited with its earlier failure
/// rate.
const OLD_RUNS_MIN: f64 = 30.0;
/// Minimum number of reconciles of either version for comparing durations or writes.
const RUNS_MIN: f64 = 20.0;
/// Writes for each reconcile that every version may have: one in four.
const WRITES_MIN: f64 = 0.25;
/// Factor above the gate at which a canary surely fails, and below it at which one surely passes.
const MARGIN: f64 = 1.2;
/// Minimum variance of the writes of a reconcile, that of a coin: ten equal counts do not prove that they are
/// always equal.
const WRITES_VARIANCE_MIN: f64 = 0.25;
/// Minimum variance of the logarithm of a duration: about 30 % deviation.
const LENGTHS_VARIANCE_MIN: f64 = 0.09;
/// The additional share of traps that the analysis must be able to detect.
const DETECTABLE_SHARE: f64 = 0.03;
/// The length of a row that every version may have: a change, its consequence, and the check of that.
const ROW_MIN: u32 = 3;

/// The analysis of a canary (the terms of Argo Rollouts).
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Analysis {
    /// Within the gate.
    Pass,
    /// Beyond the gate, but possibly by chance. With a reason if chance is unlikely: then the canary is
    /// rolled back unless that changes by the end of the step.
    Inconclusive(Option<String>),
    /// Beyond the gate, with the reason.
    Fail(String),
}

/// Analyses a canary by the statistics of both versions over the same time.
pub(crate) fn analyse(gate: &Gate, both: &Comparison) -> Analysis {
    let Comparison { stable: old, canary: new, stable_totals: past } = both;
    let mut doubt = Analysis::Pass;
    for judgement in analyses(gate, old, new, past) {
        match (&judgement, &doubt) {
            (Analysis::Fail(_), _) => return judgement,
            (Analysis::Inconclusive(_), Analysis::Pass) => doubt = judgement,
            (Analysis::Inconclusive(Some(_)), Analysis::Inconclusive(None)) => doubt = judgement,
            _ => {}
        }
    }
    doubt
}

/// Returns whether there is enough data to decide. It must exclude that the canary traps, or hits limits, in
/// [`DETECTABLE_SHARE`] of its reconciles more than the stable version. It must also suffice to compare
/// writes and durations of resyncs.
pub(crate) fn is_conclusive(both: &Comparison) -> bool {
    let Comparison { stable: old, canary: new, stable_totals: _ } = both;
    let tells = |new: (u64, u64), old: (u64, u64)| {
        let counted = |(count, runs): (u64, u64)| (count as f64, runs.max(count).max(1) as f64);
        share_odds(counted(new), counted(old), DETECTABLE_SHARE) >= ODDS_TOLD.ln()
    };
    tells((new.traps, new.tries()), (old.traps, old.tries()))
        && tells((new.limits, new.tries()), (old.limits, old.tries()))
        && (has_looks(old) && has_looks(new) || lacks_looks(old) || lacks_looks(new))
}

fn has_looks(figures: &VersionStats) -> bool {
    figures.resync_work.writes.runs >= RUNS_MIN
}

/// Returns whether waiting for resyncs is useless: there are none without stored resources, and failing ones
/// are not compared.
fn lacks_looks(figures: &VersionStats) -> bool {
    figures.resync_runs.errors * 2 >= figures.resync_runs.runs
}

fn analyses(gate: &Gate, old: &VersionStats, new: &VersionStats, past: &RunTotals) -> [Analysis; 12] {
    let (traps, limits) = ((old.traps, past.traps), (old.limits, past.limits));
    let runs = (new.tries(), old.tries(), past.runs);
    [
        tally("trapped", gate.traps, new.traps, traps, runs),
        tally("hit a limit", gate.limits, new.limits, limits, runs),
        errors(gate, "after a resync", old.resync_runs, new.resync_runs, past),
        errors(gate, "after an event", old.event_runs, new.event_runs, past),
        duration(gate.duration, "after a resync", &old.first_resyncs, &new.first_resyncs),
        duration(gate.duration, "after a further resync", &old.resync_work.lengths, &new.resync_work.lengths),
        duration(gate.duration, "after an event", &old.event_work.lengths, &new.event_work.lengths),
        slowdown(gate.duration, "after a further resync", &old.resyncs_beside_usual, &new.resyncs_beside_usual),
        slowdown(gate.duration, "after an event", &old.events_beside_usual, &new.events_beside_usual),
        writes(gate.writes, "after a further resync", &old.resync_work, &new.resync_work),
        writes(gate.writes, "after an event", &old.event_work, &new.event_work),
        hot_loops(gate.hot_loops, old, new),
    ]
}

/// If the stable version never had such a failure, the canary may have as many as the gate allows; otherwise
/// no higher a share than the stable version.
fn tally(what: &str, most: u32, count: u64, old: (u64, u64), runs: (u64, u64, u64)) -> Analysis {
    let ((old_count, past_count), (runs, old_runs, past_runs)) = (old, runs);
    if count <= u64::from(most) {
        return Analysis::Pass;
    }
    let credit = share((past_count, past_runs));
    let text =
        || format!("{count} of its calls {what} in {runs} reconciles; of the stable version {old_count} in {old_runs}");
    match (old_count, past_count) {
        (0, 0) => Analysis::Fail(text()),
        // Prefers data of the same time: its cause may have come up just now.
        (0, _) => excess((count, runs), (past_count, old_runs + past_runs), credit, 0.0, text),
        _ => excess((count, runs), (old_count, old_runs), credit, 0.0, text),
    }
}

fn errors(gate: &Gate, which: &str, old: FailureCount, new: FailureCount, past: &RunTotals) -> Analysis {
    let text = || {
        let (failed, runs, old_failed, old_runs) = (new.errors, new.runs, old.errors, old.runs);
        format!("{failed} of {runs} reconciles {which} failed; of the stable version {old_failed} of {old_runs}")
    };
    let credit = share((past.errors, past.runs));
    excess((new.errors, new.runs), (old.errors, old.runs), credit, gate.errors.fraction(), text)
}

/// Compares two shares; the first may exceed the second by `more`. `credit` is the stable version's earlier
/// share.
fn excess(new: (u64, u64), old: (u64, u64), credit: f64, more: f64, text: impl Fn() -> String) -> Analysis {
    // A trapped call of `map` counts although it is no reconcile.
    let (new, old) = ((new.0, new.1.max(new.0)), (old.0, old.1.max(old.0)));
    if new.0 == 0 || share(new) <= share(old) + more {
        return Analysis::Pass;
    }
    let lacking = (OLD_RUNS_MIN - old.1 as f64).max(0.0);
    let credited = (old.0 as f64 + lacking * credit, old.1 as f64 + lacking);
    let odds = share_odds((new.0 as f64, new.1 as f64), credited, more);
    weigh(odds, new.0 as f64, new.0 >= FAILURES_MIN, text)
}

fn share((count, runs): (u64, u64)) -> f64 {
    if runs > 0 { count as f64 / runs as f64 } else { 0.0 }
}

/// Analyses by the logarithm of the odds against the canary. `looked_at` is the amount of data, which doubles
/// with each epoch.
fn weigh(odds: f64, looked_at: f64, at_once: bool, text: impl Fn() -> String) -> Analysis {
    let epoch = looked_at.max(1.0).log2();
    // The reciprocals of these over all whole epochs add up to one.
    let spent = (epoch + 1.0) * (epoch + 2.0);
    if at_once && odds >= (ODDS * spent).ln() {
        return Analysis::Fail(text());
    }
    Analysis::Inconclusive((odds >= ODDS_AT_END.ln()).then(text))
}

/// Returns the log likelihood ratio of two independent shares against shares that differ by `more`.
fn share_odds(new: (f64, f64), old: (f64, f64), more: f64) -> f64 {
    let likelihood = |(count, runs): (f64, f64), share: f64| {
        let term = |times: f64, chance: f64| if times == 0.0 { 0.0 } else { times * chance.ln() };
        term(count, share) + term(runs - count, 1.0 - share)
    };
    let own = |counted: (f64, f64)| likelihood(counted, counted.0 / counted.1);
    // A cheap upper bound with the stable version's own share: most small odds end here.
    let most = own(new) - likelihood(new, (old.0 / old.1 + more).min(1.0));
    if most < ODDS_AT_END.ln() {
        return most;
    }
    // The most likely share of the stable version under the hypothesis. The slope decreases, so bisection
    // finds its zero.
    let slope = |share: f64| {
        let of = |(count, runs): (f64, f64), share: f64| {
            let term = |times: f64, chance: f64| if times == 0.0 { 0.0 } else { times / chance };
            term(count, share) - term(runs - count, 1.0 - share)
        };
        of(new, share + more) + of(old, share)
    };
    let (mut low, mut high) = (0.0, 1.0 - more);
    for _ in 0..24 {
        let middle = f64::midpoint(low, high);
        if slope(middle) > 0.0 { low = middle } else { high = middle }
    }
    let shared = f64::midpoint(low, high);
    own(new) + own(old) - likelihood(new, shared + more) - likelihood(old, shared)
}

fn duration(most: Factor, which: &str, old: &Sample, new: &Sample) -> Analysis {
    lengths(most, old, new, || {
        let length = |sample: &Sample| DURATION_MIN.mul_f64(sample.mean().exp());
        let (is, was): (Duration, Duration) = (length(new), length(old));
        format!("its reconciles {which} take {is:.1?} in the geometric mean, those of the stable version {was:.1?}")
    })
}

/// As [`duration`], relative to the durations of the same keys on the stable version in earlier steps. With
/// few keys that differ, durations alone say little.
fn slowdown(most: Factor, which: &str, old: &Sample, new: &Sample) -> Analysis {
    lengths(most, old, new, || {
        let (is, was) = (new.mean().exp(), old.mean().exp());
        format!(
            "its reconciles {which} take {is:.2} times as long in the geometric mean as those of the stable version for \
             the same keys in the step before; the stable version itself takes {was:.2} times as long"
        )
    })
}

fn lengths(most: Factor, old: &Sample, new: &Sample, text: impl Fn() -> String) -> Analysis {
    let most = most.number();
    let bounds = (old.mean() + (most / MARGIN).max(1.0).ln(), old.mean() + most.max(1.0).ln());
    excess_of_means(old, new, bounds, LENGTHS_VARIANCE_MIN, text)
}

/// The first run of a key may bring it up to date, so only later runs are compared.
fn writes(most: Factor, which: &str, old: &WorkStats, new: &WorkStats) -> Analysis {
    let (most, was, is) = (most.number(), old.writes.mean(), new.writes.mean());
    let expected = was.max(WRITES_MIN);
    let bounds = (expected * (most / MARGIN).max(1.0), expected * most.max(1.0));
    let text = || format!("it writes {is:.2} times per reconcile {which}, the stable version {was:.2} times");
    excess_of_means(&old.writes, &new.writes, bounds, WRITES_VARIANCE_MIN, text)
}

/// Compares two means. `bounds`: the value that surely passes, and the value of the gate.
fn excess_of_means(
    old: &Sample,
    new: &Sample,
    (allowed, most): (f64, f64),
    variance_min: f64,
    text: impl Fn() -> String,
) -> Analysis {
    if old.runs.min(new.runs) < RUNS_MIN || new.mean() <= most {
        return Analysis::Pass;
    }
    let distance = new.mean() - allowed;
    let odds = distance * distance / (2.0 * old.variance_of_difference(new, variance_min));
    // Keys are assigned by chance: the evidence cannot exceed the odds of this assignment.
    let odds = if odds < ODDS_AT_END.ln() { odds } else { odds.min(deals(old.keys, new.keys)) };
    weigh(odds, new.runs / RUNS_MIN, true, text)
}

/// Returns the logarithm of the number of ways to assign the keys to two versions.
fn deals(old: u64, new: u64) -> f64 {
    let few = old.min(new);
    (1..=few).map(|number| ((old.max(new) + number) as f64 / number as f64).ln()).take(64).sum()
}

fn hot_loops(most: Factor, old: &VersionStats, new: &VersionStats) -> Analysis {
    if f64::from(new.row_max) > f64::from(old.row_max.max(ROW_MIN)) * most.number() {
        return Analysis::Fail(format!(
            "{} reconciles of one key in a row wrote or asked to run again at once; of the stable version {}",
            new.row_max, old.row_max
        ));
    }
    Analysis::Pass
}
