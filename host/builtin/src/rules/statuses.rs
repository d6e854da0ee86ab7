//! The rules about the status of resources, which a write of the status has to keep.
//!
//! Source: `Validate*StatusUpdate` in `pkg/apis/*/validation`, and `PrepareForUpdate` of the strategies of the status in
//! `pkg/registry`, of Kubernetes.

mod certificates;
mod claims;
mod jobs;
mod network;
mod pods;
mod quotas;
mod workloads;

use std::collections::BTreeSet;

use serde_json::Value;

use super::containers::check_quantity;
use super::report::{Report, items, text};

pub(super) use certificates::check_certificate_request;
pub(super) use claims::{check_persistent_volume_claim, check_resource_claim};
pub(super) use jobs::check_job;
pub(super) use network::{check_ingress, check_service, service_defaults};
pub(super) use pods::{check_pod, pod_defaults};
pub(super) use quotas::check_resource_quota;
pub(super) use workloads::{
    check_autoscaler, check_daemon_set, check_deployment, check_disruption_budget, check_replica_set,
    check_stateful_set,
};

/// Checks the phase of a namespace.
pub(super) fn check_namespace(report: &mut Report<'_>) {
    let phase = report.at("/status/phase");
    let (wanted, detail) = match report.at("/metadata/deletionTimestamp") {
        Value::Null => ("Active", "may only be 'Active' if `deletionTimestamp` is empty"),
        _ => ("Terminating", "may only be 'Terminating' if `deletionTimestamp` is not empty"),
    };
    if phase != wanted {
        report.invalid("status.Phase", &text(phase).into(), detail);
    }
}

/// Checks that a node has each address once.
pub(super) fn check_node(report: &mut Report<'_>) {
    if report.old.is_some_and(Value::is_null) {
        // A new node: only the amounts are checked.
        for list in ["capacity", "allocatable"] {
            for (name, amount) in report.at(&format!("/status/{list}")).as_object().into_iter().flatten() {
                check_quantity(report, name, amount, &format!("status.{list}.{name}"));
            }
        }
        return;
    }
    let mut seen = BTreeSet::new();
    for (at, address) in items(report.at("/status/addresses")).iter().enumerate() {
        if !seen.insert((address["type"].to_string(), address["address"].to_string())) {
            report.duplicate(format!("status.addresses[{at}]"), address);
        }
    }
}

/// Returns a condition of a status.
fn condition<'s>(status: &'s Value, name: &str) -> Option<&'s Value> {
    items(&status["conditions"]).iter().find(|condition| condition["type"] == name)
}

/// Returns whether a condition of a status is true.
fn holds(status: &Value, name: &str) -> bool {
    condition(status, name).is_some_and(|condition| condition["status"] == "True")
}

#[cfg(test)]
mod tests;
