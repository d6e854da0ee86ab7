use proptest::prelude::*;

use super::*;
use crate::Revision;

/// Kinds of the group `far.dev` live in the store `bus`.
fn elsewhere(kind: &Kind) -> Option<OwnerStore> {
    (kind.group == "far.dev").then(|| OwnerStore { name: "bus".into(), content: Some("one".to_owned()) })
}

fn reference(group: &str, name: &str, uid: &str) -> Value {
    json!({ "apiVersion": format!("{group}/v1"), "kind": "App", "name": name, "uid": uid })
}

fn document(references: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Part", "spec": { "size": 1 },
        "metadata": { "name": "part", "namespace": "shop", "uid": "p", "ownerReferences": references },
    })
}

fn no_kind(_: &str) -> Option<(Kind, Arc<str>)> {
    None
}

fn written(mut document: Value) -> Value {
    split(&mut document, &elsewhere).unwrap();
    document
}

fn stored(document: Value) -> Arc<Resource> {
    Arc::new(Resource::from_document(document).unwrap())
}

fn read(document: Value) -> Value {
    join(stored(document), &no_kind).document().clone()
}

#[test]
fn a_store_never_sees_a_reference_to_an_owner_in_another_store() {
    let mut far = reference("far.dev", "a", "u-1");
    far["controller"] = json!(true);
    let stored = written(document(&json!([far])));
    let metadata = &stored["metadata"];
    assert_eq!(metadata.get("ownerReferences"), None);
    assert_eq!(metadata["labels"][OWNER_LABEL], "u-1");
    let note = r#"{"apiVersion":"far.dev/v1","content":"one","controller":true,"kind":"App","name":"a","store":"bus","uid":"u-1"}"#;
    assert_eq!(metadata["annotations"][OWNER_ANNOTATION], note);
}

#[test]
fn an_owner_in_the_same_store_stays_a_reference() {
    let before = document(&json!([reference("near.dev", "a", "u-1")]));
    assert_eq!(written(before.clone()), before);
    let resource = stored(before);
    assert!(Arc::ptr_eq(&join(Arc::clone(&resource), &no_kind), &resource));
    assert_eq!(resource.owners()[0].far, None);
}

#[test]
fn the_owners_of_a_resource_are_the_same_before_and_after_it_is_joined() {
    let resource =
        stored(written(document(&json!([reference("far.dev", "a", "u-1"), reference("near.dev", "b", "u-2")]))));
    let joined = join(Arc::clone(&resource), &no_kind);
    let mut before = resource.owners().to_vec();
    before.sort_by(|one, other| one.uid.cmp(&other.uid));
    let mut after = joined.owners().to_vec();
    after.sort_by(|one, other| one.uid.cmp(&other.uid));
    assert_eq!(before, after);
    assert_eq!(
        before[0].far,
        Some(Box::new(FarOwner { store: "bus".into(), content: Some("one".to_owned()), namespace: None }))
    );
    assert!(Arc::ptr_eq(&join(Arc::clone(&joined), &no_kind), &joined), "joined once is enough");
    assert_eq!(joined.revision(), Revision::ZERO);
}

#[test]
fn a_removed_reference_removes_the_annotation_and_the_label() {
    let mut read = read(written(document(&json!([reference("far.dev", "a", "u-1")]))));
    read["metadata"]["ownerReferences"] = json!([]);
    let expected = document(&json!([]));
    assert_eq!(written(read.clone()), expected);
    read["metadata"].as_object_mut().unwrap().remove("ownerReferences");
    assert_eq!(written(read)["metadata"].get("annotations"), None);
}

#[test]
fn the_namespace_of_an_owner_survives_a_reader_that_does_not_know_the_field() {
    let mut far = reference("far.dev", "a", "u-1");
    far["namespace"] = json!("other");
    let mut read = read(written(document(&json!([far]))));
    assert_eq!(read["metadata"]["ownerReferences"][0]["namespace"], "other");
    read["metadata"]["ownerReferences"][0].as_object_mut().unwrap().remove("namespace");
    let stored = stored(written(read));
    assert_eq!(stored.owners()[0].far.as_ref().unwrap().namespace.as_deref(), Some("other"));
}

