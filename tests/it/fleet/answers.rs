//! Questions about a controller of a fleet, asked at any host, and answered by the hosts that hold its
//! leases.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;

use homeostat_api::Certificate;
use homeostat_testing::{BOUND, eventually_built};
use homeostat_tests::{HostProcess, Output, guest};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::stores::hosts::{file, in_nats};

/// The token of the people who ask.
const TOKEN: &str = "a-token-that-also-writes";

/// Hosts with one controller, whose guest logs the names of its keys and has them due again in an hour.
struct Fleet {
    bucket: &'static str,
    placement: Value,
    lease: &'static str,
    /// With files of certificates and tokens: all hosts serve TLS.
    tls: Option<TlsFiles>,
}

/// The certificate of all hosts, and the files of tokens.
struct TlsFiles {
    folder: TempDir,
}

impl TlsFiles {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Certificate::load_or_generate(folder.path(), &"https://127.0.0.1:0".parse().unwrap()).unwrap();
        private(&folder.path().join("tokens"), &format!("- {{name: walt, token: {TOKEN}, access: write}}\n"));
        private(&folder.path().join("token"), TOKEN);
        Self { folder }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }
}

fn private(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
}

struct Member {
    name: &'static str,
    process: HostProcess,
    folder: TempDir,
    _scratch: TempDir,
}

impl Fleet {
    fn new(bucket: &'static str, placement: Value, lease: &'static str) -> Self {
        Self { bucket, placement, lease, tls: None }
    }

    /// Writes the manifest of the controller.
    fn write(&self, folder: &Path, config: &Value, rollout: &Value) {
        let controller = json!({
            "apiVersion": "homeostat.dev/v1alpha1",
            "kind": "Controller",
            "metadata": {"name": "scripted"},
            "spec": {
                "component": {"file": "guest-scripted.wasm"},
                "config": config,
                "rollout": rollout,
                "placement": self.placement,
                "grants": {
                    "resources": [{"kinds": ["demo.homeostat.dev/Scripted"], "verbs": ["*"], "namespaces": ["*"]}],
                },
            },
        });
        // JSON is valid YAML. A host reads no half of a file.
        fs::write(folder.join("scripted.part"), controller.to_string()).unwrap();
        fs::rename(folder.join("scripted.part"), folder.join("scripted.yaml")).unwrap();
    }

    fn start(&self, name: &'static str) -> Member {
        self.start_with(name, &[])
    }

    fn start_with(&self, name: &'static str, more: &[&str]) -> Member {
        let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let store = in_nats(self.bucket);
        let routes = [("demo.homeostat.dev/Scripted", store["name"].as_str().unwrap())];
        self.write(folder.path(), &json!({}), &json!({}));
        fs::write(folder.path().join("stores.yaml"), file(std::slice::from_ref(&store), &routes).to_string()).unwrap();
        fs::copy(guest("guest-scripted"), folder.path().join("guest-scripted.wasm")).unwrap();
        let mut all = vec!["--host-name", name, "--lease-duration", self.lease];
        all.extend(more);
        let process = match &self.tls {
            None => HostProcess::start_on_port("http", folder.path(), scratch.path(), &all, &[]),
            Some(files) => {
                let [chain, key, tokens, token] =
                    ["tls.crt", "tls.key", "tokens", "token"].map(|name| files.path(name));
                all.extend(["--tls-cert", &chain, "--tls-key", &key, "--tokens", &tokens]);
                let client = ["--certificate-authority", &chain, "--token-file", &token];
                HostProcess::start_on_port("https", folder.path(), scratch.path(), &all, &client)
            }
        };
        Member { name, process, folder, _scratch: scratch }
    }
}

impl Member {
    fn ask(&self, arguments: &[&str]) -> Output {
        self.process.ask(arguments)
    }

    /// Creates a resource of the kind, whose key is logged, through this host.
    fn create(&self, name: &str) {
        self.create_with(name, "log");
    }

