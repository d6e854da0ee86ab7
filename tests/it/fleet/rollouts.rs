//! Rollouts on several hosts: the next holder goes on where the former one was.

use std::fs;
use std::path::Path;

use homeostat_testing::eventually_built;
use homeostat_tests::{HostProcess, guest, shared_cluster};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::define;
use crate::stores::hosts::{file, in_cluster, in_nats};

const KEYS: usize = 40;

/// A host with a controller whose guest notes in each resource the versions that reconciled it.
struct Member {
    name: &'static str,
    process: HostProcess,
    home: Home,
}

/// The files of a host.
struct Home {
    /// The namespace of the resources.
    namespace: String,
    folder: TempDir,
    scratch: TempDir,
}

/// Returns the settings of a canary with these steps, each of which lasts so long.
fn canary(steps: &[&str], lasts: &str) -> Value {
    json!({"strategy": "canary", "steps": steps, "gate": {"for": lasts, "reconciles": 1, "duration": "100x"}})
}

/// Returns the settings of a version of the guest.
fn version(name: &str) -> Value {
    json!({"version": name})
}

fn write(folder: &Path, config: &Value, rollout: &Value) {
    let controller = json!({
        "apiVersion": "homeostat.dev/v1alpha1",
        "kind": "Controller",
        "metadata": {"name": "versioned"},
        "spec": {
            "component": {"file": "guest-versioned.wasm"},
            "config": config,
            "rollout": rollout,
            "grants": {
                "resources": [{"kinds": ["demo.homeostat.dev/Versioned"], "verbs": ["*"], "namespaces": ["*"]}],
            },
        },
    });
    // JSON is valid YAML. A host reads no half of a file.
    fs::write(folder.join("versioned.part"), controller.to_string()).unwrap();
    fs::rename(folder.join("versioned.part"), folder.join("versioned.yaml")).unwrap();
}

impl Home {
    fn new(store: &Value) -> Self {
        let namespace = store.pointer("/kubernetes/namespace").and_then(Value::as_str).unwrap_or("default").to_owned();
        let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let routes = [("demo.homeostat.dev/Versioned", store["name"].as_str().unwrap())];
        fs::write(folder.path().join("stores.yaml"), file(std::slice::from_ref(store), &routes).to_string()).unwrap();
        fs::copy(guest("guest-versioned"), folder.path().join("guest-versioned.wasm")).unwrap();
        write(folder.path(), &version("one"), &json!({}));
        Self { namespace, folder, scratch }
    }

    fn start(self, name: &'static str) -> Member {
        let more = ["--host-name", name, "--lease-duration", "3s"];
        let process = HostProcess::start("run", self.folder.path(), self.scratch.path(), &more);
        Member { name, process, home: self }
    }
}

impl Member {
    fn edit(&self, config: &Value, rollout: &Value) {
        write(self.home.folder.path(), config, rollout);
    }

    fn status(&self) -> Option<Value> {
        let output = self.process.ask(&["get", "controllers", "versioned", "-o", "json"]);
        Some(serde_json::from_str::<Value>(&output.stdout).ok()?["status"].clone())
    }

    /// Waits for a status of the controller.
    fn until<T>(&self, what: &str, found: impl Fn(&Value) -> Option<T>) -> T {
        eventually_built(&format!("host {}: {what}: {:?}: {}", self.name, self.status(), self.process.stderr()), || {
            found(&self.status()?)
        })
    }

    fn until_phase(&self, phase: &str) -> Value {
        self.until(phase, |status| (status["rollout"]["phase"] == phase).then(|| status["rollout"].clone()))
    }

    fn until_share(&self, share: &str) {
        self.until(share, |status| (status["rollout"]["share"] == share).then_some(()));
    }

    fn command(&self, arguments: &[&str]) {
        // An undo conflicts with a status that is written meanwhile.
        eventually_built(&format!("{arguments:?}: {}", self.process.stderr()), || {
            (self.process.ask(arguments).code == Some(0)).then_some(())
        });
    }

    fn kill(self) -> Home {
        self.process.kill();
        self.home
    }

    /// Creates the keys, each with a number.
    fn create_keys(&self) {
        let document = |number| {
            let metadata = json!({"name": format!("k{number}"), "namespace": self.home.namespace});
            let document = json!({
                "apiVersion": "demo.homeostat.dev/v1", "kind": "Versioned", "metadata": metadata, "spec": {},
            });
            format!("---\n{document}\n")
        };
        let path = self.home.scratch.path().join("keys.yaml");
        fs::write(&path, (0..KEYS).map(document).collect::<String>()).unwrap();
        eventually_built("the keys", || {
            (self.process.ask(&["apply", "-f", &path.display().to_string()]).code == Some(0)).then_some(())
        });
    }

