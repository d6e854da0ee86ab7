use serde_json::json;

use super::*;
use crate::memory::MemoryStore;
use crate::routes::Rule;
use crate::{Options, Scope, View};

/// The kind that lives in the store `bus`.
fn far() -> Kind {
    Kind::new("far.dev", "v1", "App")
}

fn near() -> Kind {
    Kind::new("near.dev", "v1", "Part")
}

struct Two {
    home: Arc<dyn Store>,
    all: RoutedStore,
    owner: Arc<Resource>,
}

async fn two() -> Two {
    let (home, bus) = (memory(), memory());
    let rule = Rule { pattern: "far.dev/*".parse().unwrap(), store: "bus".into(), view: View::Whole };
    let routes = Routes::new(vec![rule]).unwrap();
    let all = RoutedStore::new(home.clone(), vec![StorePart { name: "bus".into(), store: bus }], routes).unwrap();
    let owner = create(&all, json!({"apiVersion": "far.dev/v1", "kind": "App", "metadata": meta("a")})).await;
    Two { home, all, owner }
}

fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new(Options::default()))
}

fn meta(name: &str) -> Value {
    json!({"name": name, "namespace": "shop"})
}

fn key(name: &str) -> Key {
    Key::new(near(), "shop", name)
}

async fn create(store: &dyn Store, document: Value) -> Arc<Resource> {
    store.write(Write::Create { document }).await.unwrap().resource
}

fn reference(owner: &Resource) -> Value {
    let kind = owner.key().kind();
    json!({
        "apiVersion": kind.api_version(), "kind": kind.name, "name": owner.key().name(), "uid": owner.uid(),
        "controller": true,
    })
}

fn part(name: &str, owners: &Value) -> Value {
    let mut document =
        json!({"apiVersion": "near.dev/v1", "kind": "Part", "metadata": meta(name), "spec": {"size": 1}});
    document["metadata"]["ownerReferences"] = owners.clone();
    document
}

fn owners_of(resource: &Resource) -> Value {
    resource.document()["metadata"]["ownerReferences"].clone()
}

fn patch(change: Change) -> Write {
    Write::Patch { key: key("part"), change, precondition: Precondition::default() }
}

#[tokio::test]
async fn a_far_owner_is_a_plain_owner_to_guests() {
    let Two { home, all, owner } = two().await;
    let owners = json!([reference(&owner)]);
    let mut watch = all.watch(Scope::Kind(near()), Revision::ZERO).await.unwrap();
    let created = create(&all, part("part", &owners)).await;
    let event = watch.next().await.unwrap();
    let selector = Selector { owner: Some(owner.uid().to_owned()), ..Selector::default() };
    let listed = all.list(&Query { selector, ..Query::all(near()) }).await.unwrap().items;
    let dependents = all.dependents(owner.uid()).await.unwrap();
    for seen in [
        &created,
        &event.resource,
        &all.get(&key("part")).await.unwrap(),
        &all.get_live(&key("part")).await.unwrap(),
        &listed[0],
        &dependents[0],
    ] {
        assert_eq!(owners_of(seen), owners);
        assert_eq!(seen.owners()[0].far.as_ref().unwrap().store, "bus".into());
    }
    assert_eq!(
        owners_of(&home.get(&key("part")).await.unwrap()),
        Value::Null,
        "the collector of a cluster would delete it"
    );

    // What was read can be written back: nothing changes.
    let document = created.document().clone();
    let again = all.write(Write::Update { document, precondition: Precondition::default() }).await.unwrap();
    assert_eq!(again.change, None);
    // Apply takes the plain form, and changes nothing the second time.
    let apply = || Write::Apply { document: part("applied", &owners), manager: "guest".to_owned(), force: false };
    assert_eq!(owners_of(&all.write(apply()).await.unwrap().resource), owners);
    assert_eq!(all.write(apply()).await.unwrap().change, None);
    // Without the reference, the apply takes the owner away.
    let mut document = part("applied", &json!([]));
    document["metadata"].as_object_mut().unwrap().remove("ownerReferences");
    let free = all.write(Write::Apply { document, manager: "guest".to_owned(), force: false }).await.unwrap().resource;
    assert_eq!((owners_of(&free), free.owners().len(), free.label(far_owner::OWNER_LABEL)), (Value::Null, 0, None));
}