    /// Creates a resource whose reconcile does this.
    fn create_with(&self, name: &str, action: &str) {
        let document = json!({
            "apiVersion": "demo.homeostat.dev/v1",
            "kind": "Scripted",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"action": action},
        });
        let path: PathBuf = self.folder.path().join("resource.txt");
        fs::write(&path, document.to_string()).unwrap();
        // The kind is known once the component is compiled.
        eventually_built(&format!("{name} to be applied: {}", self.process.stderr()), || {
            (self.ask(&["apply", "-f", &path.display().to_string()]).code == Some(0)).then_some(())
        });
    }

    /// Returns the names of the keys that `homeostat queue` shows at this host; `None` if it fails.
    fn queued(&self) -> Option<BTreeSet<String>> {
        let output = self.ask(&["queue", "scripted", "-o", "json"]);
        let list: Value = serde_json::from_str(&output.stdout).ok().filter(|_| output.code == Some(0))?;
        let keys = list["items"][0]["items"].as_array()?.iter();
        Some(keys.map(|item| item["key"]["name"].as_str().unwrap().to_owned()).collect())
    }

    fn queues(&self, names: &[&str]) {
        let expected: BTreeSet<String> = names.iter().map(|name| (*name).to_owned()).collect();
        eventually_built(&format!("host {} to show {expected:?}: {}", self.name, self.process.stderr()), || {
            (self.queued()? == expected).then_some(())
        });
    }

    /// Returns how many lines of the log that this host shows name a key.
    fn logged(&self, name: &str) -> usize {
        let output = self.ask(&["logs", "scripted"]);
        output.stdout.lines().filter(|line| line.ends_with(name)).count()
    }

    /// Waits until this host shows a number of reconciles, and returns the costs of the controller.
    fn has_run(&self, runs: usize) -> Value {
        eventually_built(&format!("host {} to show {runs} reconciles: {}", self.name, self.process.stderr()), || {
            let costs = self.process.json(&["top", "scripted"]);
            (costs["items"][0]["spent"]["runs"] == runs).then_some(costs)
        })
    }

    /// Returns how many times this host shows the event of a failed reconcile of a key.
    fn failures(&self, arguments: &[&str], name: &str) -> usize {
        let output = self.ask(arguments);
        let is_of_key = |line: &&str| line.contains(&format!("scripted/{name} ")) && line.contains("ReconcileFailed");
        output.stdout.lines().filter(is_of_key).count()
    }

    /// Returns what the controller was observed to need, as this host shows it.
    fn needs(&self) -> Value {
        self.process.json(&["grants", "learn", "scripted"])["seen"]["resources"].take()
    }

    fn is_suspended(&self) -> bool {
        let controller = self.process.json(&["get", "controller", "scripted"]);
        controller["metadata"]["annotations"]["homeostat.dev/suspended"] == "true"
    }

    fn leases_of(&self, name: &str) -> Option<usize> {
        let list: Value = serde_json::from_str(&self.ask(&["hosts", "-o", "json"]).stdout).ok()?;
        let host = list["items"].as_array()?.iter().find(|item| item["name"] == name)?.clone();
        Some(host["leases"].as_array()?.len())
    }

    fn identity(&self) -> String {
        let list = self.process.json(&["hosts"]);
        let this = list["items"].as_array().unwrap().iter().find(|item| item["isThis"] == true).unwrap();
        this["identity"].as_str().unwrap().to_owned()
    }

    /// Opens records, of which new lines come.
    fn follow(&self, records: &str) -> FollowedRecords {
        let authority = self.process.server().strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(authority).unwrap();
        stream.set_read_timeout(Some(BOUND)).unwrap();
        write!(stream, "GET /homeostat/v1/{records} HTTP/1.1\r\nhost: {authority}\r\n\r\n").unwrap();
        FollowedRecords(BufReader::new(stream))
    }

    /// Sends a request of plain HTTP as another host forwards it, and returns its whole response.
    fn forwarded(&self, path: &str, identity: &str) -> String {
        let authority = self.process.server().strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(authority).unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nhost: {authority}\r\nconnection: close\r\n");
        write!(stream, "{head}homeostat-forwarded-to: {identity}\r\n\r\n").unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }
}

/// The response with a log or with events.
struct FollowedRecords(BufReader<TcpStream>);

impl FollowedRecords {
    /// Reads until a line has this message.
    fn has_message(&mut self, message: &str) {
        self.until(&[&format!("\"message\":\"{message}\"")]);
    }

    /// Reads until an event about a key has this reason.
    fn has_event(&mut self, name: &str, reason: &str) {
        self.until(&[&format!("\"name\":\"{name}\""), &format!("\"reason\":\"{reason}\"")]);
    }

