use proptest::prelude::*;
use serde_json::{Value, json};

use super::{FOUND_MAX, JsonPath};
use crate::Error;
use crate::patch::tests::json_value;

fn found(path: &str, document: &Value) -> Vec<Value> {
    JsonPath::parse(path).expect("well formed").evaluate(document).into_iter().cloned().collect()
}

#[test]
fn a_path_of_names_is_a_pointer_for_any_names() {
    for (path, wanted) in [
        (".spec.replicas", Some("/spec/replicas")),
        (".spec['a.b'].size", Some("/spec/a.b/size")),
        (r".spec.a\.b/c~d", Some("/spec/a.b~1c~0d")),
        (".spec.ports[0]", None),
        (".", None),
    ] {
        assert_eq!(JsonPath::parse(path).expect("well formed").pointer().as_deref(), wanted, "{path}");
    }
}

/// S14: the path of a column finds its values.
#[test]
fn paths_find_the_values_of_columns() {
    let document = json!({
        "metadata": {"labels": {"app.kubernetes.io/name": "web"}, "annotations": {"a]b": 1}},
        "spec": {"replicas": 3, "ports": [{"name": "http", "port": 80}, {"name": "https", "port": 443}]},
        "status": {"conditions": [
            {"type": "Ready", "status": "True", "code": 7},
            {"type": "Synced", "status": "False", "reason": {"text": "no"}},
        ]},
    });
    for (path, wanted) in [
        (".spec.replicas", json!([3])),
        ("{.spec.replicas}", json!([3])),
        ("$.spec.replicas", json!([3])),
        (".spec['replicas']", json!([3])),
        ("['spec'][\"replicas\"]", json!([3])),
        (".spec.missing.further", json!([])),
        (".metadata.labels['app.kubernetes.io/name']", json!(["web"])),
        (".metadata.labels['app\\.kubernetes\\.io/name']", json!(["web"])),
        (".metadata.labels.app\\.kubernetes\\.io/name", json!(["web"])),
        (".metadata.annotations['a]b']", json!([1])),
        (".spec.ports[1].port", json!([443])),
        (".spec.ports[-1].name", json!(["https"])),
        (".spec.ports[2].port", json!([])),
        (".spec.ports[-3].port", json!([])),
        (".spec.ports[*].port", json!([80, 443])),
        (".spec.ports.*.port", json!([80, 443])),
        (".metadata.labels.*", json!(["web"])),
        (".status.conditions[?(@.type==\"Ready\")].status", json!(["True"])),
        (".status.conditions[?(@.type == 'Synced')].reason.text", json!(["no"])),
        (".status.conditions[?(@.type!='Ready')].status", json!(["False"])),
        (".status.conditions[?(@.code==7)].type", json!(["Ready"])),
        (".status.conditions[?(@.reason)].type", json!(["Synced"])),
        (".status.conditions[?(@['reason'].text=='no')].type", json!(["Synced"])),
        (".status.conditions[?(@.type=='None')].status", json!([])),
    ] {
        assert_eq!(json!(found(path, &document)), wanted, "{path}");
    }
    assert_eq!(found(".", &document), [document]);
}

#[test]
fn a_path_that_is_not_understood_is_refused() {
    for path in [
        "",
        "spec",
        ".spec.",
        "..spec",
        ".spec[",
        ".spec[]",
        ".spec[a]",
        ".spec['a]",
        ".spec[1:2]",
        ".a\\",
        ".spec[?(@.a=b)]",
        ".spec[?(@.a=={})]",
        ".spec[?(.a==1)]",
        ".spec[?(@.a==1]",
        ".a[?(@.b[?(@.c)])]",
        ".a b",
        ".a[99999999999999999999]",
        &".a".repeat(1000),
    ] {
        let refused = JsonPath::parse(path);
        assert!(matches!(&refused, Err(Error::Invalid { path, .. }) if path == "jsonPath"), "{path}: {refused:?}");
    }
}

#[test]
fn only_a_path_of_names_is_plain() {
    for (path, wanted) in
        [(".spec.a", true), (".", false), (".spec[0]", false), (".spec.*", false), (".a[?(@.b)]", false)]
    {
        assert_eq!(JsonPath::parse(path).expect("well formed").is_plain(), wanted, "{path}");
    }
}

#[test]
fn the_values_of_a_path_are_bounded() {
    let document = json!({"a": vec![vec![0; 100]; 100]});
    assert_eq!(found(".a[*][*]", &document).len(), FOUND_MAX);
}

proptest! {
    #[test]
    fn no_path_and_no_document_cause_a_panic(text in "[.\\[\\]'\"\\\\?()@=!*a0 -]{0,20}", document in json_value()) {
        if let Ok(path) = JsonPath::parse(&text) {
            path.evaluate(&document);
            prop_assert_eq!(path.to_string(), text);
        }
    }
}
