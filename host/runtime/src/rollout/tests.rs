use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::rollout::{DifferenceLimit, ShadowReport};

mod simulation;

const STEP: Duration = Duration::from_secs(60);

fn run(key: u64, end: RunResult) -> RunRecord {
    let (ready, ended) = (Duration::ZERO, Duration::ZERO);
    let wall = Duration::from_millis(2);
    RunRecord { key, is_resync: false, is_retry: false, end, writes: 0, again_soon: false, ready, ended, wall }
}

/// Statistics of this many reconciles, each of another key, some of which failed.
fn figures(runs: u64, bad: u64, end: RunResult) -> VersionStats {
    of((0..runs).map(|key| run(key, if key < bad { end } else { RunResult::Success })))
}

/// Statistics of a canary.
fn of(runs: impl IntoIterator<Item = RunRecord>) -> VersionStats {
    let mut both = Comparison::default();
    runs.into_iter().for_each(|run| both.record(Track::Canary, run));
    both.canary
}

/// The comparison with a stable version that did nothing before.
fn both(old: VersionStats, new: VersionStats) -> Comparison {
    Comparison { stable: old, canary: new, stable_totals: RunTotals::default() }
}

fn word(judgement: &Analysis) -> &'static str {
    match judgement {
        Analysis::Pass => "within",
        Analysis::Inconclusive(_) => "doubtful",
        Analysis::Fail(_) => "beyond",
    }
}

#[test]
fn errors_count_beside_those_of_the_old_version_and_a_few_decide_nothing() {
    // Errors and reconciles of the stable version and of the canary, and the analysis with a gate of 1 %.
    let table = [
        ((0, 100), (0, 10), "within"),
        ((0, 100), (1, 100), "within"),
        ((0, 100), (1, 10), "doubtful"),
        ((0, 100), (2, 2), "doubtful"),
        ((0, 27), (3, 3), "beyond"),
        ((0, 0), (2, 2), "doubtful"),
        ((0, 0), (3, 3), "beyond"),
        ((0, 1), (9, 9), "beyond"),
        // A canary that fails as often as the stable version passes.
        ((50, 100), (5, 10), "within"),
        ((50, 100), (6, 10), "doubtful"),
        ((100, 1000), (10, 100), "within"),
        ((100, 1000), (14, 100), "doubtful"),
        ((100, 1000), (30, 100), "beyond"),
        // A version that fails for one key in twenty: three failures could be chance at one in a hundred.
        ((0, 900), (3, 60), "doubtful"),
        ((0, 2700), (12, 240), "doubtful"),
        ((0, 2700), (15, 300), "beyond"),
        ((0, 100), (5, 100), "doubtful"),
        ((0, 400), (20, 400), "doubtful"),
        ((0, 900), (10, 100), "beyond"),
    ];
    for ((old_errors, old), (errors, new), comes_to) in table {
        let both = both(figures(old, old_errors, RunResult::Error), figures(new, errors, RunResult::Error));
        let judged = analyse(&Gate::default(), &both);
        assert_eq!(word(&judged), comes_to, "{old_errors} of {old}, {errors} of {new}: {judged:?}");
    }
}

#[test]
fn a_version_that_always_fails_is_stopped_at_the_ninth_reconcile_at_the_latest() {
    for old in 0..200 {
        let beyond = (1..).find(|new| {
            let both = both(figures(old, 0, RunResult::Success), figures(*new, *new, RunResult::Error));
            matches!(analyse(&Gate::default(), &both), Analysis::Fail(_))
        });
        assert!(beyond.is_some_and(|new| new <= if old >= 27 { 3 } else { 9 }), "{old}: {beyond:?}");
    }
}

