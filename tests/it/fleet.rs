//! Several hosts that share a bucket of NATS or a cluster: the host that works on a controller, and its end.

mod answers;
mod feeders;
mod hand_over;
mod host_resources;
mod loads;
mod refusals;
mod rollouts;
mod simulation;
mod webhooks;

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::{fs, thread};

use homeostat_testing::{eventually_blocking, eventually_built};
use homeostat_tests::{Cluster, HostProcess, guest, shared_cluster};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::metrics::scrape::Scrape;
use crate::stores::hosts::{file, in_cluster, in_nats};

/// The names of the hosts, each with the code with which the service answers it.
const HOSTS: [(&str, u16); 3] = [("a", 201), ("b", 202), ("c", 203)];

/// An HTTP service that holds each request of a host until the test lets the host go on.
struct Service {
    port: u16,
    shared: Arc<(Mutex<Requests>, Condvar)>,
}

#[derive(Default)]
struct Requests {
    /// By host, its requests so far.
    seen: BTreeMap<String, usize>,
    /// By host, how many of them may be answered.
    allowed: BTreeMap<String, usize>,
}

impl Service {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, shared) = (listener.local_addr().unwrap().port(), Arc::default());
        let of_thread = Arc::clone(&shared);
        thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                let shared = Arc::clone(&of_thread);
                // A host that was killed has closed its connection.
                thread::spawn(move || drop(answer(connection, &shared)));
            }
        });
        Self { port, shared }
    }

    /// Lets a host go on without end.
    fn release(&self, host: &str) {
        self.shared.0.lock().unwrap().allowed.insert(host.to_owned(), usize::MAX);
        self.shared.1.notify_all();
    }

    fn release_all(&self) {
        HOSTS.iter().for_each(|(host, _)| self.release(host));
    }

    /// Waits for a request of any of these hosts, and returns the host.
    fn first_of(&self, hosts: &[&str]) -> String {
        let seen = || self.shared.0.lock().unwrap().seen.keys().find(|host| hosts.contains(&&***host)).cloned();
        eventually_built(&format!("a request of {hosts:?}"), seen)
    }

    fn count(&self, host: &str) -> usize {
        self.shared.0.lock().unwrap().seen.get(host).copied().unwrap_or_default()
    }
}

fn answer(mut connection: TcpStream, shared: &(Mutex<Requests>, Condvar)) -> std::io::Result<()> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        connection.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
    let host = head.lines().find_map(|line| line.strip_prefix("x-host: ")).unwrap_or_default().to_owned();
    let mut requests = shared.0.lock().unwrap();
    let number = requests.seen.entry(host.clone()).or_default();
    *number += 1;
    let number = *number;
    while requests.allowed.get(&host).is_none_or(|allowed| *allowed < number) {
        requests = shared.1.wait(requests).unwrap();
    }
    drop(requests);
    let code = HOSTS.iter().find(|(name, _)| *name == host).map_or(500, |(_, code)| *code);
    write!(connection, "HTTP/1.1 {code} OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
}

/// Hosts with the same controller, whose kind lives in one bucket.
struct Fleet {
    service: Service,
    stores: Value,
    namespace: &'static str,
    lease: &'static str,
}

/// One of them.
struct Member {
    name: &'static str,
    namespace: &'static str,
    process: HostProcess,
    folder: TempDir,
    scratch: TempDir,
}

impl Fleet {
    /// A fleet on a bucket of the shared server of NATS.
    fn new(bucket: &str, lease: &'static str) -> Self {
        Self::over(&in_nats(bucket), "default", lease)
    }

    /// A fleet on a namespace of the shared cluster, which defines the kind.
    fn on_cluster(namespace: &'static str, lease: &'static str) -> Self {
        define(shared_cluster(), "Fetcher");
        Self::over(&in_cluster(namespace, "admin"), namespace, lease)
    }

    fn over(store: &Value, namespace: &'static str, lease: &'static str) -> Self {
        Self { service: Service::start(), stores: stores_with(store), namespace, lease }
    }

    fn start(&self, name: &'static str) -> Member {
        self.start_placed(name, &json!("singleton"))
    }

    fn start_placed(&self, name: &'static str, placement: &Value) -> Member {
        self.start_over(name, placement, &self.stores)
    }

