//! Whole hosts whose kinds live on real servers. The guests are those of the examples, unchanged.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use homeostat_testing::{eventually_blocking, eventually_built};
use homeostat_tests::{Cluster, HostProcess, guest, repository, shared_cluster, shared_nats};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The guests of `examples/apps`.
pub(super) const APPS: [&str; 3] = ["deployments", "replicasets", "kubelet"];

/// A host that runs an example over the stores of a file.
pub(super) struct LiveHost {
    folder: TempDir,
    scratch: TempDir,
    pub(super) host: HostProcess,
    namespace: String,
    /// Further arguments of the host.
    arguments: Vec<String>,
}

impl LiveHost {
    /// Starts a host with the manifests and guests of an example. Texts of the manifests are replaced, as tests share
    /// their servers.
    pub(super) fn start(
        example: &str,
        guests: &[&str],
        namespace: &str,
        replaced: &[(&str, &str)],
        stores: Option<&dyn Display>,
    ) -> Self {
        let files = manifests(example, replaced);
        let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (&**name, &**text)).collect();
        Self::with_files(&files, guests, namespace, stores)
    }

    /// Starts a host as [`start`](Self::start) does. The folder has no file of stores: the host gets one with
    /// `--stores`.
    fn start_with_stores(
        example: &str,
        guests: &[&str],
        namespace: &str,
        replaced: &[(&str, &str)],
        stores: &dyn Display,
    ) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("elsewhere.yaml");
        fs::write(&file, stores.to_string()).unwrap();
        let arguments = vec!["--stores".to_owned(), file.display().to_string()];
        Self::over(folder(&manifests(example, replaced), guests), scratch, namespace.to_owned(), arguments)
    }

    /// Starts a host with these manifests and guests, and a file of stores unless it is among the manifests.
    pub(super) fn with_files(
        files: &[(&str, &str)],
        guests: &[&str],
        namespace: &str,
        stores: Option<&dyn Display>,
    ) -> Self {
        let folder = folder(files, guests);
        if let Some(stores) = stores {
            // JSON is valid YAML.
            fs::write(folder.path().join("stores.yaml"), stores.to_string()).unwrap();
        }
        Self::over(folder, tempfile::tempdir().unwrap(), namespace.to_owned(), Vec::new())
    }

    /// Starts a host on a folder.
    fn over(folder: TempDir, scratch: TempDir, namespace: String, arguments: Vec<String>) -> Self {
        let more: Vec<&str> = ["--namespaces", "any"].into_iter().chain(arguments.iter().map(String::as_str)).collect();
        let host = HostProcess::start("run", folder.path(), scratch.path(), &more);
        Self { folder, scratch, host, namespace, arguments }
    }

    /// Ends the host in order, and starts it again.
    pub(super) fn restart(self) -> Self {
        self.restart_after(|| ())
    }

    /// Ends the host in order, changes what it finds at its next start, and starts it again.
    pub(super) fn restart_after(self, change: impl FnOnce()) -> Self {
        let Self { folder, scratch, host, namespace, arguments } = self;
        host.terminate();
        change();
        Self::over(folder, scratch, namespace, arguments)
    }

    /// Replaces a text in a manifest.
    pub(super) fn edit(&self, file: &str, from: &str, to: &str) {
        let path = self.folder.path().join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{from} is not in {text}");
        fs::write(path, text.replace(from, to)).unwrap();
    }

    /// Writes a file beside the manifests, and returns its path.
    pub(super) fn write(&self, name: &str, text: &str) -> String {
        let path = self.scratch.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// Returns the folder of the socket of the host.
    pub(super) fn socket_folder(&self) -> &Path {
        self.scratch.path()
    }

    /// Returns the resources of a kind in the namespace; `None` while they cannot be read.
    pub(super) fn list(&self, kind: &str) -> Option<Vec<Value>> {
        let output = self.host.ask(&["get", kind, "-n", &self.namespace, "-o", "json"]);
        let listed: Value = serde_json::from_str(&output.stdout).ok()?;
        listed["items"].as_array().cloned()
    }

    /// Waits until a resource of the namespace has a value.
    pub(super) fn until(&self, kind: &str, name: &str, pointer: &str, wanted: &Value) {
        eventually_built(&format!("{kind}/{name}: {pointer} = {wanted}; {}", self.host.stderr()), || {
            let found = self.list(kind)?.into_iter().find(|item| item["metadata"]["name"] == name)?;
            (found.pointer(pointer) == Some(wanted)).then_some(())
        });
    }

    /// Waits until exactly so many pods run, all with this image, and returns their uids.
    pub(super) fn until_pods(&self, count: usize, image: &str) -> BTreeSet<String> {
        eventually_built(&format!("{count} pods with {image}"), || {
            let pods = self.list("pods")?;
            let runs = |pod: &Value| {
                pod["status"]["phase"] == "Running"
                    && pod["spec"]["containers"][0]["image"] == image
                    && pod["metadata"]["deletionTimestamp"].is_null()
            };
            (pods.len() == count && pods.iter().all(runs)).then(|| uids(&pods))
        })
    }

    fn until_none(&self, kind: &str) {
        eventually_built(&format!("no {kind}"), || self.list(kind)?.is_empty().then_some(()));
    }

    /// Returns the kinds of which a store has caches, as `homeostat stores` shows them.
    fn kinds_in_use(&self, store: &str) -> Vec<Value> {
        let listed = self.host.json(&["stores"]);
        let found = listed["items"].as_array().unwrap().iter().find(|item| item["name"] == store).unwrap();
        assert_eq!(found["state"], "Ready", "{found}");
        found["caches"].as_array().unwrap().iter().map(|cache| cache["kind"].clone()).collect()
    }
}

