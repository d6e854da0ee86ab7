//! Hosts with a store in NATS whose content is exchanged, and what they do with owners that live there.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use homeostat_store::cached::Upstream as _;
use homeostat_store::{Kind, Query, Resource};
use homeostat_testing::{eventually, eventually_blocking, soon};
use homeostat_tests::{HostProcess, Nats, run, shared_nats};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::clusters::GREETER;
use super::hosts::{LiveHost, file, in_nats};
use super::nats::{admin, contacted};

/// Definitions of the kinds `App`, which lives in NATS, and `Part`, which lives in the host's own store.
pub(super) const KINDS: &str = "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: apps.far.dev}
spec:
  group: far.dev
  scope: Namespaced
  names: {plural: apps, kind: App}
  versions:
    - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: parts.near.dev}
spec:
  group: near.dev
  scope: Namespaced
  names: {plural: parts, kind: Part}
  versions:
    - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
";

/// The folders of a host whose kind `App` lives in a bucket.
struct Folders {
    manifests: TempDir,
    scratch: TempDir,
}

impl Folders {
    fn new(bucket: &str) -> Self {
        let folders = Self { manifests: tempfile::tempdir().unwrap(), scratch: tempfile::tempdir().unwrap() };
        std::fs::write(folders.manifests.path().join("kinds.yaml"), KINDS).unwrap();
        folders.lead_to("bus", bucket);
        folders
    }

    /// Writes the file of stores.
    fn lead_to(&self, store: &str, bucket: &str) {
        self.write_stores(&stores(store, bucket, true));
    }

    fn write_stores(&self, text: &str) {
        std::fs::write(self.manifests.path().join("stores.yaml"), text).unwrap();
    }

    fn start(&self) -> HostProcess {
        HostProcess::start("run", self.manifests.path(), self.scratch.path(), &[])
    }
}

fn stores(name: &str, bucket: &str, creates: bool) -> String {
    stores_at(&shared_nats().url(), name, bucket, creates)
}

fn stores_at(url: &str, name: &str, bucket: &str, creates: bool) -> String {
    let create = if creates { ", create: {replicas: 1}" } else { "" };
    format!(
        "apiVersion: homeostat.dev/v1alpha1\nkind: Stores\nstores:\n  - name: {name}\n    nats: {{servers: [\"{url}\"], bucket: {bucket}{create}}}\nroutes:\n  - {{kinds: [\"far.dev/*\"], store: {name}}}\n"
    )
}

/// Returns what `homeostat stores` shows of a store besides `home`.
pub(super) fn store(host: &HostProcess, name: &str) -> Value {
    let listed = host.json(&["stores"]);
    let items = listed["items"].as_array().unwrap();
    items.iter().find(|item| item["name"] == name).unwrap_or_else(|| panic!("no {name} in {listed}")).clone()
}

pub(super) fn until_state(host: &HostProcess, name: &str, state: &str) -> Value {
    eventually_blocking(&format!("{name} to be {state}"), || {
        Some(store(host, name)).filter(|item| item["state"] == state)
    })
}

/// The uids and the revisions of resources, by name.
pub(super) type Identities = BTreeMap<String, [Value; 2]>;

/// Returns the uids and the revisions in a list of the API.
pub(super) fn identities(list: &Value) -> Identities {
    let of = |item: &Value| {
        let metadata = &item["metadata"];
        (metadata["name"].as_str().unwrap().to_owned(), [metadata["uid"].clone(), metadata["resourceVersion"].clone()])
    };
    list["items"].as_array().unwrap().iter().map(of).collect()
}

/// Returns the uids and the revisions of resources of a store.
pub(super) fn identities_of(resources: &[Arc<Resource>]) -> Identities {
    let identity = |one: &Resource| [json!(one.uid()), json!(one.revision().to_string())];
    resources.iter().map(|one| (one.key().name().to_owned(), identity(one))).collect()
}

