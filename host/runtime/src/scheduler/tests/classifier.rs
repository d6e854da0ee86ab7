use super::super::*;

const TICK_NS: u64 = 1_000_000;
const SHORT_NS: u64 = 300_000;
const BRIEF_NS: u64 = 2_000;

fn after(turns: impl IntoIterator<Item = u64>) -> TaskClass {
    let mut habit = TaskClassifier::default();
    turns.into_iter().for_each(|cost_ns| habit.record(cost_ns, false));
    habit.class()
}

#[test]
fn a_task_counts_as_brief_until_a_long_quantum() {
    assert_eq!(after([]), TaskClass::Interactive);
    assert_eq!(after([BRIEF_NS]), TaskClass::Interactive);
    assert_eq!(after([SHORT_NS]), TaskClass::Normal);
    assert_eq!(after([SHORT_NS, BRIEF_NS]), TaskClass::Interactive);
}

/// P5: a busy controller delays others by a bounded factor only.
#[test]
fn a_task_that_keeps_computing_is_batch_and_one_that_computes_briefly_is_not() {
    assert_eq!(after([TICK_NS; 4]), TaskClass::Normal);
    assert_eq!(after([TICK_NS; 5]), TaskClass::Batch);
    assert_eq!(after([5 * TICK_NS]), TaskClass::Batch, "in one piece, which nothing could interrupt");
}

/// P5: a busy controller delays others by a bounded factor only.
#[test]
fn a_task_with_long_quanta_between_short_ones_is_batch() {
    let pieces = |brief: usize| (0..100).flat_map(move |_| [vec![TICK_NS], vec![BRIEF_NS; brief]].concat());
    assert_eq!(after(pieces(30)), TaskClass::Batch);
    assert_eq!(after(pieces(200)), TaskClass::Interactive);
}

#[test]
fn a_past_computation_decays() {
    let computed = std::iter::repeat_n(TICK_NS, 1000);
    assert_eq!(after(computed.clone().chain([SHORT_NS; 40])), TaskClass::Batch);
    assert_eq!(after(computed.clone().chain([SHORT_NS; 60])), TaskClass::Normal);
    assert_eq!(after(computed.chain(std::iter::repeat_n(BRIEF_NS, 2000))), TaskClass::Interactive);
}
