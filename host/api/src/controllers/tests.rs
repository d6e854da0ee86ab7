use serde_json::json;

use super::{QueueParams, cut};

fn of_states(states: &str) -> QueueParams {
    QueueParams { state: Some(states.to_owned()), ..QueueParams::default() }
}

#[test]
fn omitted_keys_and_unsearched_keys_are_counted_apart() {
    let whole = QueueParams::default();
    assert_eq!(cut(&whole, 0, 7), json!({ "wanted": 7, "notLookedAt": 0 }), "of a whole queue every key is wanted");
    assert_eq!(cut(&of_states("parked"), 3, 7), json!({ "wanted": 3, "notLookedAt": 7 }));
}

#[test]
fn an_unknown_state_of_keys_is_refused() {
    assert!(of_states("parked, running").check().is_ok());
    assert_eq!(of_states("parked,asleep").check().unwrap_err().code(), 400);
}
