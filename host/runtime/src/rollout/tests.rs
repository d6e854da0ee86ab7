use proptest::prelude::*;

use super::*;
use crate::shadow::{Allowed, ShadowReport};

mod simulation;

const STEP: Duration = Duration::from_secs(60);

fn run(key: u64, end: End) -> Run {
    let (ready, ended) = (Duration::ZERO, Duration::ZERO);
    let wall = Duration::from_millis(2);
    Run { key, is_look: false, is_retry: false, end, writes: 0, again_soon: false, ready, ended, wall }
}

/// Figures of so many reconciles, each of another key, of which some ended badly.
fn figures(runs: u64, bad: u64, end: End) -> Figures {
    of((0..runs).map(|key| run(key, if key < bad { end } else { End::Fine })))
}

/// Figures of a candidate.
fn of(runs: impl IntoIterator<Item = Run>) -> Figures {
    let mut both = Both::default();
    runs.into_iter().for_each(|run| both.note(Side::New, run));
    both.new
}

/// What both came to, with an old version that did nothing before.
fn both(old: Figures, new: Figures) -> Both {
    Both { old, new, past: Past::default() }
}

fn word(judgement: &Judgement) -> &'static str {
    match judgement {
        Judgement::Within => "within",
        Judgement::Doubtful(_) => "doubtful",
        Judgement::Beyond(_) => "beyond",
    }
}

#[test]
fn errors_count_beside_those_of_the_old_version_and_a_few_decide_nothing() {
    // Errors and reconciles of the old one, of the new one, and what that comes to with a gate of 1%.
    let table = [
        ((0, 100), (0, 10), "within"),
        ((0, 100), (1, 100), "within"),
        ((0, 100), (1, 10), "doubtful"),
        ((0, 100), (2, 2), "doubtful"),
        ((0, 27), (3, 3), "beyond"),
        ((0, 0), (2, 2), "doubtful"),
        ((0, 0), (3, 3), "beyond"),
        ((0, 1), (9, 9), "beyond"),
        // What fails as often as it did goes on.
        ((50, 100), (5, 10), "within"),
        ((50, 100), (6, 10), "doubtful"),
        ((100, 1000), (10, 100), "within"),
        ((100, 1000), (14, 100), "doubtful"),
        ((100, 1000), (30, 100), "beyond"),
        // A version that fails for one key in twenty: three are no more than chance makes of one in a hundred.
        ((0, 900), (3, 60), "doubtful"),
        ((0, 2700), (12, 240), "doubtful"),
        ((0, 2700), (15, 300), "beyond"),
        ((0, 100), (5, 100), "doubtful"),
        ((0, 400), (20, 400), "doubtful"),
        ((0, 900), (10, 100), "beyond"),
    ];
    for ((old_errors, old), (errors, new), comes_to) in table {
        let both = both(figures(old, old_errors, End::Error), figures(new, errors, End::Error));
        let judged = judge(&Gate::default(), &both);
        assert_eq!(word(&judged), comes_to, "{old_errors} of {old}, {errors} of {new}: {judged:?}");
    }
}

#[test]
fn a_version_that_always_fails_is_stopped_at_the_ninth_reconcile_at_the_latest() {
    for old in 0..200 {
        let beyond = (1..).find(|new| {
            let both = both(figures(old, 0, End::Fine), figures(*new, *new, End::Error));
            matches!(judge(&Gate::default(), &both), Judgement::Beyond(_))
        });
        assert!(beyond.is_some_and(|new| new <= if old >= 27 { 3 } else { 9 }), "{old}: {beyond:?}");
    }
}

#[test]
fn the_first_trap_or_limit_counts_unless_the_gate_or_the_old_version_allows_it() {
    // What the gate allows, the old one's, the new one's, and what that comes to.
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
        for end in [End::Trap, End::Limit] {
            let gate = Gate { traps: allowed, limits: allowed, ..Gate::default() };
            let both = both(figures(old, old_bad, end), figures(new, bad, end));
            assert_eq!(word(&judge(&gate, &both)), comes_to, "{end:?}: {allowed}, {old_bad} of {old}, {bad} of {new}");
        }
    }
}

