//! Kubernetes' own end-to-end tests against a host, with kube-controller-manager, kube-scheduler and a guest as the node of
//! its pods: those of the API, of built-in kinds, of controllers and of the scheduler that need no containers. The controllers and
//! the scheduler do not elect a leader, and nodes never count as silent.

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

/// The names of the tests that need the nodes of a host for themselves, and of one that waits until all quotas are counted
/// again.
const NODES: [&str; 2] = [include_str!("end_to_end/nodes.txt"), include_str!("end_to_end/recounts.txt")];

/// The names of the tests that need the scheduler of a host for themselves.
const SCHEDULER: [&str; 1] = [include_str!("end_to_end/scheduler.txt")];

/// Kubernetes' own period of counting all quotas again. A count that comes between a charge and the news of the resource
/// that is charged undoes the charge until the next count, so that tests of charges need a long period.
const COUNTED_SELDOM: &str = "--resource-quota-sync-period=5m";
const COUNTED_OFTEN: &str = "--resource-quota-sync-period=10s";

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
    fn start(count_period: &str) -> Self {
        let place = Place::with_kubelet(false);
        let kubeconfig = place.kubeconfig().display().to_string();
        let certificate = place.kubeconfig().with_file_name("ca.crt");
        std::fs::write(&certificate, Authority::new().pem()).unwrap();
        let certificate = format!("--root-ca-file={}", certificate.display());
        // The nodes tell only once that they are ready.
        let grace = "--node-monitor-grace-period=1h";
        let common = ["--kubeconfig", &kubeconfig, "--secure-port=0", "--leader-elect=false"];
        let controllers = [&common[..], &[&certificate, count_period, grace]].concat();
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

/// Runs the groups of tests of each host at the same time. A host comes with the period in which its quotas are counted.
fn assert_pass<const N: usize>(hosts: [(&'static [&'static str], &'static str); N]) {
    let mut reasons = Reasons(String::new());
    let run = |names: &&'static str, place: &Place| {
        let (names, mut command) = (*names, command(place, names));
        (names, std::thread::spawn(move || command.output().unwrap()))
    };
    let on_host = move |(groups, count_period): (&[&'static str], &str)| {
        let control_plane = ControlPlane::start(count_period);
        let running: Vec<_> = groups.iter().map(|names| run(names, &control_plane.place)).collect();
        let outputs = running.into_iter().map(|(names, running)| failures(&running.join().unwrap(), names));
        (outputs.collect::<String>(), control_plane)
    };
    let hosts = hosts.map(|host| std::thread::spawn(move || on_host(host))).map(|host| host.join().unwrap());
    hosts.iter().for_each(|(failures, _)| reasons.0 += failures);
    assert!(reasons.0.is_empty(), "some failed");
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn kubernetes_own_tests_that_need_no_containers_pass() {
    assert_pass([(&GROUPS, COUNTED_SELDOM)]);
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn kubernetes_own_tests_of_nodes_and_their_scheduler_pass() {
    assert_pass([(&NODES, COUNTED_OFTEN), (&SCHEDULER, COUNTED_SELDOM)]);
}
