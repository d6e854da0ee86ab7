//! Hostile names and bodies: a clear error or a faithful round trip.

use homeostat_store::{
    Change, Error, FieldValidation, Key, Kind, Options, Precondition, Propagation, Query, Request, Result, Write,
    WriteResponse,
};
use serde_json::{Value, json};

use crate::{Difference, Fixture, Make, create, delete, update, update_status, with_metadata};

fn hostile(store: &Fixture) -> Vec<(Value, &'static str)> {
    let named = |name: &str| store.thing(name, json!({}));
    let meta = |metadata| with_metadata(store.thing("a", json!({})), metadata);
    let field = |field: &str, value: Value| {
        let mut document = store.thing("a", json!({}));
        document[field] = value;
        document
    };
    vec![
        (json!(null), "document"),
        (json!([]), "document"),
        (json!("text"), "document"),
        (json!({}), "apiVersion"),
        (field("apiVersion", json!(1)), "apiVersion"),
        (field("apiVersion", json!("")), "apiVersion"),
        (field("apiVersion", json!("/v1")), "apiVersion"),
        (field("apiVersion", json!("a/b/c")), "apiVersion"),
        (field("apiVersion", json!("Example.dev/v1")), "apiVersion"),
        (field("apiVersion", json!("v1\0")), "apiVersion"),
        (field("kind", json!(null)), "kind"),
        (field("kind", json!("a thing")), "kind"),
        (field("kind", json!("Thing/x")), "kind"),
        (field("kind", json!("T".repeat(64))), "kind"),
        (field("metadata", json!(null)), "metadata"),
        (field("metadata", json!([])), "metadata"),
        (named(""), "metadata.name"),
        (named("."), "metadata.name"),
        (named(".."), "metadata.name"),
        (named("a..b"), "metadata.name"),
        (named("-a"), "metadata.name"),
        (named("a-"), "metadata.name"),
        (named("A"), "metadata.name"),
        (named("a/b"), "metadata.name"),
        (named("a\0b"), "metadata.name"),
        (named("a b"), "metadata.name"),
        (named("ä"), "metadata.name"),
        (named("a\u{202e}b"), "metadata.name"),
        (named(&"a".repeat(254)), "metadata.name"),
        (meta(json!({"name": 5})), "metadata.name"),
        (meta(json!({"namespace": "a.b"})), "metadata.namespace"),
        (meta(json!({"namespace": "a".repeat(64)})), "metadata.namespace"),
        (meta(json!({"namespace": {}})), "metadata.namespace"),
        (meta(json!({"labels": []})), "metadata.labels"),
        (meta(json!({"labels": {"a b": "c"}})), "metadata.labels"),
        (meta(json!({"labels": {"": "c"}})), "metadata.labels"),
        (meta(json!({"labels": {"/a": "c"}})), "metadata.labels"),
        (meta(json!({"labels": {"a": 1}})), "metadata.labels[a]"),
        (meta(json!({"labels": {"a": "-"}})), "metadata.labels[a]"),
        (meta(json!({"labels": {"a": "x".repeat(64)}})), "metadata.labels[a]"),
        (meta(json!({"annotations": {"a": null}})), "metadata.annotations[a]"),
        (meta(json!({"finalizers": "a"})), "metadata.finalizers"),
        (meta(json!({"finalizers": [1]})), "metadata.finalizers[0]"),
        (meta(json!({"finalizers": ["a", ""]})), "metadata.finalizers"),
        (meta(json!({"ownerReferences": [{}]})), "metadata.ownerReferences.apiVersion"),
        (meta(json!({"ownerReferences": [1]})), "metadata.ownerReferences"),
        (
            meta(json!({"ownerReferences": [{"apiVersion": "v1", "kind": "K k", "name": "a", "uid": "b"}]})),
            "metadata.ownerReferences.kind",
        ),
        (
            meta(
                json!({"ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "a", "uid": "b", "controller": 1}]}),
            ),
            "metadata.ownerReferences.controller",
        ),
        (meta(json!({"resourceVersion": "1"})), "metadata.resourceVersion"),
    ]
}

/// S13: documents are refused with a clear error or returned unchanged.
pub(crate) async fn a_document_that_is_not_acceptable_is_refused_with_the_path(make: Make) {
    let store = make(Options::default()).await;
    for (document, wanted) in hostile(&store) {
        let refused = store.write(Write::Create { document: document.clone() }).await;
        if store.differs(Difference::ServerRules) && is_accepted_by_servers(&document) {
            refused.unwrap();
            delete(&**store, store.key("a"), Propagation::Background).await.unwrap();
        } else if !is_refused_by_server(&store, wanted, &refused) {
            store.assert_invalid(&refused, wanted);
        }
    }
    let controller = |uid| json!({"apiVersion": "v1", "kind": "K", "name": "a", "uid": uid, "controller": true});
    let two = json!({"ownerReferences": [controller("b"), controller("c")]});
    let document = with_metadata(store.thing("a", json!({})), two);
    let refused = store.write(Write::Create { document }).await;
    store.assert_invalid(&refused, "metadata.ownerReferences");
}

/// Returns whether servers accept a document: to them an annotation that is `null` is empty, and the kind of an owner
/// can be any text.
fn is_accepted_by_servers(document: &Value) -> bool {
    let metadata = &document["metadata"];
    metadata["annotations"] == json!({"a": null}) || metadata["ownerReferences"][0]["kind"] == "K k"
}

/// Returns whether a server refuses a document because it does not serve the kind, or has no such namespace.
fn is_refused_by_server(store: &Fixture, wanted: &str, answer: &Result<WriteResponse>) -> bool {
    store.differs(Difference::ServerRules)
        && match answer {
            Err(Error::Unavailable { .. }) => matches!(wanted, "apiVersion" | "kind"),
            Err(Error::NotFound { .. }) => wanted == "metadata.namespace",
            _ => false,
        }
}

/// S13: documents are refused with a clear error or returned unchanged.
pub(crate) async fn a_document_is_read_back_as_it_was_written(make: Make) {
    let store = make(Options::default()).await;
    let spec = json!({
        "": "empty name", "a/b~c": "pointer symbols", "\u{0}": "\u{0}\u{1}\u{7f}", "ключ": "значение \u{1f9ee}\u{202e}", "a\"\\b": "\r\n\t",
        "numbers": [0, -1, i64::MAX, i64::MIN, 0.1, 1e300, -2.5e-300, 123_456_789.123_456_78, 5e-324], "empty": [{}, [], "", null, false],
    });
    let long = format!("{}a", "a.".repeat(126));
    for name in ["a", "0", "a.b-c.0", long.as_str()] {
        create(&**store, store.thing(name, spec.clone())).await;
        assert_eq!(store.get(&store.key(name)).await.unwrap().document()["spec"], spec, "{name}");
    }
    let annotated =
        with_metadata(store.thing("noted", json!({})), json!({"annotations": {"example.dev/A_b.c": "\u{0}ä\n"}}));
    create(&**store, annotated).await;
    let noted = store.get(&store.key("noted")).await.unwrap();
    assert_eq!(noted.annotations().collect::<Vec<_>>(), [("example.dev/A_b.c", "\u{0}ä\n")]);
    // Exact: writing the parsed document again changes nothing.
    let read = store.get(&store.key("a")).await.unwrap();
    let document = read.document().clone();
    let written = store.write(Write::Update { document, precondition: Precondition::default() }).await.unwrap();
    assert_eq!(written.change, None);
}

fn nested(depth: usize) -> Value {
    (0..depth).fold(json!(1), |value, _| json!([value]))
}

/// S13: documents are refused with a clear error or returned unchanged.
pub(crate) async fn a_document_too_large_or_too_deep_is_refused(make: Make) {
    let store = make(Options::default()).await;
    let large = "x".repeat(usize::try_from(store.document_max()).unwrap());
    let fits = "x".repeat(usize::try_from(store.document_max()).unwrap() - 1000);
    let refused = store.write(Write::Create { document: store.thing("a", json!(large)) }).await;
    assert!(
        matches!(refused, Err(Error::TooLarge { bytes_max, .. }) if bytes_max == store.document_max()),
        "{refused:?}"
    );
    create(&**store, store.thing("a", json!(fits))).await;
    let refused = update_status(&**store, store.key("a"), json!(fits)).await;
    assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
    let annotations = json!({"annotations": {"a": "x".repeat(300_000)}});
    let refused =
        store.write(Write::Create { document: with_metadata(store.thing("b", json!({})), annotations) }).await;
    let by_server = store.differs(Difference::ServerRules);
    let is_told = match &refused {
        Err(Error::TooLarge { what, .. }) => what == "metadata.annotations",
        Err(Error::InvalidFields { violations, .. }) => by_server && violations[0].path == "metadata.annotations",
        _ => false,
    };
    assert!(is_told, "{refused:?}");

    create(&**store, store.thing("deep", nested(99))).await;
    assert_eq!(store.get(&store.key("deep")).await.unwrap().document()["spec"], nested(99));
    for (depth, name) in [(100, "b"), (500, "c")] {
        let refused = store.write(Write::Create { document: store.thing(name, nested(depth)) }).await;
        assert!(matches!(&refused, Err(Error::Invalid { path, .. }) if path == "document"), "{refused:?}");
        let refused = update_status(&**store, store.key("a"), nested(depth + 1)).await;
        assert!(matches!(&refused, Err(Error::Invalid { .. })), "{refused:?}");
    }
}

/// S13: documents are refused with a clear error or returned unchanged.
pub(crate) async fn a_small_patch_cannot_become_a_large_document(make: Make) {
    let store = make(Options::default()).await;
    create(&**store, store.thing("a", json!({"x": {"y": "0123456789"}}))).await;
    let before = store.everything().await;
    let patch = |operations: Vec<Value>| Write::Patch {
        key: store.key("a"),
        change: Change::Json(json!(operations)),
        precondition: Precondition::default(),
    };
    // Doubles sixty times.
    let double = |step: usize| json!({"op": "copy", "from": "/spec/x", "path": format!("/spec/x/n{step}")});
    let refused = store.write(patch((0..60).map(double).collect())).await;
    assert!(matches!(refused, Err(Error::TooLarge { .. } | Error::Invalid { .. })), "{refused:?}");
    // The same growth, without nesting.
    let flat = |step: usize| json!({"op": "copy", "from": "/spec", "path": format!("/spec{step}")});
    let refused = store.write(patch((0..1000).map(flat).chain((0..1000).map(flat)).collect())).await;
    if store.differs(Difference::ServerRules) {
        let written = refused.unwrap().resource;
        return assert!(written.bytes() <= store.document_max(), "{} bytes", written.bytes());
    }
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    // Nests deeper with every step.
    let wrap =
        [json!({"op": "move", "from": "/spec", "path": "/tmp"}), json!({"op": "add", "path": "/spec", "value": {}})];
    let deepen = wrap.into_iter().chain([json!({"op": "move", "from": "/tmp", "path": "/spec/x"})]);
    let refused = store.write(patch(deepen.cycle().take(900).collect())).await;
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    let refused = store.write(patch(vec![json!({"op": "what"})])).await;
    assert!(matches!(&refused, Err(Error::Invalid { path, .. }) if path == "patch"), "{refused:?}");
    assert_eq!(store.everything().await, before);
}

/// S13: documents are refused with a clear error or returned unchanged.
pub(crate) async fn a_hostile_key_is_not_found(make: Make) {
    let store = make(Options::default()).await;
    create(&**store, store.thing("a", json!({}))).await;
    let kind = store.key("a").kind().clone();
    for (namespace, name) in
        [("", ""), ("default", ""), ("default\0", "a"), ("default\0\u{1}a", ""), ("", "default/a"), ("default", "a\0")]
    {
        let answer = store.get(&Key::new(kind.clone(), namespace, name)).await;
        assert!(matches!(answer, Err(Error::NotFound { .. })), "{namespace:?} {name:?}");
    }
    for kind in
        [Kind::new("", "", ""), Kind::new(format!("{}\0\u{1}Thing", store.group()), "v1", ""), store.kind("Thin")]
    {
        let listed = store.list(&Query::all(kind)).await;
        if store.differs(Difference::DefinedKinds) {
            assert!(matches!(listed, Err(Error::Unavailable { .. })), "{listed:?}");
        } else {
            assert_eq!(listed.unwrap().items, []);
        }
    }
}

/// S13: documents are refused with a clear error or returned unchanged.
pub(crate) async fn a_refused_write_leaves_no_trace(make: Make) {
    let store = make(Options::default()).await;
    let before = store.everything().await;
    assert_eq!(before.1, []);
    for (document, _) in hostile(&store) {
        if store.differs(Difference::ServerRules) && is_accepted_by_servers(&document) {
            continue;
        }
        let precondition = Precondition::default();
        let change = Change::Merge(document.clone());
        for write in [
            Write::Update { document: document.clone(), precondition: precondition.clone() },
            Write::Apply { document: document.clone(), manager: "me".into(), force: true },
            Write::Patch { key: store.key("a"), change, precondition },
            Write::Create { document },
        ] {
            // An apply ignores null fields, so it is accepted.
            if matches!(&write, Write::Apply { document, .. } if document.to_string().contains("null")) {
                continue;
            }
            assert!(store.write(write.clone()).await.is_err(), "{write:?}");
        }
    }
    assert_eq!(store.everything().await, before);
    assert_eq!(store.kinds().await.unwrap(), []);
}

pub(crate) async fn the_name_of_a_namespace_is_one_part_of_a_dns_name(make: Make) {
    let store = make(Options::default()).await;
    let named = |name: &str| Write::Create {
        document: json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
    };
    for name in ["a".repeat(64).as_str(), "a.b"] {
        let refused = store.write(named(name)).await;
        store.assert_invalid(&refused, "metadata.name");
    }
    store.write(named(&"a".repeat(63))).await.unwrap();
}

pub(crate) async fn unknown_metadata_fields_are_pruned_and_reported(make: Make) {
    let store = make(Options::default()).await;
    let submit = async |unknown, write: &Write| {
        store.submit(Request { field_validation: unknown, ..write.clone().into() }).await
    };
    let owner = json!({"apiVersion": "v1", "kind": "Owner", "name": "o", "uid": "u", "since": 1});
    let more = json!({"colour": "red", "ownerReferences": [owner], "labels": {"free": "x"}});
    let document = with_metadata(store.thing("a", json!({"free": 1})), more.clone());
    let told = ["metadata.colour", "metadata.ownerReferences[0].since"];
    let change = Change::Merge(json!({"metadata": more}));
    for write in [
        Write::Create { document: document.clone() },
        Write::Update { document: document.clone(), precondition: Precondition::default() },
        Write::Apply { document: document.clone(), manager: "me".into(), force: true },
        Write::Patch { key: store.key("a"), change, precondition: Precondition::default() },
    ] {
        let refused = submit(FieldValidation::Strict, &write).await;
        if matches!(write, Write::Apply { .. }) && store.differs(Difference::ServerRules) {
            // A server refuses every apply with fields that it does not know.
            for refused in [refused, submit(FieldValidation::Warn, &write).await] {
                let Err(Error::UnknownFields { fields }) = refused else { panic!("{refused:?}") };
                assert_eq!(fields[0], "metadata.colour", "it may not name all");
            }
            continue;
        }
        assert!(matches!(&refused, Err(Error::UnknownFields { fields }) if *fields == told), "{refused:?}");
        let written = submit(FieldValidation::Warn, &write).await.unwrap();
        assert_eq!(written.unknown_fields, told, "{write:?}");
        let metadata = &written.resource.document()["metadata"];
        assert_eq!((metadata.get("colour"), metadata["ownerReferences"][0].get("since")), (None, None), "{write:?}");
        assert_eq!(metadata["labels"], json!({"free": "x"}));
    }
    let quiet = Write::Update { document, precondition: Precondition::default() };
    assert_eq!(submit(FieldValidation::Ignore, &quiet).await.unwrap().change, None);
}

/// S3: a write that changes nothing makes no revision.
pub(crate) async fn equal_numbers_are_stored_alike(make: Make) {
    let store = make(Options::default()).await;
    let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let spec = r#"{"one":1.0,"ten":1e1,"half":0.5,"zero":-0.0,"list":[{"two":2.00}]}"#;
    let written = create(&**store, store.thing("a", read(spec))).await;
    let spec = r#"{"half":0.5,"list":[{"two":2}],"one":1,"ten":10,"zero":0}"#;
    assert_eq!(written.document()["spec"].to_string(), spec);
    let same = r#"{"one":1,"ten":10.0,"half":5e-1,"zero":0,"list":[{"two":2}]}"#;
    assert_eq!(update(&**store, store.thing("a", read(same))).await.unwrap().change, None);
    let status = update_status(&**store, store.key("a"), read(r#"{"ready":3.0}"#)).await.unwrap();
    assert_eq!(status.resource.status().to_string(), r#"{"ready":3}"#);
    for change in [
        Change::Merge(read(r#"{"spec":{"one":1.0}}"#)),
        Change::Json(read(
            r#"[{"op":"test","path":"/spec/ten","value":10.0},{"op":"add","path":"/spec/one","value":1.0}]"#,
        )),
    ] {
        let write = Write::Patch { key: store.key("a"), change, precondition: Precondition::default() };
        assert_eq!(store.write(write).await.unwrap().change, None);
    }
}

pub(crate) async fn a_whole_number_that_does_not_fit_is_not_an_integer(make: Make) {
    let store = make(Options::default()).await;
    let number = |kind: &str| json!({"type": kind});
    let spec = json!({"type": "object", "properties": {"count": number("integer"), "ratio": number("number")}});
    store.set_schema(json!({"type": "object", "properties": {"spec": spec}})).await;
    let largest = json!({"count": i64::MAX, "ratio": 1_u64 << 63});
    let written = create(&**store, store.thing("a", largest)).await;
    assert_eq!(written.document()["spec"]["count"], json!(i64::MAX));
    assert_eq!(written.document()["spec"]["ratio"].as_f64(), Some((1_u64 << 63) as f64));
    for count in [json!(1_u64 << 63), json!(u64::MAX), json!(1e19), json!(1.5)] {
        let refused = update(&**store, store.thing("a", json!({"count": count}))).await;
        assert!(matches!(&refused, Err(Error::InvalidFields { .. })), "{count}: {refused:?}");
    }
    assert_eq!(
        update(&**store, store.thing("a", json!({"count": 7.0}))).await.unwrap().resource.document()["spec"]["count"],
        json!(7)
    );
}