    /// Returns the versions that reconciled each key, in order.
    fn versions(&self) -> Option<Vec<Vec<String>>> {
        let output = self.process.ask(&["get", "versioneds", "-n", &self.home.namespace, "-o", "json"]);
        let list: Value = serde_json::from_str(&output.stdout).ok()?;
        let of_key = |item: &Value| serde_json::from_value(item["status"]["by"].clone()).ok();
        list["items"].as_array()?.iter().map(of_key).collect()
    }

    fn until_versions(&self, what: &str, is_meant: impl Fn(&[String]) -> bool) {
        eventually_built(&format!("{what}: {:?}: {}", self.versions(), self.process.stderr()), || {
            let versions = self.versions()?;
            (versions.len() == KEYS && versions.iter().all(|by| is_meant(by))).then_some(())
        });
    }
}

fn is_holder(status: &Value) -> bool {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == "Ready" && condition["reason"] == "Ready")
}

/// Waits for the holder among some hosts, and returns it with its status, and the others.
fn holder_of(mut members: Vec<Member>) -> (Member, Value, Vec<Member>) {
    let stderr: Vec<_> = members.iter().map(|member| member.process.stderr()).collect();
    let (place, status) = eventually_built(&format!("a holder: {stderr:?}"), || {
        members.iter().enumerate().find_map(|(place, member)| {
            let status = member.status().filter(is_holder)?;
            Some((place, status))
        })
    });
    (members.remove(place), status, members)
}

/// Starts hosts whose keys have run on version `one`.
fn fleet(store: &Value, names: &[&'static str]) -> (Member, Vec<Member>) {
    let members: Vec<_> = names.iter().map(|name| Home::new(store).start(name)).collect();
    // Each has version one as the stable one, also as long as it has no lease.
    members.iter().for_each(|member| member.until("version one", |status| (status["revision"] == 1).then_some(())));
    let (holder, _, others) = holder_of(members);
    holder.create_keys();
    holder.until_versions("version one for all keys", |by| by == ["one"]);
    (holder, others)
}

/// No key that the new version has had goes back to the former one.
fn never_goes_back(by: &[String]) -> bool {
    by == ["one", "two"]
}

/// Kills the holder in the second step of a rollout; the next one goes on with that step.
fn kill_the_holder_in_a_step(store: &Value) {
    let (holder, others) = fleet(store, &["a", "b", "c"]);
    // The revisions of one host have other numbers, from which its own deal of the keys would follow.
    for (config, revision) in [("zero", 2), ("one", 3)] {
        others[0].edit(&version(config), &json!({}));
        others[0].until("a revision", |status| (status["revision"] == revision).then_some(()));
    }
    let rollout = canary(&["10%", "50%"], "3s");
    for member in others.iter().chain([&holder]) {
        member.edit(&version("two"), &rollout);
    }
    holder.until_share("50%");
    drop(holder.kill());
    let (next, status, others) = holder_of(others);
    let first = &status["rollout"];
    assert!(first["phase"] == "complete" || first["share"] == "50%", "{status}");
    for member in others.iter().chain([&next]) {
        member.until_phase("complete");
    }
    next.until_versions("version two after version one", never_goes_back);
}

/// The holder of a controller dies in the second step of its rollout; the next one goes on with that step.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn the_next_holder_goes_on_with_the_step_of_a_rollout() {
    kill_the_holder_in_a_step(&in_nats("fleet-rollout-step"));
}

/// The same with a kind that lives in a Kubernetes cluster.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn the_next_holder_of_a_cluster_goes_on_with_the_step_of_a_rollout() {
    define(shared_cluster(), "Versioned");
    kill_the_holder_in_a_step(&in_cluster("fleet-rollout-step", "admin"));
}

/// The holder of a controller dies while a candidate is its shadow. The next one begins the shadow again: no key has the
/// candidate meanwhile, and all have it in the end.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn the_next_holder_begins_a_shadow_again() {
    let (holder, others) = fleet(&in_nats("fleet-rollout-shadow"), &["a", "b"]);
    let shadow = json!({"for": "5s", "reconciles": 1, "differences": "any"});
    for member in others.iter().chain([&holder]) {
        member.edit(&version("two"), &json!({"strategy": "shadow", "shadow": shadow}));
    }
    holder.until_phase("shadow");
    others[0].until_phase("listing");
    drop(holder.kill());
    let (next, _, _) = holder_of(others);
    let versions = next.until("its own shadow", |_| {
        let versions = next.versions()?;
        // The shadow has not ended since.
        (next.status()?["rollout"]["phase"] == "shadow").then_some(versions)
    });
    assert!(versions.iter().all(|by| by == &["one"]), "{versions:?}");
    let complete = next.until_phase("complete");
    assert!(complete["shadow"]["compared"].as_u64() > Some(0), "{complete}");
    next.until_versions("version two after version one", never_goes_back);
}

