use homeostat_testing::{grows_by_at_most, measured, with_slack};

use super::*;

fn run(key: u64, writes: u32, again_soon: bool) -> RunRecord {
    let (ready, ended) = (Duration::ZERO, Duration::ZERO);
    let wall = Duration::from_millis(1);
    RunRecord {
        key,
        is_resync: false,
        is_retry: false,
        end: RunResult::Success,
        writes,
        again_soon,
        ready,
        ended,
        wall,
    }
}

fn noted(side: Track, runs: impl IntoIterator<Item = RunRecord>) -> VersionStats {
    let mut both = Comparison::default();
    runs.into_iter().for_each(|run| both.record(side, run));
    if side == Track::Stable { both.stable } else { both.canary }
}

#[test]
fn a_row_of_reconciles_ends_with_one_that_settles() {
    let rows = (0..3).flat_map(|_| [run(1, 1, false), run(2, 0, true)]);
    let figures = noted(Track::Canary, rows.chain([run(1, 0, false), run(1, 1, false)]));
    assert_eq!((figures.row_max, figures.runs), (3, 8));
}

#[test]
fn a_key_that_others_change_often_has_no_row_of_reconciles() {
    let at = |millis| RunRecord {
        ready: Duration::from_millis(millis),
        ended: Duration::from_millis(millis + 5),
        ..run(1, 1, false)
    };
    assert_eq!(noted(Track::Canary, (0..40).map(|number| at(number * 200))).row_max, 1);
    assert_eq!(noted(Track::Canary, (0..40).map(|number| at(number * 10))).row_max, 40);
}

#[test]
fn resyncs_and_events_are_separate_and_first_runs_of_a_canary_are_not_compared() {
    let look = |key, writes| RunRecord { is_resync: true, ..run(key, writes, false) };
    let runs = [look(1, 1), look(2, 0), look(1, 0), run(1, 1, false), run(3, 2, false)];
    for (side, asked, written) in [(Track::Canary, 1.0, 1.0), (Track::Stable, 2.0, 3.0)] {
        let VersionStats {
            first_resyncs: first_looks,
            resync_work: looks_work,
            event_work: asked_work,
            resync_runs: looks,
            event_runs: tries,
            ..
        } = noted(side, runs);
        assert_eq!((first_looks.runs, looks_work.writes.runs, looks_work.writes.sum), (1.0, 1.0, 0.0), "{side:?}");
        assert_eq!((asked_work.writes.runs, asked_work.writes.sum), (asked, written), "{side:?}");
        assert_eq!((looks.runs, tries.runs), (3, 2));
    }
}

#[test]
fn a_key_that_keeps_failing_counts_once_and_one_that_failed_before_does_not() {
    let failed = |key, is_retry, end| RunRecord { is_retry, end, ..run(key, 0, false) };
    let figures = noted(
        Track::Canary,
        [
            failed(1, false, RunResult::Error),
            failed(1, true, RunResult::Error),
            failed(1, true, RunResult::Trap),
            failed(1, true, RunResult::Trap),
            failed(2, true, RunResult::Trap),
            failed(2, true, RunResult::Error),
            failed(2, true, RunResult::Success),
            failed(2, false, RunResult::Limit),
        ],
    );
    assert_eq!((figures.event_runs, figures.traps, figures.limits), (FailureCount { runs: 3, errors: 1 }, 1, 1));
}

#[test]
fn the_uncertainty_of_a_mean_follows_the_spread_of_its_keys() {
    let of = |keys: u64, rounds: u64, writes: fn(u64) -> u32| {
        noted(Track::Stable, (0..rounds).flat_map(move |_| (0..keys).map(move |key| run(key, writes(key), false))))
    };
    let variance = |figures: &VersionStats| {
        let sample = figures.event_work.writes;
        sample.variance_of_difference(&sample, 0.0)
    };
    let (one, ten) = (of(50, 1, |key| 5 * u32::from(key < 10)), of(50, 10, |key| 5 * u32::from(key < 10)));
    assert!((variance(&one) - 2.0 * 4.0 / 50.0).abs() < 0.01, "{}", variance(&one));
    assert!((variance(&one) - variance(&ten)).abs() < 0.001, "more runs of the same keys say no more");
    assert_eq!(variance(&of(50, 10, |_| 1)), 0.0);
}

#[test]
fn distinct_keys_are_counted_up_to_a_bound() {
    let figures = noted(Track::Canary, (0..2 * KEYS_MAX as u64).map(|key| run(key, 1, false)));
    assert_eq!(
        (figures.keys.len(), figures.runs, figures.tries()),
        (KEYS_MAX, 2 * KEYS_MAX as u64, 2 * KEYS_MAX as u64)
    );
}

measured! {
    /// Measures many rollouts, because a single one takes no more than the process itself grows by.
    fn figures_of_rollouts_take_no_more_memory_than_their_bound measure_figures {
        const ROLLOUTS: u64 = 32;
        grows_by_at_most(with_slack(ROLLOUTS * 2 * BYTES_MAX), || {
            let mut all: Vec<Comparison> = (0..ROLLOUTS).map(|_| Comparison::default()).collect();
            // The second step keeps what the first one took.
            for _ in 0..2 {
                for both in &mut all {
                    *both = both.next_step();
                    for number in 0..9 * KEYS_MAX as u64 {
                        // Spread over all numbers, like hashes.
                        let key = (number / 3).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                        for side in [Track::Stable, Track::Canary] {
                            both.record(side, run(key, 1, true));
                        }
                    }
                }
            }
            all
        });
    }
}

#[test]
fn durations_are_compared_with_those_of_the_same_key_in_the_previous_step() {
    let took = |key, millis| RunRecord { wall: Duration::from_millis(millis), ..run(key, 0, false) };
    let mut both = Comparison::default();
    for _ in 0..3 {
        both.record(Track::Stable, took(1, 20));
        both.record(Track::Stable, took(2, 80));
        both.record(Track::Canary, took(4, 20));
    }
    both.record(Track::Stable, took(3, 20));
    let mut next = both.next_step();
    for _ in 0..4 {
        next.record(Track::Stable, took(1, 20));
        next.record(Track::Canary, took(2, 160));
        next.record(Track::Canary, took(3, 20));
        next.record(Track::Canary, took(4, 20));
    }
    let mean = |sample: Sample| (sample.keys, sample.mean().exp());
    assert_eq!(mean(next.stable.events_beside_usual), (1, 1.0));
    let (keys, times) = mean(next.canary.events_beside_usual);
    assert!(
        keys == 1 && (times - 2.0).abs() < 1e-9,
        "the old version has run neither 3 often enough nor 4: {keys}, {times}"
    );
    let mut last = next.next_step();
    (0..2).for_each(|_| last.record(Track::Canary, took(2, 80)));
    assert_eq!(mean(last.canary.events_beside_usual), (1, 1.0), "what the candidate took is not usual");
}
