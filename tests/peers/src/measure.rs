//! The stop-watch: time for each operation, percentiles, and what the process uses of memory and processors.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::keys::{Name, number};

/// The share of the measured time that is run before it, unmeasured.
const WARM_UP_SHARE: u32 = 4;

/// Says how often to run a batch of operations, and how long each operation took: `while laps.another() { … }`.
#[derive(Debug)]
pub(crate) struct Laps {
    long: Duration,
    warm: bool,
    start: Instant,
    begun: usize,
}

impl Laps {
    /// Starts to warm up for a quarter of `long`, after which batches are measured for `long`.
    pub(crate) fn start(long: Duration) -> Laps {
        Laps { long, warm: false, start: Instant::now(), begun: 0 }
    }

    /// Says whether to run one more batch: one at least to warm up, and one at least that counts.
    pub(crate) fn another(&mut self) -> bool {
        let long = if self.warm { self.long } else { self.long / WARM_UP_SHARE };
        if self.begun > 0 && self.start.elapsed() >= long {
            if self.warm {
                return false;
            }
            *self = Laps { warm: true, start: Instant::now(), begun: 0, ..*self };
        }
        self.begun += 1;
        true
    }

    /// Returns the nanoseconds for each operation, where a batch is so many of them. Call it as soon as there is no other batch.
    pub(crate) fn nanos_each(&self, operations: usize) -> f64 {
        nanos_each(self.start.elapsed(), self.begun * operations)
    }
}

/// Returns the nanoseconds for each of `operations` that took `took` together.
pub(crate) fn nanos_each(took: Duration, operations: usize) -> f64 {
    took.as_secs_f64() * 1e9 / operations.max(1) as f64
}

/// Sorts, and returns the value that `percent` of the values do not exceed, in microseconds; zero of nothing.
pub(crate) fn percentile_us(values: &mut [Duration], percent: usize) -> f64 {
    values.sort_unstable();
    let rank = (values.len() * percent).div_ceil(100).max(1);
    values.get(rank - 1).map_or(0.0, |value| value.as_secs_f64() * 1e6)
}

/// When the keys of a work are due. A delay is counted from somewhere inside the call that adds the key, so it is known up to the
/// length of that call.
#[derive(Debug)]
pub(crate) struct Due {
    first: Duration,
    /// How much later than asked for each key may be due.
    slack: Vec<Duration>,
}

impl Due {
    /// Says that the first of `count` keys is due after `first`, and the others at equal distances in the tenth of a second after that.
    pub(crate) fn new(first: Duration, count: usize) -> Due {
        // Not zero, so that the memory is really there before anybody measures how much there is.
        Due { first, slack: vec![Duration::from_nanos(1); count] }
    }

    /// Returns when key number `number` is due, counted from the start.
    pub(crate) fn of(&self, number: usize) -> Duration {
        const SPAN: Duration = Duration::from_millis(100);
        self.first + SPAN.mul_f64(number as f64 / self.slack.len() as f64)
    }

    /// Notes how long the call took that added a key.
    pub(crate) fn added_within(&mut self, number: usize, took: Duration) {
        self.slack[number] = took;
    }

    /// Returns how many keys were taken after one that was due more than a millisecond later. `taken` has when each key was taken, in
    /// that order.
    ///
    /// # Errors
    /// A key was taken before it was due, or is none of these.
    pub(crate) fn out_of_order(&self, taken: &[(Duration, Name)]) -> Result<usize> {
        const TOLERANCE: Duration = Duration::from_millis(1);
        let (mut latest, mut late) = (Duration::ZERO, 0);
        for (at, key) in taken {
            let number = number(key).filter(|number| *number < self.slack.len());
            let number = number.context("this key was never added")?;
            let due = self.of(number);
            ensure!(*at >= due, "{key} was taken {:?} early", due - *at);
            late += usize::from(due + self.slack[number] + TOLERANCE < latest);
            latest = latest.max(due);
        }
        Ok(late)
    }
}

/// Returns the memory that this process has in use, in bytes.
///
/// # Errors
/// The system does not say: it is no Linux.
pub(crate) fn resident_bytes() -> Result<u64> {
    rolled_up("Rss:")
}

/// Returns the same, with what it shares with other processes divided among them.
///
/// # Errors
/// The system does not say: it is no Linux.
pub(crate) fn proportional_bytes() -> Result<u64> {
    rolled_up("Pss:")
}

fn rolled_up(name: &str) -> Result<u64> {
    let rollup = fs::read_to_string("/proc/self/smaps_rollup").context("memory can be measured on Linux alone")?;
    kibibytes(&rollup, name).with_context(|| format!("there is no {name} in smaps_rollup"))
}

/// Sets the peak of this process's memory back to what it has in use now, and returns that, in bytes.
///
/// # Errors
/// The system does not do that: it is no Linux.
pub(crate) fn restart_peak() -> Result<u64> {
    fs::write("/proc/self/clear_refs", "5").context("the peak of memory can be set back on Linux alone")?;
    resident_bytes()
}

/// Returns the most memory that this process has had in use since [`restart_peak`], in bytes.
///
/// # Errors
/// The system does not say: it is no Linux.
pub(crate) fn peak_bytes() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status").context("memory can be measured on Linux alone")?;
    kibibytes(&status, "VmHWM:").context("there is no VmHWM in status")
}

/// Returns what stands behind a name in a file of the system that counts in KiB, in bytes.
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// Returns the time that the threads of this process have spent on processors, in nanoseconds.
///
/// # Errors
/// The system does not say: it is no Linux, or does not count.
pub(crate) fn processor_nanos() -> Result<u64> {
    let tasks = fs::read_dir("/proc/self/task").context("processor time can be measured on Linux alone")?;
    let mut nanos = 0;
    for task in tasks {
        // A thread may end while we look.
        let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) else { continue };
        nanos += text.split_whitespace().next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_value_that_so_many_do_not_exceed() {
        let mut values: Vec<Duration> = (1..=200).rev().map(Duration::from_micros).collect();
        assert_eq!(percentile_us(&mut values, 50), 100.0);
        assert_eq!(percentile_us(&mut values, 99), 198.0);
        assert_eq!(percentile_us(&mut [], 99), 0.0);
    }

    fn taken(numbers: &[usize]) -> Vec<(Duration, Name)> {
        numbers.iter().map(|number| (Duration::from_secs(2), crate::keys::name(*number))).collect()
    }

    #[test]
    fn keys_are_out_of_order_when_a_later_one_went_before() {
        let mut due = Due::new(Duration::from_secs(1), 10);
        assert_eq!(due.of(3), Duration::from_millis(1030));
        assert_eq!(due.out_of_order(&taken(&[1, 2, 3])).unwrap(), 0);
        assert_eq!(due.out_of_order(&taken(&[3, 1, 2])).unwrap(), 2);
        due.added_within(2, Duration::from_millis(20));
        assert_eq!(
            due.out_of_order(&taken(&[3, 1, 2])).unwrap(),
            1,
            "the second may have been due as late as the third"
        );
    }

    #[test]
    fn a_key_that_is_taken_early_is_an_error() {
        assert!(Due::new(Duration::from_secs(5), 10).out_of_order(&taken(&[1])).is_err());
    }

    #[test]
    fn time_is_told_for_one_operation() {
        assert_eq!(nanos_each(Duration::from_micros(3), 3), 1000.0);
        let (mut laps, mut batches) = (Laps::start(Duration::ZERO), 0);
        while laps.another() {
            batches += 1;
        }
        assert_eq!(batches, 2, "one to warm up and one that counts");
        assert!(laps.nanos_each(10) > 0.0);
    }
}
