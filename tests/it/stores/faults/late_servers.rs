//! Hosts that start while the servers of their stores do not answer.

use homeostat_runtime::ControllerState;

use super::*;

/// Runs a controller on a store whose server does not answer yet. The controller waits. `start` starts the server, and
/// the controller begins.
async fn survives_a_late_server(hosts: Hosts, start: impl FnOnce()) {
    let copier = Copier::spawn(&hosts.near).await;
    let is_missed = || async {
        matches!(hosts.near.status()[0].availability, Availability::Starting { reason: Some(_) }).then_some(())
    };
    eventually("the store to miss its server", is_missed).await;
    let is_told = || async { copier.test.status("copier").message.filter(|message| message.contains("which failed")) };
    eventually("the controller to say that its kind cannot be listed", is_told).await;
    assert_eq!(copier.test.status("copier").state, ControllerState::Syncing);

    start();
    soon(copier.test.host.ready("copier")).await.unwrap();
    hosts.create("late").await;
    let server = hosts.on_the_server().await;
    assert!(server.keys().eq(["late"]), "{server:?}");
    copier.until(&server).await;
    let is_equal = || async { (hosts.in_the_cache().await? == server).then_some(()) };
    eventually("the cache to agree with the server", is_equal).await;
    until_synced(&hosts.near).await;
    until_quiet(&hosts.near).await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_host_starts_without_its_store_in_nats() {
    let nats = Nats::start();
    let proxy = Proxy::to(nats.port());
    nats.server().kill();
    survives_a_late_server(Hosts::nats(&nats, &proxy), || nats.server().start()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_host_starts_without_its_store_in_a_cluster() {
    let cluster = Cluster::start(ClusterOptions::default());
    let namespace = namespace(&cluster);
    let apiserver = cluster.apiserver().server();
    apiserver.kill();
    let user = json!({ "token": Cluster::token("admin") });
    let hosts = Hosts::cluster_as(&cluster, &cluster.url(), &namespace, &user);
    survives_a_late_server(hosts, || apiserver.start()).await;
}
