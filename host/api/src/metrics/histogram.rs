//! Histograms of durations.

use std::time::Duration;

/// Bounds of `workqueue_*_duration_seconds`, each with its label, in nanoseconds.
///
/// The series must be those of controllers in Go. There, each bound is ten times the last one in floating
/// point, so two labels are slightly below the power of ten. Their bounds are one nanosecond lower, because a
/// duration of exactly 10 or 100 µs belongs to the next bucket.
/// Source: controller-runtime, `ExponentialBuckets(10e-9, 10, 12)`.
pub(super) const QUEUE: [Bound; 12] = [
    Bound(10, "1e-08"),
    Bound(100, "1e-07"),
    Bound(1_000, "1e-06"),
    Bound(9_999, "9.999999999999999e-06"),
    Bound(99_999, "9.999999999999999e-05"),
    Bound(1_000_000, "0.001"),
    Bound(10_000_000, "0.01"),
    Bound(100_000_000, "0.1"),
    Bound(1_000_000_000, "1"),
    Bound(10_000_000_000, "10"),
    Bound(100_000_000_000, "100"),
    Bound(1_000_000_000_000, "1000"),
];

/// Bounds of `controller_runtime_reconcile_time_seconds`, in the same form. Source: controller-runtime.
pub(super) const RECONCILE: [Bound; 40] = [
    Bound(5_000_000, "0.005"),
    Bound(10_000_000, "0.01"),
    Bound(25_000_000, "0.025"),
    Bound(50_000_000, "0.05"),
    Bound(100_000_000, "0.1"),
    Bound(150_000_000, "0.15"),
    Bound(200_000_000, "0.2"),
    Bound(250_000_000, "0.25"),
    Bound(300_000_000, "0.3"),
    Bound(350_000_000, "0.35"),
    Bound(400_000_000, "0.4"),
    Bound(450_000_000, "0.45"),
    Bound(500_000_000, "0.5"),
    Bound(600_000_000, "0.6"),
    Bound(700_000_000, "0.7"),
    Bound(800_000_000, "0.8"),
    Bound(900_000_000, "0.9"),
    Bound(1_000_000_000, "1"),
    Bound(1_250_000_000, "1.25"),
    Bound(1_500_000_000, "1.5"),
    Bound(1_750_000_000, "1.75"),
    Bound(2_000_000_000, "2"),
    Bound(2_500_000_000, "2.5"),
    Bound(3_000_000_000, "3"),
    Bound(3_500_000_000, "3.5"),
    Bound(4_000_000_000, "4"),
    Bound(4_500_000_000, "4.5"),
    Bound(5_000_000_000, "5"),
    Bound(6_000_000_000, "6"),
    Bound(7_000_000_000, "7"),
    Bound(8_000_000_000, "8"),
    Bound(9_000_000_000, "9"),
    Bound(10_000_000_000, "10"),
    Bound(15_000_000_000, "15"),
    Bound(20_000_000_000, "20"),
    Bound(25_000_000_000, "25"),
    Bound(30_000_000_000, "30"),
    Bound(40_000_000_000, "40"),
    Bound(50_000_000_000, "50"),
    Bound(60_000_000_000, "60"),
];

/// The upper bound of a bucket, in nanoseconds, and in seconds as the label `le`.
#[derive(Debug)]
pub(super) struct Bound(pub(super) u64, pub(super) &'static str);

/// The number of durations in each bucket, and their sum.
#[derive(Clone, Debug)]
pub(super) struct Histogram<const BUCKETS: usize> {
    pub(super) bounds: &'static [Bound; BUCKETS],
    /// One count for each bucket, not cumulative.
    counts: [u64; BUCKETS],
    /// Durations above the last bound.
    above: u64,
    sum_ns: u64,
}

impl<const BUCKETS: usize> Histogram<BUCKETS> {
    pub(super) const fn new(bounds: &'static [Bound; BUCKETS]) -> Self {
        Self { bounds, counts: [0; BUCKETS], above: 0, sum_ns: 0 }
    }

    pub(super) fn observe(&mut self, took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = self.bounds.partition_point(|Bound(bound, _)| *bound < ns);
        *self.counts.get_mut(bucket).unwrap_or(&mut self.above) += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
    }

    /// Adds the durations of another histogram.
    pub(super) fn merge(&mut self, other: &Self) {
        let Self { bounds: _, counts, above, sum_ns } = other;
        self.counts.iter_mut().zip(counts).for_each(|(sum, more)| *sum += more);
        self.above += above;
        self.sum_ns = self.sum_ns.saturating_add(*sum_ns);
    }

    /// Returns the cumulative count for each bound.
    pub(super) fn cumulative(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let labels = self.bounds.iter().map(|Bound(_, label)| *label);
        labels.zip(self.counts.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        }))
    }

    pub(super) fn count(&self) -> u64 {
        self.counts.iter().sum::<u64>() + self.above
    }

    pub(super) fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(bounds: &[Bound]) -> Vec<f64> {
        bounds.iter().map(|Bound(_, label)| label.parse().unwrap()).collect()
    }

    #[test]
    fn histogram_bounds_and_their_labels_agree() {
        for Bound(ns, label) in QUEUE.iter().chain(&RECONCILE) {
            let (at, after) = (*ns as f64 / 1e9, (ns + 1) as f64 / 1e9);
            assert!((at..after).contains(&label.parse().unwrap()), "{ns} ns are not {label} s");
        }
        assert!(labels(&QUEUE).is_sorted() && labels(&RECONCILE).is_sorted());
        let powers = std::iter::successors(Some(10e-9), |bound| Some(bound * 10.0));
        assert_eq!(labels(&QUEUE), powers.take(QUEUE.len()).collect::<Vec<f64>>());
    }

    #[test]
    fn a_duration_counts_from_its_bucket_upwards() {
        let mut histogram = Histogram::new(&QUEUE);
        for took in [Duration::ZERO, Duration::from_millis(1), Duration::from_micros(10), Duration::from_secs(5000)] {
            histogram.observe(took);
        }
        let cumulative: Vec<u64> = histogram.cumulative().map(|(_, count)| count).collect();
        assert_eq!(cumulative, [1, 1, 1, 1, 2, 3, 3, 3, 3, 3, 3, 3]);
        assert_eq!(histogram.count(), 4);
        assert_eq!(histogram.sum(), Duration::from_micros(5_000_001_010));
    }
}
