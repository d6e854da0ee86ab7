//! Whether a candidate holds to its gate. Pure.
//!
//! Two errors are to be rare: that a candidate which does the same as the old version goes back, and that a bad one does not. Every gate
//! is a test of a hypothesis: that the candidate does no worse than its gate allows beside what the old version did over the same time, for the
//! same cause. It goes back at once when the odds against that are great. The odds are asked for more with each doubling of what is
//! looked at, so that looking after every reconcile, as is done here, makes chance no likelier. What is less clear holds a step, and counts at its
//! end. How often each error comes about is counted in `tests/simulation.rs`.
//!
//! Source: likelihood ratios of two binomial shares and of two means, with the error spent over epochs that double, as tests that are made again
//! and again need it (Johari, Pekelis, Walsh: Always Valid Inference, 2015; Howard, Ramdas et al.: Time-uniform confidence sequences, 2021).

use std::time::Duration;

use super::figures::{DURATION_MIN, FailureCount, Sample, WorkStats};
use super::{Comparison, Factor, Gate, RunTotals, VersionStats};

/// Failures that a candidate may always have before the share of them counts at once.
const FAILURES_MIN: u64 = 3;
/// Odds at which a candidate goes back at once, in the first epoch.
const ODDS: f64 = 1000.0;
/// Odds at which it goes back at the end of a step.
const ODDS_AT_END: f64 = 100.0;
/// Odds at which traps in [`DETECTABLE_SHARE`] more reconciles are excluded. More than at the end of a step: whether they are is looked at once a second, and
/// chance needs to be right once.
const ODDS_TOLD: f64 = 300.0;
/// Reconciles that the old version has at least: what it lacks is credited by the share of failures that it had before.
const OLD_RUNS_MIN: f64 = 30.0;
/// Reconciles that lengths, or writes, are compared over, at least, of either version.
const RUNS_MIN: f64 = 20.0;
/// Writes for each reconcile that every version may have: one in four.
const WRITES_MIN: f64 = 0.25;
/// How far beyond its gate a candidate is that is surely found, and how far within it one that surely passes.
const MARGIN: f64 = 1.2;
/// The least variance of the writes of a reconcile: of a coin's. Of ten equal ones nobody knows that they are always equal.
const WRITES_VARIANCE_MIN: f64 = 0.25;
/// The same of the logarithm of a length: three in ten more or less.
const LENGTHS_VARIANCE_MIN: f64 = 0.09;
/// The share of traps, beyond the old version's, that a candidate is to be found by.
const DETECTABLE_SHARE: f64 = 0.03;
/// A row that every version may have: a change, what it brings about, and the look at that.
const ROW_MIN: u32 = 3;

/// What a candidate comes to beside its gate.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Analysis {
    /// It holds to it.
    Pass,
    /// It does not, but that may be chance. In what, where chance would hardly bring it about: then it goes back when nothing else comes up
    /// until the end of the step.
    Inconclusive(Option<String>),
    /// It does not; in what.
    Fail(String),
}

/// Judges a candidate by what both versions did over the same time.
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

/// Returns whether enough was seen of a candidate: to tell that it does not trap, or hit limits, in [`DETECTABLE_SHARE`] of its reconciles more than the old
/// version, and to compare what looks at keys write and how long they take.
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

/// Returns whether nothing can be waited for: keys are not looked at where nothing is stored, and looks that fail are not compared.
fn lacks_looks(figures: &VersionStats) -> bool {
    figures.resync_runs.errors * 2 >= figures.resync_runs.runs
}

fn analyses(gate: &Gate, old: &VersionStats, new: &VersionStats, past: &RunTotals) -> [Analysis; 12] {
    let (traps, limits) = ((old.traps, past.traps), (old.limits, past.limits));
    let runs = (new.tries(), old.tries(), past.runs);
    [
        tally("trapped", gate.traps, new.traps, traps, runs),
        tally("hit a limit", gate.limits, new.limits, limits, runs),
        errors(gate, "that look at a key", old.resync_runs, new.resync_runs, past),
        errors(gate, "that were asked for", old.event_runs, new.event_runs, past),
        duration(gate.duration, "that look at a key", &old.first_resyncs, &new.first_resyncs),
        duration(gate.duration, "that look once more", &old.resync_work.lengths, &new.resync_work.lengths),
        duration(gate.duration, "that are asked for", &old.event_work.lengths, &new.event_work.lengths),
        slowdown(gate.duration, "that look once more", &old.resyncs_beside_usual, &new.resyncs_beside_usual),
        slowdown(gate.duration, "that are asked for", &old.events_beside_usual, &new.events_beside_usual),
        writes(gate.writes, "that looks once more", &old.resync_work, &new.resync_work),
        writes(gate.writes, "that is asked for", &old.event_work, &new.event_work),
        hot_loops(gate.hot_loops, old, new),
    ]
}

/// What the old version has never done the candidate must not do more often than the gate says; what it does, not more often than that one.
fn tally(what: &str, most: u32, count: u64, old: (u64, u64), runs: (u64, u64, u64)) -> Analysis {
    let ((old_count, past_count), (runs, old_runs, past_runs)) = (old, runs);
    if count <= u64::from(most) {
        return Analysis::Pass;
    }
    let credit = share((past_count, past_runs));
    let text =
        || format!("{count} of its calls {what} in {runs} reconciles, of the old version's {old_count} in {old_runs}");
    match (old_count, past_count) {
        (0, 0) => Analysis::Fail(text()),
        // Over the same time, where there is something: what brings it about may have come up just now.
        (0, _) => excess((count, runs), (past_count, old_runs + past_runs), credit, 0.0, text),
        _ => excess((count, runs), (old_count, old_runs), credit, 0.0, text),
    }
}