    /// Reads until a line has all of these parts.
    fn until(&mut self, parts: &[&str]) {
        let mut line = String::new();
        while !parts.iter().all(|part| line.contains(part)) {
            line.clear();
            assert_ne!(self.0.read_line(&mut line).unwrap(), 0, "the records have ended before {parts:?}");
        }
    }
}

/// Waits until all members know each other, and see that one of them holds the only lease. Returns it and the others.
fn split(members: Vec<Member>) -> (Member, Vec<Member>) {
    let names: Vec<&str> = members.iter().map(|member| member.name).collect();
    eventually_built("all hosts to know each other", || {
        let knows_all = |member: &Member| names.iter().all(|name| member.leases_of(name).is_some());
        members.iter().all(knows_all).then_some(())
    });
    let is_holder = |name: &&str| members.iter().all(|member| member.leases_of(name) == Some(1));
    let holder = eventually_built("a holder", || members.iter().map(|member| member.name).find(is_holder));
    let (mut holder, others): (Vec<_>, Vec<_>) = members.into_iter().partition(|member| member.name == holder);
    (holder.pop().unwrap(), others)
}

/// Issue 22: A host that waits has the questions about a controller answered by the host that holds its
/// lease.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn a_host_that_waits_answers_with_what_the_holder_knows() {
    let fleet = Fleet::new("fleet-answers", json!("singleton"), "60s");
    let (holder, others) = split(["a", "b", "c"].map(|name| fleet.start(name)).into());
    others[0].create("kept");
    for member in &others {
        member.queues(&["kept"]);
        let costs = member.has_run(1);
        assert_eq!(member.logged("kept"), 1);
        assert_eq!(costs["items"][0]["keys"][0]["key"]["name"], "kept", "{costs}");
        let all = member.process.json(&["top"]);
        assert_eq!(all["items"][0]["spent"]["runs"], 1, "{all}");
    }
    let retried = others[1].ask(&["retry", "scripted", "scripted", "kept"]);
    assert_eq!(retried.code, Some(0), "{retried:?}");
    eventually_built("the second reconcile", || (others[0].logged("kept") == 2).then_some(()));
    let unknown = others[1].ask(&["retry", "scripted", "scripted", "none"]);
    assert!(unknown.code != Some(0) && unknown.stderr.contains(&format!("host \"{}\"", holder.name)), "{unknown:?}");
    // A request that was forwarded is answered by the host alone.
    let path = "/apis/homeostat.dev/v1alpha1/controllers/scripted/queue";
    let own = others[0].forwarded(path, &others[0].identity());
    assert!(own.starts_with("HTTP/1.1 200") && own.contains("\"items\":[]"), "{own}");
    let of_holder = holder.forwarded(path, &holder.identity());
    assert!(of_holder.contains("\"name\":\"kept\""), "{of_holder}");
    let misdirected = others[0].forwarded(path, &holder.identity());
    assert!(misdirected.starts_with("HTTP/1.1 421"), "{misdirected}");
}

/// Issue 22: A host that waits shows the events and the needs of a controller that another host runs, and has it
/// suspended everywhere.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn a_host_that_waits_shows_events_and_needs_and_suspends_everywhere() {
    let fleet = Fleet::new("fleet-events", json!("singleton"), "60s");
    let (holder, others) = split(["a", "b", "c"].map(|name| fleet.start(name)).into());
    others[0].create("kept");
    others.iter().for_each(|member| drop(member.has_run(1)));
    let needs = holder.needs();
    assert_eq!(needs[0]["verb"], "get", "{needs}");
    others.iter().for_each(|member| assert_eq!(member.needs(), needs));
    assert_eq!(others[0].ask(&["grants", "learn", "scripted", "--reset"]).code, Some(0));
    assert_eq!(holder.needs(), json!([]));

    let mut events = others[1].follow("events?follow=1");
    others[0].create_with("broken", "fail-never");
    events.has_event("broken", "ReconcileFailed");
    for member in others.iter().chain([&holder]) {
        for arguments in [&["events"][..], &["events", "--controller", "scripted"], &["describe", "scripted", "broken"]]
        {
            assert_eq!(member.failures(arguments, "broken"), 1, "{arguments:?} at {}", member.name);
        }
    }
    let path = "/homeostat/v1/events?controller=scripted";
    let own = others[0].forwarded(path, &others[0].identity());
    assert!(own.starts_with("HTTP/1.1 200") && !own.contains("ReconcileFailed"), "{own}");

    let suspended = others[0].ask(&["suspend", "scripted"]);
    let said = "controller.homeostat.dev/scripted suspended\n".to_owned();
    assert_eq!((suspended.code, suspended.stdout), (Some(0), said), "{}", suspended.stderr);
    assert!(others.iter().chain([&holder]).all(Member::is_suspended));
    // The next holder stays suspended.
    others[0].create("held");
    assert_eq!(others[0].ask(&["drain", holder.name, "--wait", "5m"]).code, Some(0));
    others[1].queues(&["broken", "held", "kept"]);
    assert_eq!(others[1].logged("held"), 0);
    // It drains, and is asked too.
    assert_eq!(others[0].ask(&["resume", "scripted"]).code, Some(0));
    assert!(!others.iter().chain([&holder]).any(Member::is_suspended));
    eventually_built("the key to be reconciled", || (holder.logged("held") == 1).then_some(()));
}

