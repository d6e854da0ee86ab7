//! Kinds with several versions: documents are validated in their written version, and stored in the storage
//! version.

use homeostat_store::schema::Schema;
use homeostat_store::{Change, Key, Kind, Resource, Store, Write};
use serde_json::{Value, json};

use crate::{Make, create, delete, everything, is_gone, on_every_store, thing, update, update_status};

on_every_store!(
    a_document_of_any_version_is_checked_by_its_schema_and_stored_in_one_version,
    an_older_document_gets_the_stored_version_with_the_next_write,
    owners_of_fields_keep_the_version_that_they_wrote,
);

fn kind(version: &str) -> Kind {
    Kind::new("example.dev", version, "Thing")
}

fn key(version: &str) -> Key {
    Key::new(kind(version), "default", "a")
}

fn written(version: &str, spec: Value) -> Value {
    let mut document = thing("a", spec);
    document["apiVersion"] = format!("example.dev/{version}").into();
    document
}

/// Registers a kind with one storage version; each version has a field and a default of its own.
fn store_in(store: &dyn Store, version: &str) {
    let schema = |version: &str| {
        let properties = json!({
            "image": {"type": "string"}, "color": {"type": "string"}, version: {"type": "integer", "default": 1},
        });
        let object = |properties: &Value| json!({"type": "object", "properties": properties});
        let status = object(&json!({version: {"type": "boolean"}}));
        Schema::parse(&object(&json!({"spec": object(&properties), "status": status}))).unwrap()
    };
    let versions = ["v1", "v1beta1"].map(|version| (version.to_owned(), Some(schema(version))));
    store.schemas().set(&kind(version), versions);
}

fn version(resource: &Resource) -> (&str, &Value) {
    assert_eq!(resource.key().kind().api_version(), resource.document()["apiVersion"]);
    (&resource.key().kind().version, &resource.document()["spec"])
}

/// S14: a document of any version is stored in one version.
async fn a_document_of_any_version_is_checked_by_its_schema_and_stored_in_one_version(make: Make) {
    let store = make(Default::default());
    store_in(&**store, "v1");
    let created = create(&**store, written("v1beta1", json!({"image": "x", "v1": 2}))).await;
    assert_eq!(version(&created), ("v1", &json!({"image": "x", "v1beta1": 1})), "v1beta1 knows no field v1");
    assert!(store.get(&key("v1beta1")).await.is_ok() && store.get(&key("v1")).await.is_ok());

    let updated = update(&**store, written("v1beta1", json!({"image": "y", "v1beta1": 2}))).await.unwrap().resource;
    assert_eq!(version(&updated), ("v1", &json!({"image": "y", "v1beta1": 2})));
    let change = Change::Json(json!([
        {"op": "test", "path": "/apiVersion", "value": "example.dev/v1beta1"},
        {"op": "add", "path": "/spec/v1", "value": 3},
        {"op": "add", "path": "/spec/color", "value": "red"},
    ]));
    let patch = Write::Patch { key: key("v1beta1"), change, precondition: Default::default() };
    let patched = store.write(patch).await.unwrap().resource;
    assert_eq!(version(&patched), ("v1", &json!({"image": "y", "v1beta1": 2, "color": "red"})));
    let apply =
        |version| Write::Apply { document: written(version, json!({version: 7})), manager: "me".into(), force: true };
    let applied = store.write(apply("v1")).await.unwrap().resource;
    assert_eq!(version(&applied), ("v1", &json!({"image": "y", "v1": 7, "color": "red"})));
    let refused = store.write(Write::Create { document: written("v1beta1", json!({})) }).await.unwrap_err();
    assert!(refused.to_string().contains("already exists"), "{refused}");
    for (version, other) in [("v1", "v1beta1"), ("v1beta1", "v1")] {
        let status = json!({version: true, other: true});
        let reported = update_status(&**store, key(version), status).await.unwrap().resource;
        assert_eq!((reported.status(), &*reported.key().kind().version), (&json!({version: true}), "v1"));
    }
    delete(&**store, key("v1beta1"), Default::default()).await.unwrap();
    assert!(is_gone(&**store, &key("v1")).await);
}

/// S14: a document of any version is stored in one version.
async fn an_older_document_gets_the_stored_version_with_the_next_write(make: Make) {
    let store = make(Default::default());
    store_in(&**store, "v1beta1");
    let old = create(&**store, written("v1beta1", json!({"image": "x"}))).await;
    store_in(&**store, "v1");
    let read = store.get(&key("v1")).await.unwrap();
    assert_eq!(version(&read).0, "v1beta1", "nobody has written it since");
    let nothing =
        || Write::Patch { key: key("v1"), change: Change::Merge(json!({})), precondition: Default::default() };
    let rewritten = store.write(nothing()).await.unwrap().resource;
    assert_eq!(version(&rewritten), ("v1", &json!({"image": "x", "v1beta1": 1})), "only its version has changed");
    assert_eq!((rewritten.uid(), rewritten.generation()), (old.uid(), old.generation()));
    let before = everything(&**store).await;
    assert_eq!(store.write(nothing()).await.unwrap().change, None);
    assert_eq!(everything(&**store).await, before);
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
async fn owners_of_fields_keep_the_version_that_they_wrote(make: Make) {
    let store = make(Default::default());
    store_in(&**store, "v1");
    let apply = |manager: &str, version, spec| Write::Apply {
        document: written(version, spec),
        manager: manager.into(),
        force: false,
    };
    store.write(apply("old", "v1beta1", json!({"image": "x"}))).await.unwrap();
    let applied = store.write(apply("new", "v1", json!({"color": "red"}))).await.unwrap().resource;
    let entries = applied.document()["metadata"]["managedFields"].as_array().unwrap();
    let versions: Vec<_> = entries.iter().map(|entry| (&entry["manager"], &entry["apiVersion"])).collect();
    let said =
        [("new", "example.dev/v1"), ("old", "example.dev/v1beta1")].map(|(name, said)| (json!(name), json!(said)));
    for (name, said) in &said {
        assert!(versions.contains(&(name, said)), "{versions:?}");
    }
    let conflict = store.write(apply("new", "v1", json!({"color": "red", "image": "y"}))).await.unwrap_err();
    assert!(conflict.to_string().contains("conflict with \"old\": .spec.image"), "{conflict}");
    let renewed = store.write(apply("old", "v1", json!({}))).await.unwrap().resource;
    assert_eq!(renewed.document()["spec"].get("image"), None, "who applies stays the same in every version");
}
