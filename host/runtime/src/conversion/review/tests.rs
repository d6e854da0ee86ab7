use serde_json::json;

use super::*;

const DESIRED: &str = "example.com/v1";

fn original(name: &str) -> Value {
    json!({
        "apiVersion": "example.com/v1beta1", "kind": "Site",
        "metadata": { "name": name, "namespace": "n", "uid": "u", "resourceVersion": "5", "labels": { "a": "b" } },
        "spec": { "host": "h" },
    })
}

/// Returns the document that an honest webhook makes of an original.
fn honest(name: &str) -> Value {
    let mut document = original(name);
    document["apiVersion"] = DESIRED.into();
    document["spec"] = json!({ "address": "h" });
    document
}

fn answer(documents: &Value) -> Value {
    json!({
        "apiVersion": API_VERSION, "kind": KIND,
        "response": { "uid": "r", "result": { "status": "Success" }, "convertedObjects": documents },
    })
}

fn converted(answer: &Value, originals: &[Value]) -> Result<Vec<Value>, String> {
    let originals: Vec<&Value> = originals.iter().collect();
    checked(documents(answer.to_string().as_bytes(), "r")?, DESIRED, &originals)
}

/// Returns the refusal of one converted document with a change at a pointer; `null` removes the field.
fn refusal(pointer: &str, value: Value) -> String {
    let mut document = honest("a");
    *document.pointer_mut(pointer).unwrap() = value;
    converted(&answer(&json!([document])), &[original("a")]).unwrap_err()
}

#[test]
fn a_review_is_the_one_that_an_api_server_sends() {
    let (one, other) = (original("a"), original("b"));
    let review: Value = serde_json::from_slice(&request("r", DESIRED, &[&one, &other])).unwrap();
    let wanted = json!({
        "kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1",
        "request": { "uid": "r", "desiredAPIVersion": DESIRED, "objects": [one, other] },
    });
    assert_eq!(review, wanted);
}

#[test]
fn an_honest_answer_is_taken_in_the_order_of_the_originals() {
    let answer = answer(&json!([honest("a"), honest("b")]));
    assert_eq!(converted(&answer, &[original("a"), original("b")]), Ok(vec![honest("a"), honest("b")]));
    let swapped = converted(&answer, &[original("b"), original("a")]).unwrap_err();
    assert_eq!(swapped, "returned invalid converted object at index 0: must have the same name: b != a");
}

#[test]
fn an_answer_without_a_success_for_this_review_is_refused() {
    let changed = |pointer: &str, value: Value| {
        let mut answer = answer(&json!([honest("a")]));
        *answer.pointer_mut(pointer).unwrap() = value;
        converted(&answer, &[original("a")]).unwrap_err()
    };
    assert_eq!(changed("/response/uid", json!("x")), "expected response.uid=\"r\", got \"x\"");
    assert_eq!(changed("/response", json!(null)), "no response provided");
    let failure = json!({ "status": "Failure", "message": "no such field" });
    assert_eq!(changed("/response/result", failure), "no such field");
    let silent = changed("/response/result", json!({ "status": "Failure" }));
    assert_eq!(silent, "response.result.status was 'Failure', not 'Success'");
    let other = changed("/apiVersion", json!("apiextensions.k8s.io/v1beta1"));
    assert!(other.starts_with("expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview"));
    assert_eq!(changed("/response/convertedObjects", json!([])), "returned 0 objects, expected 1");
    let many = json!([honest("a"), honest("a")]);
    assert_eq!(changed("/response/convertedObjects", many), "returned 2 objects, expected 1");
    let text = changed("/response/convertedObjects", json!("a"));
    assert_eq!(text, "response.convertedObjects is string, not a list");
    let text = documents(b"<html>", "r").unwrap_err();
    assert!(text.starts_with("the answer is not JSON"), "{text}");
}

#[test]
fn a_document_of_another_version_kind_or_identity_is_refused() {
    let version = refusal("/apiVersion", json!("example.com/v2"));
    let wanted = "invalid groupVersion (expected example.com/v1, received example.com/v2)";
    assert_eq!(version, format!("returned invalid object at index 0: {wanted}"));
    let kind = refusal("/kind", json!("Other"));
    assert_eq!(kind, "returned invalid object at index 0: invalid kind (expected Site, received Other)");
    for (field, word) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let found = refusal(&format!("/metadata/{field}"), json!("x"));
        assert!(found.starts_with(&format!("returned invalid object: must have the same {word}: ")), "{found}");
    }
    assert!(refusal("", json!("text")).starts_with("returned invalid object at index 0: invalid type"));
    let none = refusal("/metadata", json!("text"));
    assert_eq!(none, "returned invalid metadata: invalid metadata of type string in converted object");
}

#[test]
fn metadata_stays_except_for_labels_and_annotations() {
    let mut document = honest("a");
    document["metadata"] = json!({
        "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "9", "finalizers": ["x.dev/y"],
        "labels": { "c": "d" }, "annotations": { "kept": "host" },
    });
    let found = converted(&answer(&json!([document])), &[original("a")]).unwrap().remove(0);
    let wanted = json!({
        "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "5", "labels": { "c": "d" },
        "annotations": { "kept": "host" },
    });
    assert_eq!(found["metadata"], wanted);
    let bare = |labels: Value| {
        let mut document = honest("a");
        document["metadata"]["labels"] = labels;
        converted(&answer(&json!([document])), &[original("a")])
    };
    for none in [json!(null), json!({})] {
        assert_eq!(bare(none).unwrap()[0]["metadata"].get("labels"), None);
    }
    let number = bare(json!({ "a": 1 })).unwrap_err();
    assert!(number.ends_with("metadata.labels[a] must be a string, but is int64 in converted object"), "{number}");
    assert!(bare(json!(["a"])).unwrap_err().contains("invalid metadata.labels of type []interface {}"));
    assert!(bare(json!({ "-": "a" })).unwrap_err().starts_with("returned invalid metadata: metadata.labels"));
}

#[test]
fn a_document_beyond_the_bounds_of_a_resource_is_refused() {
    let deep = (0..120).fold(json!("x"), |inner, _| json!([inner]));
    let mut document = honest("a");
    document["spec"] = deep;
    // The parser has a bound of its own, which a document within an answer may meet first.
    assert!(converted(&answer(&json!([document])), &[original("a")]).is_err());
    let mut document = honest("a");
    document["spec"] = json!("x".repeat(2 << 20));
    assert!(converted(&answer(&json!([document])), &[original("a")]).is_err());
}
