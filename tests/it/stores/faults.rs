//! Stores behind a cache while their servers fail. No acknowledged write is lost, and afterwards the cache and a watch
//! that began before agree with the server, as another host sees it.

mod certificates;
mod cut_lists;
mod definitions;
mod expired;
mod full;
mod full_cache;
mod late_servers;
mod outage;
mod replicas;
mod two_servers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use homeostat_fixtures::memory_store;
use homeostat_kubernetes::Credentials;
use homeostat_nats::settings::{Create, Credentials as Login, Timings, Tls};
use homeostat_runtime::{Definition, Options, PlacementSpec};
use homeostat_store::cached::{self, CachedStore};
use homeostat_store::schema::Schemas;
use homeostat_store::{
    Availability, CacheState, Error, EventType, Kind, Precondition, Query, Resource, Scope, Store, View, Watch, Write,
};
use homeostat_testing::{eventually, soon};
use homeostat_tests::{
    Cluster, ClusterOptions, HttpProxy, HttpReply, HttpRule, Nats, NetworkFault, Proxy, TestHost, guest, routed_stores,
    shared_cluster, shared_nats,
};
use parking_lot::Mutex;
use serde_json::{Value, json};

/// Writers at a time.
const WRITERS: usize = 4;
/// Resources of each writer.
const RESOURCES: usize = 5;
/// Acknowledged writes that show that a store works.
const ENOUGH: usize = 40;

/// A host behind a proxy, and another one that is not.
struct Hosts {
    near: Arc<CachedStore>,
    other: Arc<CachedStore>,
    namespace: String,
}

fn kind() -> Kind {
    Kind::new("", "v1", "ConfigMap")
}

/// Short deadlines for requests to NATS.
fn timings() -> Timings {
    let short = Duration::from_secs(1);
    Timings { request: short, write: 2 * short, heartbeat: short / 4, connect: short }
}

impl Hosts {
    fn nats(nats: &Nats, proxy: &Proxy) -> Self {
        Self::nats_with(nats, proxy, Create::default())
    }

    fn nats_with(nats: &Nats, proxy: &Proxy, create: Create) -> Self {
        Self::nats_as(nats, proxy, create, Default::default())
    }

    /// The logins are those of the host behind the proxy and of the other one.
    fn nats_as(nats: &Nats, proxy: &Proxy, create: Create, logins: [(Option<Login>, Tls); 2]) -> Self {
        let bucket = format!("faults-{}", proxy.port());
        let open = |url: &str, (credentials, tls): (Option<Login>, Tls)| {
            let (create, timings) = (Some(create.clone()), timings());
            let settings = homeostat_nats::BucketSettings::new(url, &bucket);
            let settings = homeostat_nats::BucketSettings { create, timings, credentials, tls, ..settings };
            homeostat_nats::open(settings, Schemas::default(), cached::Options::default()).unwrap()
        };
        let [of_near, of_other] = logins;
        let near = open(&format!("nats://{}", proxy.address()), of_near);
        Self { near: Arc::new(near), other: Arc::new(open(&nats.url(), of_other)), namespace: "default".to_owned() }
    }

    /// The URL is that of a proxy to the cluster.
    fn cluster(cluster: &Cluster, url: &str) -> Self {
        Self::cluster_as(cluster, url, &namespace(cluster), &json!({ "token": Cluster::token("admin") }))
    }

    /// The credentials are those of the host behind the proxy, as kubeconfigs have them.
    fn cluster_as(cluster: &Cluster, url: &str, namespace: &str, user: &Value) -> Self {
        let namespace = namespace.to_owned();
        let open = |url: &str, user: &Value| {
            let file = cluster.kubeconfig_with(url, user);
            let credentials = Credentials::Kubeconfig { files: vec![file], context: None };
            let settings = homeostat_kubernetes::ClusterSettings {
                namespace: Some(namespace.clone()),
                deadline: Duration::from_secs(2),
                deadline_list: Duration::from_secs(3),
                silence_max: Duration::from_secs(5),
                ..homeostat_kubernetes::ClusterSettings::new("cluster", credentials)
            };
            homeostat_kubernetes::open(settings, cached::Options::default())
        };
        let other = open(&cluster.url(), &json!({ "token": Cluster::token("admin") }));
        Self { near: Arc::new(open(url, user)), other: Arc::new(other), namespace: namespace.clone() }
    }

