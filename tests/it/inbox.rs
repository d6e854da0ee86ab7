//! The inbox of a webhook of a real host: a killed host loses no key of a request that it has answered.

use std::fs;

use homeostat_testing::eventually_built;
use homeostat_tests::{HostProcess, guest};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::metrics::scrape::Scrape;
use crate::webhooks::{batch, signature, write_secret};

const REQUESTS: usize = 20;
const KEYS_EACH: usize = 50;

/// The folders of a host with the controller `noop`, whose webhook `push` has an inbox. The kind of the guest has keys
/// only, so no list finds a key again.
struct World {
    manifests: TempDir,
    scratch: TempDir,
    secrets: TempDir,
}

impl World {
    fn new() -> Self {
        let new = || TempDir::new().unwrap();
        let world = Self { manifests: new(), scratch: new(), secrets: new() };
        write_secret(world.secrets.path());
        fs::copy(guest("guest-noop"), world.manifests.path().join("noop.wasm")).unwrap();
        world
    }

    /// Starts the host on a port.
    fn start(&self, suspend: bool) -> HostProcess {
        let controller = json!({
            "apiVersion": "homeostat.dev/v1alpha1", "kind": "Controller", "metadata": {"name": "noop"},
            "spec": {
                "component": {"file": "noop.wasm"},
                "suspend": suspend,
                "limits": {"keys": 100},
                "grants": {"resources": [{"kinds": ["*"], "verbs": ["*"], "namespaces": ["*"]}]},
                "feeders": [{
                    "name": "push", "webhook": {"auth": {"hmac": {"secret": "hook"}}, "inbox": true},
                    "keys": {"each": "/items", "namespace": "default", "name": "{/name}"},
                }],
            },
        });
        fs::write(self.manifests.path().join("noop.json"), controller.to_string()).unwrap();
        let secrets = self.secrets.path().to_str().unwrap();
        HostProcess::start_on_port("http", self.manifests.path(), self.scratch.path(), &["--secrets", secrets], &[])
    }
}

/// Returns the value of a metric of the host.
async fn metric(host: &HostProcess, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let text = reqwest::get(format!("{}/metrics", host.server())).await.ok()?.text().await.ok()?;
    Scrape::read(text).find(name, labels)
}

/// The queue has room for a tenth of the keys, and the controller is suspended, so the host has answered for keys that
/// were never on its queue.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_host_reconciles_each_key_of_the_requests_that_it_has_answered() {
    let world = World::new();
    let host = world.start(true);
    let client = reqwest::Client::new();
    let post = async |host: &HostProcess, body: &Value| {
        let body = body.to_string();
        let signature = signature(body.as_bytes());
        let request = client.post(format!("{}/webhooks/noop/push", host.server())).body(body);
        request.header("X-Hub-Signature-256", signature).send().await.unwrap().status().as_u16()
    };
    homeostat_testing::eventually("the webhook to be open", async || {
        (post(&host, &json!({"items": []})).await == 200).then_some(())
    })
    .await;
    for number in 0..REQUESTS {
        assert_eq!(post(&host, &batch(number, KEYS_EACH)).await, 200);
    }
    let stored = |host: &HostProcess| host.json(&["get", "webhookdeliveries"])["items"].as_array().map_or(0, Vec::len);
    assert_eq!(stored(&host), REQUESTS);
    let described = host.ask(&["describe", "controller", "noop"]).stdout;
    assert!(described.contains("INBOX") && described.contains("1000"), "{described}");
    let refused = host.ask(&["delete", "webhookdeliveries", "--all"]);
    assert_ne!(refused.code, Some(0), "the host alone writes them");
    host.kill();
    let host = world.start(false);
    homeostat_testing::eventually("all keys to be reconciled", async || {
        let runs = metric(&host, "controller_runtime_reconcile_total", &[("result", "success")]).await?;
        (runs >= (REQUESTS * KEYS_EACH) as f64).then_some(())
    })
    .await;
    eventually_built("the inbox to be empty", || (stored(&host) == 0).then_some(()));
    assert_eq!(metric(&host, "homeostat_feeder_inbox_keys", &[("feeder", "push")]).await, Some(0.0));
    assert_eq!(post(&host, &batch(0, 1001)).await, 422, "too many keys of one request");
    host.kill();
    let host = world.start(true);
    homeostat_testing::eventually("the webhook to be open", async || {
        (post(&host, &batch(0, KEYS_EACH)).await == 200).then_some(())
    })
    .await;
    assert_eq!(stored(&host), 1);
    fs::remove_file(world.manifests.path().join("noop.json")).unwrap();
    eventually_built("the stored requests to end with their controller", || (stored(&host) == 0).then_some(()));
}
