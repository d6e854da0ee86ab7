//! Services. Nobody routes their addresses: a service without one gets one of a private range, made from its uid, because
//! clients wait for it.

mod changes;
mod checks;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;

use serde_json::{Map, Value, json};

use super::defaults::{absent, default, object_at};
pub(super) use checks::{check, check_addresses};

/// Seconds for which a client stays with one pod.
const AFFINITY_SECONDS: u64 = 10_800;

pub(super) fn set_defaults(service: &mut Value, old: Option<&Value>) {
    let given = match old.and_then(|old| old["spec"]["clusterIP"].as_str()) {
        Some(address) => address.to_owned(),
        None => address_of(service["metadata"]["uid"].as_str().unwrap_or_default()),
    };
    let uid = service["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let Some(spec) = object_at(service, "/spec") else { return };
    if let Some(old) = old {
        changes::align_addresses(spec, &old["spec"]);
        changes::drop_needless(spec, &old["spec"]);
    }
    let text =
        |spec: &Map<String, Value>, name: &str| spec.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    match text(spec, "sessionAffinity").as_str() {
        "None" => drop(spec.remove("sessionAffinityConfig")),
        "ClientIP"
            if spec
                .get("sessionAffinityConfig")
                .and_then(|config| config.pointer("/clientIP/timeoutSeconds"))
                .is_none() =>
        {
            let config = json!({ "clientIP": { "timeoutSeconds": AFFINITY_SECONDS } });
            spec.insert("sessionAffinityConfig".to_owned(), config);
        }
        _ => {}
    }
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(port) = port.as_object_mut() else { continue };
        let is_unset = port.get("targetPort").is_none_or(|target| *target == 0 || *target == "");
        if let Some(number) = port.get("port").cloned().filter(|_| is_unset) {
            port.insert("targetPort".to_owned(), number);
        }
    }
    let kind = text(spec, "type");
    let external = spec.get("externalIPs").and_then(Value::as_array).is_some_and(|addresses| !addresses.is_empty());
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") || (kind == "ClusterIP" && external) {
        default(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer" | "ClusterIP") {
        default(spec, "internalTrafficPolicy", "Cluster");
        // The endpoints of one without a selector can have any address.
        let selects = spec.get("selector").and_then(Value::as_object).is_some_and(|labels| !labels.is_empty());
        let is_open = text(spec, "clusterIP") == "None" && !selects;
        default(spec, "ipFamilyPolicy", if is_open { "RequireDualStack" } else { "SingleStack" });
        default(spec, "ipFamilies", if is_open { json!(["IPv4", "IPv6"]) } else { json!(["IPv4"]) });
        if spec.get("clusterIPs").and_then(Value::as_array).is_none_or(Vec::is_empty) {
            spec.remove("clusterIPs");
            if text(spec, "clusterIP").is_empty() {
                spec.insert("clusterIP".to_owned(), given.into());
            }
        }
        let address = text(spec, "clusterIP");
        if !address.is_empty() {
            let list =
                old.filter(|old| old["spec"]["clusterIP"] == *address).map(|old| old["spec"]["clusterIPs"].clone());
            default(spec, "clusterIPs", list.unwrap_or_else(|| json!([address])));
        }
    }
    if kind == "LoadBalancer" {
        default(spec, "allocateLoadBalancerNodePorts", true);
    }
    if kind == "LoadBalancer" && text(spec, "externalTrafficPolicy") == "Local" {
        let before = old.and_then(|old| old["spec"]["healthCheckNodePort"].as_u64()).filter(|port| *port != 0);
        default(spec, "healthCheckNodePort", before.unwrap_or_else(|| node_port_of(&uid, HEALTH_CHECK)));
    }
    let allocates = spec.get("allocateLoadBalancerNodePorts").is_some_and(|allocates| *allocates == true);
    if kind == "NodePort" || (kind == "LoadBalancer" && allocates) {
        set_node_ports(spec, old.and_then(|old| old.pointer("/spec/ports")), &uid);
    }
}

