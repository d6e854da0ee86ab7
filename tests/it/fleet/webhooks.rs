//! Webhooks of a fleet: each host takes the requests of a controller, and the holders of its leases get the keys.

use std::fs;

use homeostat_testing::{eventually, eventually_built};
use homeostat_tests::{HostProcess, guest};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::stores::hosts::{file, in_nats};
use crate::webhooks::{batch, signature, write_secret};

/// A host with the controller `scripted`, whose feeder `push` is a webhook.
struct Member {
    name: &'static str,
    process: HostProcess,
    _folders: [TempDir; 3],
}

impl Member {
    fn start(bucket: &str, name: &'static str, placement: &Value, lease: &str) -> Self {
        let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let [folder, scratch, secrets] = &folders;
        let controller = json!({
            "apiVersion": "homeostat.dev/v1alpha1",
            "kind": "Controller",
            "metadata": {"name": "scripted"},
            "spec": {
                "component": {"file": guest("guest-scripted")},
                "placement": placement,
                "grants": {
                    "resources": [{"kinds": ["demo.homeostat.dev/Scripted"], "verbs": ["*"], "namespaces": ["*"]}],
                },
                "feeders": [{
                    "name": "push",
                    "webhook": {"auth": {"hmac": {"secret": "hook"}}, "dedupeHeader": "X-GitHub-Delivery"},
                    "keys": {"each": "/items", "namespace": "default", "name": "{/name}"},
                }],
            },
        });
        let store = in_nats(bucket);
        let routes = [("demo.homeostat.dev/Scripted", store["name"].as_str().unwrap())];
        // JSON is valid YAML.
        fs::write(folder.path().join("scripted.yaml"), controller.to_string()).unwrap();
        fs::write(folder.path().join("stores.yaml"), file(std::slice::from_ref(&store), &routes).to_string()).unwrap();
        write_secret(secrets.path());
        let secrets = secrets.path().to_str().unwrap();
        let more = ["--host-name", name, "--lease-duration", lease, "--secrets", secrets];
        let process = HostProcess::start_on_port("http", folder.path(), scratch.path(), &more, &[]);
        Self { name, process, _folders: folders }
    }

    /// Posts a body with this signature. Returns the status and whether the sender shall repeat the request.
    async fn post(&self, body: &str, signature: &str) -> (u16, Value) {
        let url = format!("{}/webhooks/scripted/push", self.process.server());
        let request = reqwest::Client::new().post(url).body(body.to_owned());
        let request = request.header("X-Hub-Signature-256", signature).header("X-GitHub-Delivery", body);
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        assert_eq!(answer.headers().contains_key("retry-after"), status == 503);
        (status, serde_json::from_str(&answer.text().await.unwrap()).unwrap())
    }

    /// Returns the number of keys that the webhook of this host has added.
    fn added(&self) -> Option<u64> {
        let output = self.process.ask(&["get", "controller", "scripted", "-o", "json"]);
        let document: Value = serde_json::from_str(&output.stdout).ok()?;
        document.pointer("/status/feeders/0/keys")?.as_u64()
    }

    /// Returns the number of leases that a host has, as this one sees it.
    fn leases_of(&self, name: &str) -> Option<usize> {
        let list: Value = serde_json::from_str(&self.process.ask(&["hosts", "-o", "json"]).stdout).ok()?;
        let host = list["items"].as_array()?.iter().find(|item| item["name"] == name)?.clone();
        Some(host["leases"].as_array()?.len())
    }

    /// Posts a body until it is accepted. Returns the answer.
    async fn post_until_accepted(&self, body: &Value) -> Value {
        let body = body.to_string();
        eventually("the request to be accepted", async || {
            let (status, answer) = self.post(&body, &signature(body.as_bytes())).await;
            assert!(matches!(status, 200 | 503), "{status}: {answer}");
            (status == 200).then_some(answer)
        })
        .await
    }
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_host_without_the_lease_forwards_a_request_to_the_holder() {
    let members = ["a", "b"].map(|name| Member::start("fleet-webhook", name, &json!("singleton"), "60s"));
    let is_holder = |name: &&str| members.iter().all(|member| member.leases_of(name) == Some(1));
    let holder = eventually_built("a holder", || ["a", "b"].into_iter().find(is_holder));
    let [holder, other] = match members {
        [a, b] if a.name == holder => [a, b],
        [a, b] => [b, a],
    };
    let answer = other.post_until_accepted(&batch(0, 5)).await;
    assert_eq!(answer["keys"], 5, "{answer}");
    assert_eq!((holder.added(), other.added()), (Some(5), Some(0)));
    let again = other.post_until_accepted(&batch(0, 5)).await;
    assert_eq!((again["keys"].as_u64(), holder.added()), (Some(5), Some(5)), "the holder remembers the request");
    let body = batch(1, 1).to_string();
    assert_eq!(other.post(&body, "sha256=00").await.0, 401, "it is not forwarded");
    // A sender must repeat a request that the holder does not answer.
    holder.process.signal("STOP");
    let (status, answer) = other.post(&body, &signature(body.as_bytes())).await;
    assert_eq!(status, 503, "{answer}");
    assert!(answer["message"].as_str().unwrap().contains(holder.name), "{answer}");
    holder.process.signal("CONT");
    other.post_until_accepted(&batch(1, 1)).await;
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn each_holder_of_shards_gets_its_keys_of_a_request() {
    let placement = json!({"sharded": {"shards": 4}});
    let [a, b] = ["a", "b"].map(|name| Member::start("fleet-webhook-shards", name, &placement, "15s"));
    eventually_built("two shards on each host", || {
        (a.leases_of("a") == Some(2) && a.leases_of("b") == Some(2)).then_some(())
    });
    let before = a.added().unwrap() + b.added().unwrap();
    let answer = a.post_until_accepted(&batch(0, 200)).await;
    assert_eq!(answer["keys"], 200, "{answer}");
    let (of_a, of_b) = (a.added().unwrap(), b.added().unwrap());
    assert!(of_a > 0 && of_b > 0 && of_a + of_b >= before + 200, "{of_a} and {of_b}");
}
