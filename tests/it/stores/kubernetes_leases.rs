//! Leases of controllers in a cluster, against the real apiserver: the machine of a lease with its requests, and an
//! elector of client-go on the other side.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use homeostat_fleet::{AcquireCondition, Answer, Epoch, Identity, Observation, Record, Request, Times};
use homeostat_kubernetes::{Cluster, ClusterSettings};
use homeostat_store::cached::{CachedState, Upstream as _};
use homeostat_store::{Error, Key, LeaseRequests, Write};
use homeostat_testing::{eventually, soon};
use homeostat_tests::{Cluster as Server, HttpProxy, HttpReply, HttpRule, elector, shared_cluster};
use serde_json::{Value, json};

use crate::elector::Elector;

use super::kubernetes::{cluster_settings, cluster_store, connected, document, namespace, settings_of, widgets};
use super::lease_host::{LeaseHost, NEW, TIMES, Terms, acquired, lease, over, take_turns};

/// Times with which a poll finds nothing while a test waits.
const RARE: Times = Times {
    length: Duration::from_secs(300),
    renew_deadline: Duration::from_secs(250),
    retry_period: Duration::from_secs(100),
    request_timeout: Duration::from_secs(10),
    in_flight_max: Duration::from_secs(1),
};

/// The leases of one test: a namespace of its own.
struct Leases {
    namespace: String,
}

impl Leases {
    async fn new() -> Self {
        Self { namespace: namespace(&*cluster_store().await).await }
    }

    fn settings(&self, user: &str) -> ClusterSettings {
        ClusterSettings { lease_namespace: Some(self.namespace.clone()), ..cluster_settings(user) }
    }

    /// Connects a host to the cluster.
    async fn host(&self) -> Arc<Cluster> {
        connected(self.settings("admin")).await
    }

    /// Returns the settings of a host behind a proxy.
    fn behind(&self, proxy: &HttpProxy) -> ClusterSettings {
        let file = shared_cluster().kubeconfig_with(&proxy.url(), &json!({"token": Server::token("admin")}));
        ClusterSettings { lease_namespace: Some(self.namespace.clone()), ..settings_of(file) }
    }

    fn path(&self, name: &str) -> String {
        format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases{name}", self.namespace)
    }

    /// Returns a record as the server has it.
    fn record(&self, name: &str) -> Value {
        shared_cluster().request("GET", &self.path(name), None).json()
    }

    /// Deletes the record of `web`, as a person does.
    fn delete(&self) {
        let answer = shared_cluster().request("DELETE", &self.path("/homeostat-web"), None);
        assert_eq!(answer.status, 200, "{answer:?}");
    }
}

fn proxy() -> HttpProxy {
    let server = shared_cluster();
    HttpProxy::to(server.apiserver().port(), server.authority())
}

async fn read(lease: &Arc<dyn LeaseRequests>) -> Observation {
    match lease.carry_out(&Request::Read).await.unwrap() {
        Answer::Found(observation) => observation,
        answer => panic!("{answer:?}"),
    }
}

