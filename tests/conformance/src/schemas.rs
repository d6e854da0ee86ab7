//! Kinds with a schema: pruning, defaulting and validation on write.

use homeostat_store::schema::Reason;
use homeostat_store::{Change, Error, FieldValidation, Options, Request, Result, Write, WriteResponse};
use serde_json::{Value, json};

use crate::{Difference, Fixture, Make, create, delete, is_gone, update, update_status, with_metadata};

fn schema() -> Value {
    json!({
        "type": "object", "required": ["spec", "status"],
        "properties": {
            "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
            "spec": {"type": "object", "required": ["image"], "properties": {
                "image": {"type": "string"},
                "size": {"type": "integer", "minimum": 0, "default": 1},
                "mode": {"type": "string", "enum": ["a", "b"]},
            }},
            "status": {"type": "object", "properties": {
                "ready": {"type": "integer", "minimum": 0}, "phase": {"type": "string", "default": "Pending"},
            }},
        },
    })
}

async fn with_schema(store: &Fixture) {
    let mut schema = schema();
    if store.differs(Difference::ServerRules) {
        // No creation has a status, so a server refuses all of them.
        store.set_schema(schema.clone()).await;
        let mut document = store.thing("reported", json!({"image": "x"}));
        document["status"] = json!({"ready": 1});
        let refused = store.write(Write::Create { document }).await;
        let Err(Error::InvalidFields { violations, .. }) = refused else { panic!("{refused:?}") };
        assert_eq!((violations[0].path.as_str(), violations[0].reason), ("status", Reason::Required));
        schema["required"] = json!(["spec"]);
    }
    store.set_schema(schema).await;
}

async fn patch(store: &Fixture, change: Value) -> Result<WriteResponse> {
    store
        .write(Write::Patch { key: store.key("a"), change: Change::Merge(change), precondition: Default::default() })
        .await
}

/// S14: a document is pruned, defaulted and checked by the schema of its kind.
pub(crate) async fn a_document_is_pruned_filled_in_and_checked(make: Make) {
    let store = make(Options::default()).await;
    with_schema(&store).await;
    let labelled =
        with_metadata(store.thing("a", json!({"image": "x", "mode": null, "other": 1})), json!({"labels": {"a": "b"}}));
    let created = create(&**store, labelled).await;
    assert_eq!(created.document()["spec"], json!({"image": "x", "size": 1}));
    assert_eq!((created.label("a"), created.status()), (Some("b"), &Value::Null));
    let refused =
        store.write(Write::Create { document: store.thing("b", json!({"size": -1, "mode": "c"})) }).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        format!(
            "Thing.{} \"b\" is invalid: [spec.image: Required value, \
             spec.mode: Unsupported value: \"c\": supported values: \"a\", \"b\", \
             spec.size: Invalid value: -1: spec.size in body should be greater than or equal to 0]",
            store.group()
        )
    );
    let Error::InvalidFields { violations, .. } = refused else { panic!("{refused}") };
    let reasons: Vec<Reason> = violations.iter().map(|violation| violation.reason).collect();
    assert_eq!(reasons, [Reason::Required, Reason::Unsupported, Reason::Invalid]);
}

/// S14: a document is pruned, defaulted and checked by the schema of its kind.
pub(crate) async fn every_way_of_writing_is_checked_and_a_refusal_changes_nothing(make: Make) {
    let store = make(Options::default()).await;
    with_schema(&store).await;
    create(&**store, store.thing("a", json!({"image": "x"}))).await;
    let before = store.everything().await;
    let bad = json!({"image": "x", "size": -1});
    let apply = Write::Apply { document: store.thing("a", bad.clone()), manager: "me".into(), force: true };
    let new = Write::Apply { document: store.thing("b", bad.clone()), manager: "me".into(), force: false };
    for refused in [
        update(&**store, store.thing("a", bad.clone())).await,
        patch(&store, json!({"spec": bad})).await,
        patch(&store, json!({"spec": {"image": null}})).await,
        store.write(apply).await,
        store.write(new).await,
        update_status(&**store, store.key("a"), json!({"ready": -1})).await,
    ] {
        let one = matches!(&refused, Err(Error::InvalidFields { violations, .. }) if violations.len() == 1);
        assert!(one, "{refused:?}");
    }
    assert_eq!(store.everything().await, before);
    let patched = patch(&store, json!({"spec": {"size": null, "mode": "a", "other": 1}})).await.unwrap();
    assert_eq!(patched.resource.document()["spec"], json!({"image": "x", "size": 1, "mode": "a"}));
}

