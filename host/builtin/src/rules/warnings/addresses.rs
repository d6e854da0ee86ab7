//! Warnings about services and addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::Value;

use crate::rules::report::{items, text};

const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
/// The label of endpoints that names their controller, and the controllers that write addresses in their canonical form.
const ENDPOINTS_MANAGED_BY: (&str, &[&str]) = ("endpoints.kubernetes.io/managed-by", &["endpoint-controller"]);
/// The same of slices of endpoints.
const SLICE_MANAGED_BY: (&str, &[&str]) = (
    "endpointslice.kubernetes.io/managed-by",
    &["endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"],
);

/// Returns the warnings of a service.
pub(super) fn of_service(service: &Value) -> Vec<String> {
    let (spec, mut found) = (&service["spec"], Vec::new());
    let (kind, external) = (text(&spec["type"]), items(&spec["externalIPs"]));
    if !service["metadata"]["annotations"][TOPOLOGY_HINTS].is_null() {
        found.push(format!("annotation {TOPOLOGY_HINTS} is deprecated, please use {TOPOLOGY_MODE} instead"));
    }
    let address = text(&spec["clusterIP"]);
    if !matches!(address, "" | "None") {
        found.extend(of_addresses(&spec["clusterIPs"], "spec.clusterIPs"));
    }
    let is_headless = kind == "ClusterIP" && address == "None";
    if is_headless {
        let ignored = [
            ("loadBalancerIP", !text(&spec["loadBalancerIP"]).is_empty()),
            ("externalIPs", !external.is_empty()),
            ("SessionAffinity", spec["sessionAffinity"] != "None"),
        ];
        let names = ignored.into_iter().filter(|(_, is_set)| *is_set);
        found.extend(names.map(|(name, _)| format!("spec.{name} is ignored for headless services")));
    }
    found.extend(of_addresses(&spec["externalIPs"], "spec.externalIPs"));
    if !external.is_empty() && !is_headless && kind != "ExternalName" {
        found.push("spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned());
    }
    found.extend(address_warning(&spec["loadBalancerIP"], "spec.loadBalancerIP"));
    found.extend(of_networks(&spec["loadBalancerSourceRanges"], "spec.loadBalancerSourceRanges"));
    if kind == "ExternalName" && !external.is_empty() {
        found.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if kind != "ExternalName" && !text(&spec["externalName"]).is_empty() {
        found.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if spec["trafficDistribution"] == "PreferClose" {
        found.push("spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"".to_owned());
    }
    found
}

/// Returns the warnings of endpoints.
pub(super) fn of_endpoints(endpoints: &Value) -> Vec<String> {
    let mut found = Vec::new();
    if is_of_controller(endpoints, ENDPOINTS_MANAGED_BY) {
        return found;
    }
    for (at, subset) in items(&endpoints["subsets"]).iter().enumerate() {
        for name in ["addresses", "notReadyAddresses"] {
            found.extend(of_list(&subset[name], "ip", |index| format!("subsets[{at}].{name}[{index}].ip")));
        }
    }
    found
}

/// Returns the warnings of a slice of endpoints.
pub(super) fn of_slice(slice: &Value, is_new: bool) -> Vec<String> {
    let mut found = Vec::new();
    if is_new && slice["addressType"] == "FQDN" {
        found.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
    }
    for (at, endpoint) in
        items(&slice["endpoints"]).iter().enumerate().filter(|_| !is_of_controller(slice, SLICE_MANAGED_BY))
    {
        found.extend(of_addresses(&endpoint["addresses"], &format!("endpoints[{at}].addresses")));
    }
    found
}

/// Returns the warnings of the specification of a network policy.
pub(super) fn of_network_policy(spec: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for (at, rule) in items(&spec[direction]).iter().enumerate() {
            for (index, peer) in items(&rule[peers]).iter().enumerate() {
                let (block, path) = (&peer["ipBlock"], format!("spec.{direction}[{at}].{peers}[{index}].ipBlock"));
                found.extend(network_warnings(&block["cidr"], &format!("{path}.cidr")));
                found.extend(of_networks(&block["except"], &format!("{path}.except")));
            }
        }
    }
    found
}

/// Returns whether a label of a resource names one of some controllers.
fn is_of_controller(resource: &Value, (label, controllers): (&str, &[&str])) -> bool {
    controllers.contains(&text(&resource["metadata"]["labels"][label]))
}

/// Returns the warnings of the addresses in a field of each item of a list.
pub(super) fn of_list(list: &Value, field: &str, path: impl Fn(usize) -> String) -> Vec<String> {
    let addresses = items(list).iter().enumerate();
    addresses.filter_map(|(at, item)| address_warning(&item[field], &path(at))).collect()
}

/// Returns the warnings of a list of addresses.
pub(super) fn of_addresses(list: &Value, path: &str) -> Vec<String> {
    let addresses = items(list).iter().enumerate();
    addresses.filter_map(|(at, address)| address_warning(address, &format!("{path}[{at}]"))).collect()
}

/// Returns the warnings of a list of networks.
pub(super) fn of_networks(list: &Value, path: &str) -> Vec<String> {
    let networks = items(list).iter().enumerate();
    networks.flat_map(|(at, network)| network_warnings(network, &format!("{path}[{at}]"))).collect()
}

/// An address in a form that a client may use.
struct ParsedAddress {
    address: IpAddr,
    /// Whether all parsers take the form for the same address.
    is_standard: bool,
}

impl ParsedAddress {
    fn of(text: &str) -> Option<Self> {
        match text.parse() {
            Ok(address @ IpAddr::V4(_)) => Some(Self { address, is_standard: true }),
            Ok(IpAddr::V6(address)) => Some(match address.to_ipv4_mapped() {
                Some(mapped) => Self { address: mapped.into(), is_standard: false },
                None => Self { address: address.into(), is_standard: true },
            }),
            Err(_) => {
                let plain: Option<Vec<u8>> = text.split('.').map(|number| number.parse().ok()).collect();
                let plain: [u8; 4] = plain?.try_into().ok()?;
                Some(Self { address: Ipv4Addr::from(plain).into(), is_standard: false })
            }
        }
    }
}

/// Returns a warning for an address that is not in its canonical form.
pub(super) fn address_warning(value: &Value, path: &str) -> Option<String> {
    let value = text(value);
    let ParsedAddress { address, is_standard } = ParsedAddress::of(value)?;
    let canonical = address.to_string();
    if !is_standard {
        return Some(format!("{path}: non-standard IP address {value:?} is invalid: use {canonical:?}"));
    }
    (address.is_ipv6() && canonical != value)
        .then(|| format!("{path}: IPv6 address {value:?} should be in RFC 5952 canonical format ({canonical:?})"))
}

/// Returns the warnings for a network that is not in its canonical form.
fn network_warnings(value: &Value, path: &str) -> Vec<String> {
    let value = text(value);
    let Some((address, bits)) = value.split_once('/') else { return Vec::new() };
    let (Some(parsed), Ok(length)) = (ParsedAddress::of(address), bits.parse::<u32>()) else { return Vec::new() };
    let is_mapped = address.contains(':') && parsed.address.is_ipv4();
    let length = if is_mapped { length.saturating_sub(96) } else { length };
    let length_max = if parsed.address.is_ipv4() { 32 } else { 128 };
    let network = masked(parsed.address, length);
    let mut found = Vec::new();
    if network != parsed.address {
        let single = format!("{}/{length_max}", parsed.address);
        found.push(format!(
            "{path}: CIDR value {value:?} is ambiguous in this context (should be \"{network}/{length}\" or {single:?}?)"
        ));
    }
    let is_standard = parsed.is_standard && (bits == "0" || !bits.starts_with('0'));
    if !is_standard {
        found.push(format!("{path}: non-standard CIDR value {value:?} is invalid: use \"{network}/{length}\""));
    }
    let canonical = format!("{}/{length}", parsed.address);
    if found.is_empty() && parsed.address.is_ipv6() && canonical != value {
        found.push(format!("{path}: IPv6 CIDR value {value:?} should be in RFC 5952 canonical format ({canonical:?})"));
    }
    found
}

/// Returns the first address of the network of an address.
fn masked(address: IpAddr, length: u32) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32u32.saturating_sub(length)).unwrap_or(0);
            Ipv4Addr::from(u32::from(address) & mask).into()
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128u32.saturating_sub(length)).unwrap_or(0);
            Ipv6Addr::from(u128::from(address) & mask).into()
        }
    }
}
