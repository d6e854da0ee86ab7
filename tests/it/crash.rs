//! A rollout that is interrupted: by `kill -9`, and by a change of a guest's source.

use std::path::{Path, PathBuf};

use homeostat_tests::{Running, eventually_blocking, guest, repository};
use serde_json::{Value, json};

/// The three controllers and one deployment, with these many pods that take this long to start.
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

/// The pods that there are; none as long as the host does not know the kind.
fn pods(host: &Running) -> Vec<Value> {
    let output = host.ask(&["get", "pods", "-o", "json"]);
    let list: Value = serde_json::from_str(&output.stdout).unwrap_or_default();
    list["items"].as_array().cloned().unwrap_or_default()
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// Waits until there are five pods, all ready, all of this image.
fn rolled_out(host: &Running, image: &str) {
    eventually_blocking(&format!("five pods of {image}"), || {
        let pods = pods(host);
        let done = |pod: &Value| is_ready(pod) && pod["spec"]["containers"][0]["image"] == image;
        (pods.len() == 5 && pods.iter().all(done)).then_some(())
    });
}

/// Waits until some pods of the new image are there.
fn under_way(host: &Running, image: &str) {
    eventually_blocking("the rollout to be under way", || {
        pods(host).iter().any(|pod| pod["spec"]["containers"][0]["image"] == image).then_some(())
    });
}

#[test]
fn a_rollout_survives_kill_9_and_ends_with_the_pods_it_should_have() {
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    apps(folder.path(), "300ms");
    let mut host = Running::start("run", folder.path(), scratch.path(), &[]);
    rolled_out(&host, "web:1");
    for round in 2..5 {
        let image = format!("web:{round}");
        set_image(folder.path(), &image);
        under_way(&host, &image);
        host.kill();
        host = Running::start("run", folder.path(), scratch.path(), &[]);
        rolled_out(&host, &image);
    }
    let sets = host.json(&["get", "replicasets"]);
    let wanted: u64 =
        sets["items"].as_array().unwrap().iter().map(|set| set["spec"]["replicas"].as_u64().unwrap()).sum();
    assert_eq!(wanted, 5, "{sets}");
}

/// A copy of the sources of `examples/apps` that builds by itself, apart from this workspace.
fn sources(into: &Path) -> PathBuf {
    let apps = into.join("apps");
    for name in ["deployments", "replicasets", "kubelet"] {
        copy(&repository().join("examples/apps").join(name), &apps.join(name));
    }
    for file in ["controllers.yaml", "web.yaml"] {
        std::fs::copy(repository().join("examples/apps").join(file), apps.join(file)).unwrap();
    }
    copy(&repository().join("guest-sdk"), &into.join("guest-sdk"));
    copy(&repository().join("wit"), &into.join("wit"));
    std::fs::copy(repository().join("Cargo.lock"), into.join("Cargo.lock")).unwrap();
    std::fs::copy(repository().join("rust-toolchain.toml"), into.join("rust-toolchain.toml")).unwrap();
    let manifest = std::fs::read_to_string(repository().join("Cargo.toml")).unwrap();
    let (start, end) = (manifest.find("members = [").unwrap(), manifest.find("[workspace.package]").unwrap());
    let members = "members = [\"guest-sdk\", \"apps/*\"]\n\n";
    std::fs::write(into.join("Cargo.toml"), [&manifest[..start], members, &manifest[end..]].concat()).unwrap();
    apps
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).unwrap();
        }
    }
}

#[test]
fn a_source_that_is_edited_during_a_rollout_is_built_and_swapped_and_no_pod_is_lost() {
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let apps = sources(folder.path());
    let host = Running::start("dev", &apps, scratch.path(), &[]);
    rolled_out(&host, "web:1");
    assert_eq!(host.json(&["get", "controllers", "replicasets"])["status"]["generation"], 1);

    // Slow pods, so that the swap comes in the middle.
    let controllers = std::fs::read_to_string(apps.join("controllers.yaml")).unwrap();
    std::fs::write(apps.join("controllers.yaml"), controllers.replace("startup: 300ms", "startup: 3s")).unwrap();
    let text = std::fs::read_to_string(apps.join("web.yaml")).unwrap();
    std::fs::write(apps.join("web.yaml"), text.replace("image: web:1", "image: web:2")).unwrap();
    under_way(&host, "web:2");
    let source = apps.join("replicasets/src/lib.rs");
    let code = std::fs::read_to_string(&source).unwrap();
    let edited = code.replacen(
        "fn reconcile(key: Key) -> Result<Outcome, Failure> {",
        "fn reconcile(key: Key) -> Result<Outcome, Failure> {\n        info!(\"edited\");",
        1,
    );
    assert_ne!(edited, code, "the source has no reconcile to edit");
    std::fs::write(&source, edited).unwrap();
    eventually_blocking("the swap", || {
        let status = &host.json(&["get", "controllers", "replicasets"])["status"];
        (status["generation"] == 2 && status["answeredBy"] == status["digest"]).then_some(())
    });
    rolled_out(&host, "web:2");
    let logged = host.ask(&["logs", "replicasets"]).stdout;
    assert!(logged.contains("edited"), "the new code runs: {logged}");

    // A source that does not compile is told, and the old one goes on.
    std::fs::write(&source, "this is no Rust").unwrap();
    host.until_said("error");
    assert_eq!(host.json(&["get", "controllers", "replicasets"])["status"]["generation"], json!(2));
}
