use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::collect;
use crate::memory::MemoryStore;
use crate::schema::Schemas;
use crate::{
    Change, Changes, Error, Event, Key, Kind, Options, Page, Precondition, Query, Request, Resource, Result, Revision,
    Scope, Store, Watch, Write, WriteResponse,
};

/// A store that fails as long as there are errors to return.
struct Flaky {
    inner: MemoryStore,
    errors: Arc<Mutex<VecDeque<Error>>>,
}

impl Flaky {
    fn new(errors: impl IntoIterator<Item = Error>) -> Arc<Self> {
        let errors = Arc::new(Mutex::new(errors.into_iter().collect()));
        Arc::new(Self { inner: MemoryStore::new(Options::default()), errors })
    }

    fn fail(&self) -> Result<()> {
        fail(&self.errors)
    }
}

fn fail(errors: &Mutex<VecDeque<Error>>) -> Result<()> {
    errors.lock().expect("nobody panics").pop_front().map_or(Ok(()), Err)
}

struct FlakyWatch {
    inner: Watch,
    errors: Arc<Mutex<VecDeque<Error>>>,
}

#[async_trait]
impl Changes for FlakyWatch {
    async fn next(&mut self) -> Result<Event> {
        fail(&self.errors)?;
        self.inner.next().await
    }
}

#[async_trait]
impl Store for Flaky {
    async fn get(&self, key: &Key) -> Result<Arc<Resource>> {
        self.fail()?;
        self.inner.get(key).await
    }

    async fn list(&self, query: &Query) -> Result<Page> {
        self.fail()?;
        self.inner.list(query).await
    }

    async fn submit(&self, request: Request) -> Result<WriteResponse> {
        self.fail()?;
        self.inner.submit(request).await
    }

    fn schemas(&self) -> &Schemas {
        self.inner.schemas()
    }

    async fn watch(&self, scope: Scope, from: Revision) -> Result<Watch> {
        self.fail()?;
        let inner = self.inner.watch(scope, from).await?;
        Ok(Watch::new(FlakyWatch { inner, errors: Arc::clone(&self.errors) }))
    }

    fn revision(&self) -> Revision {
        self.inner.revision()
    }

    fn id(&self) -> &str {
        self.inner.id()
    }

    async fn close(&self) {
        self.inner.close().await;
    }

    async fn kinds(&self) -> Result<Vec<Kind>> {
        self.fail()?;
        self.inner.kinds().await
    }
}

fn key(name: &str) -> Key {
    Key::new(Kind::new("", "v1", "Pod"), "default", name)
}

async fn create(store: &MemoryStore, name: &str, owner: Option<&Resource>) -> Arc<Resource> {
    let reference =
        |owner: &Resource| json!([{"apiVersion": "v1", "kind": "Pod", "name": owner.key().name(), "uid": owner.uid()}]);
    let owners = owner.map_or(Value::Null, reference);
    let metadata = json!({"name": name, "namespace": "default", "ownerReferences": owners});
    let document = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata});
    store.write(Write::Create { document }).await.expect("well formed").resource
}

async fn delete(store: &MemoryStore, name: &str) {
    let propagation = Default::default();
    let delete = Write::Delete { key: key(name), precondition: Precondition::default(), propagation };
    store.write(delete).await.expect("it is there");
}

async fn until_gone(store: &MemoryStore, name: &str) {
    let gone = async {
        let mut watch = store.watch(Scope::Everything, store.revision()).await.expect("from now");
        while store.get(&key(name)).await.is_ok() {
            watch.next().await.expect("the store is open");
        }
    };
    // A day of the paused clock.
    let bound = std::time::Duration::from_secs(24 * 60 * 60);
    tokio::time::timeout(bound, gone).await.expect("it should have been collected");
}

fn unavailable() -> Error {
    Error::unavailable("not now")
}

#[tokio::test(start_paused = true)]
async fn it_goes_on_when_the_store_is_available_again() {
    let flaky = Flaky::new(std::iter::repeat_n(unavailable(), 200));
    let root = create(&flaky.inner, "root", None).await;
    create(&flaky.inner, "leaf", Some(&root)).await;
    delete(&flaky.inner, "root").await;
    let (_stop, stopped) = oneshot::channel::<()>();
    let collector = tokio::spawn(collect(Arc::clone(&flaky) as Arc<dyn Store>, stopped));
    until_gone(&flaky.inner, "leaf").await;
    // Again, while it follows changes.
    for error in [unavailable(), unavailable(), Error::Expired { oldest: Revision(1) }, unavailable()] {
        let root = create(&flaky.inner, "root", None).await;
        create(&flaky.inner, "leaf", Some(&root)).await;
        flaky.errors.lock().expect("nobody panics").push_back(error);
        delete(&flaky.inner, "root").await;
        until_gone(&flaky.inner, "leaf").await;
    }
    flaky.close().await;
    collector.await.expect("it ends with the store");
}

#[tokio::test(start_paused = true)]
async fn an_unavailable_store_is_asked_less_and_less_often() {
    let flaky = Flaky::new(std::iter::repeat_n(unavailable(), 1000));
    let (stop, stopped) = oneshot::channel::<()>();
    let collector = tokio::spawn(collect(Arc::clone(&flaky) as Arc<dyn Store>, stopped));
    tokio::time::advance(std::time::Duration::ZERO).await;
    let left = || flaky.errors.lock().expect("nobody panics").len();
    let clock = tokio::time::Instant::now();
    while left() > 980 {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
    // 50 ms doubled ten times is past the cap of 30 s: twenty tries take minutes.
    assert!(clock.elapsed() > std::time::Duration::from_secs(200), "{:?}", clock.elapsed());
    assert!(clock.elapsed() < std::time::Duration::from_secs(600), "{:?}", clock.elapsed());
    drop(stop);
    collector.await.expect("it ends when it is told");
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_cannot_be_deleted_does_not_stop_the_others() {
    let flaky = Flaky::new([]);
    let root = create(&flaky.inner, "root", None).await;
    create(&flaky.inner, "one", Some(&root)).await;
    create(&flaky.inner, "two", Some(&root)).await;
    let (_stop, stopped) = oneshot::channel::<()>();
    let collector = tokio::spawn(collect(Arc::clone(&flaky) as Arc<dyn Store>, stopped));
    let other = create(&flaky.inner, "other", None).await;
    create(&flaky.inner, "leaf", Some(&other)).await;
    flaky.errors.lock().expect("nobody panics").push_back(Error::invalid("spec", "is forbidden by somebody"));
    delete(&flaky.inner, "root").await;
    delete(&flaky.inner, "other").await;
    until_gone(&flaky.inner, "leaf").await;
    flaky.close().await;
    collector.await.expect("it ends with the store");
}

#[tokio::test]
async fn a_changed_resource_is_looked_at_only_when_it_matters() {
    let store = MemoryStore::new(Options::default());
    let root = create(&store, "root", None).await;
    let leaf = create(&store, "leaf", Some(&root)).await;
    let patch =
        |patch| Write::Patch { key: key("leaf"), change: Change::Merge(patch), precondition: Precondition::default() };
    let spec = store.write(patch(json!({"spec": 1}))).await.expect("well formed").resource;
    assert!(!super::calls_for_check(&spec, Some(&leaf)));
    let freed = store.write(patch(json!({"metadata": {"ownerReferences": null}}))).await.expect("well formed").resource;
    assert!(super::calls_for_check(&freed, Some(&spec)));
    assert_eq!(super::dropped_owners(Some(&spec), Some(&freed)).len(), 1);
}
