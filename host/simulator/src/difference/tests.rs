use serde_json::json;

use super::differences;

#[test]
fn a_document_may_have_more_fields_than_the_test_names() {
    let actual = json!({"spec": {"replicas": 3, "paused": false}, "status": {}});
    assert_eq!(differences(&json!({"spec": {"replicas": 3.0}}), &actual), [""; 0]);
}

#[test]
fn each_difference_names_its_path_and_both_values() {
    let actual = json!({"spec": {"replicas": 2, "names": ["a", "b"], "old": true}});
    let expected = json!({"spec": {"replicas": 3, "names": ["a", "c"], "old": null, "new": 1}});
    let lines = [
        "spec.names[1]: expected \"c\", got \"b\"",
        "spec.new: expected 1, got no such field",
        "spec.old: expected no such field, got true",
        "spec.replicas: expected 3, got 2",
    ];
    let mut found = differences(&expected, &actual);
    found.sort();
    assert_eq!(found, lines);
}

#[test]
fn lists_of_different_lengths_differ() {
    assert_eq!(differences(&json!([1]), &json!([1, 2])), [": expected 1 items, got 2"]);
}

#[test]
fn a_long_comparison_is_cut() {
    let expected = json!({"a": vec![1; 80]});
    assert_eq!(differences(&expected, &json!({"a": vec![2; 80]})).len(), 51);
}