#[test]
fn the_first_trap_or_limit_counts_unless_the_gate_or_the_old_version_allows_it() {
    // The gate, the value of the stable version, that of the canary, and the analysis.
    let table = [
        (0, (0, 100), (0, 10), "within"),
        (0, (0, 100), (1, 10), "beyond"),
        (2, (0, 100), (2, 10), "within"),
        (2, (0, 100), (3, 10), "beyond"),
        (0, (10, 100), (1, 10), "within"),
        (0, (10, 100), (2, 10), "doubtful"),
        (0, (10, 100), (9, 10), "beyond"),
    ];
    for (allowed, (old_bad, old), (bad, new), comes_to) in table {
        for end in [RunResult::Trap, RunResult::Limit] {
            let gate = Gate { traps: allowed, limits: allowed, ..Gate::default() };
            let both = both(figures(old, old_bad, end), figures(new, bad, end));
            assert_eq!(
                word(&analyse(&gate, &both)),
                comes_to,
                "{end:?}: {allowed}, {old_bad} of {old}, {bad} of {new}"
            );
        }
    }
}

#[test]
fn durations_are_compared_over_twenty_reconciles_and_short_ones_never() {
    // A resync before, so that it is not the first run of its key.
    let of = |runs: u64, millis: u64| {
        let wall = Duration::from_millis(millis);
        of((0..runs).flat_map(|key| {
            [false, true].map(|is_resync| RunRecord { is_resync: !is_resync, wall, ..run(key, RunResult::Success) })
        }))
    };
    for ((old_runs, old), (new_runs, new), comes_to) in [
        ((100, 100), (40, 120), "within"),
        ((100, 100), (40, 150), "beyond"),
        ((100, 100), (19, 250), "within"),
        ((19, 100), (100, 250), "within"),
        ((100, 1), (40, 6), "within"),
        ((100, 1), (40, 9), "beyond"),
    ] {
        let both = both(of(old_runs, old), of(new_runs, new));
        assert_eq!(word(&analyse(&Gate::default(), &both)), comes_to, "{old} ms, {new} ms over {new_runs}");
    }
}

/// A trap that the stable version also had at some time does not suffice for a rollback.
#[test]
fn totals_of_the_stable_version_before_the_step_count_too() {
    let past = RunTotals { runs: 100_000, traps: 500, ..RunTotals::default() };
    for (traps, comes_to) in [(1, "doubtful"), (2, "doubtful"), (9, "beyond")] {
        let both = Comparison {
            stable_totals: past,
            ..both(figures(100, 0, RunResult::Success), figures(100, traps, RunResult::Trap))
        };
        assert_eq!(word(&analyse(&Gate::default(), &both)), comes_to, "{traps} of 100, 500 of 100,000 before");
    }
}

#[test]
fn a_first_write_of_each_key_is_no_amplification_and_a_write_every_time_is() {
    let of = |keys: u64, rounds: u64, first: u32, later: u32| {
        let runs = |round| (0..keys).map(move |key| (key, if round == 0 { first } else { later }));
        of((0..rounds).flat_map(runs).map(|(key, writes)| RunRecord { writes, ..run(key, RunResult::Success) }))
    };
    for (old, new, comes_to) in [
        (of(100, 2, 0, 0), of(100, 2, 1, 0), "within"),
        (of(100, 2, 0, 0), of(100, 2, 1, 1), "beyond"),
        (of(100, 2, 0, 0), of(9, 3, 1, 1), "within"),
        (of(100, 2, 1, 1), of(100, 2, 1, 1), "within"),
        (of(100, 2, 1, 1), of(100, 2, 3, 3), "beyond"),
        // There is nothing to compare with, or only a difference that the assignment of keys could explain.
        (of(0, 0, 0, 0), of(100, 2, 3, 3), "within"),
        (of(4, 10, 0, 0), of(2, 20, 1, 1), "doubtful"),
    ] {
        let both = both(old, new);
        assert_eq!(word(&analyse(&Gate::default(), &both)), comes_to, "{:?}", both.canary.event_work);
    }
}

#[test]
fn a_key_that_runs_on_and_on_is_stopped_at_its_thirty_first_reconcile_in_a_row() {
    let row = |runs: u64| of((0..runs).map(|_| RunRecord { again_soon: true, ..run(1, RunResult::Success) }));
    let comes_to = |old, new| word(&analyse(&Gate::default(), &both(row(old), row(new))));
    assert_eq!((comes_to(0, 30), comes_to(0, 31)), ("within", "beyond"));
    assert_eq!((comes_to(9, 90), comes_to(9, 91)), ("within", "beyond"), "the old one does so too");
}

