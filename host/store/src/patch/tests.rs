use proptest::prelude::*;
use serde_json::{Value, json};

use super::change;
use crate::{Change, Error};

fn merge(target: &mut Value, patch: &Value) {
    *target = change(target, &Change::Merge(patch.clone()), None).unwrap();
}

/// Source: the table in appendix A of RFC 7396.
#[test]
fn merging_is_as_the_standard_says() {
    for (target, patch, wanted) in [
        (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
        (json!({"a": "b"}), json!({"a": null}), json!({})),
        (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
        (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
        (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
        (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
        (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
        (json!({"a": "b"}), json!(["c"]), json!(["c"])),
        (json!({"a": "foo"}), json!(null), json!(null)),
        (json!({"a": "foo"}), json!("bar"), json!("bar")),
        (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
        (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
        (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
    ] {
        let mut merged = target.clone();
        merge(&mut merged, &patch);
        assert_eq!(merged, wanted, "{target} + {patch}");
    }
}

/// RFC 7396 keeps them; the library of Kubernetes does not.
#[test]
fn an_object_in_a_list_of_a_merge_patch_loses_its_nulls() {
    let mut target = json!({"a": [1], "b": null});
    merge(&mut target, &json!({"a": [null, {"b": null, "c": [{"d": null}]}], "e": {"f": null}}));
    assert_eq!(target, json!({"a": [null, {"c": [{}]}], "b": null, "e": {}}));
}

#[test]
fn the_operations_of_a_json_patch_work_in_order() {
    let document = json!({"a": {"b": [1, 2]}});
    let patch = json!([
        {"op": "test", "path": "/a/b/0", "value": 1},
        {"op": "move", "from": "/a/b", "path": "/c~1d"},
        {"op": "copy", "from": "/c~1d/1", "path": "/a/e"},
        {"op": "replace", "path": "/c~1d/0", "value": {"x": null}},
    ]);
    let changed = change(&document, &Change::Json(patch), None).expect("it fits");
    assert_eq!(changed, json!({"a": {"e": 2}, "c/d": [{"x": null}, 2]}));
}

#[test]
fn an_operation_is_read_as_an_api_server_reads_it() {
    for (operation, wanted) in [
        (json!({"op": "add", "path": "/x"}), json!({"a": [1], "x": null})),
        (json!({"op": "replace", "path": "/x", "value": 2}), json!({"a": [1], "x": 2})),
        (json!({"op": "add", "path": "before/x", "value": 3}), json!({"a": [1], "x": 3})),
    ] {
        assert_eq!(change(&json!({"a": [1]}), &Change::Json(json!([operation])), None).unwrap(), wanted);
    }
}

#[test]
fn an_operation_that_does_not_fit_is_named() {
    for (operation, wanted) in [
        (json!({"op": "remove", "path": "/x"}), "patch[0]"),
        (json!({"op": "add", "path": "/x/y", "value": 1}), "patch[0]"),
        (json!({"op": "copy", "from": "/x/z", "path": "/y"}), "patch[0]"),
        (json!({"op": "move", "from": "/x", "path": "/y"}), "patch[0]"),
        (json!({"op": "add", "path": "/a/-1", "value": 1}), "patch[0]"),
        (json!({"op": "add", "path": "/a/99999999999999999999", "value": 1}), "patch[0]"),
        (json!({"op": "add", "path": "x", "value": 1}), "patch"),
    ] {
        let refused = change(&json!({"a": [1]}), &Change::Json(json!([operation])), None);
        assert!(matches!(&refused, Err(Error::Invalid { path, .. }) if path == wanted), "{operation}: {refused:?}");
    }
    let refused = change(&json!({}), &Change::Json(json!({})), None);
    assert!(matches!(refused, Err(Error::Invalid { .. })));
    let copy = json!([{"op": "copy", "from": "/x", "path": "/y"}]);
    assert_eq!(change(&json!({}), &Change::Json(copy), None).unwrap(), json!({"y": null}), "as in Kubernetes");
}

/// Any JSON value of moderate size.
pub(crate) fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-c\\PC]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[a-c]", inner, 0..4).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

fn holds_null_member(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.values().any(|value| value.is_null() || holds_null_member(value)),
        Value::Array(items) => items.iter().any(holds_null_member),
        _ => false,
    }
}

proptest! {
    #[test]
    fn merging_twice_is_merging_once(target in json_value(), patch in json_value()) {
        let mut once = target;
        merge(&mut once, &patch);
        let mut twice = once.clone();
        merge(&mut twice, &patch);
        prop_assert_eq!(twice, once);
    }

    #[test]
    fn merging_over_nothing_is_the_patch_without_its_nulls(patch in json_value()) {
        let mut merged = json!({});
        merge(&mut merged, &patch);
        prop_assert!(!holds_null_member(&merged));
        if !holds_null_member(&patch) {
            prop_assert_eq!(merged, patch);
        }
    }

    #[test]
    fn fields_that_a_merge_does_not_name_stay(target in json_value(), patch in json_value()) {
        let mut merged = target.clone();
        merge(&mut merged, &patch);
        if let (Value::Object(before), Value::Object(patch)) = (&target, &patch) {
            for (name, value) in before.iter().filter(|(name, _)| !patch.contains_key(*name)) {
                prop_assert_eq!(merged.get(name), Some(value));
            }
        }
    }

    #[test]
    fn any_json_is_refused_or_applied_as_a_patch(document in json_value(), patch in json_value()) {
        drop(change(&document, &Change::Json(patch), None));
    }
}
