//! Random writes of three hosts to a bucket of NATS and to a cluster, each the place of one kind. The connections
//! of one host are cut now and then. At rest each cache equals its server, and the changes that each watch has told
//! lead to the same.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use homeostat_fixtures::memory_store;
use homeostat_kubernetes::{ClusterSettings, Credentials};
use homeostat_nats::BucketSettings;
use homeostat_store::cached::{Options, Upstream};
use homeostat_store::routes::{Routes, Rule};
use homeostat_store::schema::Schemas;
use homeostat_store::{
    Change, Error, EventType, Key, Kind, Precondition, Propagation, Query, Resource, Result, RoutedStore, Scope, Store,
    StorePart, Subscription, View, Watch, Write,
};
use homeostat_testing::{Dice, eventually, soon};
use homeostat_tests::{Cluster, NetworkFault, Proxy, shared_cluster, shared_nats};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::kubernetes::{cluster_settings, cluster_store, namespace};
use super::nats::{contacted, settings};
use crate::comparison::asked;

const ROUNDS: u64 = 1000;
/// The variable that chooses the dice of a run.
const SEED: &str = "RANDOM_STORES_SEED";
/// Each so many rounds the connections of one host are cut.
const CUT_EVERY: u64 = 100;
const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// The resources of a kind, by name.
type Rows = BTreeMap<String, Arc<Resource>>;

/// A kind, and the server that has its resources.
struct Place {
    kind: Kind,
    server: Arc<dyn Upstream>,
}

/// A watch of one kind, and what it has told.
struct Follower {
    watch: Watch,
    told: Rows,
    /// How often the watch had to begin anew.
    restarts: u64,
    _user: Subscription,
}

/// The stores of one host as one, and a follower of each kind.
struct Host {
    store: Arc<RoutedStore>,
    followers: Vec<Follower>,
}

/// Two servers with three hosts.
struct Scene {
    places: Vec<Place>,
    hosts: Vec<Host>,
    /// Between the servers and the last host.
    proxies: [Proxy; 2],
    namespace: String,
    /// Writes whose outcome nobody knows: a host whose connections are cut may notice that a round later.
    unanswered: u64,
}

impl Place {
    /// Lists the kind at its server.
    async fn rows(&self) -> Rows {
        let query = Query::all(self.kind.clone());
        let listed = eventually("a list of the server", || async { self.server.list(&query).await.ok() }).await;
        rows(listed.items)
    }
}

impl Host {
    async fn new(stores: [Arc<dyn Store>; 2], places: &[Place]) -> Self {
        let part =
            |(place, store): (&Place, Arc<dyn Store>)| StorePart { name: place.kind.group.as_str().into(), store };
        let rule = |Place { kind, .. }: &Place| Rule {
            pattern: format!("{}/*", kind.group).parse().unwrap(),
            store: kind.group.as_str().into(),
            view: View::Whole,
        };
        let routes = Routes::new(places.iter().map(rule).collect()).unwrap();
        let store = RoutedStore::new(memory_store(), places.iter().zip(stores).map(part).collect(), routes).unwrap();
        let mut followers = Vec::new();
        for Place { kind, .. } in places {
            let _user = store.subscribe(kind, View::Whole);
            let (watch, told) = watched(&store, kind).await;
            followers.push(Follower { watch, told, restarts: 0, _user });
        }
        Self { store: Arc::new(store), followers }
    }
}

