//! The addresses of load balancers.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::Value;

use crate::rules::report::{Report, items, text};

/// Sets how the nodes treat the addresses of the load balancer of a service.
pub(in crate::rules) fn service_defaults(service: &mut Value, _old: &Value) {
    if service["spec"]["type"] != "LoadBalancer" {
        return;
    }
    let addresses = service.pointer_mut("/status/loadBalancer/ingress").and_then(Value::as_array_mut);
    for address in addresses.into_iter().flatten().filter_map(Value::as_object_mut) {
        if address.get("ip").is_some_and(|ip| !text(ip).is_empty()) && !address.contains_key("ipMode") {
            address.insert("ipMode".to_owned(), "VIP".into());
        }
    }
}

pub(in crate::rules) fn check_service(report: &mut Report<'_>) {
    let addresses = items(report.at("/status/loadBalancer/ingress"));
    if report.at("/spec/type") != "LoadBalancer" && !addresses.is_empty() {
        let detail = "may only be used when `spec.type` is 'LoadBalancer'";
        return report.forbidden("status.loadBalancer.ingress", detail);
    }
    check_addresses(report, |report, address, path| {
        let (ip, mode) = (text(&address["ip"]), &address["ipMode"]);
        match (ip, mode) {
            ("", Value::Null) => {}
            ("", _) => report.forbidden(path, "may not be specified when `ip` is not set"),
            (_, Value::Null) => report.required(path, "must be specified when `ip` is set"),
            (_, mode) if mode == "Proxy" || mode == "VIP" => {}
            (_, mode) => report.unsupported(path, mode, &["Proxy", "VIP"]),
        }
    });
}

pub(in crate::rules) fn check_ingress(report: &mut Report<'_>) {
    check_addresses(report, |_, _, _| {});
}

/// Checks the addresses of a load balancer. An address that is stored already stays valid. `check_mode` checks the mode of one,
/// at its path.
fn check_addresses(report: &mut Report<'_>, check_mode: impl Fn(&mut Report<'_>, &Value, String)) {
    const ADDRESSES: &str = "/status/loadBalancer/ingress";
    let stored = report.old.and_then(|old| old.pointer(ADDRESSES)).map(items).unwrap_or_default();
    let stored: BTreeSet<&str> = stored.iter().map(|address| text(&address["ip"])).collect();
    for (at, address) in items(report.at(ADDRESSES)).iter().enumerate() {
        let path = format!("status.loadBalancer.ingress[{at}]");
        let (ip, host) = (&address["ip"], &address["hostname"]);
        if !text(ip).is_empty() && !stored.contains(text(ip)) {
            report.legacy_ip(format!("{path}.ip"), ip);
        }
        check_mode(report, address, format!("{path}.ipMode"));
        if !text(host).is_empty() {
            report.subdomain(format!("{path}.hostname"), host);
            if text(host).parse::<IpAddr>().is_ok() {
                report.invalid(format!("{path}.hostname"), host, "must be a DNS name, not an IP address");
            }
        }
    }
}
