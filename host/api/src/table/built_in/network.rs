//! The columns of services and of the network.
//!
//! Source: `pkg/printers/internalversion/printers.go` of Kubernetes.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::table::TableColumn;
use crate::table::cells::{elements, first_of_many, joined, label_selector, or_else, or_none, plain, text};
use crate::table::columns::{age, column, computed, labels_at, text_at, text_or, wide};

pub(super) fn service() -> Vec<TableColumn> {
    vec![
        column("Type", "string", text_at("/spec/type")),
        column("Cluster-IP", "string", text_or("/spec/clusterIPs/0", "<none>")),
        column("External-IP", "string", computed(external_address)),
        column("Port(s)", "string", computed(service_ports)),
        age(),
        wide("Selector", "string", labels_at("/spec/selector")),
    ]
}

pub(super) fn endpoints() -> Vec<TableColumn> {
    vec![column("Endpoints", "string", computed(subsets)), age()]
}

pub(super) fn endpoint_slice() -> Vec<TableColumn> {
    vec![
        column("AddressType", "string", text_at("/addressType")),
        column("Ports", "string", computed(slice_ports)),
        column("Endpoints", "string", computed(slice_endpoints)),
        age(),
    ]
}

pub(super) fn ingress() -> Vec<TableColumn> {
    let ports = |ingress: &Value| match elements(ingress, "/spec/tls").next() {
        Some(_) => "80, 443".into(),
        None => "80".into(),
    };
    vec![
        column("Class", "string", text_or("/spec/ingressClassName", "<none>")),
        column("Hosts", "string", computed(hosts)),
        column("Address", "string", computed(|ingress| addresses(ingress).into())),
        column("Ports", "string", computed(ports)),
        age(),
    ]
}

pub(super) fn ingress_class() -> Vec<TableColumn> {
    vec![
        column("Controller", "string", text_at("/spec/controller")),
        column("Parameters", "string", computed(class_parameters)),
        age(),
    ]
}

pub(super) fn network_policy() -> Vec<TableColumn> {
    vec![column("Pod-Selector", "string", computed(|policy| label_selector(policy, "/spec/podSelector"))), age()]
}

pub(super) fn ip_address() -> Vec<TableColumn> {
    vec![column("ParentRef", "string", computed(parent))]
}

pub(super) fn service_cidr() -> Vec<TableColumn> {
    let ranges = |range: &Value| joined(elements(range, "/spec/cidrs").map(plain)).into();
    vec![column("CIDRs", "string", computed(ranges)), age()]
}

fn external_address(service: &Value) -> Value {
    let given = joined(elements(service, "/spec/externalIPs").map(plain));
    match text(service, "/spec/type") {
        "ClusterIP" | "NodePort" | "" => or_none(&given),
        "LoadBalancer" => {
            let parts = [addresses(service), given];
            or_else(&joined(parts.into_iter().filter(|part| !part.is_empty())), "<pending>")
        }
        "ExternalName" => text(service, "/spec/externalName").into(),
        _ => "<unknown>".into(),
    }
}

/// Returns the addresses of a load balancer, each once and in order.
fn addresses(document: &Value) -> String {
    let address = |ingress: &Value| match text(ingress, "/ip") {
        "" => text(ingress, "/hostname").to_owned(),
        ip => ip.to_owned(),
    };
    let addresses: BTreeSet<String> = elements(document, "/status/loadBalancer/ingress").map(address).collect();
    joined(addresses.into_iter().filter(|address| !address.is_empty()))
}

fn service_ports(service: &Value) -> Value {
    let port = |port: &Value| {
        let node = port["nodePort"].as_u64().map(|node| format!(":{node}")).unwrap_or_default();
        format!("{}{node}/{}", port["port"], plain(&port["protocol"]))
    };
    or_none(&joined(elements(service, "/spec/ports").map(port)))
}

/// Returns the first hosts of the rules. As in Kubernetes, the number of further ones counts rules without a host.
fn hosts(ingress: &Value) -> Value {
    const SHOWN_MAX: usize = 3;
    let rules = elements(ingress, "/spec/rules");
    let mut shown: Vec<&str> = Vec::new();
    for rule in rules.clone() {
        if shown.len() == SHOWN_MAX {
            return format!("{} + {} more...", shown.join(","), rules.count() - SHOWN_MAX).into();
        }
        shown.extend(rule["host"].as_str().filter(|host| !host.is_empty()));
    }
    or_else(&shown.join(","), "*")
}

fn class_parameters(class: &Value) -> Value {
    let Some(parameters) = class.pointer("/spec/parameters") else { return or_none("") };
    let group = parameters["apiGroup"].as_str().map(|group| format!(".{group}")).unwrap_or_default();
    format!("{}{group}/{}", text(parameters, "/kind"), text(parameters, "/name")).into()
}

fn subsets(endpoints: &Value) -> Value {
    let subsets = elements(endpoints, "/subsets");
    if subsets.clone().next().is_none() {
        return or_none("");
    }
    let addresses = |subset: &Value, port: Option<&Value>| -> Vec<String> {
        let address = |address: &Value| match (text(address, "/ip"), port) {
            (ip, None) => ip.to_owned(),
            (ip, Some(port)) if ip.contains(':') => format!("[{ip}]:{}", port["port"]),
            (ip, Some(port)) => format!("{ip}:{}", port["port"]),
        };
        elements(subset, "/addresses").map(address).collect()
    };
    let of_subset = |subset| {
        let ports: Vec<Option<&Value>> = elements(subset, "/ports").map(Some).collect();
        let ports = if ports.is_empty() { vec![None] } else { ports };
        ports.into_iter().flat_map(move |port| addresses(subset, port))
    };
    first_of_many(subsets.flat_map(of_subset)).into()
}

fn slice_ports(slice: &Value) -> Value {
    let port = |port: &Value| match (port["port"].as_u64(), port["name"].as_str()) {
        (Some(number), _) => number.to_string(),
        (None, Some(name)) => name.to_owned(),
        (None, None) => "*".to_owned(),
    };
    or_else(&first_of_many(elements(slice, "/ports").map(port)), "<unset>")
}

fn slice_endpoints(slice: &Value) -> Value {
    let addresses = elements(slice, "/endpoints").flat_map(|endpoint| elements(endpoint, "/addresses"));
    or_else(&first_of_many(addresses.map(plain)), "<unset>")
}

/// Returns what an address belongs to: `services/default/web`.
fn parent(address: &Value) -> Value {
    let Some(parent) = address.pointer("/spec/parentRef") else { return or_none("") };
    let resource = match (text(parent, "/resource"), text(parent, "/group")) {
        (resource, "") => resource.to_lowercase(),
        (resource, group) => format!("{resource}.{group}").to_lowercase(),
    };
    let parts = [resource.as_str(), text(parent, "/namespace"), text(parent, "/name")];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/").into()
}
