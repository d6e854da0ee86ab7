//! Kinds with several versions: documents are validated in their written version, and stored in the storage
//! version.

use homeostat_store::{Change, Error, Key, Options, Resource, Write};
use serde_json::{Value, json};

use crate::{Difference, Fixture, Make, create, delete, is_gone, update, update_status};

fn key(store: &Fixture, version: &str) -> Key {
    Key::new(store.kind_in("Thing", version), "default", "a")
}

fn written(store: &Fixture, version: &str, spec: Value) -> Value {
    let mut document = store.thing("a", spec);
    document["apiVersion"] = store.api_version(version).into();
    document
}

/// Registers a kind with one storage version; each version has a field and a default of its own.
async fn store_in(store: &Fixture, version: &str) {
    let schema = |version: &str| {
        let properties = json!({
            "image": {"type": "string"}, "color": {"type": "string"}, version: {"type": "integer", "default": 1},
        });
        let object = |properties: &Value| json!({"type": "object", "properties": properties});
        let status = object(&json!({version: {"type": "boolean"}}));
        object(&json!({"spec": object(&properties), "status": status}))
    };
    store.define(version, ["v1", "v1beta1"].map(|version| (version, Some(schema(version))))).await;
}

/// Asserts that a resource has a version and a spec. Where a resource is returned in the version that the caller names,
/// `named` is that one.
fn assert_is(store: &Fixture, resource: &Resource, named: &str, stored: &str, spec: Value) {
    assert_eq!(resource.key().kind().api_version(), resource.document()["apiVersion"]);
    let version = &*resource.key().kind().version;
    if store.differs(Difference::DefinedKinds) {
        // Without a converter, a server keeps the fields that all versions know.
        let common = |spec: &Value| ["image", "color"].map(|field| spec.get(field).cloned());
        assert_eq!((version, common(&resource.document()["spec"])), (named, common(&spec)));
    } else {
        assert_eq!((version, &resource.document()["spec"]), (stored, &spec));
    }
}

/// S14: a document of any version is stored in one version.
pub(crate) async fn a_document_of_any_version_is_checked_by_its_schema_and_stored_in_one_version(make: Make) {
    let store = make(Options::default()).await;
    store_in(&store, "v1").await;
    let created = create(&**store, written(&store, "v1beta1", json!({"image": "x", "v1": 2}))).await;
    // v1beta1 knows no field v1, and v1 no field v1beta1. The default is that of the stored version.
    assert_is(&store, &created, "v1beta1", "v1", json!({"image": "x", "v1": 1}));
    assert!(store.get(&key(&store, "v1beta1")).await.is_ok() && store.get(&key(&store, "v1")).await.is_ok());

    let updated =
        update(&**store, written(&store, "v1beta1", json!({"image": "y", "v1beta1": 2}))).await.unwrap().resource;
    assert_is(&store, &updated, "v1beta1", "v1", json!({"image": "y", "v1": 1}));
    let change = Change::Json(json!([
        {"op": "test", "path": "/apiVersion", "value": store.api_version("v1beta1")},
        {"op": "add", "path": "/spec/v1", "value": 3},
        {"op": "add", "path": "/spec/color", "value": "red"},
    ]));
    let patch = Write::Patch { key: key(&store, "v1beta1"), change, precondition: Default::default() };
    let patched = store.write(patch).await.unwrap().resource;
    assert_is(&store, &patched, "v1beta1", "v1", json!({"image": "y", "v1": 1, "color": "red"}));
    let apply = |version| Write::Apply {
        document: written(&store, version, json!({version: 7})),
        manager: "me".into(),
        force: true,
    };
    let applied = store.write(apply("v1")).await;
    if store.differs(Difference::DefinedKinds) {
        // A server does not convert applied fields into a version that does not know all of them.
        assert!(matches!(applied, Err(Error::Invalid { .. })), "{applied:?}");
    } else {
        assert_is(&store, &applied.unwrap().resource, "v1", "v1", json!({"image": "y", "v1": 7, "color": "red"}));
    }
    let refused = store.write(Write::Create { document: written(&store, "v1beta1", json!({})) }).await.unwrap_err();
    assert!(refused.to_string().contains("already exists"), "{refused}");
    for (version, other) in [("v1", "v1beta1"), ("v1beta1", "v1")] {
        let status = json!({version: true, other: true});
        let reported = update_status(&**store, key(&store, version), status).await.unwrap().resource;
        if store.differs(Difference::DefinedKinds) {
            assert_eq!(reported.status().get(other), None);
        } else {
            let status = if version == "v1" { json!({"v1": true}) } else { json!({}) };
            assert_eq!((reported.status(), &*reported.key().kind().version), (&status, "v1"));
        }
    }
    delete(&**store, key(&store, "v1beta1"), Default::default()).await.unwrap();
    assert!(is_gone(&**store, &key(&store, "v1")).await);
}

