use proptest::prelude::*;
use serde_json::json;

use super::{Path, owner_prefix};
use crate::{Key, Kind, Resource, Revision, View};

#[test]
fn kinds_and_keys_read_as_people_write_them() {
    let deployment = Kind::parse("apps/v1", "Deployment").expect("well formed");
    assert_eq!(deployment, Kind::new("apps", "v1", "Deployment"));
    assert_eq!(deployment.to_string(), "apps/v1/Deployment");
    assert_eq!(deployment.api_version(), "apps/v1");
    let pod = Kind::parse("v1", "Pod").expect("well formed");
    assert_eq!(pod.to_string(), "v1/Pod");
    assert_eq!(pod.api_version(), "v1");
    assert_eq!(Key::new(deployment.clone(), "default", "web").to_string(), "apps/v1/Deployment default/web");
    assert_eq!(Key::new(Kind::new("", "v1", "Node"), "", "a").to_string(), "v1/Node a");
    assert!(deployment.same_type(&Kind::new("apps", "v2", "Deployment")));
    assert!(!deployment.same_type(&Kind::new("", "v1", "Deployment")));
}

#[test]
fn a_key_is_one_object_in_json() {
    let key = Key::new(Kind::new("apps", "v1", "Deployment"), "default", "web");
    let text = serde_json::to_value(&key).expect("a key is JSON");
    let wanted = json!({"kind": {"group": "apps", "version": "v1", "name": "Deployment"}, "namespace": "default", "name": "web"});
    assert_eq!(text, wanted);
    assert_eq!(serde_json::from_value::<Key>(text).expect("it was written"), key);
}

#[test]
fn a_revision_has_one_spelling() {
    assert_eq!("0".parse(), Ok(Revision::ZERO));
    assert_eq!(u64::MAX.to_string().parse(), Ok(Revision(u64::MAX)));
    for wrong in ["", "+1", "-1", "01", "00", " 1", "1 ", "0x1", "18446744073709551616", "١"] {
        assert!(wrong.parse::<Revision>().is_err(), "{wrong}");
    }
}

#[test]
fn a_view_has_as_much_as_was_asked_for() {
    let document = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "resourceVersion": "7"}, "spec": 1, "status": 2});
    let resource = Resource::from_document(document.clone()).expect("well formed");
    let read = |view| serde_json::from_str::<serde_json::Value>(&resource.view(view)).expect("JSON");
    assert_eq!(read(View::Whole), document);
    assert_eq!(read(View::Metadata), json!({"apiVersion": "v1", "kind": "Pod", "metadata": document["metadata"]}));
    assert_eq!(resource.view(View::Keys), "");
    assert_eq!((resource.uid(), resource.revision(), resource.generation()), ("", Revision(7), 0));
    assert!(!resource.is_deleting());
}

#[test]
fn malformed_metadata_is_omitted() {
    let metadata = json!({
        "name": "a", "labels": {"a": 1, "b": "c"}, "finalizers": [1, "x"], "deletionTimestamp": null,
        "ownerReferences": [{}, 5, {"apiVersion": "v1", "kind": "Pod", "name": "n", "uid": "u", "controller": "yes"}],
    });
    let resource =
        Resource::from_document(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata})).expect("well formed");
    assert_eq!(resource.labels().collect::<Vec<_>>(), [("b", "c")]);
    assert_eq!(resource.finalizers().collect::<Vec<_>>(), ["x"]);
    let owners = resource.owners();
    assert_eq!(owners.len(), 1);
    assert!(!owners[0].controller);
    assert!(!resource.is_deleting());
}

/// Text that could confuse an encoding: its own escape bytes, and common separators.
fn hostile() -> impl Strategy<Value = String> {
    proptest::collection::vec(
        prop_oneof![Just('\0'), Just('\u{1}'), Just('\u{ff}'), Just('/'), Just('a'), any::<char>()],
        0..5,
    )
    .prop_map(|symbols| symbols.into_iter().collect())
}

fn parts() -> impl Strategy<Value = (String, String, String, String)> {
    (hostile(), hostile(), hostile(), hostile())
}

fn path((group, kind, namespace, name): &(String, String, String, String)) -> Path {
    Path::of(&Key::new(Kind::new(group.as_str(), "v1", kind.as_str()), namespace, name))
}

