//! Ingresses with their classes, network policies, and addresses of services.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::defaults::{default, object_at};
use super::names::{NO_NETWORK, is_network, network};
use super::report::{Report, items, text};

/// Most bytes of the name of a controller of a class.
const CONTROLLER_BYTES_MAX: usize = 250;

/// The protocols of ports.
const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];

pub(super) fn network_policy_defaults(policy: &mut Value, _old: Option<&Value>) {
    let Some(spec) = object_at(policy, "/spec") else { return };
    let has_egress = spec.get("egress").and_then(Value::as_array).is_some_and(|rules| !rules.is_empty());
    let types = if has_egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
    default(spec, "policyTypes", types);
}

pub(super) fn check_network_policy(report: &mut Report<'_>) {
    check_policy_types(report);
    report.selector("spec.podSelector", report.at("/spec/podSelector"));
    for (list, peers) in [("ingress", "from"), ("egress", "to")] {
        for (at, rule) in report.at(&format!("/spec/{list}")).as_array().into_iter().flatten().enumerate() {
            let path = format!("spec.{list}[{at}]");
            for (at, port) in rule["ports"].as_array().into_iter().flatten().enumerate() {
                check_policy_port(report, port, &format!("{path}.ports[{at}]"));
            }
            for (at, peer) in rule[peers].as_array().into_iter().flatten().enumerate() {
                check_peer(report, peer, &format!("{path}.{peers}[{at}]"));
            }
        }
    }
}

/// Checks a port of a policy, or a range of ports.
fn check_policy_port(report: &mut Report<'_>, port: &Value, path: &str) {
    if !PROTOCOLS.contains(&text(&port["protocol"])) {
        report.unsupported(format!("{path}.protocol"), &port["protocol"], &PROTOCOLS);
    }
    let (first, last, path, end) = (&port["port"], &port["endPort"], format!("{path}.port"), format!("{path}.endPort"));
    match first {
        Value::Null if !last.is_null() => {
            report.invalid(end, last, "may not be specified when `port` is not specified");
        }
        Value::Null => {}
        Value::String(_) => {
            if !last.is_null() {
                report.invalid(end, last, "may not be specified when `port` is non-numeric");
            }
            report.port_or_name(path, first);
        }
        _ => {
            report.port(path, first);
            if !last.is_null() {
                if last.as_i64() < first.as_i64() {
                    report.invalid(end.clone(), first, "must be greater than or equal to `port`");
                }
                report.port(end, last);
            }
        }
    }
}

fn check_peer(report: &mut Report<'_>, peer: &Value, path: &str) {
    let has = |name: &str| peer[name].is_object();
    if !has("podSelector") && !has("namespaceSelector") && !has("ipBlock") {
        return report.required(path, "must specify a peer");
    }
    for name in ["podSelector", "namespaceSelector"] {
        report.selector(&format!("{path}.{name}"), &peer[name]);
    }
    if !has("ipBlock") {
        return;
    }
    if has("podSelector") || has("namespaceSelector") {
        report.forbidden(path, "may not specify both ipBlock and another peer");
    }
    let block = &peer["ipBlock"];
    let whole = text(&block["cidr"]);
    let Some(whole) = network(whole) else {
        return match whole {
            "" => report.required(format!("{path}.ipBlock.cidr"), ""),
            _ => report.invalid(format!("{path}.ipBlock.cidr"), &block["cidr"], NO_NETWORK),
        };
    };
    for (at, range) in items(&block["except"]).iter().enumerate() {
        let path = format!("{path}.ipBlock.except[{at}]");
        match network(text(range)) {
            None => report.invalid(path, range, NO_NETWORK),
            Some(part) if !whole.is_above(&part) => report.invalid(path, range, "must be a strict subset of `cidr`"),
            Some(_) => {}
        }
    }
}

/// Checks how many directions of traffic a policy is for.
fn check_policy_types(report: &mut Report<'_>) {
    let types = report.at("/spec/policyTypes");
    if items(types).len() > 2 {
        report.invalid("spec.policyTypes", types, "may not specify more than two policyTypes");
    }
}

