use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use homeostat_component::Digest;
use homeostat_fixtures::memory_store;
use homeostat_store::schema::Schema;
use homeostat_store::{
    Change, Error, EventType, Key, Kind, Precondition, Propagation, Query, Request, Resource, Revision, Scope,
    Selector, Store, Write,
};
use homeostat_testing::soon;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::converter::CALL_MAX;
use super::document_converter::{BatchSize, ConvertedDocuments, DocumentConverter};
use super::{Converters, ConvertingStore};

/// The versions: `v1` has `spec.address`, and `v1beta1` has `spec.host` and `spec.port`.
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];

fn kind(version: &str) -> Kind {
    Kind::new("example.com", version, "Site")
}

fn key(version: &str, name: &str) -> Key {
    Key::new(kind(version), "", name)
}

fn site(version: &str, name: &str, spec: &Value) -> Value {
    json!({ "apiVersion": format!("example.com/{version}"), "kind": "Site", "metadata": { "name": name }, "spec": spec })
}

fn schemas() -> Vec<(String, Option<Schema>)> {
    let text = json!({ "type": "string" });
    let of = |fields: Value| {
        let properties = json!({
            "spec": { "type": "object", "properties": fields },
            "status": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
        });
        Schema::parse(&json!({ "type": "object", "properties": properties })).unwrap()
    };
    let beta = of(json!({ "host": text, "port": { "type": "integer", "default": 80 }, "size": { "type": "integer" } }));
    let stable = of(json!({ "address": text, "size": { "type": "integer" } }));
    vec![("v1".to_owned(), Some(stable)), ("v1beta1".to_owned(), Some(beta))]
}

/// What a webhook does with a review.
#[derive(Clone, Copy, PartialEq)]
enum Behaviour {
    Converts,
    Fails,
    Hangs,
}

/// A webhook in this process.
#[derive(Clone)]
struct TestWebhook {
    behaviour: Arc<Mutex<Behaviour>>,
    /// The code, if it is that of a component.
    code: Arc<Mutex<Option<Digest>>>,
    /// Reviews so far.
    reviews: Arc<AtomicUsize>,
    /// Documents in them.
    documents: Arc<AtomicUsize>,
    running: Arc<AtomicUsize>,
    running_max: Arc<AtomicUsize>,
    /// Taken by each review before its answer.
    gate: Arc<Semaphore>,
}

