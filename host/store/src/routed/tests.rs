use std::sync::Mutex;

use serde_json::{Value, json};

use super::*;
use crate::memory::MemoryStore;
use crate::routes::Rule;
use crate::{Availability, Options, Precondition, Propagation, Write};

fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new(Options::default()))
}

fn part(name: &str, store: Arc<dyn Store>) -> StorePart {
    StorePart { name: name.into(), store }
}

fn rule(pattern: &str, store: &str) -> Rule {
    Rule { pattern: pattern.parse().unwrap(), store: store.into(), view: View::Whole }
}

fn routes() -> Routes {
    Routes::new(vec![rule("far.dev/*", "bus")]).unwrap()
}

/// A host with a store of its own and one with the kinds of `far.dev`.
struct Two {
    home: Arc<dyn Store>,
    bus: Arc<dyn Store>,
    all: RoutedStore,
}

fn two() -> Two {
    two_of(memory(), memory())
}

fn two_of(home: Arc<dyn Store>, bus: Arc<dyn Store>) -> Two {
    let all = RoutedStore::new(home.clone(), vec![part("bus", bus.clone())], routes()).unwrap();
    Two { home, bus, all }
}

fn far() -> Kind {
    Kind::new("far.dev", "v1", "Widget")
}

fn near() -> Kind {
    Kind::new("near.dev", "v1", "Widget")
}

fn key(kind: Kind, name: &str) -> Key {
    Key::new(kind, "default", name)
}

fn document(kind: &Kind, name: &str, owner: Option<&Resource>) -> Value {
    let mut metadata = json!({"name": name, "namespace": "default"});
    if let Some(owner) = owner {
        let kind = owner.key().kind();
        metadata["ownerReferences"] = json!([
            {"apiVersion": kind.api_version(), "kind": kind.name, "name": owner.key().name(), "uid": owner.uid()}
        ]);
    }
    json!({"apiVersion": kind.api_version(), "kind": kind.name, "metadata": metadata, "spec": {"size": 1}})
}

async fn create(store: &dyn Store, kind: &Kind, name: &str, owner: Option<&Resource>) -> Arc<Resource> {
    store.write(Write::Create { document: document(kind, name, owner) }).await.unwrap().resource
}

