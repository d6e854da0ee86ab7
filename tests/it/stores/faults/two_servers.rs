//! A cache behind a proxy that leads to one apiserver of a cluster and then to another one, which lags.

use std::collections::BTreeMap;
use std::time::Duration;

use homeostat_store::{Error, Key, Precondition, Query, Resource, Revision, Store, View, Write};
use homeostat_testing::{Dice, eventually};
use homeostat_tests::{Cluster, ClusterOptions, NetworkFault, Proxy};
use serde_json::Value;

use super::{Hosts, kind, until_synced};

const SWITCHES: u64 = 30;
/// Steps before each switch, and steps after it.
const STEPS: u64 = 12;
const NAMES: [&str; 3] = ["a", "b", "c"];
/// How much later than the first apiserver the second one hears of a change.
const LAG: Duration = Duration::from_millis(100);

/// The state of a resource.
#[derive(Debug, PartialEq)]
enum State {
    /// It exists, with this uid and this revision.
    Present(String, Revision),
    /// It does not exist.
    Absent,
}

/// All states of a resource, in their order, and how far reads have shown them.
struct History {
    states: Vec<State>,
    shown: usize,
}

/// Where a read gets its answer.
#[derive(Clone, Copy, Debug)]
enum Source {
    Cache,
    Server,
}

struct Scene<'a> {
    cluster: &'a Cluster,
    hosts: Hosts,
    histories: BTreeMap<&'static str, History>,
    /// Numbers the changes.
    changes: u64,
    /// The revision of the last change that was no deletion.
    newest: Revision,
    /// Reads without a request of their own that were answered.
    reads: u64,
}

fn state(resource: &Resource) -> State {
    State::Present(resource.uid().to_owned(), resource.revision())
}

impl History {
    /// Asserts that a read shows the state of the read before, or a later one.
    fn show(&mut self, name: &str, read: &State) {
        let later = self.states[self.shown..].iter().position(|state| state == read);
        let Some(later) = later else {
            panic!("{name}: a read shows {read:?} after {:?} of {:?}", self.states[self.shown], self.states);
        };
        self.shown += later;
    }
}

