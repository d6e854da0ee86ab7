use homeostat_store::cached::LastState;
use homeostat_store::{DOCUMENT_BYTES_MAX, Key, Kind, Resource, Revision};
use proptest::prelude::*;
use serde_json::json;

use super::{Value, ValueContent, decode, encode, encode_deleted};
use crate::subject::Subjects;

const SUBJECT: &str = "$KV.b.r.demo=2Edev.Widget.default.a";

fn subjects() -> Subjects {
    Subjects::new("b", "")
}

fn document() -> serde_json::Value {
    json!({
        "apiVersion": "demo.dev/v1",
        "kind": "Widget",
        "metadata": {"name": "a", "namespace": "default", "uid": "u1", "resourceVersion": "7", "generation": 2},
        "spec": {"metadata": {"resourceVersion": "9"}},
    })
}

fn value(payload: &[u8]) -> Value<'_> {
    Value { subject: SUBJECT, sequence: 12, format: Some("1"), payload, ..Value::default() }
}

fn reason(value: Value<'_>) -> String {
    match decode(&subjects(), value) {
        ValueContent::Unreadable(reason) => reason,
        other => panic!("{other:?} was read"),
    }
}

#[test]
fn the_sequence_of_a_value_is_the_revision_of_its_resource() {
    let written = Resource::from_document(document()).expect("a whole document");
    let text = encode(&written);
    assert!(text.contains(r#""resourceVersion":"","uid":"u1""#), "{text}");
    let ValueContent::Resource(read) = decode(&subjects(), value(text.as_bytes())) else { panic!("its own value") };
    assert_eq!(read.revision(), Revision(12));
    assert_eq!(read.key(), &Key::new(Kind::new("demo.dev", "v1", "Widget"), "default", "a"));
    let mut wanted = document();
    wanted["metadata"]["resourceVersion"] = json!("12");
    assert_eq!(read.document(), &wanted);
    assert_eq!(encode(&read), text);
}

#[test]
fn a_document_of_another_program_is_read() {
    let mut foreign = document();
    foreign["metadata"].as_object_mut().expect("an object").remove("resourceVersion");
    let text = serde_json::to_string_pretty(&foreign).expect("JSON");
    let read = decode(&subjects(), Value { format: None, ..value(text.as_bytes()) });
    assert!(matches!(read, ValueContent::Resource(resource) if resource.revision() == Revision(12)));
}

#[test]
fn markers_of_every_client_and_of_the_server_are_deletions() {
    let marker = Value { payload: b"", ..value(b"") };
    for marker in [
        Value { operation: Some("DEL"), ..marker },
        Value { operation: Some("PURGE"), ..marker },
        Value { marker_reason: Some("MaxAge"), ..marker },
    ] {
        assert_eq!(decode(&subjects(), marker), ValueContent::Deleted(LastState::Unknown), "{marker:?}");
    }
}

#[test]
fn the_marker_of_a_deletion_tells_the_metadata_and_no_content() {
    let mut document = document();
    document["metadata"]["annotations"] = json!({"note": "secret", "homeostat.dev/owner": "{}"});
    document["metadata"]["managedFields"] = json!([{"manager": "m"}]);
    document["metadata"]["labels"] = json!({"app": "a"});
    let text = encode_deleted(&Resource::from_document(document).expect("a whole document"));
    let deleted = Value { operation: Some("DEL"), expected: Some("9"), ..value(text.as_bytes()) };
    let ValueContent::Deleted(LastState::Metadata(last)) = decode(&subjects(), deleted) else { panic!("{text}") };
    assert_eq!((last.revision(), last.uid()), (Revision(9), "u1"));
    let wanted = json!({
        "apiVersion": "demo.dev/v1",
        "kind": "Widget",
        "metadata": {
            "name": "a", "namespace": "default", "uid": "u1", "resourceVersion": "9", "generation": 2,
            "annotations": {"homeostat.dev/owner": "{}"}, "labels": {"app": "a"},
        },
    });
    assert_eq!(last.document(), &wanted);
    for unknown in [Value { expected: None, ..deleted }, Value { format: None, ..deleted }, value(b"{}")] {
        let unknown = Value { operation: Some("DEL"), ..unknown };
        assert_eq!(decode(&subjects(), unknown), ValueContent::Deleted(LastState::Unknown));
    }
}

#[test]
fn a_value_that_is_no_document_of_its_key_is_unreadable() {
    let text = document().to_string();
    let valid = value(text.as_bytes());
    let other = |field: &str, to: serde_json::Value| {
        let mut document = document();
        *document.pointer_mut(field).expect("the field is there") = to;
        document.to_string()
    };
    let table: [(String, &str); 8] = [
        (String::new(), "EOF"),
        ("{}".into(), "apiVersion"),
        ("[1,2]".into(), "apiVersion"),
        (other("/metadata/name", json!("b")), "it is the document of"),
        (other("/metadata/namespace", json!("other")), "it is the document of"),
        (other("/kind", json!("Gadget")), "it is the document of"),
        (other("/metadata/uid", json!("")), "no metadata.uid"),
        (other("/metadata", json!("a")), "metadata.name"),
    ];
    for (text, expected) in table {
        let reason = reason(value(text.as_bytes()));
        assert!(reason.contains(expected), "{text}: {reason}");
    }
    assert!(reason(Value { format: Some("2"), ..valid }).contains("format \"2\""));
    assert!(reason(Value { operation: Some("\u{1b}[31m"), ..valid }).contains(r"\u{1b}"));
    assert!(reason(Value { subject: "$KV.b.other", ..valid }).contains("names no resource"));
    assert!(reason(value(b"\xff")).contains("utf-8"));
}

#[test]
fn the_size_and_the_nesting_of_a_value_have_a_bound() {
    let mut large = document();
    large["spec"] = json!("x".repeat(usize::try_from(DOCUMENT_BYTES_MAX).expect("it fits")));
    assert!(reason(value(large.to_string().as_bytes())).contains("the limit is"));
    let mut deep = json!(1);
    for _ in 0..110 {
        deep = json!([deep]);
    }
    let mut nested = document();
    nested["spec"] = deep;
    assert!(reason(value(nested.to_string().as_bytes())).contains("nested too deeply"));
    let text = document().to_string().replace("\"7\"", &"[".repeat(100_000));
    assert!(reason(value(text.as_bytes())).contains("recursion limit"));
}

proptest! {
    #[test]
    fn any_bytes_are_decoded_without_a_panic(payload in prop::collection::vec(any::<u8>(), 0..64), at in 0..180_usize) {
        drop(decode(&subjects(), value(&payload)));
        let mut text = document().to_string().into_bytes();
        let at = at.min(text.len());
        text.splice(at..at, payload);
        drop(decode(&subjects(), value(&text)));
    }
}