/// Issue 22: A host that waits shows what the host that leads a rollout has compared.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn a_host_that_waits_shows_the_report_of_a_shadow() {
    let fleet = Fleet::new("fleet-shadow", json!("singleton"), "60s");
    let (holder, others) = split(["a", "b"].map(|name| fleet.start(name)).into());
    let shadow = json!({"strategy": "shadow", "shadow": {"for": "1h", "reconciles": 1}});
    for member in others.iter().chain([&holder]) {
        fleet.write(member.folder.path(), &json!({"version": "two"}), &shadow);
    }
    let report = |member: &Member| {
        let diff = member.ask(&["rollout", "diff", "scripted", "--shadow", "-o", "json"]);
        let report: Value = serde_json::from_str(&diff.stdout).ok().filter(|_| diff.code == Some(0))?;
        report["compared"].is_u64().then_some(report)
    };
    eventually_built("the report of the holder", || report(&holder));
    assert!(report(&others[0]).is_some());
    let path = "/apis/homeostat.dev/v1alpha1/controllers/scripted/shadow";
    let own = others[0].forwarded(path, &others[0].identity());
    assert!(own.starts_with("HTTP/1.1 404"), "{own}");
}

/// Issue 22: The answers of several holders are one. A holder that does not answer is named.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn the_answers_of_the_holders_of_shards_are_one_answer() {
    let fleet = Fleet::new("fleet-merged", json!({"sharded": {"shards": 4}}), "15s");
    let (a, b) = (fleet.start("a"), fleet.start("b"));
    eventually_built("two shards on each host", || {
        (a.leases_of("a") == Some(2) && a.leases_of("b") == Some(2)).then_some(())
    });
    let names: Vec<String> = (0..12).map(|number| format!("r{number:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    names.iter().for_each(|name| a.create(name));
    for member in [&a, &b] {
        member.queues(&names);
        member.has_run(names.len());
        assert!(names.iter().all(|name| member.logged(name) == 1));
    }
    // Each verb goes to the holder of its key.
    for name in &names {
        let retried = a.ask(&["retry", "scripted", "scripted", name]);
        assert_eq!(retried.code, Some(0), "{retried:?}");
    }
    eventually_built("all second reconciles", || names.iter().all(|name| b.logged(name) == 2).then_some(()));
    b.process.signal("STOP");
    // At once, as long as the frozen host has its leases.
    let (parts, verbs) = thread::scope(|scope| {
        let a = &a;
        let ask = |question: Vec<&'static str>| scope.spawn(move || a.ask(&question));
        let questions = [
            vec!["queue", "scripted", "-o", "name"],
            vec!["logs", "scripted"],
            vec!["top", "scripted"],
            vec!["events"],
            vec!["grants", "learn", "scripted"],
            vec!["resume", "scripted"],
        ];
        let parts = questions.map(ask);
        let retry = |name| scope.spawn(move || a.ask(&["retry", "scripted", "scripted", name]));
        let verbs: Vec<_> = names.iter().copied().map(retry).collect();
        let verbs: Vec<_> = verbs.into_iter().map(|verb| verb.join().unwrap()).collect();
        (parts.map(|part| part.join().unwrap()), verbs)
    });
    for part in parts {
        assert_eq!(part.code, Some(69), "{part:?}");
        assert!(part.stderr.contains("host/b has not answered: it did not answer within 5 s"), "{part:?}");
        assert!(!part.stdout.is_empty());
    }
    let (done, late): (Vec<_>, Vec<_>) = verbs.into_iter().partition(|verb| verb.code == Some(0));
    let expected = "host \"b\": it did not answer within 5 s, and may have made the change";
    assert!(!done.is_empty() && !late.is_empty());
    assert!(late.iter().all(|verb| verb.code == Some(69) && verb.stderr.contains(expected)), "{late:?}");
    b.process.signal("CONT");
    a.queues(&names);
}

/// Issue 22: A log that is followed at a host that waits goes on with the next holder.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn a_log_that_is_followed_goes_on_when_the_lease_moves() {
    let fleet = Fleet::new("fleet-followed", json!("singleton"), "60s");
    let (holder, others) = split(["a", "b", "c"].map(|name| fleet.start(name)).into());
    others[0].create("first");
    others[0].queues(&["first"]);
    let mut log = others[0].follow("logs?controller=scripted&follow=1");
    log.has_message("first");
    others[0].create("second");
    log.has_message("second");
    assert_eq!(others[0].ask(&["drain", holder.name, "--wait", "5m"]).code, Some(0));
    others[1].create("third");
    log.has_message("third");
}

