//! The feeder `nats` of a real host with a real server: a burst over killed hosts and a killed server, malformed
//! messages, plain subjects with lost messages, and the shards of two hosts.

use std::time::Duration;

use async_nats::jetstream::{self, consumer::PullConsumer, stream};
use homeostat_testing::{BUILD_BOUND, eventually_built, soon, within};
use homeostat_tests::{HostProcess, Nats, guest, shared_nats};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::metrics::scrape::Scrape;
use crate::stores::hosts::{file, in_nats};

/// The folders of a host with the controller `noop`, whose feeder `orders` has a source in NATS.
struct World {
    manifests: TempDir,
    scratch: TempDir,
}

impl World {
    fn new(nats: &Nats, name: &str, source: &Value, keys: &Value) -> Self {
        let world = Self { manifests: TempDir::new().unwrap(), scratch: TempDir::new().unwrap() };
        let stores = json!({
            "apiVersion": "homeostat.dev/v1alpha1", "kind": "Stores",
            "stores": [{"name": "bus", "nats": {"servers": [nats.url()], "bucket": name, "create": {"replicas": 1}}}],
            "routes": [{"kinds": ["far.dev/*"], "store": "bus"}],
        });
        let mut source = source.clone();
        source["store"] = "bus".into();
        let controller = json!({
            "apiVersion": "homeostat.dev/v1alpha1", "kind": "Controller", "metadata": {"name": "noop"},
            "spec": {
                "component": {"file": "noop.wasm"},
                "grants": {"resources": [{"kinds": ["*"], "verbs": ["*"], "namespaces": ["*"]}]},
                "feeders": [{"name": "orders", "nats": source, "keys": keys}],
            },
        });
        std::fs::copy(guest("guest-noop"), world.manifests.path().join("noop.wasm")).unwrap();
        std::fs::write(world.manifests.path().join("stores.yaml"), stores.to_string()).unwrap();
        std::fs::write(world.manifests.path().join("noop.json"), controller.to_string()).unwrap();
        world
    }

    /// Changes the manifest of the controller.
    fn edit(&self, change: impl FnOnce(&mut Value)) {
        let path = self.manifests.path().join("noop.json");
        let mut controller = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        change(&mut controller);
        std::fs::write(path, controller.to_string()).unwrap();
    }

    fn start(&self) -> HostProcess {
        HostProcess::start("run", self.manifests.path(), self.scratch.path(), &[])
    }
}

/// Returns the status of the feeder; `None` before the controller runs.
fn feeder(host: &HostProcess) -> Option<Value> {
    let output = host.ask(&["get", "controller", "noop", "-o", "json"]);
    let document: Value = serde_json::from_str(&output.stdout).ok()?;
    document.pointer("/status/feeders/0").cloned()
}

/// Creates a stream for the subjects `NAME.*`.
async fn new_stream(client: &async_nats::Client, name: &str) -> stream::Stream {
    let config =
        stream::Config { name: name.to_owned(), subjects: vec![format!("{name}.*")], ..stream::Config::default() };
    jetstream::new(client.clone()).create_stream(config).await.unwrap()
}

