//! Lists that are cut again and again before their end. The requests are counted where they arrive.

use std::time::Instant;

use super::*;

/// How long each list is cut.
const WINDOW: Duration = Duration::from_secs(6);
/// Attempts to follow a kind whose waits are shorter than later ones.
const FIRST_ATTEMPTS_MAX: u64 = 6;
/// The shortest wait after them.
const WAIT_MIN: Duration = Duration::from_millis(2500);
/// Bytes of each list that pass. They have some of its resources.
const PASSING_BYTES: usize = 3000;

fn rule(verb: &'static str, path: &str, reply: HttpReply) -> HttpRule {
    HttpRule { verb: Some(verb), path: path.to_owned(), times: None, reply }
}

/// Cuts each list of a store for a while. `verb` is that of its lists.
async fn survives_cut_lists(cluster: &Cluster, verb: &'static str) {
    let way = Proxy::to(cluster.apiserver().port());
    let proxy = HttpProxy::to(way.port(), cluster.authority());
    let hosts = Hosts::cluster(cluster, &proxy.url());
    let near = Arc::clone(&hosts.near);
    let collection = format!("/api/v1/namespaces/{}/configmaps", hosts.namespace);
    // No other store uses this proxy, and the path of one resource is longer.
    let attempts = |verb: &str| proxy.requests().get(&(verb.to_owned(), collection.clone())).copied().unwrap_or(0);
    survives(hosts, async |ledger: Arc<Ledger>| {
        proxy.add(rule("WATCH", "sendInitialEvents", HttpReply::CutAfter(PASSING_BYTES)));
        // No watch goes on after the last revision, so each attempt needs a list.
        proxy.add(rule("WATCH", "/configmaps?", HttpReply::WatchError(410)));
        proxy.add(rule("GET", "/configmaps?", HttpReply::CutAfter(PASSING_BYTES)));
        let (began, before) = (Instant::now(), ["WATCH", "GET"].map(attempts));
        // The open watch ends.
        until_a_write_fails(&way, NetworkFault::Reset, &ledger).await;
        ledger.grows(ENOUGH).await;
        falls_behind(&near).await;
        tokio::time::sleep(WINDOW).await;
        let is_cut = || async { (attempts(verb) >= before[usize::from(verb == "GET")] + 3).then_some(()) };
        eventually("lists to be cut", is_cut).await;

        let count = attempts("WATCH") + attempts("GET") - before[0] - before[1];
        let waits_max = began.elapsed().as_millis() / WAIT_MIN.as_millis();
        let count_max = FIRST_ATTEMPTS_MAX + u64::try_from(waits_max).unwrap();
        assert!(count <= count_max, "{count} attempts in {:?}", began.elapsed());
        proxy.clear();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_store_in_a_cluster_survives_streamed_lists_that_are_cut_again_and_again() {
    survives_cut_lists(shared_cluster(), "WATCH").await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_store_in_a_cluster_survives_pages_of_lists_that_are_cut_again_and_again() {
    let feature_gates = vec![("WatchList", false)];
    let cluster = Cluster::start(ClusterOptions { feature_gates, ..ClusterOptions::default() });
    survives_cut_lists(&cluster, "GET").await;
}
