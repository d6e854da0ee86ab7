//! Hosts as resources, through kubectl.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use homeostat_fixtures::{FaultyStore, MemoryLeases, memory_store};
use homeostat_runtime::{FleetOptions, Options};
use homeostat_store::Store;
use homeostat_testing::soon;
use homeostat_tests::{guest, routed_stores};

use super::*;

/// The length of the leases of these hosts.
const LEASE: Duration = Duration::from_secs(3);

/// Starts a host with the controller `tally`, whose kind lives in a store that several hosts share.
async fn start(name: &str, shared: &Arc<dyn Store>, leases: &MemoryLeases) -> TestHost {
    let bus = FaultyStore::over(Arc::clone(shared));
    bus.share(Arc::new(leases.clone()));
    let stores = routed_stores(memory_store(), bus, &["demo.homeostat.dev/*"]);
    let fleet = FleetOptions::new(Some(name), LEASE);
    let test = TestHost::with(memory_store(), |options| Options { fleet, mirrors_hosts: true, stores, ..options });
    let test = test.await;
    test.host.set_address("10.0.0.1:8081");
    let definition = test.definition("tally", &guest("guest-tally")).await;
    test.host.put(definition).await.unwrap();
    test
}

/// C7: Hosts are resources: they are listed, described, waited for and watched, and nobody but the host writes them.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn kubectl_shows_hosts_and_sees_one_leave() {
    let (shared, leases) = (memory_store() as Arc<dyn Store>, MemoryLeases::default());
    let cluster = Cluster::over(start("a", &shared, &leases).await).await;
    let other = start("b", &shared, &leases).await;
    eventually("both hosts", async || {
        let (_, said) = cluster.run(&["wait", "--for=condition=Ready", "--timeout=1s", "host/a", "host/b"]).await;
        (said.matches("condition met").count() == 2).then_some(())
    })
    .await;
    let wide = cluster.done(&["get", "hosts", "-o", "wide"]).await;
    let lines: Vec<Vec<&str>> = wide.lines().map(cells).collect();
    let header = ["NAME", "THIS", "STATE", "VERSION", "LEASES", "ADDRESS", "PROCESSORS", "LOAD", "IDENTITY"];
    assert_eq!(lines[0], header, "{wide}");
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!((&lines[1][..4], lines[1][5]), (&["a", "yes", "Active", version][..], "10.0.0.1:8081"), "{wide}");
    assert_eq!(lines[2][..4], ["b", "-", "Active", version], "{wide}");
    let holder = eventually("a holder", async || {
        let rows = cluster.done(&["get", "hosts", "--no-headers"]).await;
        let row = rows.lines().map(cells).find(|row| row[4] == "tally")?;
        Some(row[0].to_owned())
    })
    .await;
    let lease = cluster.json(&["get", "host", &holder]).await["status"]["leases"][0].clone();
    assert!(lease["name"] == "tally" && lease["epoch"].is_u64() && lease["since"].is_string(), "{lease}");
    let explained = cluster.done(&["explain", "host.status.leases.epoch"]).await;
    assert!(explained.contains("The number of the term of the holder"), "{explained}");

    let manifest = "apiVersion: homeostat.dev/v1alpha1\nkind: Host\nmetadata: {name: mine}\n";
    cluster.file("host.yaml", manifest);
    for refused in [
        &["apply", "--validate=false", "-f", "host.yaml"][..],
        &["delete", "host", "b"],
        &["annotate", "host", "a", "note=hello"],
        &["patch", "host", "a", "--subresource=status", "--type=merge", "-p", r#"{"status":{"state":"Gone"}}"#],
    ] {
        let said = cluster.refused(refused).await;
        assert!(said.contains("homeostat.dev/v1alpha1/Host can only be read"), "{refused:?}: {said}");
    }

    let mut watch = cluster.command(&["get", "hosts", "-w", "--no-headers"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut line = async || soon(lines.next_line()).await.unwrap().unwrap();
    while cells(&line().await)[0] != "b" {}
    other.host.shutdown(Duration::ZERO).await;
    loop {
        let row = line().await;
        if cells(&row)[..3] == ["b", "-", "Gone"] {
            break;
        }
    }
    let gone = cluster.json(&["get", "host", "b"]).await;
    let ready = &gone["status"]["conditions"][0];
    assert_eq!((&ready["status"], &ready["reason"]), (&"False".into(), &"LeaseReleased".into()), "{gone}");
}
