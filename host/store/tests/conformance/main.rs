//! The conformance suite that runs on every store, and tests that only the store in a file has to pass.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(missing_docs, reason = "the names of tests are sentences")]

mod alike;
mod backups;
mod cuts;
mod files;
mod indexes;
mod model;
mod upstream;

use std::sync::Arc;

use homeostat_conformance::{Difference, Fixture, Making, Setup, everything_of};
use homeostat_store::cached::{self, CachedStore};
use homeostat_store::embedded::EmbeddedStore;
use homeostat_store::memory::MemoryStore;
use homeostat_store::{Key, Kind, Options, Query, Resource, Revision, Scope, Store};
use serde_json::{Value, json};
use upstream::MemoryServer;

mod on_memory {
    homeostat_conformance::suite!(crate::memory);
}

mod on_embedded {
    homeostat_conformance::suite!(crate::embedded);
}

/// Reads come from the cache, which lags behind the server.
mod on_a_subscribed_server {
    homeostat_conformance::suite!(crate::subscribed);
}

/// Reads ask the server, except while a case watches.
mod on_a_server {
    homeostat_conformance::suite!(crate::not_subscribed);
}

/// Declares cases of this binary as tests that run on every store in this process.
macro_rules! on_every_store {
    ($($name:ident),* $(,)?) => {
        mod on_memory {
            $(#[tokio::test(flavor = "multi_thread")] async fn $name() { super::$name(crate::memory).await; })*
        }
        mod on_embedded {
            $(#[tokio::test(flavor = "multi_thread")] async fn $name() { super::$name(crate::embedded).await; })*
        }
    };
}
pub(crate) use on_every_store;

fn memory(options: Options) -> Making {
    Box::pin(Setup::of(Arc::new(MemoryStore::new(options))).start())
}

fn embedded(options: Options) -> Making {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(folder.path().join("store"), options).unwrap();
    Box::pin(Setup { storage: Box::new(folder), ..Setup::of(Arc::new(store)) }.start())
}

fn subscribed(options: Options) -> Making {
    Box::pin(far(options, true))
}

fn not_subscribed(options: Options) -> Making {
    Box::pin(far(options, false))
}

/// Makes a store in front of a server in this process.
async fn far(options: Options, subscribes: bool) -> Fixture {
    let cache = cached::Options {
        history_max: options.history_max,
        history_bytes_max: options.history_bytes_max,
        clock: Arc::clone(&options.clock),
        ..cached::Options::default()
    };
    let server = MemoryServer { store: MemoryStore::new(options), is_late: subscribes };
    let store = CachedStore::start(Arc::new(server), cache);
    let differences = &[Difference::GapsInRevisions, Difference::SeenLater];
    Setup { subscribes, differences, ..Setup::of(Arc::new(store)) }.start().await
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

/// Returns the revision that the store has reached.
async fn newest(store: &dyn Store) -> Revision {
    store.revision(&Scope::Everything).await.unwrap()
}

async fn all(store: &dyn Store) -> Vec<Arc<Resource>> {
    store.list(&Query::all(kind("Thing"))).await.unwrap().items
}

/// Returns all visible content of a store, to compare it before and after.
async fn everything(store: &dyn Store) -> (Revision, Vec<Arc<Resource>>) {
    (newest(store).await, everything_of(store, store.kinds().await.unwrap()).await)
}
