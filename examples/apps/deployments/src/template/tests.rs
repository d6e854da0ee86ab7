use serde_json::json;

use super::*;

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "web"}, "creationTimestamp": null}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}})
}

#[test]
fn the_template_of_a_set_is_that_of_its_deployment() {
    let of_set = labelled(&template(), "bcdfg");
    assert_eq!(of_set.pointer("/metadata/labels/pod-template-hash"), Some(&json!("bcdfg")));
    assert!(same(&of_set, &template()));
    let mut other = template();
    other["spec"]["containers"][0]["image"] = json!("web:2");
    assert!(!same(&of_set, &other));
}

#[test]
fn the_hash_is_the_same_for_the_same_template_alone() {
    let reordered: Value = serde_json::from_str(
        r#"{"spec": {"containers": [{"image": "web:1", "name": "web"}]}, "metadata": {"labels": {"app": "web"}}}"#,
    )
    .unwrap();
    assert_eq!(hash(&template(), 0), hash(&reordered, 0));
    assert_eq!(hash(&template(), 0).len(), 10);
    assert_ne!(hash(&template(), 0), hash(&template(), 1));
    let mut other = template();
    other["spec"]["containers"][0]["image"] = json!("web:2");
    assert_ne!(hash(&template(), 0), hash(&other, 0));
}

#[test]
fn the_hash_does_not_change_between_builds() {
    assert_eq!(hash(&json!({"a": [1, "b", true]}), 0), "xrx954sft6");
}

#[test]
fn labels_are_those_of_the_pods() {
    assert_eq!(labels(&template()), BTreeMap::from([("app".to_owned(), "web".to_owned())]));
    assert!(labels(&json!({})).is_empty());
}
