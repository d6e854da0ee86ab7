//! Random writes of three hosts to a bucket of NATS and to a cluster. The connections of one host are cut now and then.
//! At rest each cache equals the server, and the changes that each watch has told lead to the same.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use homeostat_kubernetes::{ClusterSettings, Credentials};
use homeostat_nats::BucketSettings;
use homeostat_store::cached::{CachedStore, Options, Upstream};
use homeostat_store::schema::Schemas;
use homeostat_store::{
    Change, Error, EventType, Key, Kind, Precondition, Propagation, Query, Resource, Result, Scope, Store,
    Subscription, View, Watch, Write,
};
use homeostat_testing::{Dice, eventually, soon};
use homeostat_tests::{Cluster, NetworkFault, Proxy, shared_cluster, shared_nats};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::kubernetes::{cluster_settings, cluster_store, namespace};
use super::nats::{contacted, settings};

const ROUNDS: u64 = 1000;
/// Each so many rounds the connections of one host are cut.
const CUT_EVERY: u64 = 100;
const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// The resources of a kind, by name.
type Rows = BTreeMap<String, Arc<Resource>>;

/// The store of one host, and what a watch of it has told.
struct Host {
    store: Arc<CachedStore>,
    watch: Watch,
    told: Rows,
    /// How often the watch had to begin anew.
    restarts: u64,
    _user: Subscription,
}

/// A server with three hosts.
struct Scene {
    server: Arc<dyn Upstream>,
    hosts: Vec<Host>,
    /// Between the server and the last host.
    proxy: Proxy,
    kind: Kind,
    namespace: String,
    /// Writes whose outcome nobody knows: a host whose connections are cut may notice that a round later.
    unanswered: u64,
}

impl Host {
    async fn new(store: CachedStore, kind: &Kind) -> Self {
        let store = Arc::new(store);
        let _user = store.subscribe(kind, View::Whole);
        let (watch, told) = watched(&store, kind).await;
        Self { store, watch, told, restarts: 0, _user }
    }

    /// Applies the changes that the watch tells, until they lead to `wanted`.
    async fn follow(&mut self, kind: &Kind, wanted: &Rows) {
        while !is_same(&self.told, wanted) {
            let event = match soon(self.watch.next()).await {
                Ok(event) => event,
                Err(Error::Expired { .. }) => {
                    (self.watch, self.told) = watched(&self.store, kind).await;
                    self.restarts += 1;
                    continue;
                }
                Err(error) => panic!("{error}"),
            };
            let name = event.resource.key().name().to_owned();
            assert_eq!(self.told.get(&name), event.previous.as_ref(), "a change follows the one before");
            match event.kind {
                EventType::Deleted => drop(self.told.remove(&name)),
                EventType::Added | EventType::Modified => drop(self.told.insert(name, event.resource)),
            }
        }
    }
}

/// Lists a kind, and watches it from there.
async fn watched(store: &CachedStore, kind: &Kind) -> (Watch, Rows) {
    let list = || async {
        let page = store.list(&Query::all(kind.clone())).await.ok()?;
        let watch = store.watch(Scope::Kind(kind.clone()), page.revision).await.ok()?;
        Some((watch, rows(page.items)))
    };
    eventually("a list and a watch", list).await
}

fn rows(resources: Vec<Arc<Resource>>) -> Rows {
    resources.into_iter().map(|resource| (resource.key().name().to_owned(), resource)).collect()
}

fn is_same(one: &Rows, other: &Rows) -> bool {
    let revisions =
        |rows: &Rows| -> Vec<_> { rows.values().map(|row| (row.uid().to_owned(), row.revision())).collect() };
    revisions(one) == revisions(other)
}

impl Scene {
    fn write(&self, dice: &mut Dice) -> Write {
        let name = dice.one(&NAMES).expect("there are names");
        let (key, size) = (Key::new(self.kind.clone(), &self.namespace, name), dice.below(100));
        let metadata = json!({"name": name, "namespace": self.namespace, "labels": {"size": size.to_string()}});
        let document = json!({"apiVersion": self.kind.api_version(), "kind": self.kind.name, "metadata": metadata,
            "spec": {"size": size}});
        let precondition = Precondition::default();
        let merge = |patch: Value| Write::Patch {
            key: key.clone(),
            change: Change::Merge(patch),
            precondition: precondition.clone(),
        };
        match dice.below(10) {
            0..=2 => Write::Create { document },
            3..=4 => merge(json!({"spec": {"size": size}})),
            5 => merge(
                json!({"metadata": {"finalizers": if dice.percent(40) { json!(["demo.dev/hold"]) } else { json!(null) }}}),
            ),
            6 => Write::UpdateStatus { key, status: json!({"at": size}), precondition },
            7 => Write::Update { document, precondition },
            _ => Write::Delete { key, precondition, propagation: Propagation::Background, grace_seconds: None },
        }
    }

