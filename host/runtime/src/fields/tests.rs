use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..3).prop_map(Value::from),
        "[ab]?".prop_map(Value::from)
    ];
    scalar.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[ab.]?|\\[\"", inner, 0..4).prop_map(|fields| json!(fields)),
        ]
    })
}

/// Returns the values of a document by path, split as differences split them.
fn leaves(document: &Value) -> std::collections::BTreeMap<String, Value> {
    let found = {
        let mut found = Vec::new();
        compare(&mut String::new(), None, Some(document), &mut found);
        found
    };
    found.into_iter().map(|found| (found.path, found.new.unwrap())).collect()
}

proptest! {
    #[test]
    fn equal_documents_have_no_difference_and_others_have_one(old in value(), new in value()) {
        prop_assert!(differences(&old, &old).is_empty());
        prop_assert_eq!(differences(&old, &new).is_empty(), old == new);
    }

    #[test]
    fn differences_have_both_values_and_swapping_the_documents_swaps_them(old in value(), new in value()) {
        let there = differences(&old, &new);
        let back: Vec<_> = differences(&new, &old)
            .into_iter()
            .map(|FieldDifference { path, old, new }| FieldDifference { path, old: new, new: old })
            .collect();
        prop_assert_eq!(&there, &back);
        let mut paths: Vec<_> = there.iter().map(|difference| &difference.path).collect();
        prop_assert!(there.iter().all(|difference| difference.old != difference.new));
        paths.sort();
        paths.dedup();
        prop_assert_eq!(paths.len(), there.len(), "every path is told once");
    }

    #[test]
    fn fields_without_a_difference_are_equal_in_both(fields in prop::collection::btree_map("[a-c]", value(), 0..4), name in "[a-d]", other in value()) {
        let old = json!(fields);
        let mut new = old.clone();
        new[&name] = other;
        let told = differences(&old, &new);
        prop_assert!(told.iter().all(|difference| difference.path.starts_with(&name)));
        let (before, after) = (leaves(&old), leaves(&new));
        for (path, value) in before.iter().filter(|(path, _)| !path.is_empty() && !path.starts_with(&name)) {
            prop_assert_eq!(after.get(path), Some(value));
        }
    }
}

#[test]
fn paths_of_fields_are_printed_as_people_write_them() {
    let old = json!({"a": 1, "m": {"labels": {"a.b/c": "x"}}, "s": {"c": [{"i": 1}, {"i": 2}], "plain": [1, 2], "gone": {"x": 1}}});
    let new = json!({"a": 1, "m": {"labels": {"a.b/c": "y"}}, "s": {"c": [{"i": 1}, {"i": 3}, {"i": 4}], "plain": [1]}, "e": {}});
    let told: Vec<_> =
        differences(&old, &new).into_iter().map(|FieldDifference { path, old, new }| (path, old, new)).collect();
    let some = |value: Value| Some(value);
    assert_eq!(
        told,
        [
            ("e".to_owned(), None, some(json!({}))),
            (r#"m.labels["a.b/c"]"#.to_owned(), some(json!("x")), some(json!("y"))),
            ("s.c[1].i".to_owned(), some(json!(2)), some(json!(3))),
            ("s.c[2].i".to_owned(), None, some(json!(4))),
            ("s.gone.x".to_owned(), some(json!(1)), None),
            ("s.plain".to_owned(), some(json!([1, 2])), some(json!([1]))),
        ]
    );
}