/// S14: a document is pruned, defaulted and checked by the schema of its kind.
pub(crate) async fn a_status_is_checked_when_it_is_written_and_only_then(make: Make) {
    let store = make(Options::default()).await;
    create(&**store, store.thing("a", json!({"image": "x"}))).await;
    update_status(&**store, store.key("a"), json!({"ready": -1, "old": true})).await.unwrap();
    with_schema(&store).await;
    let updated = update(&**store, store.thing("a", json!({"image": "y"}))).await.unwrap().resource;
    if store.differs(Difference::DefinedKinds) {
        assert_eq!(updated.status(), &json!({"ready": -1, "phase": "Pending"}), "reads prune it and fill it in");
    } else {
        assert_eq!(updated.status(), &json!({"ready": -1, "old": true}));
    }
    let refused = update_status(&**store, store.key("a"), json!({"ready": "all"})).await.unwrap_err();
    let inner = if store.differs(Difference::ServerRules) { "ready" } else { "status.ready" };
    assert_eq!(
        refused.to_string(),
        format!(
            "Thing.{} \"a\" is invalid: \
             status.ready: Invalid value: \"string\": {inner} in body must be of type integer: \"string\"",
            store.group()
        )
    );
    let ready = update_status(&**store, store.key("a"), json!({"ready": 1, "new": true})).await.unwrap().resource;
    assert_eq!(ready.status(), &json!({"ready": 1, "phase": "Pending"}));
    assert_eq!(ready.document()["spec"], json!({"image": "y", "size": 1}));
}

/// S14: a document is pruned, defaulted and checked by the schema of its kind.
pub(crate) async fn a_status_that_the_schema_does_not_know_is_left_out(make: Make) {
    let store = make(Options::default()).await;
    store.set_schema(json!({"type": "object", "properties": {"spec": {"type": "object"}}})).await;
    create(&**store, store.thing("a", json!({}))).await;
    let before = store.get(&store.key("a")).await.unwrap().revision();
    store.assert_unchanged(&update_status(&**store, store.key("a"), json!({"ready": 1})).await.unwrap(), before);
    store.set_schema(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})).await;
    let kept = update_status(&**store, store.key("a"), json!({"ready": 1})).await.unwrap().resource;
    assert_eq!(kept.status(), &json!({"ready": 1}));
}

/// S14: a document is pruned, defaulted and checked by the schema of its kind.
pub(crate) async fn a_document_that_became_invalid_can_be_labelled_reported_on_and_deleted(make: Make) {
    let store = make(Options::default()).await;
    let document = with_metadata(store.thing("a", json!({"size": "large"})), json!({"finalizers": ["demo.dev/held"]}));
    create(&**store, document).await;
    with_schema(&store).await;
    assert!(update(&**store, store.thing("a", json!({"size": "larger"}))).await.is_err());
    let labelled = patch(&store, json!({"metadata": {"labels": {"a": "b"}}})).await.unwrap().resource;
    assert_eq!(labelled.document()["spec"], json!({"size": "large"}));
    update_status(&**store, store.key("a"), json!({"ready": 0})).await.unwrap();
    delete(&**store, store.key("a"), Default::default()).await.unwrap();
    patch(&store, json!({"metadata": {"finalizers": null}})).await.unwrap();
    assert!(is_gone(&**store, &store.key("a")).await);
}

