//! Statistics of one version's reconciles in one step, split by cause so that like is compared with like.
//!
//! A reconcile caused by an event or timer has work to do more often than a resync, and the two versions do
//! not get the same mix. So the causes are never added up. A key that keeps failing counts once, because its
//! retries tell nothing new. A key that was already failing when its version took it over does not count
//! before it succeeds.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use super::Track;

/// Maximum number of keys tracked for each version. Other keys count only in the failure rates. A table of
/// 4096 places holds this many, with room for one lookup, before it doubles.
pub(crate) const KEYS_MAX: usize = 4096 / 8 * 7 - 1;
/// Maximum bytes of the statistics of these keys for each version, including their usual durations.
pub(crate) const BYTES_MAX: u64 = 704 << 10;
/// A run that becomes ready so soon after a writing run of its key counts as caused by that write.
const FOLLOWS_WITHIN: Duration = Duration::from_millis(100);
/// Minimum number of runs of a key for a usual duration.
const USUAL_RUNS_MIN: f64 = 3.0;
/// Shorter durations count as this one.
pub(super) const DURATION_MIN: Duration = Duration::from_millis(5);

/// The result of a reconcile.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum RunResult {
    /// The guest succeeded.
    #[default]
    Success,
    /// The guest returned a failure.
    Error,
    /// The guest trapped.
    Trap,
    /// A limit ended the call.
    Limit,
}

/// One finished reconcile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunRecord {
    /// The hash of the key.
    pub(crate) key: u64,
    /// Only a resync caused it.
    pub(crate) is_resync: bool,
    /// The previous run of the key failed, on either version.
    pub(crate) is_retry: bool,
    pub(crate) end: RunResult,
    /// Its writes to the store.
    pub(crate) writes: u32,
    /// The guest asked to run again within a second.
    pub(crate) again_soon: bool,
    /// When the key became ready, from a fixed origin.
    pub(crate) ready: Duration,
    /// When the run ended, from the same origin.
    pub(crate) ended: Duration,
    pub(crate) wall: Duration,
}

/// Totals of a version since it was installed, inside and outside of rollouts.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct RunTotals {
    pub(crate) runs: u64,
    pub(crate) errors: u64,
    pub(crate) traps: u64,
    pub(crate) limits: u64,
}

/// Reconciles that could have failed, and those that did. Retries do not count.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct FailureCount {
    pub(crate) runs: u64,
    pub(crate) errors: u64,
}

/// A measure over reconciles, with the sums for the variance of its mean. Keys are the random units, because
/// each key is on one version: runs of the same key are not independent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sample {
    pub(crate) keys: u64,
    pub(crate) runs: f64,
    pub(crate) sum: f64,
    /// Sums over keys: of runs squared, of runs times sum, and of the sum squared.
    runs_runs: f64,
    runs_sum: f64,
    sum_sum: f64,
}

/// One key's part of a [`Sample`].
#[derive(Clone, Copy, Debug, Default)]
struct KeySums {
    runs: f64,
    sum: f64,
}

/// Writes and durations of the runs of one cause. Durations are logarithms relative to [`DURATION_MIN`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct WorkStats {
    pub(crate) writes: Sample,
    pub(crate) lengths: Sample,
}

/// The usual durations of a key on the stable version in earlier steps: means of logarithms, for further
/// resyncs and for runs caused by events or timers. `None` if there were too few runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Usual {
    looks: Option<f64>,
    asked: Option<f64>,
}

/// The usual durations by key, at most [`KEYS_MAX`].
type Usuals = Arc<HashMap<u64, Usual>>;

/// The statistics of one version.
#[derive(Clone, Debug, Default)]
pub(crate) struct VersionStats {
    pub(crate) runs: u64,
    /// Traps of all runs, and of calls of `map` and `poll`.
    pub(crate) traps: u64,
    pub(crate) limits: u64,
    pub(crate) resync_runs: FailureCount,
    pub(crate) event_runs: FailureCount,
    /// Durations of first resyncs in the step that wrote nothing. One that brings its key up to date has more
    /// work than on the stable version.
    pub(crate) first_resyncs: Sample,
    /// Resyncs of keys that have run before in the step.
    pub(crate) resync_work: WorkStats,
    /// Runs caused by events or timers; of the canary only those of keys that have run before in the step.
    pub(crate) event_work: WorkStats,
    /// Durations of both causes relative to the usual ones of their keys, which removes differences between
    /// keys.
    pub(crate) resyncs_beside_usual: Sample,
    pub(crate) events_beside_usual: Sample,
    /// The longest row of consecutive runs of one key, each of which wrote and was followed at once, or asked
    /// to run again soon.
    pub(crate) row_max: u32,
    keys: HashMap<u64, KeyStats>,
    usuals: Usuals,
}

