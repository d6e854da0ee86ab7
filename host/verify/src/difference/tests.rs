use homeostat_component::Exchange;
use homeostat_store::{Key, Kind};

use super::*;

fn trace(answers: &[u64], result: Outcome) -> Trace {
    let exchange = |answer: &u64| Exchange { effect: Effect::WallClock, answer: Answer::Nanoseconds(*answer) };
    Trace {
        digest: "sha256:0".into(),
        controller: "web".into(),
        key: Key::new(Kind::new("demo.dev", "v1", "App"), "default", "a"),
        exchanges: answers.iter().map(exchange).collect(),
        result: Ok(result),
    }
}

#[test]
fn equal_traces_have_no_difference() {
    assert_eq!(difference(&trace(&[1, 2], Outcome::Settled), &trace(&[1, 2], Outcome::Settled)), None);
}

#[test]
fn a_changed_answer_is_a_difference_of_the_world() {
    let found = difference(&trace(&[1, 2], Outcome::Settled), &trace(&[1, 3], Outcome::Settled)).unwrap();
    assert!(matches!(found, TraceDifference::Answer { at: 1, .. }));
    assert!(!found.is_of_the_guest());
}

#[test]
fn a_missing_effect_is_a_difference_of_the_guest() {
    let found = difference(&trace(&[1, 2], Outcome::Settled), &trace(&[1], Outcome::Settled)).unwrap();
    assert_eq!(found, TraceDifference::Effect { at: 1, was: Some(Effect::WallClock), is: None });
    assert!(found.is_of_the_guest());
}

#[test]
fn another_result_after_equal_effects_is_a_difference_of_the_guest() {
    let later = Outcome::AgainAfter(std::time::Duration::from_secs(1));
    let found = difference(&trace(&[1], Outcome::Settled), &trace(&[1], later)).unwrap();
    assert!(found.is_of_the_guest());
}

#[test]
fn a_trace_reads_back_as_it_was_written() {
    let trace = trace(&[1, 2], Outcome::Settled);
    let text = serde_json::to_string(&trace).unwrap();
    assert_eq!(serde_json::from_str::<Trace>(&text).unwrap(), trace);
}