/// Waits until a consumer has at most this many messages left: not delivered, or not acknowledged.
async fn until_left(nats: &Nats, stream: &str, most: u64) {
    let client = async_nats::connect(nats.url()).await.unwrap();
    let context = jetstream::new(client);
    within(BUILD_BOUND, async {
        loop {
            let left = async {
                let stream = context.get_stream(stream).await.ok()?;
                let mut consumer: PullConsumer = stream.get_consumer("web").await.ok()?;
                let info = consumer.info().await.ok()?;
                Some(info.num_pending + info.num_ack_pending as u64)
            };
            if left.await.is_some_and(|left| left <= most) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
}

/// Each message is acknowledged after the reconcile of its key alone, so the server has none left when all keys were
/// reconciled.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_burst_of_100_000_messages_survives_a_killed_host_and_a_killed_server() {
    const MESSAGES: u64 = 100_000;
    let nats = Nats::start();
    let client = async_nats::connect(nats.url()).await.unwrap();
    let stream = new_stream(&client, "burst").await;
    for number in 0..MESSAGES {
        client.publish(format!("burst.n{number}"), "".into()).await.unwrap();
    }
    client.flush().await.unwrap();
    soon(async { while stream.get_info().await.unwrap().state.messages < MESSAGES {} }).await;
    let source = json!({"stream": "burst", "consumer": "web", "ack": "settled"});
    let world = World::new(&nats, "burst", &source, &json!({"namespace": "default", "name": "{subject.2}"}));
    let host = world.start();
    until_left(&nats, "burst", MESSAGES * 4 / 5).await;
    host.kill();
    let host = world.start();
    until_left(&nats, "burst", MESSAGES / 2).await;
    nats.server().kill();
    nats.server().start();
    until_left(&nats, "burst", 0).await;
    let feeder = eventually_built("the feeder to have recovered", || {
        feeder(&host).filter(|feeder| feeder["state"] == "running")
    });
    assert!(feeder["rejected"] == 0, "{feeder}");
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn messages_that_make_no_key_are_rejected_and_the_others_handled_once() {
    let client = async_nats::connect(shared_nats().url()).await.unwrap();
    new_stream(&client, "malformed").await;
    let source = json!({"stream": "malformed", "consumer": "web", "subject": "malformed.new", "ack": "queued"});
    let keys = json!({"each": "/items", "namespace": "default", "name": "{/name}"});
    let world = World::new(shared_nats(), "malformed", &source, &keys);
    let host = world.start();
    let long = "x".repeat(300);
    let many = json!({"items": vec![json!({"name": "a"}); 1001]}).to_string();
    let good = json!({"items": [{"name": "a"}, {"name": "b"}]}).to_string();
    for body in ["", "no JSON", "{}", &json!({"items": [{"name": long}]}).to_string(), &many, &good, &good] {
        client.publish("malformed.new", body.to_owned().into()).await.unwrap();
    }
    client.publish("malformed.other", "not for this consumer".into()).await.unwrap();
    client.flush().await.unwrap();
    until_left(shared_nats(), "malformed", 0).await;
    let feeder = eventually_built("the messages to be counted", || {
        feeder(&host).filter(|feeder| feeder["keys"] == 4 && feeder["rejected"] == 5)
    });
    assert_eq!(feeder["state"], "running", "{feeder}");
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_a_plain_subject_adds_its_key_while_the_feeder_runs() {
    let client = async_nats::connect(shared_nats().url()).await.unwrap();
    let source = json!({"subject": "plain.*"});
    let world = World::new(shared_nats(), "plain", &source, &json!({"namespace": "default", "name": "{subject.2}"}));
    let host = world.start();
    // The messages before the subscription are lost.
    let feeder = eventually_built("a message to add its key", || {
        futures_util::FutureExt::now_or_never(client.publish("plain.a", "".into()));
        feeder(&host).filter(|feeder| feeder["keys"].as_u64().is_some_and(|keys| keys > 0))
    });
    assert_eq!((&feeder["state"], &feeder["source"]), (&json!("running"), &json!("nats")), "{feeder}");
}

/// The suspended controller has room for ten keys, and the client for 1,024 messages. The others are lost, and counted.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn messages_of_a_plain_subject_beyond_those_that_wait_are_counted_as_lost() {
    const MESSAGES: u64 = 5000;
    let client = async_nats::connect(shared_nats().url()).await.unwrap();
    let keys = json!({"namespace": "default", "name": "{subject.2}"});
    let world = World::new(shared_nats(), "lossy", &json!({"subject": "lossy.*"}), &keys);
    world.edit(|controller| controller["spec"]["limits"] = json!({"keys": 10}));
    let host = world.start();
    // The messages before the subscription reach nobody.
    let mut probes = 0;
    eventually_built("a message to add its key", || {
        probes += 1;
        futures_util::FutureExt::now_or_never(client.publish("lossy.probe", "".into()));
        feeder(&host).filter(|feeder| feeder["keys"].as_u64() > Some(0))
    });
    assert_eq!(host.ask(&["suspend", "noop"]).code, Some(0));
    for number in 0..MESSAGES {
        client.publish(format!("lossy.n{number}"), "".into()).await.unwrap();
    }
    client.flush().await.unwrap();
    eventually_built("the lost messages", || feeder(&host).filter(|feeder| feeder["lost"].as_u64() > Some(3000)));
    let described = host.ask(&["describe", "controller", "noop"]).stdout;
    assert!(described.contains("LOST"), "{described}");
    eventually_built("the event of the lost messages", || {
        host.ask(&["get", "events", "-A", "-o", "json"]).stdout.contains("MessagesLost").then_some(())
    });
    assert_eq!(host.ask(&["resume", "noop"]).code, Some(0));
    let number = |feeder: &Value, field: &str| feeder[field].as_u64().unwrap();
    let feeder = eventually_built("all messages to be added or counted", || {
        feeder(&host).filter(|feeder| number(feeder, "keys") + number(feeder, "lost") > MESSAGES)
    });
    assert!(number(&feeder, "keys") + number(&feeder, "lost") <= MESSAGES + probes, "{feeder}");
    let lost = Scrape::of(world.scratch.path()).get("homeostat_feeder_lost_messages_total", &[("feeder", "orders")]);
    assert_eq!(lost, number(&feeder, "lost") as f64);
}

/// A member of a fleet with two shards of four, whose feeders have a consumer and a plain subject.
fn member(name: &str, manifests: &TempDir, scratch: &TempDir) -> HostProcess {
    let store = in_nats("feeder-shards");
    let bus = store["name"].as_str().unwrap();
    let keys = json!({"namespace": "default", "name": "{subject.2}"});
    let controller = json!({
        "apiVersion": "homeostat.dev/v1alpha1", "kind": "Controller", "metadata": {"name": "noop"},
        "spec": {
            "component": {"file": guest("guest-scripted")},
            "placement": {"sharded": {"shards": 4}},
            "grants": {"resources": [{"kinds": ["*"], "verbs": ["*"], "namespaces": ["*"]}]},
            "feeders": [
                {"name": "orders", "nats": {"store": bus, "stream": "sharded", "consumer": "web"}, "keys": keys},
                {"name": "news", "nats": {"store": bus, "subject": "news.*"}, "keys": keys},
            ],
        },
    });
    let routes = [("demo.homeostat.dev/Scripted", bus)];
    let stores = file(std::slice::from_ref(&store), &routes).to_string();
    std::fs::write(manifests.path().join("stores.yaml"), stores).unwrap();
    std::fs::write(manifests.path().join("noop.json"), controller.to_string()).unwrap();
    HostProcess::start("run", manifests.path(), scratch.path(), &["--host-name", name, "--lease-duration", "60s"])
}

/// Returns the keys that each of the two feeders of a host has added.
fn added(host: &HostProcess) -> Option<[u64; 2]> {
    let output = host.ask(&["get", "controller", "noop", "-o", "json"]);
    let document: Value = serde_json::from_str(&output.stdout).ok()?;
    let keys = |at: usize| document["status"]["feeders"][at]["keys"].as_u64();
    Some([keys(0)?, keys(1)?])
}

/// A message that reaches the other host is delivered again, until the host of its key has it.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn each_host_of_a_sharded_controller_gets_the_messages_of_its_keys() {
    const MESSAGES: u64 = 100;
    let client = async_nats::connect(shared_nats().url()).await.unwrap();
    new_stream(&client, "sharded").await;
    let folders = [(); 4].map(|()| TempDir::new().unwrap());
    let [of_a, data_a, of_b, data_b] = &folders;
    let (a, b) = (member("a", of_a, data_a), member("b", of_b, data_b));
    eventually_built("two shards on each host", || {
        let list: Value = serde_json::from_str(&a.ask(&["hosts", "-o", "json"]).stdout).ok()?;
        let leases = |name: &str| {
            let host = list["items"].as_array()?.iter().find(|item| item["name"] == name)?;
            Some(host["leases"].as_array()?.len())
        };
        (leases("a") == Some(2) && leases("b") == Some(2)).then_some(())
    });
    for number in 0..MESSAGES {
        client.publish(format!("sharded.n{number}"), "".into()).await.unwrap();
    }
    client.flush().await.unwrap();
    until_left(shared_nats(), "sharded", 0).await;
    let [[of_a, _], [of_b, _]] = [added(&a).unwrap(), added(&b).unwrap()];
    assert!(of_a > 0 && of_b > 0 && of_a + of_b >= MESSAGES, "{of_a} and {of_b}");
    eventually_built("the news of each host's keys", || {
        for number in 0..20 {
            futures_util::FutureExt::now_or_never(client.publish(format!("news.n{number}"), "".into()));
        }
        let [[_, of_a], [_, of_b]] = [added(&a)?, added(&b)?];
        (of_a > 0 && of_b > 0).then_some(())
    });
}