#[test]
fn durations_are_compared_over_twenty_reconciles_and_short_ones_are_all_the_same() {
    // A look before, so that it is not the first run of its key.
    let of = |runs: u64, millis: u64| {
        let wall = Duration::from_millis(millis);
        of((0..runs)
            .flat_map(|key| [false, true].map(|is_look| Run { is_look: !is_look, wall, ..run(key, End::Fine) })))
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
        assert_eq!(word(&judge(&Gate::default(), &both)), comes_to, "{old} ms, {new} ms over {new_runs}");
    }
}

/// A trap that the old version has made as well, at some time, is no reason by itself.
#[test]
fn what_the_old_version_did_before_the_step_is_compared_too() {
    let past = Past { runs: 100_000, traps: 500, ..Past::default() };
    for (traps, comes_to) in [(1, "doubtful"), (2, "doubtful"), (9, "beyond")] {
        let both = Both { past, ..both(figures(100, 0, End::Fine), figures(100, traps, End::Trap)) };
        assert_eq!(word(&judge(&Gate::default(), &both)), comes_to, "{traps} of 100, 500 of 100,000 before");
    }
}

#[test]
fn a_first_write_of_each_key_is_no_amplification_and_a_write_every_time_is() {
    let of = |keys: u64, rounds: u64, first: u32, later: u32| {
        let runs = |round| (0..keys).map(move |key| (key, if round == 0 { first } else { later }));
        of((0..rounds).flat_map(runs).map(|(key, writes)| Run { writes, ..run(key, End::Fine) }))
    };
    for (old, new, comes_to) in [
        (of(100, 2, 0, 0), of(100, 2, 1, 0), "within"),
        (of(100, 2, 0, 0), of(100, 2, 1, 1), "beyond"),
        (of(100, 2, 0, 0), of(9, 3, 1, 1), "within"),
        (of(100, 2, 1, 1), of(100, 2, 1, 1), "within"),
        (of(100, 2, 1, 1), of(100, 2, 3, 3), "beyond"),
        // There is nothing to compare with, or nothing that chance could not have dealt.
        (of(0, 0, 0, 0), of(100, 2, 3, 3), "within"),
        (of(4, 10, 0, 0), of(2, 20, 1, 1), "doubtful"),
    ] {
        let both = both(old, new);
        assert_eq!(word(&judge(&Gate::default(), &both)), comes_to, "{:?}", both.new.asked_work);
    }
}

#[test]
fn a_key_that_runs_on_and_on_is_stopped_at_its_thirty_first_reconcile_in_a_row() {
    let row = |runs: u64| of((0..runs).map(|_| Run { again_soon: true, ..run(1, End::Fine) }));
    let comes_to = |old, new| word(&judge(&Gate::default(), &both(row(old), row(new))));
    assert_eq!((comes_to(0, 30), comes_to(0, 31)), ("within", "beyond"));
    assert_eq!((comes_to(9, 90), comes_to(9, 91)), ("within", "beyond"), "the old one does so too");
}

/// A canary that is looked at once a second, and what each look sees.
struct Course {
    machine: Machine,
    now: Duration,
    both: Both,
    moves: Vec<Move>,
}

impl Course {
    fn begin(plan: Canary) -> Self {
        Self {
            machine: Machine::new(plan, None, Duration::ZERO),
            now: Duration::ZERO,
            both: Both::default(),
            moves: Vec::new(),
        }
    }

    fn look(&mut self, held: bool, listed: bool) -> Move {
        let sight = Sight { now: self.now, held, listed, both: &self.both, failed: None, shadow: None };
        let move_ = self.machine.step(sight);
        if let Move::Widen(share) = move_ {
            self.machine.widened(share, self.now);
            self.both = Both::default();
        }
        if move_ != Move::Stay {
            self.moves.push(move_.clone());
        }
        move_
    }

    /// Goes on until the step is over. Returns after how many seconds, and how often the keys were looked at again meanwhile.
    fn until_over(&mut self) -> (u64, usize) {
        let (mut seconds, mut looks) = (0, 0);
        loop {
            seconds += self.until_moved(false, true);
            match self.moves.last() {
                Some(Move::LookAgain) => looks += 1,
                _ => return (seconds, looks),
            }
        }
    }