    fn document(&self, name: &str, at: u64) -> Value {
        let metadata = json!({ "name": name, "namespace": self.namespace });
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": { "at": at.to_string() } })
    }

    /// Creates a resource. A busy server may let the short deadlines of these hosts pass, and then nobody can say
    /// whether it exists.
    async fn create(&self, name: &str) {
        let create = || async {
            match self.near.write(Write::Create { document: self.document(name, 0) }).await {
                Ok(_) | Err(Error::AlreadyExists { .. }) => Some(()),
                Err(_) => None,
            }
        };
        eventually("a resource to be created", create).await;
    }

    /// Returns the state on the server. The other host may have lost its connection too, and waits before it tries
    /// again.
    async fn on_the_server(&self) -> BTreeMap<String, u64> {
        let query = Query { live: true, ..Query::all(kind()) };
        let page =
            eventually("the server to answer another host", || async { self.other.list(&query).await.ok() }).await;
        page.items.iter().filter_map(state).collect()
    }

    /// Returns the state in the cache; `None` while it cannot be read.
    async fn in_the_cache(&self) -> Option<BTreeMap<String, u64>> {
        Some(self.near.list(&Query::all(kind())).await.ok()?.items.iter().filter_map(state).collect())
    }
}

/// Makes a namespace, and returns its name.
pub(super) fn namespace(cluster: &Cluster) -> String {
    let made = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "generateName": "faults-" } });
    let made = cluster.request("POST", "/api/v1/namespaces", Some(&made)).json();
    made["metadata"]["name"].as_str().unwrap().to_owned()
}

/// Returns the name and the number in a resource of these tests.
fn state(resource: &Arc<Resource>) -> Option<(String, u64)> {
    let document = resource.document();
    let at = document["data"]["at"].as_str()?.parse().ok()?;
    Some((resource.key().name().to_owned(), at))
}

/// What became of the writes.
#[derive(Default)]
struct Ledger {
    /// The last acknowledged number of each resource.
    acknowledged: Mutex<BTreeMap<String, u64>>,
    /// The numbers whose outcome is unknown.
    unknown: Mutex<BTreeSet<(String, u64)>>,
    count: AtomicUsize,
    is_over: AtomicBool,
}

impl Ledger {
    /// Waits until that many more writes are acknowledged.
    async fn grows(&self, by: usize) {
        let before = self.count.load(Ordering::SeqCst);
        let grown = || async { (self.count.load(Ordering::SeqCst) >= before + by).then_some(()) };
        eventually("writes to be acknowledged", grown).await;
    }

    /// Waits until another write is not acknowledged.
    async fn fails(&self) {
        let before = self.unknown.lock().len();
        eventually("a write to fail", || async { (self.unknown.lock().len() > before).then_some(()) }).await;
    }
}