/// Returns the fields that an API server allocates.
pub(super) fn allocated(service: &Value) -> Vec<String> {
    let mut pointers = absent(
        service,
        &[
            &["spec", "clusterIP"],
            &["spec", "clusterIPs"],
            &["spec", "healthCheckNodePort"],
            &["spec", "ipFamilies"],
            &["spec", "ipFamilyPolicy"],
        ],
    );
    let ports = service["spec"]["ports"].as_array().into_iter().flatten().enumerate();
    let without = ports.filter(|(_, port)| port.get("nodePort").is_none_or(|number| number.is_null() || *number == 0));
    pointers.extend(without.map(|(at, _)| format!("/spec/ports/{at}/nodePort")));
    pointers
}

/// Gives each port without one a port of the nodes: that which it had, else one made from the uid. No node listens there,
/// and two services may have the same ones.
fn set_node_ports(spec: &mut Map<String, Value>, old: Option<&Value>, uid: &str) {
    let before = |port: &Map<String, Value>| {
        let ports = old.and_then(Value::as_array).into_iter().flatten();
        let mut same = ports.filter(|old| ["port", "protocol"].iter().all(|name| old.get(*name) == port.get(*name)));
        same.find_map(|old| old.get("nodePort").cloned())
    };
    let ports = spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten();
    let mut ports: Vec<_> = ports.filter_map(Value::as_object_mut).collect();
    for port in &mut ports {
        if port.get("nodePort").is_none_or(|number| *number == 0) {
            before(port).into_iter().for_each(|number| drop(port.insert("nodePort".to_owned(), number)));
        }
    }
    let number =
        |port: &Map<String, Value>, name: &str| port.get(name).and_then(Value::as_u64).filter(|port| *port != 0);
    let mut taken: BTreeSet<u64> = ports.iter().filter_map(|port| number(port, "nodePort")).collect();
    // The same port has the same one for each protocol.
    let mut known: BTreeMap<Option<u64>, u64> =
        ports.iter().filter_map(|port| Some((number(port, "port"), number(port, "nodePort")?))).collect();
    let mut next = (0..).map(|at| node_port_of(uid, at));
    for port in ports.into_iter().filter(|port| port.get("nodePort").is_none_or(|number| *number == 0)) {
        let own = number(port, "port");
        let free = known
            .get(&own)
            .copied()
            .or_else(|| next.by_ref().take(NODE_PORTS.count()).find(|port| !taken.contains(port)));
        let Some(free) = free else { return };
        port.insert("nodePort".to_owned(), free.into());
        known.insert(own, free);
        taken.insert(free);
    }
}

/// The place of the port for health checks behind those of a service.
const HEALTH_CHECK: u32 = 1000;

/// The range of the ports of nodes. Source: `--service-node-port-range` of kube-apiserver.
pub const NODE_PORTS: RangeInclusive<u64> = 30_000..=32_767;

/// Returns a port of the nodes.
fn node_port_of(uid: &str, at: u32) -> u64 {
    let count = NODE_PORTS.end() - NODE_PORTS.start() + 1;
    NODE_PORTS.start() + u64::from(hash_of(uid).wrapping_add(at)) % count
}

/// Returns a hash of a text. Source: FNV-1a.
fn hash_of(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// The range of the addresses of services, and the length of its prefix. Source: kubeadm.
pub const SERVICE_RANGE: (Ipv4Addr, u32) = (Ipv4Addr::new(10, 96, 0, 0), 12);

/// Returns an address of the range. Two services may have the same one.
fn address_of(uid: &str) -> String {
    const HOSTS: u32 = (1 << (Ipv4Addr::BITS - SERVICE_RANGE.1)) - 2;
    Ipv4Addr::from(SERVICE_RANGE.0.to_bits() + 1 + hash_of(uid) % HOSTS).to_string()
}

#[cfg(test)]
mod tests;