/// Returns the greetings in the cache of a store of a host; `None` while the cache does not follow its server.
pub(super) fn cached_greetings(host: &HostProcess, name: &str) -> Option<Identities> {
    let status = store(host, name);
    let is_greetings = |cache: &&Value| cache["kind"] == "demo.homeostat.dev/v1/Greeting";
    let cache = status["caches"].as_array()?.iter().find(is_greetings)?;
    // A read without this revision would ask the server.
    let path = "/apis/demo.homeostat.dev/v1/namespaces/default/greetings?resourceVersion=0";
    let listed = host.read(path)?;
    (cache["state"] == "Synced").then(|| identities(&listed))
}

/// Creates a resource, and returns its uid.
pub(super) fn apply(host: &HostProcess, scratch: &Path, document: &Value) -> String {
    let file = scratch.join("document.json");
    std::fs::write(&file, document.to_string()).unwrap();
    let (kind, name) = (&document["kind"], &document["metadata"]["name"]);
    let (kind, name) = (kind.as_str().unwrap().to_lowercase(), name.as_str().unwrap());
    // A kind is known some time after its definition.
    eventually_blocking("a resource to be applied", || {
        (host.ask(&["apply", "-f", &file.display().to_string()]).code == Some(0)).then_some(())
    });
    let read = host.json(&["get", &kind, name]);
    read["metadata"]["uid"].as_str().or(read["items"][0]["metadata"]["uid"].as_str()).unwrap().to_owned()
}

/// Creates an owner in NATS and a dependent of the same name at home.
fn family(host: &HostProcess, scratch: &Path, name: &str) {
    family_of(host, scratch, ["far.dev/v1", "App"], name);
}

/// Creates an owner of a kind and a dependent of the same name at home.
pub(super) fn family_of(host: &HostProcess, scratch: &Path, [api_version, kind]: [&str; 2], name: &str) {
    let metadata = json!({"name": name, "namespace": "default"});
    let uid = apply(host, scratch, &json!({"apiVersion": api_version, "kind": kind, "metadata": metadata}));
    let owner = json!([{"apiVersion": api_version, "kind": kind, "name": name, "uid": uid}]);
    let metadata = json!({"name": name, "namespace": "default", "ownerReferences": owner});
    apply(host, scratch, &json!({"apiVersion": "near.dev/v1", "kind": "Part", "metadata": metadata}));
}

pub(super) fn has_part(host: &HostProcess, name: &str) -> bool {
    host.ask(&["get", "parts", name]).code == Some(0)
}

/// Deletes the owner in NATS, and waits until the collector has deleted the dependent.
fn collect(host: &HostProcess, name: &str) {
    collect_of(host, "apps", name);
}

/// Deletes the owner of a kind, and waits until the collector has deleted the dependent.
pub(super) fn collect_of(host: &HostProcess, owners: &str, name: &str) {
    let deleted = host.ask(&["delete", owners, name]);
    assert_eq!(deleted.code, Some(0), "{}", deleted.stderr);
    eventually_blocking("the dependent to go", || (!has_part(host, name)).then_some(()));
}

