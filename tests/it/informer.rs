//! client-go's shared informer against a host without a cluster. Controllers for Kubernetes are built on it.

use std::collections::BTreeMap;
use std::process::Stdio;

use homeostat_api::{Handle, Options, serve};
use homeostat_component::KindDeclaration;
use homeostat_fixtures::{demo, demo_key};
use homeostat_runtime::KindInfo;
use homeostat_store::{Change, Kind, Precondition, Propagation, Write};
use homeostat_testing::soon;
use homeostat_tests::{TestHost, informer};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::wire::Wire;

/// A running informer, and the lines that it prints.
struct InformerOutput {
    lines: Lines<BufReader<ChildStdout>>,
    _process: Child,
}

impl InformerOutput {
    fn start(server: &str, kind: &Kind, resync: &str) -> Self {
        Self::spawn(Self::command(server, kind, resync))
    }

    /// Starts an informer with the feature gates of CBOR, which accepts no other format.
    fn start_with_cbor(server: &str, kind: &Kind) -> Self {
        let mut command = Self::command(server, kind, "0s");
        command.args(["--media", "application/cbor"]);
        command.envs(["KUBE_FEATURE_ClientsAllowCBOR", "KUBE_FEATURE_ClientsPreferCBOR"].map(|gate| (gate, "true")));
        Self::spawn(command)
    }

    fn command(server: &str, kind: &Kind, resync: &str) -> Command {
        let resource = format!("{}/{}/notes", kind.group, kind.version);
        let mut command = Command::new(informer());
        command.args(["--server", server, "--resource", &resource, "--resync", resync]);
        command
    }

    fn spawn(mut command: Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        Self { lines: BufReader::new(process.stdout.take().unwrap()).lines(), _process: process }
    }

    /// Returns event and name of the next line that is not a resync.
    async fn next(&mut self) -> (String, String) {
        loop {
            let line = self.line().await;
            if line["resync"] != true {
                return (text(&line["event"]), text(&line["name"]));
            }
        }
    }

    async fn line(&mut self) -> Value {
        let line = soon(self.lines.next_line()).await.unwrap();
        serde_json::from_str(&line.expect("the informer keeps running")).unwrap()
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn event(event: &str, name: &str) -> (String, String) {
    (event.to_owned(), name.to_owned())
}

async fn change(test: &TestHost, name: &str, text: &str) {
    let change = Change::Merge(json!({"spec": {"text": text}}));
    let write = Write::Patch { key: demo_key("Note", name), change, precondition: Precondition::default() };
    test.host.store().write(write).await.unwrap();
}

/// Starts a host that serves notes. Returns it with their kind and the handle of the server.
async fn serve_notes() -> (TestHost, Kind, Handle) {
    tokio::task::spawn_blocking(informer).await.unwrap();
    let test = TestHost::start().await;
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
    (test, kind, served)
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_shared_informer_speaks_cbor_alone() {
    let (test, kind, served) = serve_notes().await;
    test.apply(demo("Note", "a", json!({"text": "one"}))).await;
    let mut output = InformerOutput::start_with_cbor(&served.address().to_string(), &kind);
    assert_eq!(output.next().await, event("add", "a"));
    assert_eq!(output.next().await, event("synced", ""));
    change(&test, "a", "two").await;
    assert_eq!(output.next().await, event("update", "a"));
    test.apply(demo("Note", "b", json!({"text": "one"}))).await;
    assert_eq!(output.next().await, event("add", "b"));
}

/// S8: An informer sees every change once and in order, over a cut connection too.
#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_shared_informer_lists_watches_resyncs_and_survives_a_cut_connection() {
    let (test, kind, served) = serve_notes().await;
    let wire = Wire::to(served.address().to_string().replace("http://", "")).await;
    test.apply(demo("Note", "a", json!({"text": "one"}))).await;
    test.apply(demo("Note", "b", json!({"text": "one"}))).await;

    let mut output = InformerOutput::start(&wire.address, &kind, "1s");
    let mut first = BTreeMap::new();
    loop {
        match output.next().await {
            (event, _) if event == "synced" => break,
            (event, name) => drop(first.insert(name, event)),
        }
    }
    assert_eq!(first, BTreeMap::from([("a".into(), "add".into()), ("b".into(), "add".into())]));
    change(&test, "a", "two").await;
    assert_eq!(output.next().await, event("update", "a"));

    wire.cut();
    // These changes happen while the informer is disconnected or reconnects.
    change(&test, "b", "two").await;
    let delete = Write::Delete {
        key: demo_key("Note", "a"),
        precondition: Precondition::default(),
        propagation: Propagation::Background,
        grace_seconds: None,
    };
    test.host.store().write(delete).await.unwrap();
    test.apply(demo("Note", "c", json!({"text": "one"}))).await;
    assert_eq!(output.next().await, event("update", "b"));
    assert_eq!(output.next().await, event("delete", "a"));
    assert_eq!(output.next().await, event("add", "c"));

    let again = loop {
        let line = output.line().await;
        if line["resync"] == true {
            break line;
        }
    };
    assert_eq!(again["event"], "update", "a resync repeats the existing resources");
}