    /// Looks once a second until something is done, for a day at most. Returns after how many seconds.
    fn until_moved(&mut self, held: bool, listed: bool) -> u64 {
        let begun = self.now;
        for _ in 0..86_400 {
            if self.look(held, listed) != Move::Stay {
                break;
            }
            self.now += Duration::from_secs(1);
        }
        (self.now - begun).as_secs()
    }
}

#[test]
fn steps_last_as_long_and_have_as_many_reconciles_as_the_gate_says() {
    let mut course = Course::begin(Canary::default());
    assert_eq!(course.until_moved(false, true), 0);
    for (share, reconciles) in [(10, 20), (50, 152)] {
        assert_eq!(course.machine.share(), Some(Share::percent(share)));
        course.both.new = figures(reconciles, 0, End::Fine);
        assert_eq!(course.until_moved(false, true), 30, "a second look after half of the time");
        assert_eq!(course.moves.pop(), Some(Move::LookAgain));
        assert_eq!(course.until_moved(false, true), 30);
    }
    assert_eq!(course.moves, [Move::Widen(Share::percent(10)), Move::Widen(Share::percent(50)), Move::Promote]);
}

#[test]
fn a_step_with_few_reconciles_looks_for_more_and_one_in_doubt_goes_back() {
    for (new, passes) in
        [(figures(0, 0, End::Fine), true), (figures(3, 0, End::Fine), true), (figures(3, 2, End::Error), false)]
    {
        let mut course = Course::begin(Canary::default());
        course.look(false, true);
        course.both.new = new;
        assert_eq!(course.until_over(), (240, 7));
        let last = course.moves.last().unwrap();
        assert_eq!(*last == Move::Widen(Share::percent(50)), passes, "{last:?}");
        assert_eq!(matches!(last, Move::GoBack(_)), !passes);
    }
}

/// The last step before all keys come is the one that has to tell; of an old version that traps, against its traps.
#[test]
fn all_keys_come_when_enough_was_seen_or_after_four_times_the_time() {
    let traps = |runs, traps| figures(runs, traps, End::Trap);
    let past = Past { runs: 100_000, traps: 500, ..Past::default() };
    for (old, new, seconds) in [
        (traps(150, 0), traps(152, 0), 60),
        (traps(150, 0), traps(151, 0), 240),
        (traps(150, 3), traps(152, 0), 60),
        (traps(150, 3), traps(150, 2), 240),
        (traps(900, 5), traps(900, 4), 60),
    ] {
        let mut course = Course::begin(Canary { steps: vec![Share::percent(50)], ..Canary::default() });
        course.look(false, true);
        course.both = Both { past, ..both(old, new) };
        let (lasted, _) = course.until_over();
        assert_eq!((lasted, course.moves.last()), (seconds, Some(&Move::Promote)));
    }
}

#[test]
fn time_does_not_pass_while_it_is_held_and_what_is_beyond_the_gate_goes_back_all_the_same() {
    let mut course = Course::begin(Canary::default());
    course.look(false, true);
    course.both.new = figures(20, 0, End::Fine);
    course.until_moved(true, true);
    assert_eq!(course.moves.len(), 1, "a day is held");
    course.until_moved(false, true);
    assert_eq!(course.until_moved(false, true), 30);
    course.both.new = figures(20, 1, End::Trap);
    assert!(matches!(course.look(true, true), Move::GoBack(_)));
}

#[test]
fn a_candidate_whose_watches_do_not_list_gets_no_key_and_goes_back() {
    let mut course = Course::begin(Canary::default());
    assert_eq!(course.until_moved(false, false), 240);
    assert_eq!(course.moves, [Move::GoBack("its watches have not had their first lists".to_owned())]);
}