async fn present(lease: &Arc<dyn LeaseRequests>) -> Record {
    match read(lease).await {
        Observation::Present(record) => record,
        absent => panic!("{absent:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_lease_in_a_cluster_passes_at_a_release_and_after_a_crash() {
    let leases = Leases::new().await;
    let (one, two) = (leases.host().await, leases.host().await);
    take_turns(&one, &two, async |first| {
        let look = lease(&two, "web", "c_1");
        let renewed = || async { Some(present(&look).await).filter(|record| record.version.0 > first.0) };
        let record = eventually("a renewal", renewed).await;
        assert_eq!((record.epoch, record.holder), (first, Some(Identity::new("a_1"))));
    })
    .await;
    let spec = leases.record("/homeostat-web")["spec"].clone();
    assert_eq!((&spec["holderIdentity"], &spec["leaseTransitions"]), (&json!("a_1"), &json!(2)));
}

/// No wait of the machine is part of the hand-over.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_release_in_a_cluster_is_seen_by_the_watch() {
    let leases = Leases::new().await;
    let (one, two) = (leases.host().await, leases.host().await);
    for round in 0..3 {
        let (controller, terms) = (format!("web-{round}"), Arc::new(Terms::default()));
        let a = LeaseHost::start(&one, &controller, "a_1", RARE, &terms);
        a.wants().await;
        let first = a.holds().await;
        let b = LeaseHost::start(&two, &controller, "b_1", RARE, &terms);
        b.wants().await;
        a.gives_up(None).await;
        assert!(b.holds().await > first);
        terms.check();
        let spans = terms.spans();
        let gap = spans[1].0.duration_since(spans[0].1).unwrap();
        assert!(gap < RARE.retry_period / 16, "{gap:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_frozen_holder_in_a_cluster_has_lost_its_lease_when_it_goes_on() {
    let leases = Leases::new().await;
    let (one, two) = (leases.host().await, leases.host().await);
    let terms = Arc::new(Terms::default());
    let a = LeaseHost::start(&one, "web", "a_1", TIMES, &terms);
    let b = LeaseHost::start(&two, "web", "b_1", TIMES, &terms);
    a.wants().await;
    let first = a.holds().await;
    b.wants().await;
    let frozen = a.freeze().await;
    let second = b.holds().await;
    assert!(second > first);
    drop(frozen);
    a.has_lost().await;
    b.gives_up(None).await;
    assert!(a.holds().await > second, "the host waits for its next term");
    terms.check();
}

/// The server makes a new `Lease` of a replacement of a deleted one, unless the replacement has a uid.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn no_write_over_a_version_makes_a_deleted_lease_again() {
    let leases = Leases::new().await;
    let store = leases.host().await;
    let (a, b) = (lease(&store, "web", "a_1"), lease(&store, "web", "b_1"));
    assert_eq!(read(&a).await, Observation::Absent { fence: None });
    let (version, epoch) = acquired(&a, &NEW).await;
    assert_eq!(Epoch(version.0), epoch);
    assert_eq!(b.carry_out(&NEW).await, Ok(Answer::Conflict), "it exists");
    assert_eq!(b.carry_out(&over(homeostat_fleet::Version(version.0 - 1))).await, Ok(Answer::Conflict));
    present(&b).await;
    leases.delete();
    let renewal = Request::Renew { expected: version, epoch };
    let release = Request::Release { expected: version, epoch, preferred_holder: None };
    for (lease, request) in [(&a, &renewal), (&a, &release), (&b, &over(version)), (&a, &over(version))] {
        assert_eq!(lease.carry_out(request).await, Ok(Answer::Conflict), "{request:?}");
        assert_eq!(read(&lease_of_other(&store)).await, Observation::Absent { fence: None }, "{request:?}");
    }
    let (_, next) = acquired(&b, &NEW).await;
    assert!(next > epoch, "no epoch is used twice");
    assert_eq!(a.carry_out(&renewal).await, Ok(Answer::Conflict), "it is another one");
    // No server has a fence, so nobody saw one.
    let fenced = Request::Acquire { expected: AcquireCondition::Absent { fence: Some(epoch) }, transitions: 0 };
    assert_eq!(a.carry_out(&fenced).await, Ok(Answer::Conflict));
}

/// Requests of a host that remembers nothing.
fn lease_of_other(store: &Arc<Cluster>) -> Arc<dyn LeaseRequests> {
    lease(store, "web", "c_1")
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_lease_that_is_not_understood_is_left_alone() {
    let leases = Leases::new().await;
    let store = leases.host().await;
    let a = lease(&store, "web", "a_1");
    let strange = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "homeostat-web"}, "spec": {"holderIdentity": "x"}});
    let made = shared_cluster().request("POST", &leases.path(""), Some(&strange));
    assert_eq!(made.status, 201, "{made:?}");
    let version: u64 = made.json()["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    for request in [Request::Read, over(homeostat_fleet::Version(version))] {
        let error = a.carry_out(&request).await.unwrap_err();
        assert!(error.to_string().contains("cannot be read: it has a holder"), "{error}");
    }
    assert_eq!(a.carry_out(&NEW).await, Ok(Answer::Conflict));
    assert_eq!(leases.record("/homeostat-web")["spec"], strange["spec"]);
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_cluster_that_forbids_leases_or_lacks_their_namespace_says_so() {
    let leases = Leases::new().await;
    let ann = connected(leases.settings("ann")).await;
    let refused = lease(&ann, "web", "a_1").carry_out(&Request::Read).await.unwrap_err();
    assert!(matches!(refused, Error::Forbidden { .. }), "{refused:?}");
    let text = refused.to_string();
    assert!(text.contains("read of the lease web") && text.contains("cannot get resource"), "{text}");
    let watched = ann.leases().unwrap().watch_leases().await.map(|_| ()).unwrap_err();
    assert!(matches!(watched, Error::Forbidden { .. }), "{watched:?}");
    let nowhere = ClusterSettings { lease_namespace: Some("nowhere".to_owned()), ..cluster_settings("admin") };
    let store = connected(nowhere).await;
    let error = lease(&store, "web", "a_1").carry_out(&NEW).await.unwrap_err();
    assert!(error.to_string().contains("\\\"nowhere\\\" not found"), "{error}");
    let long = lease_name_error(&store, &"x".repeat(64));
    assert!(matches!(long, Some(Error::Invalid { .. })), "{long:?}");
}

fn lease_name_error(store: &Arc<Cluster>, controller: &str) -> Option<Error> {
    let name = homeostat_fleet::LeaseName::new(controller, 0, 1).unwrap();
    store.leases().unwrap().lease(&name, &Identity::new("a_1"), TIMES.length).err()
}

/// The store is limited to a namespace, and the leases are there.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn leases_are_in_the_namespace_of_the_store_or_of_the_context() {
    let leases = Leases::new().await;
    let limited = ClusterSettings { namespace: Some(leases.namespace.clone()), ..cluster_settings("admin") };
    acquired(&lease(&connected(limited).await, "web", "a_1"), &NEW).await;
    assert_eq!(leases.record("/homeostat-web")["spec"]["holderIdentity"], "a_1");
    let controller = format!("of-context-{}", leases.namespace);
    acquired(&lease(&connected(cluster_settings("admin")).await, &controller, "a_1"), &NEW).await;
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/default/leases/homeostat-{controller}");
    assert_eq!(shared_cluster().request("GET", &path, None).status, 200);
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn an_acquisition_whose_answer_is_lost_ends_in_a_term_with_a_known_epoch() {
    let leases = Leases::new().await;
    let proxy = proxy();
    let (far, near) = (connected(leases.behind(&proxy)).await, leases.host().await);
    let lost = |verb: &'static str| HttpRule {
        verb: Some(verb),
        path: "/leases".to_owned(),
        times: Some(1),
        reply: HttpReply::NoAnswer,
    };
    let terms = Arc::new(Terms::default());
    for verb in ["POST", "PUT"] {
        proxy.add(lost(verb));
        let host = LeaseHost::start(&far, "web", &format!("{}_1", verb.to_lowercase()), TIMES, &terms);
        host.wants().await;
        let epoch = host.holds().await;
        let record = present(&lease(&near, "web", "b_1")).await;
        assert_eq!(record.epoch, epoch);
        host.gives_up(None).await;
        host.has_lost().await;
        // The release is a write, too.
        eventually("a free lease", || async {
            present(&lease(&near, "web", "b_1")).await.holder.is_none().then_some(())
        })
        .await;
    }
    proxy.clear();
    terms.check();
}

