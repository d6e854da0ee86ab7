//! Endpoints of services, and their slices.

use std::collections::BTreeSet;
use std::net::IpAddr;

use homeostat_cel::names::{DNS_1123_LABEL, DNS_1123_SUBDOMAIN, LABEL_VALUE, NameForm};
use serde_json::Value;

use super::defaults::{default, object_at};
use super::names::NO_ADDRESS;
use super::report::{Report, items, text};

/// Most items of the lists of a slice.
const ENDPOINTS_MAX: usize = 1000;
const ADDRESSES_MAX: usize = 100;
const PORTS_MAX: usize = 20_000;
const HINTS_MAX: usize = 8;

pub(super) fn check_endpoints(report: &mut Report<'_>) {
    let subsets = report.at("/subsets");
    if report.old.is_some_and(|old| old["subsets"] == *subsets) {
        return;
    }
    for (at, subset) in items(subsets).iter().enumerate() {
        check_subset(report, subset, &format!("subsets[{at}]"));
    }
}

fn check_subset(report: &mut Report<'_>, subset: &Value, path: &str) {
    let lists = ["addresses", "notReadyAddresses"];
    if lists.iter().all(|list| items(&subset[*list]).is_empty()) {
        report.required(path, "must specify `addresses` or `notReadyAddresses`");
    }
    for list in lists {
        for (at, address) in items(&subset[list]).iter().enumerate() {
            check_address(report, address, &format!("{path}.{list}[{at}]"));
        }
    }
    let ports = items(&subset["ports"]);
    for (at, port) in ports.iter().enumerate() {
        let path = format!("{path}.ports[{at}]");
        match text(&port["name"]) {
            "" if ports.len() > 1 => report.required(format!("{path}.name"), ""),
            "" => {}
            _ => report.label(format!("{path}.name"), &port["name"]),
        }
        report.port(format!("{path}.port"), &port["port"]);
        check_app_protocol(report, port, &path);
    }
}

/// Checks an address. Kubernetes reports a malformed one twice.
fn check_address(report: &mut Report<'_>, address: &Value, path: &str) {
    let (shown, ip) = (text(&address["ip"]).into(), format!("{path}.ip"));
    let parsed = match text(&address["ip"]).parse() {
        Ok(parsed) => Some(parsed),
        Err(_) => {
            report.invalid(ip.clone(), &shown, NO_ADDRESS);
            None
        }
    };
    if !text(&address["hostname"]).is_empty() {
        report.label(format!("{path}.hostname"), &address["hostname"]);
    }
    if address["nodeName"].is_string() {
        report.subdomain(format!("{path}.nodeName"), &address["nodeName"]);
    }
    match parsed {
        Some(parsed) => report.endpoint_address(ip, &shown, parsed),
        None => report.invalid(ip, &shown, "must be a valid IP address"),
    }
}

impl Report<'_> {
    /// Checks that an address is one that others reach.
    pub(super) fn endpoint_address(&mut self, path: String, shown: &Value, address: IpAddr) {
        let (local, multicast) = match address {
            IpAddr::V4(address) => (address.is_link_local(), address.octets()[..3] == [224, 0, 0]),
            IpAddr::V6(address) => (address.is_unicast_link_local(), address.segments()[0] == 0xff02),
        };
        let faults = [
            (address.is_unspecified(), format!("may not be unspecified ({})", text(shown))),
            (address.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned()),
            (local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned()),
            (multicast, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned()),
        ];
        for (_, fault) in faults.iter().filter(|(is_violated, _)| *is_violated) {
            self.invalid(path.clone(), shown, fault);
        }
    }
}

/// Checks the protocol that a port speaks above its transport.
pub(super) fn check_app_protocol(report: &mut Report<'_>, port: &Value, path: &str) {
    if port["appProtocol"].is_string() {
        report.qualified(format!("{path}.appProtocol"), &port["appProtocol"]);
    }
}

/// Drops the topology of a former version, which only endpoints that had it keep.
pub(super) fn slice_defaults(slice: &mut Value, old: Option<&Value>) {
    let endpoints = slice.get_mut("endpoints").and_then(Value::as_array_mut).into_iter().flatten();
    for hints in endpoints.filter_map(|endpoint| endpoint.get_mut("hints")) {
        for name in ["forZones", "forNodes"] {
            let hints = hints.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten();
            hints.filter_map(Value::as_object_mut).for_each(|hint| default(hint, "name", ""));
        }
    }
    let has_topology =
        |slice: &Value| items(&slice["endpoints"]).iter().any(|one| one["deprecatedTopology"].is_object());
    if old.is_some_and(has_topology) {
        return;
    }
    let endpoints = object_at(slice, "").and_then(|fields| fields.get_mut("endpoints")).and_then(Value::as_array_mut);
    for endpoint in endpoints.into_iter().flatten().filter_map(Value::as_object_mut) {
        endpoint.remove("deprecatedTopology");
    }
}

