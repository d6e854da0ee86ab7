//! Kinds with a schema: pruning, defaulting and validation on write.

use homeostat_store::schema::{Reason, Schema};
use homeostat_store::{Change, Error, FieldValidation, Request, Store, Write};
use serde_json::{Value, json};

use crate::{
    Make, create, delete, everything, is_gone, key, kind, on_every_store, thing, update, update_status, with_metadata,
};

on_every_store!(
    a_document_is_pruned_filled_in_and_checked,
    every_way_of_writing_is_checked_and_a_refusal_changes_nothing,
    a_status_is_checked_when_it_is_written_and_only_then,
    a_status_that_the_schema_does_not_know_is_left_out,
    a_document_that_became_invalid_can_be_labelled_reported_on_and_deleted,
    a_write_that_only_repeats_the_defaults_changes_nothing,
    unknown_fields_are_reported_or_refused_on_request,
);

fn schema() -> Schema {
    let source = json!({
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
    });
    Schema::parse(&source).unwrap()
}

fn with_schema(store: &dyn Store) {
    store.schemas().set(&kind("Thing"), [("v1".to_owned(), Some(schema()))]);
}

async fn patch(store: &dyn Store, change: Value) -> homeostat_store::Result<homeostat_store::WriteResponse> {
    store.write(Write::Patch { key: key("a"), change: Change::Merge(change), precondition: Default::default() }).await
}

/// S14: a document is pruned, defaulted and checked by the schema of its kind.
async fn a_document_is_pruned_filled_in_and_checked(make: Make) {
    let store = make(Default::default());
    with_schema(&**store);
    let labelled =
        with_metadata(thing("a", json!({"image": "x", "mode": null, "other": 1})), json!({"labels": {"a": "b"}}));
    let created = create(&**store, labelled).await;
    assert_eq!(created.document()["spec"], json!({"image": "x", "size": 1}));
    assert_eq!((created.label("a"), created.status()), (Some("b"), &Value::Null));
    let refused =
        store.write(Write::Create { document: thing("b", json!({"size": -1, "mode": "c"})) }).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "Thing.example.dev \"b\" is invalid: [spec.image: Required value, \
         spec.mode: Unsupported value: \"c\": supported values: \"a\", \"b\", \
         spec.size: Invalid value: -1: spec.size in body should be greater than or equal to 0]"
    );
    let Error::InvalidFields { violations, .. } = refused else { panic!("{refused}") };
    let reasons: Vec<Reason> = violations.iter().map(|violation| violation.reason).collect();
    assert_eq!(reasons, [Reason::Required, Reason::Unsupported, Reason::Invalid]);
}

/// S14: a document is pruned, defaulted and checked by the schema of its kind.
async fn every_way_of_writing_is_checked_and_a_refusal_changes_nothing(make: Make) {
    let store = make(Default::default());
    with_schema(&**store);
    create(&**store, thing("a", json!({"image": "x"}))).await;
    let before = everything(&**store).await;
    let bad = json!({"image": "x", "size": -1});
    let apply = Write::Apply { document: thing("a", bad.clone()), manager: "me".into(), force: true };
    let new = Write::Apply { document: thing("b", bad.clone()), manager: "me".into(), force: false };
    for refused in [
        update(&**store, thing("a", bad.clone())).await,
        patch(&**store, json!({"spec": bad})).await,
        patch(&**store, json!({"spec": {"image": null}})).await,
        store.write(apply).await,
        store.write(new).await,
        update_status(&**store, key("a"), json!({"ready": -1})).await,
    ] {
        let one = matches!(&refused, Err(Error::InvalidFields { violations, .. }) if violations.len() == 1);
        assert!(one, "{refused:?}");
    }
    assert_eq!(everything(&**store).await, before);
    let patched = patch(&**store, json!({"spec": {"size": null, "mode": "a", "other": 1}})).await.unwrap();
    assert_eq!(patched.resource.document()["spec"], json!({"image": "x", "size": 1, "mode": "a"}));
}

/// S14: a document is pruned, defaulted and checked by the schema of its kind.
async fn a_status_is_checked_when_it_is_written_and_only_then(make: Make) {
    let store = make(Default::default());
    create(&**store, thing("a", json!({"image": "x"}))).await;
    update_status(&**store, key("a"), json!({"ready": -1, "old": true})).await.unwrap();
    with_schema(&**store);
    let updated = update(&**store, thing("a", json!({"image": "y"}))).await.unwrap().resource;
    assert_eq!(updated.status(), &json!({"ready": -1, "old": true}));
    let refused = update_status(&**store, key("a"), json!({"ready": "all"})).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "Thing.example.dev \"a\" is invalid: \
         status.ready: Invalid value: \"string\": status.ready in body must be of type integer: \"string\""
    );
    let ready = update_status(&**store, key("a"), json!({"ready": 1, "new": true})).await.unwrap().resource;
    assert_eq!(ready.status(), &json!({"ready": 1, "phase": "Pending"}));
    assert_eq!(ready.document()["spec"], json!({"image": "y", "size": 1}));
}

