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
    assert_eq!(patched(finalizers, patch), json!({"metadata": {"finalizers": ["b", "c"]}}));
}

#[test]
fn null_removes_a_field_and_directives_are_not_stored() {
    let now =
        patched(json!({"a": 1}), json!({"a": null, "b": {"$patch": "replace", "c": 1}, "d": {"$patch": "delete"}}));
    assert_eq!(now, json!({"b": {"c": 1}}));
}

#[test]
fn an_item_without_its_key_is_refused_and_the_list_stays() {
    let mut target = pod();
    let patch = json!({"spec": {"containers": [{"image": "x"}]}});
    let error = apply(&mut target, &patch, None).unwrap_err().to_string();
    assert!(error.contains("patch.spec.containers") && error.contains("`name`"), "{error}");
    let many: Vec<Value> = (0..2000).map(|number| json!({"name": number.to_string()})).collect();
    let mut target = json!({"env": many});
    let error = apply(&mut target, &json!({"env": many}), None).unwrap_err().to_string();
    assert!(error.contains("too many"), "{error}");
}

#[test]
fn an_unknown_directive_names_its_place() {
    let error = apply(&mut json!({}), &json!({"spec": {"$patch": "burn"}}), None).unwrap_err().to_string();
    assert!(error.contains("patch.spec"), "{error}");
}