    fn start_over(&self, name: &'static str, placement: &Value, stores: &Value) -> Member {
        let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let url = format!("http://127.0.0.1:{}/*", self.service.port);
        let headers = json!({"x-host": {"value": name}});
        let controller = json!({
            "apiVersion": "homeostat.dev/v1alpha1",
            "kind": "Controller",
            "metadata": {"name": "fetcher"},
            "spec": {
                "component": {"file": "guest-fetcher.wasm"},
                "placement": placement,
                "limits": {"deadline": "5m"},
                "grants": {
                    "resources": [{"kinds": ["demo.homeostat.dev/Fetcher"], "verbs": ["*"], "namespaces": ["*"]}],
                    "http": [{"urls": [url], "methods": ["GET"], "addresses": ["loopback"], "headers": headers}],
                },
            },
        });
        // JSON is valid YAML.
        fs::write(folder.path().join("fetcher.yaml"), controller.to_string()).unwrap();
        fs::write(folder.path().join("stores.yaml"), stores.to_string()).unwrap();
        fs::copy(guest("guest-fetcher"), folder.path().join("guest-fetcher.wasm")).unwrap();
        let more = ["--host-name", name, "--lease-duration", self.lease];
        let process = HostProcess::start("run", folder.path(), scratch.path(), &more);
        Member { name, namespace: self.namespace, process, folder, scratch }
    }

    fn fetcher(&self, name: &str) -> Value {
        json!({
            "apiVersion": "demo.homeostat.dev/v1",
            "kind": "Fetcher",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {"url": format!("http://127.0.0.1:{}/{name}", self.service.port)},
        })
    }
}

/// Returns a file of stores with this one, in which the kind lives.
fn stores_with(store: &Value) -> Value {
    let name = store["name"].as_str().unwrap();
    file(std::slice::from_ref(store), &[("demo.homeostat.dev/Fetcher", name)])
}

/// Defines a kind of the demo group in a cluster.
fn define(cluster: &Cluster, kind: &str) {
    let singular = kind.to_ascii_lowercase();
    let plural = format!("{singular}s");
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"type": "object", "properties": {"spec": anything, "status": anything}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.demo.homeostat.dev")},
        "spec": {
            "group": "demo.homeostat.dev",
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": singular},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}},
            }],
        },
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let made = cluster.request("POST", path, Some(&definition));
    assert!(matches!(made.status, 201 | 409), "{made:?}");
}

impl Member {
    /// Creates a resource through this host.
    fn create(&self, document: &Value) {
        let file = self.scratch.path().join("resource.json");
        fs::write(&file, document.to_string()).unwrap();
        // The kind is known once the component is compiled.
        eventually_built(&format!("{document} to be applied: {}", self.process.stderr()), || {
            (self.process.ask(&["apply", "-f", &file.display().to_string()]).code == Some(0)).then_some(())
        });
    }

    /// Returns the status of the controller on this host.
    fn controller(&self) -> Option<Value> {
        let output = self.process.ask(&["get", "controllers", "fetcher", "-o", "json"]);
        let document: Value = serde_json::from_str(&output.stdout).ok()?;
        Some(document["status"].clone())
    }

    /// Waits until the condition `Ready` of the controller has a reason.
    fn is(&self, reason: &str) {
        eventually_built(&format!("host {} to be {reason}: {}", self.name, self.process.stderr()), || {
            let status = self.controller()?;
            let conditions = status["conditions"].as_array()?;
            conditions.iter().any(|one| one["type"] == "Ready" && one["reason"] == reason).then_some(())
        });
    }

    fn fetched_by(&self, name: &str, host: &str) {
        let code = HOSTS.iter().find(|(known, _)| *known == host).unwrap().1;
        eventually_built(&format!("{name} fetched by {host}: {}", self.process.stderr()), || {
            (self.status(name)?["code"] == code).then_some(())
        });
    }

    fn status(&self, name: &str) -> Option<Value> {
        let output = self.process.ask(&["get", "fetchers", name, "-n", self.namespace, "-o", "json"]);
        Some(serde_json::from_str::<Value>(&output.stdout).ok()?["status"].clone())
    }

    /// Waits until this host lists exactly these hosts, each with whether it drains and the leases that it holds.
    fn lists(&self, hosts: &[(&str, bool, &[&str])]) {
        let mut expected = hosts.to_vec();
        expected.sort_unstable();
        let expected = json!(expected);
        eventually_built(&format!("host {} to list {expected}: {}", self.name, self.process.stderr()), || {
            let output = self.process.ask(&["hosts", "-o", "json"]);
            let list: Value = serde_json::from_str(&output.stdout).ok()?;
            let row = |item: &Value| json!([item["name"], item["isDraining"], item["leases"]]);
            let rows = list["items"].as_array()?.iter().map(row).collect::<Value>();
            (rows == expected).then_some(())
        });
    }

    /// Ends the host in order.
    fn stop(self) -> TempDir {
        let Self { process, folder, .. } = self;
        let ended = process.terminate();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        folder
    }
}

/// Splits members into the one with this name and the others.
fn split(members: Vec<Member>, name: &str) -> (Member, Vec<Member>) {
    let (mut holder, others): (Vec<_>, Vec<_>) = members.into_iter().partition(|member| member.name == name);
    (holder.pop().unwrap(), others)
}

