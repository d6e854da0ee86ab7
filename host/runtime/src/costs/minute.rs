//! The last minute, in twelve slices of five seconds.

use std::time::Duration;

use super::RecentUsage;

const SLICES: u64 = 12;
const SLICE: Duration = Duration::from_secs(5);

/// Times are counted from the start of the controller.
#[derive(Clone, Debug, Default)]
pub(super) struct Minute([Slice; SLICES as usize]);

#[derive(Clone, Copy, Debug, Default)]
struct Slice {
    /// The number of the slice since the start, from 0.
    number: u64,
    runs: u64,
    failures: u64,
    cpu: Duration,
}

impl Minute {
    /// Records one reconcile that ended at `elapsed`.
    pub(super) fn note(&mut self, elapsed: Duration, cpu: Duration, failed: bool) {
        let number = number(elapsed);
        let slice = &mut self.0[(number % SLICES) as usize];
        if slice.number != number {
            *slice = Slice { number, ..Slice::default() };
        }
        slice.runs += 1;
        slice.failures += u64::from(failed);
        slice.cpu = slice.cpu.saturating_add(cpu);
    }

    /// Adds the slices of another window with the same start.
    pub(super) fn merge(&mut self, other: &Self) {
        for (own, slice) in self.0.iter_mut().zip(&other.0) {
            if own.number < slice.number {
                *own = Slice { number: slice.number, ..Slice::default() };
            }
            if own.number == slice.number {
                own.runs += slice.runs;
                own.failures += slice.failures;
                own.cpu = own.cpu.saturating_add(slice.cpu);
            }
        }
    }

    /// Returns the usage of the slices that reach back at most a minute from `elapsed`.
    pub(super) fn lately(&self, elapsed: Duration) -> RecentUsage {
        let now = number(elapsed);
        let oldest = (now + 1).saturating_sub(SLICES);
        let begun = SLICE * u32::try_from(oldest).unwrap_or(u32::MAX);
        let mut lately = RecentUsage { seconds: elapsed.saturating_sub(begun).as_secs_f64(), ..RecentUsage::default() };
        for slice in self.0.iter().filter(|slice| (oldest..=now).contains(&slice.number)) {
            lately.runs += slice.runs;
            lately.failures += slice.failures;
            lately.cpu = lately.cpu.saturating_add(slice.cpu);
        }
        lately
    }
}

fn number(elapsed: Duration) -> u64 {
    elapsed.as_secs() / SLICE.as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_older_than_a_minute_does_not_count() {
        let mut minute = Minute::default();
        let second = Duration::from_secs;
        for at in 0..600 {
            minute.note(second(at), Duration::from_millis(10), at % 2 == 0);
            let RecentUsage { seconds, runs, failures, cpu } = minute.lately(second(at + 1));
            assert_eq!(runs as f64, seconds, "one each second, at {at}");
            assert!(at < 60 || (55.0..=60.0).contains(&seconds), "{seconds} at {at}");
            assert_eq!(cpu, Duration::from_millis(10) * runs as u32);
            assert!((runs / 2..=runs.div_ceil(2)).contains(&failures), "{failures} of {runs}");
        }
        assert_eq!(minute.lately(second(700)).runs, 0);
        minute.note(second(1000), Duration::ZERO, false);
        assert_eq!(minute.lately(second(1000)).runs, 1, "what the slice held before is gone");
    }
    #[test]
    fn usage_recorded_by_several_threads_adds_up() {
        let second = Duration::from_secs;
        let (mut one, mut other, mut both) = (Minute::default(), Minute::default(), Minute::default());
        for at in 0..200 {
            // The second one began to work later, and went to sleep earlier.
            let minute = if at % 3 == 0 && (70..150).contains(&at) { &mut other } else { &mut one };
            minute.note(second(at), Duration::from_millis(at), at % 2 == 0);
            both.note(second(at), Duration::from_millis(at), at % 2 == 0);
            for (one, other) in [(&one, &other), (&other, &one)] {
                let mut merged = one.clone();
                merged.merge(other);
                assert_eq!(merged.lately(second(at)), both.lately(second(at)), "at {at}");
            }
        }
    }
}