/// A version that was rolled back is not tried by the next holder, nor by a host that was away, before a person says so.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn a_version_that_was_rolled_back_is_tried_by_no_other_host() {
    let (holder, mut others) = fleet(&in_nats("fleet-rollout-back"), &["a", "b", "c"]);
    let away = others.pop().unwrap();
    let name = away.name;
    let home = away.kill();
    let (bad, rollout) = (json!({"version": "bad", "bad": "trap"}), canary(&["30%"], "1h"));
    for member in others.iter().chain([&holder]) {
        member.edit(&bad, &rollout);
    }
    write(home.folder.path(), &bad, &rollout);
    let reason = holder.until_phase("rolledBack")["reason"].clone();
    assert!(reason.as_str().unwrap().contains("trapped"), "{reason}");
    others[0].until_phase("rolledBack");
    others[0].until_versions("version one for all keys", |by| by.last().is_some_and(|last| last == "one"));
    let before = others[0].versions().unwrap();
    let former = holder.kill();
    let late = home.start(name);
    let told = late.until_phase("rolledBack")["reason"].clone();
    assert!(told.as_str().unwrap().contains("trapped"), "{told}");
    others.push(late);
    let (next, _, mut others) = holder_of(others);
    // The host that comes back has it in its own status too.
    let restarted = former.start(holder_name(&next, &others));
    restarted.until_phase("rolledBack");
    others.push(restarted);
    let first = next.until_phase("rolledBack")["attempt"].clone();
    assert_eq!(next.versions().unwrap(), before);
    // A person can ask any host for another attempt, which the holder makes.
    others[0].command(&["rollout", "restart", "versioned"]);
    next.until("another attempt", |status| {
        let rollout = &status["rollout"];
        (rollout["phase"] == "rolledBack" && rollout["attempt"] != first).then_some(())
    });
}

/// Returns the name that no member has.
fn holder_name(next: &Member, others: &[Member]) -> &'static str {
    let is_free = |name: &&str| *name != next.name && others.iter().all(|other| other.name != *name);
    ["a", "b", "c"].into_iter().find(is_free).unwrap()
}

/// A host that was away while a version was promoted installs it for all keys when it is back.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn a_host_that_was_away_has_the_version_that_the_others_promoted() {
    let (holder, mut others) = fleet(&in_nats("fleet-rollout-promoted"), &["a", "b"]);
    let away = others.pop().unwrap();
    let name = away.name;
    let home = away.kill();
    let slow = canary(&["10%", "50%"], "1h");
    holder.edit(&version("two"), &canary(&["10%", "50%"], "500ms"));
    holder.until_phase("complete");
    holder.until_versions("version two for all keys", never_goes_back);
    // By itself it would begin with the first step.
    write(home.folder.path(), &version("two"), &slow);
    let back = home.start(name);
    back.until_phase("complete");
    drop(holder.kill());
    back.until("the lease", |status| is_holder(status).then_some(()));
    assert!(back.versions().unwrap().iter().all(|by| never_goes_back(by)));
}

/// What a person says about a rollout outlives the holder: a pause, its end, and an undo.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn a_pause_and_an_undo_of_a_rollout_survive_the_holder() {
    let (holder, others) = fleet(&in_nats("fleet-rollout-paused"), &["a", "b", "c"]);
    let rollout = canary(&["10%", "50%"], "2s");
    for member in others.iter().chain([&holder]) {
        member.edit(&version("two"), &rollout);
    }
    holder.until_share("10%");
    holder.command(&["rollout", "pause", "versioned"]);
    holder.until("the pause", |status| (status["rollout"]["paused"] == true).then_some(()));
    others.iter().for_each(|other| other.until_share("10%"));
    drop(holder.kill());
    let (next, _, mut others) = holder_of(others);
    next.until("the pause of the former holder", |status| {
        status["rollout"]["waits"].as_str()?.contains("another host has paused it").then_some(())
    });
    next.command(&["rollout", "pause", "versioned"]);
    next.until("its own pause", |status| (status["rollout"]["paused"] == true).then_some(()));
    next.command(&["rollout", "resume", "versioned"]);
    next.until_share("50%");
    next.command(&["rollout", "undo", "versioned"]);
    let last = others.pop().unwrap();
    last.until_phase("rolledBack");
    drop(next.kill());
    last.until("the lease", |status| is_holder(status).then_some(()));
    last.until_versions("version one for all keys", |by| by.last().is_some_and(|last| last == "one"));
}
