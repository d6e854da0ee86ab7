//! The stop-watch: time per operation, percentiles, and the memory and CPU time of the process.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::keys::{Name, number};

/// The warm-up's share of the measured time.
const WARM_UP_SHARE: u32 = 4;

/// Decides how often to run a batch of operations, and measures the time of each operation: `while
/// laps.another() { … }`.
#[derive(Debug)]
pub(crate) struct Laps {
    long: Duration,
    warm: bool,
    start: Instant,
    begun: usize,
}

impl Laps {
    /// Warms up for a quarter of `long`; then batches are measured for `long`.
    pub(crate) fn start(long: Duration) -> Laps {
        Laps { long, warm: false, start: Instant::now(), begun: 0 }
    }

    /// Returns whether to run one more batch: at least one to warm up, and at least one that counts.
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

    /// Returns the nanoseconds of each operation; `operations` is the number of them in a batch. Call it
    /// directly after the last batch.
    pub(crate) fn nanos_each(&self, operations: usize) -> f64 {
        nanos_each(self.start.elapsed(), self.begun * operations)
    }
}

/// Returns the nanoseconds for each of `operations` that took `took` together.
pub(crate) fn nanos_each(took: Duration, operations: usize) -> f64 {
    took.as_secs_f64() * 1e9 / operations.max(1) as f64
}

/// Sorts the values and returns the percentile in microseconds; zero without values.
pub(crate) fn percentile_us(values: &mut [Duration], percent: usize) -> f64 {
    values.sort_unstable();
    let rank = (values.len() * percent).div_ceil(100).max(1);
    values.get(rank - 1).map_or(0.0, |value| value.as_secs_f64() * 1e6)
}

/// The times at which the keys of a work are due. A delay starts somewhere within the call that adds the key,
/// so the due time is known up to the length of that call.
#[derive(Debug)]
pub(crate) struct Due {
    first: Duration,
    /// How much later than requested each key may be due.
    slack: Vec<Duration>,
}

impl Due {
    /// Makes the first of `count` keys due after `first`, and spreads the others evenly over the tenth of a
    /// second after that.
    pub(crate) fn new(first: Duration, count: usize) -> Due {
        // Not zero, so that the memory is resident before it is measured.
        Due { first, slack: vec![Duration::from_nanos(1); count] }
    }

    /// Returns the due time of key number `number`, counted from the start.
    pub(crate) fn of(&self, number: usize) -> Duration {
        const SPAN: Duration = Duration::from_millis(100);
        self.first + SPAN.mul_f64(number as f64 / self.slack.len() as f64)
    }

    /// Records the length of the call that added a key.
    pub(crate) fn added_within(&mut self, number: usize, took: Duration) {
        self.slack[number] = took;
    }

    /// Returns how many keys were taken after one that was due more than a millisecond later. `taken` lists
    /// the keys with their times, in order.
    ///
    /// # Errors
    /// A key was taken before it was due, or is not one of these.
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

/// Returns the resident memory of this process in bytes.
///
/// # Errors
/// The system does not report it: it is not Linux.
pub(crate) fn resident_bytes() -> Result<u64> {
    resident_bytes_of("self")
}

/// Returns the resident memory of a process in bytes.
///
/// # Errors
/// There is no such process, or the system is not Linux.
pub(crate) fn resident_bytes_of(process: &str) -> Result<u64> {
    rolled_up(process, "Rss:")
}

/// Returns the proportional memory in bytes: shared pages are divided among their processes.
///
/// # Errors
/// The system does not report it: it is not Linux.
pub(crate) fn proportional_bytes() -> Result<u64> {
    rolled_up("self", "Pss:")
}

fn rolled_up(process: &str, name: &str) -> Result<u64> {
    let rollup = fs::read_to_string(format!("/proc/{process}/smaps_rollup"));
    let rollup = rollup.context("memory can be measured on Linux alone")?;
    kibibytes(&rollup, name).with_context(|| format!("there is no {name} in smaps_rollup"))
}

/// Resets the peak of this process's memory to its current value, and returns that in bytes.
///
/// # Errors
/// The system does not support it: it is not Linux.
pub(crate) fn restart_peak() -> Result<u64> {
    fs::write("/proc/self/clear_refs", "5").context("the peak of memory can be set back on Linux alone")?;
    resident_bytes()
}

/// Returns the peak memory of this process since [`restart_peak`], in bytes.
///
/// # Errors
/// The system does not report it: it is not Linux.
pub(crate) fn peak_bytes() -> Result<u64> {
    peak_bytes_of("self")
}

/// Returns the peak memory of a process since its start, in bytes.
///
/// # Errors
/// There is no such process, or the system is not Linux.
pub(crate) fn peak_bytes_of(process: &str) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"));
    kibibytes(&status.context("memory can be measured on Linux alone")?, "VmHWM:")
        .context("there is no VmHWM in status")
}

/// Returns the value of a field in a file of `/proc` that counts in KiB, in bytes.
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// Returns the CPU time of this process's threads, in nanoseconds.
///
/// # Errors
/// The system does not report it: it is not Linux, or does not count.
pub(crate) fn processor_nanos() -> Result<u64> {
    processor_nanos_of("self")
}

/// Returns the CPU time of a process's threads that have not ended, in nanoseconds.
///
/// # Errors
/// There is no such process, or the system is not Linux, or does not count.
pub(crate) fn processor_nanos_of(process: &str) -> Result<u64> {
    let tasks =
        fs::read_dir(format!("/proc/{process}/task")).context("processor time can be measured on Linux alone")?;
    let mut nanos = 0;
    for task in tasks {
        // A thread may end during the loop.
        let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) else { continue };
        nanos += text.split_whitespace().next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(nanos)
}

/// Returns the CPU time of this process's children that have ended, in seconds. The system counts it in hundredths.
///
/// # Errors
/// The system does not report it: it is not Linux.
pub(crate) fn children_seconds() -> Result<f64> {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = fs::read_to_string("/proc/self/stat").context("processor time can be measured on Linux alone")?;
    // The name of the process, in parentheses, may contain spaces.
    let (_, fields) = stat.rsplit_once(") ").context("the name of the process has no end")?;
    let ticks = fields.split(' ').skip(13).take(2).map(|ticks| Ok(ticks.parse::<u32>()?));
    Ok(f64::from(ticks.sum::<Result<u32>>()?) / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_value_that_this_share_does_not_exceed() {
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
    fn time_is_reported_per_operation() {
        assert_eq!(nanos_each(Duration::from_micros(3), 3), 1000.0);
        let (mut laps, mut batches) = (Laps::start(Duration::ZERO), 0);
        while laps.another() {
            batches += 1;
        }
        assert_eq!(batches, 2, "one to warm up and one that counts");
        assert!(laps.nanos_each(10) > 0.0);
    }
}
