//! The `kubectl` of a current Kubernetes release against a host without a cluster: the everyday commands.

mod events;
mod hosts;

use std::path::PathBuf;
use std::process::Stdio;

use homeostat_api::{Handle, Options, serve};
use homeostat_component::Severity;
use homeostat_runtime::events::{EventSource, NewEvent};
use homeostat_store::{Key, Kind, Write};
use homeostat_testing::{BOUND, eventually, soon};
use homeostat_tests::{TestHost, kubectl};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::apps::apps;

/// A host that serves its API, and a home folder for kubectl.
pub(crate) struct Cluster {
    pub(crate) test: TestHost,
    served: Handle,
    home: TempDir,
}

impl Cluster {
    pub(crate) async fn over(test: TestHost) -> Self {
        let options = Options { address: "http://127.0.0.1:0".into(), ..Options::default() };
        let served = serve(options, test.host.clone()).await.unwrap();
        // The first build takes a while.
        tokio::task::spawn_blocking(kubectl).await.unwrap();
        Self { test, served, home: TempDir::new().unwrap() }
    }

    async fn apps() -> Self {
        Self::over(apps().await).await
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(kubectl());
        command.arg("--server").arg(self.served.address().to_string()).args(arguments);
        command.env_clear().env("HOME", self.home.path()).env("PATH", "/usr/bin:/bin").current_dir(self.home.path());
        command.stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    /// Runs kubectl, and returns whether it succeeded, and its output.
    pub(crate) async fn run(&self, arguments: &[&str]) -> (bool, String) {
        let output = tokio::time::timeout(BOUND, self.command(arguments).output()).await;
        let output = output.unwrap_or_else(|_| panic!("kubectl {arguments:?} does not end")).unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.success(), text(&output.stdout) + &text(&output.stderr))
    }

    /// Runs kubectl, which has to succeed.
    pub(crate) async fn done(&self, arguments: &[&str]) -> String {
        let (done, said) = self.run(arguments).await;
        assert!(done, "kubectl {arguments:?}: {said}");
        said
    }

    /// Runs kubectl, which has to fail.
    pub(crate) async fn refused(&self, arguments: &[&str]) -> String {
        let (done, said) = self.run(arguments).await;
        assert!(!done, "kubectl {arguments:?}: {said}");
        said
    }

    pub(crate) async fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.done(&[arguments, &["-o", "json"]].concat()).await).unwrap()
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.home.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Starts a host with a kind that has two served versions and one unserved version.
    async fn crontabs() -> Self {
        let cluster = Self::over(TestHost::start().await).await;
        cluster.file("crd.yaml", include_str!("crontabs.yaml"));
        cluster.done(&["apply", "-f", "crd.yaml"]).await;
        cluster.done(&["wait", "--for=condition=Established", "crd/crontabs.stable.example.com"]).await;
        cluster
    }

    fn web(&self, replicas: u32, image: &str) {
        self.file("web.yaml", &web(replicas, image));
    }
}

fn web(replicas: u32, image: &str) -> String {
    format!(
        r#"
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web, labels: {{app: web}}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      containers:
      - {{name: web, image: "{image}"}}
"#
    )
}

