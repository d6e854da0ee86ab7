//! The store of a case, and what the case may expect of it.

use std::any::Any;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use homeostat_store::schema::Schema;
use homeostat_store::{
    CacheState, DOCUMENT_BYTES_MAX, Error, EventType, Key, Kind, Options, Query, Resource, Result, Revision, Scope,
    Store, Subscription, View, Watch, WriteResponse,
};
use homeostat_testing::{eventually, soon};
use serde_json::{Value, json};

use crate::{everything_of, is_gone, next};

/// Makes the fixture of a case. Of the options, a store that is far away has only the bounds of its history.
pub type Make = fn(Options) -> Making;

/// A fixture that is being made.
pub type Making = Pin<Box<dyn Future<Output = Fixture> + Send>>;

/// The paths of a refusal that names no field: of a document that a server cannot parse, of a patch that does
/// not fit, and of a document without metadata.
const WHOLE: [&str; 3] = ["document", "patch", "metadata"];

/// The namespaces that cases use, besides `default`. They have to exist where a store demands it.
pub const NAMESPACES: [&str; 4] = ["a", "a-b", "b", "other"];

/// A documented way in which a store differs from a store in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Difference {
    /// S1: revisions grow, with gaps, and each kind has its own: [`Scope::Everything`] is `Invalid`.
    GapsInRevisions,
    /// S8: a watch leaves out states that were overwritten before the store saw them. A list in one piece shows own
    /// writes at once, and a watch from its revision repeats them.
    SeenLater,
    /// [`Store::kinds`] returns every kind that ever had a resource, in any order.
    KindsStay,
    /// A kind has to be defined before its first resource, with its scope and its versions, and `Unavailable` is the
    /// answer about any other kind. A resource is returned in the version that the caller names, and never as it was
    /// written.
    DefinedKinds,
    /// The response to a deletion has the revision before it.
    DeletionsWithoutRevision,
    /// A server refuses documents by its own rules: the errors are `Invalid` or `InvalidFields`, some with other
    /// paths. It accepts some more documents: larger ones, and some nulls.
    ServerRules,
    /// Where no schema knows a field, an apply sets what is `null`, and a strategic merge patch replaces lists; so a
    /// strategic merge patch of a custom kind does always.
    UntypedMerges,
}

/// Makes kinds known to a server.
#[async_trait]
pub trait KindServer: Send + Sync {
    /// Makes a kind available, or gives it another definition.
    async fn define(&self, kind: &Definition);
}

/// A kind with its versions.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// The kind, in the version in which it is stored.
    pub kind: Kind,
    /// Whether its resources are in namespaces.
    pub is_namespaced: bool,
    /// The source of the schema of each version; `None` for a version that accepts every document.
    pub versions: Vec<(String, Option<Value>)>,
}

/// What a fixture is made of.
pub struct Setup {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The group of the kinds of the case; no other case on the same server has it.
    pub group: String,
    /// How the store differs.
    pub differences: &'static [Difference],
    /// Where kinds have to be made known; `None` for a store that takes each kind as it comes.
    pub kinds: Option<Box<dyn KindServer>>,
    /// Whether the kinds are subscribed to during the case.
    pub subscribes: bool,
    /// Largest document that the store accepts, in bytes.
    pub document_bytes_max: u64,
    /// What the names of managers begin with in the store. With such a prefix no manager is known as kubectl.
    pub manager_prefix: &'static str,
    /// What has to live as long as the store.
    pub storage: Box<dyn Any + Send + Sync>,
}

impl Setup {
    /// Returns the setup of a store that differs in nothing.
    pub fn of(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            group: "example.dev".to_owned(),
            differences: &[],
            kinds: None,
            subscribes: false,
            document_bytes_max: DOCUMENT_BYTES_MAX,
            manager_prefix: "",
            storage: Box::new(()),
        }
    }

    /// Makes the fixture, whose kind `Thing` is available.
    pub async fn start(self) -> Fixture {
        let fixture = Fixture(Arc::new(State { subscriptions: Mutex::default(), setup: self }));
        fixture.add_kind("Thing").await;
        fixture
    }
}

/// The store of a case, and what the case may expect of it. Cheap to clone.
#[derive(Clone)]
pub struct Fixture(Arc<State>);

struct State {
    /// The kinds of the case. Before the store, so that the subscriptions end first.
    subscriptions: Mutex<Vec<(Kind, Subscription)>>,
    setup: Setup,
}

impl Deref for Fixture {
    type Target = Arc<dyn Store>;

    fn deref(&self) -> &Self::Target {
        &self.0.setup.store
    }
}

impl Fixture {
    /// Asserts that a write was refused because of a field. A server names the field or another one beside it, or
    /// only the whole document.
    pub(crate) fn assert_invalid(&self, refused: &Result<WriteResponse>, wanted: &str) {
        let by_server = self.differs(Difference::ServerRules);
        let first = |path: &str| path.split(['.', '[']).next().map(str::to_owned);
        let is_refused = match refused {
            Err(Error::Invalid { path, .. }) => path == wanted || by_server && WHOLE.contains(&&**path),
            Err(Error::InvalidFields { violations, .. }) => {
                let is_meant = |path: &str| path == wanted || by_server && first(path) == first(wanted);
                violations.iter().any(|violation| is_meant(&violation.path))
            }
            _ => false,
        };
        assert!(is_refused, "{wanted}: {refused:?}");
    }

