//! The feeder `nats` of a real host with a real server: a burst over killed hosts and a killed server, malformed
//! messages, and plain subjects.

use std::time::Duration;

use async_nats::jetstream::{self, consumer::PullConsumer, stream};
use homeostat_testing::{BUILD_BOUND, eventually_built, soon, within};
use homeostat_tests::{HostProcess, Nats, guest, shared_nats};
use serde_json::{Value, json};
use tempfile::TempDir;

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
                "component": {"file": guest("guest-noop")},
                "grants": {"resources": [{"kinds": ["*"], "verbs": ["*"], "namespaces": ["*"]}]},
                "feeders": [{"name": "orders", "nats": source, "keys": keys}],
            },
        });
        std::fs::write(world.manifests.path().join("stores.yaml"), stores.to_string()).unwrap();
        std::fs::write(world.manifests.path().join("noop.json"), controller.to_string()).unwrap();
        world
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