/// A canary that is checked once a second, and the observation of each check.
struct Course {
    machine: CanaryMachine,
    now: Duration,
    both: Comparison,
    moves: Vec<Action>,
}

impl Course {
    fn begin(plan: CanaryPlan) -> Self {
        Self {
            machine: CanaryMachine::new(plan, None, Duration::ZERO),
            now: Duration::ZERO,
            both: Comparison::default(),
            moves: Vec::new(),
        }
    }

    fn look(&mut self, held: bool, listed: bool) -> Action {
        let sight = Observation {
            now: self.now,
            is_paused: held,
            has_synced: listed,
            comparison: &self.both,
            failed: None,
            shadow: None,
        };
        let move_ = self.machine.step(sight);
        if let Action::SetShare(share) = move_ {
            self.machine.step_started(share, self.now);
            self.both = Comparison::default();
        }
        if move_ != Action::Wait {
            self.moves.push(move_.clone());
        }
        move_
    }

    /// Runs until the step is over. Returns the seconds this took, and the number of resyncs.
    fn until_over(&mut self) -> (u64, usize) {
        let (mut seconds, mut looks) = (0, 0);
        loop {
            seconds += self.until_moved(false, true);
            match self.moves.last() {
                Some(Action::Resync) => looks += 1,
                _ => return (seconds, looks),
            }
        }
    }

    /// Checks once a second until there is an action, for at most a day. Returns the seconds this took.
    fn until_moved(&mut self, held: bool, listed: bool) -> u64 {
        let begun = self.now;
        for _ in 0..86_400 {
            if self.look(held, listed) != Action::Wait {
                break;
            }
            self.now += Duration::from_secs(1);
        }
        (self.now - begun).as_secs()
    }
}

#[test]
fn a_step_lasts_for_the_time_and_the_reconciles_of_the_gate() {
    let mut course = Course::begin(CanaryPlan::default());
    assert_eq!(course.until_moved(false, true), 0);
    for (share, reconciles) in [(10, 20), (50, 188)] {
        assert_eq!(course.machine.share(), Some(Share::percent(share)));
        course.both.canary = figures(reconciles, 0, RunResult::Success);
        assert_eq!(course.until_moved(false, true), 30, "a second look after half of the time");
        assert_eq!(course.moves.pop(), Some(Action::Resync));
        assert_eq!(course.until_moved(false, true), 30);
    }
    assert_eq!(
        course.moves,
        [Action::SetShare(Share::percent(10)), Action::SetShare(Share::percent(50)), Action::Promote]
    );
}

#[test]
fn a_step_with_few_reconciles_resyncs_and_an_unclear_one_rolls_back() {
    for (new, passes) in [
        (figures(0, 0, RunResult::Success), true),
        (figures(3, 0, RunResult::Success), true),
        (figures(3, 2, RunResult::Error), false),
    ] {
        let mut course = Course::begin(CanaryPlan::default());
        course.look(false, true);
        course.both.canary = new;
        assert_eq!(course.until_over(), (240, 7));
        let last = course.moves.last().unwrap();
        assert_eq!(*last == Action::SetShare(Share::percent(50)), passes, "{last:?}");
        assert_eq!(matches!(last, Action::RollBack(_)), !passes);
    }
}

