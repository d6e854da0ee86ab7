//! Owners and their dependents.

use std::sync::Arc;

use homeostat_store::garbage::{GarbageCollector, checks};
use homeostat_store::{Error, Event, EventType, Propagation, Query, Resource, Scope, Store};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::{Make, create, delete, is_gone, key, on_every_store, thing, until, until_gone, update, with_metadata};

on_every_store!(
    dependents_of_a_deleted_owner_are_deleted_and_theirs_too,
    a_missed_deletion_is_found_at_the_start,
    a_resource_whose_owner_never_was_is_deleted,
    an_owner_of_the_same_name_is_not_the_owner,
    one_living_owner_is_enough,
    an_owner_outside_of_namespaces_counts,
    a_dependent_outside_of_namespaces_lives_as_long_as_its_owner_in_one,
    foreground_deletes_from_the_leaves_up,
    foreground_deletion_releases_dependents_with_another_owner,
    a_ring_of_owners_can_be_deleted_in_the_foreground,
    orphans_stay_and_forget_their_owner,
    a_deletion_half_done_at_the_start_is_finished,
    a_dependent_with_finalizers_holds_up_a_foreground_deletion,
);

/// A garbage collector that runs until it is stopped.
struct Collector(JoinHandle<()>);

impl Collector {
    fn start(store: &Arc<dyn Store>) -> Self {
        Self(tokio::spawn(collect(Arc::clone(store))))
    }

    async fn stop(self) {
        self.0.abort();
        assert!(self.0.await.is_err_and(|ended| ended.is_cancelled()), "it has not failed");
    }
}

/// Checks all resources, and follows the changes.
async fn collect(store: Arc<dyn Store>) {
    let mut watch = store.watch(Scope::Everything, store.revision()).await.unwrap();
    for kind in store.kinds().await.unwrap() {
        for resource in store.list(&Query::all(kind)).await.unwrap().items {
            let revision = resource.revision();
            check(&store, &Event { kind: EventType::Added, resource, previous: None, revision }).await;
        }
    }
    loop {
        check(&store, &watch.next().await.unwrap()).await;
    }
}

async fn check(store: &Arc<dyn Store>, event: &Event) {
    let collector = GarbageCollector::new(Arc::clone(store));
    for check in checks(event) {
        while let Err(error) = collector.check(&check).await {
            assert!(matches!(error, Error::Conflict { .. }), "{error}");
        }
    }
}

fn reference(owner: &Resource) -> Value {
    let kind = owner.key().kind();
    json!({"apiVersion": kind.api_version(), "kind": kind.name, "name": owner.key().name(), "uid": owner.uid()})
}

fn owned(name: &str, owners: &[&Resource]) -> Value {
    let owners: Vec<Value> = owners.iter().map(|owner| reference(owner)).collect();
    with_metadata(thing(name, json!({})), json!({"ownerReferences": owners}))
}

/// Waits until the collector has handled all writes before this call.
async fn settled(store: &Arc<dyn Store>) {
    let owner = create(&**store, thing("sentinel-owner", json!({}))).await;
    create(&**store, owned("sentinel", &[&owner])).await;
    delete(&**store, key("sentinel-owner"), Propagation::Background).await.unwrap();
    until_gone(&**store, &key("sentinel")).await;
}

async fn dependents_of_a_deleted_owner_are_deleted_and_theirs_too(make: Make) {
    let store = make(Default::default());
    let collector = Collector::start(&store);
    let root = create(&**store, thing("root", json!({}))).await;
    for branch in 0..3 {
        let branch = create(&**store, owned(&format!("branch-{branch}"), &[&root])).await;
        for leaf in 0..40 {
            create(&**store, owned(&format!("{}-{leaf}", branch.key().name()), &[&branch])).await;
        }
    }
    create(&**store, thing("bystander", json!({}))).await;
    delete(&**store, key("root"), Propagation::Background).await.unwrap();
    until(&**store, async || crate::all(&**store).await.len() == 1).await;
    assert!(!is_gone(&**store, &key("bystander")).await);
    collector.stop().await;
}