/// Returns the manifests of an example, each with its name. Texts in them are replaced.
fn manifests(example: &str, replaced: &[(&str, &str)]) -> Vec<(String, String)> {
    let entries = fs::read_dir(repository().join("examples").join(example)).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let manifests = paths.filter(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        let text = replaced.iter().fold(text, |text, (from, to)| text.replace(from, to));
        (path.file_name().unwrap().to_string_lossy().into_owned(), text)
    };
    manifests.map(read).collect()
}

/// Makes a folder with manifests and guests.
fn folder(files: &[(impl AsRef<str>, impl AsRef<str>)], guests: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name.as_ref()), text.as_ref()).unwrap();
    }
    for name in guests {
        fs::copy(guest(name), folder.path().join(format!("{name}.wasm"))).unwrap();
    }
    folder
}

/// Returns a file of `examples/stores`. Texts in it are replaced, each once.
fn example_stores(name: &str, replaced: &[(&str, &str)]) -> String {
    let text = fs::read_to_string(repository().join("examples/stores").join(name)).unwrap();
    replaced.iter().fold(text, |text, (from, to)| {
        assert!(text.contains(from), "{from} is not in {text}");
        text.replacen(from, to, 1)
    })
}

fn uids(resources: &[Value]) -> BTreeSet<String> {
    resources.iter().map(|resource| resource["metadata"]["uid"].as_str().unwrap().to_owned()).collect()
}

/// Returns a store in a bucket of the shared server.
pub(crate) fn in_nats(bucket: &str) -> Value {
    let create = json!({"storage": "memory"});
    json!({"name": "bus", "nats": {"servers": [shared_nats().url()], "bucket": bucket, "create": create}})
}

/// Returns a store in the shared cluster, for one of its users, in a namespace of its own.
pub(crate) fn in_cluster(namespace: &str, user: &str) -> Value {
    let cluster = shared_cluster();
    let document = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    assert_eq!(cluster.request("POST", "/api/v1/namespaces", Some(&document)).status, 201);
    let account = format!("/api/v1/namespaces/{namespace}/serviceaccounts/default");
    eventually_blocking("the account of pods", || (cluster.request("GET", &account, None).status == 200).then_some(()));
    json!({"name": "cluster", "kubernetes": {"kubeconfig": cluster.kubeconfig(user), "namespace": namespace}})
}