/// The last step before promotion is the one with enough data to decide; if the stable version traps,
/// relative to its traps.
#[test]
fn a_step_ends_with_enough_reconciles_or_after_four_times_its_time() {
    let traps = |runs, traps| figures(runs, traps, RunResult::Trap);
    let looks = |keys: u64, rounds: u64, end| {
        let look = move |key| RunRecord { is_resync: true, ..run(key, end) };
        of((0..rounds).flat_map(move |_| (0..keys).map(look)))
    };
    let past = RunTotals { runs: 100_000, traps: 500, ..RunTotals::default() };
    for (old, new, seconds) in [
        (traps(150, 0), traps(188, 0), 60),
        (traps(150, 0), traps(187, 0), 240),
        (traps(150, 3), traps(188, 0), 60),
        (traps(150, 3), traps(150, 2), 240),
        (traps(900, 5), traps(900, 4), 60),
        // Resyncs continue while the step lasts; failing ones are no reason to wait for more.
        (looks(5, 40, RunResult::Success), looks(5, 40, RunResult::Success), 60),
        (looks(190, 1, RunResult::Success), looks(190, 1, RunResult::Success), 240),
        (looks(190, 1, RunResult::Error), looks(190, 1, RunResult::Success), 60),
    ] {
        let mut course = Course::begin(CanaryPlan { steps: vec![Share::percent(50)], ..CanaryPlan::default() });
        course.look(false, true);
        course.both = Comparison { stable_totals: past, ..both(old, new) };
        let (lasted, _) = course.until_over();
        assert_eq!((lasted, course.moves.last()), (seconds, Some(&Action::Promote)));
    }
}

#[test]
fn elapsed_time_stops_during_a_pause_but_a_failed_analysis_still_rolls_back() {
    let mut course = Course::begin(CanaryPlan::default());
    course.look(false, true);
    course.both.canary = figures(20, 0, RunResult::Success);
    course.until_moved(true, true);
    assert_eq!(course.moves.len(), 1, "a day is held");
    course.until_moved(false, true);
    assert_eq!(course.until_moved(false, true), 30);
    course.both.canary = figures(20, 1, RunResult::Trap);
    assert!(matches!(course.look(true, true), Action::RollBack(_)));
}

#[test]
fn a_candidate_whose_watches_do_not_list_gets_no_key_and_goes_back() {
    let mut course = Course::begin(CanaryPlan::default());
    assert_eq!(course.until_moved(false, false), 240);
    assert_eq!(course.moves, [Action::RollBack("its watches have not had their first lists".to_owned())]);
}

#[test]
fn a_shadow_precedes_every_share_and_resyncs_until_enough_is_compared() {
    let plan = ShadowPlan { lasts: STEP, reconciles: 2, allowed: DifferenceLimit::Count(0) };
    for (steps, comes_to) in
        [(Vec::new(), Action::Promote), (vec![Share::percent(5)], Action::SetShare(Share::percent(5)))]
    {
        let mut machine =
            CanaryMachine::new(CanaryPlan { steps, shadow: Some(plan.clone()), ..CanaryPlan::default() }, None, STEP);
        let both = Comparison::default();
        let (few, enough) = (
            ShadowReport { compared: 1, equal: 1, ..ShadowReport::default() },
            ShadowReport { compared: 2, equal: 2, ..ShadowReport::default() },
        );
        let mut look = |quarters: u32, shadow| {
            let now = STEP + STEP * quarters / 4;
            let sight =
                Observation { now, is_paused: false, has_synced: true, comparison: &both, failed: None, shadow };
            let next = machine.step(sight);
            if next == Action::EndShadow {
                machine.shadow_finished(now);
            }
            next
        };
        assert_eq!(look(0, None), Action::StartShadow);
        assert_eq!(look(0, Some(&few)), Action::Wait);
        assert_eq!(look(1, Some(&few)), Action::Resync);
        assert_eq!(look(1, Some(&few)), Action::Wait);
        assert_eq!(look(2, None), Action::StartShadow, "somebody has ended it");
        assert_eq!(look(5, Some(&enough)), Action::Resync, "its time begins anew");
        assert_eq!(look(6, Some(&enough)), Action::EndShadow);
        assert_eq!(look(6, None), comes_to);
    }
    let differing = ShadowReport { compared: 1, differing: 1, ..ShadowReport::default() };
    let mut machine = CanaryMachine::new(CanaryPlan { shadow: Some(plan), ..CanaryPlan::default() }, None, STEP);
    let both = Comparison::default();
    let sight = Observation {
        now: STEP,
        is_paused: false,
        has_synced: true,
        comparison: &both,
        failed: None,
        shadow: Some(&differing),
    };
    assert!(matches!(machine.step(sight), Action::RollBack(reason) if reason.contains("1 of 1 reconciles differ")));
}

