//! The binary over a folder: each edit makes a revision, and the folder leaves other controllers alone.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use homeostat_component::Digest;
use homeostat_testing::{BOUND, eventually_blocking, eventually_built};
use homeostat_tests::{HostProcess, guest, renamed};
use serde_json::{Value, json};

pub(super) fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).unwrap();
}

fn manifest(more: &str) -> String {
    format!(
        "apiVersion: homeostat.dev/v1alpha1\nkind: Controller\nmetadata: {{name: greeter}}\nspec:\n  component: {{file: greeter.wasm}}\n  \
         grants:\n    resources:\n    - {{kinds: [\"*\"], verbs: [\"*\"], namespaces: [\"*\"]}}\n{more}"
    )
}

fn history(host: &HostProcess) -> Vec<String> {
    let output = host.ask(&["rollout", "history", "greeter"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    output.stdout.lines().skip(1).map(|line| line.split("   ").next().unwrap().trim().to_owned()).collect()
}

fn until(host: &HostProcess, pointer: &str, wanted: &Value) {
    host.until("controller", "greeter", pointer, wanted);
}

/// The host rereads files often, and reports only changes.
#[test]
fn a_change_of_a_file_is_reported_once_despite_many_reads() {
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let greeter = std::fs::read(guest("greeter")).unwrap();
    let save = || std::fs::write(folder.path().join("greeter.wasm"), &greeter).unwrap();
    let look = |host: &HostProcess, name: &str| {
        save();
        let greeting = format!(
            "apiVersion: demo.homeostat.dev/v1\nkind: Greeting\nmetadata: {{name: {name}}}\nspec: {{name: {name}}}\n"
        );
        write(folder.path(), &format!("{name}.yaml"), &greeting);
        host.wait_for_stderr(&format!("greeting.demo.homeostat.dev/{name} created"));
    };
    save();
    write(folder.path(), "greeter.yaml", &manifest(""));
    let mut host = HostProcess::start("run", folder.path(), scratch.path(), &[]);
    host.wait_for_stderr("controller/greeter added");
    host.kill();
    host = HostProcess::start("run", folder.path(), scratch.path(), &[]);
    host.wait_for_stderr("controller/greeter added");
    look(&host, "one");
    assert_eq!(host.stderr().matches("controller/greeter added").count(), 1, "{}", host.stderr());

    assert_eq!(host.ask(&["rollout", "pause", "greeter"]).code, Some(0));
    write(folder.path(), "greeter.yaml", &manifest("  concurrency: 2\n"));
    host.wait_for_stderr("controller/greeter is paused");
    look(&host, "two");
    assert_eq!(host.stderr().matches("controller/greeter is paused").count(), 1, "{}", host.stderr());
}

/// Edits, a refused edit, the history and undos, with `kill -9` between the steps.
#[test]
fn a_folder_has_a_history_and_an_undo_that_survive_kill_9() {
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let greeter = std::fs::read(guest("greeter")).unwrap();
    let component = |tag: &str| std::fs::write(folder.path().join("greeter.wasm"), renamed(&greeter, tag)).unwrap();
    component("one");
    write(folder.path(), "greeter.yaml", &manifest(""));
    let mut host = HostProcess::start("run", folder.path(), scratch.path(), &[]);
    let restart = |host: HostProcess| {
        host.kill();
        HostProcess::start("run", folder.path(), scratch.path(), &[])
    };
    host.wait_for_stderr("controller/greeter added");
    assert_eq!(host.ask(&["rollout", "status", "greeter"]).code, Some(0));
    assert_eq!(history(&host), ["1 *"]);

    component("two");
    host.wait_for_stderr("controller/greeter swapped: generation 2");
    until(&host, "/status/lastSwap/why", &json!("its component changed"));
    write(folder.path(), "greeter.yaml", &manifest("  concurrency: 2\n"));
    host.wait_for_stderr("controller/greeter changed");
    until(&host, "/status/revision", &json!(3));
    until(&host, "/status/concurrency", &json!(2));
    assert_eq!(history(&host), ["1", "2", "3 *"]);
    let diff = host.ask(&["rollout", "diff", "greeter"]);
    assert_eq!(diff.stdout, "--- revision 2\n+++ revision 3\n+ concurrency: 2\n", "{}", diff.stderr);
    let other = host.ask(&["rollout", "diff", "greeter", "--from", "1", "--to", "2"]).stdout;
    assert!(other.contains("- component.digest: sha256:") && other.contains("+ component.digest: sha256:"), "{other}");

    assert_eq!(
        host.stderr().matches("controller/greeter added").count(),
        1,
        "each change is reported once: {}",
        host.stderr()
    );
    assert_eq!(host.stderr().matches("controller/greeter changed").count(), 1, "{}", host.stderr());
    host = restart(host);
    until(&host, "/status/concurrency", &json!(2));
    assert_eq!(history(&host), ["1", "2", "3 *"], "a restart makes no revision");

    let source =
        host.json(&["get", "controller", "greeter"])["metadata"]["annotations"]["homeostat.dev/source"].clone();
    std::fs::write(folder.path().join("greeter.wasm"), &greeter[..greeter.len() / 2]).unwrap();
    host.wait_for_stderr("controller/greeter refused, the running version keeps running");
    let status = host.ask(&["rollout", "status", "greeter"]);
    assert_eq!(status.code, Some(3), "{}", status.stderr);
    assert!(status.stderr.contains("cut off"), "{}", status.stderr);
    assert_eq!(history(&host), ["1", "2", "3 *"]);
    host = restart(host);
    until(&host, "/status/concurrency", &json!(2));
    assert_eq!(history(&host), ["1", "2", "3 *"], "one revision is current, and the history is intact");
    let undone = host.ask(&["rollout", "undo", "greeter"]);
    assert!(
        undone.stdout.ends_with("rolled back to revision 3\n"),
        "to the running revision: {} {}",
        undone.stdout,
        undone.stderr
    );
    assert_eq!(host.ask(&["rollout", "status", "greeter"]).code, Some(0));
    assert_eq!(history(&host), ["1", "2", "3 *"]);

    component("two");
    // The running version stays the same. Only the digest shows that the host has read the file.
    let digest = json!(Digest::of(&renamed(&greeter, "two")).as_str());
    until(&host, "/metadata/annotations/homeostat.dev~1source", &source);
    until(&host, "/status/wantedDigest", &digest);
    let undone = host.ask(&["rollout", "undo", "greeter", "--to-revision", "1"]);
    assert_eq!(undone.stdout, "controller.homeostat.dev/greeter rolled back to revision 1\n", "{}", undone.stderr);
    assert_eq!(host.ask(&["rollout", "status", "greeter"]).code, Some(0));
    assert_eq!(history(&host), ["2", "3", "4 *"], "the revision has moved to the top");
    until(&host, "/status/concurrency", &json!(4));
    host.kill();
    write(folder.path(), "other.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: other}\n");
    host = HostProcess::start("run", folder.path(), scratch.path(), &[]);
    // Resources are applied after controllers, so the folder's controllers have been applied.
    host.wait_for_stderr("namespace/other created");
    assert_eq!(host.ask(&["rollout", "status", "greeter"]).code, Some(0));
    until(&host, "/status/revision", &json!(4));
    until(&host, "/status/concurrency", &json!(4));

    component("three");
    until(&host, "/status/revision", &json!(5));
    until(&host, "/status/concurrency", &json!(2));

    host.kill();
    std::fs::remove_file(folder.path().join("greeter.yaml")).unwrap();
    let host = HostProcess::start("run", folder.path(), scratch.path(), &[]);
    host.wait_for_stderr("controller/greeter removed");
    let left = host.ask(&["get", "controllers", "-o", "name"]);
    assert_eq!(left.stdout, "", "a file that was removed while no host ran deletes its controller");
}

/// The diff of two revisions shows the watches, imports and exports of their components.
#[test]
fn a_diff_of_revisions_shows_what_their_components_describe() {
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let component = |name: &str| std::fs::copy(guest(name), folder.path().join("greeter.wasm")).unwrap();
    component("guest-mapped");
    write(folder.path(), "greeter.yaml", &manifest(""));
    let host = HostProcess::start("run", folder.path(), scratch.path(), &[]);
    until(&host, "/status/revision", &json!(1));
    component("guest-remapped");
    until(&host, "/status/revision", &json!(2));
    let told = host.ask(&["rollout", "diff", "greeter"]).stdout;
    for line in ["- code.describe.watches", "+ code.describe.watches", "+ code.describe.pollEvery", "+ code.exports"] {
        assert!(told.lines().any(|told| told.starts_with(line)), "{line}: {told}");
    }
}

/// An undo ends when the content of the file changes, even while no host runs. Writing the same content does
/// not end it. An undo does not change a suspension.
#[test]
fn an_undo_survives_a_build_with_the_same_bytes_and_ends_with_other_bytes() {
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let greeter = std::fs::read(guest("greeter")).unwrap();
    // Replaces the file as a build does, even with the same bytes.
    let component = |tag: &str| {
        std::fs::write(folder.path().join("built"), renamed(&greeter, tag)).unwrap();
        std::fs::rename(folder.path().join("built"), folder.path().join("greeter.wasm")).unwrap();
    };
    let digest = |tag: &str| json!(Digest::of(&renamed(&greeter, tag)).as_str());
    let mut others = 0;
    let mut start = || {
        others += 1;
        let name = format!("other-{others}");
        let namespace = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n");
        write(folder.path(), &format!("{name}.yaml"), &namespace);
        let host = HostProcess::start("dev", folder.path(), scratch.path(), &[]);
        // Resources are applied after controllers, so the folder's controllers have been applied.
        host.wait_for_stderr(&format!("namespace/{name} created"));
        host
    };
    component("one");
    write(folder.path(), "greeter.yaml", &manifest(""));
    let host = start();
    component("two");
    until(&host, "/status/revision", &json!(2));
    assert_eq!(host.ask(&["suspend", "greeter"]).code, Some(0));
    let undo = |host: &HostProcess, says: &str| {
        let undone = host.ask(&["rollout", "undo", "greeter"]);
        assert_eq!(
            undone.stdout,
            format!("controller.homeostat.dev/greeter rolled back to {says}\n"),
            "{}",
            undone.stderr
        );
    };
    undo(&host, "revision 1");
    host.kill();

    // The same bytes keep the undo, with and without a running host.
    component("two");
    let host = start();
    until(&host, "/status/revision", &json!(3));
    until(&host, "/status/digest", &digest("one"));
    let before = host.json(&["get", "controller", "greeter"])["metadata"]["resourceVersion"].clone();
    component("two");
    write(folder.path(), "last.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: last}\n");
    host.wait_for_stderr("namespace/last created");
    assert_eq!(host.json(&["get", "controller", "greeter"])["metadata"]["resourceVersion"], before);
    assert!(!host.stderr().contains("undo"), "no undo is over: {}", host.stderr());
    host.kill();

    // Other bytes end the undo while no host runs.
    component("three");
    let host = start();
    host.wait_for_stderr("controller/greeter follows its file again: the undo to revision 1 is over");
    until(&host, "/status/digest", &digest("three"));
    until(&host, "/status/state", &json!("suspended"));

    // Other bytes end the undo while a host runs.
    undo(&host, "revision 3");
    until(&host, "/status/digest", &digest("one"));
    component("four");
    host.wait_for_stderr("controller/greeter follows its file again: the undo to revision 3 is over");
    until(&host, "/status/digest", &digest("four"));
    component("five");
    until(&host, "/status/digest", &digest("five"));
    assert_eq!(host.stderr().matches("is over").count(), 2, "each end is reported once: {}", host.stderr());
    until(&host, "/status/state", &json!("suspended"));
}

#[test]
fn a_restart_without_changes_writes_nothing() {
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::copy(guest("greeter"), folder.path().join("greeter.wasm")).unwrap();
    write(folder.path(), "greeter.yaml", &manifest(""));
    let resource = |host: &HostProcess| host.json(&["get", "controller", "greeter"]);
    let is_ready = |resource: &Value| {
        let conditions = resource["status"]["conditions"].as_array().unwrap();
        conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    };
    let host = HostProcess::start("run", folder.path(), scratch.path(), &[]);
    host.wait_for_stderr("controller/greeter added");
    let before = eventually_built("the status to say so", || Some(resource(&host)).filter(is_ready));
    assert_eq!(host.terminate().code, Some(0));

    let host = HostProcess::start("run", folder.path(), scratch.path(), &[]);
    // The host writes the status before it prints this message.
    host.wait_for_stderr("controller/greeter added");
    host.until("controller", "greeter", "/status/state", &json!("ready"));
    assert_eq!(resource(&host)["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
}

/// A controller that the folder does not manage runs, and the folder leaves it alone.
#[test]
fn a_controller_applied_beside_the_folder_runs_and_stays() {
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::copy(guest("greeter"), folder.path().join("greeter.wasm")).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    write(elsewhere.path(), "greeter.yaml", &manifest(""));
    let file = elsewhere.path().join("greeter.yaml").display().to_string();
    let host = HostProcess::start("run", folder.path(), scratch.path(), &[]);
    for (source, field) in [("oci: not/A/reference", "oci"), ("file: ../greeter.wasm", "file")] {
        let wrong = manifest("").replace("file: greeter.wasm", source);
        write(elsewhere.path(), "wrong.yaml", &wrong);
        let applied = host.ask(&["apply", "-f", &elsewhere.path().join("wrong.yaml").display().to_string()]);
        assert!(applied.stderr.contains(&format!("spec.component.{field}")), "{} {}", applied.stdout, applied.stderr);
        assert_ne!(applied.code, Some(0), "an invalid manifest is not written");
        assert_eq!(host.ask(&["get", "controllers", "-o", "name"]).stdout, "");
    }
    let applied = host.ask(&["apply", "-f", &file]);
    assert_eq!(applied.stdout, "controller.homeostat.dev/greeter created\n", "{}", applied.stderr);
    assert_eq!(host.ask(&["rollout", "status", "greeter"]).code, Some(0));
    assert_eq!(host.ask(&["suspend", "greeter"]).code, Some(0));
    host.kill();
    let host = HostProcess::start("run", folder.path(), scratch.path(), &[]);
    until(&host, "/status/state", &json!("suspended"));
    assert_eq!(host.ask(&["resume", "greeter"]).code, Some(0));
    until(&host, "/status/state", &json!("ready"));

    assert_eq!(host.ask(&["rollout", "pause", "greeter"]).code, Some(0));
    write(elsewhere.path(), "greeter.yaml", &manifest("  concurrency: 2\n  paused: true\n"));
    assert_eq!(host.ask(&["apply", "-f", &file]).code, Some(0));
    until(&host, "/status/conditions/2/reason", &json!("Paused"));
    assert_eq!(
        host.json(&["get", "controller", "greeter"])["status"]["concurrency"],
        4,
        "a paused controller does not change"
    );
    let refused = host.ask(&["rollout", "undo", "greeter"]);
    assert!(refused.code == Some(1) && refused.stderr.contains("resume"), "{}", refused.stderr);
    assert_eq!(host.ask(&["rollout", "resume", "greeter"]).code, Some(0));
    until(&host, "/status/concurrency", &json!(2));

    assert_eq!(host.ask(&["rollout", "restart", "greeter"]).code, Some(0));
    until(&host, "/status/generation", &json!(2));
    assert_eq!(host.ask(&["delete", "controller", "greeter"]).code, Some(0));
    eventually_blocking("the controller to be gone", || {
        (host.ask(&["get", "controller", "greeter"]).code == Some(1)).then_some(())
    });
}

/// Replaces a controller by a document, as `kubectl replace` does, and returns the response.
fn replace(scratch: &Path, name: &str, document: &Value) -> String {
    let mut stream = UnixStream::connect(scratch.join("host.sock")).unwrap();
    stream.set_read_timeout(Some(BOUND)).unwrap();
    let (path, body) = (format!("/apis/homeostat.dev/v1alpha1/controllers/{name}"), document.to_string());
    let head = format!("PUT {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close");
    write!(stream, "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// A controller without the folder's label is no longer managed by the folder. A restart, an edit and the
/// removal of the file leave it alone, and the host reports each.
#[test]
fn a_controller_replaced_without_the_label_leaves_the_folders_management() {
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::copy(guest("greeter"), folder.path().join("greeter.wasm")).unwrap();
    write(folder.path(), "greeter.yaml", &manifest(""));
    let host = HostProcess::start("run", folder.path(), scratch.path(), &[]);
    until(&host, "/status/revision", &json!(1));
    let theirs = json!({
        "apiVersion": "homeostat.dev/v1alpha1", "kind": "Controller", "metadata": { "name": "greeter" },
        "spec": { "component": { "file": "greeter.wasm" }, "concurrency": 7, "grants": super::grants() },
    });
    let answer = replace(scratch.path(), "greeter", &theirs);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    until(&host, "/status/concurrency", &json!(7));
    host.kill();

    let host = HostProcess::start("run", folder.path(), scratch.path(), &[]);
    let refused = "greeter.yaml:3:18: controller/greeter refused, the running version keeps running";
    host.wait_for_stderr(refused);
    host.wait_for_stderr("no folder brought, as it lacks the label app.kubernetes.io/managed-by: homeostat-folder");
    eventually_blocking("the same as an event", || {
        let events = host.ask(&["events", "--controller", "greeter"]).stdout;
        (events.contains("Refused") && events.contains("no folder brought")).then_some(())
    });
    write(folder.path(), "greeter.yaml", &manifest("  concurrency: 2\n"));
    write(folder.path(), "other.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: other}\n");
    // Resources are applied after controllers, so the folder's controllers have been applied.
    host.wait_for_stderr("namespace/other created");
    std::fs::remove_file(folder.path().join("greeter.yaml")).unwrap();
    host.wait_for_stderr(
        "controller/greeter is no longer in the folder and stays in the store: it is not managed by the folder",
    );
    until(&host, "/status/concurrency", &json!(7));
    assert_eq!(
        host.json(&["get", "controller", "greeter"])["status"]["revision"],
        2,
        "the folder changed the controller"
    );

    // After its deletion, the controller of the folder takes the name.
    write(folder.path(), "greeter.yaml", &manifest("  concurrency: 3\n"));
    eventually_blocking("a second report", || (host.stderr().matches(refused).count() == 2).then_some(()));
    assert_eq!(host.ask(&["delete", "controller", "greeter"]).code, Some(0));
    until(&host, "/status/concurrency", &json!(3));
}