/// Returns a file of stores. Each route is a pattern and the name of a store.
pub(crate) fn file(stores: &[Value], routes: &[(&str, &str)]) -> Value {
    let routes: Vec<Value> = routes.iter().map(|(kinds, store)| json!({"kinds": [kinds], "store": store})).collect();
    json!({"apiVersion": "homeostat.dev/v1alpha1", "kind": "Stores", "stores": stores, "routes": routes})
}

/// Starts the apps with the Deployment in a namespace. Their folder has no file of stores, so `--stores` names
/// one.
fn start_apps(namespace: &str, stores: &dyn Display) -> LiveHost {
    let replaced = [("namespace: default", &*format!("namespace: {namespace}"))];
    LiveHost::start_with_stores("apps", &APPS, namespace, &replaced, stores)
}

/// Rolls the Deployment of the example out, restarts the host, scales the Deployment, and deletes it.
fn run_apps(live: LiveHost) -> LiveHost {
    live.until("deployments", "web", "/status/availableReplicas", &json!(5));
    live.until_pods(5, "web:1");
    live.edit("web.yaml", "image: web:1", "image: web:2");
    let before = live.until_pods(5, "web:2");
    let live = live.restart();
    live.edit("web.yaml", "replicas: 5", "replicas: 2");
    let after = live.until_pods(2, "web:2");
    assert!(after.is_subset(&before), "a restart makes no pod anew");
    live.until("deployments", "web", "/status/availableReplicas", &json!(2));
    let deleted = live.host.ask(&["delete", "deployments", "web", "-n", &live.namespace]);
    assert_eq!(deleted.code, Some(0), "{}", deleted.stderr);
    live.until_none("replicasets");
    live
}

/// S15: The guests of the apps run unchanged when their kinds live in a bucket of NATS, which the file of the examples
/// names.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn apps_run_unchanged_on_nats() {
    let replaced = [("nats://127.0.0.1:4222", &*shared_nats().url()), ("bucket: homeostat", "bucket: hosts-apps")];
    let live = run_apps(start_apps("default", &example_stores("nats.yaml", &replaced)));
    live.until_none("pods");
    assert_eq!(live.kinds_in_use("bus"), ["v1/Pod", "apps/v1/Deployment", "apps/v1/ReplicaSet"]);
    live.host.terminate();
}

/// S15: The guests of the apps run unchanged when their kinds live in a Kubernetes cluster, which the file of
/// the examples names. They run in place of the cluster's own controllers of Deployments and ReplicaSets.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn apps_run_unchanged_on_kubernetes() {
    let namespace = "hosts-apps";
    let store = in_cluster(namespace, "admin");
    let kubeconfig = store["kubernetes"]["kubeconfig"].as_str().unwrap();
    let place = format!("namespace: {namespace}, kubeconfig: {kubeconfig}");
    let live = start_apps(namespace, &example_stores("kubernetes.yaml", &[("namespace: default", &place)]));
    live.until_pods(5, "web:1");
    let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments/web");
    assert_eq!(shared_cluster().request("GET", &path, None).status, 200, "the cluster has the Deployment");
    let live = run_apps(live);
    live.until_none("pods");
    live.host.terminate();
}

/// S15: The guests of the apps run unchanged when Deployments and ReplicaSets live in NATS, and Pods in a
/// cluster.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn apps_run_unchanged_when_their_pods_live_in_another_store() {
    let namespace = "hosts-mixed";
    let stores =
        file(&[in_nats("hosts-mixed"), in_cluster(namespace, "admin")], &[("apps/*", "bus"), ("v1/Pod", "cluster")]);
    let live = run_apps(start_apps(namespace, &stores));
    // Nobody else deletes them: their owner lives elsewhere. It may take a minute.
    live.until_none("pods");
    live.host.terminate();
}