fn names(resources: &[Arc<Resource>]) -> Vec<String> {
    let mut names: Vec<String> = resources.iter().map(|resource| resource.key().to_string()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn each_kind_is_written_to_and_read_from_its_own_store() {
    let Two { home, bus, all } = two();
    for (kind, here, there) in [(near(), &home, &bus), (far(), &bus, &home)] {
        create(&all, &kind, "a", None).await;
        let key = key(kind.clone(), "a");
        assert_eq!(all.get(&key).await.unwrap(), here.get(&key).await.unwrap());
        assert_eq!(all.get_live(&key).await.unwrap(), here.get(&key).await.unwrap());
        assert!(matches!(there.get(&key).await, Err(Error::NotFound { .. })));
        assert_eq!(all.list(&Query::all(kind.clone())).await.unwrap().items.len(), 1);
        let delete = Write::Delete {
            key: key.clone(),
            precondition: Precondition::default(),
            propagation: Propagation::Orphan,
            grace_seconds: None,
        };
        all.write(delete).await.unwrap();
    }
}

#[tokio::test]
async fn a_version_that_differs_does_not_change_the_store_of_a_kind() {
    let Two { all, bus, .. } = two();
    create(&all, &Kind::new("far.dev", "v2", "Widget"), "a", None).await;
    assert!(all.get(&key(far(), "a")).await.is_ok());
    assert!(bus.get(&key(far(), "a")).await.is_ok());
}

#[tokio::test]
async fn a_watch_of_a_kind_follows_its_store_from_a_revision_of_it() {
    let Two { all, .. } = two();
    create(&all, &near(), "a", None).await;
    create(&all, &near(), "b", None).await;
    let scope = Scope::Kind(far());
    let from = all.revision(&scope).await.unwrap();
    assert_eq!(from, Revision::ZERO, "nothing was written there");
    let mut watch = all.watch(scope, from).await.unwrap();
    create(&all, &near(), "c", None).await;
    let written = create(&all, &far(), "d", None).await;
    assert_eq!(watch.next().await.unwrap().resource, written);
}

#[tokio::test]
async fn everything_can_be_watched_in_one_store_alone() {
    let Two { all, .. } = two();
    assert!(matches!(all.revision(&Scope::Everything).await, Err(Error::Invalid { .. })));
    assert!(matches!(all.watch(Scope::Everything, Revision::ZERO).await, Err(Error::Invalid { .. })));
    let one = RoutedStore::new(memory(), Vec::new(), Routes::default()).unwrap();
    create(&one, &near(), "a", None).await;
    assert_eq!(one.revision(&Scope::Everything).await, Ok(Revision(1)));
    assert!(one.watch(Scope::Everything, Revision::ZERO).await.unwrap().next().await.is_ok());
}

#[tokio::test]
async fn kinds_and_dependents_are_those_of_all_stores() {
    let Two { all, .. } = two();
    let owner = create(&all, &near(), "owner", None).await;
    create(&all, &near(), "a", Some(&owner)).await;
    create(&all, &far(), "b", Some(&owner)).await;
    assert_eq!(all.kinds().await.unwrap(), [near(), far()]);
    let found = all.dependents(owner.uid()).await.unwrap();
    assert_eq!(names(&found), [key(far(), "b").to_string(), key(near(), "a").to_string()]);
}

#[tokio::test]
async fn resources_of_a_kind_that_lives_elsewhere_are_not_shown() {
    let Two { home, bus, all } = two();
    let owner = create(&*home, &near(), "owner", None).await;
    create(&*home, &far(), "hidden", Some(&owner)).await;
    create(&*bus, &near(), "hidden", Some(&owner)).await;
    assert_eq!(all.kinds().await.unwrap(), [near()]);
    assert_eq!(all.dependents(owner.uid()).await.unwrap(), []);
    assert!(matches!(all.get(&key(far(), "hidden")).await, Err(Error::NotFound { .. })));
}

#[tokio::test]
async fn a_store_that_is_away_makes_incomplete_answers_fail_and_no_others() {
    let Two { home, bus, all } = two_of(memory(), Arc::new(Away::default()));
    create(&all, &near(), "a", None).await;
    assert!(all.get(&key(near(), "a")).await.is_ok());
    assert!(all.watch(Scope::Kind(near()), Revision::ZERO).await.is_ok());
    assert!(matches!(all.get(&key(far(), "a")).await, Err(Error::Unavailable { .. })));
    for error in [all.kinds().await.unwrap_err(), all.dependents("uid").await.unwrap_err()] {
        assert_eq!(error.to_string(), "the store is unavailable: store bus: no route to host");
    }
    let answers: Vec<bool> = [home, bus].into_iter().map(|store| store.health().is_ok()).collect();
    assert_eq!(answers, [true, false]);
    let error = all.health().unwrap_err().to_string();
    assert!(error.contains("store bus: no route to host"), "{error}");
}

#[tokio::test]
async fn the_status_has_an_entry_with_the_name_of_each_store() {
    let Two { all, .. } = two_of(memory(), Arc::new(Away::default()));
    let status = all.status();
    let shown: Vec<(&str, bool)> =
        status.iter().map(|one| (&*one.name, one.availability == Availability::Ready)).collect();
    assert_eq!(shown, [("home", true), ("bus", false)]);
}

#[tokio::test]
async fn closing_closes_every_store() {
    let Two { home, bus, all } = two();
    all.close().await;
    for store in [home, bus] {
        assert_eq!(store.get(&key(near(), "a")).await, Err(Error::Closed));
    }
}

#[tokio::test]
async fn a_subscription_wants_no_more_than_the_route_allows() {
    let away = Arc::new(Away::default());
    let rules = vec![Rule { view: View::Metadata, ..rule("far.dev/Secret", "bus") }, rule("far.dev/*", "bus")];
    let others = vec![part("bus", away.clone())];
    let all = RoutedStore::new(memory(), others, Routes::new(rules).unwrap()).unwrap();
    let secret = Kind::new("far.dev", "v1", "Secret");
    for (kind, view) in [(secret.clone(), View::Whole), (secret, View::Keys), (far(), View::Whole)] {
        drop(all.subscribe(&kind, view));
    }
    assert_eq!(*away.views.lock().unwrap(), [View::Metadata, View::Keys, View::Whole]);
}

#[tokio::test]
async fn the_schemas_are_those_of_the_hosts_own_store() {
    let Two { home, all, .. } = two();
    let stored = |schemas: &Schemas| schemas.of(&far()).stored;
    all.schemas().unwrap().set(&far(), [("v1".to_owned(), None)]);
    assert_eq!(stored(home.schemas().unwrap()), Some("v1".to_owned()));
}

#[test]
fn stores_that_cannot_be_told_apart_or_found_are_refused() {
    let twice = vec![part("bus", memory()), part("bus", memory())];
    let home_again = vec![part(HOME, memory())];
    let too_many = (0..STORES_MAX).map(|at| part(&format!("store-{at}"), memory())).collect();
    for (others, routes, reason) in [
        (twice, Routes::default(), "two stores with the name \"bus\""),
        (home_again, Routes::default(), "two stores with the name \"home\""),
        (vec![part("other", memory())], routes(), "no store with the name \"bus\""),
        (too_many, Routes::default(), "more than 16 stores"),
    ] {
        let error = RoutedStore::new(memory(), others, routes).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

/// A store whose server does not answer. It records the subscriptions to it.
#[derive(Default)]
struct Away {
    views: Mutex<Vec<View>>,
}

fn away<T>() -> Result<T> {
    Err(Error::unavailable("no route to host"))
}

#[async_trait]
impl Store for Away {
    async fn get(&self, _: &Key) -> Result<Arc<Resource>> {
        away()
    }

    async fn list(&self, _: &Query) -> Result<Page> {
        away()
    }

    async fn submit(&self, _: Request) -> Result<WriteResponse> {
        away()
    }

    fn schemas(&self) -> Option<&Schemas> {
        None
    }

    async fn watch(&self, _: Scope, _: Revision) -> Result<Watch> {
        away()
    }

    async fn revision(&self, _: &Scope) -> Result<Revision> {
        away()
    }

    fn subscribe(&self, _: &Kind, view: View) -> Subscription {
        self.views.lock().unwrap().push(view);
        Subscription::none()
    }

    fn status(&self) -> Vec<StoreStatus> {
        let mut status = memory().status();
        status[0].availability = Availability::Starting { reason: Some("no route to host".to_owned()) };
        status
    }

    async fn close(&self) {}

    async fn kinds(&self) -> Result<Vec<Kind>> {
        away()
    }
}
