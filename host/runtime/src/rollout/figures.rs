//! What the reconciles of one version came to in one step, taken apart so that like is compared with like.
//!
//! A reconcile that an event or a timer asked for has something to do more often than a second look has, and the two sides of a trial do not
//! have the same share of each. So they are never added up. A key that fails on and on counts once: its retries say nothing new. One that
//! failed already when its version took it over says nothing before it succeeds.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use super::Track;

/// Keys of which runs are told apart, of each version. What other keys do counts in the shares of failures alone. As many as a table of 4096
/// places takes, with room for the one that is looked up, before it grows to twice that.
pub(crate) const KEYS_MAX: usize = 4096 / 8 * 7 - 1;
/// Bytes of what is known of them, of each version, with what is usual of them.
pub(crate) const BYTES_MAX: u64 = 704 << 10;
/// A run that becomes ready so soon after one of its key that wrote follows from that write, as far as anybody can tell.
const FOLLOWS_WITHIN: Duration = Duration::from_millis(100);
/// Runs of a key of which the mean length says what is usual.
const USUAL_RUNS_MIN: f64 = 3.0;
/// What takes less counts as this much.
pub(super) const DURATION_MIN: Duration = Duration::from_millis(5);

/// How a reconcile ended.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum RunResult {
    /// The guest succeeded.
    #[default]
    Success,
    /// The guest answered a failure.
    Error,
    /// The guest trapped.
    Trap,
    /// A limit ended the call.
    Limit,
}

/// One reconcile that ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunRecord {
    /// Tells its key from others.
    pub(crate) key: u64,
    /// Nothing but a second look asked for it.
    pub(crate) is_resync: bool,
    /// The run before it failed, whichever version that was.
    pub(crate) is_retry: bool,
    pub(crate) end: RunResult,
    /// Writes to the store that it asked for.
    pub(crate) writes: u32,
    /// It asked to be run again within a second.
    pub(crate) again_soon: bool,
    /// When its key was ready, counted from a moment that stays the same.
    pub(crate) ready: Duration,
    /// When it ended.
    pub(crate) ended: Duration,
    pub(crate) wall: Duration,
}

/// What a version did since it was put in, in steps and between them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct RunTotals {
    pub(crate) runs: u64,
    pub(crate) errors: u64,
    pub(crate) traps: u64,
    pub(crate) limits: u64,
}

/// Reconciles that may count as failed, and how many of them did. Retries are not among them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct FailureCount {
    pub(crate) runs: u64,
    pub(crate) errors: u64,
}

/// A number that each of some reconciles has, with what it takes to say how far chance moves its mean. Keys are the units that chance deals
/// to one version or the other: runs of one key are no evidence of each other's.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sample {
    pub(crate) keys: u64,
    pub(crate) runs: f64,
    pub(crate) sum: f64,
    /// The sums over keys of the squares of its runs, of their product with its sum, and of the squares of its sum.
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

/// What the runs of one cause came to: writes, and lengths as logarithms over [`DURATION_MIN`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct WorkStats {
    pub(crate) writes: Sample,
    pub(crate) lengths: Sample,
}

/// How long the runs of a key by the old version took in steps before: means of logarithms, of those that looked once more and of those that were
/// asked for. `None`: there were too few.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Usual {
    looks: Option<f64>,
    asked: Option<f64>,
}

/// What is usual of each key, at most of [`KEYS_MAX`].
type Usuals = Arc<HashMap<u64, Usual>>;

/// The sums of one version.
#[derive(Clone, Debug, Default)]
pub(crate) struct VersionStats {
    pub(crate) runs: u64,
    /// Those of `looks` and `asked`, and calls of `map` and `poll`.
    pub(crate) traps: u64,
    pub(crate) limits: u64,
    pub(crate) resync_runs: FailureCount,
    pub(crate) event_runs: FailureCount,
    /// First looks of a step that wrote nothing: the lengths alone. One that brings its key up to date has more to do than the old version.
    pub(crate) first_resyncs: Sample,
    /// Looks at keys that have run before in the step.
    pub(crate) resync_work: WorkStats,
    /// Runs that an event or a timer asked for; of the candidate, those of keys that have run before in the step.
    pub(crate) event_work: WorkStats,
    /// The lengths of both, as differences from what is usual of their keys: what keys differ in is taken away.
    pub(crate) resyncs_beside_usual: Sample,
    pub(crate) events_beside_usual: Sample,
    /// The most runs of one key in a row of which each wrote, and was followed at once by the next, or asked to run again soon.
    pub(crate) row_max: u32,
    keys: HashMap<u64, KeyStats>,
    usuals: Usuals,
}