/// S3: a write that changes nothing makes no revision.
pub(crate) async fn a_write_that_only_repeats_the_defaults_changes_nothing(make: Make) {
    let store = make(Options::default()).await;
    with_schema(&store).await;
    create(&**store, store.thing("a", json!({"image": "x"}))).await;
    let before = store.everything().await;
    for spec in
        [json!({"image": "x"}), json!({"image": "x", "size": 1}), json!({"image": "x", "size": null, "other": 1})]
    {
        store.assert_unchanged(&update(&**store, store.thing("a", spec)).await.unwrap(), before.1[0].revision());
    }
    assert_eq!(store.everything().await, before);
    store.forget_schema().await;
    assert_eq!(
        update(&**store, store.thing("a", json!({"other": 1}))).await.unwrap().resource.document()["spec"],
        json!({"other": 1})
    );
}

/// S14: a document is pruned, defaulted and checked by the schema of its kind.
pub(crate) async fn unknown_fields_are_reported_or_refused_on_request(make: Make) {
    let store = make(Options::default()).await;
    with_schema(&store).await;
    let submit = async |unknown, write: &Write| {
        store.submit(Request { field_validation: unknown, ..write.clone().into() }).await
    };
    let document = || store.thing("a", json!({"image": "x", "other": 1, "color": {"a": 2}}));
    let merge = Change::Merge(json!({"spec": {"size": 2, "other": 1}, "status": {"none": 1}}));
    let status = json!({"ready": 1, "old": true});
    let mut reported = document();
    reported["status"] = status.clone();
    let cases = [
        (Write::Create { document: document() }, vec!["spec.color", "spec.other"]),
        (Write::Update { document: document(), precondition: Default::default() }, vec!["spec.color", "spec.other"]),
        (Write::Apply { document: document(), manager: "me".into(), force: true }, vec!["spec.color", "spec.other"]),
        (
            Write::Patch { key: store.key("a"), change: merge.clone(), precondition: Default::default() },
            vec!["spec.other"],
        ),
        (Write::PatchStatus { key: store.key("a"), change: merge }, vec!["status.none"]),
        (Write::UpdateStatus { key: store.key("a"), status, precondition: Default::default() }, vec!["status.old"]),
        (Write::ApplyStatus { document: reported, manager: "me".into(), force: true }, vec!["status.old"]),
    ];
    for (write, fields) in cases {
        let before = store.everything().await;
        let refused = submit(FieldValidation::Strict, &write).await;
        if matches!(write, Write::Apply { .. } | Write::ApplyStatus { .. }) && store.differs(Difference::ServerRules) {
            // A server refuses every apply with fields that it does not know, and may not name all.
            for refused in [refused, submit(FieldValidation::Ignore, &write).await] {
                let Err(Error::UnknownFields { fields: found }) = refused else { panic!("{refused:?}") };
                assert!(!found.is_empty() && found.iter().all(|field| fields.contains(&field.as_str())), "{found:?}");
            }
            continue;
        }
        if matches!(write, Write::Patch { .. }) && store.differs(Difference::ServerRules) {
            // A server looks at the status of a patch, too, which it then ignores.
            let Err(Error::UnknownFields { fields: found }) = refused else { panic!("{refused:?}") };
            return assert_eq!(found, ["spec.other", "status.none"]);
        }
        assert!(matches!(&refused, Err(Error::UnknownFields { fields: found }) if *found == fields), "{refused:?}");
        assert_eq!(store.everything().await, before);
        assert_eq!(submit(FieldValidation::Warn, &write).await.unwrap().unknown_fields, fields);
        if !matches!(write, Write::Create { .. }) {
            assert!(submit(FieldValidation::Ignore, &write).await.unwrap().unknown_fields.is_empty());
        }
    }
    let good = Write::Update { document: store.thing("a", json!({"image": "y"})), precondition: Default::default() };
    assert!(submit(FieldValidation::Strict, &good).await.unwrap().unknown_fields.is_empty());
}
