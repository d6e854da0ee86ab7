//! Services. Nobody routes their addresses: a service without one gets one of a private range, made from its uid, because
//! clients wait for it.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use serde_json::{Map, Value, json};

use super::defaults::{absent, default, object_at};
use super::names::{PORT, is_label};
use super::report::Report;

/// Seconds for which a client stays with one pod.
const AFFINITY_SECONDS: u64 = 10_800;

pub(super) fn set_defaults(service: &mut Value, old: Option<&Value>) {
    let given = match old.and_then(|old| old["spec"]["clusterIP"].as_str()) {
        Some(address) => address.to_owned(),
        None => address_of(service["metadata"]["uid"].as_str().unwrap_or_default()),
    };
    let uid = service["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let Some(spec) = object_at(service, "/spec") else { return };
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
        default(spec, "ipFamilyPolicy", "SingleStack");
        default(spec, "ipFamilies", json!(["IPv4"]));
        default(spec, "clusterIP", given);
        let address = text(spec, "clusterIP");
        if !address.is_empty() {
            default(spec, "clusterIPs", json!([address]));
        }
    }
    if kind == "LoadBalancer" {
        default(spec, "allocateLoadBalancerNodePorts", true);
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
        &[&["spec", "clusterIP"], &["spec", "clusterIPs"], &["spec", "ipFamilies"], &["spec", "ipFamilyPolicy"]],
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
    for (at, port) in (0..).zip(ports.filter_map(Value::as_object_mut)) {
        if port.get("nodePort").is_none_or(|number| *number == 0) {
            let number = before(port).unwrap_or_else(|| node_port_of(uid, at).into());
            port.insert("nodePort".to_owned(), number);
        }
    }
}

/// Returns a port of 30000 to 32767, the range of an API server.
fn node_port_of(uid: &str, at: u32) -> u32 {
    const FIRST: u32 = 30_000;
    const PORTS: u32 = 2768;
    FIRST + hash_of(uid).wrapping_add(at) % PORTS
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

pub(super) fn check(report: &mut Report<'_>) {
    let spec = report.at("/spec");
    let kind = spec["type"].as_str().unwrap_or_default();
    let headless = spec["clusterIP"] == "None";
    let ports: Vec<&Value> = spec["ports"].as_array().into_iter().flatten().collect();
    if ports.is_empty() && !headless && kind != "ExternalName" {
        report.required("spec.ports", "");
    }
    if kind == "ExternalName" && spec["externalName"].as_str().is_none_or(str::is_empty) {
        report.required("spec.externalName", "");
    }
    if headless && matches!(kind, "LoadBalancer" | "NodePort") {
        let detail = format!("may not be set to 'None' for {kind} services");
        report.invalid("spec.clusterIPs[0]", &"None".into(), &detail);
    }
    let (mut names, mut used) = (BTreeSet::new(), BTreeSet::new());
    for (at, port) in ports.iter().enumerate() {
        let path = format!("spec.ports[{at}]");
        let name = port["name"].as_str().unwrap_or_default();
        if name.is_empty() {
            if ports.len() > 1 {
                report.required(format!("{path}.name"), "");
            }
        } else if !is_label(name) {
            report.label(format!("{path}.name"), &port["name"]);
        } else if !names.insert(name) {
            report.duplicate(format!("{path}.name"), &port["name"]);
        }
        let number = &port["port"];
        if !number.as_i64().is_some_and(|number| (1..=65535).contains(&number)) {
            report.invalid(format!("{path}.port"), &number.as_i64().unwrap_or(0).into(), PORT);
        }
        if !port["targetPort"].is_null() {
            report.port_or_name(format!("{path}.targetPort"), &port["targetPort"]);
        }
        if !used.insert((number.to_string(), port["protocol"].to_string())) {
            report.duplicate(path, &json!({ "port": number, "protocol": port["protocol"] }));
        }
    }
    let mut families = BTreeSet::new();
    for (at, family) in spec["ipFamilies"].as_array().into_iter().flatten().enumerate() {
        let path = format!("spec.ipFamilies[{at}]");
        if family != "IPv4" && family != "IPv6" {
            report.unsupported(path, family, &["IPv4", "IPv6"]);
        } else if !families.insert(family.as_str()) {
            report.duplicate(path, family);
        }
    }
    report.labels("spec.selector", &spec["selector"]);
    let old = report.old.map_or(&Value::Null, |old| &old["spec"]);
    let both = kind != "ExternalName" && old["type"] != "ExternalName";
    if both
        && old["clusterIP"].as_str().is_some_and(|address| !address.is_empty())
        && spec["clusterIP"] != old["clusterIP"]
    {
        let shown = json!([spec["clusterIP"]]);
        report.invalid("spec.clusterIPs[0]", &shown, "may not change once set");
    }
}