impl TestWebhook {
    fn new() -> Self {
        Self {
            behaviour: Arc::new(Mutex::new(Behaviour::Converts)),
            code: Arc::default(),
            reviews: Arc::default(),
            documents: Arc::default(),
            running: Arc::default(),
            running_max: Arc::default(),
            gate: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)),
        }
    }

    fn set(&self, behaviour: Behaviour) {
        *self.behaviour.lock() = behaviour;
    }

    fn reviews(&self) -> usize {
        self.reviews.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl DocumentConverter for TestWebhook {
    fn name(&self) -> String {
        "conversion webhook".to_owned()
    }

    fn batch_max(&self) -> BatchSize {
        BatchSize { documents: 500, bytes: 4 << 20 }
    }

    fn code(&self) -> Option<Digest> {
        self.code.lock().clone()
    }

    async fn convert(&self, desired: &str, originals: &[&Value]) -> Result<ConvertedDocuments, String> {
        self.reviews.fetch_add(1, Ordering::SeqCst);
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.running_max.fetch_max(running, Ordering::SeqCst);
        let permit = self.gate.acquire().await.unwrap();
        self.running.fetch_sub(1, Ordering::SeqCst);
        drop(permit);
        let behaviour = *self.behaviour.lock();
        match behaviour {
            Behaviour::Hangs => std::future::pending().await,
            Behaviour::Fails => Err("it is away".to_owned()),
            Behaviour::Converts => {
                self.documents.fetch_add(originals.len(), Ordering::SeqCst);
                let documents = originals.iter().map(|&original| converted(original.clone(), desired)).collect();
                Ok(ConvertedDocuments { documents, code: self.code.lock().clone() })
            }
        }
    }

    fn late(&self) -> String {
        "it was late".to_owned()
    }
}

fn converted(mut document: Value, desired: &str) -> Value {
    let spec = document["spec"].as_object_mut().unwrap();
    if desired.ends_with("/v1") {
        let (host, port) = (spec.remove("host"), spec.remove("port"));
        let host = host.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
        spec.insert("address".to_owned(), json!(format!("{host}:{}", port.unwrap_or(json!(80)))));
    } else if let Some((host, port)) =
        spec.remove("address").as_ref().and_then(Value::as_str).and_then(|it| it.split_once(':'))
    {
        spec.insert("host".to_owned(), json!(host));
        spec.insert("port".to_owned(), json!(port.parse::<u16>().unwrap()));
    }
    // Not known to any schema.
    spec.insert("lost".to_owned(), json!(true));
    document["apiVersion"] = desired.into();
    document
}

struct World {
    inner: Arc<dyn Store>,
    converters: Arc<Converters>,
    store: ConvertingStore,
    webhook: TestWebhook,
}

impl World {
    /// Starts with `v1` as the storage version.
    fn new() -> Self {
        let inner: Arc<dyn Store> = memory_store();
        let (converters, webhook) = (Arc::new(Converters::default()), TestWebhook::new());
        let store = ConvertingStore::new(Arc::clone(&inner), Arc::clone(&converters));
        let world = Self { inner, converters, store, webhook };
        world.stores("v1");
        world
    }

    fn stores(&self, version: &str) {
        self.inner.schemas().unwrap().set_converted(&kind(version), schemas());
        self.converters.set_inner(&kind(version), schemas(), Box::new(self.webhook.clone()));
    }

    async fn create(&self, version: &str, name: &str) -> Arc<Resource> {
        let spec = if version == "v1" { json!({ "address": "a:1" }) } else { json!({ "host": "a", "port": 1 }) };
        self.write(Write::Create { document: site(version, name, &spec) }).await
    }

    async fn write(&self, write: Write) -> Arc<Resource> {
        self.store.write(write).await.unwrap().resource
    }

    async fn stored(&self, name: &str) -> Value {
        self.inner.get(&key("v1", name)).await.unwrap().document().clone()
    }
}

fn spec(resource: &Resource) -> Value {
    resource.document()["spec"].clone()
}

fn merge(version: &str, name: &str, patch: Value) -> Write {
    Write::Patch { key: key(version, name), change: Change::Merge(patch), precondition: Precondition::default() }
}

#[tokio::test]
async fn a_resource_is_read_in_the_version_of_the_key() {
    let world = World::new();
    let created = world.create("v1beta1", "a").await;
    assert_eq!((created.key().kind(), spec(&created)), (&kind("v1beta1"), json!({ "host": "a", "port": 1 })));
    assert_eq!(world.stored("a").await["spec"], json!({ "address": "a:1" }));
    for (version, wanted) in VERSIONS.into_iter().zip([json!({ "address": "a:1" }), json!({ "host": "a", "port": 1 })])
    {
        let read = world.store.get(&key(version, "a")).await.unwrap();
        assert_eq!((read.key().kind(), spec(&read)), (&kind(version), wanted));
        assert_eq!((read.uid(), read.revision()), (created.uid(), created.revision()));
    }
}

#[tokio::test]
async fn a_list_is_converted_in_one_review_and_cached() {
    let world = World::new();
    for name in ["a", "b", "c"] {
        world.create("v1", name).await;
    }
    assert_eq!(world.webhook.reviews(), 0, "the stored version needs none");
    let query = Query::all(kind("v1beta1"));
    for _ in 0..2 {
        let items = world.store.list(&query).await.unwrap().items;
        assert!(items.len() == 3 && items.iter().all(|item| spec(item) == json!({ "host": "a", "port": 1 })));
    }
    world.store.get(&key("v1beta1", "b")).await.unwrap();
    assert_eq!(world.webhook.reviews(), 1);
    world.write(merge("v1", "b", json!({ "spec": { "address": "b:2" } }))).await;
    assert_eq!(spec(&world.store.get(&key("v1beta1", "b")).await.unwrap()), json!({ "host": "b", "port": 2 }));
    assert_eq!(world.webhook.reviews(), 2);
}

/// A new version of a component may convert in another way.
#[tokio::test]
async fn results_of_other_code_are_not_used() {
    let world = World::new();
    world.create("v1", "a").await;
    let code = |text: &str| *world.webhook.code.lock() = Some(Digest::of(text.as_bytes()));
    for (text, calls) in [("one", 1), ("one", 1), ("other", 2), ("one", 2)] {
        code(text);
        world.store.get(&key("v1beta1", "a")).await.unwrap();
        assert_eq!(world.webhook.reviews(), calls, "{text}");
    }
}

#[tokio::test]
async fn a_review_has_at_most_500_resources() {
    let world = World::new();
    for number in 0..1001 {
        world.create("v1", &format!("a{number}")).await;
    }
    assert_eq!(world.store.list(&Query::all(kind("v1beta1"))).await.unwrap().items.len(), 1001);
    assert_eq!((world.webhook.reviews(), world.webhook.documents.load(Ordering::SeqCst)), (3, 1001));
}

#[tokio::test]
async fn fields_are_selected_in_the_version_of_the_query() {
    let world = World::new();
    world.create("v1", "a").await;
    let other = site("v1", "b", &json!({ "address": "b:2" }));
    world.write(Write::Create { document: other }).await;
    let names = async |version: &str, pointer: &str, value: &str| {
        let fields = vec![(pointer.to_owned(), value.to_owned())];
        let selector = Selector { fields, ..Selector::default() };
        let page = world.store.list(&Query { selector, ..Query::all(kind(version)) }).await.unwrap();
        page.items.iter().map(|item| item.key().name().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names("v1beta1", "/spec/host", "b").await, ["b"]);
    assert_eq!(names("v1beta1", "/spec/address", "b:2").await, [""; 0]);
    assert_eq!(names("v1", "/spec/address", "b:2").await, ["b"]);
    assert_eq!(names("v1beta1", "/metadata/name", "a").await, ["a"]);
}

#[tokio::test]
async fn each_write_is_decided_in_its_own_version() {
    let world = World::new();
    world.create("v1", "a").await;
    let host = async || spec(&world.store.get(&key("v1beta1", "a")).await.unwrap());
    world.write(merge("v1beta1", "a", json!({ "spec": { "port": 2 } }))).await;
    assert_eq!(
        (host().await, &world.stored("a").await["spec"]),
        (json!({ "host": "a", "port": 2 }), &json!({ "address": "a:2" }))
    );
    let change = Change::Json(json!([{ "op": "replace", "path": "/spec/host", "value": "b" }]));
    world.write(Write::Patch { key: key("v1beta1", "a"), change, precondition: Precondition::default() }).await;
    assert_eq!(world.stored("a").await["spec"], json!({ "address": "b:2" }));
    let mut document = world.store.get(&key("v1beta1", "a")).await.unwrap().document().clone();
    document["spec"]["host"] = "c".into();
    world.write(Write::Update { document, precondition: Precondition::default() }).await;
    assert_eq!(world.stored("a").await["spec"], json!({ "address": "c:2" }));
    let document = site("v1beta1", "a", &json!({ "port": 9 }));
    let apply = Write::Apply { document: document.clone(), manager: "m".to_owned(), force: false };
    assert!(matches!(world.store.write(apply).await, Err(Error::ApplyConflict { .. })));
    world.write(Write::Apply { document, manager: "m".to_owned(), force: true }).await;
    assert_eq!(world.stored("a").await["spec"], json!({ "address": "c:9" }));
    let status = json!({ "ready": true });
    let write = Write::UpdateStatus { key: key("v1beta1", "a"), status, precondition: Precondition::default() };
    let reported = world.write(write).await;
    assert_eq!(
        (&reported.document()["status"], spec(&reported)),
        (&json!({ "ready": true }), json!({ "host": "c", "port": 9 }))
    );
    let change = Change::Merge(json!({ "spec": { "host": "no" }, "status": { "ready": false } }));
    world.write(Write::PatchStatus { key: key("v1beta1", "a"), change }).await;
    let stored = world.stored("a").await;
    assert_eq!((&stored["status"], &stored["spec"]), (&json!({ "ready": false }), &json!({ "address": "c:9" })));
    assert_eq!(stored["metadata"]["generation"], 5, "neither status nor a conversion counts");
}

#[tokio::test]
async fn a_write_that_changes_nothing_makes_no_revision_in_any_version() {
    let world = World::new();
    let created = world.create("v1beta1", "a").await;
    for version in VERSIONS {
        let written = world.store.write(merge(version, "a", json!({}))).await.unwrap();
        assert_eq!((written.change, written.resource.revision()), (None, created.revision()));
        assert_eq!(written.resource.key().kind(), &kind(version));
    }
}

#[tokio::test]
async fn a_dry_run_is_converted_and_changes_nothing() {
    let world = World::new();
    let created = world.create("v1", "a").await;
    let write = merge("v1beta1", "a", json!({ "spec": { "port": 7 } }));
    let planned = world.store.submit(Request { dry_run: true, ..write.into() }).await.unwrap();
    assert_eq!(spec(&planned.resource), json!({ "host": "a", "port": 7 }));
    assert_eq!(planned.resource.revision(), created.revision());
    assert_eq!(spec(&world.store.get(&key("v1beta1", "a")).await.unwrap()), json!({ "host": "a", "port": 1 }));
}

#[tokio::test]
async fn a_write_that_another_one_overtakes_is_decided_again() {
    let world = Arc::new(World::new());
    world.create("v1", "a").await;
    world.store.get(&key("v1beta1", "a")).await.unwrap();
    world.webhook.gate.forget_permits(Semaphore::MAX_PERMITS);
    let slow = tokio::spawn({
        let world = Arc::clone(&world);
        async move { world.write(merge("v1beta1", "a", json!({ "spec": { "port": 2 } }))).await }
    });
    let reviewed = async {
        while world.webhook.running.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
    };
    soon(reviewed).await;
    // The decision of the slow write relies on `a:1`, and no other write waits for its webhook.
    world.write(merge("v1", "a", json!({ "spec": { "address": "b:1" } }))).await;
    world.webhook.gate.add_permits(1000);
    assert_eq!(spec(&soon(slow).await.unwrap()), json!({ "host": "b", "port": 2 }));
    assert_eq!(world.stored("a").await["spec"], json!({ "address": "b:2" }));
}

#[tokio::test]
async fn preconditions_of_a_client_hold_in_every_version() {
    let world = World::new();
    let created = world.create("v1", "a").await;
    world.write(merge("v1", "a", json!({ "spec": { "size": 1 } }))).await;
    let precondition = Precondition { uid: None, revision: Some(created.revision()) };
    let change = Change::Merge(json!({ "spec": { "port": 2 } }));
    let outdated = world.store.write(Write::Patch { key: key("v1beta1", "a"), change, precondition }).await;
    assert!(matches!(outdated, Err(Error::Conflict { .. })), "{outdated:?}");
    let again = world.store.write(Write::Create { document: site("v1beta1", "a", &json!({})) }).await;
    assert!(matches!(again, Err(Error::AlreadyExists { .. })), "{again:?}");
    let none = world.store.write(merge("v1beta1", "b", json!({}))).await;
    assert!(matches!(none, Err(Error::NotFound { .. })), "{none:?}");
}

#[tokio::test]
async fn a_watch_shows_each_change_in_its_version_and_resumes_after_a_cancelled_review() {
    let world = World::new();
    let mut watch = world.store.watch(Scope::Kind(kind("v1beta1")), Revision::ZERO).await.unwrap();
    world.create("v1", "a").await;
    world.webhook.set(Behaviour::Hangs);
    tokio::select! {
        biased;
        event = watch.next() => panic!("{event:?}"),
        () = async { while world.webhook.reviews() == 0 { tokio::task::yield_now().await } } => {}
    }
    assert_eq!(watch.position(), None, "the client does not have the event yet");
    world.webhook.set(Behaviour::Converts);
    let added = watch.next().await.unwrap();
    assert_eq!((added.kind, spec(&added.resource)), (EventType::Added, json!({ "host": "a", "port": 1 })));
    world.write(merge("v1", "a", json!({ "spec": { "address": "a:2" } }))).await;
    let changed = watch.next().await.unwrap();
    assert_eq!(spec(&changed.resource), json!({ "host": "a", "port": 2 }));
    assert_eq!(spec(&changed.previous.unwrap()), json!({ "host": "a", "port": 1 }));
    let propagation = Propagation::Background;
    world
        .write(Write::Delete {
            key: key("v1", "a"),
            precondition: Precondition::default(),
            propagation,
            grace_seconds: None,
        })
        .await;
    let deleted = watch.next().await.unwrap();
    assert_eq!((deleted.kind, spec(&deleted.resource)), (EventType::Deleted, json!({ "host": "a", "port": 2 })));
    world.create("v1", "b").await;
    world.webhook.set(Behaviour::Fails);
    assert!(matches!(watch.next().await, Err(Error::Conversion { .. })));
}

#[tokio::test]
async fn a_failed_conversion_fails_only_who_needs_it() {
    let world = World::new();
    world.create("v1", "a").await;
    world.webhook.set(Behaviour::Fails);
    let error = world.store.get(&key("v1beta1", "a")).await.unwrap_err();
    assert_eq!(error.to_string(), "conversion webhook for example.com/v1, Kind=Site failed: it is away");
    let create = Write::Create { document: site("v1beta1", "b", &json!({})) };
    assert!(matches!(world.store.write(create).await, Err(Error::Conversion { .. })));
    assert!(matches!(world.store.list(&Query::all(kind("v1beta1"))).await, Err(Error::Conversion { .. })));
    world.write(merge("v1", "a", json!({ "spec": { "size": 1 } }))).await;
    assert_eq!(world.store.list(&Query::all(kind("v1"))).await.unwrap().items.len(), 1, "b was not created");
    let propagation = Propagation::Background;
    let delete = Write::Delete {
        key: key("v1beta1", "a"),
        precondition: Precondition::default(),
        propagation,
        grace_seconds: None,
    };
    assert_eq!(world.store.write(delete).await.unwrap().change, Some(EventType::Deleted), "needs no conversion");
}

#[tokio::test(start_paused = true)]
async fn a_review_ends_at_its_time() {
    let world = World::new();
    world.create("v1", "a").await;
    world.webhook.set(Behaviour::Hangs);
    let began = tokio::time::Instant::now();
    let error = world.store.get(&key("v1beta1", "a")).await.unwrap_err();
    assert_eq!(error.to_string(), "conversion webhook for example.com/v1, Kind=Site failed: it was late");
    assert!(began.elapsed() < CALL_MAX + Duration::from_secs(1));
}

#[tokio::test]
async fn many_readers_of_one_resource_share_few_concurrent_reviews() {
    let world = Arc::new(World::new());
    world.create("v1", "a").await;
    world.webhook.gate.forget_permits(Semaphore::MAX_PERMITS);
    let readers = (0..100).map(|_| {
        let world = Arc::clone(&world);
        tokio::spawn(async move { world.store.get(&key("v1beta1", "a")).await.unwrap() })
    });
    let readers: Vec<_> = readers.collect();
    let reviewed = async {
        while world.webhook.running.load(Ordering::SeqCst) < 8 {
            tokio::task::yield_now().await;
        }
    };
    soon(reviewed).await;
    world.webhook.gate.add_permits(1000);
    for reader in soon(join_all(readers)).await {
        assert_eq!(spec(&reader.unwrap()), json!({ "host": "a", "port": 1 }));
    }
    assert_eq!((world.webhook.running_max.load(Ordering::SeqCst), world.webhook.reviews()), (8, 8));
}

#[tokio::test]
async fn resources_of_an_older_storage_version_are_converted_by_reads_and_writes() {
    let world = World::new();
    for name in ["a", "b", "c"] {
        world.create("v1", name).await;
    }
    world.stores("v1beta1");
    assert_eq!(world.stored("a").await["apiVersion"], "example.com/v1");
    assert_eq!(spec(&world.store.get(&key("v1beta1", "a")).await.unwrap()), json!({ "host": "a", "port": 1 }));
    assert_eq!(spec(&world.store.get(&key("v1", "a")).await.unwrap()), json!({ "address": "a:1" }));
    let refused = world.inner.write(merge("v1beta1", "a", json!({ "spec": { "port": 2 } }))).await;
    assert!(matches!(refused, Err(Error::OtherVersion { .. })), "no write relabels a document: {refused:?}");
    world.write(merge("v1beta1", "a", json!({ "spec": { "port": 2 } }))).await;
    world.write(merge("v1", "b", json!({ "spec": { "address": "a:3" } }))).await;
    world.write(merge("v1beta1", "c", json!({}))).await;
    for (name, port) in [("a", 2), ("b", 3), ("c", 1)] {
        let stored = world.stored(name).await;
        assert_eq!(
            (&stored["apiVersion"], &stored["spec"]),
            (&json!("example.com/v1beta1"), &json!({ "host": "a", "port": port }))
        );
    }
}

#[tokio::test]
async fn another_converter_does_not_use_the_results_of_its_predecessor() {
    let world = World::new();
    world.create("v1", "a").await;
    world.store.get(&key("v1beta1", "a")).await.unwrap();
    world.stores("v1");
    world.store.get(&key("v1beta1", "a")).await.unwrap();
    assert_eq!(world.webhook.reviews(), 2);
}

#[tokio::test]
async fn the_last_finalizer_is_removed_in_any_version() {
    let world = World::new();
    let mut document = site("v1", "a", &json!({ "address": "a:1" }));
    document["metadata"]["finalizers"] = json!(["x.dev/y"]);
    world.write(Write::Create { document }).await;
    let propagation = Propagation::Background;
    let delete = Write::Delete {
        key: key("v1beta1", "a"),
        precondition: Precondition::default(),
        propagation,
        grace_seconds: None,
    };
    let marked = world.write(delete).await;
    assert!(marked.is_deleting());
    assert_eq!(spec(&marked), json!({ "host": "a", "port": 1 }));
    let removed =
        world.store.write(merge("v1beta1", "a", json!({ "metadata": { "finalizers": null } }))).await.unwrap();
    assert_eq!(
        (removed.change, spec(&removed.resource)),
        (Some(EventType::Deleted), json!({ "host": "a", "port": 1 }))
    );
    assert!(matches!(world.inner.get(&key("v1", "a")).await, Err(Error::NotFound { .. })));
}
