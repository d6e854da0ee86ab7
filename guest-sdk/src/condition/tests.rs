use super::*;

fn at(seconds: i64) -> Time {
    Time::from_unix_milliseconds(seconds * 1000)
}

#[test]
fn the_transition_time_moves_only_when_the_status_flips() {
    let mut conditions = Conditions::default();
    let since = |conditions: &Conditions| conditions.get("Ready").and_then(|ready| ready.last_transition_time);
    conditions.set_at(Condition::new("Ready", false).because("Starting", "0 of 3"), || at(1));
    conditions.set_at(Condition::new("Ready", false).because("Starting", "2 of 3").observed(2), || at(2));
    assert_eq!(since(&conditions), Some(at(1)));
    conditions.set_at(Condition::new("Ready", true), || at(3));
    assert_eq!(since(&conditions), Some(at(3)));
    conditions.set_at(Condition::new("Ready", Status::Unknown), || at(4));
    assert_eq!(since(&conditions), Some(at(4)));
    assert_eq!(conditions.iter().count(), 1);
}

#[test]
fn the_clock_is_not_read_when_nothing_flips() {
    let mut conditions = Conditions::default();
    conditions.set_at(Condition::new("Ready", true), || at(1));
    conditions.set_at(Condition::new("Ready", true), || panic!("the clock was read"));
    assert!(conditions.is_true("Ready"));
}

#[test]
fn a_condition_is_written_as_kubernetes_does() {
    let mut conditions = Conditions::default();
    conditions.set_at(Condition::new("Ready", true).because("AllUp", "3 of 3").observed(7), || at(0));
    assert_eq!(
        serde_json::to_value(&conditions).unwrap(),
        serde_json::json!([{
            "type": "Ready", "status": "True", "observedGeneration": 7,
            "lastTransitionTime": "1970-01-01T00:00:00Z", "reason": "AllUp", "message": "3 of 3",
        }])
    );
}