/// The statistics of one key.
#[derive(Clone, Copy, Debug, Default)]
struct KeyStats {
    row: u32,
    /// A run that becomes ready until then belongs to the row of the last one.
    row_until: Duration,
    last: RunResult,
    /// It failed when its version took it over, and has not succeeded since.
    is_inherited: bool,
    /// Writes and durations of its resyncs, and of its other runs.
    looks: (KeySums, KeySums),
    asked: (KeySums, KeySums),
    /// Durations of both causes relative to the usual ones.
    resyncs_beside_usual: KeySums,
    events_beside_usual: KeySums,
}

/// The statistics of both versions over the same time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Comparison {
    pub(crate) stable: VersionStats,
    pub(crate) canary: VersionStats,
    /// Totals of the stable version before the rollout.
    pub(crate) stable_totals: RunTotals,
}

impl Comparison {
    /// Returns the statistics at the start of another step with the same deal.
    pub(crate) fn next_step(&self) -> Self {
        let usuals = self.stable.usuals_after();
        let figures = || VersionStats { usuals: usuals.clone(), ..VersionStats::default() };
        Self { stable: figures(), canary: figures(), stable_totals: self.stable_totals }
    }

    /// Records one reconcile.
    pub(crate) fn record(&mut self, side: Track, run: RunRecord) {
        match side {
            Track::Stable => self.stable.record(run, side),
            Track::Canary => self.canary.record(run, side),
        }
    }
}

impl RunTotals {
    /// Records one reconcile.
    pub(crate) fn record(&mut self, end: RunResult) {
        self.runs += 1;
        self.errors += u64::from(end == RunResult::Error);
        self.traps += u64::from(end == RunResult::Trap);
        self.limits += u64::from(end == RunResult::Limit);
    }

    /// Adds the totals of another shard.
    pub(crate) fn merge(&mut self, other: Self) {
        let Self { runs, errors, traps, limits } = other;
        (self.runs, self.errors) = (self.runs + runs, self.errors + errors);
        (self.traps, self.limits) = (self.traps + traps, self.limits + limits);
    }
}

impl VersionStats {
    fn record(&mut self, run: RunRecord, side: Track) {
        self.runs += 1;
        let has_room = self.keys.len() < KEYS_MAX;
        let (known, is_first) = match self.keys.entry(run.key) {
            Entry::Occupied(known) => (known.into_mut(), false),
            Entry::Vacant(new) if has_room => {
                (new.insert(KeyStats { is_inherited: run.is_retry, ..KeyStats::default() }), true)
            }
            Entry::Vacant(_) => return self.count(run, !run.is_retry),
        };
        let fails_anew = run.end != RunResult::Success && run.end != known.last;
        let counts = !known.is_inherited && (!run.is_retry || fails_anew);
        known.last = run.end;
        known.is_inherited &= run.end != RunResult::Success;
        self.row_max = self.row_max.max(known.row_after(run));
        if run.end == RunResult::Success {
            let length = (run.wall.max(DURATION_MIN).as_secs_f64() / DURATION_MIN.as_secs_f64()).ln();
            match (run.is_resync, is_first) {
                (true, true) if run.writes == 0 => self.first_resyncs.add(&mut KeySums::default(), length),
                (true, true) => {}
                (false, true) if side == Track::Canary => {}
                (is_resync, _) => {
                    let work = if is_resync { &mut self.resync_work } else { &mut self.event_work };
                    work.add(if is_resync { &mut known.looks } else { &mut known.asked }, run.writes, length);
                    let usual = self.usuals.get(&run.key).copied().unwrap_or_default();
                    let (sample, of, usual) = match is_resync {
                        true => (&mut self.resyncs_beside_usual, &mut known.resyncs_beside_usual, usual.looks),
                        false => (&mut self.events_beside_usual, &mut known.events_beside_usual, usual.asked),
                    };
                    if let Some(usual) = usual {
                        sample.add(of, length - usual);
                    }
                }
            }
        }
        self.count(run, counts);
    }

