//! The numbers in the status of the kinds that run pods.

use serde_json::Value;

use crate::rules::report::Report;

const ABOVE_ALL: &str = "cannot be greater than status.replicas";

pub(in crate::rules) fn check_deployment(report: &mut Report<'_>) {
    report.not_negative(
        "/status",
        &[
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "terminatingReplicas",
            "collisionCount",
        ],
    );
    not_above_all(report, &["updatedReplicas", "readyReplicas", "availableReplicas"]);
    not_above(report, "availableReplicas", "readyReplicas", "cannot be greater than readyReplicas");
    not_decremented(report);
}

/// Checks the status of a replica set or a replication controller.
pub(in crate::rules) fn check_replica_set(report: &mut Report<'_>) {
    report.not_negative(
        "/status",
        &[
            "replicas",
            "fullyLabeledReplicas",
            "readyReplicas",
            "availableReplicas",
            "observedGeneration",
            "terminatingReplicas",
        ],
    );
    not_above_all(report, &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"]);
    not_above(report, "availableReplicas", "readyReplicas", "cannot be greater than readyReplicas");
}

pub(in crate::rules) fn check_stateful_set(report: &mut Report<'_>) {
    report.not_negative(
        "/status",
        &[
            "replicas",
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "availableReplicas",
            "observedGeneration",
            "collisionCount",
        ],
    );
    not_above_all(report, &["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"]);
    not_above(report, "availableReplicas", "readyReplicas", "cannot be greater than status.readyReplicas");
    not_decremented(report);
}

pub(in crate::rules) fn check_daemon_set(report: &mut Report<'_>) {
    report.not_negative(
        "/status",
        &[
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        ],
    );
    not_decremented(report);
}

pub(in crate::rules) fn check_disruption_budget(report: &mut Report<'_>) {
    report.not_negative("/status", &["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"]);
}

pub(in crate::rules) fn check_autoscaler(report: &mut Report<'_>) {
    report.not_negative("/status", &["currentReplicas", "desiredReplicas"]);
}

fn number(report: &Report<'_>, name: &str) -> i64 {
    report.at("/status")[name].as_i64().unwrap_or(0)
}

fn not_above(report: &mut Report<'_>, name: &str, bound: &str, detail: &str) {
    let (count, bound) = (number(report, name), number(report, bound));
    if count > bound {
        report.invalid(format!("status.{name}"), &count.into(), detail);
    }
}

fn not_above_all(report: &mut Report<'_>, names: &[&str]) {
    names.iter().for_each(|name| not_above(report, name, "replicas", ABOVE_ALL));
}

/// Checks that the number of collisions of names does not fall.
fn not_decremented(report: &mut Report<'_>) {
    let before = report.old.and_then(|old| old.pointer("/status/collisionCount")).and_then(Value::as_i64);
    let now = number(report, "collisionCount");
    if before.is_some_and(|before| now < before) {
        report.invalid("status.collisionCount", &now.into(), "cannot be decremented");
    }
}
