//! Controllers as resources: written by whoever may, run by the host, with a history and a way back.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use homeostat_component::Digest;
use homeostat_runtime::keeper::Outcome;
use homeostat_runtime::manifest::ComponentSource;
use homeostat_runtime::{Code, ControllerState};
use homeostat_store::embedded::EmbeddedStore;
use homeostat_store::{Change, Key, Kind, Query, Store, Write};
use homeostat_tests::{Running, TestHost, demo, demo_key, eventually, eventually_blocking, guest, renamed};
use serde_json::{Value, json};

use crate::kubectl::Cluster;

/// Code in memory, by its digest.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<BTreeMap<String, Vec<u8>>>>);

impl Kept {
    fn keep(&self, bytes: Vec<u8>) -> String {
        let digest = Digest::of(&bytes).to_string();
        self.0.lock().unwrap().insert(digest.clone(), bytes);
        digest
    }

    /// Keeps the greeter, as another component for each tag.
    fn greeter(&self, tag: &str) -> String {
        self.keep(renamed(&std::fs::read(guest("greeter")).unwrap(), tag))
    }
}

#[async_trait]
impl Code for Kept {
    async fn fetch(&self, source: &ComponentSource) -> Result<Vec<u8>, String> {
        let digest = source.digest.as_deref().unwrap_or_default();
        self.0.lock().unwrap().get(digest).cloned().ok_or_else(|| format!("no code {digest}"))
    }

    async fn sweep(&self, named: &BTreeSet<Digest>) {
        self.0.lock().unwrap().retain(|digest, _| named.iter().any(|named| named.as_str() == digest));
    }
}

fn grants() -> Value {
    json!({ "resources": [{ "kinds": ["*"], "verbs": ["*"], "namespaces": ["*"] }] })
}

fn controller(name: &str, digest: &str) -> Value {
    json!({
        "apiVersion": "homeostat.dev/v1alpha1", "kind": "Controller", "metadata": { "name": name },
        "spec": { "component": { "digest": digest }, "grants": grants() },
    })
}

/// A host that runs the controllers of its store, with code that it has.
async fn keeping() -> (TestHost, Kept) {
    let (test, kept) = (TestHost::start().await, Kept::default());
    test.host.keep_controllers(Arc::new(kept.clone())).await.unwrap();
    (test, kept)
}