/// Writes growing numbers to resources of its own until the ledger is over.
async fn write(hosts: &Hosts, ledger: &Ledger, writer: usize) {
    let mut at = 0;
    while !ledger.is_over.load(Ordering::SeqCst) {
        at += 1;
        let name = format!("w-{writer}-{}", at % RESOURCES as u64);
        let document = hosts.document(&name, at);
        match hosts.near.write(Write::Update { document, precondition: Precondition::default() }).await {
            Ok(_) => {
                ledger.acknowledged.lock().insert(name, at);
                ledger.count.fetch_add(1, Ordering::SeqCst);
            }
            Err(_) => {
                ledger.unknown.lock().insert((name, at));
            }
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A controller of the kind. Its guest copies the number of each resource into a store in memory.
struct Copier {
    test: TestHost,
}

impl Copier {
    /// Starts the controller, and waits until it is ready.
    async fn start(far: &Arc<CachedStore>) -> Self {
        let copier = Self::spawn(far).await;
        soon(copier.test.host.ready("copier")).await.unwrap();
        copier
    }

    /// Starts the controller without waiting.
    async fn spawn(far: &Arc<CachedStore>) -> Self {
        let home = memory_store();
        let stores = routed_stores(home.clone(), far.clone(), &["v1/ConfigMap"]);
        let test = TestHost::with(home, |options| Options { stores, ..options }).await;
        let definition = test.definition("copier", &guest("guest-copier")).await;
        // It has no lease, so a store without changes has nothing to do.
        test.host.put(Definition { placement: PlacementSpec::EveryHost, ..definition }).await.unwrap();
        Self { test }
    }

    /// Waits until the last runs of all keys have seen this state.
    async fn until(&self, wanted: &BTreeMap<String, u64>) {
        let mirror = Kind::new("demo.homeostat.dev", "v1", "Mirror");
        let is_equal = || async {
            let page = self.test.host.store().list(&Query::all(mirror.clone())).await.ok()?;
            let number = |mirror: &Arc<Resource>| mirror.document()["spec"]["at"].as_str()?.parse::<u64>().ok();
            let mirrors: BTreeMap<_, _> =
                page.items.iter().map(|mirror| (mirror.key().name().to_owned(), number(mirror))).collect();
            wanted.iter().all(|(name, at)| mirrors.get(name) == Some(&Some(*at))).then_some(())
        };
        eventually("a controller to have seen the last state of each key", is_equal).await;
    }
}

/// Runs writers and a controller on a store while `fault` harms its server and repairs it. Then compares the ledger,
/// the server, the cache, a watch, and the last states that the controller saw.
async fn survives(hosts: Hosts, fault: impl AsyncFnOnce(Arc<Ledger>)) {
    let hosts = Arc::new(hosts);
    let copier = Copier::start(&hosts.near).await;
    let _cached = hosts.near.subscribe(&kind(), View::Whole);
    for (writer, at) in (0..WRITERS).flat_map(|writer| (0..RESOURCES).map(move |at| (writer, at))) {
        hosts.create(&format!("w-{writer}-{at}")).await;
    }
    let list = || async { hosts.near.list(&Query::all(kind())).await.ok() };
    let page = eventually("the cache to be listed", list).await;
    let mut watched: BTreeMap<String, u64> = page.items.iter().filter_map(state).collect();
    let mut watch = soon(hosts.near.watch(Scope::Kind(kind()), page.revision)).await.unwrap();

    let ledger = Arc::new(Ledger::default());
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (hosts, ledger) = (hosts.clone(), ledger.clone());
            tokio::spawn(async move { write(&hosts, &ledger, writer).await })
        })
        .collect();
    ledger.grows(ENOUGH).await;
    fault(ledger.clone()).await;
    ledger.grows(ENOUGH).await;
    ledger.is_over.store(true, Ordering::SeqCst);
    for writer in writers {
        soon(writer).await.unwrap();
    }

    let server = hosts.on_the_server().await;
    for (name, at) in &*ledger.acknowledged.lock() {
        let has = server[name];
        let may_be = ledger.unknown.lock().contains(&(name.clone(), has));
        assert!(has == *at || may_be, "{name}: {at} was acknowledged, and the server has {has}");
    }
    let is_equal = || async { (hosts.in_the_cache().await? == server).then_some(()) };
    eventually("the cache to agree with the server", is_equal).await;
    soon(follow(&mut watch, &mut watched, &server)).await;
    copier.until(&server).await;
    until_synced(&hosts.near).await;
    until_quiet(&hosts.near).await;
}

/// Requests that a store without work sends in a second at most, and in a shorter window.
const REQUESTS_MAX: u64 = 10;
const WINDOW: Duration = Duration::from_millis(500);

/// Returns how much a count of requests grows in a window.
async fn growth(count: impl Fn() -> u64, window: Duration) -> u64 {
    let before = count();
    tokio::time::sleep(window).await;
    count() - before
}

/// Checks that a store that has nothing to do sends few requests: it does not try anything again and again.
async fn assert_quiet(count: impl Fn() -> u64, window: Duration) {
    let sent = growth(count, window).await;
    assert!(sent <= REQUESTS_MAX * window.as_secs().max(1), "{sent} requests in {window:?}");
}

/// Windows in a row in which a store has to send few requests until it is at rest. A slow machine sends what is left of the
/// work in bursts, with windows of silence between them.
const QUIET_WINDOWS: u32 = 4;

/// Waits until the last changes of a host were sent, and the host stays at rest.
async fn until_quiet(store: &CachedStore) {
    let sent = || store.status()[0].requests.sent;
    let quiet = std::cell::Cell::new(0);
    let is_at_rest = || async {
        let is_quiet = growth(sent, WINDOW).await <= REQUESTS_MAX;
        quiet.set(if is_quiet { quiet.get() + 1 } else { 0 });
        (quiet.get() == QUIET_WINDOWS).then_some(())
    };
    eventually("a store to have nothing to do", is_at_rest).await;
}

/// Applies the events of a watch until its state is `wanted`.
async fn follow(watch: &mut Watch, watched: &mut BTreeMap<String, u64>, wanted: &BTreeMap<String, u64>) {
    while watched != wanted {
        let event = watch.next().await.unwrap();
        let Some((name, at)) = state(&event.resource) else { continue };
        match event.kind {
            EventType::Deleted => watched.remove(&name),
            EventType::Added | EventType::Modified => watched.insert(name, at),
        };
    }
}

fn is_ready(store: &CachedStore) -> bool {
    let status = store.status();
    let is_synced = status[0].caches.iter().all(|cache| cache.state == CacheState::Synced);
    status[0].availability == Availability::Ready && is_synced
}

/// Waits until a cache does not follow its server any more. While a fault closes no connection, only the silence of the
/// watch can tell the store.
async fn falls_behind(store: &CachedStore) {
    let is_behind = || async {
        let cache = store.status().remove(0).caches.pop()?;
        matches!(cache.state, CacheState::Behind { .. }).then_some(())
    };
    eventually("the silence of a watch to be noticed", is_behind).await;
}

/// Waits until a cache follows its server again.
async fn until_synced(store: &CachedStore) {
    eventually("the cache to follow its server", || async { is_ready(store).then_some(()) }).await;
}

/// Sets a fault until a write fails because of it.
async fn until_a_write_fails(proxy: &Proxy, fault: NetworkFault, ledger: &Ledger) {
    proxy.set(fault);
    ledger.fails().await;
    proxy.set(NetworkFault::None);
}

/// Has every fault of a network in turn, each until writes succeed again. `cuts` are bytes of answers that still pass.
async fn disturb(proxy: &Proxy, cuts: [u64; 3], near: &CachedStore, ledger: &Ledger) {
    until_a_write_fails(proxy, NetworkFault::Reset, ledger).await;
    ledger.grows(ENOUGH).await;
    until_synced(near).await;
    proxy.set(NetworkFault::Partition);
    ledger.fails().await;
    falls_behind(near).await;
    proxy.set(NetworkFault::None);
    ledger.grows(ENOUGH).await;
    until_a_write_fails(proxy, NetworkFault::StallAfter(0), ledger).await;
    ledger.grows(ENOUGH).await;
    for bytes in cuts {
        proxy.set(NetworkFault::CutAfter(bytes));
        ledger.grows(ENOUGH).await;
    }
    proxy.set(NetworkFault::Delay(Duration::from_millis(20)));
    ledger.grows(ENOUGH).await;
    proxy.set(NetworkFault::None);
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_store_in_nats_survives_resets_partitions_lost_answers_and_delays() {
    let nats = shared_nats();
    let proxy = Proxy::to(nats.port());
    let hosts = Hosts::nats(nats, &proxy);
    let near = hosts.near.clone();
    survives(hosts, async |ledger| disturb(&proxy, [0, 100, 1000], &near, &ledger).await).await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_store_in_nats_survives_a_server_that_is_killed_or_frozen() {
    let nats = Nats::start();
    let proxy = Proxy::to(nats.port());
    let hosts = Hosts::nats(&nats, &proxy);
    let near = hosts.near.clone();
    survives(hosts, async |ledger: Arc<Ledger>| {
        nats.server().kill();
        ledger.fails().await;
        nats.server().start();
        ledger.grows(ENOUGH).await;
        until_synced(&near).await;
        nats.server().freeze();
        ledger.fails().await;
        falls_behind(&near).await;
        nats.server().thaw();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_store_in_a_cluster_survives_resets_partitions_lost_answers_and_delays() {
    let cluster = shared_cluster();
    let proxy = Proxy::to(cluster.apiserver().port());
    let hosts = Hosts::cluster(cluster, &format!("https://{}", proxy.address()));
    let near = hosts.near.clone();
    survives(hosts, async |ledger| disturb(&proxy, [0, 1000, 10_000], &near, &ledger).await).await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_store_in_a_cluster_survives_servers_that_are_killed_or_frozen() {
    let cluster = Cluster::start(ClusterOptions::default());
    let hosts = Hosts::cluster(&cluster, &cluster.url());
    let near = hosts.near.clone();
    survives(hosts, async |ledger: Arc<Ledger>| {
        for server in [cluster.apiserver().server(), cluster.etcd().server()] {
            server.kill();
            ledger.fails().await;
            server.start();
            ledger.grows(ENOUGH).await;
            until_synced(&near).await;
            server.freeze();
            ledger.fails().await;
            falls_behind(&near).await;
            server.thaw();
            ledger.grows(ENOUGH).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_store_in_a_cluster_survives_a_history_that_was_compacted_while_it_was_away() {
    let cluster = Cluster::start(ClusterOptions::default());
    let proxy = Proxy::to(cluster.apiserver().port());
    let hosts = Hosts::cluster(&cluster, &format!("https://{}", proxy.address()));
    let path = format!("/api/v1/namespaces/{}/configmaps", hosts.namespace);
    let (kept, gone) = (hosts.document("kept", 1), hosts.document("gone", 1));
    cluster.request("POST", &path, Some(&gone));
    survives(hosts, async |ledger: Arc<Ledger>| {
        proxy.set(NetworkFault::Partition);
        ledger.fails().await;
        cluster.request("POST", &path, Some(&kept));
        cluster.request("DELETE", &format!("{path}/gone"), None);
        cluster.etcd().compact();
        // The apiserver forgets what it remembered of the history.
        cluster.apiserver().server().kill();
        cluster.apiserver().server().start();
        proxy.set(NetworkFault::None);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_store_in_a_cluster_survives_busy_and_broken_answers() {
    let cluster = shared_cluster();
    let way = Proxy::to(cluster.apiserver().port());
    let proxy = HttpProxy::to(way.port(), cluster.authority());
    survives(Hosts::cluster(cluster, &proxy.url()), async |ledger: Arc<Ledger>| {
        let replies = [
            HttpReply::Status { code: 429, retry_after: Some(1) },
            HttpReply::Status { code: 500, retry_after: None },
            HttpReply::Status { code: 503, retry_after: None },
            HttpReply::NoAnswer,
            HttpReply::CutAfter(20),
        ];
        for reply in replies {
            proxy.add(HttpRule { verb: None, path: String::new(), times: Some(2 * WRITERS), reply });
            ledger.grows(ENOUGH).await;
        }
        for reply in [HttpReply::WatchError(410), HttpReply::Status { code: 410, retry_after: None }] {
            proxy.add(HttpRule { verb: Some("WATCH"), path: "/configmaps".to_owned(), times: Some(2), reply });
            let before = proxy.count("WATCH", "/configmaps");
            // The open watch ends.
            until_a_write_fails(&way, NetworkFault::Reset, &ledger).await;
            let is_open = || async { (proxy.count("WATCH", "/configmaps") >= before + 3).then_some(()) };
            eventually("a watch to be open again", is_open).await;
        }
    })
    .await;
}
