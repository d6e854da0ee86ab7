//! kube-rs against a host without a cluster: its watcher and its server-side apply.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::Arc;

use homeostat_api::{Handle, Options, serve};
use homeostat_component::KindDeclaration;
use homeostat_fixtures::{demo, demo_key};
use homeostat_runtime::KindInfo;
use homeostat_store::memory::MemoryStore;
use homeostat_store::{Change, Kind, Precondition, Propagation, Write};
use homeostat_testing::soon;
use homeostat_tests::{TestHost, kube};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::wire::Wire;

/// The number of changes in the store's history.
const HISTORY: u64 = 20;

/// A host with the kind `Note`.
struct Notes {
    test: TestHost,
    served: Handle,
    kind: Kind,
}

impl Notes {
    async fn start() -> Self {
        // The first build takes a while.
        tokio::task::spawn_blocking(kube).await.unwrap();
        let options = homeostat_store::Options { history_max: HISTORY, ..homeostat_store::Options::default() };
        let test = TestHost::over(Arc::new(MemoryStore::new(options))).await;
        let kind = demo_key("Note", "a").kind().clone();
        let declaration = KindDeclaration {
            kind: kind.clone(),
            plural: "notes".into(),
            namespaced: true,
            keys_only: false,
            schema: None,
        };
        test.host.kinds().declare(KindInfo::declared(&declaration, "test")).unwrap();
        let options = Options { address: "http://127.0.0.1:0".into(), ..Options::default() };
        let served = serve(options, test.host.clone()).await.unwrap();
        Self { test, served, kind }
    }

