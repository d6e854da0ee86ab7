//! The feeder `files` of a real host with real files: a burst, a restart in the middle, and a folder that goes away and
//! comes back.

use std::fs;
use std::path::Path;

use homeostat_testing::eventually_built;
use homeostat_tests::{HostProcess, guest};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::metrics::scrape::Scrape;

/// The folders of a host with the controller `noop`, whose feeder `inbox` follows `in/*.json` of the allowed folder.
struct World {
    manifests: TempDir,
    scratch: TempDir,
    files: TempDir,
}

impl World {
    fn new() -> Self {
        let new = || TempDir::new().unwrap();
        let world = Self { manifests: new(), scratch: new(), files: new() };
        fs::create_dir(world.files.path().join("in")).unwrap();
        let controller = json!({
            "apiVersion": "homeostat.dev/v1alpha1", "kind": "Controller", "metadata": {"name": "noop"},
            "spec": {
                "component": {"file": guest("guest-noop")},
                "grants": {"resources": [{"kinds": ["*"], "verbs": ["*"], "namespaces": ["*"]}]},
                "limits": {"keys": 5000},
                "feeders": [{
                    "name": "inbox", "files": {"path": "in/*.json"}, "keys": {"namespace": "default", "name": "{stem}"},
                }],
            },
        });
        fs::write(world.manifests.path().join("noop.json"), controller.to_string()).unwrap();
        world
    }

    fn start(&self) -> HostProcess {
        let files = self.files.path().to_str().unwrap();
        HostProcess::start("run", self.manifests.path(), self.scratch.path(), &["--feeder-files", files])
    }

    fn write(&self, numbers: std::ops::Range<usize>) {
        let folder = self.files.path().join("in");
        numbers.for_each(|number| fs::write(folder.join(format!("n{number}.json")), "").unwrap());
    }

    /// Waits until the feeder has added this many keys, and no key is queued.
    fn until_reconciled(&self, keys: f64) {
        eventually_built(&format!("{keys} keys"), || {
            let scrape = Scrape::of(self.scratch.path());
            let added = scrape.find("homeostat_feeder_keys_total", &[("feeder", "inbox")])?;
            let reconciled = scrape.get("controller_runtime_reconcile_total", &[("result", "success")]);
            (added == keys && reconciled >= keys && scrape.get("workqueue_depth", &[]) == 0.0).then_some(())
        });
    }
}

fn feeder(host: &HostProcess) -> Option<Value> {
    let output = host.ask(&["get", "controller", "noop", "-o", "json"]);
    let document: Value = serde_json::from_str(&output.stdout).ok()?;
    document.pointer("/status/feeders/0").cloned()
}

/// The queue has room for a twentieth of the burst, so the feeder waits often.
#[test]
fn a_burst_of_100_000_files_over_a_killed_host_adds_the_key_of_each() {
    let world = World::new();
    let host = world.start();
    eventually_built("the feeder to run", || feeder(&host).filter(|feeder| feeder["state"] == "running"));
    world.write(0..50_000);
    eventually_built("some keys", || feeder(&host).filter(|feeder| feeder["keys"].as_u64() > Some(10_000)));
    host.kill();
    world.write(50_000..100_000);
    let host = world.start();
    world.until_reconciled(100_000.0);
    world.write(7..8);
    world.until_reconciled(100_001.0);
    drop(host);
}

#[test]
fn a_folder_that_goes_away_and_comes_back_adds_what_has_changed() {
    let world = World::new();
    world.write(0..3);
    let host = world.start();
    world.until_reconciled(3.0);
    let (folder, away) = (world.files.path().join("in"), world.files.path().join("away"));
    fs::rename(&folder, &away).unwrap();
    let failing = eventually_built("the failure", || feeder(&host).filter(|feeder| feeder["state"] == "failing"));
    assert!(failing["error"].as_str().is_some_and(|error| error.contains("in")), "{failing}");
    fs::rename(&away, &folder).unwrap();
    world.write(3..4);
    world.until_reconciled(4.0);
    let unnamed = |name: &str| fs::write(Path::new(&folder).join(name), "").unwrap();
    ["Not A Name.json", ".hidden.json", "n9.txt"].into_iter().for_each(unnamed);
    eventually_built("the bad name to be counted", || feeder(&host).filter(|feeder| feeder["rejected"] == 1));
    world.until_reconciled(4.0);
}

/// Deny by default.
#[test]
fn a_host_without_an_allowed_folder_reports_that_it_follows_no_file() {
    let world = World::new();
    world.write(0..1);
    let host = HostProcess::start("run", world.manifests.path(), world.scratch.path(), &[]);
    let failing = eventually_built("the failure", || feeder(&host).filter(|feeder| feeder["state"] == "failing"));
    assert!(failing["error"].as_str().is_some_and(|error| error.contains("--feeder-files")), "{failing}");
    assert_eq!(failing["keys"], 0);
}
