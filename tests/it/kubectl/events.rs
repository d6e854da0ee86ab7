//! Events of a guest in a host with the built-in kinds, where they are resources.

use std::path::Path;
use std::process::Command;

use homeostat_testing::eventually_blocking;
use homeostat_tests::{HostProcess, guest, kubectl, repository};
use tempfile::TempDir;

/// Runs `kubectl`, which has to succeed.
fn done(kubeconfig: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(kubectl());
    command.arg("--kubeconfig").arg(kubeconfig).args(arguments).env_clear().env("HOME", kubeconfig.parent().unwrap());
    let output = command.output().unwrap();
    assert!(output.status.success(), "kubectl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// kubectl describes a resource with the events of its guest. A client that watches gets them, and they outlive a kill of the
/// host. Any namespace will do where the host is told so.
#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn events_of_a_guest_are_described_and_outlive_a_kill_of_the_host() {
    let (folder, scratch) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    std::fs::copy(guest("uptime"), folder.path().join("uptime.wasm")).unwrap();
    std::fs::copy(repository().join("examples/uptime/controllers.yaml"), folder.path().join("uptime.yaml")).unwrap();
    // Nothing listens on this port.
    let monitor = "apiVersion: demo.homeostat.dev/v1\nkind: Monitor\nmetadata: {name: site, namespace: nowhere}\n\
                   spec: {url: \"http://127.0.0.1:1/\", every: 1h, timeout: 5s}\n";
    std::fs::write(folder.path().join("site.yaml"), monitor).unwrap();
    let any = ["--namespaces", "any"];
    let host = HostProcess::start_on_port("http", folder.path(), scratch.path(), &any, &[]);
    let config = host.kubeconfig(scratch.path());
    let events = ["get", "events", "-n", "nowhere", "--field-selector", "reason=Down", "--no-headers"];
    let listed = eventually_blocking("the event", || Some(done(&config, &events)).filter(|listed| !listed.is_empty()));
    assert!(listed.contains("monitor/site") && listed.contains("http://127.0.0.1:1/ is down"), "{listed}");
    let described = done(&config, &["describe", "monitor", "site", "-n", "nowhere"]);
    assert!(described.contains("Warning  Down") && described.contains("is down"), "{described}");
    let watched = done(&config, &["get", "events", "-n", "nowhere", "-w", "--request-timeout=1s", "-o", "name"]);
    let name = watched.lines().next().expect("a watch begins with what there is");
    let uid = |config: &Path| done(config, &["get", name, "-n", "nowhere", "-o", "jsonpath={.metadata.uid}"]);
    let before = uid(&config);

    host.kill();
    let host = HostProcess::start_on_port("http", folder.path(), scratch.path(), &any, &[]);
    assert_eq!(uid(&host.kubeconfig(scratch.path())), before);
}