#[test]
fn an_owner_keeps_the_content_in_which_it_was_named() {
    let content = |document: Value| stored(document).owners()[0].far.clone().unwrap().content;
    let named = written(document(&json!([reference("far.dev", "a", "u-1")])));
    let emptied = |_: &Kind| Some(OwnerStore { name: "bus".into(), content: Some("two".to_owned()) });
    let mut read = read(named);
    split(&mut read, &emptied).unwrap();
    assert_eq!(content(read).as_deref(), Some("one"), "the writer changed something else");
    let mut other = document(&json!([reference("far.dev", "a", "u-2")]));
    split(&mut other, &emptied).unwrap();
    assert_eq!(content(other).as_deref(), Some("two"));
}

#[test]
fn what_cannot_be_written_is_refused_with_its_path() {
    let refused = |references: Value| split(&mut document(&references), &elsewhere).unwrap_err().to_string();
    let two = refused(json!([reference("far.dev", "a", "u-1"), reference("far.dev", "b", "u-2")]));
    assert!(
        two.starts_with("metadata.ownerReferences[1]: only one owner may live in another store: far.dev/v1/App"),
        "{two}"
    );
    assert!(two.ends_with("\"a\" does, in store bus"), "{two}");
    let nameless = refused(json!([reference("far.dev", "a", "")]));
    assert_eq!(nameless, "metadata.ownerReferences[0].uid: must not be empty");
    let odd = refused(json!([reference("far.dev", "a", "no label value")]));
    assert!(odd.starts_with("metadata.ownerReferences[0].uid: "), "{odd}");
    let mut elsewhere = reference("near.dev", "a", "u-1");
    elsewhere["namespace"] = json!("other");
    let elsewhere = refused(json!([elsewhere]));
    assert!(elsewhere.starts_with("metadata.ownerReferences[0].namespace: "), "{elsewhere}");
}

#[test]
fn a_document_without_owners_is_left_alone() {
    for mut document in
        [json!({}), json!(3), json!({"metadata": {"annotations": {"a": "b"}, "labels": {OWNER_LABEL: "u"}}})]
    {
        let before = document.clone();
        split(&mut document, &elsewhere).unwrap();
        assert_eq!(document, before);
    }
}

#[test]
fn a_malformed_annotation_names_no_owner() {
    for text in ["", "{", "{}", r#"{"store":"bus","apiVersion":"","kind":"App","name":"a","uid":"u"}"#] {
        let mut document = document(&json!([]));
        document["metadata"]["annotations"] = json!({ OWNER_ANNOTATION: text });
        assert_eq!(stored(document).owners(), [], "{text}");
    }
}

/// Knows the kind of the primaries.
fn primaries(name: &str) -> Option<(Kind, Arc<str>)> {
    (name == "v3deployment").then(|| (Kind::new("kumori.systems", "v1", "V3Deployment"), "bus".into()))
}

#[test]
fn kumori_names_are_read() {
    let owner = |map: &str, kind: &str, key: &str| {
        let mut document = document(&json!([]));
        document["metadata"][map] = json!({ OWNER_KIND: kind, OWNER_KEY: key });
        let resource = stored(document);
        let joined = join(Arc::clone(&resource), &primaries);
        assert_eq!(joined.text(), resource.text(), "the document stays as Kumori wrote it");
        joined.owners().first().cloned()
    };
    for (map, key, namespace) in
        [("labels", "a", None), ("annotations", "a", None), ("annotations", "team/a", Some("team"))]
    {
        let owner = owner(map, "v3deployment", key).unwrap();
        assert_eq!((owner.name.as_str(), owner.uid.as_str(), owner.controller), ("a", "", true));
        assert_eq!(owner.kind.name, "V3Deployment");
        let far = FarOwner { store: "bus".into(), content: None, namespace: namespace.map(str::to_owned) };
        assert_eq!(owner.far, Some(Box::new(far)));
    }
    assert_eq!(owner("labels", "unknown", "a"), None);
    assert_eq!(owner("labels", "v3deployment", ""), None);
}

