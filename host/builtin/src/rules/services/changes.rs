//! A change of the type of a service: it drops the fields that an API server allocated for the former type, unless the writer changes them.
//!
//! Source: `dropTypeDependentFields` in `pkg/registry/core/service/strategy.go` of Kubernetes.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::rules::report::{items, text};

type Need = fn(&Value) -> bool;

/// Fields of a service, and which services need them.
const FIELDS: [(&[&str], Need); 6] = [
    (&["clusterIP", "clusterIPs"], needs_address),
    (&["ipFamilies"], needs_address),
    (&["ipFamilyPolicy"], needs_address),
    (&["healthCheckNodePort"], |spec| is_balanced(spec) && spec["externalTrafficPolicy"] == "Local"),
    (&["allocateLoadBalancerNodePorts"], is_balanced),
    (&["loadBalancerClass"], is_balanced),
];

/// Makes the address of a service and the list of its addresses agree, where a writer changes one of them alone.
pub(super) fn align_addresses(spec: &mut Map<String, Value>, old: &Value) {
    let one = |spec: &Value| text(&spec["clusterIP"]).to_owned();
    let now = Value::Object(spec.clone());
    let (is_same, is_same_list) = (one(&now) == one(old), items(&now["clusterIPs"]) == items(&old["clusterIPs"]));
    match (one(&now).is_empty(), items(&now["clusterIPs"]).is_empty()) {
        (true, false) if !is_same && is_same_list => drop(spec.remove("clusterIPs")),
        (false, true) if is_same => drop(spec.remove("clusterIP")),
        (false, false) if !is_same && is_same_list => {
            spec["clusterIPs"][0] = now["clusterIP"].clone();
        }
        _ => {}
    }
}

/// Removes the unchanged fields that a service needed, and needs no more.
pub(super) fn drop_needless(spec: &mut Map<String, Value>, old: &Value) {
    let now = Value::Object(spec.clone());
    let is_needless = |needs: Need| needs(old) && !needs(&now);
    for (names, needs) in FIELDS {
        if is_needless(needs) && names.iter().all(|name| now[*name] == old[*name]) {
            names.iter().for_each(|name| drop(spec.remove(*name)));
        }
    }
    if is_needless(is_reachable) && now["externalTrafficPolicy"] == old["externalTrafficPolicy"] {
        spec.remove("externalTrafficPolicy");
    }
    if is_needless(needs_node_ports) && node_ports(&now) == node_ports(old) {
        let ports = spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten();
        ports.filter_map(Value::as_object_mut).for_each(|port| drop(port.remove("nodePort")));
    }
}

fn needs_address(spec: &Value) -> bool {
    spec["type"] != "ExternalName"
}

fn is_balanced(spec: &Value) -> bool {
    spec["type"] == "LoadBalancer"
}

fn needs_node_ports(spec: &Value) -> bool {
    matches!(text(&spec["type"]), "NodePort" | "LoadBalancer")
}

/// Returns whether clients outside of the cluster reach a service.
pub(super) fn is_reachable(spec: &Value) -> bool {
    needs_node_ports(spec) || (spec["type"] == "ClusterIP" && !items(&spec["externalIPs"]).is_empty())
}

fn node_ports(spec: &Value) -> BTreeSet<i64> {
    items(&spec["ports"]).iter().filter_map(|port| port["nodePort"].as_i64()).filter(|port| *port != 0).collect()
}