/// Issue 22: A host is drained through any other one.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn a_host_is_drained_through_another_one() {
    let fleet = Fleet::new("fleet-far-drain", json!("singleton"), "60s");
    let (holder, others) = split(["a", "b", "c"].map(|name| fleet.start(name)).into());
    let drained = others[0].ask(&["drain", holder.name, "--wait", "5m"]);
    let said = format!("host/{} drained\n", holder.name);
    assert_eq!((drained.code, drained.stdout), (Some(0), said), "{}", drained.stderr);
    assert_eq!(holder.leases_of(holder.name), Some(0));
    let is_draining = |member: &Member| {
        let list = member.process.json(&["hosts"]);
        let this = list["items"].as_array().unwrap().iter().find(|item| item["isThis"] == true).unwrap();
        this["isDraining"] == true
    };
    assert!(is_draining(&holder) && !is_draining(&others[0]) && !is_draining(&others[1]));
    let ended = others[1].ask(&["uncordon", holder.name]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(!is_draining(&holder));
    let unknown = others[0].ask(&["drain", "nobody"]);
    assert!(unknown.code != Some(0) && unknown.stderr.contains("no host \"nobody\""), "{unknown:?}");
    assert!(!is_draining(&others[0]));
}

/// Issue 22: The token of the caller goes to a host whose certificate the CA of the fleet verifies, and to no
/// other one.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn a_question_with_a_token_goes_over_verified_tls() {
    let (files, foreign) = (TlsFiles::new(), TlsFiles::new());
    let (own_ca, foreign_ca) = (files.path("tls.crt"), foreign.path("tls.crt"));
    let fleet = Fleet { tls: Some(files), ..Fleet::new("fleet-tokens", json!("singleton"), "60s") };
    let holder = fleet.start_with("a", &["--fleet-ca", &own_ca]);
    eventually_built("the lease", || (holder.leases_of("a") == Some(1)).then_some(()));
    holder.create("kept");
    let trusting = fleet.start_with("b", &["--fleet-ca", &own_ca]);
    trusting.queues(&["kept"]);
    assert_eq!(trusting.ask(&["retry", "scripted", "scripted", "kept"]).code, Some(0));
    for (name, more, reason) in [
        ("c", &["--fleet-ca", &foreign_ca][..], "must be signed by the CA in the file of `--fleet-ca`"),
        ("d", &[], "start this host with `--fleet-ca FILE`"),
    ] {
        let other = fleet.start_with(name, more);
        let queue = eventually_built("a queue", || {
            let queue = other.ask(&["queue", "scripted"]);
            queue.stderr.contains("host/a has not answered").then_some(queue)
        });
        assert!(queue.code == Some(69) && queue.stderr.contains(reason), "{queue:?}");
        let retried = other.ask(&["retry", "scripted", "scripted", "kept"]);
        assert!(retried.code == Some(69) && retried.stderr.contains(reason), "{retried:?}");
    }
}
