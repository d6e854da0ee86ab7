use homeostat_store::{EventType, Key, Kind, Precondition, Query, Revision, Selector, View, Write};
use serde_json::json;

use super::{
    Answer, Blob, Effect, HttpError, HttpRequest, Level, QueuePriority, ResourceData, Severity, StoreError,
    WasiResource, WriteData,
};
use crate::limits::LimitName;

fn key(name: &str) -> Key {
    Key::new(Kind::new("apps", "v1", "Deployment"), "default", name)
}

fn resource(json: &str) -> ResourceData {
    ResourceData { key: key("web"), uid: "u".into(), revision: "7".into(), generation: 1, json: json.into() }
}

fn every_effect() -> Vec<Effect> {
    vec![
        Effect::Get { key: key("web"), view: View::Metadata, live: false },
        Effect::Get { key: key("web"), view: View::Metadata, live: true },
        Effect::List { query: Query::all(Kind::new("", "v1", "Pod")), view: View::Keys },
        Effect::List { query: Query { live: true, ..Query::all(Kind::new("", "v1", "Pod")) }, view: View::Keys },
        Effect::Write(Write::UpdateStatus {
            key: key("web"),
            status: json!({"ready": 1}),
            precondition: Precondition { uid: None, revision: Some(Revision(3)) },
        }),
        Effect::Follow { target: key("db") },
        Effect::FollowAll { kind: Kind::new("", "v1", "Pod"), selector: Selector::default() },
        Effect::Enqueue { key: key("web"), after_ms: 5000, priority: QueuePriority::High, hold: true },
        Effect::Emit { severity: Severity::Warning, reason: "Odd".into(), message: "m".into(), regarding: None },
        Effect::Log { level: Level::Info, message: "m".into(), fields: vec![("a".into(), "b".into())] },
        Effect::Config { key: Some("surge".into()) },
        Effect::Http(HttpRequest {
            method: "POST".into(),
            url: "https://a.example/".into(),
            headers: vec![("accept".into(), Blob::from("*/*"))],
            body: Blob::from(vec![0xff, 0]),
            timeout_ms: Some(5),
        }),
        Effect::WallClock,
        Effect::MonotonicClock,
        Effect::Random { bytes: 16 },
        Effect::Reach(WasiResource::File("/etc/hosts".into())),
    ]
}

fn every_answer() -> Vec<Answer> {
    vec![
        Answer::Resource(Ok(resource("{}"))),
        Answer::Resource(Err(StoreError::NotFound("x".into()))),
        Answer::Page(Err(StoreError::Expired("x".into()))),
        Answer::Written(Ok(WriteData { resource: resource("{}"), change: Some(EventType::Modified) })),
        Answer::Done(Ok(())),
        Answer::Config(vec![("a".into(), "b".into())]),
        Answer::Http(Err(HttpError::Timeout)),
        Answer::Nanoseconds(u64::MAX),
        Answer::Bytes(Blob::from(vec![1, 2, 0xfe])),
        Answer::Unit,
        Answer::Limit { limit: LimitName::Effects, message: "x".into() },
    ]
}

#[test]
fn effects_survive_encoding_and_decoding_as_json() {
    for effect in every_effect() {
        let text = serde_json::to_string(&effect).unwrap();
        assert_eq!(serde_json::from_str::<Effect>(&text).unwrap(), effect, "{text}");
    }
}

#[test]
fn answers_survive_encoding_and_decoding_as_json() {
    for answer in every_answer() {
        let text = serde_json::to_string(&answer).unwrap();
        assert_eq!(serde_json::from_str::<Answer>(&text).unwrap(), answer, "{text}");
    }
}

#[test]
fn the_json_of_traces_is_stable() {
    let follow = serde_json::to_value(Effect::WallClock).unwrap();
    assert_eq!(follow, json!("wallClock"));
    let get = serde_json::to_value(Effect::Get { key: key("web"), view: View::Whole, live: false }).unwrap();
    let kind = json!({"group": "apps", "version": "v1", "name": "Deployment"});
    assert_eq!(get, json!({"get": {"key": {"kind": kind, "namespace": "default", "name": "web"}, "view": "whole"}}));
    let refused = serde_json::to_value(Answer::Done(Err(StoreError::Forbidden("no".into())))).unwrap();
    assert_eq!(refused, json!({"done": {"err": {"forbidden": "no"}}}));
    let done = serde_json::to_value(Answer::Done(Ok(()))).unwrap();
    assert_eq!(done, json!({"done": {"ok": null}}));
}

#[test]
fn a_read_that_was_recorded_without_live_is_a_plain_read() {
    let kind = json!({"group": "apps", "version": "v1", "name": "Deployment"});
    let get = json!({"get": {"key": {"kind": kind, "namespace": "default", "name": "web"}, "view": "whole"}});
    let read = Effect::Get { key: key("web"), view: View::Whole, live: false };
    assert_eq!(serde_json::from_value::<Effect>(get).unwrap(), read);
    let list = json!({"list": {"query": {"kind": kind}, "view": "keys"}});
    let read = Effect::List { query: Query::all(Kind::new("apps", "v1", "Deployment")), view: View::Keys };
    assert_eq!(serde_json::from_value::<Effect>(list).unwrap(), read);
}

#[test]
fn bytes_that_are_text_are_text_in_json() {
    assert_eq!(serde_json::to_value(Blob::from("text")).unwrap(), json!("text"));
    assert_eq!(serde_json::to_value(Blob::from(vec![0xff, 0x0a])).unwrap(), json!({"hex": "ff0a"}));
    assert!(serde_json::from_value::<Blob>(json!({"hex": "f"})).is_err());
    assert!(serde_json::from_value::<Blob>(json!({"hex": "zz"})).is_err());
}

#[test]
fn the_size_of_a_write_follows_the_size_of_its_document() {
    let small = Effect::Write(Write::Create { document: json!({"a": "b"}) });
    let large = Effect::Write(Write::Create { document: json!({"a": "b".repeat(100_000)}) });
    assert!(small.size_bytes() < 200);
    assert!((100_000..101_000).contains(&large.size_bytes()));
}

#[test]
fn every_effect_and_answer_counts_at_least_one_byte() {
    for effect in every_effect() {
        assert!(effect.size_bytes() > 0, "{effect:?}");
    }
    for answer in every_answer() {
        assert!(answer.size_bytes() > 0, "{answer:?}");
    }
}

#[test]
fn every_error_of_the_store_becomes_the_one_of_the_contract() {
    use homeostat_store::Error;
    let conflict = Error::Conflict { key: key("web"), current: None };
    assert_eq!(StoreError::from(conflict), StoreError::Conflict(String::new()));
    let exists = Error::AlreadyExists { key: key("web"), current: Revision(9) };
    assert_eq!(StoreError::from(exists), StoreError::AlreadyExists("9".into()));
    let invalid = Error::invalid("metadata.name", "must not be empty");
    assert_eq!(StoreError::from(invalid), StoreError::Invalid("metadata.name: must not be empty".into()));
    assert!(matches!(StoreError::from(Error::Closed), StoreError::Unavailable(_)));
    assert!(matches!(StoreError::from(Error::Expired { oldest: Revision(1) }), StoreError::Expired(_)));
}