impl Scene<'_> {
    fn history(&mut self, name: &str) -> &mut History {
        self.histories.get_mut(name).expect("each name has a history")
    }

    fn exists(&self, name: &str) -> bool {
        self.histories[name].states.last() != Some(&State::Absent)
    }

    fn document(&mut self, name: &str) -> Value {
        self.changes += 1;
        self.hosts.document(name, self.changes)
    }

    /// Creates, changes or deletes a resource at the first apiserver, past the host.
    fn change(&mut self, name: &str, deletes: bool) {
        let (exists, document) = (self.exists(name), self.document(name));
        let collection = format!("/api/v1/namespaces/{}/configmaps", self.hosts.namespace);
        let path = format!("{collection}/{name}");
        let answer = match (exists, deletes) {
            (false, _) => self.cluster.request("POST", &collection, Some(&document)),
            (true, false) => self.cluster.request("PUT", &path, Some(&document)),
            (true, true) => self.cluster.request("DELETE", &path, None),
        };
        assert!(matches!(answer.status, 200 | 201), "{answer:?}");
        if exists && deletes {
            return self.history(name).states.push(State::Absent);
        }
        let metadata = answer.json()["metadata"].clone();
        let revision = metadata["resourceVersion"].as_str().unwrap().parse().unwrap();
        self.newest = revision;
        let uid = metadata["uid"].as_str().unwrap().to_owned();
        self.history(name).states.push(State::Present(uid, revision));
    }

    /// Changes a resource by the host. Reads of the host have to show this change from then on.
    async fn write(&mut self, name: &str) {
        if !self.exists(name) {
            return self.change(name, false);
        }
        let write = Write::Update { document: self.document(name), precondition: Precondition::default() };
        // A change that is made twice is one change.
        let written = || async { self.hosts.near.write(write.clone()).await.ok() };
        let written = eventually("a write to be acknowledged", written).await.resource;
        self.newest = written.revision();
        let history = self.history(name);
        history.states.push(state(&written));
        history.show(name, &state(&written));
    }

    /// Asks the host for a resource. `None` while the host cannot answer.
    async fn answer(&self, name: &str, source: Source) -> Option<State> {
        let key = Key::new(kind(), &self.hosts.namespace, name);
        let read = match source {
            Source::Cache => self.hosts.near.get(&key).await,
            Source::Server => self.hosts.near.get_live(&key).await,
        };
        match read {
            Ok(resource) => Some(state(&resource)),
            Err(Error::NotFound { .. }) => Some(State::Absent),
            Err(Error::Unavailable { .. }) => None,
            Err(error) => panic!("{error}"),
        }
    }

    async fn read(&mut self, name: &str, source: Source) {
        let Some(shown) = self.answer(name, source).await else { return };
        self.reads += u64::from(matches!(source, Source::Cache));
        self.history(name).show(name, &shown);
    }

    async fn list(&mut self) {
        let page = match self.hosts.near.list(&Query::all(kind())).await {
            Ok(page) => page,
            Err(Error::Unavailable { .. }) => return,
            Err(error) => panic!("{error}"),
        };
        for name in NAMES {
            let found = page.items.iter().find(|item| item.key().name() == name);
            let shown = found.map_or(State::Absent, |item| state(item));
            self.history(name).show(name, &shown);
        }
    }

    async fn act(&mut self, dice: &mut Dice) {
        for _ in 0..STEPS {
            let name = *dice.one(&NAMES).expect("there are names");
            match dice.below(10) {
                0..=3 => self.change(name, dice.percent(30)),
                4..=5 => self.write(name).await,
                6..=7 => self.read(name, Source::Server).await,
                _ => {}
            }
            // The cache is behind what was shown a moment ago.
            self.read(name, Source::Cache).await;
            if dice.percent(30) {
                self.list().await;
            }
        }
    }

    /// Waits until the cache has the last change, and reads it.
    async fn catch_up(&mut self) {
        self.change(NAMES[0], false);
        let near = &self.hosts.near;
        let has_it = || async { (near.status()[0].caches.first()?.revision? >= self.newest).then_some(()) };
        eventually("the cache to follow the other server", has_it).await;
        for name in NAMES {
            let answer = || async { self.answer(name, Source::Cache).await };
            let answer = eventually("the cache to be read", answer).await;
            self.history(name).show(name, &answer);
            let History { states, shown } = self.history(name);
            assert_eq!(states.last(), Some(&answer), "{name}: the cache has the last of {states:?}");
            *shown = states.len() - 1;
        }
    }
}

/// S15: The reads of a host never go back in time: neither when its connection leads to another server of the
/// cluster, nor while that server lags.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_cache_never_goes_back_behind_another_server_of_the_cluster() {
    let cluster = Cluster::start(ClusterOptions::default());
    let to_etcd = Proxy::to(cluster.etcd().port());
    let second = cluster.second_apiserver_behind(&to_etcd);
    to_etcd.set(NetworkFault::Delay(LAG));
    let proxy = Proxy::to(cluster.apiserver().port());
    let hosts = Hosts::cluster(&cluster, &format!("https://{}", proxy.address()));
    let near = hosts.near.clone();
    let _cached = near.subscribe(&kind(), View::Whole);
    until_synced(&near).await;
    let histories = NAMES.map(|name| (name, History { states: vec![State::Absent], shown: 0 })).into();
    let mut scene = Scene { cluster: &cluster, hosts, histories, changes: 0, newest: Revision::ZERO, reads: 0 };
    for switch in 0..SWITCHES {
        let mut dice = Dice::stream(3, switch);
        scene.act(&mut dice).await;
        let next = if switch % 2 == 0 { &second } else { cluster.apiserver() };
        proxy.set_server(next.port());
        proxy.set(NetworkFault::Reset);
        let is_cut = || async { (proxy.traffic().open == 0).then_some(()) };
        eventually("the connections to the server before to be cut", is_cut).await;
        proxy.set(NetworkFault::None);
        scene.act(&mut dice).await;
        scene.catch_up().await;
    }
    assert!(scene.reads >= SWITCHES * STEPS, "{} reads of the cache were answered", scene.reads);
}