    /// Asserts that a write made no revision. A store that has just lost its connection may not know that.
    pub(crate) fn assert_unchanged(&self, written: &WriteResponse, before: Revision) {
        let is_unknown = self.differs(Difference::ServerRules) && written.change == Some(EventType::Modified);
        assert!(written.change.is_none() || is_unknown, "{written:?}");
        assert_eq!(written.resource.revision(), before);
    }

    /// Returns whether the store differs from a store in memory in this way.
    pub fn differs(&self, how: Difference) -> bool {
        self.0.setup.differences.contains(&how)
    }

    /// Returns a kind of the group of the case, in version `v1`.
    pub fn kind(&self, name: &str) -> Kind {
        self.kind_in(name, "v1")
    }

    /// Returns a kind of the group of the case.
    pub fn kind_in(&self, name: &str, version: &str) -> Kind {
        Kind::new(&*self.0.setup.group, version, name)
    }

    /// Returns the key of a `Thing` in the namespace `default`.
    pub fn key(&self, name: &str) -> Key {
        Key::new(self.kind("Thing"), "default", name)
    }

    /// Returns the document of a `Thing` in the namespace `default`.
    pub fn thing(&self, name: &str, spec: Value) -> Value {
        json!({
            "apiVersion": self.api_version("v1"), "kind": "Thing",
            "metadata": {"name": name, "namespace": "default"}, "spec": spec,
        })
    }

    /// Returns the `apiVersion` of documents of the group of the case.
    pub fn api_version(&self, version: &str) -> String {
        self.kind_in("Thing", version).api_version()
    }

    /// Returns the name of the group of the case.
    pub fn group(&self) -> &str {
        &self.0.setup.group
    }

    /// Returns the name that a manager has in the store.
    pub fn manager(&self, name: &str) -> String {
        format!("{}{name}", self.0.setup.manager_prefix)
    }

    /// Returns the size of the largest document that the store accepts, in bytes.
    pub fn document_max(&self) -> u64 {
        self.0.setup.document_bytes_max
    }

    /// Makes a kind available that has namespaces and accepts every document.
    pub async fn add_kind(&self, name: &str) {
        self.add(self.kind(name)).await;
    }

    /// Makes a kind available that is cluster-scoped, and returns it.
    pub(crate) async fn add_cluster_scoped_kind(&self) -> Kind {
        let kind = self.kind("Node");
        self.add(kind.clone()).await;
        kind
    }

    async fn add(&self, kind: Kind) {
        if let Some(kinds) = &self.0.setup.kinds {
            let versions = vec![(kind.version.to_string(), None)];
            kinds.define(&Definition { kind: kind.clone(), is_namespaced: kind.name != "Node", versions }).await;
        }
        if !self.0.setup.subscribes {
            return self.subscriptions().push((kind, Subscription::none()));
        }
        let subscription = self.subscribe(&kind, View::Whole);
        self.subscriptions().push((kind, subscription));
        // Until then the store knows no state before a write.
        let is_synced = async || {
            let caches = self.status().into_iter().flat_map(|status| status.caches);
            caches.map(|cache| cache.state).all(|state| state == CacheState::Synced).then_some(())
        };
        eventually("the caches are synced", is_synced).await;
    }

    fn subscriptions(&self) -> MutexGuard<'_, Vec<(Kind, Subscription)>> {
        self.0.subscriptions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives `Thing` one version with a schema.
    pub(crate) async fn set_schema(&self, source: Value) {
        self.define("v1", [("v1", Some(source))]).await;
    }

    /// Takes the schema from `Thing`.
    pub(crate) async fn forget_schema(&self) {
        match (self.schemas(), &self.0.setup.kinds) {
            (Some(schemas), None) => schemas.forget(&self.kind("Thing")),
            _ => self.define("v1", [("v1", None)]).await,
        }
    }

    /// Gives `Thing` these versions, each with the source of its schema, and stores it in one of them.
    pub(crate) async fn define<const N: usize>(&self, stored: &str, versions: [(&str, Option<Value>); N]) {
        let kind = self.kind_in("Thing", stored);
        if let Some(kinds) = &self.0.setup.kinds {
            let versions = versions.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect();
            return kinds.define(&Definition { kind, is_namespaced: true, versions }).await;
        }
        let parsed = |source: Value| Schema::parse(&source).unwrap();
        let versions = versions.map(|(name, schema)| (name.to_owned(), schema.map(parsed)));
        self.schemas().expect("a store without a server of kinds has schemas").set(&kind, versions);
    }

    /// Returns the widest scope that has `Thing` and can be watched.
    pub fn scope(&self) -> Scope {
        if self.differs(Difference::GapsInRevisions) { Scope::Kind(self.kind("Thing")) } else { Scope::Everything }
    }