/// Returns the names.
fn names(members: &[Member]) -> Vec<&str> {
    members.iter().map(|member| member.name).collect()
}

/// C7: A controller runs on one of three hosts; the others wait, and serve its resources.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn a_controller_runs_on_one_of_three_hosts() {
    let fleet = Fleet::new("fleet-one", "60s");
    fleet.service.release_all();
    let members = HOSTS.map(|(name, _)| fleet.start(name));
    members[1].create(&fleet.fetcher("one"));
    let holder = fleet.service.first_of(&["a", "b", "c"]);
    for member in &members {
        member.fetched_by("one", &holder);
        member.is(if member.name == holder { "Ready" } else { "Standby" });
        assert!(member.name == holder || fleet.service.count(member.name) == 0, "{} works too", member.name);
    }
}

/// C7: A host that ends in order gives its leases to another one, long before they would run out.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn a_host_that_ends_hands_its_controllers_over() {
    let fleet = Fleet::new("fleet-release", "10m");
    fleet.service.release_all();
    let members = vec![fleet.start("a"), fleet.start("b")];
    members[0].create(&fleet.fetcher("one"));
    let first = fleet.service.first_of(&["a", "b"]);
    members[0].fetched_by("one", &first);
    let (holder, others) = split(members, &first);
    drop(holder.stop());
    // The next holder lists: it reconciles what the former one has settled, too.
    others[0].fetched_by("one", others[0].name);
    others[0].create(&fleet.fetcher("two"));
    others[0].fetched_by("two", others[0].name);
}

/// C7: A host that drains gives its controllers to another one, and takes leases again when the drain has ended.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn a_host_that_drains_gives_its_controllers_to_another_one() {
    let fleet = Fleet::new("fleet-drain", "60s");
    let members = vec![fleet.start("a"), fleet.start("b")];
    members[0].create(&fleet.fetcher("one"));
    let first = fleet.service.first_of(&["a", "b"]);
    let (holder, others) = split(members, &first);
    let other = &others[0];
    for member in [&holder, other] {
        member.lists(&[(holder.name, false, &["fetcher"]), (other.name, false, &[])]);
    }
    let hosts = holder.process.json(&["hosts"]);
    let told = hosts["items"].as_array().unwrap().iter().find(|item| item["name"] == other.name).unwrap();
    assert_eq!(told["version"], env!("CARGO_PKG_VERSION"), "{told}");
    assert!(told["address"].as_str().unwrap().starts_with("unix:") && told["processors"].is_u64(), "{told}");
    let described = holder.process.ask(&["describe", "controller", "fetcher"]).stdout;
    assert!(described.contains("Leases:\n") && described.contains(&format!("{first}_")), "{described}");
    // The reconcile of `one` still runs, so the lease cannot be given up.
    let late = holder.process.ask(&["drain", "--wait", "1ms"]);
    assert!(late.code != Some(0) && late.stderr.contains("it holds fetcher"), "{late:?}");
    fleet.service.release_all();
    let drained = holder.process.ask(&["drain", "--wait", "5m"]);
    assert_eq!((drained.code, drained.stdout.as_str()), (Some(0), &*format!("host/{first} drained\n")), "{drained:?}");
    other.fetched_by("one", other.name);
    holder.lists(&[(holder.name, true, &[]), (other.name, false, &["fetcher"])]);
    holder.is("Standby");
    // The drained host still serves the resources.
    holder.create(&fleet.fetcher("two"));
    holder.fetched_by("two", other.name);
    let ended = holder.process.ask(&["uncordon"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    other.lists(&[(holder.name, false, &[]), (other.name, false, &["fetcher"])]);
    let drained = other.process.ask(&["drain", "--wait", "5m"]);
    assert_eq!(drained.code, Some(0), "{drained:?}");
    other.create(&fleet.fetcher("three"));
    other.fetched_by("three", &first);
}

/// Kills the holder in the middle of a reconcile; another host works after the length of the lease.
fn kill_the_holder(fleet: &Fleet) {
    let members: Vec<_> = HOSTS.map(|(name, _)| fleet.start(name)).into();
    members[0].create(&fleet.fetcher("one"));
    let first = fleet.service.first_of(&["a", "b", "c"]);
    let (holder, others) = split(members, &first);
    holder.process.kill();
    let second = fleet.service.first_of(&names(&others));
    fleet.service.release_all();
    others[0].fetched_by("one", &second);
}

/// C7: When the holder is killed, another host works after the length of the lease.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn another_host_works_when_the_holder_is_killed() {
    kill_the_holder(&Fleet::new("fleet-kill", "3s"));
}

/// C7: The same with a kind that lives in a Kubernetes cluster.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn another_host_works_when_the_holder_of_a_cluster_is_killed() {
    kill_the_holder(&Fleet::on_cluster("fleet-kill", "3s"));
}

