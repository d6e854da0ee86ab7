//! Kubernetes' own end-to-end tests against a host, with kube-controller-manager, kube-scheduler and a guest as the node of
//! its pods: those of the API, of built-in kinds, of controllers and of the scheduler that need no containers.

use std::process::{Command, Output};

use homeostat_tests::{Authority, end_to_end_tests, kube_controller_manager, kube_scheduler};

use crate::operators::{OperatorProcess, Place};

/// The names of the tests, in groups that run at the same time.
const GROUPS: [&str; 6] = [
    include_str!("end_to_end/definitions.txt"),
    include_str!("end_to_end/kinds.txt"),
    include_str!("end_to_end/machinery.txt"),
    include_str!("end_to_end/objects.txt"),
    include_str!("end_to_end/quotas.txt"),
    include_str!("end_to_end/workloads.txt"),
];

/// The names of the tests that need the nodes for themselves.
const NODES: &str = include_str!("end_to_end/nodes.txt");

/// Lines of the output that tell why a test failed.
const REASON_LINES: usize = 4;

/// Why tests failed. It is written when a failed test ends, after what the host and the controllers said, which is long.
struct Reasons(String);

impl Drop for Reasons {
    #[expect(clippy::print_stderr, reason = "the harness shows it with the test that failed")]
    fn drop(&mut self) {
        eprint!("{}", self.0);
    }
}

/// A host with nodes, and Kubernetes' own controllers and scheduler.
struct ControlPlane {
    place: Place,
    _programs: [OperatorProcess; 2],
}

impl ControlPlane {
    fn start() -> Self {
        let place = Place::with_kubelet();
        let kubeconfig = place.kubeconfig().display().to_string();
        let certificate = place.kubeconfig().with_file_name("ca.crt");
        std::fs::write(&certificate, Authority::new().pem()).unwrap();
        let certificate = format!("--root-ca-file={}", certificate.display());
        // A test waits until the controller has counted all quotas again, which takes five minutes by default.
        let period = "--resource-quota-sync-period=10s";
        // The nodes tell only once that they are ready.
        let grace = "--node-monitor-grace-period=1h";
        let common = ["--kubeconfig", &kubeconfig, "--secure-port=0", "--leader-elect=false"];
        let controllers = [&common[..], &[&certificate, period, grace]].concat();
        let programs = [place.spawn(&kube_controller_manager(), &controllers), place.spawn(&kube_scheduler(), &common)];
        place.until(&["get", "configmaps", "-o", "name"], "configmap/kube-root-ca.crt");
        for name in ["one", "two"] {
            place.make_node(name);
        }
        Self { place, _programs: programs }
    }
}

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

/// Returns why tests with these names failed; an empty text if all passed.
fn failures(output: &Output, names: &str) -> String {
    let said = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = said.lines().collect();
    let reasons = lines.windows(REASON_LINES).filter(|lines| lines[0].trim_start().starts_with("[FAILED]"));
    let reasons: String = reasons.map(|lines| lines.join("\n") + "\n").collect();
    let summary = said.find("Summarizing").map_or(&*said, |at| &said[at..]);
    match (output.status.success(), count(output) == Some(names.lines().count())) {
        (true, true) => String::new(),
        (true, false) => format!("not all tests ran:\n{said}\n"),
        (false, _) => format!("{reasons}{summary}\n"),
    }
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn kubernetes_own_tests_that_need_no_containers_pass() {
    let mut reasons = Reasons(String::new());
    let control_plane = ControlPlane::start();
    let running = GROUPS.map(|names| {
        let mut command = command(&control_plane.place, names);
        (names, std::thread::spawn(move || command.output().unwrap()))
    });
    for (names, running) in running {
        reasons.0 += &failures(&running.join().unwrap(), names);
    }
    assert!(reasons.0.is_empty(), "some failed");
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn kubernetes_own_tests_of_nodes_and_their_scheduler_pass() {
    let mut reasons = Reasons(String::new());
    let control_plane = ControlPlane::start();
    reasons.0 = failures(&command(&control_plane.place, NODES).output().unwrap(), NODES);
    assert!(reasons.0.is_empty(), "some failed");
}