fn cells(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn kubectl_applies_a_deployment_waits_for_its_rollout_and_shows_it() {
    let cluster = Cluster::apps().await;
    cluster.web(2, "web:1");
    assert_eq!(cluster.done(&["apply", "-f", "web.yaml"]).await, "deployment.apps/web created\n");
    assert!(cluster.done(&["rollout", "status", "deployment/web"]).await.contains("successfully rolled out"));
    cluster.done(&["wait", "--for=condition=Available", "deployment/web"]).await;
    let shown = cluster.done(&["get", "deploy"]).await;
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(cells(lines[0]), ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]);
    assert_eq!(cells(lines[1])[..4], ["web", "2/2", "2", "2"]);
    let wide = cluster.done(&["get", "pods", "-o", "wide"]).await;
    let lines: Vec<Vec<&str>> = wide.lines().map(cells).collect();
    let gates = ["NOMINATED", "NODE", "READINESS", "GATES"];
    assert_eq!(lines[0], [&["NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE"][..], &gates].concat());
    assert_eq!(lines.len(), 3, "{wide}");
    for pod in &lines[1..] {
        assert_eq!(pod[1..4], ["1/1", "Running", "0"], "{wide}");
    }
    assert_eq!(cluster.done(&["get", "deploy", "web", "-o", "jsonpath={.status.readyReplicas}"]).await, "2");
    assert!(cluster.done(&["get", "deploy", "web", "-o", "yaml"]).await.contains("image: web:1"));
    assert_eq!(cluster.json(&["get", "pods", "-l", "app=web"]).await["items"].as_array().unwrap().len(), 2);
    assert!(cluster.done(&["get", "all"]).await.contains("replicaset.apps/web-"));
    let described = cluster.done(&["describe", "deploy", "web"]).await;
    assert!(described.contains("2 desired | 2 updated | 2 total | 2 available"), "{described}");
    assert!(described.contains("ScalingReplicaSet"), "{described}");
    assert_eq!(cluster.done(&["apply", "-f", "web.yaml"]).await, "deployment.apps/web unchanged\n");
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn kubectl_changes_a_deployment_with_every_command_that_can() {
    let cluster = Cluster::apps().await;
    cluster.web(1, "web:1");
    cluster.done(&["apply", "-f", "web.yaml"]).await;
    cluster.web(1, "web:2");
    let difference = cluster.refused(&["diff", "-f", "web.yaml"]).await;
    assert!(
        difference.contains("-      - image: web:1") && difference.contains("+      - image: web:2"),
        "{difference}"
    );
    assert!(!difference.contains("warning"), "{difference}");
    let image = ["get", "deploy", "web", "-o", "jsonpath={.spec.template.spec.containers[*].image}"];
    assert_eq!(cluster.done(&image).await, "web:1", "a diff changes nothing");
    assert_eq!(cluster.done(&["apply", "-f", "web.yaml"]).await, "deployment.apps/web configured\n");
    assert_eq!(cluster.done(&image).await, "web:2");
    let dry = ["apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", "web.yaml"];
    assert!(cluster.done(&dry).await.contains("(server dry run)"));

    let strategic = r#"{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"web:3"},{"name":"log","image":"log:1"}]}}}}"#;
    cluster.done(&["patch", "deploy/web", "-p", strategic]).await;
    assert_eq!(cluster.done(&image).await, "web:3 log:1");
    cluster.done(&["patch", "deploy/web", "--type=merge", "-p", r#"{"spec":{"replicas":3}}"#]).await;
    let json = r#"[{"op":"remove","path":"/spec/template/spec/containers/1"}]"#;
    cluster.done(&["patch", "deploy/web", "--type=json", "-p", json]).await;
    assert_eq!(cluster.done(&image).await, "web:3");
    cluster.done(&["label", "deploy/web", "tier=front"]).await;
    cluster.done(&["annotate", "deploy/web", "note=hello"]).await;
    cluster.done(&["set", "image", "deploy/web", "web=web:4"]).await;
    let mut edit = cluster.command(&["edit", "deploy/web"]);
    let edited = edit.env("EDITOR", "sed -i s/web:4/web:5/").output().await.unwrap();
    assert!(edited.status.success(), "{}", String::from_utf8_lossy(&edited.stderr));
    cluster.done(&["scale", "deploy/web", "--replicas=2"]).await;
    let now = cluster.json(&["get", "deploy", "web"]).await;
    assert_eq!((&now["spec"]["replicas"], &now["metadata"]["labels"]["tier"]), (&2.into(), &"front".into()));
    assert_eq!(now["metadata"]["annotations"]["note"], "hello");
    assert_eq!(cluster.done(&image).await, "web:5");
    let refused = cluster.refused(&["scale", "deploy/web", "--current-replicas=7", "--replicas=1"]).await;
    assert!(refused.contains('7'), "{refused}");
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn kubectl_watches_and_deletes() {
    let cluster = Cluster::apps().await;
    cluster.web(1, "web:1");
    cluster.done(&["apply", "-f", "web.yaml"]).await;
    cluster.done(&["rollout", "status", "deploy/web"]).await;
    let mut watch = cluster.command(&["get", "deploy", "-w", "--no-headers"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut line = async || soon(lines.next_line()).await.unwrap().unwrap();
    assert_eq!(cells(&line().await)[..2], ["web", "1/1"]);
    cluster.done(&["scale", "deploy/web", "--replicas=2"]).await;
    while cells(&line().await)[1] != "2/2" {}
    let deleted = cluster.done(&["delete", "-f", "web.yaml"]).await;
    assert!(deleted.contains("deployment.apps \"web\" deleted"), "{deleted}");
    eventually("the pods to go", async || {
        let left = cluster.done(&["get", "pods"]).await;
        left.contains("No resources found").then_some(())
    })
    .await;
    let missing = cluster.refused(&["get", "deploy", "web"]).await;
    assert_eq!(missing, "Error from server (NotFound): deployments.apps \"web\" not found\n");
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn kubectl_deletes_five_thousand_resources_with_one_request() {
    let cluster = Cluster::crontabs().await;
    let store = cluster.test.host.store();
    for at in 0..5000 {
        let metadata = serde_json::json!({ "name": format!("tab-{at:04}"), "namespace": "default" });
        let spec = serde_json::json!({ "schedule": "* * * * *" });
        let document = serde_json::json!({ "apiVersion": "stable.example.com/v1", "kind": "CronTab", "metadata": metadata, "spec": spec });
        store.write(Write::Create { document }).await.unwrap();
    }
    let told = cluster.done(&["delete", "--raw", "/apis/stable.example.com/v1/namespaces/default/crontabs"]).await;
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["items"].as_array().unwrap().len(), 5000);
    assert_eq!(cluster.json(&["get", "crontabs"]).await["items"], Value::Array(Vec::new()));
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn kubectl_discovers_the_api() {
    let cluster = Cluster::apps().await;
    assert!(cluster.done(&["version"]).await.contains("homeostat"));
    let resources = cluster.done(&["api-resources", "--no-headers"]).await;
    let deployments = resources.lines().find(|line| line.starts_with("deployments ")).unwrap();
    assert_eq!(cells(deployments), ["deployments", "deploy", "apps/v1", "true", "Deployment"]);
    assert!(cluster.done(&["api-versions"]).await.lines().any(|version| version == "apps/v1"));
    let explained = cluster.done(&["explain", "deployment.metadata.labels"]).await;
    assert!(explained.contains("Map of string keys and values"), "{explained}");
    let events = cluster.done(&["get", "events", "-A"]).await;
    assert!(events.contains("No resources found"), "{events}");
    let unknown = cluster.refused(&["get", "gadgets"]).await;
    assert!(unknown.contains("doesn't have a resource type"), "{unknown}");
    assert!(cluster.test.host.controllers().len() == 3);
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn kubectl_shows_events_of_a_resource_and_follows_them() {
    let cluster = Cluster::apps().await;
    cluster.web(1, "web:1");
    cluster.done(&["apply", "-f", "web.yaml"]).await;
    cluster.done(&["rollout", "status", "deploy/web"]).await;
    let about = cluster.done(&["events", "--for", "deployment/web", "--no-headers"]).await;
    assert!(about.contains("ScalingReplicaSet"), "{about}");
    assert!(about.lines().all(|line| line.contains("Deployment/web")), "{about}");
    let other = cluster.done(&["events", "--for", "deployment/other"]).await;
    assert!(other.contains("No events found"), "{other}");

    let mut watch = cluster.command(&["get", "events", "-w", "--no-headers"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut line = async || soon(lines.next_line()).await.unwrap().unwrap();
    while !line().await.contains("ScalingReplicaSet") {}
    let key = Key::new(Kind::new("apps", "v1", "Deployment"), "default", "web");
    for _ in 0..2 {
        let (controller, source) = (&"web".into(), EventSource::Guest);
        let (key, severity) = (Some(key.clone()), Severity::Warning);
        let event = NewEvent { controller, source, key, severity, reason: "Looked", message: "by a test" };
        cluster.test.host.events().record("2026-11-20T08:00:00Z".into(), event);
        while !line().await.contains("Looked") {}
    }
    let list = cluster.json(&["get", "events", "--field-selector", "reason=Looked"]).await;
    assert_eq!((list["items"].as_array().unwrap().len(), &list["items"][0]["count"]), (1, &2.into()));
    let name = list["items"][0]["metadata"]["name"].as_str().unwrap();
    assert!(cluster.done(&["get", "event", name, "--no-headers"]).await.contains("Looked"));
}

fn crontab(version: &str, schedule: &str, more: &str) -> String {
    format!(
        r#"
apiVersion: stable.example.com/{version}
kind: CronTab
metadata: {{name: nightly}}
spec: {{schedule: "{schedule}"{more}}}
"#
    )
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn kubectl_reads_and_writes_every_served_version_of_a_kind() {
    let cluster = Cluster::crontabs().await;
    let versions = cluster.done(&["api-versions"]).await;
    let served: Vec<&str> = versions.lines().filter(|version| version.contains("stable.example.com")).collect();
    assert_eq!(served.len(), 2, "{versions}");
    assert!(served.iter().all(|version| !version.contains("v1alpha1")), "{versions}");

    cluster.file("old.yaml", &crontab("v1beta1", "0 3 * * *", ""));
    let created = cluster.done(&["apply", "-f", "old.yaml"]).await;
    assert!(created.contains("crontab.stable.example.com/nightly created"), "{created}");
    assert!(created.contains("Warning: stable.example.com/v1beta1 CronTab is deprecated, use"), "{created}");
    let version = ["-o", "jsonpath={.apiVersion}/{.spec.replicas}"];
    for (asked, shown) in [("v1", "stable.example.com/v1/"), ("v1beta1", "stable.example.com/v1beta1/")] {
        let asked = format!("crontabs.{asked}.stable.example.com");
        let one = cluster.done(&[&["get", &asked, "nightly"], &version[..]].concat()).await;
        assert!(one.contains(shown), "{one}");
    }
    cluster.file("new.yaml", &crontab("v1", "0 4 * * *", ", replicas: 2"));
    assert_eq!(cluster.done(&["apply", "-f", "new.yaml"]).await, "crontab.stable.example.com/nightly configured\n");
    let table = cluster.done(&["get", "crontabs.v1.stable.example.com"]).await;
    let lines: Vec<Vec<&str>> = table.lines().map(cells).collect();
    assert_eq!((&lines[0][..], &lines[1][6]), (&["NAME", "SCHEDULE", "REPLICAS", "AGE"][..], &"2"), "{table}");
    let table = cluster.done(&["get", "crontabs.v1beta1.stable.example.com"]).await;
    assert!(table.lines().any(|line| cells(line) == ["NAME", "SPEC"]), "{table}");
    cluster.done(&["scale", "crontabs.v1.stable.example.com/nightly", "--replicas=3"]).await;
    let explained = cluster.done(&["explain", "crontab.spec.schedule", "--api-version=stable.example.com/v1"]).await;
    assert!(explained.contains("five fields of cron"), "{explained}");

    let mut watch = cluster.command(&["get", "crontabs.v1beta1.stable.example.com", "-w", "-o", "json"]);
    let mut watch = watch.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut told = async |wanted: &str| {
        while !soon(lines.next_line()).await.unwrap().unwrap().contains(wanted) {}
    };
    told("stable.example.com/v1beta1").await;
    cluster.done(&["delete", "-f", "old.yaml"]).await;
    let missing = cluster.refused(&["get", "crontabs.v1.stable.example.com", "nightly"]).await;
    assert!(missing.contains("NotFound"), "{missing}");
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn kubectl_warns_about_unknown_fields_and_refuses_them_with_strict_validation() {
    let cluster = Cluster::crontabs().await;
    cluster.file("tab.yaml", &crontab("v1", "0 3 * * *", ", sizes: 3"));
    let refused = cluster.refused(&["apply", "--validate=strict", "-f", "tab.yaml"]).await;
    assert!(refused.contains(r#"strict decoding error: unknown field "spec.sizes""#), "{refused}");
    let warned = cluster.done(&["apply", "--validate=warn", "-f", "tab.yaml"]).await;
    assert!(warned.contains(r#"Warning: unknown field "spec.sizes""#) && warned.contains("created"), "{warned}");
    cluster.file("tab.yaml", &crontab("v1", "0 4 * * *", ", sizes: 3"));
    let silent = cluster.done(&["apply", "--validate=ignore", "-f", "tab.yaml"]).await;
    assert_eq!(silent, "crontab.stable.example.com/nightly configured\n");
    let sizes = ["get", "crontabs.v1.stable.example.com", "nightly", "-o", "jsonpath={.spec.schedule}{.spec.sizes}"];
    assert_eq!(cluster.done(&sizes).await, "0 4 * * *");
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn kubectl_applies_a_status() {
    let cluster = Cluster::crontabs().await;
    cluster.file("tab.yaml", &crontab("v1", "0 3 * * *", ""));
    cluster.done(&["apply", "-f", "tab.yaml"]).await;
    let report = async |manager: &str, ready: &str| {
        let condition = format!("{{type: Ready, status: '{ready}'}}");
        let status = format!("{}status: {{conditions: [{condition}]}}\n", crontab("v1", "other", ""));
        cluster.file("status.yaml", &status);
        let manager = format!("--field-manager={manager}");
        cluster.run(&["apply", "--server-side", "--subresource=status", &manager, "-f", "status.yaml"]).await
    };
    assert!(report("one", "True").await.0);
    let (done, refused) = report("two", "False").await;
    assert!(!done && refused.contains(r#"conflict with "one" with subresource "status""#), "{refused}");
    let now = cluster.json(&["get", "crontabs.v1.stable.example.com", "nightly"]).await;
    assert_eq!(
        (&now["spec"]["schedule"], &now["status"]["conditions"][0]["status"]),
        (&"0 3 * * *".into(), &"True".into())
    );
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn kubectl_creates_namespaces() {
    let cluster = Cluster::over(TestHost::start().await).await;
    assert_eq!(cluster.done(&["create", "namespace", "red"]).await, "namespace/red created\n");
    let again = cluster.refused(&["create", "namespace", "red"]).await;
    assert!(again.contains("namespaces \"red\" already exists"), "{again}");
    let shown = cluster.done(&["get", "namespaces", "--no-headers"]).await;
    assert_eq!(cells(&shown)[..2], ["red", "Active"]);
}

/// Returns a cron tab with this name and these labels.
fn labelled(name: &str, labels: &str, schedule: &str) -> String {
    format!(
        r#"
apiVersion: stable.example.com/v1
kind: CronTab
metadata: {{name: {name}, labels: {{{labels}}}}}
spec: {{schedule: "{schedule}"}}
"#
    )
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn kubectl_migrates_to_server_side_apply_and_removes_fields_no_longer_applied() {
    let cluster = Cluster::crontabs().await;
    cluster.file("tab.yaml", &labelled("nightly", "app: web, tier: front", "0 3 * * *"));
    cluster.done(&["apply", "-f", "tab.yaml"]).await;
    cluster.file("tab.yaml", &labelled("nightly", "tier: front", "0 4 * * *"));
    let said = cluster.done(&["apply", "--server-side", "-f", "tab.yaml"]).await;
    assert_eq!(said, "crontab.stable.example.com/nightly serverside-applied\n", "without a conflict or a warning");

    let now = cluster.json(&["get", "crontabs.v1.stable.example.com", "nightly", "--show-managed-fields"]).await;
    let (metadata, applied) = (&now["metadata"], "kubectl.kubernetes.io/last-applied-configuration");
    assert_eq!(metadata["labels"], serde_json::json!({ "tier": "front" }));
    let entries = metadata["managedFields"].as_array().unwrap().iter();
    let mut managers: Vec<_> =
        entries.map(|entry| (entry["manager"].as_str().unwrap(), entry["operation"].as_str().unwrap())).collect();
    // Entries are sorted by their times, in whole seconds. The two requests of kubectl may have the same
    // time.
    managers.sort_unstable();
    assert_eq!(managers, [("kubectl", "Apply"), ("kubectl-last-applied", "Apply")]);
    let applied: Value = serde_json::from_str(metadata["annotations"][applied].as_str().unwrap()).unwrap();
    assert_eq!(applied["spec"]["schedule"], "0 4 * * *", "the annotation is updated too");

    // `nightly` has lost the label of the selector, so `--prune` keeps it.
    cluster.file("other.yaml", &labelled("other", "app: web", "0 5 * * *"));
    let prune = ["apply", "--prune", "-l", "app=web", "--prune-allowlist=stable.example.com/v1/CronTab"];
    let said = cluster.done(&[&prune[..], &["-f", "other.yaml"]].concat()).await;
    assert_eq!(said, "crontab.stable.example.com/other created\n");
    cluster.done(&["get", "crontabs.v1.stable.example.com", "nightly"]).await;
}