#[test]
fn only_a_patch_that_can_change_owners_is_computed_here() {
    let merge = |patch: Value| touches(&Change::Merge(patch)).unwrap();
    for patch in [
        json!({"metadata": {"ownerReferences": []}}),
        json!({"metadata": null}),
        json!({"metadata": {"annotations": null}}),
        json!({"metadata": {"labels": null}}),
        json!({"metadata": {"annotations": {OWNER_ANNOTATION: null}}}),
        json!({"metadata": {"labels": {OWNER_LABEL: "u"}}}),
    ] {
        assert!(merge(patch.clone()), "{patch}");
    }
    for patch in [
        json!({}),
        json!({"spec": {"ownerReferences": []}}),
        json!({"metadata": {"labels": {"a": "b"}, "annotations": {"a": null}}}),
    ] {
        assert!(!merge(patch.clone()), "{patch}");
    }
    let strategic = |patch: Value| touches(&Change::Strategic(patch));
    assert_eq!(strategic(json!({"metadata": {"$setElementOrder/ownerReferences": []}})), Ok(true));
    assert_eq!(strategic(json!({"spec": {"containers": []}})), Ok(false));
    assert!(strategic(json!({"metadata": {"ownerReferences": []}, "spec": {}})).is_err());
    let json = |path: &str| touches(&Change::Json(json!([{"op": "remove", "path": path}]))).unwrap();
    for path in [
        "",
        "/metadata",
        "/metadata/ownerReferences/0/uid",
        "/metadata/annotations",
        "/metadata/annotations/homeostat.dev~1owner",
    ] {
        assert!(json(path), "{path}");
    }
    for path in ["/spec", "/metadata/labels/a", "/metadata/annotations/homeostat.dev~1owners", "/metadata/owner"] {
        assert!(!json(path), "{path}");
    }
    let from = json!([{"op": "move", "path": "/spec/a", "from": "/metadata/ownerReferences"}]);
    assert_eq!(touches(&Change::Json(from)), Ok(true));
}

/// Owner references as clients write them: the one to another store last, as `join` puts it.
fn references() -> impl Strategy<Value = Vec<Value>> {
    let near = prop::collection::vec(any::<(Option<bool>, Option<bool>)>(), 0..3);
    let far = prop::option::of((any::<Option<bool>>(), any::<Option<bool>>(), any::<bool>()));
    (near, far).prop_map(|(near, far)| {
        let flags = |reference: &mut Value, controller: Option<bool>, blocks: Option<bool>| {
            controller.into_iter().for_each(|is| reference["controller"] = is.into());
            blocks.into_iter().for_each(|is| reference["blockOwnerDeletion"] = is.into());
        };
        let mut references: Vec<Value> = Vec::new();
        for (at, (controller, blocks)) in near.into_iter().enumerate() {
            let mut near = reference("near.dev", "near", &format!("near-{at}"));
            flags(&mut near, controller, blocks);
            references.push(near);
        }
        if let Some((controller, blocks, is_named)) = far {
            let mut far = reference("far.dev", "far", "far-1");
            flags(&mut far, controller, blocks);
            if is_named {
                far["namespace"] = json!("other");
            }
            references.push(far);
        }
        references
    })
}

proptest! {
    /// What a client wrote is what it reads, and what it read can be written back without a change.
    #[test]
    fn split_then_join_is_the_identity(references in references(), labels in any::<bool>()) {
        let mut before = document(&json!(references));
        if labels {
            before["metadata"]["labels"] = json!({ "a": "b" });
            before["metadata"]["annotations"] = json!({ "c": "d" });
        }
        let stored = written(before.clone());
        let after = read(stored.clone());
        prop_assert_eq!(&after["metadata"]["ownerReferences"], &before["metadata"]["ownerReferences"]);
        prop_assert_eq!(written(after.clone()), stored);
        // Only the annotation and the label are more.
        let mut plain = after;
        let metadata = plain["metadata"].as_object_mut().unwrap();
        remove(metadata, "annotations", OWNER_ANNOTATION);
        remove(metadata, "labels", OWNER_LABEL);
        prop_assert_eq!(plain, before);
    }
}