    fn command(&self, verb: &str, server: &str) -> Command {
        let Kind { group, version, name } = &self.kind;
        let mut command = Command::new(kube());
        command.args([verb, server, &format!("{group}/{version}/{name}"), "notes"]);
        command.stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    fn follow(&self, wire: &Wire, how: &str) -> WatcherOutput {
        let mut process = self.command("follow", &wire.address).arg(how).stdout(Stdio::piped()).spawn().unwrap();
        WatcherOutput { lines: BufReader::new(process.stdout.take().unwrap()).lines(), _process: process }
    }

    /// Applies a part of the note `a`, and returns the result that kube-rs reports.
    async fn apply(&self, manager: &str, part: &str, force: &str, content: Value) -> Value {
        let mut document =
            json!({ "apiVersion": self.kind.api_version(), "kind": "Note", "metadata": { "name": "a" } });
        document.as_object_mut().unwrap().extend(content.as_object().unwrap().clone());
        let mut command = self.command("apply", &self.served.address().to_string());
        let ended = command.args([manager, part, force, &document.to_string()]).output();
        let output = soon(ended).await.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    async fn note(&self, name: &str, text: &str) {
        self.test.apply(demo("Note", name, json!({ "text": text }))).await;
    }

    async fn change(&self, name: &str, text: &str) {
        let change = Change::Merge(json!({ "spec": { "text": text } }));
        let write = Write::Patch { key: demo_key("Note", name), change, precondition: Precondition::default() };
        self.test.host.store().write(write).await.unwrap();
    }

    async fn delete(&self, name: &str) {
        let (key, precondition) = (demo_key("Note", name), Precondition::default());
        let write = Write::Delete { key, precondition, propagation: Propagation::Background, grace_seconds: None };
        self.test.host.store().write(write).await.unwrap();
    }
}

/// A running watcher, and the lines that it prints.
struct WatcherOutput {
    lines: Lines<BufReader<ChildStdout>>,
    _process: Child,
}

impl WatcherOutput {
    /// Returns event, name and text of the next line that is not an error.
    async fn next(&mut self) -> (String, String, String) {
        soon(self.next_event()).await
    }

    async fn next_event(&mut self) -> (String, String, String) {
        loop {
            let line = self.line().await;
            let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
            if line["event"] != "error" {
                return (text("event"), text("name"), text("text"));
            }
        }
    }

    async fn line(&mut self) -> Value {
        let line = self.lines.next_line().await.unwrap();
        serde_json::from_str(&line.expect("the watcher keeps running")).unwrap()
    }

    /// Returns the texts of the first list by name, once the list is complete.
    async fn listed(&mut self) -> BTreeMap<String, String> {
        assert_eq!(self.next().await.0, "init");
        let mut found = BTreeMap::new();
        loop {
            match self.next().await {
                (event, ..) if event == "init-done" => return found,
                (event, name, text) => {
                    assert_eq!(event, "init-apply");
                    assert!(found.insert(name, text).is_none(), "no resource is listed twice");
                }
            }
        }
    }
}

fn event(event: &str, name: &str, text: &str) -> (String, String, String) {
    (event.to_owned(), name.to_owned(), text.to_owned())
}

fn names<const N: usize>(found: [(&str, &str); N]) -> BTreeMap<String, String> {
    found.map(|(name, text)| (name.to_owned(), text.to_owned())).into()
}

async fn check_watcher(how: &str) {
    let notes = Notes::start().await;
    let wire = Wire::to(notes.served.address().to_string().replace("http://", "")).await;
    notes.note("a", "one").await;
    notes.note("b", "one").await;
    let mut output = notes.follow(&wire, how);
    assert_eq!(output.listed().await, names([("a", "one"), ("b", "one")]));
    notes.change("a", "two").await;
    assert_eq!(output.next().await, event("apply", "a", "two"));

    // The watcher sees the changes of a disconnected time once, in order.
    wire.hold();
    notes.change("b", "two").await;
    notes.delete("a").await;
    notes.note("c", "one").await;
    wire.release();
    assert_eq!(output.next().await, event("apply", "b", "two"));
    assert_eq!(output.next().await, event("delete", "a", "two"));
    assert_eq!(output.next().await, event("apply", "c", "one"));

    // After more changes than the history has, the watch gets 410, and the watcher lists again.
    wire.hold();
    notes.delete("b").await;
    for turn in 0..2 * HISTORY {
        notes.change("c", &turn.to_string()).await;
    }
    notes.note("d", "one").await;
    wire.release();
    let last = (2 * HISTORY - 1).to_string();
    assert_eq!(output.listed().await, names([("c", last.as_str()), ("d", "one")]));
    notes.change("d", "two").await;
    assert_eq!(output.next().await, event("apply", "d", "two"));
}

/// S8: A watcher sees every change once and in order, and lists again when the history is too short.
#[tokio::test]
async fn a_kube_rs_watcher_survives_a_cut_connection_and_relists_after_410() {
    check_watcher("list").await;
}

/// S8: The same with streaming lists.
#[tokio::test]
async fn a_kube_rs_watcher_with_streaming_lists_does_the_same() {
    check_watcher("stream").await;
}

/// S11: An apply conflicts with the fields of another manager, and takes them over by force.
#[tokio::test]
async fn kube_rs_applies_resources_and_statuses_and_gets_conflicts_with_other_managers() {
    let notes = Notes::start().await;
    let text = |text: &str| json!({ "spec": { "text": text } });
    let created = notes.apply("one", "whole", "yield", text("one")).await;
    assert_eq!(created["applied"]["metadata"]["managedFields"][0]["manager"], "one");
    let refused = notes.apply("two", "whole", "yield", text("two")).await;
    let Value::Object(refused) = &refused["refused"] else { panic!("{refused}") };
    assert_eq!((&refused["code"], &refused["reason"]), (&json!(409), &json!("Conflict")));
    let cause = &refused["details"]["causes"][0];
    assert_eq!((&cause["reason"], &cause["field"]), (&json!("FieldManagerConflict"), &json!(".spec.text")));
    let forced = notes.apply("two", "whole", "force", text("two")).await;
    assert_eq!(forced["applied"]["spec"]["text"], "two");

    let phase = |phase: &str| json!({ "status": { "phase": phase } });
    let reported = notes.apply("one", "status", "yield", phase("up")).await;
    assert_eq!(reported["applied"]["status"], phase("up")["status"], "{reported}");
    let refused = notes.apply("two", "status", "yield", phase("down")).await;
    assert_eq!(refused["refused"]["details"]["causes"][0]["field"], ".status.phase", "{refused}");
    let forced = notes.apply("two", "status", "force", phase("down")).await;
    assert_eq!(
        (&forced["applied"]["status"]["phase"], &forced["applied"]["spec"]["text"]),
        (&json!("down"), &json!("two"))
    );
}
