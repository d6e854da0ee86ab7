use serde_json::json;

use super::*;

fn patched(mut target: Value, patch: Value) -> Value {
    apply(&mut target, &patch, None).unwrap();
    target
}

fn pod() -> Value {
    json!({"spec": {"containers": [
        {"name": "web", "image": "web:1", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
        {"name": "log", "image": "log:1"},
    ], "args": ["-a", "-b"]}})
}

#[test]
fn items_with_a_key_are_merged_one_by_one() {
    let patch = json!({"spec": {"containers": [{"name": "web", "image": "web:2"}]}});
    let mut expected = pod();
    expected["spec"]["containers"][0]["image"] = json!("web:2");
    assert_eq!(patched(pod(), patch), expected);
}

#[test]
fn an_item_is_added_deleted_and_put_in_order() {
    let patch = json!({"spec": {
        "$setElementOrder/containers": [{"name": "new"}, {"name": "web"}],
        "containers": [{"name": "new", "image": "new:1"}, {"name": "log", "$patch": "delete"}],
    }});
    let now = patched(pod(), patch);
    let names: Vec<&Value> = now["spec"]["containers"].as_array().unwrap().iter().map(|item| &item["name"]).collect();
    assert_eq!(names, ["new", "web"]);
}

#[test]
fn other_lists_are_replaced() {
    let now = patched(pod(), json!({"spec": {"args": ["-c"]}}));
    assert_eq!(now["spec"]["args"], json!(["-c"]));
}

#[test]
fn directives_replace_retain_and_take_scalars_out() {
    let now = patched(pod(), json!({"spec": {"containers": [{"$patch": "replace"}, {"name": "only"}]}}));
    assert_eq!(now["spec"]["containers"], json!([{"name": "only"}]));
    let strategy = json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}});
    let patch = json!({"strategy": {"$retainKeys": ["type"], "type": "Recreate"}});
    assert_eq!(patched(strategy, patch), json!({"strategy": {"type": "Recreate"}}));
    let finalizers = json!({"metadata": {"finalizers": ["a", "b"]}});
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]}});
    assert_eq!(patched(finalizers, patch), json!({"metadata": {"finalizers": ["c", "b"]}}));
}

#[test]
fn null_removes_a_field_and_directives_are_not_stored() {
    let now = patched(
        json!({"a": 1, "b": {"d": 2}}),
        json!({"a": null, "b": {"$patch": "replace", "c": 1, "e": null}, "d": {"$patch": "delete"}}),
    );
    assert_eq!(now, json!({"b": {"c": 1}}));
}

#[test]
fn an_item_without_its_key_is_refused() {
    let mut target = pod();
    let patch = json!({"spec": {"containers": [{"image": "x"}]}});
    let error = apply(&mut target, &patch, None).unwrap_err().to_string();
    assert!(error.contains("patch.spec.containers") && error.contains("`name`"), "{error}");
}

#[test]
fn an_unknown_directive_names_its_place() {
    let error = apply(&mut json!({"spec": {}}), &json!({"spec": {"$patch": "burn"}}), None).unwrap_err().to_string();
    assert!(error.contains("patch.spec"), "{error}");
}

/// The orders are those of a kube-apiserver.
#[test]
fn merged_items_are_in_the_order_of_kubernetes() {
    let list = |names: &str| -> Value { names.chars().map(|name| json!({"name": name.to_string()})).collect() };
    let cases = [
        // Before, patch, asked order, after.
        ("ab", "c", None, "cab"),
        ("abc", "b", None, "abc"),
        ("abc", "cb", None, "acb"),
        ("abc", "xb", None, "xabc"),
        ("ab", "c", Some("abc"), "abc"),
        ("abcd", "", Some("ca"), "bcad"),
        ("abc", "d", Some("dc"), "dabc"),
    ];
    for (before, patch, order, after) in cases {
        let mut patch = json!({ "env": list(patch) });
        if let Some(order) = order {
            patch["$setElementOrder/env"] = list(order);
        }
        assert_eq!(patched(json!({ "env": list(before) }), patch.clone()), json!({ "env": list(after) }), "{patch}");
    }
}

#[test]
fn a_patch_in_another_order_than_it_asks_for_is_refused() {
    let patch = json!({"$setElementOrder/env": [{"name": "A"}, {"name": "B"}], "env": [{"name": "B"}, {"name": "A"}]});
    let error = apply(&mut json!({"env": []}), &patch, None).unwrap_err().to_string();
    assert!(error.contains("patch.env") && error.contains("order"), "{error}");
}

#[test]
fn retained_keys_have_every_field_that_the_patch_sets() {
    let patch = json!({"strategy": {"$retainKeys": ["type"], "type": "Recreate", "gone": null}});
    assert_eq!(patched(json!({"strategy": {"kept": 1}}), patch), json!({"strategy": {"type": "Recreate"}}));
    for retained in [json!(["type"]), json!("type"), json!([1])] {
        let patch = json!({"strategy": {"$retainKeys": retained, "type": "a", "more": 1}});
        let error = apply(&mut json!({"strategy": {}}), &patch, None).unwrap_err();
        assert!(matches!(&error, Error::MalformedPatch { reason } if reason.starts_with("strategy.$retainKeys")));
    }
}

#[test]
fn lists_of_many_items_are_merged_in_time_proportional_to_them() {
    let many: Vec<Value> = (0..20_000).map(|number| json!({"name": number.to_string()})).collect();
    let patch = json!({ "env": many, "$setElementOrder/env": many });
    assert_eq!(patched(json!({ "env": many }), patch), json!({ "env": many }));
}