#[tokio::test]
async fn a_patch_adopts_and_releases_a_dependent_of_a_far_owner() {
    let Two { home, all, owner } = two().await;
    create(&all, part("part", &json!([]))).await;
    let add = json!([{"op": "add", "path": "/metadata/ownerReferences", "value": [reference(&owner)]}]);
    let release = Change::Merge(json!({"metadata": {"ownerReferences": null}}));
    for adopt in [
        Change::Merge(json!({"metadata": {"ownerReferences": [reference(&owner)]}})),
        Change::Strategic(json!({"metadata": {"ownerReferences": [reference(&owner)]}})),
        Change::Json(add),
    ] {
        let adopted = all.write(patch(adopt)).await.unwrap().resource;
        assert_eq!(owners_of(&adopted), json!([reference(&owner)]));
        assert_eq!(owners_of(&home.get(&key("part")).await.unwrap()).as_array().map_or(0, Vec::len), 0);
        // A patch of something else keeps the owner.
        let other = all.write(patch(Change::Merge(json!({"spec": {"size": 2}})))).await.unwrap().resource;
        assert_eq!(other.owners().len(), 1);
        let released = all.write(patch(release.clone())).await.unwrap().resource;
        assert_eq!((released.owners().len(), released.annotations().count()), (0, 0));
    }
}

#[tokio::test]
async fn a_patch_of_owners_keeps_its_preconditions() {
    let Two { all, owner, .. } = two().await;
    let created = create(&all, part("part", &json!([]))).await;
    let change = || Change::Merge(json!({"metadata": {"ownerReferences": [reference(&owner)]}}));
    let with = |precondition| Write::Patch { key: key("part"), change: change(), precondition };
    let other = Precondition { uid: Some("other".to_owned()), revision: None };
    let old = Precondition { uid: None, revision: Some(Revision(99)) };
    for precondition in [other, old] {
        let refused = all.write(with(precondition)).await.unwrap_err();
        assert_eq!(refused, Error::Conflict { key: key("part"), current: Some(created.revision()) });
    }
    let renamed = Change::Merge(json!({"metadata": {"name": "other", "ownerReferences": []}}));
    assert!(matches!(all.write(patch(renamed)).await, Err(Error::Invalid { .. })));
    let met = Precondition { uid: Some(created.uid().to_owned()), revision: Some(created.revision()) };
    all.write(with(met)).await.unwrap();
}

/// Knows the kind of the owner by its plural.
struct NamedKinds;

impl OwnerKinds for NamedKinds {
    fn named(&self, name: &str) -> Option<Kind> {
        (name == "apps").then(far)
    }

    fn known(&self) -> Vec<Kind> {
        vec![far(), near()]
    }
}

#[tokio::test]
async fn kumori_names_are_read() {
    let Two { all, .. } = two().await;
    let mut document = part("part", &json!([]));
    document["metadata"]["labels"] = json!({"kumori/ownerkind": "apps", "kumori/ownerkey": "a"});
    document["metadata"]["annotations"] = json!({"kumori/ownerkind": "apps", "kumori/ownerkey": "team/a"});
    let created = create(&all, document).await;
    assert_eq!(created.owners(), []);
    all.set_owner_kinds(Arc::new(NamedKinds));
    let read = all.get(&key("part")).await.unwrap();
    assert_eq!(read.text(), created.text());
    let [owner] = read.owners() else { panic!("it has one owner") };
    assert_eq!((&owner.kind, owner.name.as_str(), owner.uid.as_str()), (&far(), "a", ""));
    let place = owner.far.as_ref().unwrap();
    assert_eq!((&*place.store, place.namespace.as_deref()), ("bus", Some("team")));
}

#[tokio::test]
async fn the_kinds_of_far_owners_are_remembered_up_to_a_bound() {
    let Two { all, owner, .. } = two().await;
    let mut kinds = all.owner_kinds();
    assert!(kinds.borrow_and_update().is_empty());
    create(&all, part("b", &json!([reference(&owner)]))).await;
    assert!(kinds.has_changed().unwrap());
    assert_eq!(kinds.borrow_and_update().values().cloned().collect::<Vec<_>>(), [far()]);
    for at in 0..2 * OWNER_KINDS_MAX {
        all.names.note(&Kind::new("far.dev", "v1", format!("Kind{at}")));
    }
    assert_eq!(kinds.borrow().len(), OWNER_KINDS_MAX);
}
