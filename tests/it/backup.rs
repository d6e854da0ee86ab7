//! Recovery from a lost disk by the commands: back up the store of a running host, check the file, restore a
//! store from it.

use std::path::Path;

use homeostat_component::Digest;
use homeostat_testing::eventually_built;
use homeostat_tests::{HostProcess, guest, run};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::registry::until_runs;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

const NAMESPACE: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: NAME}\n";

fn apply(host: &HostProcess, folder: &Path, name: &str) {
    let file = folder.join(format!("{name}.yaml.txt"));
    std::fs::write(&file, NAMESPACE.replace("NAME", name)).unwrap();
    let applied = host.ask(&["apply", "-f", text(&file)]);
    assert_eq!(applied.code, Some(0), "{applied:?}");
}

/// S10: A restored backup has every resource that was acknowledged before it, and no later one.
#[test]
fn a_running_host_is_backed_up_and_restored_elsewhere() {
    let scratch = TempDir::new().unwrap();
    let (folder, saved) = (scratch.path().join("manifests"), scratch.path().join("saved.backup"));
    std::fs::create_dir(&folder).unwrap();
    let first = scratch.path().join("first");
    std::fs::create_dir(&first).unwrap();
    let host = HostProcess::start("run", &folder, &first, &["--host-name", "one"]);
    host.until("hosts", "one", "/status/state", &json!("Active"));
    apply(&host, scratch.path(), "before");
    let made = host.ask(&["backup", text(&saved)]);
    assert_eq!(made.code, Some(0), "{made:?}");
    apply(&host, scratch.path(), "after");
    let again = host.ask(&["backup", text(&saved)]);
    assert_eq!(again.code, Some(1), "a backup replaces no file: {again:?}");
    host.kill();

    let checked = run(&["fsck", text(&saved)]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    // Five namespaces, two priority classes and the range of services, all but one of which always exist, and the host.
    assert!(checked.stdout.contains("9 resources"), "{checked:?}");
    let second = scratch.path().join("second");
    std::fs::create_dir(&second).unwrap();
    let store = second.join("data/store.redb");
    let restored = run(&["restore", text(&saved), text(&store)]);
    assert_eq!(restored.code, Some(0), "{restored:?}");
    let refused = run(&["restore", text(&saved), text(&store)]);
    assert!(refused.code == Some(1) && refused.stderr.contains("--overwrite replaces it"), "{refused:?}");
    let replaced = run(&["restore", text(&saved), text(&store), "--overwrite"]);
    assert_eq!(replaced.code, Some(0), "{replaced:?}");
    let host = HostProcess::start("run", &folder, &second, &["--host-name", "two"]);
    let found = host.json(&["get", "namespaces"]);
    let names: Vec<&str> =
        found["items"].as_array().unwrap().iter().filter_map(|item| item["metadata"]["name"].as_str()).collect();
    assert_eq!(names, ["before", "default", "kube-node-lease", "kube-public", "kube-system"]);
    // The host that the backup shows is another one.
    host.until("hosts", "two", "/status/isThis", &json!(true));
    host.until("hosts", "one", "/status/state", &json!("Gone"));
}

#[test]
fn a_file_that_is_not_a_store_is_refused_with_the_reason() {
    let scratch = TempDir::new().unwrap();
    let file = scratch.path().join("store.redb");
    std::fs::write(&file, "what is this").unwrap();
    for arguments in [vec!["fsck", text(&file)], vec!["restore", text(&file), text(&scratch.path().join("new.redb"))]] {
        let refused = run(&arguments);
        assert!(refused.code != Some(0) && refused.stderr.contains("damaged or not a store"), "{refused:?}");
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"what is this");
    assert!(!scratch.path().join("new.redb").exists());
}

#[test]
fn restore_reports_missing_code_and_controllers_run_once_it_is_copied() {
    let scratch = TempDir::new().unwrap();
    let path = |name: &str| {
        let folder = scratch.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        folder
    };
    let (folder, first, second, empty) = (path("served"), path("first"), path("second"), path("empty"));
    let saved = scratch.path().join("saved.backup");
    std::fs::copy(guest("greeter"), folder.join("greeter.wasm")).unwrap();
    let digest = Digest::of(&std::fs::read(guest("greeter")).unwrap()).to_string();
    let controller = |file: &Path, component: &Value| {
        let told = json!({ "kinds": ["demo.homeostat.dev/Greeting"], "verbs": ["watch"] });
        let spec = json!({ "component": component, "grants": { "resources": [told] } });
        let metadata = json!({ "name": "greeter" });
        let document =
            json!({ "apiVersion": "homeostat.dev/v1alpha1", "kind": "Controller", "metadata": metadata, "spec": spec });
        std::fs::write(file, document.to_string()).unwrap();
    };
    controller(&scratch.path().join("greeter.json"), &json!({ "file": "greeter.wasm" }));
    let host = HostProcess::start("run", &folder, &first, &[]);
    let applied = host.ask(&["apply", "-f", text(&scratch.path().join("greeter.json"))]);
    assert_eq!(applied.code, Some(0), "{applied:?}");
    until_runs(&host, &digest);
    assert_eq!(host.ask(&["backup", text(&saved)]).code, Some(0));
    host.kill();

    let data = second.join("data");
    let store = data.join("store.redb");
    let restored = run(&["restore", text(&saved), text(&store)]);
    assert_eq!(restored.code, Some(0), "{restored:?}");
    for part in [digest.as_str(), "greeter-1", "greeter.wasm in the served folder", "data/components"] {
        assert!(restored.stderr.contains(part), "{part}: {}", restored.stderr);
    }
    let host = HostProcess::start("run", &empty, &second, &[]);
    eventually_built("the controller to report its missing code", || {
        host.ask(&["describe", "controller", "greeter"]).stdout.contains("greeter.wasm cannot be read").then_some(())
    });
    host.kill();

    // Puts the code where the message says.
    let code = format!("sha256-{}.wasm", digest.trim_start_matches("sha256:"));
    std::fs::create_dir_all(data.join("components")).unwrap();
    std::fs::copy(first.join("data/components").join(&code), data.join("components").join(&code)).unwrap();
    let again = run(&["restore", "--overwrite", text(&saved), text(&store)]);
    assert_eq!((again.code, again.stderr.as_str()), (Some(0), ""), "nothing is missing");
    let host = HostProcess::start("run", &empty, &second, &[]);
    until_runs(&host, &digest);
}