/// The host may have one request on its way, and that one hangs.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_lease_waits_for_no_other_request_of_its_host() {
    let (leases, proxy) = (Leases::new().await, proxy());
    let deadline = Duration::from_secs(600);
    let store = connected(ClusterSettings { in_flight_max: 1, deadline, ..leases.behind(&proxy) }).await;
    proxy.add(HttpRule {
        verb: Some("GET"),
        path: "/widgets/a".to_owned(),
        times: None,
        reply: HttpReply::Late(deadline),
    });
    let (hanging, key) = (Arc::clone(&store), Key::new(widgets(), &leases.namespace, "a"));
    let hangs = tokio::spawn(async move { hanging.get(&key).await });
    eventually("the request", || async { (proxy.count("GET", "/widgets/a") > 0).then_some(()) }).await;
    soon(acquired(&lease(&store, "web", "a_1"), &NEW)).await;
    hangs.abort();
}

/// A write of a host with leases ends in time, with all its requests.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_write_to_a_cluster_ends_at_its_deadline() {
    let (leases, proxy) = (Leases::new().await, proxy());
    let (write_deadline, deadline) = (Some(Duration::from_secs(1)), Duration::from_secs(600));
    let store = connected(ClusterSettings { write_deadline, deadline, ..leases.behind(&proxy) }).await;
    // The server gets the deadline, too.
    let late = HttpReply::Late(Duration::from_secs(600));
    proxy.add(HttpRule { verb: Some("POST"), path: "timeout=".to_owned(), times: None, reply: late });
    let key = Key::new(widgets(), &leases.namespace, "a");
    let write = Write::Create { document: document(&key) };
    let refused = soon(store.submit(write.into(), CachedState::Unknown)).await.unwrap_err();
    assert!(matches!(refused, Error::Unavailable { .. }), "{refused:?}");
}