async fn a_missed_deletion_is_found_at_the_start(make: Make) {
    let store = make(Default::default());
    let root = create(&**store, thing("root", json!({}))).await;
    create(&**store, owned("leaf", &[&root])).await;
    delete(&**store, key("root"), Propagation::Background).await.unwrap();
    assert!(!is_gone(&**store, &key("leaf")).await);
    let collector = Collector::start(&store);
    until_gone(&**store, &key("leaf")).await;
    collector.stop().await;
}

async fn a_resource_whose_owner_never_was_is_deleted(make: Make) {
    let store = make(Default::default());
    let collector = Collector::start(&store);
    settled(&store).await;
    let owner = json!([{"apiVersion": "v1", "kind": "Nothing", "name": "n", "uid": "u"}]);
    create(&**store, with_metadata(thing("leaf", json!({})), json!({"ownerReferences": owner}))).await;
    until_gone(&**store, &key("leaf")).await;
    collector.stop().await;
}

async fn an_owner_of_the_same_name_is_not_the_owner(make: Make) {
    let store = make(Default::default());
    let root = create(&**store, thing("root", json!({}))).await;
    create(&**store, owned("leaf", &[&root])).await;
    delete(&**store, key("root"), Propagation::Background).await.unwrap();
    create(&**store, thing("root", json!({}))).await;
    let collector = Collector::start(&store);
    until_gone(&**store, &key("leaf")).await;
    collector.stop().await;
}

async fn one_living_owner_is_enough(make: Make) {
    let store = make(Default::default());
    let collector = Collector::start(&store);
    let (one, two) = (create(&**store, thing("one", json!({}))).await, create(&**store, thing("two", json!({}))).await);
    create(&**store, owned("leaf", &[&one, &two])).await;
    delete(&**store, key("one"), Propagation::Background).await.unwrap();
    settled(&store).await;
    assert!(!is_gone(&**store, &key("leaf")).await);
    delete(&**store, key("two"), Propagation::Background).await.unwrap();
    until_gone(&**store, &key("leaf")).await;
    collector.stop().await;
}

async fn an_owner_outside_of_namespaces_counts(make: Make) {
    let store = make(Default::default());
    let collector = Collector::start(&store);
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
    let node = create(&**store, node).await;
    create(&**store, owned("leaf", &[&node])).await;
    settled(&store).await;
    assert!(!is_gone(&**store, &key("leaf")).await);
    delete(&**store, node.key().clone(), Propagation::Background).await.unwrap();
    until_gone(&**store, &key("leaf")).await;
    collector.stop().await;
}

/// W14: the reference has no namespace. If a living owner were searched in the wrong place, its dependent
/// would be deleted.
async fn a_dependent_outside_of_namespaces_lives_as_long_as_its_owner_in_one(make: Make) {
    let store = make(Default::default());
    let collector = Collector::start(&store);
    for other in ["another", "one-more"] {
        create(&**store, thing(other, json!({}))).await;
    }
    let owner = create(&**store, thing("owner", json!({}))).await;
    let node =
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "ownerReferences": [reference(&owner)]}});
    let node = create(&**store, node).await;
    settled(&store).await;
    assert!(!is_gone(&**store, node.key()).await, "its owner lives");
    delete(&**store, key("owner"), Propagation::Background).await.unwrap();
    until_gone(&**store, node.key()).await;
    collector.stop().await;
}

