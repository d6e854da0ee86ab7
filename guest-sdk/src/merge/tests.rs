use serde_json::json;

use super::*;

#[test]
fn equal_documents_have_no_difference() {
    let document = json!({"a": [1, null], "b": {"c": null}});
    assert_eq!(difference(&document, &document), None);
}

#[test]
fn a_difference_laid_over_the_old_document_gives_the_new_one() {
    let cases = [
        (json!({"a": 1, "b": {"c": 2, "d": 3}}), json!({"a": 1, "b": {"c": 4}})),
        (json!({"a": {"b": 1}}), json!({"a": [1, 2]})),
        (json!({}), json!({"a": {"b": {"c": 1}}})),
        (json!({"a": [1, 2, 3]}), json!({"a": [1, 3]})),
    ];
    for (before, after) in cases {
        let mut document = before.clone();
        merge(&mut document, difference(&before, &after).expect("they differ"));
        assert_eq!(document, after);
    }
}

#[test]
fn fields_that_a_patch_does_not_name_stay() {
    let mut document = json!({"mine": 1, "theirs": {"deep": 2}});
    merge(&mut document, difference(&json!({"mine": 1}), &json!({"mine": 2})).expect("they differ"));
    assert_eq!(document, json!({"mine": 2, "theirs": {"deep": 2}}));
}

#[test]
fn a_null_in_a_new_object_is_not_written() {
    let mut document = json!({});
    merge(&mut document, json!({"a": {"b": null, "c": 1}}));
    assert_eq!(document, json!({"a": {"c": 1}}));
}

#[test]
fn nulls_go_from_objects_and_stay_in_lists() {
    assert_eq!(without_nulls(json!({"a": null, "b": [null, {"c": null}]})), json!({"b": [null, {}]}));
}