    fn count(&mut self, run: RunRecord, counts: bool) {
        if !counts {
            return;
        }
        let tries = if run.is_resync { &mut self.resync_runs } else { &mut self.event_runs };
        tries.runs += 1;
        match run.end {
            RunResult::Success => {}
            RunResult::Error => tries.errors += 1,
            RunResult::Trap => self.traps += 1,
            RunResult::Limit => self.limits += 1,
        }
    }

    /// Records the end of a call of `map` or `poll`. A failure does not count against the version: the guest
    /// may ask for a resource that does not exist yet.
    pub(crate) fn note_asked(&mut self, end: RunResult) {
        match end {
            RunResult::Success | RunResult::Error => {}
            RunResult::Trap => self.traps += 1,
            RunResult::Limit => self.limits += 1,
        }
    }

    /// Returns the usual durations of the keys after this step of the stable version.
    fn usuals_after(&self) -> Usuals {
        let mut usuals = HashMap::clone(&self.usuals);
        for (key, known) in &self.keys {
            let is_room = usuals.len() < KEYS_MAX;
            let usual = match usuals.entry(*key) {
                Entry::Occupied(usual) => usual.into_mut(),
                Entry::Vacant(new) if is_room => new.insert(Usual::default()),
                Entry::Vacant(_) => continue,
            };
            let mean = |of: KeySums| (of.runs >= USUAL_RUNS_MIN).then(|| of.sum / of.runs);
            usual.looks = mean(known.looks.1).or(usual.looks);
            usual.asked = mean(known.asked.1).or(usual.asked);
        }
        Arc::new(usuals)
    }

    /// Returns the number of reconciles that could have failed.
    pub(crate) fn tries(&self) -> u64 {
        self.resync_runs.runs + self.event_runs.runs
    }
}

impl KeyStats {
    /// Records a run and returns the length of its row.
    fn row_after(&mut self, run: RunRecord) -> u32 {
        let before = if run.ready <= self.row_until { self.row } else { 0 };
        self.row = if run.writes > 0 || run.again_soon { before.saturating_add(1) } else { 0 };
        self.row_until = if run.again_soon { Duration::MAX } else { run.ended + FOLLOWS_WITHIN };
        self.row
    }
}

impl WorkStats {
    fn add(&mut self, (writes, lengths): &mut (KeySums, KeySums), wrote: u32, length: f64) {
        self.writes.add(writes, f64::from(wrote));
        self.lengths.add(lengths, length);
    }
}

impl Sample {
    /// Adds the value of one more run of a key.
    fn add(&mut self, of: &mut KeySums, number: f64) {
        self.keys += u64::from(of.runs == 0.0);
        let after = KeySums { runs: of.runs + 1.0, sum: of.sum + number };
        self.runs += 1.0;
        self.sum += number;
        self.runs_runs += after.runs * after.runs - of.runs * of.runs;
        self.runs_sum += after.runs * after.sum - of.runs * of.sum;
        self.sum_sum += after.sum * after.sum - of.sum * of.sum;
        *of = after;
    }

    /// Returns the mean over runs, 0 without runs.
    pub(crate) fn mean(&self) -> f64 {
        if self.runs > 0.0 { self.sum / self.runs } else { 0.0 }
    }

    /// Returns the variance of the difference between the means of two samples. It is at least the variance
    /// of independent runs with `variance_min`.
    pub(crate) fn variance_of_difference(&self, other: &Self, variance_min: f64) -> f64 {
        let keys = (self.keys + other.keys) as f64;
        // Two degrees of freedom go to the two means.
        let squares = (self.squares() + other.squares()) * keys / (keys - 2.0).max(1.0);
        let of_runs = (squares / (self.runs + other.runs)).max(variance_min);
        let of_keys = squares / (self.runs_runs + other.runs_runs);
        let by_runs = of_runs * (1.0 / self.runs + 1.0 / other.runs);
        let by_keys = of_keys * (self.concentration() + other.concentration());
        by_runs.max(by_keys)
    }

    /// Returns the sum over keys of the squared deviation of the key's sum from its expectation under the
    /// mean.
    fn squares(&self) -> f64 {
        let mean = self.mean();
        (self.sum_sum - 2.0 * mean * self.runs_sum + mean * mean * self.runs_runs).max(0.0)
    }

    /// Returns the reciprocal of the effective number of keys: evenly distributed keys with the same
    /// variance.
    fn concentration(&self) -> f64 {
        self.runs_runs / (self.runs * self.runs)
    }
}

#[cfg(test)]
mod tests;