/// S14: a document is pruned, defaulted and checked by the schema of its kind.
async fn a_status_that_the_schema_does_not_know_is_left_out(make: Make) {
    let store = make(Default::default());
    let set = |source| {
        store.schemas().set(&kind("Thing"), [("v1".to_owned(), Some(Schema::parse(&source).unwrap()))]);
    };
    set(json!({"type": "object", "properties": {"spec": {"type": "object"}}}));
    create(&**store, thing("a", json!({}))).await;
    assert_eq!(update_status(&**store, key("a"), json!({"ready": 1})).await.unwrap().change, None);
    set(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
    let kept = update_status(&**store, key("a"), json!({"ready": 1})).await.unwrap().resource;
    assert_eq!(kept.status(), &json!({"ready": 1}));
}

/// S14: a document is pruned, defaulted and checked by the schema of its kind.
async fn a_document_that_became_invalid_can_be_labelled_reported_on_and_deleted(make: Make) {
    let store = make(Default::default());
    let document = with_metadata(thing("a", json!({"size": "large"})), json!({"finalizers": ["demo.dev/held"]}));
    create(&**store, document).await;
    with_schema(&**store);
    assert!(update(&**store, thing("a", json!({"size": "larger"}))).await.is_err());
    let labelled = patch(&**store, json!({"metadata": {"labels": {"a": "b"}}})).await.unwrap().resource;
    assert_eq!(labelled.document()["spec"], json!({"size": "large"}));
    update_status(&**store, key("a"), json!({"ready": 0})).await.unwrap();
    delete(&**store, key("a"), Default::default()).await.unwrap();
    patch(&**store, json!({"metadata": {"finalizers": null}})).await.unwrap();
    assert!(is_gone(&**store, &key("a")).await);
}

/// S3: a write that changes nothing makes no revision.
async fn a_write_that_only_repeats_the_defaults_changes_nothing(make: Make) {
    let store = make(Default::default());
    with_schema(&**store);
    create(&**store, thing("a", json!({"image": "x"}))).await;
    let before = everything(&**store).await;
    for spec in
        [json!({"image": "x"}), json!({"image": "x", "size": 1}), json!({"image": "x", "size": null, "other": 1})]
    {
        assert_eq!(update(&**store, thing("a", spec)).await.unwrap().change, None);
    }
    assert_eq!(everything(&**store).await, before);
    store.schemas().forget(&kind("Thing"));
    assert_eq!(
        update(&**store, thing("a", json!({"other": 1}))).await.unwrap().resource.document()["spec"],
        json!({"other": 1})
    );
}

/// S14: a document is pruned, defaulted and checked by the schema of its kind.
async fn unknown_fields_are_reported_or_refused_on_request(make: Make) {
    let store = make(Default::default());
    with_schema(&**store);
    let submit = async |unknown, write: &Write| {
        store.submit(Request { field_validation: unknown, ..write.clone().into() }).await
    };
    let document = || thing("a", json!({"image": "x", "other": 1, "color": {"a": 2}}));
    let merge = Change::Merge(json!({"spec": {"size": 2, "other": 1}, "status": {"none": 1}}));
    let status = json!({"ready": 1, "old": true});
    let mut reported = document();
    reported["status"] = status.clone();
    let cases = [
        (Write::Create { document: document() }, vec!["spec.color", "spec.other"]),
        (Write::Update { document: document(), precondition: Default::default() }, vec!["spec.color", "spec.other"]),
        (Write::Apply { document: document(), manager: "me".into(), force: true }, vec!["spec.color", "spec.other"]),
        (Write::Patch { key: key("a"), change: merge.clone(), precondition: Default::default() }, vec!["spec.other"]),
        (Write::PatchStatus { key: key("a"), change: merge }, vec!["status.none"]),
        (Write::UpdateStatus { key: key("a"), status, precondition: Default::default() }, vec!["status.old"]),
        (Write::ApplyStatus { document: reported, manager: "me".into(), force: true }, vec!["status.old"]),
    ];
    for (write, fields) in cases {
        let before = everything(&**store).await;
        let refused = submit(FieldValidation::Strict, &write).await;
        assert!(matches!(&refused, Err(Error::UnknownFields { fields: found }) if *found == fields), "{refused:?}");
        assert_eq!(everything(&**store).await, before);
        assert_eq!(submit(FieldValidation::Warn, &write).await.unwrap().unknown_fields, fields);
        if !matches!(write, Write::Create { .. }) {
            assert!(submit(FieldValidation::Ignore, &write).await.unwrap().unknown_fields.is_empty());
        }
    }
    let good = Write::Update { document: thing("a", json!({"image": "y"})), precondition: Default::default() };
    assert!(submit(FieldValidation::Strict, &good).await.unwrap().unknown_fields.is_empty());
}