pub(super) fn check_ingress(report: &mut Report<'_>) {
    let spec = report.at("/spec");
    if spec["rules"].as_array().is_none_or(Vec::is_empty) && spec["defaultBackend"].is_null() {
        let detail = "either `defaultBackend` or `rules` must be specified";
        report.invalid("spec", &spec["rules"], detail);
    }
    if spec["defaultBackend"].is_object() {
        check_backend(report, &spec["defaultBackend"], "spec.defaultBackend");
    }
    for (at, rule) in spec["rules"].as_array().into_iter().flatten().enumerate() {
        let path = format!("spec.rules[{at}]");
        let host = rule["host"].as_str().unwrap_or_default();
        if host.parse::<IpAddr>().is_ok() {
            report.invalid(format!("{path}.host"), &rule["host"], "must be a DNS name, not an IP address");
        }
        if !host.is_empty() {
            check_host(report, &rule["host"], format!("{path}.host"));
        }
        if !rule["http"].is_object() {
            continue;
        }
        let paths = rule["http"]["paths"].as_array();
        if paths.is_none_or(Vec::is_empty) {
            report.required(format!("{path}.http.paths"), "");
        }
        for (at, route) in paths.into_iter().flatten().enumerate() {
            check_path(report, route, &format!("{path}.http.paths[{at}]"));
        }
    }
    for (at, tls) in spec["tls"].as_array().into_iter().flatten().enumerate() {
        for (host_at, host) in tls["hosts"].as_array().into_iter().flatten().enumerate() {
            check_host(report, host, format!("spec.tls[{at}].hosts[{host_at}]"));
        }
        if tls["secretName"].as_str().is_some_and(|name| !name.is_empty()) {
            report.subdomain(format!("spec.tls[{at}].secretName"), &tls["secretName"]);
        }
    }
    if spec["ingressClassName"].is_string() {
        report.subdomain("spec.ingressClassName".to_owned(), &spec["ingressClassName"]);
    }
}

/// Checks a name of a host, which may begin with `*.`.
fn check_host(report: &mut Report<'_>, host: &Value, path: String) {
    let plain = host.as_str().map(|name| name.strip_prefix("*.").unwrap_or(name));
    report.subdomain(path, &plain.unwrap_or_default().into());
}

/// The parts that an exact path, or a prefix of paths, must not have.
const PATH_PARTS_REFUSED: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];
/// The ends that such a path must not have.
const PATH_ENDS_REFUSED: [&str; 2] = ["/..", "/."];

fn check_path(report: &mut Report<'_>, route: &Value, path: &str) {
    let text = route["path"].as_str().unwrap_or_default();
    if matches!(route["pathType"].as_str(), Some("Exact" | "Prefix")) {
        for part in PATH_PARTS_REFUSED.iter().filter(|part| text.contains(**part)) {
            report.invalid(format!("{path}.path"), &text.into(), &format!("must not contain '{part}'"));
        }
        for end in PATH_ENDS_REFUSED.iter().filter(|end| text.ends_with(**end)) {
            report.invalid(format!("{path}.path"), &text.into(), &format!("cannot end with '{end}'"));
        }
    }
    match route["pathType"].as_str() {
        None => return report.required(format!("{path}.pathType"), "pathType must be specified"),
        Some("Exact" | "Prefix") if !text.starts_with('/') => {
            report.invalid(format!("{path}.path"), &text.into(), "must be an absolute path");
        }
        Some("ImplementationSpecific") if !text.is_empty() && !text.starts_with('/') => {
            report.invalid(format!("{path}.path"), &text.into(), "must be an absolute path");
        }
        Some("Exact" | "Prefix" | "ImplementationSpecific") => {}
        Some(_) => {
            let supported = ["Exact", "ImplementationSpecific", "Prefix"];
            report.unsupported(format!("{path}.pathType"), &route["pathType"], &supported);
        }
    }
    check_backend(report, &route["backend"], &format!("{path}.backend"));
}

fn check_backend(report: &mut Report<'_>, backend: &Value, path: &str) {
    let service = &backend["service"];
    match (backend["resource"].is_object(), service.is_object()) {
        (true, true) => report.invalid(path, &"".into(), "cannot set both resource and service backends"),
        (true, false) => {}
        (false, false) => report.invalid(path, &"".into(), "resource or service backend is required"),
        (false, true) => {
            match service["name"].as_str().unwrap_or_default() {
                "" => report.required(format!("{path}.service.name"), ""),
                _ => report.label(format!("{path}.service.name"), &service["name"]),
            }
            let (name, number) = (&service["port"]["name"], &service["port"]["number"]);
            let has_name = name.as_str().is_some_and(|name| !name.is_empty());
            let has_number = number.as_i64().is_some_and(|number| number != 0);
            match (has_name, has_number) {
                (true, true) => report.invalid(path, &"".into(), "cannot set both port name & port number"),
                (true, false) => report.port_or_name(format!("{path}.service.port.name"), name),
                (false, true) => report.port(format!("{path}.service.port.number"), number),
                (false, false) => report.required(path, "port name or number is required"),
            }
        }
    }
}

pub(super) fn check_ingress_class(report: &mut Report<'_>) {
    let spec = report.at("/spec");
    report.immutable("/spec/controller");
    if text(&spec["controller"]).len() > CONTROLLER_BYTES_MAX {
        report.too_long("spec.controller", CONTROLLER_BYTES_MAX);
    }
    report.domain_prefixed_path("spec.controller", &spec["controller"]);
    check_class_parameters(report, &spec["parameters"]);
}