/// C1, C5: kubectl creates, changes and deletes a controller.
#[tokio::test(flavor = "multi_thread")]
async fn kubectl_creates_changes_and_deletes_a_controller() {
    let (test, kept) = keeping().await;
    let (one, two) = (kept.greeter("one"), kept.greeter("two"));
    let cluster = Cluster::over(test).await;
    let test = &cluster.test;
    cluster.file("a.json", &controller("greeter", &one).to_string());
    cluster.done(&["apply", "-f", "a.json"]).await;
    cluster.done(&["wait", "--for=condition=Ready", "--timeout=60s", "controller/greeter"]).await;
    test.apply(demo("Greeting", "world", json!({ "name": "World" }))).await;
    test.until(&demo_key("Greeting", "world"), "is greeted", |document| !document["status"].is_null()).await;

    let explained = cluster.done(&["explain", "controller.spec.limits"]).await;
    assert!(explained.contains("effectBytes") && explained.contains("From 1ms to 1h"), "{explained}");

    let misspelt = "{\"spec\": {\"limit\": {}}}";
    let said = cluster.refused(&["patch", "controller", "greeter", "--type=merge", "-p", misspelt]).await;
    assert!(said.contains("spec.limit"), "{said}");
    let wrong = "{\"spec\": {\"concurrency\": 0}}";
    let said = cluster.refused(&["patch", "controller", "greeter", "--type=merge", "-p", wrong]).await;
    assert!(said.contains("spec.concurrency") && said.contains("out of bounds"), "{said}");

    let other = format!("{{\"spec\": {{\"component\": {{\"digest\": \"{two}\"}}, \"concurrency\": 2}}}}");
    cluster.done(&["patch", "controller", "greeter", "--type=merge", "-p", &other]).await;
    eventually("the swap", async || (test.status("greeter").generation == 2).then_some(())).await;
    assert_eq!((test.status("greeter").digest, test.status("greeter").concurrency), (two.clone(), 2));
    let absent = format!("{{\"spec\": {{\"component\": {{\"digest\": \"{}\"}}}}}}", Digest::of(b"absent"));
    cluster.done(&["patch", "controller", "greeter", "--type=merge", "-p", &absent]).await;
    cluster.done(&["wait", "--for=condition=Degraded", "--timeout=60s", "controller/greeter"]).await;
    assert_eq!(test.status("greeter").digest, two, "the one that runs goes on");

    let revisions = cluster.json(&["get", "controllerrevisions"]).await;
    let names: Vec<&Value> =
        revisions["items"].as_array().unwrap().iter().map(|item| &item["metadata"]["name"]).collect();
    assert_eq!(names, ["greeter-1", "greeter-2"], "what never ran has no revision");

    cluster.done(&["delete", "controller", "greeter", "--wait=false"]).await;
    cluster.done(&["apply", "-f", "a.json"]).await;
    eventually("the name to be used again", async || {
        let status = test.host.status("greeter")?;
        (status.digest == one && status.generation == 1).then_some(())
    })
    .await;
    cluster.done(&["delete", "controller", "greeter"]).await;
    eventually("it to be gone", async || test.host.status("greeter").is_none().then_some(())).await;
    eventually("its revisions to be collected", async || {
        let left = cluster.json(&["get", "controllerrevisions"]).await;
        left["items"].as_array().unwrap().is_empty().then_some(())
    })
    .await;
}

/// The values of headers are credentials: they are never shown, and what is shown is never stored in their place.
#[tokio::test(flavor = "multi_thread")]
async fn values_of_headers_are_hidden_from_whoever_reads_and_cannot_be_lost_by_an_edit() {
    let (test, kept) = keeping().await;
    let digest = kept.greeter("one");
    let cluster = Cluster::over(test).await;
    let mut document = controller("greeter", &digest);
    document["spec"]["grants"]["http"] =
        json!([{ "urls": ["https://a.example/*"], "headers": { "authorization": { "value": "Bearer hush" } } }]);
    cluster.file("a.json", &document.to_string());
    cluster.done(&["apply", "-f", "a.json"]).await;
    cluster.done(&["wait", "--for=condition=Ready", "--timeout=60s", "controller/greeter"]).await;
    for shown in [
        &["get", "controllers", "-o", "yaml"][..],
        &["get", "controller", "greeter", "-o", "json"],
        &["get", "controllerrevision", "greeter-1", "-o", "json"],
        &["get", "controllers", "-o", "json", "--watch", "--request-timeout=2s"],
    ] {
        let (_, said) = cluster.run(shown).await;
        assert!(!said.contains("hush") && said.contains("***"), "{shown:?}: {said}");
    }
    let mut shown = cluster.json(&["get", "controller", "greeter"]).await;
    shown["spec"]["concurrency"] = 3.into();
    cluster.file("shown.json", &shown.to_string());
    let said = cluster.refused(&["replace", "-f", "shown.json"]).await;
    assert!(said.contains("spec.grants.http[0].headers.authorization.value"), "{said}");
    let grants = cluster.test.host.definition("greeter").unwrap().grants;
    assert!(json!(grants).to_string().contains("hush"), "the host itself has it");
}

#[tokio::test]
async fn a_component_that_runs_is_put_in_under_another_name_without_its_code() {
    let (test, kept) = keeping().await;
    let digest = kept.greeter("a");
    for name in ["one", "two"] {
        let written = test.host.write(Write::Create { document: controller(name, &digest) }.into()).await.unwrap();
        let verdict = test.host.verdict(name, written.resource.revision()).await;
        assert!(matches!(verdict.outcome, Outcome::Put(_)), "{:?}", verdict.outcome);
        kept.0.lock().unwrap().clear();
    }
}