pub(super) fn check_slice(report: &mut Report<'_>) {
    check_slice_ports(report, items(report.at("/ports")));
    let endpoints = items(report.at("/endpoints"));
    if endpoints.len() > ENDPOINTS_MAX {
        report.too_many("endpoints", endpoints.len(), ENDPOINTS_MAX);
    } else if !report.old.is_some_and(|old| old["endpoints"] == *report.at("/endpoints")) {
        let family = text(report.at("/addressType"));
        for (at, endpoint) in endpoints.iter().enumerate() {
            check_endpoint(report, endpoint, &format!("endpoints[{at}]"), family);
        }
    }
    report.immutable("/addressType");
}

fn check_slice_ports(report: &mut Report<'_>, ports: &[Value]) {
    if ports.len() > PORTS_MAX {
        return report.too_many("ports", ports.len(), PORTS_MAX);
    }
    let mut names = BTreeSet::new();
    for (at, port) in ports.iter().enumerate() {
        let (path, name) = (format!("ports[{at}]"), text(&port["name"]));
        if !name.is_empty() {
            report.label(format!("{path}.name"), &port["name"]);
        }
        if !names.insert(name) {
            report.duplicate(format!("{path}.name"), &name.into());
        }
        check_app_protocol(report, port, &path);
    }
}

fn check_endpoint(report: &mut Report<'_>, endpoint: &Value, path: &str, family: &str) {
    let (addresses, list) = (items(&endpoint["addresses"]), format!("{path}.addresses"));
    if addresses.is_empty() {
        report.required(list.clone(), "must contain at least 1 address");
    } else if addresses.len() > ADDRESSES_MAX {
        report.too_many(&list, addresses.len(), ADDRESSES_MAX);
    }
    for (at, address) in addresses.iter().enumerate() {
        match family {
            "IPv4" | "IPv6" => check_slice_address(report, address, &list, at, family),
            "FQDN" => check_domain(report, address, format!("{list}[{at}]")),
            _ => {}
        }
    }
    if endpoint["nodeName"].is_string() {
        report.subdomain(format!("{path}.nodeName"), &endpoint["nodeName"]);
    }
    report.labels(&format!("{path}.deprecatedTopology"), &endpoint["deprecatedTopology"]);
    if endpoint["hostname"].is_string() {
        report.label(format!("{path}.hostname"), &endpoint["hostname"]);
    }
    for (name, form) in [("forZones", &LABEL_VALUE), ("forNodes", &DNS_1123_SUBDOMAIN)] {
        check_hints(report, items(&endpoint["hints"][name]), &format!("{path}.hints.{name}"), form);
    }
}

/// Checks an address of a slice, whose family is that of the slice.
fn check_slice_address(report: &mut Report<'_>, address: &Value, list: &str, at: usize, family: &str) {
    let path = format!("{list}[{at}]");
    let Ok(parsed) = text(address).parse::<IpAddr>() else { return report.invalid(path, address, NO_ADDRESS) };
    let canonical = parsed.to_string();
    if family == "IPv6" && canonical != text(address) {
        return report.invalid(path, address, &format!("must be in canonical form ({canonical:?})"));
    }
    if parsed.is_ipv6() != (family == "IPv6") {
        report.invalid(list, address, &format!("must be an {family} address"));
    }
    report.endpoint_address(path, address, parsed);
}

/// Checks a domain name of two labels at least.
fn check_domain(report: &mut Report<'_>, address: &Value, path: String) {
    let name = text(address);
    if name.is_empty() {
        return report.required(path, "");
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let faults = DNS_1123_SUBDOMAIN.faults(name);
    if !faults.is_empty() {
        report.invalid(path, &name.into(), &faults.join(","));
    } else if !name.contains('.') {
        report.invalid(path, &name.into(), "should be a domain with at least two segments separated by dots");
    } else {
        for label in name.split('.').filter(|label| !DNS_1123_LABEL.fits(label)) {
            report.invalid(path.clone(), &label.into(), &DNS_1123_LABEL.faults(label).join(","));
        }
    }
}

/// Checks for whose traffic an endpoint is.
fn check_hints(report: &mut Report<'_>, hints: &[Value], path: &str, form: &NameForm) {
    if hints.len() > HINTS_MAX {
        return report.too_many(path, hints.len(), HINTS_MAX);
    }
    let mut names = BTreeSet::new();
    for (at, hint) in hints.iter().enumerate() {
        let (path, name) = (format!("{path}[{at}].name"), &hint["name"]);
        if !names.insert(text(name)) {
            report.duplicate(path.clone(), name);
        }
        report.form(path, name, form);
    }
}