/// Checks the reference to the parameters of a class.
fn check_class_parameters(report: &mut Report<'_>, parameters: &Value) {
    if !parameters.is_object() {
        return;
    }
    let path = "spec.parameters";
    if parameters["apiGroup"].is_string() {
        report.subdomain(format!("{path}.apiGroup"), &parameters["apiGroup"]);
    }
    for name in ["kind", "name"] {
        if text(&parameters[name]).is_empty() {
            report.required(format!("{path}.{name}"), "");
        }
        report.path_segment(&format!("{path}.{name}"), &parameters[name]);
    }
    let namespace = &parameters["namespace"];
    match parameters["scope"].as_str().unwrap_or_default() {
        "Namespace" if namespace.is_null() => {
            report.required(format!("{path}.namespace"), "`parameters.scope` is set to 'Namespace'");
        }
        "Namespace" => report.label(format!("{path}.namespace"), namespace),
        "Cluster" if !namespace.is_null() => {
            report.forbidden(format!("{path}.namespace"), "`parameters.scope` is set to 'Cluster'");
        }
        "Cluster" => {}
        _ => report.unsupported(format!("{path}.scope"), &parameters["scope"], &["Cluster", "Namespace"]),
    }
}

pub(super) fn check_ip_address(report: &mut Report<'_>) {
    let parent = report.at("/spec/parentRef");
    let group = &parent["group"];
    if group.as_str().is_some_and(|group| !group.is_empty()) {
        report.subdomain("spec.parentRef.group".to_owned(), group);
    }
    for name in ["resource", "name", "namespace"] {
        report.path_segment(&format!("spec.parentRef.{name}"), &parent[name]);
    }
    report.immutable("/spec/parentRef");
}

pub(super) fn check_service_cidr(report: &mut Report<'_>) {
    let path = "spec.cidrs";
    let (cidrs, all) = (networks(report.resource), report.at("/spec/cidrs"));
    let Some(old) = report.old.map(networks) else { return check_networks(report, cidrs) };
    if old.len() == cidrs.len() {
        for (at, (now, before)) in cidrs.iter().zip(old).enumerate() {
            if now != before {
                report.invalid(format!("{path}[{at}]"), now, "field is immutable");
            }
        }
    } else if let ([before], [now, _]) = (old, cidrs) {
        if now != before {
            report.invalid(format!("{path}[0]"), now, "field is immutable");
        }
        check_networks(report, cidrs);
    } else {
        report.invalid(path, all, "field is immutable");
    }
}

fn networks(resource: &Value) -> &[Value] {
    resource["spec"]["cidrs"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Checks one network, or two of different families.
fn check_networks(report: &mut Report<'_>, cidrs: &[Value]) {
    let (path, all) = ("spec.cidrs", report.at("/spec/cidrs"));
    match cidrs {
        [] => return report.required(path, "at least one CIDR required"),
        [_, _, _, ..] => return report.invalid(path, all, "may only hold up to 2 values"),
        _ => {}
    }
    for (at, cidr) in cidrs.iter().enumerate() {
        if let Some(fault) = fault_of_network(text(cidr)) {
            report.invalid(format!("{path}[{at}]"), cidr, &fault);
        }
    }
    let is_wide = |cidr: &Value| cidr.as_str().map(|text| text.contains(':'));
    if let [one, other] = cidrs
        && is_wide(one) == is_wide(other)
        && [one, other].into_iter().all(|cidr| cidr.as_str().is_some_and(is_network))
    {
        let detail = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        report.invalid(path, all, detail);
    }
}

/// Returns why a text is no network in its shortest form, whose address has no bits beyond its prefix.
fn fault_of_network(network: &str) -> Option<String> {
    let valid = network.split_once('/').filter(|_| is_network(network));
    let parsed = valid.and_then(|(address, bits)| Some((address.parse().ok()?, bits.parse().ok()?)));
    let Some((address, length)) = parsed else { return Some(NO_NETWORK.to_owned()) };
    let has_more = match address {
        IpAddr::V4(number) => number.to_bits().checked_shl(length).is_some_and(|bits| bits != 0),
        IpAddr::V6(number) => number.to_bits().checked_shl(length).is_some_and(|bits| bits != 0),
    };
    let canonical = format!("{address}/{length}");
    if has_more {
        Some("must not have bits set beyond the prefix length".to_owned())
    } else {
        (canonical != network).then(|| format!("must be in canonical form ({canonical:?})"))
    }
}

#[cfg(test)]
mod tests;