#[test]
fn a_resumed_canary_has_its_previous_share() {
    let fifty = Some(Share::percent(50));
    let mut machine = CanaryMachine::new(CanaryPlan::default(), fifty, STEP);
    let both = Comparison::default();
    let sight =
        Observation { now: STEP, is_paused: true, has_synced: true, comparison: &both, failed: None, shadow: None };
    assert_eq!(
        machine.step(sight),
        Action::SetShare(Share::percent(50)),
        "also while it is held: nothing else runs before"
    );
    machine.set_plan(CanaryPlan { steps: vec![Share::percent(20), Share::percent(60)], ..CanaryPlan::default() });
    machine.step_started(Share::percent(50), STEP);
    let both = Comparison { canary: figures(20, 0, RunResult::Success), ..Comparison::default() };
    assert_eq!(machine.step(Observation { now: STEP, ..sight }), Action::Wait);
    let later = Observation { now: STEP * 2, is_paused: false, comparison: &both, ..sight };
    assert_eq!(machine.step(later), Action::SetShare(Share::percent(60)), "another plan never takes keys away");
}

/// One check: seconds since the previous one, whether the rollout is paused and synced, and the reconciles in
/// between.
type Look = (u64, bool, bool, Vec<(bool, u64, u8, bool)>);

fn looks() -> impl Strategy<Value = Vec<Look>> {
    let run = (any::<bool>(), 0_u64..20, 0_u8..100, any::<bool>());
    prop::collection::vec(
        (0_u64..200, prop::bool::weighted(0.1), any::<bool>(), prop::collection::vec(run, 0..30)),
        1..60,
    )
}

proptest! {
    /// In any course of events, shares grow until the rollout is over, and it ends unless it stays paused.
    #[test]
    fn a_share_only_grows_or_ends_and_every_rollout_ends(looks in looks(), steps in prop::collection::btree_set(1_u16..100, 1..5)) {
        let steps: Vec<Share> = steps.into_iter().map(Share::percent).collect();
        let mut course = Course::begin(CanaryPlan { steps: steps.clone(), ..CanaryPlan::default() });
        let mut share = None;
        let is_over = |course: &Course| matches!(course.moves.last(), Some(Action::Promote | Action::RollBack(_)));
        for (seconds, held, listed, runs) in looks {
            for (is_new, key, chance, again_soon) in runs {
                let end = match chance { 0 => RunResult::Trap, 1 => RunResult::Limit, 2..10 => RunResult::Error, _ => RunResult::Success };
                let side = if is_new { Track::Canary } else { Track::Stable };
                course.both.record(side, RunRecord { again_soon, ..run(key, end) });
            }
            course.now += Duration::from_secs(seconds);
            course.look(held, listed);
            prop_assert!(course.machine.share() >= share);
            share = course.machine.share();
            if is_over(&course) {
                break;
            }
        }
        // From here on only time passes.
        for _ in 0..=9 * (steps.len() + 1) {
            if is_over(&course) {
                break;
            }
            course.until_moved(false, true);
        }
        prop_assert!(is_over(&course), "{:?}", course.moves);
    }
}

#[test]
fn the_manual_names_every_gate_with_its_default() {
    let Gate { errors, traps, limits, duration, writes, hot_loops, lasts, reconciles } = Gate::default();
    let manual = include_str!("../../../../docs/rollout.md");
    let rows = [
        ("errors", errors.to_string()),
        ("traps", traps.to_string()),
        ("limits", limits.to_string()),
        ("duration", duration.to_string()),
        ("writes", writes.to_string()),
        ("hotLoops", hot_loops.to_string()),
        ("for", crate::manifest::Span(lasts).to_string()),
        ("reconciles", reconciles.to_string()),
    ];
    for (name, default) in rows {
        let row = format!("| `{name}` | {default} | ");
        assert!(manual.contains(&row), "{row}");
    }
}
