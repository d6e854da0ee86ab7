//! Webhooks of a real host, with a real HTTP client: bursts, refusals, senders without the secret, and a restart in the
//! middle.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use aws_lc_rs::hmac;
use homeostat_api::{Handle, Options, serve};
use homeostat_component::Blob;
use homeostat_component::layers::Secrets;
use homeostat_fixtures::memory_store;
use homeostat_runtime::{ControllerState, Definition, Observer, ReconcileRecord, Recorder, manifest};
use homeostat_store::Store;
use homeostat_testing::eventually;
use homeostat_tests::{TestHost, guest};
use parking_lot::Mutex;
use serde_json::{Value, json};

const SECRET: &[u8] = b"the secret of the webhook";

struct OneSecret;

#[async_trait]
impl Secrets for OneSecret {
    async fn get(&self, name: &str) -> Result<Blob, String> {
        if name == "hook" { Ok(Blob::from(SECRET)) } else { Err("there is none".to_owned()) }
    }
}

/// The names of the keys that were reconciled with success.
#[derive(Clone, Default)]
struct ReconciledNames(Arc<Mutex<BTreeSet<String>>>);

impl Observer for ReconciledNames {
    fn controller(&self, _: &Arc<str>) -> Arc<dyn Recorder> {
        Arc::new(self.clone())
    }
}

impl Recorder for ReconciledNames {
    fn record(&self, reconciled: &ReconcileRecord<'_>) {
        if reconciled.result.is_ok() {
            self.0.lock().insert(reconciled.key.name().to_owned());
        }
    }
}

/// A host with the controller `noop`, whose feeder `push` is a webhook.
struct World {
    test: TestHost,
    served: Handle,
    names: ReconciledNames,
    client: reqwest::Client,
}

impl World {
    async fn start(store: Arc<dyn Store>, keys_max: u32) -> Self {
        let names = ReconciledNames::default();
        let observer = names.clone();
        let test = TestHost::with(store, |options| homeostat_runtime::Options {
            secrets: Arc::new(OneSecret),
            observer: Arc::new(observer),
            ..options
        })
        .await;
        let definition = test.definition("noop", &guest("guest-noop")).await;
        let limits = homeostat_component::Limits { keys_max, ..definition.limits.clone() };
        test.host.put(Definition { feeders: feeders(), limits, ..definition }).await.unwrap();
        let is_ready = async || (test.status("noop").state == ControllerState::Ready).then_some(());
        eventually("the controller to be ready", is_ready).await;
        let served = serve(Options::default(), test.host.clone()).await.unwrap();
        Self { test, served, names, client: reqwest::Client::new() }
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.served.address())
    }

    /// Posts a body to the webhook with a valid signature.
    async fn post(&self, body: &Value) -> reqwest::Response {
        let body = body.to_string();
        let signature = signature(body.as_bytes());
        let request = self.client.post(self.url("/webhooks/noop/push")).body(body);
        request.header("X-Hub-Signature-256", signature).send().await.unwrap()
    }

    /// Posts a body until it is accepted. Returns how often it was refused for now.
    async fn post_until_accepted(&self, body: &Value) -> usize {
        let refused = AtomicUsize::new(0);
        eventually("the request to be accepted", async || {
            let answer = self.post(body).await;
            match answer.status().as_u16() {
                200 => return Some(()),
                503 => assert_eq!(answer.headers()["retry-after"], "1"),
                other => panic!("{other}: {:?}", answer.text().await),
            }
            refused.fetch_add(1, Ordering::Relaxed);
            None
        })
        .await;
        refused.into_inner()
    }
}

/// Returns the feeders of a manifest.
fn feeders() -> Vec<homeostat_runtime::feeder_definition::FeederDefinition> {
    let spec = json!({
        "component": {"file": "noop.wasm"},
        "feeders": [{
            "name": "push",
            "webhook": {"auth": {"hmac": {"secret": "hook"}}, "bodyMax": "64Ki", "dedupeHeader": "X-GitHub-Delivery"},
            "keys": {"each": "/items", "namespace": "default", "name": "{/name}"},
        }],
    });
    serde_json::from_value::<manifest::Spec>(spec).unwrap().check().unwrap().feeders
}

/// Writes the secret of the webhook into a folder of secrets, for its owner alone.
pub(crate) fn write_secret(folder: &Path) {
    let file = folder.join("hook");
    fs::write(&file, SECRET).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
}

/// Returns the value of the header `X-Hub-Signature-256` of a body.
pub(crate) fn signature(body: &[u8]) -> String {
    let code = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET), body);
    let digits: String = code.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={digits}")
}

/// Returns the body of a request with many keys.
pub(crate) fn batch(number: usize, size: usize) -> Value {
    json!({ "items": (0..size).map(|item| json!({ "name": format!("n{number}-{item}") })).collect::<Vec<_>>() })
}

