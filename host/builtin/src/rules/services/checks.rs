//! The rules of services.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::{Value, json};

use super::changes::is_reachable;
use crate::rules::endpoints::check_app_protocol;
use crate::rules::names::{NO_ADDRESS, NO_NETWORK, PORT, is_network};
use crate::rules::report::{Report, items, text};

/// Most seconds for which a client stays with one pod.
const AFFINITY_SECONDS_MAX: i64 = 86_400;
const KINDS: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const FAMILY_POLICIES: [&str; 3] = ["PreferDualStack", "RequireDualStack", "SingleStack"];
const DISTRIBUTIONS: [&str; 3] = ["PreferClose", "PreferSameZone", "PreferSameNode"];
const BALANCED_ONLY: &str = "may only be used when `type` is 'LoadBalancer'";

pub(in crate::rules) fn check(report: &mut Report<'_>) {
    let spec = report.at("/spec");
    let kind = text(&spec["type"]);
    check_addresses(report);
    if !report.found.is_empty() {
        // Without valid addresses, Kubernetes looks no further.
        return;
    }
    check_kind(report, spec, kind);
    let ports = items(&spec["ports"]);
    check_ports(report, ports);
    report.labels("spec.selector", &spec["selector"]);
    check_affinity(report, spec);
    check_external_addresses(report, spec);
    if !KINDS.contains(&kind) {
        report.unsupported("spec.type", &spec["type"], &KINDS);
    }
    check_ports_together(report, ports, kind);
    check_source_ranges(report, spec, kind);
    if !spec["allocateLoadBalancerNodePorts"].is_null() && kind != "LoadBalancer" {
        report.forbidden("spec.allocateLoadBalancerNodePorts", BALANCED_ONLY);
    }
    check_class(report, spec, kind);
    check_external_traffic(report, spec, kind);
    let distribution = &spec["trafficDistribution"];
    if distribution.is_string() && !DISTRIBUTIONS.contains(&text(distribution)) {
        report.unsupported("spec.trafficDistribution", distribution, &DISTRIBUTIONS);
    }
    check_change(report, spec, kind);
}

/// Checks what a service of a type needs, and must not have.
fn check_kind(report: &mut Report<'_>, spec: &Value, kind: &str) {
    let is_headless = spec["clusterIPs"] == json!(["None"]);
    if items(&spec["ports"]).is_empty() && !is_headless && kind != "ExternalName" {
        report.required("spec.ports", "");
    }
    if is_headless && matches!(kind, "LoadBalancer" | "NodePort") {
        let detail = format!("may not be set to 'None' for {kind} services");
        report.invalid("spec.clusterIPs[0]", &"None".into(), &detail);
    }
    if kind != "ExternalName" {
        return;
    }
    for name in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if !spec[name].is_null() && spec[name] != json!([]) {
            report.forbidden(format!("spec.{name}"), "may not be set for ExternalName services");
        }
    }
    match text(&spec["externalName"]).trim_end_matches('.') {
        "" => report.required("spec.externalName", ""),
        name => report.subdomain("spec.externalName".to_owned(), &name.into()),
    }
}

/// Checks each port by itself, and that their names are distinct.
fn check_ports(report: &mut Report<'_>, ports: &[Value]) {
    let mut names = BTreeSet::new();
    for (at, port) in ports.iter().enumerate() {
        let (name, path) = (text(&port["name"]), format!("spec.ports[{at}]"));
        match name {
            "" if ports.len() > 1 => report.required(format!("{path}.name"), ""),
            "" => {}
            _ => report.label(format!("{path}.name"), &port["name"]),
        }
        if !name.is_empty() && !names.insert(name) {
            report.duplicate(format!("{path}.name"), &port["name"]);
        }
        check_port(report, port, &path);
    }
}