/// Returns the definition of a kind of the examples.
pub(super) fn definition(kind: &str, is_namespaced: bool) -> Value {
    let plural = format!("{}s", kind.to_lowercase());
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"type": "object", "properties": {"spec": anything, "status": anything}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.demo.homeostat.dev")},
        "spec": {
            "group": "demo.homeostat.dev", "scope": if is_namespaced { "Namespaced" } else { "Cluster" },
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}}}],
        },
    })
}

/// Defines a kind of the examples in the cluster, and waits until it is served.
pub(super) fn define(cluster: &Cluster, kind: &str, is_namespaced: bool) {
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let answer = cluster.request("POST", path, Some(&definition(kind, is_namespaced)));
    assert!(matches!(answer.status, 201 | 409), "{answer:?}");
    let path = format!("/apis/demo.homeostat.dev/v1/{}s", kind.to_lowercase());
    let is_served = || (cluster.request("GET", &path, None).status == 200).then_some(());
    eventually_blocking("the kind is served", is_served);
}

/// Starts the example `tenants` with a tenant that has one namespace of the cluster, and changes both sides.
fn run_tenants(namespace: &str, tenant: &str, stores: &Value) {
    let cluster = shared_cluster();
    let (name, namespaces) = (format!("name: {tenant}"), format!("[{namespace}]"));
    let replaced = [("name: blue", &*name), ("[blue-test, blue-live]", &namespaces)];
    let live = LiveHost::start("tenants", &["tenants"], namespace, &replaced, Some(stores));
    live.host.until("tenants", tenant, "/status/quotas", &json!(1));
    let quota = format!("/apis/demo.homeostat.dev/v1/namespaces/{namespace}/quotas/{tenant}");
    let in_cluster = |what: &str, wanted: &dyn Fn(&Value) -> bool| {
        eventually_blocking(what, || {
            let answer = cluster.request("GET", &quota, None);
            (answer.status == 200).then(|| answer.json()).filter(|quota| wanted(quota))
        })
    };
    let first = in_cluster("the quota", &|quota| quota["spec"]["pods"] == 20);
    // A change of the primary reaches the secondary, and its deletion by somebody else brings the primary's key.
    live.edit("tenants.yaml", "pods: 20", "pods: 30");
    in_cluster("the new size", &|quota| quota["spec"]["pods"] == 30);
    assert_eq!(cluster.request("DELETE", &quota, None).status, 200);
    let second = in_cluster("the quota again", &|quota| quota["metadata"]["uid"] != first["metadata"]["uid"]);
    assert_eq!(second["spec"]["pods"], 30);
    // The reference is plain wherever the owner lives.
    let owned_by = live.host.json(&["get", "tenants", tenant]);
    let shown = live.host.json(&["get", "quotas", tenant, "-n", namespace]);
    let owner = &shown["metadata"]["ownerReferences"][0];
    assert_eq!([&owner["kind"], &owner["uid"]], [&json!("Tenant"), &owned_by["metadata"]["uid"]]);
    live.host.terminate();
}

/// S15: A primary lives in NATS and its secondaries in a cluster, in custom kinds; the guest is unchanged.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn tenants_run_unchanged_when_their_quotas_live_in_a_cluster() {
    let namespace = "hosts-far-quotas";
    let stores = [in_nats("hosts-tenants"), in_cluster(namespace, "admin")];
    define(shared_cluster(), "Quota", true);
    let routes = [("demo.homeostat.dev/Tenant", "bus"), ("demo.homeostat.dev/Quota", "cluster")];
    run_tenants(namespace, "far", &file(&stores, &routes));
}

/// S15: A primary and its secondaries live in a cluster, in custom kinds; the guest is unchanged.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn tenants_run_unchanged_in_a_cluster() {
    let namespace = "hosts-tenants";
    let stores = [in_cluster(namespace, "admin")];
    define(shared_cluster(), "Tenant", false);
    define(shared_cluster(), "Quota", true);
    run_tenants(namespace, "near", &file(&stores, &[("demo.homeostat.dev/*", "cluster")]));
}
