//! Kubernetes' own end-to-end tests against a host, with kube-controller-manager and a guest as the node of its pods: those
//! of the API, of built-in kinds and of controllers that need no real nodes.

use std::process::{Command, Output};

use homeostat_tests::{Authority, end_to_end_tests, kube_controller_manager};

use crate::operators::Place;

/// The names of the tests, in groups that run at the same time.
const GROUPS: [&str; 5] = [
    include_str!("end_to_end/definitions.txt"),
    include_str!("end_to_end/kinds.txt"),
    include_str!("end_to_end/machinery.txt"),
    include_str!("end_to_end/objects.txt"),
    include_str!("end_to_end/quotas.txt"),
];

/// Returns the command that runs the tests with these names, one after the other.
fn command(place: &Place, names: &str) -> Command {
    let focus = names.lines().map(escaped).collect::<Vec<_>>().join("|");
    let kubeconfig = place.kubeconfig().display().to_string();
    let arguments =
        ["--kubeconfig", &kubeconfig, "--provider", "skeleton", "--ginkgo.no-color", "--ginkgo.focus", &focus];
    place.command(&end_to_end_tests(), &arguments)
}

/// Returns a regular expression that finds a text.
fn escaped(text: &str) -> String {
    text.chars().flat_map(|c| (!c.is_alphanumeric() && c != ' ').then_some('\\').into_iter().chain([c])).collect()
}

/// Returns how many tests ran.
fn count(output: &Output) -> Option<usize> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().find_map(|line| line.strip_prefix("Ran ")?.split(' ').next()?.parse().ok())
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn kubernetes_own_tests_that_need_no_real_nodes_pass() {
    let place = Place::with_kubelet();
    let kubeconfig = place.kubeconfig().display().to_string();
    let certificate = place.kubeconfig().with_file_name("ca.crt");
    std::fs::write(&certificate, Authority::new().pem()).unwrap();
    let certificate = format!("--root-ca-file={}", certificate.display());
    // A test waits until the controller has counted all quotas again, which takes five minutes by default.
    let period = "--resource-quota-sync-period=10s";
    let arguments = ["--kubeconfig", &kubeconfig, "--secure-port=0", "--leader-elect=false", &certificate, period];
    let _controllers = place.spawn(&kube_controller_manager(), &arguments);
    place.until(&["get", "configmaps", "-o", "name"], "configmap/kube-root-ca.crt");
    let running = GROUPS.map(|names| {
        let mut command = command(&place, names);
        (names, std::thread::spawn(move || command.output().unwrap()))
    });
    for (names, running) in running {
        let output = running.join().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let failures = said.find("Summarizing").map_or(&*said, |at| &said[at..]);
        assert!(output.status.success(), "{failures}");
        assert_eq!(count(&output), Some(names.lines().count()), "{said}");
    }
}
