//! Shards with different loads on two hosts: the loads even out.

use std::fs;

use homeostat_fleet::{ShardBy, Shards};
use homeostat_testing::eventually_built;
use homeostat_tests::{HostProcess, guest};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::stores::hosts::{file, in_nats};

/// A host with a controller in four shards, whose guest does what the resources say.
struct ShardHost {
    process: HostProcess,
    folder: TempDir,
    _scratch: TempDir,
}

fn shards() -> Shards {
    Shards::new(4, ShardBy::Key).unwrap()
}

impl ShardHost {
    fn start(name: &str) -> Self {
        let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let controller = json!({
            "apiVersion": "homeostat.dev/v1alpha1",
            "kind": "Controller",
            "metadata": {"name": "scripted"},
            "spec": {
                "component": {"file": "guest-scripted.wasm"},
                "placement": {"sharded": {"shards": 4}},
                "grants": {
                    "resources": [{"kinds": ["demo.homeostat.dev/Scripted"], "verbs": ["*"], "namespaces": ["*"]}],
                },
            },
        });
        let store = in_nats("fleet-loads");
        let routes = [("demo.homeostat.dev/Scripted", store["name"].as_str().unwrap())];
        // JSON is valid YAML.
        fs::write(folder.path().join("scripted.yaml"), controller.to_string()).unwrap();
        fs::write(folder.path().join("stores.yaml"), file(std::slice::from_ref(&store), &routes).to_string()).unwrap();
        fs::copy(guest("guest-scripted"), folder.path().join("guest-scripted.wasm")).unwrap();
        let more = ["--host-name", name, "--lease-duration", "3s"];
        let process = HostProcess::start("run", folder.path(), scratch.path(), &more);
        Self { process, folder, _scratch: scratch }
    }

    /// Creates a resource whose key is due again a millisecond after each reconcile.
    fn create(&self, name: &str) {
        let document = json!({
            "apiVersion": "demo.homeostat.dev/v1",
            "kind": "Scripted",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"action": "again"},
        });
        let path = self.folder.path().join("resource.txt");
        fs::write(&path, document.to_string()).unwrap();
        let applied = self.process.ask(&["apply", "-f", &path.display().to_string()]);
        assert_eq!(applied.code, Some(0), "{}", applied.stderr);
    }

    /// Returns what this host tells about a host.
    fn row(&self, name: &str) -> Option<Value> {
        let list: Value = serde_json::from_str(&self.process.ask(&["hosts", "-o", "json"]).stdout).ok()?;
        list["items"].as_array()?.iter().find(|item| item["name"] == name).cloned()
    }

    /// Returns the shards that a host holds, as this host sees it.
    fn shards_of(&self, name: &str) -> Option<Vec<u32>> {
        let shard = |lease: &Value| lease.as_str()?.strip_prefix("scripted/")?.split_once("-of-")?.0.parse().ok();
        self.row(name)?["leases"].as_array()?.iter().map(shard).collect()
    }

    fn load_of(&self, name: &str, shard: u32) -> Option<u64> {
        self.row(name)?["leaseCpuMillicores"][format!("scripted/{shard}-of-4")].as_u64()
    }
}

/// A host with all the work gives a shard of it to another host, although each has two shards.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn a_host_with_costly_shards_gives_one_to_a_host_with_cheap_ones() {
    let a = ShardHost::start("a");
    eventually_built(&format!("all shards on one host: {}", a.process.stderr()), || {
        (a.shards_of("a")?.len() == 4).then_some(())
    });
    let b = ShardHost::start("b");
    let costly = eventually_built(&format!("two shards on each host: {}", b.process.stderr()), || {
        let (of_a, of_b) = (a.shards_of("a")?, b.shards_of("b")?);
        (of_a.len() == 2 && of_b.len() == 2).then_some(of_a)
    });
    for shard in &costly {
        let names = (0..).map(|number| format!("r{number}"));
        names.filter(|name| shards().shard_of("default", name) == *shard).take(2).for_each(|name| a.create(&name));
    }
    let moved = eventually_built("a costly shard on each host", || {
        let (of_a, of_b) = (a.shards_of("a")?, b.shards_of("b")?);
        let moved = *costly.iter().find(|shard| of_b.contains(shard))?;
        of_a.iter().any(|shard| costly.contains(shard)).then_some(moved)
    });
    // Both hosts know what it costs, from the record alone.
    for host in [&a, &b] {
        eventually_built("the load of the shard", || host.load_of("b", moved).filter(|load| *load > 0));
    }
    let wide = a.process.ask(&["hosts", "-o", "wide"]).stdout;
    assert!(wide.lines().next().unwrap().contains("LOAD"), "{wide}");
    // Another host holds it, and its resource has the term.
    eventually_built("a lease with its epoch, its age and its load", || {
        let described = a.process.ask(&["describe", "controller", "scripted"]).stdout;
        let line = described.lines().find(|line| line.trim_start().starts_with(&format!("{moved} ")))?;
        let [_, _, holder, held, epoch, since, cores, _] = line.split_whitespace().collect::<Vec<_>>()[..] else {
            return None;
        };
        let has_term = epoch.parse::<u64>().is_ok() && since != "-";
        (holder.starts_with("b") && held == "-" && has_term && cores.parse::<f64>().ok()? > 0.0).then_some(())
    });
}
