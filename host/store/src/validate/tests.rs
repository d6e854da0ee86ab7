use serde_json::{Value, json};

use super::{bytes, depth, generated, key, kind_name, label_name, label_value, size};
use crate::{Key, Kind};

#[test]
fn bytes_are_those_of_the_json_text() {
    for value in [json!(null), json!("ä\u{0}\""), json!({"a": [1.5, {}]})] {
        assert_eq!(bytes(&value), value.to_string().len() as u64);
    }
}

#[test]
fn depth_is_counted_up_to_its_bound() {
    let nested = |levels: usize| {
        (0..levels).fold(json!(1), |value, level| if level % 2 == 0 { json!([value]) } else { json!({"a": value}) })
    };
    assert_eq!(depth(&json!("a"), 0), Some(0));
    assert_eq!(depth(&json!([]), 0), None);
    assert_eq!(depth(&json!([1, [2], {"a": [3]}]), 9), Some(3));
    assert_eq!(depth(&nested(5), 5), Some(5));
    assert_eq!(depth(&nested(6), 5), None);
    assert!(size("x", &nested(crate::DOCUMENT_DEPTH_MAX)).is_ok());
    assert!(size("x", &nested(crate::DOCUMENT_DEPTH_MAX + 1)).is_err());
}

#[test]
fn a_stored_document_can_be_parsed_inside_an_envelope() {
    let deepest = (0..crate::DOCUMENT_DEPTH_MAX).fold(json!(1), |value, _| json!([value]));
    let envelope = json!({"items": [{"object": deepest}]}).to_string();
    assert!(serde_json::from_str::<Value>(&envelope).is_ok());
}

#[test]
fn a_generated_name_fits_where_a_label_fits() {
    assert_eq!(generated("web-", "abcde"), "web-abcde");
    assert_eq!(generated(&"x".repeat(300), "abcde").len(), 63);
    assert_eq!(generated(&"ä".repeat(40), "abcde").len(), 63);
}

#[test]
fn label_names_and_values_follow_the_rules_of_kubernetes() {
    for good in
        ["a", "A-_.9", "example.dev/a", &"a".repeat(63), &format!("{}/a", "a.".repeat(126).trim_end_matches('.'))]
    {
        assert_eq!(label_name("x", good), Ok(()), "{good}");
    }
    for bad in ["", "-a", "a-", ".", "a/", "/a", "a/b/c", "Example/a", "a b", "a\n", "ä", &"a".repeat(64)] {
        assert!(label_name("x", bad).is_err(), "{bad}");
    }
    assert_eq!(label_value("x", ""), Ok(()));
    assert!(label_value("x", "a/b").is_err());
}

#[test]
fn names_have_the_form_of_their_kind() {
    let role = Kind::new("rbac.authorization.k8s.io", "v1", "ClusterRole");
    let address = Kind::new("networking.k8s.io", "v1", "IPAddress");
    let pod = Kind::new("", "v1", "Pod");
    let is_valid = |kind: &Kind, name: &str| key(&Key::new(kind.clone(), "", name)).is_ok();
    for (name, fits_role) in
        [("system:auth-delegator", true), ("A_b", true), ("a/b", false), ("a%b", false), ("a#b", false), ("..", false)]
    {
        assert_eq!((is_valid(&role, name), is_valid(&pod, name)), (fits_role, false), "{name}");
    }
    assert!(!is_valid(&role, "a\u{1b}b") && !is_valid(&role, "a b") && !is_valid(&role, &"a".repeat(254)));
    assert!(is_valid(&address, "2001:db8::1") && is_valid(&address, "10.0.0.1"));
    assert!(!is_valid(&address, "2001:DB8::1") && !is_valid(&address, "10.0.0.01"));
    assert!(kind_name("my-Widget").is_ok() && kind_name("my_Widget").is_err() && kind_name("-a").is_err());
}