/// The queue has room for a twentieth of the burst, so many requests are refused for now.
#[tokio::test(flavor = "multi_thread")]
async fn a_burst_of_100_000_keys_reconciles_each_key_that_was_accepted() {
    let world = World::start(memory_store(), 5000).await;
    let senders = (0..10).map(|sender| {
        let world = &world;
        async move {
            let mut refused = 0;
            for number in 0..10 {
                refused += world.post_until_accepted(&batch(sender * 10 + number, 1000)).await;
            }
            refused
        }
    });
    let refused: usize = futures_util::future::join_all(senders).await.into_iter().sum();
    eventually("all keys to be reconciled", async || (world.names.0.lock().len() == 100_000).then_some(())).await;
    assert!(refused > 0, "the queue was never full");
    let feeder = &world.test.status("noop").feeders[0];
    assert!(feeder.keys >= 100_000 && feeder.full > 0, "{feeder:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_refuses_everything_without_a_valid_signature_alike() {
    let world = World::start(memory_store(), 100).await;
    let body = batch(0, 1).to_string();
    let post = async |path: &str, signature: &str| {
        let request = world.client.post(world.url(path)).body(body.clone()).header("X-Hub-Signature-256", signature);
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    let (good, bad) = (signature(body.as_bytes()), signature(b"other"));
    let refused = post("/webhooks/noop/push", &bad).await;
    assert_eq!(refused.0, 401);
    for path in
        ["/webhooks/noop/other", "/webhooks/other/push", "/webhooks/noop", "/webhooks/", "/webhooks/noop/push/x"]
    {
        assert_eq!(post(path, &good).await, refused, "{path}");
    }
    let get = world.client.get(world.url("/webhooks/noop/push")).send().await.unwrap();
    assert_eq!(get.status(), 405);
    let twice = world.client.post(world.url("/webhooks/noop/push")).body(body.clone());
    let twice = twice.header("X-Hub-Signature-256", &good).header("X-Hub-Signature-256", &good).send().await.unwrap();
    assert_eq!(twice.status(), 401, "a header that is there twice proves nothing");
    assert_eq!(world.test.status("noop").feeders[0].denied, 2);
    assert_eq!(post("/webhooks/noop/push", &good).await.0, 200);
    eventually("the key to be reconciled", async || world.names.0.lock().contains("n0-0").then_some(())).await;
    assert_eq!(world.names.0.lock().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_and_oversized_bodies_and_duplicates_add_nothing() {
    let world = World::start(memory_store(), 100).await;
    for body in [json!({}), json!({"items": [{}]}), json!({"items": [{"name": "Not_A_Name"}]}), json!("x")] {
        assert_eq!(world.post(&body).await.status(), 422, "{body}");
    }
    let deep = "[".repeat(20_000);
    let request = world.client.post(world.url("/webhooks/noop/push")).body(deep.clone());
    let answer = request.header("X-Hub-Signature-256", signature(deep.as_bytes())).send().await.unwrap();
    assert_eq!(answer.status(), 422);
    assert_eq!(world.post(&json!({"items": [], "more": "x".repeat(65 << 10)})).await.status(), 413);
    let body = batch(1, 1).to_string();
    for is_duplicate in [false, true] {
        let request = world.client.post(world.url("/webhooks/noop/push")).body(body.clone());
        let request = request.header("X-Hub-Signature-256", signature(body.as_bytes()));
        let answer = request.header("X-GitHub-Delivery", "72d3162e").send().await.unwrap();
        let answer: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
        assert_eq!(answer["isDuplicate"], is_duplicate);
    }
    eventually("the key to be reconciled", async || world.names.0.lock().contains("n1-0").then_some(())).await;
    let feeder = &world.test.status("noop").feeders[0];
    assert_eq!((feeder.keys, feeder.rejected, feeder.state), (1, 5, "running"));
}

/// A sender repeats a request that the host did not answer with success, and all of its keys are reconciled.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_a_stopping_host_refuses_is_accepted_by_the_next_one() {
    let world = World::start(memory_store(), 100_000).await;
    world.post_until_accepted(&batch(0, 500)).await;
    eventually("the keys to be reconciled", async || (world.names.0.lock().len() == 500).then_some(())).await;
    world.test.host.shutdown(std::time::Duration::from_secs(10)).await;
    let refused = world.post(&batch(1, 500)).await;
    assert!(!refused.status().is_success(), "{refused:?}");
    let world = World::start(memory_store(), 100_000).await;
    world.post_until_accepted(&batch(1, 500)).await;
    eventually("the keys to be reconciled", async || (world.names.0.lock().len() == 500).then_some(())).await;
}