/// Checks that no two ports are the same in the cluster, or on its nodes.
fn check_ports_together(report: &mut Report<'_>, ports: &[Value], kind: &str) {
    let of_node = |port: &Value| port["nodePort"].as_i64().unwrap_or(0);
    for (at, _) in ports.iter().enumerate().filter(|(_, port)| kind == "ClusterIP" && of_node(port) != 0) {
        report.forbidden(format!("spec.ports[{at}].nodePort"), "may not be used when `type` is 'ClusterIP'");
    }
    let mut nodes = BTreeSet::new();
    for (at, port) in ports.iter().enumerate().filter(|(_, port)| of_node(port) != 0) {
        if !nodes.insert((of_node(port), text(&port["protocol"]))) {
            report.duplicate(format!("spec.ports[{at}].nodePort"), &port["nodePort"]);
        }
    }
    let mut used = BTreeSet::new();
    for (at, port) in ports.iter().enumerate() {
        let (number, protocol) = (&port["port"], text(&port["protocol"]));
        if !used.insert((number.as_i64(), protocol)) {
            report.duplicate(format!("spec.ports[{at}]"), &json!({ "port": number, "protocol": protocol }));
        }
    }
}

fn check_port(report: &mut Report<'_>, port: &Value, path: &str) {
    report.port(format!("{path}.port"), &port["port"]);
    if !PROTOCOLS.contains(&text(&port["protocol"])) {
        report.unsupported(format!("{path}.protocol"), &port["protocol"], &PROTOCOLS);
    }
    if !port["targetPort"].is_null() {
        report.port_or_name(format!("{path}.targetPort"), &port["targetPort"]);
    }
    check_app_protocol(report, port, path);
}

/// Checks for how long a client stays with a pod.
fn check_affinity(report: &mut Report<'_>, spec: &Value) {
    let (path, config) = ("spec.sessionAffinityConfig", &spec["sessionAffinityConfig"]);
    match text(&spec["sessionAffinity"]) {
        "ClientIP" => {
            let seconds = &config["clientIP"]["timeoutSeconds"];
            if !seconds.as_i64().is_some_and(|seconds| (1..=AFFINITY_SECONDS_MAX).contains(&seconds)) {
                let detail = format!("must be greater than 0 and less than {AFFINITY_SECONDS_MAX}");
                report.invalid(format!("{path}.clientIP.timeoutSeconds"), seconds, &detail);
            }
        }
        "None" if config.is_object() => report.forbidden(path, "must not be set when session affinity is None"),
        _ => {}
    }
}

/// Checks the addresses of a service in the cluster, and their families.
pub(in crate::rules) fn check_addresses(report: &mut Report<'_>) {
    let spec = report.at("/spec");
    if spec["type"] == "ExternalName" {
        return;
    }
    let (path, all, first) = ("spec.clusterIPs", &spec["clusterIPs"], text(&spec["clusterIP"]));
    let addresses = items(all);
    match (first, addresses.first()) {
        ("", Some(_)) => report.invalid(path, all, "must be empty when `clusterIP` is not specified"),
        (first, Some(one)) if !first.is_empty() && text(one) != first => {
            report.invalid(path, all, "first value must match `clusterIP`");
        }
        _ => {}
    }
    check_families(report, items(&spec["ipFamilies"]));
    let policy = &spec["ipFamilyPolicy"];
    if policy.is_string() && !FAMILY_POLICIES.contains(&text(policy)) {
        report.unsupported("spec.ipFamilyPolicy", policy, &FAMILY_POLICIES);
    }
    let is_headless = addresses.first().is_some_and(|first| first == "None");
    if is_headless && addresses.len() > 1 {
        report.invalid(path, all, "'None' must be the first and only value");
    }
    let parsed: Vec<Option<IpAddr>> = addresses.iter().map(|address| text(address).parse().ok()).collect();
    for (at, address) in addresses.iter().enumerate().skip(usize::from(is_headless)) {
        if parsed[at].is_none() {
            report.invalid(format!("{path}[{at}]"), address, NO_ADDRESS);
        }
    }
    if addresses.len() > 2 {
        report.invalid(path, all, "may only hold up to 2 values");
    }
    let families: BTreeSet<bool> = parsed.iter().flatten().map(IpAddr::is_ipv6).collect();
    if parsed.iter().all(Option::is_some) && families.len() < parsed.len() {
        report.invalid(path, all, "may specify no more than one IP for each IP family");
    }
}