#[test]
fn a_shadow_comes_before_every_share_and_is_looked_for_again_until_enough_was_compared() {
    let plan = ShadowPlan { lasts: STEP, reconciles: 2, allowed: Allowed::Count(0) };
    for (steps, comes_to) in [(Vec::new(), Move::Promote), (vec![Share::percent(5)], Move::Widen(Share::percent(5)))] {
        let mut machine = Machine::new(Canary { steps, shadow: Some(plan.clone()), ..Canary::default() }, None, STEP);
        let both = Both::default();
        let (few, enough) = (
            ShadowReport { compared: 1, equal: 1, ..ShadowReport::default() },
            ShadowReport { compared: 2, equal: 2, ..ShadowReport::default() },
        );
        let mut look = |quarters: u32, shadow| {
            let now = STEP + STEP * quarters / 4;
            let sight = Sight { now, held: false, listed: true, both: &both, failed: None, shadow };
            let next = machine.step(sight);
            if next == Move::EndShadow {
                machine.shadowed(now);
            }
            next
        };
        assert_eq!(look(0, None), Move::BeginShadow);
        assert_eq!(look(0, Some(&few)), Move::Stay);
        assert_eq!(look(1, Some(&few)), Move::LookAgain);
        assert_eq!(look(1, Some(&few)), Move::Stay);
        assert_eq!(look(2, None), Move::BeginShadow, "somebody has ended it");
        assert_eq!(look(5, Some(&enough)), Move::LookAgain, "its time begins anew");
        assert_eq!(look(6, Some(&enough)), Move::EndShadow);
        assert_eq!(look(6, None), comes_to);
    }
    let differing = ShadowReport { compared: 1, differing: 1, ..ShadowReport::default() };
    let mut machine = Machine::new(Canary { shadow: Some(plan), ..Canary::default() }, None, STEP);
    let both = Both::default();
    let sight = Sight { now: STEP, held: false, listed: true, both: &both, failed: None, shadow: Some(&differing) };
    assert!(matches!(machine.step(sight), Move::GoBack(reason) if reason.contains("1 of 1 reconciles differ")));
}

#[test]
fn one_that_goes_on_after_a_restart_has_the_share_that_it_had() {
    let fifty = Some(Share::percent(50));
    let mut machine = Machine::new(Canary::default(), fifty, STEP);
    let both = Both::default();
    let sight = Sight { now: STEP, held: true, listed: true, both: &both, failed: None, shadow: None };
    assert_eq!(machine.step(sight), Move::Widen(Share::percent(50)), "also while it is held: nothing else runs before");
    machine.follow(Canary { steps: vec![Share::percent(20), Share::percent(60)], ..Canary::default() });
    machine.widened(Share::percent(50), STEP);
    let both = Both { new: figures(20, 0, End::Fine), ..Both::default() };
    assert_eq!(machine.step(Sight { now: STEP, ..sight }), Move::Stay);
    let later = Sight { now: STEP * 2, held: false, both: &both, ..sight };
    assert_eq!(machine.step(later), Move::Widen(Share::percent(60)), "another plan never takes keys away");
}

/// One look: seconds since the one before, whether it is held and listed, and what the reconciles between came to.
type Look = (u64, bool, bool, Vec<(bool, u64, u8, bool)>);

fn looks() -> impl Strategy<Value = Vec<Look>> {
    let run = (any::<bool>(), 0_u64..20, 0_u8..100, any::<bool>());
    prop::collection::vec(
        (0_u64..200, prop::bool::weighted(0.1), any::<bool>(), prop::collection::vec(run, 0..30)),
        1..60,
    )
}

proptest! {
    /// Whatever happens, shares grow until it is over, and it is over in the end unless somebody holds it for ever.
    #[test]
    fn a_share_never_shrinks_but_to_nothing_and_every_course_ends(looks in looks(), steps in prop::collection::btree_set(1_u16..100, 1..5)) {
        let steps: Vec<Share> = steps.into_iter().map(Share::percent).collect();
        let mut course = Course::begin(Canary { steps: steps.clone(), ..Canary::default() });
        let mut share = None;
        let is_over = |course: &Course| matches!(course.moves.last(), Some(Move::Promote | Move::GoBack(_)));
        for (seconds, held, listed, runs) in looks {
            for (is_new, key, chance, again_soon) in runs {
                let end = match chance { 0 => End::Trap, 1 => End::Limit, 2..10 => End::Error, _ => End::Fine };
                let side = if is_new { Side::New } else { Side::Old };
                course.both.note(side, Run { again_soon, ..run(key, end) });
            }
            course.now += Duration::from_secs(seconds);
            course.look(held, listed);
            prop_assert!(course.machine.share() >= share);
            share = course.machine.share();
            if is_over(&course) {
                break;
            }
        }
        // From here on nothing happens but that time passes.
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