/// Starts an elector of client-go beside the host.
fn start_elector(leases: &Leases, name: &str, identity: &str) -> Elector {
    let server = shared_cluster();
    let authority = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(authority.path(), server.authority().pem()).unwrap();
    let authority = authority.into_temp_path().keep().unwrap();
    let token = Server::token("admin");
    let trust = ["--token", &token, "--certificate-authority", authority.to_str().unwrap()];
    Elector::start(&server.url(), &trust, &leases.namespace, name, identity)
}

/// client-go's leader election and a host take turns at one `Lease`, and never hold it at once.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_host_and_an_elector_of_client_go_take_turns() {
    tokio::task::spawn_blocking(elector).await.unwrap();
    let leases = Leases::new().await;
    let (store, terms) = (leases.host().await, Arc::new(Terms::default()));
    let host = |identity: &str| LeaseHost::start(&store, "web", identity, TIMES, &terms);
    let mut held = Vec::new();
    // client-go makes the record, and it has no label of the host.
    let mut first = start_elector(&leases, "homeostat-web", "go-1");
    first.leads().await;
    let a = host("a_1");
    a.wants().await;
    held.push(first.release().await);
    a.holds().await;
    // It waits while the host renews, for longer than the lease.
    let mut second = start_elector(&leases, "homeostat-web", "go-2");
    second.sees("a_1").await;
    let renewed = terms.spans()[0].0 + TIMES.length + TIMES.length / 2;
    eventually("renewals for longer than the lease", || async { (SystemTime::now() > renewed).then_some(()) }).await;
    assert!(a.epoch().is_some(), "the elector respects the renewals of the host");
    // The holder dies.
    drop(a);
    second.leads().await;
    let b = host("b_1");
    b.wants().await;
    // The elector dies.
    held.push(second.kill().await);
    b.holds().await;
    // The host releases.
    let mut third = start_elector(&leases, "homeostat-web", "go-3");
    third.sees("b_1").await;
    b.gives_up(None).await;
    third.leads().await;
    held.push(third.release().await);
    b.wants().await;
    b.holds().await;

    terms.check();
    let mut spans = terms.spans();
    assert_eq!(spans.len(), 3);
    spans.extend(held);
    spans.sort();
    assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0), "two held the lease: {spans:?}");
    let record = leases.record("/homeostat-web");
    assert_eq!(record["metadata"]["labels"], json!({"homeostat.dev/controller": "web"}));
    assert_eq!(record["spec"]["leaseTransitions"], 5);
}
