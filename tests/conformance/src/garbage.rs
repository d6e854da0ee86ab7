//! Owners and their dependents.

use std::sync::Arc;

use homeostat_store::garbage::{GarbageCollector, checks};
use homeostat_store::{Error, Event, EventType, Kind, Options, Propagation, Resource, Scope, Store, Watch};
use serde_json::{Value, json};
use tokio::task::{JoinHandle, JoinSet};

use crate::{Difference, Fixture, Make, create, delete, everything_of, is_gone, next, update, with_metadata};

/// A garbage collector that runs until it is stopped.
struct Collector(JoinHandle<()>);

impl Collector {
    fn start(store: &Fixture) -> Self {
        Self(tokio::spawn(collect(store.clone())))
    }

    async fn stop(self) {
        self.0.abort();
        assert!(self.0.await.is_err_and(|ended| ended.is_cancelled()), "it has not failed");
    }
}

/// Checks all resources, and follows the changes.
async fn collect(store: Fixture) {
    // All watches before the first list: it finds the deletions that no watch has.
    let mut watches = Vec::new();
    for scope in store.scopes() {
        let watch = store.watch_from_now(&scope).await;
        watches.push((scope, watch));
    }
    let mut scopes = JoinSet::new();
    for (scope, watch) in watches {
        scopes.spawn(collect_in(store.clone(), scope, watch));
    }
    while let Some(ended) = scopes.join_next().await {
        ended.unwrap();
    }
}