impl Follower {
    /// Applies the changes that the watch tells, until they lead to `wanted`, the state of the server. `is_settled`
    /// says that no write can still happen.
    async fn follow(&mut self, store: &RoutedStore, place: &Place, mut wanted: Rows, is_settled: bool) {
        while !is_same(&self.told, &wanted) {
            let event = match soon(self.watch.next()).await {
                Ok(event) => event,
                Err(Error::Expired { .. }) => {
                    (self.watch, self.told) = watched(store, &place.kind).await;
                    wanted = place.rows().await;
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
            if !is_settled {
                wanted = place.rows().await;
            }
        }
    }
}

/// Lists a kind, and watches it from there.
async fn watched(store: &RoutedStore, kind: &Kind) -> (Watch, Rows) {
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
    /// Draws a write. A third of the preconditions name the revision that the host's watch has told last: it is the current one,
    /// or an old one.
    fn write(&self, dice: &mut Dice, host: &Host) -> Write {
        let at = dice.index(self.places.len());
        let kind = &self.places[at].kind;
        let name = dice.one(&NAMES).expect("there are names");
        let (key, size) = (Key::new(kind.clone(), &self.namespace, name), dice.below(100));
        let metadata = json!({"name": name, "namespace": self.namespace, "labels": {"size": size.to_string()}});
        let document = json!({"apiVersion": kind.api_version(), "kind": kind.name, "metadata": metadata,
            "spec": {"size": size}});
        let known = host.followers[at].told.get(*name).filter(|_| dice.percent(33));
        let precondition = Precondition { revision: known.map(|known| known.revision()), ..Precondition::default() };
        let merge = |patch: Value| Write::Patch {
            key: key.clone(),
            change: Change::Merge(patch),
            precondition: precondition.clone(),
        };
        match dice.below(12) {
            0..=2 => Write::Create { document },
            3..=4 => merge(json!({"spec": {"size": size}})),
            5 => merge(
                json!({"metadata": {"finalizers": if dice.percent(40) { json!(["demo.dev/hold"]) } else { json!(null) }}}),
            ),
            6 => Write::UpdateStatus { key, status: json!({"at": size}), precondition },
            7 => Write::Update { document, precondition },
            8..=9 => Write::Apply { document, manager: format!("dice-{}", dice.below(2)), force: dice.percent(50) },
            _ => Write::Delete { key, precondition, propagation: Propagation::Background, grace_seconds: None },
        }
    }

    /// Makes some writes at the same time, each by one of the hosts. Returns whether all of them were answered.
    async fn act(&mut self, dice: &mut Dice, is_cut: bool) -> bool {
        let mut writes = JoinSet::new();
        for _ in 0..=dice.below(20) {
            let host = &self.hosts[dice.index(self.hosts.len())];
            let (write, store) = (self.write(dice, host), Arc::clone(&host.store));
            writes.spawn(async move {
                let written = store.write(write.clone()).await;
                (written.map(drop), format!("{write:?}"))
            });
        }
        if is_cut {
            self.cut().await;
        }
        let before = self.unanswered;
        while let Some(ended) = soon(writes.join_next()).await {
            let (written, write) = ended.unwrap();
            assert!(is_expected(&written), "{write}: {written:?}");
            self.unanswered += u64::from(matches!(written, Err(Error::Unavailable { .. })));
        }
        self.unanswered == before
    }

    /// Cuts the connections of the last host.
    async fn cut(&self) {
        for proxy in &self.proxies {
            proxy.set(NetworkFault::Reset);
            // Connections do not notice a fault that is over at once.
            let is_cut = || async { (proxy.traffic().open == 0).then_some(()) };
            eventually("the connections to be cut", is_cut).await;
            proxy.set(NetworkFault::None);
        }
    }

    /// Compares the caches and watches of all hosts with the servers. `is_settled` is as for [`Follower::follow`].
    async fn compare(&mut self, round: u64, is_settled: bool) {
        for (at, place) in self.places.iter().enumerate() {
            let query = Query::all(place.kind.clone());
            for host in &mut self.hosts {
                let same = || async {
                    let wanted = place.rows().await;
                    let cached = rows(host.store.list(&query).await.ok()?.items);
                    is_same(&cached, &wanted).then_some((cached, wanted))
                };
                let (cached, wanted) = eventually("a cache that equals its server", same).await;
                for (name, resource) in &cached {
                    assert_eq!(resource.document(), wanted[name].document(), "round {round}");
                }
                host.followers[at].follow(&host.store, place, wanted, is_settled).await;
            }
        }
    }

    async fn run(mut self, seed: u64) {
        for round in 0..ROUNDS {
            let mut dice = Dice::stream(seed, round);
            let is_settled = self.act(&mut dice, round % CUT_EVERY == CUT_EVERY - 1).await;
            self.compare(round, is_settled).await;
        }
        let kinds = self.places.len() as u64;
        let restarts: u64 = self.hosts.iter().flat_map(|host| &host.followers).map(|follower| follower.restarts).sum();
        assert!(restarts <= kinds * ROUNDS / CUT_EVERY, "watches began anew {restarts} times");
        assert!(self.unanswered <= kinds * ROUNDS / 10, "{} writes were not answered", self.unanswered);
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
                | Error::ApplyConflict { .. }
                | Error::Invalid { .. }
                | Error::Unavailable { .. })
    )
}

/// Returns the seed of the run: that of every run, or the one that a person asks for.
fn seed() -> u64 {
    asked(SEED).map_or(1, |seed| seed.parse().expect("a seed is a number"))
}

fn options() -> Options {
    Options { read_wait_max: Duration::from_secs(30), ..Options::default() }
}

/// S15: Each cache of two far stores equals its server once three hosts have stopped to write to both.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn caches_of_two_stores_equal_their_servers_at_rest_after_random_writes() {
    let (url, cluster) = (shared_nats().url(), shared_cluster());
    let all = cluster_store().await;
    let namespace = namespace(&all).await;
    let own = |settings: ClusterSettings| ClusterSettings { namespace: Some(namespace.clone()), ..settings };
    let in_cluster = Arc::new(homeostat_kubernetes::Cluster::new(own(cluster_settings("admin"))));
    soon(in_cluster.connect()).await.unwrap();
    let places = vec![
        Place { kind: Kind::new("demo.dev", "v1", "Widget"), server: contacted(&url, "random").await },
        Place { kind: Kind::new("example.dev", "v1", "Widget"), server: in_cluster },
    ];
    let proxies = [Proxy::to(shared_nats().port()), Proxy::to(cluster.apiserver().port())];
    let [cut_url, cut_cluster] = [("nats", &proxies[0]), ("https", &proxies[1])]
        .map(|(scheme, proxy)| format!("{scheme}://{}", proxy.address()));
    let cut = cluster.kubeconfig_with(&cut_cluster, &json!({ "token": Cluster::token("admin") }));
    let cut = ClusterSettings::new("cut", Credentials::Kubeconfig { files: vec![cut], context: None });
    let mut hosts = Vec::new();
    let (near, also_near) = (cluster_settings("admin"), cluster_settings("admin"));
    for (url, in_cluster) in [(&url, near), (&url, also_near), (&cut_url, cut)] {
        let in_nats: BucketSettings = settings(url, "random");
        let in_nats = homeostat_nats::open(in_nats, Schemas::default(), options()).unwrap();
        let in_cluster = homeostat_kubernetes::open(own(in_cluster), options());
        hosts.push(Host::new([Arc::new(in_nats), Arc::new(in_cluster)], &places).await);
    }
    Scene { places, hosts, proxies, namespace, unanswered: 0 }.run(seed()).await;
}
