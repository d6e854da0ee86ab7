use proptest::prelude::*;
use serde_json::json;

use super::{IndexTerm, SortedMerge, TERMS_MAX, VALUE_BYTES_MAX, lookups};
use crate::{Error, LabelRequirement, Resource, Selector};

fn pod(spec: serde_json::Value) -> Resource {
    let document = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"app": "web"}}, "spec": spec,
    });
    Resource::from_document(document).expect("well formed")
}

#[test]
fn a_term_has_the_value_that_a_selector_compares() {
    let value = |term: &IndexTerm, spec| term.value_of(&pod(spec)).map(std::borrow::Cow::into_owned);
    let field = IndexTerm::Field("/spec/x".into());
    let cases = [
        (json!("a"), Some("a")),
        (json!(7), Some("7")),
        (json!(true), Some("true")),
        (json!(""), None),
        (json!(null), None),
        (json!(["a"]), None),
    ];
    for (x, wanted) in cases {
        assert_eq!(value(&field, json!({ "x": x })).as_deref(), wanted);
    }
    assert_eq!(value(&field, json!({})), None);
    assert_eq!(value(&IndexTerm::Label("app".into()), json!({})).as_deref(), Some("web"));
    assert_eq!(value(&IndexTerm::Label("tier".into()), json!({})), None);
}

#[test]
fn a_long_value_is_cut_alike_in_the_index_and_in_the_lookup() {
    let long = "é".repeat(VALUE_BYTES_MAX);
    let (term, resource) = (IndexTerm::Field("/spec/x".into()), pod(json!({ "x": long })));
    let value = term.value_of(&resource).expect("it is a string").into_owned();
    assert!(value.len() <= VALUE_BYTES_MAX);
    let selector = Selector { fields: vec![("/spec/x".into(), long)], ..Selector::default() };
    assert_eq!(lookups(&selector)[0].values, [value.as_str()]);
}

#[test]
fn only_conditions_that_name_values_are_lookups_and_single_values_come_first() {
    let labels = vec![
        LabelRequirement::Exists("a".into()),
        LabelRequirement::OneOf("b".into(), vec!["2".into(), "1".into(), "2".into()]),
        LabelRequirement::NotEquals("c".into(), "1".into()),
        LabelRequirement::Equals("d".into(), "1".into()),
    ];
    let fields = vec![("/spec/x".into(), "y".into()), ("/spec/empty".into(), String::new())];
    let selector = Selector { labels, fields, ..Selector::default() };
    let found: Vec<_> = lookups(&selector).into_iter().map(|found| (found.term.encode(), found.values)).collect();
    let wanted = [("ld", vec!["1"]), ("f/spec/x", vec!["y"]), ("lb", vec!["1", "2"])];
    assert_eq!(found, wanted.map(|(term, values)| (term.to_owned(), values)));
}

#[test]
fn the_encoded_form_of_a_term_is_read_back() {
    for term in [IndexTerm::Label("example.com/app".into()), IndexTerm::Field("/spec/a~1b".into())] {
        assert_eq!(IndexTerm::decode(&term.encode()), Some(term));
    }
    assert_eq!((IndexTerm::decode(""), IndexTerm::decode("x")), (None, None));
}

#[test]
fn too_many_terms_and_malformed_ones_are_refused() {
    let many: Vec<_> = (0..=TERMS_MAX).map(|number| IndexTerm::Label(format!("n{number}"))).collect();
    assert_eq!(IndexTerm::check("terms", &many[1..]), Ok(()));
    for terms in [many, vec![IndexTerm::Label("a b".into())], vec![IndexTerm::Field("spec".into())]] {
        assert!(matches!(IndexTerm::check("terms", &terms), Err(Error::Invalid { path, .. }) if path == "terms"));
    }
}

proptest! {
    #[test]
    fn merged_sequences_are_in_order_and_complete(mut sets in prop::collection::vec(prop::collection::btree_set(0..50_u8, 0..9), 0..5)) {
        let mut seen = std::collections::BTreeSet::new();
        for set in &mut sets {
            set.retain(|number| seen.insert(*number));
        }
        let merged = SortedMerge::of(sets.into_iter().map(|set| set.into_iter().map(Ok)));
        prop_assert_eq!(merged.collect::<crate::Result<Vec<_>>>().expect("no item fails"), Vec::from_iter(seen));
    }
}