/// S14: a document of any version is stored in one version.
pub(crate) async fn an_older_document_gets_the_stored_version_with_the_next_write(make: Make) {
    let store = make(Options::default()).await;
    store_in(&store, "v1beta1").await;
    let old = create(&**store, written(&store, "v1beta1", json!({"image": "x"}))).await;
    store_in(&store, "v1").await;
    let read = store.get(&key(&store, "v1")).await.unwrap();
    // Nobody has written it since.
    assert_is(&store, &read, "v1", "v1beta1", json!({"image": "x", "v1beta1": 1}));
    let nothing =
        || Write::Patch { key: key(&store, "v1"), change: Change::Merge(json!({})), precondition: Default::default() };
    let rewritten = store.write(nothing()).await.unwrap().resource;
    // Only its version has changed.
    assert_is(&store, &rewritten, "v1", "v1", json!({"image": "x", "v1beta1": 1}));
    assert_eq!((rewritten.uid(), rewritten.generation()), (old.uid(), old.generation()));
    let before = store.everything().await;
    store.assert_unchanged(&store.write(nothing()).await.unwrap(), rewritten.revision());
    assert_eq!(store.everything().await, before);
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
pub(crate) async fn owners_of_fields_keep_the_version_that_they_wrote(make: Make) {
    let store = make(Options::default()).await;
    if store.differs(Difference::DefinedKinds) {
        // A server does not convert applied fields into a version that does not know all of them.
        let texts = json!({"image": {"type": "string"}, "color": {"type": "string"}});
        let spec = json!({"type": "object", "properties": texts});
        let schema = json!({"type": "object", "properties": {"spec": spec}});
        store.define("v1", ["v1", "v1beta1"].map(|version| (version, Some(schema.clone())))).await;
    } else {
        store_in(&store, "v1").await;
    }
    let apply = |manager: &str, version, spec| Write::Apply {
        document: written(&store, version, spec),
        manager: manager.into(),
        force: false,
    };
    store.write(apply("old", "v1beta1", json!({"image": "x"}))).await.unwrap();
    let applied = store.write(apply("new", "v1", json!({"color": "red"}))).await.unwrap().resource;
    let entries = applied.document()["metadata"]["managedFields"].as_array().unwrap();
    let versions: Vec<_> = entries.iter().map(|entry| (&entry["manager"], &entry["apiVersion"])).collect();
    let said = [("new", "v1"), ("old", "v1beta1")]
        .map(|(name, version)| (json!(store.manager(name)), json!(store.api_version(version))));
    for (name, said) in &said {
        assert!(versions.contains(&(name, said)), "{versions:?}");
    }
    let conflict = store.write(apply("new", "v1", json!({"color": "red", "image": "y"}))).await.unwrap_err();
    let wanted = format!("conflict with {:?}: .spec.image", store.manager("old"));
    assert!(conflict.to_string().contains(&wanted), "{conflict}");
    let renewed = store.write(apply("old", "v1", json!({}))).await.unwrap().resource;
    assert_eq!(renewed.document()["spec"].get("image"), None, "who applies stays the same in every version");
}
