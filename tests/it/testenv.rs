//! `homeostat testenv`: a host for the tests of operators.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use homeostat_tests::{ask_plain, go_test, homeostat};
use serde_json::{Value, json};
use tempfile::TempDir;

#[test]
fn a_test_environment_serves_built_in_kinds_and_manifests_and_ends_with_its_parent() {
    let folder = TempDir::new().unwrap();
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "sites.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": { "plural": "sites", "kind": "Site" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
            }],
        },
    });
    std::fs::write(folder.path().join("sites.json"), definition.to_string()).unwrap();
    let mut command = Command::new(homeostat());
    command.args(["testenv", "--stdin"]).arg(folder.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut host = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(host.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let kubeconfig: Value = serde_json::from_str(&line).unwrap();
    let server = kubeconfig.pointer("/clusters/0/cluster/server").and_then(Value::as_str).unwrap();
    let port = server.rsplit_once(':').unwrap().1.parse().unwrap();
    let site = json!({ "apiVersion": "example.com/v1", "kind": "Site", "metadata": { "name": "a" } });
    let made = ask_plain(port, "POST", "/apis/example.com/v1/namespaces/default/sites", Some(&site)).unwrap();
    assert_eq!(made.status, 201, "{made:?}");
    let pods = ask_plain(port, "GET", "/api/v1/pods", None).unwrap();
    assert_eq!((pods.status, &pods.json()["items"]), (200, &json!([])));
    drop(host.stdin.take());
    assert!(host.wait().unwrap().success());
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn the_package_for_go_starts_hosts_for_tests() {
    go_test("examples/testenv/go", &homeostat());
}
