//! The conformance suite that runs on every store, and tests that only the store in a file has to pass.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(missing_docs, reason = "the names of tests are sentences")]

mod alike;
mod applies;
mod backups;
mod cuts;
mod deletes;
mod files;
mod garbage;
mod lists;
mod model;
mod names;
mod schemas;
mod versions;
mod watches;
mod writes;

use std::sync::Arc;

use homeostat_store::embedded::EmbeddedStore;
use homeostat_store::memory::MemoryStore;
use homeostat_store::{
    Error, Event, Key, Kind, Options, Precondition, Propagation, Query, Resource, Result, Revision, Scope, Store,
    Watch, Write, WriteResponse,
};
use homeostat_testing::soon;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Declares tests that run on every store, each as a test of its own.
macro_rules! on_every_store {
    ($($name:ident),* $(,)?) => {
        mod on_memory {
            $(#[tokio::test(flavor = "multi_thread")] async fn $name() { super::$name(crate::Fixture::memory).await; })*
        }
        mod on_embedded {
            $(#[tokio::test(flavor = "multi_thread")] async fn $name() { super::$name(crate::Fixture::embedded).await; })*
        }
    };
}
pub(crate) use on_every_store;

/// Creates the store of a test.
type Make = fn(Options) -> Fixture;

/// A store and its storage.
struct Fixture {
    store: Arc<dyn Store>,
    folder: Option<TempDir>,
}

impl Fixture {
    fn memory(options: Options) -> Self {
        Self { store: Arc::new(MemoryStore::new(options)), folder: None }
    }

    fn embedded(options: Options) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(folder.path().join("store"), options).unwrap();
        Self { store: Arc::new(store), folder: Some(folder) }
    }
}

impl std::ops::Deref for Fixture {
    type Target = Arc<dyn Store>;

    fn deref(&self) -> &Self::Target {
        &self.store
    }
}

fn small_history(history_max: u64) -> Options {
    Options { history_max, ..Options::default() }
}

fn kind(name: &str) -> Kind {
    Kind::new("example.dev", "v1", name)
}

fn key(name: &str) -> Key {
    Key::new(kind("Thing"), "default", name)
}

fn thing(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.dev/v1", "kind": "Thing", "metadata": {"name": name, "namespace": "default"}, "spec": spec})
}

/// A document with fields merged into its metadata.
fn with_metadata(mut document: Value, metadata: Value) -> Value {
    let Value::Object(fields) = metadata else { panic!("metadata is an object") };
    document["metadata"].as_object_mut().unwrap().extend(fields);
    document
}

async fn create(store: &dyn Store, document: Value) -> Arc<Resource> {
    store.write(Write::Create { document }).await.unwrap().resource
}

async fn update(store: &dyn Store, document: Value) -> Result<WriteResponse> {
    store.write(Write::Update { document, precondition: Precondition::default() }).await
}

async fn update_status(store: &dyn Store, key: Key, status: Value) -> Result<WriteResponse> {
    store.write(Write::UpdateStatus { key, status, precondition: Precondition::default() }).await
}

async fn delete(store: &dyn Store, key: Key, propagation: Propagation) -> Result<WriteResponse> {
    store.write(Write::Delete { key, precondition: Precondition::default(), propagation }).await
}

async fn all(store: &dyn Store) -> Vec<Arc<Resource>> {
    store.list(&Query::all(kind("Thing"))).await.unwrap().items
}

/// Waits for the next event, with a timeout.
async fn next(watch: &mut Watch) -> Result<Event> {
    soon(watch.next()).await
}

/// Waits until a condition on the store holds.
async fn until(store: &dyn Store, mut wanted: impl AsyncFnMut() -> bool) {
    let mut watch = store.watch(Scope::Everything, store.revision()).await.unwrap();
    while !wanted().await {
        next(&mut watch).await.unwrap();
    }
}

async fn is_gone(store: &dyn Store, key: &Key) -> bool {
    matches!(store.get(key).await, Err(Error::NotFound { .. }))
}

async fn until_gone(store: &dyn Store, key: &Key) {
    until(store, async || is_gone(store, key).await).await;
}

/// Returns all visible content of a store, to compare it before and after.
async fn everything(store: &dyn Store) -> (Revision, Vec<Arc<Resource>>) {
    let mut found = Vec::new();
    for kind in store.kinds().await.unwrap() {
        found.extend(store.list(&Query::all(kind)).await.unwrap().items);
    }
    (store.revision(), found)
}
