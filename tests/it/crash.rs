//! Rollouts of a deployment that are interrupted by `kill -9`, or by a change of a guest's source.

use std::path::Path;

use homeostat_testing::{eventually_blocking, eventually_built};
use homeostat_tests::{HostProcess, copy_of_sources, guest, repository};
use serde_json::{Value, json};

/// Writes the three controllers and a deployment of five pods, which take this long to start.
fn apps(folder: &Path, startup: &str) {
    for name in ["deployments", "replicasets", "kubelet"] {
        std::fs::copy(guest(name), folder.join(format!("{name}.wasm"))).unwrap();
    }
    let controllers = std::fs::read_to_string(repository().join("examples/apps/controllers.yaml")).unwrap();
    std::fs::write(
        folder.join("controllers.yaml"),
        controllers.replace("startup: 300ms", &format!("startup: {startup}")),
    )
    .unwrap();
    std::fs::copy(repository().join("examples/apps/web.yaml"), folder.join("web.yaml")).unwrap();
}

fn set_image(folder: &Path, image: &str) {
    let text = std::fs::read_to_string(repository().join("examples/apps/web.yaml")).unwrap();
    std::fs::write(folder.join("web.yaml"), text.replace("image: web:1", &format!("image: {image}"))).unwrap();
}

/// Returns all pods. None while the host does not know their kind.
fn pods(host: &HostProcess) -> Vec<Value> {
    let output = host.ask(&["get", "pods", "-o", "json"]);
    let list: Value = serde_json::from_str(&output.stdout).unwrap_or_default();
    list["items"].as_array().cloned().unwrap_or_default()
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// Returns whether there are five pods, all ready, all of this image.
fn is_rolled_out(host: &HostProcess, image: &str) -> bool {
    let pods = pods(host);
    let done = |pod: &Value| is_ready(pod) && pod["spec"]["containers"][0]["image"] == image;
    pods.len() == 5 && pods.iter().all(done)
}

fn wait_for_rollout(host: &HostProcess, image: &str) {
    eventually_blocking(&format!("five pods of {image}"), || is_rolled_out(host, image).then_some(()));
}

/// Waits for the first pod of the new image.
fn wait_for_first_pod(host: &HostProcess, image: &str) {
    eventually_blocking("the rollout to be under way", || {
        pods(host).iter().any(|pod| pod["spec"]["containers"][0]["image"] == image).then_some(())
    });
}

#[test]
fn a_rollout_survives_kill_9_and_ends_with_the_desired_pods() {
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // The pods start slowly, so that the kill interrupts the rollout.
    apps(folder.path(), "1s");
    let mut host = HostProcess::start("run", folder.path(), scratch.path(), &[]);
    wait_for_rollout(&host, "web:1");
    for round in 2..5 {
        let image = format!("web:{round}");
        set_image(folder.path(), &image);
        wait_for_first_pod(&host, &image);
        assert!(!is_rolled_out(&host, &image), "the rollout was complete before the kill");
        host.kill();
        host = HostProcess::start("run", folder.path(), scratch.path(), &[]);
        wait_for_rollout(&host, &image);
    }
    let sets = host.json(&["get", "replicasets"]);
    let wanted: u64 =
        sets["items"].as_array().unwrap().iter().map(|set| set["spec"]["replicas"].as_u64().unwrap()).sum();
    assert_eq!(wanted, 5, "{sets}");
}

#[test]
fn an_edit_of_a_source_during_a_rollout_is_swapped_in_and_loses_no_pod() {
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let names = ["deployments", "replicasets", "kubelet"].map(|name| format!("examples/apps/{name}"));
    let apps = copy_of_sources(&names.each_ref().map(String::as_str), folder.path());
    for file in ["controllers.yaml", "web.yaml"] {
        std::fs::copy(repository().join("examples/apps").join(file), apps.join(file)).unwrap();
    }
    let host = HostProcess::start("dev", &apps, scratch.path(), &[]);
    eventually_built("the guests", || is_rolled_out(&host, "web:1").then_some(()));
    assert_eq!(host.json(&["get", "controllers", "replicasets"])["status"]["generation"], 1);

    // The pods start slowly, so that the swap happens during the rollout.
    let controllers = std::fs::read_to_string(apps.join("controllers.yaml")).unwrap();
    std::fs::write(apps.join("controllers.yaml"), controllers.replace("startup: 300ms", "startup: 3s")).unwrap();
    let text = std::fs::read_to_string(apps.join("web.yaml")).unwrap();
    std::fs::write(apps.join("web.yaml"), text.replace("image: web:1", "image: web:2")).unwrap();
    wait_for_first_pod(&host, "web:2");
    let source = apps.join("replicasets/src/lib.rs");
    let code = std::fs::read_to_string(&source).unwrap();
    let edited = code.replacen(
        "fn reconcile(key: Key) -> Result<Outcome, Failure> {",
        "fn reconcile(key: Key) -> Result<Outcome, Failure> {\n        info!(\"edited\");",
        1,
    );
    assert_ne!(edited, code, "the source has no reconcile to edit");
    std::fs::write(&source, edited).unwrap();
    eventually_built("the swap", || {
        let status = &host.json(&["get", "controllers", "replicasets"])["status"];
        (status["generation"] == 2 && status["answered"]["digest"] == status["digest"]).then_some(())
    });
    wait_for_rollout(&host, "web:2");
    let logged = host.ask(&["logs", "replicasets"]).stdout;
    assert!(logged.contains("edited"), "the new code runs: {logged}");

    // A source that does not compile is reported, and the running version keeps running.
    std::fs::write(&source, "this is no Rust").unwrap();
    host.wait_for_stderr("error");
    assert_eq!(host.json(&["get", "controllers", "replicasets"])["status"]["generation"], json!(2));
}