proptest! {
    #[test]
    fn paths_have_the_order_of_their_parts(one in parts(), two in parts()) {
        // Paths are equal only for equal parts; this follows.
        prop_assert_eq!(path(&one).cmp(&path(&two)), one.cmp(&two));
    }

    #[test]
    fn a_prefix_covers_its_kind_and_namespace_and_nothing_else(one in parts(), two in parts()) {
        let kind = Kind::new(one.0.as_str(), "v9", one.1.as_str());
        let found = path(&two);
        for (prefix, wanted) in [
            (Path::prefix(&kind, None), (&one.0, &one.1) == (&two.0, &two.1)),
            (Path::prefix(&kind, Some(&one.2)), (&one.0, &one.1, &one.2) == (&two.0, &two.1, &two.2)),
        ] {
            prop_assert_eq!(found.0.starts_with(&prefix.0), wanted);
            prop_assert_eq!(prefix < found && found < prefix.end(), wanted);
        }
    }

    #[test]
    fn no_owner_prefix_begins_another(one in hostile(), two in hostile()) {
        prop_assert_eq!(owner_prefix(&one).starts_with(&owner_prefix(&two)), one == two);
    }
}

/// Any JSON value, with names that collide with those that the search looks for.
fn any_value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(|value| json!(value)),
        any::<i32>().prop_map(|value| json!(value)),
        "[a-z\"\\\\{}\\[\\],: ]{0,8}".prop_map(|value| json!(value)),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let name = prop_oneof![Just("metadata".to_owned()), Just("resourceVersion".to_owned()), "[a-z\"\\\\]{0,4}"];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|values| json!(values)),
            prop::collection::btree_map(name, inner, 0..4).prop_map(|fields| json!(fields)),
        ]
    })
}

proptest! {
    #[test]
    fn a_revision_is_replaced_in_the_text_as_in_the_document(
        fields in prop::collection::btree_map("[a-zA-Z\"\\\\]{0,6}", any_value(), 0..4),
        labels in any_value(),
        revision in any::<u64>(),
        pretty in any::<bool>(),
    ) {
        let mut document = json!(fields);
        document["apiVersion"] = json!("demo.dev/v1");
        document["kind"] = json!("Widget");
        document["metadata"] = json!({"name": "a", "annotations": labels, "resourceVersion": "7", "uid": "u"});
        let resource = Resource::from_document(document.clone()).expect("a whole document");
        let text = if pretty { serde_json::to_string_pretty(&document).expect("JSON") } else { resource.text_without_revision() };
        let read = Resource::from_text_at(&text, Revision(revision)).expect("its own text");
        document["metadata"]["resourceVersion"] = json!(revision.to_string());
        prop_assert_eq!(read.document(), &document);
        prop_assert_eq!(read.revision(), Revision(revision));
        let moved = resource.at(Revision(revision));
        prop_assert_eq!(moved.document(), &document);
        prop_assert_eq!(moved.revision(), Revision(revision));
    }

    #[test]
    fn any_text_is_searched_for_its_revision_without_a_panic(text in "[a-z\"\\\\{}\\[\\],:é ]{0,64}") {
        drop(Resource::from_text_at(&text, Revision(1)));
        drop(Resource::from_text_at(&format!("{{\"metadata\":{{\"resourceVersion\":{text}"), Revision(1)));
    }
}

#[test]
fn a_text_with_two_revisions_or_none_gets_the_one_of_its_server() {
    for metadata in [
        r#""resourceVersion":"1","resourceVersion":"2","name":"a""#,
        r#""name":"a""#,
        r#""name":"a","resourceVersion":3"#,
    ] {
        let text = format!(r#"{{"apiVersion":"v1","kind":"A","metadata":{{{metadata}}}}}"#);
        let read = Resource::from_text_at(&text, Revision(9)).expect("a document");
        assert_eq!(read.revision(), Revision(9), "{text}");
        assert_eq!(read.document()["metadata"]["resourceVersion"], "9", "{text}");
    }
}

/// A cache has thousands of them, and an allocator gives more than 128 bytes in steps of 32.
#[cfg(target_pointer_width = "64")]
#[test]
fn a_resource_and_its_counts_have_128_bytes_at_most_beside_its_texts() {
    assert!(size_of::<Resource>() + 2 * size_of::<usize>() <= 128, "{}", size_of::<Resource>());
}
