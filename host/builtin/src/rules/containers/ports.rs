//! The ports of containers.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Pod;
use crate::rules::report::{Report, items, text};

/// Checks the ports of a container.
pub(super) fn check(report: &mut Report<'_>, ports: &Value, path: &str) {
    let mut names = BTreeSet::new();
    for (at, port) in items(ports).iter().enumerate() {
        let path = format!("{path}[{at}]");
        if let Some(name) = port["name"].as_str().filter(|name| !name.is_empty()) {
            let before = report.found.len();
            report.port_or_name(format!("{path}.name"), &port["name"]);
            if report.found.len() == before && !names.insert(name) {
                report.duplicate(format!("{path}.name"), &port["name"]);
            }
        }
        match port["containerPort"].as_i64() {
            None | Some(0) => report.required(format!("{path}.containerPort"), ""),
            Some(_) => report.port(format!("{path}.containerPort"), &port["containerPort"]),
        }
        if host_port(port) != 0 {
            report.port(format!("{path}.hostPort"), &port["hostPort"]);
        }
    }
}

/// Checks that no two ports of some containers are the same port of the host.
pub(super) fn check_conflicts(report: &mut Report<'_>, containers: &[Value], path: &str) {
    let mut known = BTreeSet::new();
    for (at, container) in containers.iter().enumerate() {
        for (index, port) in items(&container["ports"]).iter().enumerate().filter(|(_, port)| host_port(port) != 0) {
            let used = format!("{}/{}/{}", text(&port["protocol"]), text(&port["hostIP"]), host_port(port));
            if known.contains(&used) {
                report.duplicate(format!("{path}[{at}].ports[{index}].hostPort"), &used.as_str().into());
            }
            known.insert(used);
        }
    }
}

/// Checks that the ports of containers in the network of the host are ports of the host.
pub(super) fn check_on_host(report: &mut Report<'_>, pod: &Pod<'_>, path: &str) {
    for (at, container) in items(&pod.spec["containers"]).iter().enumerate() {
        for (index, port) in items(&container["ports"]).iter().enumerate() {
            let (of_host, own) = (host_port(port), port["containerPort"].as_i64().unwrap_or_default());
            if (pod.is_pod || of_host != 0) && of_host != own {
                let detail = "must match `containerPort` when `hostNetwork` is true";
                report.invalid(format!("{path}[{at}].ports[{index}].hostPort"), &of_host.into(), detail);
            }
        }
    }
}

/// Returns the port of the host; zero for none.
fn host_port(port: &Value) -> i64 {
    port["hostPort"].as_i64().unwrap_or_default()
}