fn errors(gate: &Gate, which: &str, old: FailureCount, new: FailureCount, past: &RunTotals) -> Analysis {
    let text = || {
        let (failed, runs, old_failed, old_runs) = (new.errors, new.runs, old.errors, old.runs);
        format!("{failed} of {runs} reconciles {which} failed, of the old version's {old_failed} of {old_runs}")
    };
    let credit = share((past.errors, past.runs));
    excess((new.errors, new.runs), (old.errors, old.runs), credit, gate.errors.fraction(), text)
}

/// Compares two shares. The first may be greater by `more`. `credit`: the share that the old version had before.
fn excess(new: (u64, u64), old: (u64, u64), credit: f64, more: f64, text: impl Fn() -> String) -> Analysis {
    // A call of `map` that trapped is no reconcile.
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

/// Judges by the logarithm of the odds against a candidate. `looked_at`: how much there is, which doubles from epoch to epoch.
fn weigh(odds: f64, looked_at: f64, at_once: bool, text: impl Fn() -> String) -> Analysis {
    let epoch = looked_at.max(1.0).log2();
    // The reciprocals of these over all whole epochs add up to one.
    let spent = (epoch + 1.0) * (epoch + 2.0);
    if at_once && odds >= (ODDS * spent).ln() {
        return Analysis::Fail(text());
    }
    Analysis::Inconclusive((odds >= ODDS_AT_END.ln()).then(text))
}

/// Returns the logarithm of how much likelier two counts are with shares of their own than with the first share greater by `more` alone.
fn share_odds(new: (f64, f64), old: (f64, f64), more: f64) -> f64 {
    let likelihood = |(count, runs): (f64, f64), share: f64| {
        let term = |times: f64, chance: f64| if times == 0.0 { 0.0 } else { times * chance.ln() };
        term(count, share) + term(runs - count, 1.0 - share)
    };
    let own = |counted: (f64, f64)| likelihood(counted, counted.0 / counted.1);
    // With the old version's own share the odds are no less, and found at once: most that are small end here.
    let most = own(new) - likelihood(new, (old.0 / old.1 + more).min(1.0));
    if most < ODDS_AT_END.ln() {
        return most;
    }
    // The likeliest share of the old version under that: the slope falls, so halving finds where it is none.
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
        format!("its reconciles {which} take {is:.1?} in the geometric mean, the old version's {was:.1?}")
    })
}

/// As [`duration`], beside what the old version took for the same keys in steps before: of a few keys that differ, their lengths alone say little.
fn slowdown(most: Factor, which: &str, old: &Sample, new: &Sample) -> Analysis {
    lengths(most, old, new, || {
        let (is, was) = (new.mean().exp(), old.mean().exp());
        format!(
            "its reconciles {which} take {is:.2} times as long in the geometric mean as the old version's of the same keys in the step \
             before, that one's {was:.2} times"
        )
    })
}

fn lengths(most: Factor, old: &Sample, new: &Sample, text: impl Fn() -> String) -> Analysis {
    let most = most.number();
    let bounds = (old.mean() + (most / MARGIN).max(1.0).ln(), old.mean() + most.max(1.0).ln());
    excess_of_means(old, new, bounds, LENGTHS_VARIANCE_MIN, text)
}

/// The first run of a key may bring it up to date; those that follow have to do what the old version's have.
fn writes(most: Factor, which: &str, old: &WorkStats, new: &WorkStats) -> Analysis {
    let (most, was, is) = (most.number(), old.writes.mean(), new.writes.mean());
    let expected = was.max(WRITES_MIN);
    let bounds = (expected * (most / MARGIN).max(1.0), expected * most.max(1.0));
    let text = || format!("it writes {is:.2} times for each reconcile {which}, the old version {was:.2} times");
    excess_of_means(&old.writes, &new.writes, bounds, WRITES_VARIANCE_MIN, text)
}

/// Compares two means. `bounds`: what a candidate surely may come to, and what its gate says.
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
    // Chance deals the keys: what it would deal like this once in so many times is no evidence of more.
    let odds = if odds < ODDS_AT_END.ln() { odds } else { odds.min(deals(old.keys, new.keys)) };
    weigh(odds, new.runs / RUNS_MIN, true, text)
}

/// Returns the logarithm of in how many ways so many keys are dealt to two versions.
fn deals(old: u64, new: u64) -> f64 {
    let few = old.min(new);
    (1..=few).map(|number| ((old.max(new) + number) as f64 / number as f64).ln()).take(64).sum()
}

fn hot_loops(most: Factor, old: &VersionStats, new: &VersionStats) -> Analysis {
    if f64::from(new.row_max) > f64::from(old.row_max.max(ROW_MIN)) * most.number() {
        return Analysis::Fail(format!(
            "{} reconciles of one key in a row wrote or asked to run again at once, of the old version's {}",
            new.row_max, old.row_max
        ));
    }
    Analysis::Pass
}