/// Deletes a bucket, and has another host make an empty one of its name.
async fn exchange(bucket: &str) {
    let url = shared_nats().url();
    soon(admin(&url).await.delete_stream(format!("KV_{bucket}"))).await.unwrap();
    contacted(&url, bucket).await.close().await;
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn content_that_was_exchanged_while_the_host_was_down_deletes_nothing() {
    let folders = Folders::new("exchanged");
    let scratch = folders.scratch.path();
    let host = folders.start();
    until_state(&host, "bus", "Ready");
    family(&host, scratch, "kept");
    family(&host, scratch, "gone");
    collect(&host, "gone");
    let before = store(&host, "bus")["id"].clone();
    host.terminate();

    exchange("exchanged").await;
    let host = folders.start();
    let now = until_state(&host, "bus", "Replaced")["replacedBy"].clone();
    assert_ne!(before, now);
    let refused = host.ask(&["get", "apps"]);
    assert!(refused.code != Some(0) && refused.stderr.contains("was replaced by"), "{}", refused.stderr);
    let listed = host.ask(&["stores"]);
    for expected in [&format!("{before}"), &format!("{now}"), "`homeostat stores accept bus`"] {
        assert!(listed.stderr.contains(expected), "{expected}\n{}", listed.stderr);
    }
    assert!(has_part(&host, "kept"));

    let accepted = host.ask(&["stores", "accept", "bus"]);
    assert_eq!(accepted.code, Some(0), "{}", accepted.stderr);
    until_state(&host, "bus", "Ready");
    let again = host.ask(&["stores", "accept", "bus"]);
    assert!(again.code == Some(1) && again.stderr.contains("was not replaced"), "{}", again.stderr);
    let unknown = host.ask(&["stores", "accept", "buss"]);
    assert!(unknown.code == Some(1) && unknown.stderr.contains("the host has home, bus"), "{}", unknown.stderr);
    // The collector works, and leaves alone what had its owner in the content before.
    family(&host, scratch, "new");
    collect(&host, "new");
    assert!(has_part(&host, "kept"));
    host.terminate();

    // The acceptance is remembered, and the content is known under its former name.
    folders.lead_to("events", "exchanged");
    let host = folders.start();
    until_state(&host, "events", "Ready");
    let notes = store(&host, "events")["notes"].to_string();
    assert!(notes.contains("store \\\"bus\\\" had"), "{notes}");
    assert_eq!(store(&host, "events")["id"], now);
    host.terminate();
}

/// Copies the files of one folder to another, which is made.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (from, to) = (entry.as_ref().unwrap().path(), to.join(entry.as_ref().unwrap().file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            std::fs::copy(&from, &to).unwrap();
        }
    }
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn a_bucket_that_is_restored_under_a_host_deletes_nothing() {
    let nats = Nats::start();
    let folders = Folders::new("restored");
    folders.write_stores(&stores_at(&nats.url(), "bus", "restored", true));
    let (scratch, backup) = (folders.scratch.path(), tempfile::tempdir().unwrap());
    let host = folders.start();
    let before = until_state(&host, "bus", "Ready")["id"].clone();
    family(&host, scratch, "old");
    nats.server().kill();
    copy(&nats.stored(), backup.path());
    nats.server().start();
    until_state(&host, "bus", "Ready");
    family(&host, scratch, "lost");

    nats.server().kill();
    std::fs::remove_dir_all(nats.stored()).unwrap();
    copy(backup.path(), &nats.stored());
    nats.server().start();
    until_state(&host, "bus", "Replaced");
    assert!(has_part(&host, "lost"));
    let accepted = host.ask(&["stores", "accept", "bus"]);
    assert_eq!(accepted.code, Some(0), "{}", accepted.stderr);
    let now = until_state(&host, "bus", "Ready")["id"].as_str().unwrap().to_owned();
    assert!(now.starts_with(&format!("{}/restored-", before.as_str().unwrap())), "{now}");
    // The collector works, and leaves alone what had its owner in the content before.
    for name in ["new", "newer"] {
        family(&host, scratch, name);
        collect(&host, name);
    }
    assert!(has_part(&host, "lost") && has_part(&host, "old"));
    assert_eq!(host.ask(&["get", "apps", "lost"]).code, Some(1), "the backup does not have it");
    host.terminate();
    let host = folders.start();
    assert_eq!(until_state(&host, "bus", "Ready")["id"], now, "the acceptance is remembered");
    host.terminate();
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_is_missing_at_the_start_is_not_created_again() {
    let folders = Folders::new("missing-later");
    let host = folders.start();
    until_state(&host, "bus", "Ready");
    host.terminate();
    let streams = admin(&shared_nats().url()).await;
    soon(streams.delete_stream("KV_missing-later")).await.unwrap();
    let host = folders.start();
    eventually_blocking("the reason", || {
        store(&host, "bus")["reason"].as_str().filter(|reason| reason.contains("has used it before")).map(drop)
    });
    assert!(soon(streams.get_stream("KV_missing-later")).await.is_err());
    host.terminate();
    // A host that was told to wait for its stores gives up.
    let more = ["--wait-for-stores", "300ms"];
    let ended = HostProcess::spawn("run", folders.manifests.path(), folders.scratch.path(), &more).wait_for_exit();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    for expected in ["not all stores can be used after 300ms:", "store bus: "] {
        assert!(ended.stderr.contains(expected), "{expected}\n{}", ended.stderr);
    }
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn stores_are_checked_without_a_host_and_without_a_trace() {
    let folder = tempfile::tempdir().unwrap();
    let check = |text: String, more: &[&str]| {
        std::fs::write(folder.path().join("stores.yaml"), text).unwrap();
        run(&[&["stores", "check", &folder.path().display().to_string()], more].concat())
    };
    let created = check(stores("bus", "unmade", true), &[]);
    assert_eq!(created.code, Some(0), "{}", created.stderr);
    assert!(created.stdout.starts_with("store/bus (nats): it can be used\n"), "{}", created.stdout);
    assert!(created.stdout.contains("the host will create it"), "{}", created.stdout);
    let missing = check(stores("bus", "unmade", false), &["-o", "json"]);
    assert_eq!(missing.code, Some(1), "{}", missing.stderr);
    let report: Value = serde_json::from_str(&missing.stdout).unwrap();
    let reason = report["items"][0]["reason"].as_str().unwrap_or_default();
    assert!(report["items"][0]["usable"] == false && reason.contains("no such bucket"), "{report}");
    assert!(soon(admin(&shared_nats().url()).await.get_stream("KV_unmade")).await.is_err(), "nothing was created");

    let stream = async_nats::jetstream::stream::Config {
        name: "KV_checked".to_owned(),
        subjects: vec!["$KV.checked.>".to_owned()],
        max_age: std::time::Duration::from_secs(3600),
        ..Default::default()
    };
    admin(&shared_nats().url()).await.create_stream(stream).await.unwrap();
    let refused = check(stores("bus", "checked", true), &[]);
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert!(refused.stdout.contains("\n  refused: max-age: "), "{}", refused.stdout);
    let none = run(&["stores", "check", &folder.path().join("nowhere").display().to_string()]);
    assert!(none.code == Some(1) && none.stderr.contains("name the file with --stores"), "{}", none.stderr);
}

/// S15: The bucket of a controller's kind is deleted while the controller runs. The store says so, sends little, and does
/// not make the bucket anew. Once a person has accepted an empty bucket, the controller goes on in it.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_controller_survives_the_deletion_of_the_bucket_of_its_kind() {
    let stores = file(&[in_nats("deleted")], &[("demo.homeostat.dev/Greeting", "bus")]);
    let live = LiveHost::with_files(&[("greeter.yaml", GREETER)], &["greeter"], "default", Some(&stores));
    let greet = |name: &str| {
        let metadata = json!({"name": name, "namespace": "default"});
        apply(
            &live.host,
            live.socket_folder(),
            &json!({"apiVersion": "demo.homeostat.dev/v1", "kind": "Greeting",
            "metadata": metadata, "spec": {"name": name}}),
        );
        live.until("greetings", name, "/status/message", &json!(format!("Hello, {name}!")));
    };
    greet("before");
    let url = shared_nats().url();
    let admin = admin(&url).await;
    soon(admin.delete_stream("KV_deleted")).await.unwrap();
    eventually_blocking("the store to say that it has no bucket", || {
        let store = store(&live.host, "bus");
        (store["state"] != "Ready" && store["reason"].to_string().contains("there is no bucket")).then_some(())
    });
    const WINDOW: Duration = Duration::from_secs(1);
    let sent = || store(&live.host, "bus")["requests"]["sent"].as_u64().unwrap();
    let before = sent();
    tokio::time::sleep(WINDOW).await;
    let more = sent() - before;
    assert!(more <= 20, "{more} requests in {WINDOW:?}");
    assert!(admin.get_stream("KV_deleted").await.is_err(), "a running host makes no bucket");

    let bucket = contacted(&url, "deleted").await;
    until_state(&live.host, "bus", "Replaced");
    let accepted = live.host.ask(&["stores", "accept", "bus"]);
    assert_eq!(accepted.code, Some(0), "{}", accepted.stderr);
    until_state(&live.host, "bus", "Ready");
    greet("after");
    let query = Query::all(Kind::new("demo.homeostat.dev", "v1", "Greeting"));
    let listed = eventually("the cache to have what the bucket has", || async {
        let listed = identities_of(&soon(bucket.list(&query)).await.unwrap().items);
        (cached_greetings(&live.host, "bus")? == listed).then_some(listed)
    })
    .await;
    assert!(listed.keys().eq(["after"]), "{listed:?}");
    bucket.close().await;
    live.host.terminate();
}