async fn collect_in(store: Fixture, scope: Scope, mut watch: Watch) {
    let kinds = match scope {
        Scope::Everything => store.kinds().await.unwrap(),
        Scope::Kind(kind) => vec![kind],
    };
    for resource in everything_of(&**store, kinds).await {
        let revision = resource.revision();
        check(&store, &Event { kind: EventType::Added, resource, previous: None, revision }).await;
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

fn owned(store: &Fixture, name: &str, owners: &[&Resource]) -> Value {
    let owners: Vec<Value> = owners.iter().map(|owner| reference(owner)).collect();
    with_metadata(store.thing(name, json!({})), json!({"ownerReferences": owners}))
}

/// Waits until the collector has handled all writes before this call.
async fn settled(store: &Fixture) {
    let owner = create(&***store, store.thing("sentinel-owner", json!({}))).await;
    create(&***store, owned(store, "sentinel", &[&owner])).await;
    delete(&***store, store.key("sentinel-owner"), Propagation::Background).await.unwrap();
    store.until_gone(&store.key("sentinel")).await;
}

pub(crate) async fn dependents_of_a_deleted_owner_are_deleted_and_theirs_too(make: Make) {
    let store = make(Options::default()).await;
    let collector = Collector::start(&store);
    let root = create(&**store, store.thing("root", json!({}))).await;
    for branch in 0..3 {
        let branch = create(&**store, owned(&store, &format!("branch-{branch}"), &[&root])).await;
        for leaf in 0..40 {
            create(&**store, owned(&store, &format!("{}-{leaf}", branch.key().name()), &[&branch])).await;
        }
    }
    create(&**store, store.thing("bystander", json!({}))).await;
    delete(&**store, store.key("root"), Propagation::Background).await.unwrap();
    store.until(async || store.all().await.len() == 1).await;
    assert!(!is_gone(&**store, &store.key("bystander")).await);
    collector.stop().await;
}

pub(crate) async fn a_missed_deletion_is_found_at_the_start(make: Make) {
    let store = make(Options::default()).await;
    let root = create(&**store, store.thing("root", json!({}))).await;
    create(&**store, owned(&store, "leaf", &[&root])).await;
    delete(&**store, store.key("root"), Propagation::Background).await.unwrap();
    assert!(!is_gone(&**store, &store.key("leaf")).await);
    let collector = Collector::start(&store);
    store.until_gone(&store.key("leaf")).await;
    collector.stop().await;
}

pub(crate) async fn a_resource_whose_owner_never_was_is_deleted(make: Make) {
    let store = make(Options::default()).await;
    let collector = Collector::start(&store);
    settled(&store).await;
    let kind =
        if store.differs(Difference::DefinedKinds) { store.kind("Thing") } else { Kind::new("", "v1", "Nothing") };
    let owner = json!([{"apiVersion": kind.api_version(), "kind": kind.name, "name": "n", "uid": "u"}]);
    create(&**store, with_metadata(store.thing("leaf", json!({})), json!({"ownerReferences": owner}))).await;
    store.until_gone(&store.key("leaf")).await;
    collector.stop().await;
}

pub(crate) async fn an_owner_of_the_same_name_is_not_the_owner(make: Make) {
    let store = make(Options::default()).await;
    let root = create(&**store, store.thing("root", json!({}))).await;
    create(&**store, owned(&store, "leaf", &[&root])).await;
    delete(&**store, store.key("root"), Propagation::Background).await.unwrap();
    create(&**store, store.thing("root", json!({}))).await;
    let collector = Collector::start(&store);
    store.until_gone(&store.key("leaf")).await;
    collector.stop().await;
}

pub(crate) async fn one_living_owner_is_enough(make: Make) {
    let store = make(Options::default()).await;
    let collector = Collector::start(&store);
    let (one, two) =
        (create(&**store, store.thing("one", json!({}))).await, create(&**store, store.thing("two", json!({}))).await);
    create(&**store, owned(&store, "leaf", &[&one, &two])).await;
    delete(&**store, store.key("one"), Propagation::Background).await.unwrap();
    settled(&store).await;
    assert!(!is_gone(&**store, &store.key("leaf")).await);
    delete(&**store, store.key("two"), Propagation::Background).await.unwrap();
    store.until_gone(&store.key("leaf")).await;
    collector.stop().await;
}

pub(crate) async fn an_owner_outside_of_namespaces_counts(make: Make) {
    let store = make(Options::default()).await;
    let kind = store.add_cluster_scoped_kind().await;
    let collector = Collector::start(&store);
    let node = json!({"apiVersion": kind.api_version(), "kind": kind.name, "metadata": {"name": "n"}});
    let node = create(&**store, node).await;
    create(&**store, owned(&store, "leaf", &[&node])).await;
    settled(&store).await;
    assert!(!is_gone(&**store, &store.key("leaf")).await);
    delete(&**store, node.key().clone(), Propagation::Background).await.unwrap();
    store.until_gone(&store.key("leaf")).await;
    collector.stop().await;
}

/// W14: the reference has no namespace. If a living owner were searched in the wrong place, its dependent
/// would be deleted.
pub(crate) async fn a_dependent_outside_of_namespaces_lives_as_long_as_its_owner_in_one(make: Make) {
    let store = make(Options::default()).await;
    let kind = store.add_cluster_scoped_kind().await;
    let collector = Collector::start(&store);
    for other in ["another", "one-more"] {
        create(&**store, store.thing(other, json!({}))).await;
    }
    let owner = create(&**store, store.thing("owner", json!({}))).await;
    let metadata = json!({"name": "n", "ownerReferences": [reference(&owner)]});
    let node = json!({"apiVersion": kind.api_version(), "kind": kind.name, "metadata": metadata});
    let node = create(&**store, node).await;
    settled(&store).await;
    assert!(!is_gone(&**store, node.key()).await, "its owner lives");
    delete(&**store, store.key("owner"), Propagation::Background).await.unwrap();
    store.until_gone(node.key()).await;
    collector.stop().await;
}

pub(crate) async fn foreground_deletes_from_the_leaves_up(make: Make) {
    let store = make(Options::default()).await;
    let root = create(&**store, store.thing("root", json!({}))).await;
    let branch = create(&**store, owned(&store, "branch", &[&root])).await;
    create(&**store, owned(&store, "leaf", &[&branch])).await;
    let begin = store.begin_after(3).await;
    let collector = Collector::start(&store);
    delete(&**store, store.key("root"), Propagation::Foreground).await.unwrap();
    store.until_gone(&store.key("root")).await;
    let mut watch = store.watch(store.scope(), begin.at).await.unwrap();
    let mut gone = Vec::new();
    while gone.len() < 3 {
        let event = next(&mut watch).await.unwrap();
        if event.kind == EventType::Deleted {
            gone.push(event.resource.key().name().to_owned());
        }
    }
    assert_eq!(gone, ["leaf", "branch", "root"]);
    collector.stop().await;
}

pub(crate) async fn foreground_deletion_releases_dependents_with_another_owner(make: Make) {
    let store = make(Options::default()).await;
    let collector = Collector::start(&store);
    let (one, two) =
        (create(&**store, store.thing("one", json!({}))).await, create(&**store, store.thing("two", json!({}))).await);
    create(&**store, owned(&store, "leaf", &[&one, &two])).await;
    delete(&**store, store.key("one"), Propagation::Foreground).await.unwrap();
    store.until_gone(&store.key("one")).await;
    let owners = store.get(&store.key("leaf")).await.unwrap().owners().to_vec();
    assert_eq!(owners.len(), 1);
    assert_eq!(owners[0].uid, two.uid());
    collector.stop().await;
}

pub(crate) async fn a_ring_of_owners_can_be_deleted_in_the_foreground(make: Make) {
    let store = make(Options::default()).await;
    let collector = Collector::start(&store);
    let one = create(&**store, store.thing("one", json!({}))).await;
    let two = create(&**store, owned(&store, "two", &[&one])).await;
    update(&**store, owned(&store, "one", &[&two])).await.unwrap();
    delete(&**store, store.key("one"), Propagation::Foreground).await.unwrap();
    store.until_gone(&store.key("one")).await;
    store.until_gone(&store.key("two")).await;
    collector.stop().await;
}

pub(crate) async fn orphans_stay_and_forget_their_owner(make: Make) {
    let store = make(Options::default()).await;
    let collector = Collector::start(&store);
    let root = create(&**store, store.thing("root", json!({}))).await;
    create(&**store, owned(&store, "leaf", &[&root])).await;
    delete(&**store, store.key("root"), Propagation::Orphan).await.unwrap();
    store.until_gone(&store.key("root")).await;
    settled(&store).await;
    assert_eq!(store.get(&store.key("leaf")).await.unwrap().owners(), []);
    collector.stop().await;
}

pub(crate) async fn a_deletion_half_done_at_the_start_is_finished(make: Make) {
    let store = make(Options::default()).await;
    for (name, propagation) in [("a", Propagation::Foreground), ("b", Propagation::Orphan)] {
        let root = create(&**store, store.thing(name, json!({}))).await;
        create(&**store, owned(&store, &format!("{name}-leaf"), &[&root])).await;
        delete(&**store, store.key(name), propagation).await.unwrap();
    }
    let collector = Collector::start(&store);
    store.until_gone(&store.key("a")).await;
    store.until_gone(&store.key("b")).await;
    assert!(is_gone(&**store, &store.key("a-leaf")).await);
    assert_eq!(store.get(&store.key("b-leaf")).await.unwrap().owners(), []);
    collector.stop().await;
}

pub(crate) async fn a_dependent_with_finalizers_holds_up_a_foreground_deletion(make: Make) {
    let store = make(Options::default()).await;
    let collector = Collector::start(&store);
    let root = create(&**store, store.thing("root", json!({}))).await;
    let held = |finalizers| with_metadata(owned(&store, "leaf", &[&root]), json!({"finalizers": finalizers}));
    create(&**store, held(json!(["example.dev/held"]))).await;
    delete(&**store, store.key("root"), Propagation::Foreground).await.unwrap();
    store.until(async || store.get(&store.key("leaf")).await.unwrap().is_deleting()).await;
    settled(&store).await;
    assert!(!is_gone(&**store, &store.key("root")).await);
    update(&**store, held(json!([]))).await.unwrap();
    store.until_gone(&store.key("root")).await;
    assert!(is_gone(&**store, &store.key("leaf")).await);
    collector.stop().await;
}
