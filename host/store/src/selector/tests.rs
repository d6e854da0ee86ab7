use proptest::prelude::*;
use serde_json::json;

use super::{LabelRequirement, Selector};
use crate::{Error, Resource};

fn one(text: &str) -> LabelRequirement {
    let mut parsed = Selector::parse_labels(text).expect("well formed");
    assert_eq!(parsed.len(), 1);
    parsed.remove(0)
}

#[test]
fn every_form_of_requirement_is_read() {
    use LabelRequirement::{Absent, Equals, Exists, GreaterThan, LessThan, NoneOf, NotEquals, OneOf};
    let text = |text: &str| text.to_owned();
    assert_eq!(one("a=b"), Equals(text("a"), text("b")));
    assert_eq!(one(" a == b "), Equals(text("a"), text("b")));
    assert_eq!(one("a="), Equals(text("a"), text("")));
    assert_eq!(one("a!=b"), NotEquals(text("a"), text("b")));
    assert_eq!(one("x.dev/a in (b, c)"), OneOf(text("x.dev/a"), vec![text("b"), text("c")]));
    assert_eq!(one("a in(b)"), OneOf(text("a"), vec![text("b")]));
    assert_eq!(one("a notin (b,)"), NoneOf(text("a"), vec![text("b"), text("")]));
    assert_eq!(one("in"), Exists(text("in")));
    assert_eq!(one("!a"), Absent(text("a")));
    assert_eq!(one("a>1"), GreaterThan(text("a"), 1));
    assert_eq!(one("a < 7"), LessThan(text("a"), 7));
    assert_eq!(Selector::parse_labels(" "), Ok(vec![]));
    assert_eq!(Selector::parse_labels("a in (b,c),!d,e=f").map(|parsed| parsed.len()), Ok(3));
}

#[test]
fn a_malformed_selector_is_refused() {
    for wrong in [
        ",",
        "a,",
        ",a",
        "a b",
        "a in",
        "a in b",
        "a in (b",
        "a in b)",
        "a in ((b))",
        "a on (b)",
        "a in (b) c",
        "a in x (b)",
        "=b",
        "!=b",
        "!",
        "a=b=c",
        "a=-",
        "a/b/c",
        "/a",
        "a>b",
        "a>-1",
        "a>+1",
        "a>",
        "a<1.5",
        "a>9223372036854775808",
        "(a)",
        "ä=b",
        "a=\0",
        "!a=b",
    ] {
        let refused = Selector::parse_labels(wrong);
        assert!(
            matches!(&refused, Err(Error::Invalid { path, .. }) if path == "labelSelector"),
            "{wrong}: {refused:?}"
        );
    }
}

#[test]
fn a_refusal_has_the_words_of_kubernetes() {
    for (text, words) in [
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a,", "found '', expected: identifier after ','"),
        (",", "found ',', expected: !, identifier, or 'end of string'"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("a=-", "unable to parse requirement: values[0][a]: Invalid value: \"-\": a valid label must be"),
        ("-a", "unable to parse requirement: <nil>: Invalid value: \"-a\": name part must consist of"),
    ] {
        let refused = Selector::parse_labels(text);
        assert!(
            matches!(&refused, Err(Error::Invalid { reason, .. }) if reason.starts_with(words)),
            "{text}: {refused:?}"
        );
    }
}

#[test]
fn an_absent_label_is_unequal_and_none_of() {
    for (text, absent, with_b, with_c) in [
        ("a=b", false, true, false),
        ("a!=b", true, false, true),
        ("a in (b,d)", false, true, false),
        ("a notin (b,d)", true, false, true),
        ("a", false, true, true),
        ("!a", true, false, false),
    ] {
        let found = [None, Some("b"), Some("c")].map(|value| one(text).matches(value));
        assert_eq!(found, [absent, with_b, with_c], "{text}");
    }
}

#[test]
fn a_field_has_to_be_that_string_or_a_scalar_that_is_written_so() {
    let document =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"a/b": "x", "n": 1, "l": ["y"]}});
    let resource = Resource::from_document(document).expect("well formed");
    let matches = |pointer: &str, value: &str| {
        let fields = vec![(pointer.to_owned(), value.to_owned())];
        Selector { fields, ..Selector::default() }.matches(&resource)
    };
    assert!(matches("/spec/a~1b", "x"));
    assert!(matches("/spec/l/0", "y"));
    assert!(!matches("/spec/a~1b", "y"));
    assert!(matches("/spec/n", "1"));
    assert!(!matches("/spec/n", ""));
    assert!(matches("/spec/missing", "") && !matches("/spec/missing", "x"));
    assert!(!matches("/spec/l", ""), "a list is no text");
}

#[test]
fn too_many_conditions_are_refused() {
    let labels =
        |count| Selector { labels: vec![LabelRequirement::Exists("a".to_owned()); count], ..Selector::default() };
    assert_eq!(labels(64).validate(), Ok(()));
    assert!(labels(65).validate().is_err());
    let fields = |count| Selector { fields: vec![("/a".to_owned(), String::new()); count], ..Selector::default() };
    assert_eq!(fields(16).validate(), Ok(()));
    assert!(fields(17).validate().is_err());
    let values = |count| Selector {
        labels: vec![LabelRequirement::OneOf("a".to_owned(), vec!["b".to_owned(); count])],
        ..Selector::default()
    };
    assert_eq!(values(64).validate(), Ok(()));
    assert!(values(65).validate().is_err());
    assert!(values(0).validate().is_err());
}

fn requirement() -> impl Strategy<Value = LabelRequirement> {
    let name = "([a-z0-9]([a-z0-9-]{0,5}[a-z0-9])?(\\.[a-z])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,5}[A-Za-z0-9])?";
    let value = "([A-Za-z0-9]([A-Za-z0-9._-]{0,5}[A-Za-z0-9])?)?";
    let values = || proptest::collection::vec(value, 1..4);
    prop_oneof![
        (name, value).prop_map(|(name, value)| LabelRequirement::Equals(name, value)),
        (name, value).prop_map(|(name, value)| LabelRequirement::NotEquals(name, value)),
        (name, values()).prop_map(|(name, values)| LabelRequirement::OneOf(name, values)),
        (name, values()).prop_map(|(name, values)| LabelRequirement::NoneOf(name, values)),
        name.prop_map(LabelRequirement::Exists),
        name.prop_map(LabelRequirement::Absent),
    ]
}

proptest! {
    #[test]
    fn selectors_survive_printing_and_parsing(requirements in proptest::collection::vec(requirement(), 0..5)) {
        let text = requirements.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        prop_assert_eq!(Selector::parse_labels(&text), Ok(requirements));
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[-a-c=!(), in\\PC]{0,20}") {
        if let Ok(parsed) = Selector::parse_labels(&text) {
            let again = parsed.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
            prop_assert_eq!(Selector::parse_labels(&again), Ok(parsed));
        }
    }
}

#[test]
fn numbers_are_compared_as_numbers_and_other_labels_match_no_bound() {
    let (above, below) = (one("a>9"), one("a<9"));
    for (value, is_above, is_below) in [
        (Some("10"), true, false),
        (Some("9"), false, false),
        (Some("-8"), false, true),
        (Some("ten"), false, false),
        (None, false, false),
    ] {
        assert_eq!((above.matches(value), below.matches(value)), (is_above, is_below), "{value:?}");
    }
    assert_eq!([above.to_string(), below.to_string()], ["a>9", "a<9"]);
}
