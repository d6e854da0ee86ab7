//! Kinds that move from a host's own store to NATS and back: the real host, its guests and a real nats-server.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use homeostat_fixtures::{Fault, FaultyStore, On, create, demo, demo_kind, memory_store};
use homeostat_store::moves::MoveStep;
use homeostat_store::routes::Routes;
use homeostat_store::{Error, Query, Result, RoutedStore, Store, StorePart};
use homeostat_testing::{BOUND, eventually_blocking, eventually_built};
use homeostat_tests::{HostProcess, guest, homeostat, repository, shared_nats};
use serde_json::{Value, json};
use tempfile::TempDir;

const GREETINGS: usize = 2_000;

/// The folders of a host with a store `bus` in NATS.
struct Folders {
    manifests: TempDir,
    scratch: TempDir,
    bucket: &'static str,
}

impl Folders {
    fn new(example: &str, guests: &[&str], bucket: &'static str) -> Self {
        let folders = Self { manifests: tempfile::tempdir().unwrap(), scratch: tempfile::tempdir().unwrap(), bucket };
        for entry in fs::read_dir(repository().join("examples").join(example)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "yaml") {
                fs::copy(&path, folders.manifests.path().join(path.file_name().unwrap())).unwrap();
            }
        }
        for name in guests {
            fs::copy(guest(name), folders.manifests.path().join(format!("{name}.wasm"))).unwrap();
        }
        folders
    }

    fn route(&self, kind: &str, store: &str) {
        let (url, bucket) = (shared_nats().url(), self.bucket);
        let file = json!({
            "apiVersion": "homeostat.dev/v1alpha1", "kind": "Stores",
            "stores": [{"name": "bus", "nats": {"servers": [url], "bucket": bucket, "create": {"replicas": 1}}}],
            "routes": [{"kinds": [format!("demo.homeostat.dev/{kind}")], "store": store}],
        });
        fs::write(self.manifests.path().join("stores.yaml"), file.to_string()).unwrap();
    }

    fn start(&self, kind: &str, lives: &str) -> HostProcess {
        self.route(kind, lives);
        // The tenants of a test have namespaces that nobody makes.
        let any = ["--namespaces", "any"];
        let host = HostProcess::start("run", self.manifests.path(), self.scratch.path(), &any);
        eventually_blocking("the bus to be ready", || {
            let stores = host.json(&["stores"]);
            stores["items"].as_array()?.iter().all(|store| store["state"] == "Ready").then_some(())
        });
        host
    }

    /// Starts a host that refuses to start, and returns what it says.
    fn refused(&self, kind: &str, lives: &str) -> String {
        self.route(kind, lives);
        let ended = HostProcess::spawn("run", self.manifests.path(), self.scratch.path(), &[]).wait_for_exit();
        assert_ne!(ended.code, Some(0));
        ended.stderr
    }

    /// Returns the response to a GET request, as far as it arrives before `end`.
    fn get(&self, path: &str, end: &str) -> String {
        let mut stream = UnixStream::connect(self.scratch.path().join("host.sock")).unwrap();
        stream.set_read_timeout(Some(BOUND)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let (mut answer, mut bytes) = (String::new(), [0; 4096]);
        while !answer.contains(end) {
            match stream.read(&mut bytes).unwrap() {
                0 => break,
                read => answer.push_str(&String::from_utf8_lossy(&bytes[..read])),
            }
        }
        answer
    }

    /// Returns the revision of a list.
    fn revision(&self, plural: &str) -> String {
        let answer = self.get(&format!("/apis/demo.homeostat.dev/v1/{plural}?limit=1"), "\"items\"");
        let list = &answer[answer.find("ListMeta").unwrap_or_default()..];
        let metadata = list.split("\"resourceVersion\":\"").nth(1).unwrap_or_else(|| panic!("{answer}"));
        metadata.split('"').next().unwrap().to_owned()
    }

    /// Returns what a watch from a revision begins with.
    fn watch(&self, plural: &str, revision: &str) -> String {
        let path = format!("/apis/demo.homeostat.dev/v1/{plural}?watch=true&resourceVersion={revision}");
        self.get(&path, "\"object\"")
    }

    fn apply(&self, host: &HostProcess, documents: &[Value]) {
        let file = self.scratch.path().join("documents.yaml");
        let text: String = documents.iter().map(|document| format!("---\n{document}\n")).collect();
        fs::write(&file, text).unwrap();
        eventually_blocking("the documents to be applied", || {
            (host.ask(&["apply", "-f", &file.display().to_string()]).code == Some(0)).then_some(())
        });
    }
}

fn greeting(name: &str, of: &str) -> Value {
    json!({
        "apiVersion": "demo.homeostat.dev/v1", "kind": "Greeting",
        "metadata": {"name": name, "namespace": "default"}, "spec": {"name": of},
    })
}