    /// Makes some writes at the same time, each by one of the hosts.
    async fn act(&mut self, dice: &mut Dice, is_cut: bool) {
        let mut writes = JoinSet::new();
        for _ in 0..=dice.below(10) {
            let (write, host) = (self.write(dice), dice.index(self.hosts.len()));
            let store = Arc::clone(&self.hosts[host].store);
            writes.spawn(async move {
                let written = store.write(write.clone()).await;
                (written.map(drop), format!("{write:?}"))
            });
        }
        if is_cut {
            self.proxy.set(NetworkFault::Reset);
            self.proxy.set(NetworkFault::None);
        }
        while let Some(ended) = soon(writes.join_next()).await {
            let (written, write) = ended.unwrap();
            assert!(is_expected(&written), "{write}: {written:?}");
            self.unanswered += u64::from(matches!(written, Err(Error::Unavailable { .. })));
        }
    }

    /// Compares the caches and watches of all hosts with the server.
    async fn compare(&mut self, round: u64) {
        let query = Query::all(self.kind.clone());
        let wanted = eventually("a list of the server", || async { self.server.list(&query).await.ok() }).await;
        let wanted = rows(wanted.items);
        for host in &mut self.hosts {
            let same = || async {
                let cached = rows(host.store.list(&query).await.ok()?.items);
                is_same(&cached, &wanted).then_some(cached)
            };
            let cached = eventually("a cache that equals the server", same).await;
            for (name, resource) in &cached {
                assert_eq!(resource.document(), wanted[name].document(), "round {round}");
            }
            host.follow(&self.kind, &wanted).await;
        }
    }

    async fn run(mut self, seed: u64) {
        for round in 0..ROUNDS {
            let mut dice = Dice::stream(seed, round);
            self.act(&mut dice, round % CUT_EVERY == CUT_EVERY - 1).await;
            self.compare(round).await;
        }
        let restarts: u64 = self.hosts.iter().map(|host| host.restarts).sum();
        assert!(restarts <= ROUNDS / CUT_EVERY, "watches began anew {restarts} times");
        assert!(self.unanswered <= ROUNDS / 10, "{} writes were not answered", self.unanswered);
    }
}

/// Returns whether a write has succeeded, has failed for a reason of its own, or was not answered.
fn is_expected(written: &Result<()>) -> bool {
    matches!(
        written,
        Ok(())
            | Err(Error::AlreadyExists { .. }
                | Error::NotFound { .. }
                | Error::Conflict { .. }
                | Error::Invalid { .. }
                | Error::Unavailable { .. })
    )
}

fn options() -> Options {
    Options { read_wait_max: Duration::from_secs(30), ..Options::default() }
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn caches_of_a_bucket_equal_it_at_rest_after_random_writes() {
    let kind = Kind::new("demo.dev", "v1", "Widget");
    let (url, proxy) = (shared_nats().url(), Proxy::to(shared_nats().port()));
    let server = contacted(&url, "random").await;
    let mut hosts = Vec::new();
    for url in [url.clone(), url, format!("nats://{}", proxy.address())] {
        let settings: BucketSettings = settings(&url, "random");
        hosts.push(Host::new(homeostat_nats::open(settings, Schemas::default(), options()).unwrap(), &kind).await);
    }
    Scene { server, hosts, proxy, kind, namespace: "default".to_owned(), unanswered: 0 }.run(1).await;
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn caches_of_a_cluster_equal_it_at_rest_after_random_writes() {
    let kind = Kind::new("example.dev", "v1", "Widget");
    let all = cluster_store().await;
    let namespace = namespace(&all).await;
    let cluster = shared_cluster();
    let proxy = Proxy::to(cluster.apiserver().port());
    let token = json!({ "token": Cluster::token("admin") });
    let cut = cluster.kubeconfig_with(&format!("https://{}", proxy.address()), &token);
    let cut = ClusterSettings::new("cut", Credentials::Kubeconfig { files: vec![cut], context: None });
    let mut hosts = Vec::new();
    let own = |settings: ClusterSettings| ClusterSettings { namespace: Some(namespace.clone()), ..settings };
    for settings in [cluster_settings("admin"), cluster_settings("admin"), cut] {
        hosts.push(Host::new(homeostat_kubernetes::open(own(settings), options()), &kind).await);
    }
    let server = Arc::new(homeostat_kubernetes::Cluster::new(own(cluster_settings("admin"))));
    soon(server.connect()).await.unwrap();
    Scene { server, hosts, proxy, kind, namespace, unanswered: 0 }.run(2).await;
}