/// What is known of one key.
#[derive(Clone, Copy, Debug, Default)]
struct KeyStats {
    row: u32,
    /// What the last run of the row left behind: until when a run that becomes ready belongs to it.
    row_until: Duration,
    last: RunResult,
    /// It failed when its version took it over, and has not succeeded since.
    is_inherited: bool,
    /// Writes and lengths of its looks, and of its other runs.
    looks: (KeySums, KeySums),
    asked: (KeySums, KeySums),
    /// Lengths of both beside what is usual.
    resyncs_beside_usual: KeySums,
    events_beside_usual: KeySums,
}

/// Both versions over the same time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Comparison {
    pub(crate) stable: VersionStats,
    pub(crate) canary: VersionStats,
    /// What the old version did before.
    pub(crate) stable_totals: RunTotals,
}

impl Comparison {
    /// Returns what there is at the beginning of another step by the same deal.
    pub(crate) fn next_step(&self) -> Self {
        let usuals = self.stable.usuals_after();
        let figures = || VersionStats { usuals: usuals.clone(), ..VersionStats::default() };
        Self { stable: figures(), canary: figures(), stable_totals: self.stable_totals }
    }

    /// Takes note of one reconcile.
    pub(crate) fn record(&mut self, side: Track, run: RunRecord) {
        match side {
            Track::Stable => self.stable.record(run, side),
            Track::Canary => self.canary.record(run, side),
        }
    }
}

impl RunTotals {
    /// Takes note of one reconcile.
    pub(crate) fn record(&mut self, end: RunResult) {
        self.runs += 1;
        self.errors += u64::from(end == RunResult::Error);
        self.traps += u64::from(end == RunResult::Trap);
        self.limits += u64::from(end == RunResult::Limit);
    }

    /// Adds what another thread has noted.
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

    /// Takes note of how a call of `map` or `poll` ended. That one fails says nothing of the version: what it asks for may not be there yet.
    pub(crate) fn note_asked(&mut self, end: RunResult) {
        match end {
            RunResult::Success | RunResult::Error => {}
            RunResult::Trap => self.traps += 1,
            RunResult::Limit => self.limits += 1,
        }
    }

    /// Returns what is usual of keys behind this step of the old version.
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

    /// Returns how many reconciles may count as failed.
    pub(crate) fn tries(&self) -> u64 {
        self.resync_runs.runs + self.event_runs.runs
    }
}

impl KeyStats {
    /// Notes a run, and returns how long the row is that it belongs to.
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
    /// Adds the number of one more run of a key.
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

    /// Returns the mean over runs; of none, 0.
    pub(crate) fn mean(&self) -> f64 {
        if self.runs > 0.0 { self.sum / self.runs } else { 0.0 }
    }

    /// Returns the square of how far chance moves the difference of the means of two samples, which is no less than if runs did not depend on
    /// their keys and their numbers had this variance.
    pub(crate) fn variance_of_difference(&self, other: &Self, variance_min: f64) -> f64 {
        let keys = (self.keys + other.keys) as f64;
        // Two means are taken from the same keys.
        let squares = (self.squares() + other.squares()) * keys / (keys - 2.0).max(1.0);
        let of_runs = (squares / (self.runs + other.runs)).max(variance_min);
        let of_keys = squares / (self.runs_runs + other.runs_runs);
        let by_runs = of_runs * (1.0 / self.runs + 1.0 / other.runs);
        let by_keys = of_keys * (self.concentration() + other.concentration());
        by_runs.max(by_keys)
    }

    /// Returns the sum over keys of the squares of how far its sum is from what the mean says.
    fn squares(&self) -> f64 {
        let mean = self.mean();
        (self.sum_sum - 2.0 * mean * self.runs_sum + mean * mean * self.runs_runs).max(0.0)
    }

    /// Returns one over the number of keys that as many runs would have to be spread over evenly.
    fn concentration(&self) -> f64 {
        self.runs_runs / (self.runs * self.runs)
    }
}

#[cfg(test)]
mod tests;