/// Opens a store, once whoever had it has let go.
async fn opened(file: &Path) -> Arc<EmbeddedStore> {
    let open = async || EmbeddedStore::open(file, homeostat_store::Options::default()).ok();
    Arc::new(eventually("the store to be free", open).await)
}

/// Starts a host over a store in a file that runs its controllers.
async fn over(file: &Path, kept: &Kept) -> TestHost {
    let test = TestHost::over(opened(file).await).await;
    test.host.keep_controllers(Arc::new(kept.clone())).await.unwrap();
    test
}

async fn end(test: TestHost) {
    test.host.shutdown(Duration::ZERO).await;
}

async fn put(test: &TestHost, digest: &str) {
    let written = test.host.apply_resource(controller("greeter", digest), "me").await.unwrap();
    test.host.verdict("greeter", written.resource.revision()).await;
}

fn of_host(kind: &str, name: &str) -> Key {
    Key::new(Kind::new("homeostat.dev", "v1alpha1", kind), "", name)
}

/// C4, and over a restart: a person's suspend stays, as does what a person wrote.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_person_wrote_runs_after_a_restart_and_stays_suspended() {
    let (folder, kept) = (tempfile::tempdir().unwrap(), Kept::default());
    let file = folder.path().join("store.redb");
    let test = over(&file, &kept).await;
    put(&test, &kept.greeter("one")).await;
    test.host.suspend_for_good("greeter", true).await.unwrap();
    assert_eq!(test.status("greeter").state, ControllerState::Suspended, "it is when that is answered");
    end(test).await;
    let test = over(&file, &kept).await;
    eventually("it to be suspended", async || {
        (test.status("greeter").state == ControllerState::Suspended).then_some(())
    })
    .await;
    test.apply(demo("Greeting", "world", json!({ "name": "World" }))).await;
    eventually("the key to be held", async || (test.status("greeter").counts.ready == 1).then_some(())).await;
    assert_eq!(test.status("greeter").reconciles, 0);
}

/// C5, over a restart: when what is wanted cannot run, the newest revision that can does.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_starts_with_a_definition_that_is_refused_runs_the_revision_before() {
    let (folder, kept) = (tempfile::tempdir().unwrap(), Kept::default());
    let file = folder.path().join("store.redb");
    let (good, bad) = (kept.greeter("one"), kept.keep(b"no component".to_vec()));
    let test = over(&file, &kept).await;
    for digest in [&good, &bad] {
        put(&test, digest).await;
        assert_eq!(test.status("greeter").digest, good);
    }
    end(test).await;
    let test = over(&file, &kept).await;
    assert_eq!(test.status("greeter").digest, good, "it runs when the host has begun");
    let status = test.get(&of_host("Controller", "greeter")).await.unwrap().status().clone();
    let condition = |name: &str| {
        let conditions = status["conditions"].as_array().unwrap();
        conditions.iter().find(|condition| condition["type"] == name).unwrap()["status"].clone()
    };
    assert_eq!((condition("Loaded"), condition("Degraded")), (json!("False"), json!("True")), "{status}");
    assert_eq!((&status["wantedDigest"], &status["digest"]), (&json!(bad), &json!(good)));
}