/// Stops the holder in the middle of a reconcile beyond its lease, and lets it go on.
fn freeze_the_holder(fleet: &Fleet) {
    let members = vec![fleet.start("a"), fleet.start("b")];
    members[0].create(&fleet.fetcher("one"));
    let first = fleet.service.first_of(&["a", "b"]);
    let (frozen, others) = split(members, &first);
    frozen.process.signal("STOP");
    let second = fleet.service.first_of(&names(&others));
    fleet.service.release(&second);
    others[0].fetched_by("one", &second);
    let revision = |member: &Member| {
        let output = member.process.ask(&["get", "fetchers", "one", "-n", member.namespace, "-o", "json"]);
        let document: Value = serde_json::from_str(&output.stdout).ok()?;
        document["metadata"]["resourceVersion"].as_str().map(str::to_owned)
    };
    let before = revision(&others[0]).unwrap();
    // The guest of the frozen host gets its answer at once, and would write its status.
    fleet.service.release(&first);
    frozen.process.signal("CONT");
    frozen.is("Standby");
    let after = eventually_blocking("the resource on the host that was frozen", || revision(&frozen));
    assert_eq!(after, before, "{}", frozen.process.stderr());
    assert_eq!(revision(&others[0]).unwrap(), before);
}

/// C7: A holder that is stopped beyond its lease writes nothing when it goes on.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn a_holder_that_was_frozen_beyond_its_lease_writes_nothing() {
    freeze_the_holder(&Fleet::new("fleet-freeze", "9s"));
}

/// C7: The same with a kind that lives in a Kubernetes cluster, whose server compares no fence.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn a_holder_of_a_cluster_that_was_frozen_beyond_its_lease_writes_nothing() {
    freeze_the_holder(&Fleet::on_cluster("fleet-freeze", "9s"));
}

/// C7: A controller of every host runs on each of them, without a lease.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn a_controller_of_every_host_runs_on_each_of_them() {
    let fleet = Fleet::new("fleet-every", "1h");
    fleet.service.release_all();
    let members = ["a", "b"].map(|name| fleet.start_placed(name, &json!("every-host")));
    members[0].create(&fleet.fetcher("one"));
    for member in &members {
        fleet.service.first_of(&[member.name]);
        member.is("Ready");
        assert!(member.controller().unwrap()["leases"].is_null());
    }
}

/// C7: The shards of a controller spread over the hosts that come, and each key runs where its shard is.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn shards_spread_over_the_hosts_and_keys_follow_them() {
    let fleet = Fleet::new("fleet-shards", "3s");
    fleet.service.release_all();
    let placement = json!({"sharded": {"shards": 4}});
    let a = fleet.start_placed("a", &placement);
    let names: Vec<String> = (0..16).map(|number| format!("r{number}")).collect();
    names.iter().for_each(|name| a.create(&fleet.fetcher(name)));
    names.iter().for_each(|name| a.fetched_by(name, "a"));
    let b = fleet.start_placed("b", &placement);
    let held = |member: &Member| {
        let status = member.controller()?;
        Some(status["leases"].as_array()?.iter().filter(|lease| lease["isHeld"] == true).count())
    };
    eventually_built("two shards on each host", || (held(&a) == Some(2) && held(&b) == Some(2)).then_some(()));
    eventually_built("both hosts to count them", || {
        let counts = [&a, &b].map(|host| Scrape::of(host.scratch.path()).get("leader_election_master_status", &[]));
        (counts == [2.0, 2.0]).then_some(())
    });
    // The host that receives a shard lists its keys.
    eventually_built("keys of both hosts", || {
        let codes: Vec<Value> =
            names.iter().map(|name| Some(a.status(name)?["code"].clone())).collect::<Option<_>>()?;
        (codes.contains(&json!(201)) && codes.contains(&json!(202))).then_some(())
    });
    drop(b.stop());
    names.iter().for_each(|name| a.fetched_by(name, "a"));
}

/// C7: Hosts with different numbers of shards do not work at the same time.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn the_number_of_shards_changes_when_the_last_host_with_the_former_one_has_left() {
    let fleet = Fleet::new("fleet-resharded", "3s");
    fleet.service.release_all();
    let a = fleet.start_placed("a", &json!({"sharded": {"shards": 2}}));
    a.create(&fleet.fetcher("one"));
    a.fetched_by("one", "a");
    let b = fleet.start_placed("b", &json!({"sharded": {"shards": 3}}));
    b.is("Standby");
    eventually_built("the reason", || {
        b.controller()?["message"].as_str()?.contains("\"2-by-key\" are in force").then_some(())
    });
    b.create(&fleet.fetcher("two"));
    a.fetched_by("two", "a");
    assert_eq!(fleet.service.count("b"), 0);
    drop(a.stop());
    b.fetched_by("one", "b");
    b.fetched_by("two", "b");
}