fn check_families(report: &mut Report<'_>, families: &[Value]) {
    let mut seen = BTreeSet::new();
    for (at, family) in families.iter().enumerate() {
        let path = format!("spec.ipFamilies[{at}]");
        if family != "IPv4" && family != "IPv6" {
            report.unsupported(path.clone(), family, &["IPv4", "IPv6"]);
        }
        if !seen.insert(text(family)) {
            report.duplicate(path, family);
        }
    }
}

fn check_external_addresses(report: &mut Report<'_>, spec: &Value) {
    let old = report.old.map_or(&[][..], |old| items(&old["spec"]["externalIPs"]));
    for (at, address) in items(&spec["externalIPs"]).iter().enumerate() {
        let path = format!("spec.externalIPs[{at}]");
        match text(address).parse::<IpAddr>() {
            Ok(parsed) => report.endpoint_address(path, address, parsed),
            Err(_) if old.contains(address) => {}
            Err(_) => report.invalid(path, address, NO_ADDRESS),
        }
    }
}

/// Checks from which networks clients of a load balancer may come.
fn check_source_ranges(report: &mut Report<'_>, spec: &Value, kind: &str) {
    // The path is that of Kubernetes.
    let (path, ranges) = ("spec.LoadBalancerSourceRanges", items(&spec["loadBalancerSourceRanges"]));
    if !ranges.is_empty() && kind != "LoadBalancer" {
        report.forbidden(path, BALANCED_ONLY);
    }
    let old = report.old.map_or(&[][..], |old| items(&old["spec"]["loadBalancerSourceRanges"]));
    for (at, range) in ranges.iter().enumerate().filter(|(_, range)| !old.contains(range)) {
        if !is_network(text(range).trim()) {
            report.invalid(format!("{path}[{at}]"), &text(range).trim().into(), NO_NETWORK);
        }
    }
}

/// Checks the class of a load balancer, which never changes.
fn check_class(report: &mut Report<'_>, spec: &Value, kind: &str) {
    let (path, class) = ("spec.loadBalancerClass", &spec["loadBalancerClass"]);
    let old = report.old.filter(|old| old["spec"]["type"] == "LoadBalancer" && kind == "LoadBalancer");
    if old.is_some_and(|old| old["spec"]["loadBalancerClass"] != *class) {
        return report.invalid(path, class, "may not change once set");
    }
    if class.is_null() {
        return;
    }
    if kind == "LoadBalancer" {
        report.qualified(path, class);
    } else {
        report.forbidden(path, BALANCED_ONLY);
    }
}

/// Checks how traffic from outside of the cluster reaches a service.
fn check_external_traffic(report: &mut Report<'_>, spec: &Value, kind: &str) {
    let (policy, port) = (&spec["externalTrafficPolicy"], &spec["healthCheckNodePort"]);
    if !is_reachable(spec) && !text(policy).is_empty() {
        let detail = "may only be set for externally-accessible services";
        report.invalid("spec.externalTrafficPolicy", policy, detail);
    }
    let is_checked = kind == "LoadBalancer" && policy == "Local";
    let old = report.old.map_or(&Value::Null, |old| &old["spec"]);
    let was_checked = old["type"] == "LoadBalancer" && old["externalTrafficPolicy"] == "Local";
    if is_checked && was_checked && old["healthCheckNodePort"] != *port && !old["healthCheckNodePort"].is_null() {
        report.forbidden("spec.healthCheckNodePort", "field is immutable");
    }
    match port.as_i64().unwrap_or(0) {
        0 => {}
        _ if !is_checked => {
            let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            report.invalid("spec.healthCheckNodePort", port, detail);
        }
        number if !(1..=65535).contains(&number) => report.invalid("spec.healthCheckNodePort", port, PORT),
        _ => {}
    }
}

/// Checks that the first address of a service stays.
fn check_change(report: &mut Report<'_>, spec: &Value, kind: &str) {
    let old = report.old.map_or(&Value::Null, |old| &old["spec"]);
    let both = kind != "ExternalName" && old["type"] != "ExternalName";
    if both && !text(&old["clusterIP"]).is_empty() && spec["clusterIP"] != old["clusterIP"] {
        let shown = json!([spec["clusterIP"]]);
        report.invalid("spec.clusterIPs[0]", &shown, "may not change once set");
    }
}
