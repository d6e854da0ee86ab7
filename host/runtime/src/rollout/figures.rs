//! What the reconciles of one version came to in one step.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

/// Keys of which runs are told apart, of each version: 128 KiB at most. What other keys do counts all the same, but not key by key.
const KEYS_MAX: usize = 4096;
/// Buckets of the histogram for each doubling of a length: a median is at most a fifth too great.
const BUCKETS_PER_OCTAVE: f64 = 4.0;
/// Up to 2^32 microseconds, which is longer than any reconcile.
const BUCKETS: usize = 128;

/// How a reconcile ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum End {
    /// The guest succeeded.
    Fine,
    /// The guest answered a failure.
    Error,
    /// The guest trapped.
    Trap,
    /// A limit ended the call.
    Limit,
}

/// One reconcile that ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// Tells its key from others.
    pub(crate) key: u64,
    pub(crate) end: End,
    /// Writes to the store that it asked for.
    pub(crate) writes: u32,
    /// It asked to be run again within a second.
    pub(crate) again_soon: bool,
    pub(crate) wall: Duration,
}

/// The sums of one version.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    pub(crate) runs: u64,
    pub(crate) errors: u64,
    pub(crate) traps: u64,
    pub(crate) limits: u64,
    pub(crate) writes: u64,
    /// Runs of keys that had run before, and their writes.
    pub(crate) repeats: u64,
    pub(crate) repeat_writes: u64,
    /// The most runs of one key in a row of which each wrote, or asked to run again soon.
    pub(crate) row_max: u32,
    /// The keys that have run, each with its row now.
    rows: HashMap<u64, u32>,
    walls: [u32; BUCKETS],
}

/// Both versions over the same time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Both {
    pub(crate) old: Figures,
    pub(crate) new: Figures,
}

impl Default for Figures {
    fn default() -> Self {
        Self {
            runs: 0,
            errors: 0,
            traps: 0,
            limits: 0,
            writes: 0,
            repeats: 0,
            repeat_writes: 0,
            row_max: 0,
            rows: HashMap::new(),
            walls: [0; BUCKETS],
        }
    }
}

impl Figures {
    /// Takes note of one reconcile.
    pub(crate) fn note(&mut self, run: Run) {
        let Run { key, end, writes, again_soon, wall } = run;
        self.runs += 1;
        match end {
            End::Fine => {}
            End::Error => self.errors += 1,
            End::Trap => self.traps += 1,
            End::Limit => self.limits += 1,
        }
        self.writes += u64::from(writes);
        let bucket = &mut self.walls[bucket(wall)];
        *bucket = bucket.saturating_add(1);
        let has_room = self.rows.len() < KEYS_MAX;
        let row = match self.rows.entry(key) {
            Entry::Occupied(known) => {
                self.repeats += 1;
                self.repeat_writes += u64::from(writes);
                known.into_mut()
            }
            Entry::Vacant(new) if has_room => new.insert(0),
            Entry::Vacant(_) => return,
        };
        *row = if writes > 0 || again_soon { row.saturating_add(1) } else { 0 };
        self.row_max = self.row_max.max(*row);
    }

    /// Takes note of how a call of `map` or `poll` ended. That one fails says nothing of the version: what it asks for may not be there yet.
    pub(crate) fn note_asked(&mut self, end: End) {
        match end {
            End::Fine | End::Error => {}
            End::Trap => self.traps += 1,
            End::Limit => self.limits += 1,
        }
    }

    /// Returns the length that half of the reconciles did not exceed; zero when there was none.
    pub(crate) fn median(&self) -> Duration {
        let mut seen = 0;
        for (at, count) in self.walls.iter().enumerate() {
            seen += u64::from(*count);
            if seen * 2 >= self.runs && seen > 0 {
                let micros = (at as f64 / BUCKETS_PER_OCTAVE).exp2();
                return Duration::from_micros(micros as u64);
            }
        }
        Duration::ZERO
    }
}

/// Returns the first bucket whose length is not exceeded.
fn bucket(wall: Duration) -> usize {
    let micros = wall.as_micros().max(1) as f64;
    ((micros.log2() * BUCKETS_PER_OCTAVE).ceil() as usize).min(BUCKETS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(key: u64, writes: u32, again_soon: bool) -> Run {
        Run { key, end: End::Fine, writes, again_soon, wall: Duration::from_millis(1) }
    }

    #[test]
    fn a_row_ends_with_a_run_that_wants_nothing_more() {
        let mut figures = Figures::default();
        for _ in 0..3 {
            figures.note(run(1, 1, false));
            figures.note(run(2, 0, true));
        }
        figures.note(run(1, 0, false));
        figures.note(run(1, 1, false));
        assert_eq!(figures.row_max, 3);
        assert_eq!((figures.runs, figures.writes), (8, 4));
        assert_eq!((figures.repeats, figures.repeat_writes), (6, 3), "the first run of a key is no repeat");
    }

    #[test]
    fn a_median_is_a_fifth_too_great_at_most() {
        let mut figures = Figures::default();
        assert_eq!(figures.median(), Duration::ZERO);
        for micros in [10, 20, 900, 1000, 1_000_000, 3_600_000_000_000] {
            let wall = Duration::from_micros(micros);
            figures.note(Run { wall, ..run(1, 0, false) });
        }
        let median = figures.median();
        assert!(median >= Duration::from_micros(900) && median < Duration::from_micros(1080), "{median:?}");
    }

    #[test]
    fn keys_are_told_apart_within_a_bound() {
        let mut figures = Figures::default();
        for key in 0..2 * KEYS_MAX as u64 {
            figures.note(run(key, 1, false));
        }
        assert_eq!((figures.rows.len(), figures.runs), (KEYS_MAX, 2 * KEYS_MAX as u64));
    }
}
