//! Whether a candidate holds to its gate. Pure.
//!
//! Small numbers decide nothing by themselves: a share that is above the gate counts against a candidate at once only when chance would
//! hardly bring it about, and at the end of a step in any case.

use std::time::Duration;

use super::{Both, Factor, Figures, Gate};

/// Failures that a candidate may always have before the share of them counts at once.
const FAILURES_MIN: u64 = 3;
/// Standard deviations between chance and a difference.
const DEVIATIONS: f64 = 3.0;
/// Reconciles that medians, or writes, are compared over, at least.
const RUNS_MIN: u64 = 20;
/// What takes less counts as this much.
const DURATION_MIN: Duration = Duration::from_millis(5);
/// Writes for each reconcile that every version may have: one in four reconciles that follow another one of their key.
const WRITES_MIN: f64 = 0.25;
/// A row that every version may have: a change, what it brings about, and the look at that.
const ROW_MIN: u32 = 3;

/// What a candidate comes to beside its gate.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Judgement {
    /// It holds to it.
    Within,
    /// It does not, but that may be chance; in what.
    Doubtful(String),
    /// It does not; in what.
    Beyond(String),
}

/// Judges a candidate by what both versions did over the same time.
pub(crate) fn judge(gate: &Gate, both: &Both) -> Judgement {
    let Both { old, new } = both;
    let judgements = [
        tally("trapped", gate.traps, (new.traps, new.runs), (old.traps, old.runs)),
        tally("hit a limit", gate.limits, (new.limits, new.runs), (old.limits, old.runs)),
        errors(gate, old, new),
        duration(gate.duration, old, new),
        writes(gate.writes, old, new),
        hot_loops(gate.hot_loops, old, new),
    ];
    let mut doubt = Judgement::Within;
    for judgement in judgements {
        match judgement {
            Judgement::Beyond(_) => return judgement,
            Judgement::Doubtful(_) if doubt == Judgement::Within => doubt = judgement,
            Judgement::Doubtful(_) | Judgement::Within => {}
        }
    }
    doubt
}

/// What never happens with the old version must not happen more often than the gate says; what does happen, not more often than there.
fn tally(what: &str, most: u32, new: (u64, u64), old: (u64, u64)) -> Judgement {
    let (count, runs) = new;
    if count <= u64::from(most) {
        return Judgement::Within;
    }
    let text =
        || format!("{count} of its calls {what} in {runs} reconciles, of the old version's {} in {}", old.0, old.1);
    if old.0 == 0 { Judgement::Beyond(text()) } else { excess(new, old, 0.0, text) }
}

fn errors(gate: &Gate, old: &Figures, new: &Figures) -> Judgement {
    let text = || {
        format!("{} of {} reconciles failed, of the old version's {} of {}", new.errors, new.runs, old.errors, old.runs)
    };
    excess((new.errors, new.runs), (old.errors, old.runs), gate.errors.fraction(), text)
}

/// Compares two shares. The first may be greater by `more`.
///
/// Source: the test of two proportions with pooled variance, at three standard deviations: it is made after every reconcile.
fn excess(new: (u64, u64), old: (u64, u64), more: f64, text: impl Fn() -> String) -> Judgement {
    let ((failed, runs), (old_failed, old_runs)) = ((new.0 as f64, new.1 as f64), (old.0 as f64, old.1 as f64));
    let old_share = if old_runs > 0.0 { old_failed / old_runs } else { 0.0 };
    let surplus = failed - runs * (old_share + more);
    if surplus <= 0.0 {
        return Judgement::Within;
    }
    // Where there is nothing to compare with, the gate stands alone.
    let (pooled, widened) =
        if old_runs > 0.0 { ((failed + old_failed) / (runs + old_runs), 1.0 + runs / old_runs) } else { (more, 1.0) };
    let deviation = (runs * pooled * (1.0 - pooled) * widened).sqrt();
    if new.0 >= FAILURES_MIN && surplus > DEVIATIONS * deviation {
        Judgement::Beyond(text())
    } else {
        Judgement::Doubtful(text())
    }
}

fn duration(most: Factor, old: &Figures, new: &Figures) -> Judgement {
    if old.runs.min(new.runs) < RUNS_MIN {
        return Judgement::Within;
    }
    let (was, is) = (old.median(), new.median());
    if is > was.max(DURATION_MIN).mul_f64(most.number()) {
        return Judgement::Beyond(format!(
            "half of its reconciles take {is:.1?} and more, of the old version's {was:.1?}"
        ));
    }
    Judgement::Within
}

/// The first look at a key may bring it up to date; those that follow have nothing to do unless something has changed.
fn writes(most: Factor, old: &Figures, new: &Figures) -> Judgement {
    if new.repeats < RUNS_MIN {
        return Judgement::Within;
    }
    let was = if old.runs == 0 { 1.0 } else { old.writes as f64 / old.runs as f64 };
    let is = new.repeat_writes as f64 / new.repeats as f64;
    if is > was.max(WRITES_MIN) * most.number() {
        return Judgement::Beyond(format!(
            "it writes {is:.2} times for each reconcile of a key that it has reconciled before, the old version {was:.2} times"
        ));
    }
    Judgement::Within
}

fn hot_loops(most: Factor, old: &Figures, new: &Figures) -> Judgement {
    if f64::from(new.row_max) > f64::from(old.row_max.max(ROW_MIN)) * most.number() {
        return Judgement::Beyond(format!(
            "{} reconciles of one key in a row wrote or asked to run again at once, of the old version's {}",
            new.row_max, old.row_max
        ));
    }
    Judgement::Within
}