    /// Returns scopes that together have all kinds of the case.
    pub(crate) fn scopes(&self) -> Vec<Scope> {
        if self.differs(Difference::GapsInRevisions) {
            self.subscriptions().iter().map(|(kind, _)| Scope::Kind(kind.clone())).collect()
        } else {
            vec![Scope::Everything]
        }
    }

    /// Returns the revision that the store has reached.
    ///
    /// # Panics
    /// If the store does not tell.
    pub async fn newest(&self) -> Revision {
        self.revision(&self.scope()).await.unwrap()
    }

    /// Watches a scope from now on.
    pub(crate) async fn watch_from_now(&self, scope: &Scope) -> Watch {
        loop {
            let now = self.revision(scope).await.unwrap();
            match self.watch(scope.clone(), now).await {
                Ok(watch) => return watch,
                // A change came between, and nobody had watched the kind before.
                Err(Error::Expired { .. }) if self.differs(Difference::GapsInRevisions) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Begins a case that watches, before its first change.
    pub(crate) async fn begin(&self) -> Begin {
        self.begin_after(0).await
    }

    /// Begins to watch after so many changes of the case.
    pub(crate) async fn begin_after(&self, changes: u64) -> Begin {
        let at = self.newest().await;
        self.assert_count(at, changes);
        let watch = self.watch(self.scope(), at).await.unwrap();
        Begin { at, seen: at, watch, store: self.clone() }
    }

    /// Asserts that a revision is the next one after another.
    pub(crate) fn assert_next(&self, before: Revision, after: Revision) {
        assert!(after > before, "{after} comes after {before}");
        assert!(after == before.next() || self.differs(Difference::GapsInRevisions), "{after} is next to {before}");
    }

    /// Asserts that revisions are the next ones after another, one after the other.
    pub(crate) fn assert_consecutive(&self, before: Revision, revisions: impl IntoIterator<Item = Revision>) {
        revisions.into_iter().fold(before, |before, after| {
            self.assert_next(before, after);
            after
        });
    }

    /// Asserts that a revision is that of so many changes, if the store counts them.
    pub(crate) fn assert_count(&self, revision: Revision, changes: u64) {
        assert!(revision == Revision(changes) || self.differs(Difference::GapsInRevisions), "{revision} of {changes}");
    }

    /// Asserts that the newest revision is that of the last change.
    pub(crate) async fn assert_newest(&self, last: Revision) {
        let newest = self.newest().await;
        assert!(newest == last || newest > last && self.differs(Difference::GapsInRevisions), "{newest} after {last}");
    }

    /// Returns all things.
    pub(crate) async fn all(&self) -> Vec<Arc<Resource>> {
        self.list(&Query::all(self.kind("Thing"))).await.unwrap().items
    }

    /// Returns all visible content of the store, to compare it before and after.
    pub(crate) async fn everything(&self) -> (Option<Revision>, Vec<Arc<Resource>>) {
        let revision = self.newest().await;
        let counts = !self.differs(Difference::GapsInRevisions);
        (counts.then_some(revision), everything_of(&***self, self.kinds().await.unwrap()).await)
    }

    /// Waits until a condition on the store holds.
    pub(crate) async fn until(&self, mut wanted: impl AsyncFnMut() -> bool) {
        if self.differs(Difference::GapsInRevisions) {
            // No watch has the changes of all kinds.
            let mut look = tokio::time::interval(Duration::from_millis(10));
            let looking = async {
                while !wanted().await {
                    look.tick().await;
                }
            };
            return soon(looking).await;
        }
        let mut watch = self.watch(Scope::Everything, self.newest().await).await.unwrap();
        while !wanted().await {
            next(&mut watch).await.unwrap();
        }
    }

    pub(crate) async fn until_gone(&self, key: &Key) {
        self.until(async || is_gone(&***self, key).await).await;
    }
}

/// A revision from which a watch can start while this lives, also in a store that is far away.
pub(crate) struct Begin {
    pub(crate) at: Revision,
    watch: Watch,
    seen: Revision,
    store: Fixture,
}

impl Begin {
    /// Waits until the store has seen a deletion, and returns its revision.
    pub(crate) async fn see_deletion(&mut self, gone: &WriteResponse) -> Revision {
        assert_eq!(gone.change, Some(EventType::Deleted));
        if !self.store.differs(Difference::DeletionsWithoutRevision) {
            self.see(gone.resource.revision()).await;
            return gone.resource.revision();
        }
        loop {
            let event = next(&mut self.watch).await.unwrap();
            self.seen = event.revision;
            if event.kind == EventType::Deleted && event.resource.uid() == gone.resource.uid() {
                return event.revision;
            }
        }
    }

    /// Waits until the store has seen a change, where it would leave the change out if the next one overwrote it.
    pub(crate) async fn see(&mut self, revision: Revision) {
        while self.store.differs(Difference::SeenLater) && self.seen < revision {
            match next(&mut self.watch).await {
                Ok(event) => self.seen = event.revision,
                Err(Error::Expired { oldest }) => {
                    self.watch = self.store.watch(self.store.scope(), oldest).await.unwrap();
                    self.seen = oldest;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}
