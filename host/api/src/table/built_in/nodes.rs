//! The columns of nodes and of their devices.
//!
//! Source: `pkg/printers/internalversion/printers.go` of Kubernetes.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::table::TableColumn;
use crate::table::cells::{elements, is_deleting, joined, or_else, or_none, text};
use crate::table::columns::{age, column, computed, text_at, wide};

pub(super) fn node() -> Vec<TableColumn> {
    let address = |kind: &'static str| {
        computed(move |node: &Value| {
            let found = elements(node, "/status/addresses").find(|address| address["type"] == kind);
            found.map_or_else(|| or_none(""), |address| text(address, "/address").into())
        })
    };
    let or_unknown = |pointer| computed(move |node: &Value| or_else(text(node, pointer), "<unknown>"));
    vec![
        column("Status", "string", computed(status)),
        column("Roles", "string", computed(roles)),
        age(),
        column("Version", "string", text_at("/status/nodeInfo/kubeletVersion")),
        wide("Internal-IP", "string", address("InternalIP")),
        wide("External-IP", "string", address("ExternalIP")),
        wide("OS-Image", "string", or_unknown("/status/nodeInfo/osImage")),
        wide("Kernel-Version", "string", computed(kernel)),
        wide("Container-Runtime", "string", or_unknown("/status/nodeInfo/containerRuntimeVersion")),
    ]
}

pub(super) fn resource_claim() -> Vec<TableColumn> {
    vec![column("State", "string", computed(claim_state)), age()]
}

pub(super) fn resource_slice() -> Vec<TableColumn> {
    vec![
        column("Node", "string", text_at("/spec/nodeName")),
        column("Driver", "string", text_at("/spec/driver")),
        column("Pool", "string", text_at("/spec/pool/name")),
        age(),
    ]
}

fn kernel(node: &Value) -> Value {
    let version = match text(node, "/status/nodeInfo/kernelVersion") {
        "" => "<unknown>",
        version => version,
    };
    match text(node, "/status/nodeInfo/architecture") {
        "" => version.into(),
        architecture => format!("{version} ({architecture})").into(),
    }
}

fn status(node: &Value) -> Value {
    let ready = elements(node, "/status/conditions").filter(|condition| condition["type"] == "Ready").last();
    let ready = ready.map_or("Unknown", |ready| if ready["status"] == "True" { "Ready" } else { "NotReady" });
    if node["spec"]["unschedulable"] == true { format!("{ready},SchedulingDisabled").into() } else { ready.into() }
}

fn roles(node: &Value) -> Value {
    let labels = node.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
    let role = |(name, value): (&'_ String, &'_ Value)| match name.strip_prefix("node-role.kubernetes.io/") {
        Some(role) => Some(role.to_owned()),
        None if name == "kubernetes.io/role" => value.as_str().map(str::to_owned),
        None => None,
    };
    let roles: BTreeSet<String> = labels.filter_map(role).filter(|role| !role.is_empty()).collect();
    or_none(&joined(roles.into_iter()))
}

/// Returns the states of a claim: `allocated,reserved`.
fn claim_state(claim: &Value) -> Value {
    let is_allocated = claim.pointer("/status/allocation").is_some();
    let is_reserved = is_allocated && elements(claim, "/status/reservedFor").next().is_some();
    let states = [
        (is_deleting(claim), "deleted"),
        (!is_deleting(claim) && !is_allocated, "pending"),
        (is_allocated, "allocated"),
        (is_reserved, "reserved"),
    ];
    joined(states.into_iter().filter(|(holds, _)| *holds).map(|(_, state)| state.to_owned())).into()
}