/// Between the history and the swap, and before either: the next host goes on, and no revision is there twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_ended_in_the_middle_of_a_swap_goes_on_with_a_whole_history() {
    for has_recorded in [false, true] {
        let (folder, kept) = (tempfile::tempdir().unwrap(), Kept::default());
        let file = folder.path().join("store.redb");
        let (one, two) = (kept.greeter("one"), kept.greeter("two"));
        let test = over(&file, &kept).await;
        put(&test, &one).await;
        let first = test.get(&of_host("ControllerRevision", "greeter-1")).await.unwrap().document().clone();
        end(test).await;
        // What a host that is killed leaves behind.
        let store = opened(&file).await;
        let change = Change::Merge(json!({ "spec": { "component": { "digest": two } } }));
        let key = of_host("Controller", "greeter");
        store.write(Write::Patch { key, change, precondition: Default::default() }).await.unwrap();
        if has_recorded {
            let mut document = first;
            document["metadata"] = json!({
                "name": "greeter-2", "ownerReferences": document["metadata"]["ownerReferences"],
            });
            document["spec"]["number"] = 2.into();
            document["spec"]["digest"] = json!(two);
            document["spec"]["spec"]["component"]["digest"] = json!(two);
            store.write(Write::Create { document }).await.unwrap();
        }
        store.close().await;
        drop(store);
        let test = over(&file, &kept).await;
        assert_eq!(test.status("greeter").digest, two);
        let revisions = test.host.store().list(&Query::all(of_host("ControllerRevision", "").kind().clone())).await;
        let names: Vec<_> = revisions.unwrap().items.iter().map(|item| item.key().name().to_owned()).collect();
        assert_eq!(names, ["greeter-1", "greeter-2"], "{has_recorded}");
    }
}

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).unwrap();
}

fn manifest(more: &str) -> String {
    format!(
        "apiVersion: homeostat.dev/v1alpha1\nkind: Controller\nmetadata: {{name: greeter}}\nspec:\n  component: {{file: greeter.wasm}}\n  \
         grants:\n    resources:\n    - {{kinds: [\"*\"], verbs: [\"*\"], namespaces: [\"*\"]}}\n{more}"
    )
}

