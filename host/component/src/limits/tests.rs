use std::time::Duration;

use super::{Limits, cut};

#[test]
fn a_text_is_truncated_at_a_character_boundary() {
    assert_eq!(cut("aé".to_owned(), 2), "a");
    assert_eq!(cut("aé".to_owned(), 3), "aé");
    assert_eq!(cut(String::new(), 0), "");
}

#[test]
fn the_default_limits_have_no_problems() {
    assert_eq!(Limits::default().problems(), Vec::<String>::new());
}

#[test]
fn limits_under_which_nothing_can_run_are_refused_by_name() {
    let limits = Limits { deadline: Duration::ZERO, memory_bytes_max: 1, ..Limits::default() };
    let problems = limits.problems().join("\n");
    for name in ["deadline", "cpu", "memory"] {
        assert!(problems.contains(name), "{problems}");
    }
}

#[test]
fn limits_survive_encoding_and_decoding_as_json() {
    let limits = Limits { effects_max: 7, ..Limits::default() };
    let text = serde_json::to_string(&limits).unwrap();
    assert!(text.contains("\"deadlineMs\":30000"), "{text}");
    assert_eq!(serde_json::from_str::<Limits>(&text).unwrap(), limits);
    assert_eq!(serde_json::from_str::<Limits>("{}").unwrap(), Limits::default());
    assert!(serde_json::from_str::<Limits>(r#"{"deadline": 1}"#).is_err());
}
