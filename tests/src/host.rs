//! A host in this process, over an in-memory store.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

use homeostat_component::{Component, Engine, EngineOptions, Grants};
use homeostat_fixtures::memory_store;
use homeostat_runtime::{ControllerState, ControllerStatus, Definition, Host, Options, Stores};
use homeostat_store::routes::{Routes, Rule};
use homeostat_store::{Key, Resource, RoutedStore, Store, StorePart, View};
use homeostat_testing::{BOUND, eventually};
use serde_json::{Value, json};

/// Consecutive checks without progress that count as idle.
const LOOKS_AT_REST: u32 = 20;

/// A host, with helpers for tests.
pub struct TestHost {
    /// The host itself.
    pub host: Host,
}

/// Returns the stores of a host that has the kinds of some patterns in the store `far`, and all others in its own.
///
/// # Panics
/// For a pattern that does not parse.
pub fn routed_stores(home: Arc<dyn Store>, far: Arc<dyn Store>, patterns: &[&str]) -> Stores {
    let rule = |pattern: &&str| Rule {
        pattern: pattern.parse().expect("the pattern is one of kinds"),
        store: "far".into(),
        view: View::Whole,
    };
    let routes = Routes::new(patterns.iter().map(rule).collect()).expect("the patterns are different");
    let part = StorePart { name: "far".into(), store: far };
    Stores::Routed(Arc::new(RoutedStore::new(home, vec![part], routes).expect("the routes name the store")))
}

impl TestHost {
    /// Starts a host over an empty store.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn start() -> Self {
        Self::over(memory_store()).await
    }

    /// Starts a host over a store.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn over(store: Arc<dyn Store>) -> Self {
        Self::with(store, |options| options).await
    }

    /// Starts a host over a store, with other options.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn with(store: Arc<dyn Store>, options: impl FnOnce(Options) -> Options) -> Self {
        let engine = Engine::new(EngineOptions::default()).expect("the engine starts");
        Self { host: Host::start(options(Options::new(engine, store))).await.expect("the host starts") }
    }

    /// Loads a component.
    ///
    /// # Panics
    /// When it is refused.
    pub async fn load(&self, path: &Path) -> Component {
        let bytes = std::fs::read(path).expect("the component can be read");
        self.host.load(bytes).await.unwrap_or_else(|refused| panic!("{}: {refused}", path.display()))
    }

    /// Returns a definition of a controller with all resource grants.
    ///
    /// # Panics
    /// When the component is refused.
    pub async fn definition(&self, name: &str, path: &Path) -> Definition {
        let grants = all_resources();
        let component = self.load(path).await;
        Definition { grants, ..Definition::new(name, component) }
    }

    /// Adds a controller with all resource grants, and waits until it is ready.
    ///
    /// # Panics
    /// When it is refused, or does not become ready.
    pub async fn add(&self, name: &str, path: &Path) {
        let definition = self.definition(name, path).await;
        self.host.put(definition).await.expect("the controller is accepted");
        let ready = tokio::time::timeout(BOUND, self.host.ready(name)).await;
        ready.expect("it is ready within the bound").expect("nobody removes it");
    }

    /// Returns the status of a controller.
    ///
    /// # Panics
    /// When there is none of that name.
    pub fn status(&self, name: &str) -> ControllerStatus {
        let found = self.host.controllers().into_iter().find(|status| status.name == name);
        found.unwrap_or_else(|| panic!("no controller {name}"))
    }

    /// Applies a document.
    ///
    /// # Panics
    /// When it is refused.
    pub async fn apply(&self, document: Value) -> Arc<Resource> {
        self.host.apply_resource(document, "test", true).await.expect("the document is accepted").resource
    }

    /// Reads a resource; `None` if it does not exist.
    pub async fn get(&self, key: &Key) -> Option<Arc<Resource>> {
        self.host.store().get(key).await.ok()
    }

    /// Waits until `wanted` holds for the resource, and returns it.
    ///
    /// # Panics
    /// When it does not within a minute.
    pub async fn until(&self, key: &Key, what: &str, wanted: impl Fn(&Value) -> bool) -> Arc<Resource> {
        eventually(&format!("{key}: {what}"), async || {
            self.get(key).await.filter(|resource| wanted(resource.document()))
        })
        .await
    }

    /// Waits until a controller is idle: in consecutive checks, no key is ready or running, no reconcile has
    /// ended, and nothing was written to the store. A change on its way from the store to the queue ends such
    /// a series.
    ///
    /// # Panics
    /// When it does not become idle.
    pub async fn idle(&self, name: &str) -> ControllerStatus {
        let (before, looks) = (Cell::new(None), Cell::new(0));
        eventually(&format!("{name} to have nothing to do"), async || {
            let status = self.status(name);
            let rests = status.state == ControllerState::Ready && status.counts.ready + status.counts.running == 0;
            let revisions = self.host.store().status().into_iter().map(|store| store.revision);
            let now = rests.then(|| (status.reconciles, revisions.collect::<Vec<_>>()));
            let moved = before.replace(now.clone()) != now;
            looks.set(if rests && !moved { looks.get() + 1 } else { 0 });
            (looks.get() >= LOOKS_AT_REST).then_some(status)
        })
        .await
    }
}

/// Returns grants of everything on every resource.
///
/// # Panics
/// Never.
pub fn all_resources() -> Grants {
    serde_json::from_value(json!({"resources": [{"kinds": ["*"], "verbs": ["*"], "namespaces": ["*"]}]}))
        .expect("it is a grant")
}