async fn foreground_deletes_from_the_leaves_up(make: Make) {
    let store = make(Default::default());
    let root = create(&**store, thing("root", json!({}))).await;
    let branch = create(&**store, owned("branch", &[&root])).await;
    create(&**store, owned("leaf", &[&branch])).await;
    let from = store.revision();
    let collector = Collector::start(&store);
    delete(&**store, key("root"), Propagation::Foreground).await.unwrap();
    until_gone(&**store, &key("root")).await;
    let mut watch = store.watch(homeostat_store::Scope::Everything, from).await.unwrap();
    let mut gone = Vec::new();
    while gone.len() < 3 {
        let event = crate::next(&mut watch).await.unwrap();
        if event.kind == homeostat_store::EventType::Deleted {
            gone.push(event.resource.key().name().to_owned());
        }
    }
    assert_eq!(gone, ["leaf", "branch", "root"]);
    collector.stop().await;
}

async fn foreground_deletion_releases_dependents_with_another_owner(make: Make) {
    let store = make(Default::default());
    let collector = Collector::start(&store);
    let (one, two) = (create(&**store, thing("one", json!({}))).await, create(&**store, thing("two", json!({}))).await);
    create(&**store, owned("leaf", &[&one, &two])).await;
    delete(&**store, key("one"), Propagation::Foreground).await.unwrap();
    until_gone(&**store, &key("one")).await;
    let owners = store.get(&key("leaf")).await.unwrap().owners().to_vec();
    assert_eq!(owners.len(), 1);
    assert_eq!(owners[0].uid, two.uid());
    collector.stop().await;
}

async fn a_ring_of_owners_can_be_deleted_in_the_foreground(make: Make) {
    let store = make(Default::default());
    let collector = Collector::start(&store);
    let one = create(&**store, thing("one", json!({}))).await;
    let two = create(&**store, owned("two", &[&one])).await;
    update(&**store, owned("one", &[&two])).await.unwrap();
    delete(&**store, key("one"), Propagation::Foreground).await.unwrap();
    until_gone(&**store, &key("one")).await;
    until_gone(&**store, &key("two")).await;
    collector.stop().await;
}

async fn orphans_stay_and_forget_their_owner(make: Make) {
    let store = make(Default::default());
    let collector = Collector::start(&store);
    let root = create(&**store, thing("root", json!({}))).await;
    create(&**store, owned("leaf", &[&root])).await;
    delete(&**store, key("root"), Propagation::Orphan).await.unwrap();
    until_gone(&**store, &key("root")).await;
    settled(&store).await;
    assert_eq!(store.get(&key("leaf")).await.unwrap().owners(), []);
    collector.stop().await;
}

async fn a_deletion_half_done_at_the_start_is_finished(make: Make) {
    let store = make(Default::default());
    for (name, propagation) in [("a", Propagation::Foreground), ("b", Propagation::Orphan)] {
        let root = create(&**store, thing(name, json!({}))).await;
        create(&**store, owned(&format!("{name}-leaf"), &[&root])).await;
        delete(&**store, key(name), propagation).await.unwrap();
    }
    let collector = Collector::start(&store);
    until_gone(&**store, &key("a")).await;
    until_gone(&**store, &key("b")).await;
    assert!(is_gone(&**store, &key("a-leaf")).await);
    assert_eq!(store.get(&key("b-leaf")).await.unwrap().owners(), []);
    collector.stop().await;
}

async fn a_dependent_with_finalizers_holds_up_a_foreground_deletion(make: Make) {
    let store = make(Default::default());
    let collector = Collector::start(&store);
    let root = create(&**store, thing("root", json!({}))).await;
    let held = |finalizers| with_metadata(owned("leaf", &[&root]), json!({"finalizers": finalizers}));
    create(&**store, held(json!(["example.dev/held"]))).await;
    delete(&**store, key("root"), Propagation::Foreground).await.unwrap();
    until(&**store, async || store.get(&key("leaf")).await.unwrap().is_deleting()).await;
    settled(&store).await;
    assert!(!is_gone(&**store, &key("root")).await);
    update(&**store, held(json!([]))).await.unwrap();
    until_gone(&**store, &key("root")).await;
    assert!(is_gone(&**store, &key("leaf")).await);
    collector.stop().await;
}
