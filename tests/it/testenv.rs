//! `homeostat testenv`: a host for the tests of operators.

#[expect(unreachable_pub, reason = "people copy the file into crates of their own")]
#[path = "../../examples/testenv/rust/testenv.rs"]
mod package;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use homeostat_tests::{ask_plain, homeostat, python, repository, test_go_environment};
use serde_json::{Value, json};
use tempfile::TempDir;

use package::TestEnvironment;

/// Writes the definition of sites to a folder.
fn define_sites(folder: &Path) {
    define(folder, "sites", "Site");
}

/// Writes the definition of a kind of `example.com` to a folder.
fn define(folder: &Path, plural: &str, kind: &str) {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.example.com") },
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": { "plural": plural, "kind": kind },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
            }],
        },
    });
    std::fs::write(folder.join(format!("{plural}.json")), definition.to_string()).unwrap();
}

/// Returns the port in a kubeconfig.
fn port(kubeconfig: &str) -> u16 {
    let kubeconfig: Value = serde_json::from_str(kubeconfig).unwrap();
    let server = kubeconfig.pointer("/clusters/0/cluster/server").and_then(Value::as_str).unwrap();
    server.rsplit_once(':').unwrap().1.parse().unwrap()
}

/// Creates a site on the host at a port, and reads its pods.
fn use_host(port: u16) {
    let site = json!({ "apiVersion": "example.com/v1", "kind": "Site", "metadata": { "name": "a" } });
    let made = ask_plain(port, "POST", "/apis/example.com/v1/namespaces/default/sites", Some(&site)).unwrap();
    assert_eq!(made.status, 201, "{made:?}");
    let pods = ask_plain(port, "GET", "/api/v1/pods", None).unwrap();
    assert_eq!((pods.status, &pods.json()["items"]), (200, &json!([])));
}

#[test]
fn a_test_environment_serves_built_in_kinds_and_manifests_and_ends_with_its_parent() {
    let folder = TempDir::new().unwrap();
    define_sites(folder.path());
    let mut command = Command::new(homeostat());
    command.args(["testenv", "--stdin"]).arg(folder.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut host = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(host.stdout.take().unwrap()).read_line(&mut line).unwrap();
    use_host(port(&line));
    drop(host.stdin.take());
    assert!(host.wait().unwrap().success());
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn the_package_for_go_starts_hosts_for_tests() {
    test_go_environment(&homeostat());
}

#[test]
fn the_file_for_rust_starts_hosts_that_forget_everything() {
    let folder = TempDir::new().unwrap();
    define_sites(folder.path());
    for _ in 0..2 {
        let environment = TestEnvironment::start(homeostat(), &[folder.path()]).unwrap();
        let port = port(environment.kubeconfig());
        use_host(port);
        drop(environment);
        assert!(ask_plain(port, "GET", "/api/v1/pods", None).is_none(), "the host has ended");
    }
    let refused = TestEnvironment::start(homeostat(), &[folder.path(), Path::new("/nothing/here")]);
    assert!(refused.is_err_and(|error| error.to_string().contains("has ended")));
}

#[test]
fn a_test_environment_takes_several_folders() {
    let (sites, plans) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    define_sites(sites.path());
    define(plans.path(), "plans", "Plan");
    let environment = TestEnvironment::start(homeostat(), &[sites.path(), plans.path()]).unwrap();
    let port = port(environment.kubeconfig());
    for plural in ["sites", "plans"] {
        let listed = ask_plain(port, "GET", &format!("/apis/example.com/v1/{plural}"), None).unwrap();
        assert_eq!(listed.status, 200, "{plural}: {listed:?}");
    }
}

#[test]
#[cfg_attr(missing_python, ignore = "Python 3.10 or newer with venv is not on PATH: https://www.python.org/downloads")]
fn the_file_for_python_starts_hosts_that_forget_everything() {
    let folder = TempDir::new().unwrap();
    define_sites(folder.path());
    let mut command = Command::new(python());
    command.arg(repository().join("tests/tools/python/testenv_use.py")).arg(homeostat()).arg(folder.path());
    command.env("PYTHONPATH", repository().join("examples/testenv/python")).stdin(Stdio::null());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && output.stdout == b"done\n", "{said}");
}