fn history(host: &Running) -> Vec<String> {
    let output = host.ask(&["rollout", "history", "greeter"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    output.stdout.lines().skip(1).map(|line| line.split("   ").next().unwrap().trim().to_owned()).collect()
}

fn until_status(host: &Running, path: &str, wanted: &Value) {
    until_status_of(host, "greeter", path, wanted);
}

fn until_status_of(host: &Running, name: &str, path: &str, wanted: &Value) {
    eventually_blocking(&format!("controllers/{name}: {path} = {wanted}"), || {
        let output = host.ask(&["get", "controller", name, "-o", "json"]);
        let document: Value = serde_json::from_str(&output.stdout).ok()?;
        (document.pointer(path) == Some(wanted)).then_some(())
    });
}

/// Edit, save, swapped; a bad edit is refused; history, undo, and `kill -9` between any two steps.
#[test]
fn a_folder_has_a_history_and_an_undo_that_survive_kill_9() {
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let greeter = std::fs::read(guest("greeter")).unwrap();
    let component = |tag: &str| std::fs::write(folder.path().join("greeter.wasm"), renamed(&greeter, tag)).unwrap();
    component("one");
    write(folder.path(), "greeter.yaml", &manifest(""));
    let mut host = Running::start("run", folder.path(), scratch.path(), &[]);
    let restart = |host: Running| {
        host.kill();
        Running::start("run", folder.path(), scratch.path(), &[])
    };
    host.until_said("controller/greeter added");
    assert_eq!(host.ask(&["rollout", "status", "greeter"]).code, Some(0));
    assert_eq!(history(&host), ["1 *"]);

    component("two");
    host.until_said("controller/greeter swapped: generation 2");
    until_status(&host, "/status/lastSwap/why", &json!("its component changed"));
    write(folder.path(), "greeter.yaml", &manifest("  concurrency: 2\n"));
    until_status(&host, "/status/concurrency", &json!(2));
    assert_eq!(history(&host), ["1", "2", "3 *"]);
    let diff = host.ask(&["rollout", "diff", "greeter"]);
    assert_eq!(diff.stdout, "--- revision 2\n+++ revision 3\n+ concurrency: 2\n", "{}", diff.stderr);
    let other = host.ask(&["rollout", "diff", "greeter", "--from", "1", "--to", "2"]).stdout;
    assert!(other.contains("- component.digest: sha256:") && other.contains("+ component.digest: sha256:"), "{other}");

    assert_eq!(host.said().matches("controller/greeter added").count(), 1, "each change is told once: {}", host.said());
    assert_eq!(host.said().matches("controller/greeter changed").count(), 1, "{}", host.said());
    host = restart(host);
    until_status(&host, "/status/concurrency", &json!(2));
    assert_eq!(history(&host), ["1", "2", "3 *"], "a restart makes no revision");

    let source =
        host.json(&["get", "controller", "greeter"])["metadata"]["annotations"]["homeostat.dev/source"].clone();
    std::fs::write(folder.path().join("greeter.wasm"), &greeter[..greeter.len() / 2]).unwrap();
    host.until_said("controller/greeter refused, the one that runs goes on");
    let status = host.ask(&["rollout", "status", "greeter"]);
    assert_eq!(status.code, Some(3), "{}", status.stderr);
    assert!(status.stderr.contains("cut off"), "{}", status.stderr);
    assert_eq!(history(&host), ["1", "2", "3 *"]);
    host = restart(host);
    until_status(&host, "/status/concurrency", &json!(2));
    assert_eq!(history(&host), ["1", "2", "3 *"], "one is current, and the history is whole");
    let undone = host.ask(&["rollout", "undo", "greeter"]);
    assert!(undone.stdout.ends_with("goes back to revision 3\n"), "to what ran: {} {}", undone.stdout, undone.stderr);
    assert_eq!(host.ask(&["rollout", "status", "greeter"]).code, Some(0));
    assert_eq!(history(&host), ["1", "2", "3 *"]);

    component("two");
    // Nothing but the digest tells that it has been looked at again: what runs is the same.
    let digest = json!(Digest::of(&renamed(&greeter, "two")).as_str());
    until_status(&host, "/metadata/annotations/homeostat.dev~1source", &source);
    until_status(&host, "/status/wantedDigest", &digest);
    let undone = host.ask(&["rollout", "undo", "greeter", "--to-revision", "1"]);
    assert_eq!(undone.stdout, "controller.homeostat.dev/greeter goes back to revision 1\n", "{}", undone.stderr);
    assert_eq!(host.ask(&["rollout", "status", "greeter"]).code, Some(0));
    assert_eq!(history(&host), ["2", "3", "4 *"], "it has moved to the top");
    until_status(&host, "/status/concurrency", &json!(4));
    host.kill();
    write(folder.path(), "other.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: other}\n");
    host = Running::start("run", folder.path(), scratch.path(), &[]);
    // Resources are applied after the controllers: the folder has had its say.
    host.until_said("namespace/other created");
    assert_eq!(host.ask(&["rollout", "status", "greeter"]).code, Some(0));
    until_status(&host, "/status/revision", &json!(4));
    until_status(&host, "/status/concurrency", &json!(4));

    component("three");
    until_status(&host, "/status/revision", &json!(5));
    until_status(&host, "/status/concurrency", &json!(2));

    host.kill();
    std::fs::remove_file(folder.path().join("greeter.yaml")).unwrap();
    let host = Running::start("run", folder.path(), scratch.path(), &[]);
    host.until_said("controller/greeter removed");
    let left = host.ask(&["get", "controllers", "-o", "name"]);
    assert_eq!(left.stdout, "", "what left the folder while no host ran is deleted");
}

/// What the folder did not bring is left alone, and runs.
#[test]
fn what_is_applied_beside_the_folder_runs_and_stays() {
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::copy(guest("greeter"), folder.path().join("greeter.wasm")).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    write(elsewhere.path(), "greeter.yaml", &manifest(""));
    let file = elsewhere.path().join("greeter.yaml").display().to_string();
    let host = Running::start("run", folder.path(), scratch.path(), &[]);
    let applied = host.ask(&["apply", "-f", &file]);
    assert_eq!(applied.stdout, "controller.homeostat.dev/greeter created\n", "{}", applied.stderr);
    assert_eq!(host.ask(&["rollout", "status", "greeter"]).code, Some(0));
    assert_eq!(host.ask(&["suspend", "greeter"]).code, Some(0));
    host.kill();
    let host = Running::start("run", folder.path(), scratch.path(), &[]);
    until_status(&host, "/status/state", &json!("suspended"));
    assert_eq!(host.ask(&["resume", "greeter"]).code, Some(0));
    until_status(&host, "/status/state", &json!("ready"));

    assert_eq!(host.ask(&["rollout", "pause", "greeter"]).code, Some(0));
    write(elsewhere.path(), "greeter.yaml", &manifest("  concurrency: 2\n  paused: true\n"));
    assert_eq!(host.ask(&["apply", "-f", &file]).code, Some(0));
    until_status(&host, "/status/conditions/2/reason", &json!("Paused"));
    assert_eq!(host.json(&["get", "controller", "greeter"])["status"]["concurrency"], 4, "it is not taken over");
    let refused = host.ask(&["rollout", "undo", "greeter"]);
    assert!(refused.code == Some(1) && refused.stderr.contains("resume"), "{}", refused.stderr);
    assert_eq!(host.ask(&["rollout", "resume", "greeter"]).code, Some(0));
    until_status(&host, "/status/concurrency", &json!(2));

    assert_eq!(host.ask(&["rollout", "restart", "greeter"]).code, Some(0));
    until_status(&host, "/status/generation", &json!(2));
    assert_eq!(host.ask(&["delete", "controller", "greeter"]).code, Some(0));
    eventually_blocking("it to be gone", || {
        (host.ask(&["get", "controller", "greeter"]).code == Some(1)).then_some(())
    });
}

/// A folder with a controller that is every version, and keys for it.
struct Fickle {
    folder: tempfile::TempDir,
    scratch: tempfile::TempDir,
}

impl Fickle {
    fn new(keys: u32) -> Self {
        let fickle = Self { folder: tempfile::tempdir().unwrap(), scratch: tempfile::tempdir().unwrap() };
        std::fs::copy(guest("guest-fickle"), fickle.folder.path().join("fickle.wasm")).unwrap();
        let kind = "apiVersion: demo.homeostat.dev/v1\nkind: Fickle\n";
        let resource = |number| format!("{kind}metadata: {{name: k{number}, namespace: default}}\nspec: {{}}\n");
        write(fickle.folder.path(), "keys.yaml", &(0..keys).map(resource).collect::<Vec<_>>().join("---\n"));
        fickle
    }

    /// Saves another version. `lasts`: how long each of its steps does.
    fn save(&self, version: &str, bad: &str, lasts: &str) {
        let gate = format!("{{for: {lasts}, reconciles: 1, duration: 1000x}}");
        let text = format!(
            "apiVersion: homeostat.dev/v1alpha1\nkind: Controller\nmetadata: {{name: fickle}}\nspec:\n  component: {{file: fickle.wasm}}\n  \
             config: {{version: \"{version}\", bad: \"{bad}\"}}\n  grants:\n    resources:\n    - {{kinds: [\"*\"], verbs: [\"*\"], namespaces: [\"*\"]}}\n  \
             rollout: {{strategy: canary, steps: [30%, 60%], gate: {gate}}}\n"
        );
        write(self.folder.path(), "fickle.yaml", &text);
    }

    fn run(&self) -> Running {
        Running::start("run", self.folder.path(), self.scratch.path(), &[])
    }

    /// Waits until the controller's rollout is like this. Returns its status.
    fn until(host: &Running, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        eventually_blocking(&format!("the rollout: {what}"), || {
            let output = host.ask(&["get", "controller", "fickle", "-o", "json"]);
            let status = serde_json::from_str::<Value>(&output.stdout).ok()?["status"].clone();
            wanted(&status["rollout"]).then_some(status)
        })
    }

    fn history(host: &Running) -> Vec<String> {
        let output = host.ask(&["rollout", "history", "fickle"]);
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        output.stdout.lines().skip(1).map(|line| line.split("   ").next().unwrap().trim().to_owned()).collect()
    }
}

/// Whoever is killed in the middle of a canary finds one version current, and goes on.
#[test]
fn a_canary_goes_on_after_kill_9_and_a_bad_edit_undoes_itself() {
    let fickle = Fickle::new(20);
    fickle.save("one", "", "1h");
    let mut host = fickle.run();
    host.until_said("controller/fickle added");
    fickle.save("two", "", "1h");
    host.until_said("controller/fickle canary: revision 2 has 30% of the keys, revision 1 the others");
    host.kill();
    host = fickle.run();
    let status = Fickle::until(&host, "to go on", |rollout| rollout["phase"] == "canary");
    assert_eq!(
        (&status["revision"], &status["rollout"]["to"], &status["rollout"]["share"]),
        (&json!(1), &json!(2), &json!("30%"))
    );
    assert_eq!(Fickle::history(&host), ["1 *", "2 ?"]);
    fickle.save("two", "", "100ms");
    host.until_said("controller/fickle canary: revision 2 has all keys, after revision 1");
    let status = host.ask(&["rollout", "status", "fickle"]);
    assert_eq!(
        (status.code, status.stdout.as_str()),
        (Some(0), "controller \"fickle\" successfully rolled out: revision 2 runs\n")
    );
    assert_eq!(Fickle::history(&host), ["1", "2 *"]);

    // At each step, and wherever it comes to be meanwhile.
    for (number, wanted) in [(3, "listing"), (4, "30%"), (5, "60%"), (6, "100%")] {
        fickle.save(&number.to_string(), "", "200ms");
        Fickle::until(&host, wanted, |rollout| {
            rollout["to"] == number
                && (wanted == "listing" || rollout["share"] == wanted || rollout["phase"] == "complete")
        });
        host.kill();
        host = fickle.run();
        let status =
            Fickle::until(&host, "to be complete", |rollout| rollout["to"] == number && rollout["phase"] == "complete");
        assert_eq!(status["revision"], number);
        let history = Fickle::history(&host);
        assert_eq!(history.len(), number as usize, "{history:?}");
        assert_eq!(history.iter().filter(|line| line.ends_with('*')).collect::<Vec<_>>(), [&format!("{number} *")]);
    }

    fickle.save("bad", "trap", "1h");
    host.until_said("controller/fickle rolled back: revision 7 went back to revision 6: ");
    let status = host.ask(&["rollout", "status", "fickle"]);
    assert_eq!(status.code, Some(3), "{}", status.stderr);
    assert!(
        status.stderr.contains("revision 7 went back to revision 6") && status.stderr.contains("trapped"),
        "{}",
        status.stderr
    );
    host.kill();
    host = fickle.run();
    let status = Fickle::until(&host, "to stay back", |rollout| rollout["phase"] == "rolledBack");
    assert_eq!(status["revision"], 6);
    assert_eq!(Fickle::history(&host)[5..], ["6 *", "7 -"]);
    let undone = host.ask(&["rollout", "undo", "fickle"]);
    assert_eq!(undone.stdout, "controller.homeostat.dev/fickle goes back to revision 6\n", "{}", undone.stderr);
    assert_eq!(host.ask(&["rollout", "status", "fickle"]).code, Some(0));
}

/// The manifest of a guest with many faces, and how another face of it is put in.
fn twin(face: &str, rollout: &str) -> String {
    format!(
        "apiVersion: homeostat.dev/v1alpha1\nkind: Controller\nmetadata: {{name: twin}}\nspec:\n  component: {{file: twin.wasm}}\n  \
         config: {{face: \"{face}\"}}\n  grants:\n    resources: [{{kinds: [\"*\"], verbs: [\"*\"], namespaces: [\"*\"]}}]\n    \
         http: [{{urls: [\"https://example.com/*\"]}}]\n{rollout}"
    )
}

/// A version is tried as a shadow: one that writes something else goes back and says what, one that does the same takes over.
#[test]
fn a_shadow_is_told_in_the_terminal_before_it_takes_over() {
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::copy(guest("guest-twin"), folder.path().join("twin.wasm")).unwrap();
    write(folder.path(), "twin.yaml", &twin("", ""));
    let host = Running::start("run", folder.path(), scratch.path(), &[]);
    until_status_of(&host, "twin", "/status/state", &json!("ready"));
    write(folder.path(), "t0.yaml", &demo("Twin", "t0", json!({ "size": 1 })).to_string());
    eventually_blocking("the part to be there", || (host.ask(&["get", "parts", "t0"]).code == Some(0)).then_some(()));

    write(folder.path(), "twin.yaml", &twin("field", "  rollout: {strategy: shadow, shadow: {for: 1h}}\n"));
    until_status_of(&host, "twin", "/status/rollout/phase", &json!("rolledBack"));
    let status = host.ask(&["rollout", "status", "twin"]);
    assert!(status.code == Some(3) && status.stderr.contains("spec.size: 2 instead of 1"), "{}", status.stderr);
    let told = host.ask(&["rollout", "diff", "twin", "--shadow"]);
    assert!(told.stdout.contains("Part default/t0: apply\n  - spec.size: 1\n  + spec.size: 2"), "{}", told.stdout);
    assert_eq!(host.json(&["get", "parts", "t0"])["spec"]["size"], 1, "nothing of it was applied");

    let shadow = "  rollout: {strategy: shadow, shadow: {for: 100ms, reconciles: 1}}\n";
    write(folder.path(), "twin.yaml", &twin("look", shadow));
    until_status_of(&host, "twin", "/status/rollout/phase", &json!("complete"));
    assert_eq!(host.ask(&["rollout", "status", "twin"]).code, Some(0));
    let status = host.json(&["get", "controller", "twin"]);
    assert_eq!(status.pointer("/status/rollout/shadow/differing"), Some(&json!(0)), "{status}");
    let told = host.ask(&["rollout", "diff", "twin", "--from", "1"]);
    assert!(told.stdout.contains("config.face: look") && !told.stdout.contains("code."), "{}", told.stdout);
}

/// Whoever is killed while a version is a shadow finds the one before it current, and begins the shadow anew.
#[test]
fn a_shadow_begins_anew_after_kill_9() {
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::copy(guest("guest-twin"), folder.path().join("twin.wasm")).unwrap();
    write(folder.path(), "twin.yaml", &twin("", ""));
    write(folder.path(), "t0.yaml", &demo("Twin", "t0", json!({ "size": 1 })).to_string());
    let mut host = Running::start("run", folder.path(), scratch.path(), &[]);
    eventually_blocking("the part to be there", || (host.ask(&["get", "parts", "t0"]).code == Some(0)).then_some(()));
    let shadow = |lasts: &str| format!("  rollout: {{strategy: shadow, shadow: {{for: {lasts}, reconciles: 1}}}}\n");
    let history = |host: &Running| {
        let told = host.ask(&["rollout", "history", "twin"]).stdout;
        told.lines().skip(1).map(|line| line.split("   ").next().unwrap().trim().to_owned()).collect::<Vec<_>>()
    };
    write(folder.path(), "twin.yaml", &twin("look", &shadow("1h")));
    for _ in 0..2 {
        until_status_of(&host, "twin", "/status/rollout/phase", &json!("shadow"));
        assert_eq!(history(&host), ["1 *", "2 ?"]);
        assert_eq!(host.json(&["get", "controller", "twin"])["status"]["revision"], 1);
        host.kill();
        host = Running::start("run", folder.path(), scratch.path(), &[]);
    }
    write(folder.path(), "twin.yaml", &twin("look", &shadow("100ms")));
    until_status_of(&host, "twin", "/status/rollout/phase", &json!("complete"));
    assert_eq!(host.json(&["get", "controller", "twin"])["status"]["revision"], 2);
    assert_eq!(history(&host), ["1", "2 *"]);
}