/// Returns the resources of a kind by namespace and name, without their revisions.
fn resources(host: &HostProcess, plural: &str) -> BTreeMap<String, Value> {
    let mut list = host.json(&["get", plural, "--all-namespaces"]);
    let items = list["items"].as_array_mut().unwrap().drain(..);
    let named = items.map(|mut item| {
        item["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        (format!("{}/{}", item["metadata"]["namespace"], item["metadata"]["name"]), item)
    });
    named.collect()
}

#[track_caller]
fn done(host: &HostProcess, arguments: &[&str]) -> String {
    let output = host.ask(arguments);
    assert_eq!(output.code, Some(0), "{}\n{arguments:?}: {}", host.stderr(), output.stderr);
    output.stdout
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn a_kind_with_2000_resources_moves_to_nats_and_back_and_its_controller_goes_on() {
    let folders = Folders::new("greeter", &["greeter"], "moved-greetings");
    let mut host = folders.start("Greeting", "home");
    let all: Vec<Value> = (0..GREETINGS - 1).map(|at| greeting(&format!("g{at}"), "you")).collect();
    folders.apply(&host, &all);
    let mut revisions = Vec::new();
    for (from, to) in [("home", "bus"), ("bus", "home")] {
        let before = eventually_built("all greetings to have a status", || {
            let all = resources(&host, "greetings");
            (all.len() == GREETINGS && all.values().all(|one| one["status"]["message"].is_string())).then_some(all)
        });
        revisions.push(folders.revision("greetings"));
        let planned = done(&host, &["stores", "copy", "greetings", "--to", to, "--dry-run"]);
        assert!(planned.contains("2000 of 2000 resources would be copied"), "{planned}");
        let copied = done(&host, &["stores", "copy", "greetings", "--to", to]);
        assert!(copied.contains(&format!("store {to} has all 2000 resources")), "{copied}");
        let file = folders.scratch.path().join("held.yaml");
        fs::write(&file, greeting("g0", "nobody").to_string()).unwrap();
        let held = host.ask(&["apply", "-f", &file.display().to_string()]);
        assert!(held.stderr.contains("wait until the host starts again"), "{}", held.stderr);
        let notes = done(&host, &["stores", "-o", "wide"]);
        assert!(notes.contains("writes of demo.homeostat.dev/Greeting wait"), "{notes}");
        host.terminate();

        host = folders.start("Greeting", to);
        assert_eq!(resources(&host, "greetings"), before);
        // Watchers from before have to list again, and those from now on have not.
        for revision in &revisions {
            let ended = folders.watch("greetings", revision);
            assert!(ended.contains("\"ERROR\"") && ended.contains("410"), "{revision}: {ended}");
        }
        folders.apply(&host, &[greeting("g0", to)]);
        host.until("greeting", "g0", "/status/message", &json!(format!("Hello, {to}!")));
        // The controller watches the kind now, so the cache of the far store has the history since its list.
        let revision = folders.revision("greetings");
        folders.apply(&host, &[greeting("g1", to)]);
        let event = folders.watch("greetings", &revision);
        assert!(event.contains("\"MODIFIED\""), "{event}");
        let pruned = done(&host, &["stores", "prune", "demo.homeostat.dev/Greeting", "--from", from]);
        assert!(pruned.contains(&format!("2000 resources were removed from store {from}")), "{pruned}");
        assert_eq!(resources(&host, "greetings").len(), GREETINGS);
    }
    // A host without a file of stores still knows whose revisions it gave.
    host.terminate();
    fs::remove_file(folders.manifests.path().join("stores.yaml")).unwrap();
    let host = HostProcess::start("run", folders.manifests.path(), folders.scratch.path(), &[]);
    assert_eq!(resources(&host, "greetings").len(), GREETINGS);
    let ended = folders.watch("greetings", &revisions[0]);
    assert!(ended.contains("410"), "{ended}");
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn a_host_that_is_killed_during_a_copy_believes_no_half_of_it() {
    let folders = Folders::new("greeter", &["greeter"], "killed-copy");
    let host = folders.start("Greeting", "home");
    let all: Vec<Value> = (0..GREETINGS - 1).map(|at| greeting(&format!("g{at}"), "you")).collect();
    folders.apply(&host, &all);
    let server = format!("unix:{}", folders.scratch.path().join("host.sock").display());
    let copy = ["stores", "copy", "greetings", "--to", "bus", "--server", &server];
    let mut copying = Command::new(homeostat()).args(copy).stderr(Stdio::null()).spawn().unwrap();
    // The record is written before the first resource.
    eventually_blocking("the copy to begin", || {
        folders.scratch.path().join("data/store-moves.json").exists().then_some(())
    });
    host.kill();
    assert!(!copying.wait().unwrap().success());

    let refused = folders.refused("Greeting", "bus");
    assert!(refused.contains("stores.yaml:1:") && refused.contains("`homeostat stores copy"), "{refused}");
    let host = folders.start("Greeting", "home");
    folders.apply(&host, &[greeting("g0", "again")]);
    host.until("greeting", "g0", "/status/message", &json!("Hello, again!"));
    let before = eventually_built("all greetings to have a status", || {
        let all = resources(&host, "greetings");
        all.values().all(|one| one["status"]["message"].is_string()).then_some(all)
    });
    done(&host, &["stores", "copy", "greetings", "--to", "bus"]);
    // Also after the copy: the former route goes on without it.
    host.kill();
    let host = folders.start("Greeting", "bus");
    assert_eq!((before.len(), resources(&host, "greetings")), (GREETINGS, before));
    host.terminate();
    let refused = folders.refused("Greeting", "home");
    assert!(refused.contains("lives in store `bus`"), "{refused}");
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn dependents_outlive_the_move_of_their_owner_and_are_deleted_after_it() {
    let folders = Folders::new("tenants", &["tenants"], "moved-tenants");
    let mut host = folders.start("Tenant", "home");
    let tenant = |name: &str| {
        json!({
            "apiVersion": "demo.homeostat.dev/v1", "kind": "Tenant", "metadata": {"name": name},
            "spec": {"namespaces": [format!("{name}-test"), format!("{name}-live")], "pods": 20},
        })
    };
    let uids = |host: &HostProcess| -> BTreeMap<String, Value> {
        resources(host, "quotas").into_iter().map(|(key, quota)| (key, quota["metadata"]["uid"].clone())).collect()
    };
    folders.apply(&host, &[tenant("blue"), tenant("green")]);
    for name in ["blue", "green"] {
        host.until("tenant", name, "/status/quotas", &json!(2));
    }
    let before = uids(&host);
    assert_eq!(before.len(), 4);
    for (gone, from, to) in [("blue", "home", "bus"), ("green", "bus", "home")] {
        done(&host, &["stores", "copy", "tenants", "--to", to]);
        host.terminate();
        host = folders.start("Tenant", to);
        // The controller may have written the dependents before.
        done(&host, &["stores", "prune", "tenants", "--from", from]);
        // The controller writes again, and its quotas are those of before.
        folders.apply(&host, &[tenant("red")]);
        host.until("tenant", "red", "/status/quotas", &json!(2));
        let now = uids(&host);
        let is_left = |key: &&String| from == "home" || !key.contains("blue");
        for (key, uid) in before.iter().filter(|(key, _)| is_left(key)) {
            assert_eq!(now.get(key), Some(uid), "{key}");
        }
        done(&host, &["delete", "tenant", gone]);
        eventually_blocking("the quotas to go", || uids(&host).keys().all(|key| !key.contains(gone)).then_some(()));
    }
}

#[test]
fn a_copy_into_memory_is_refused_before_anything_happens() {
    let folders = Folders::new("greeter", &["greeter"], "");
    let stores = "apiVersion: homeostat.dev/v1alpha1\nkind: Stores\nstores: [{name: scratch, memory: {}}]\n";
    fs::write(folders.manifests.path().join("stores.yaml"), stores).unwrap();
    let host = HostProcess::start("run", folders.manifests.path(), folders.scratch.path(), &[]);
    host.until("greeting", "world", "/status/message", &json!("Hello, world!"));
    for (arguments, expected) in [
        (&["copy", "greetings", "--to", "scratch"], "store scratch is in memory"),
        (&["copy", "greetings", "--to", "else"], "store \"else\""),
        (&["copy", "greetings", "--to", "home"], "demo.homeostat.dev/Greeting lives in store home"),
        (&["prune", "greetings", "--from", "home"], "demo.homeostat.dev/Greeting lives in store home"),
        (&["copy", "greetinks", "--to", "home"], "did you mean greetings"),
    ] {
        let refused = host.ask(&[&["stores"], &arguments[..]].concat());
        assert!(refused.code == Some(1) && refused.stderr.contains(expected), "{arguments:?}: {}", refused.stderr);
    }
    assert!(!folders.scratch.path().join("data/store-moves.json").exists());
}

/// Copies ten widgets to a store that answers no write until `ends`. Returns the end and the copies.
async fn copied_through_a_fault(ends: Option<Duration>) -> (Result<()>, usize) {
    let bus = FaultyStore::over(memory_store());
    let part = StorePart { name: "bus".into(), store: bus.clone() };
    let host = Arc::new(RoutedStore::new(memory_store(), vec![part], Routes::default()).unwrap());
    for at in 0..10 {
        create(&*host, demo("Widget", &format!("w-{at}"), json!({}))).await;
    }
    bus.fault(On::Write, "Widget", Fault::Fail);
    let mut progress = host.start_move(&demo_kind("Widget"), MoveStep::Copy("bus".into()), false).unwrap();
    if let Some(ends) = ends {
        tokio::time::sleep(ends).await;
        bus.heal(On::Write, "Widget");
    }
    let ended = progress.wait_for(|progress| progress.end.is_some()).await.unwrap().end.clone();
    let copies = bus.list(&Query::all(demo_kind("Widget"))).await.unwrap().items.len();
    (ended.unwrap(), copies)
}

#[tokio::test(start_paused = true)]
async fn a_copy_survives_a_store_that_is_away_for_some_seconds_and_no_longer() {
    let (end, copies) = copied_through_a_fault(Some(Duration::from_secs(3))).await;
    assert!(end.is_ok() && copies == 10, "{end:?}, {copies} copies");
    let (end, copies) = copied_through_a_fault(None).await;
    assert!(matches!(end, Err(Error::Unavailable { .. })) && copies == 0, "{end:?}, {copies} copies");
}
