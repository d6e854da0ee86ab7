//! Classes of storage and of attributes of volumes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::rules::report::{Report, items, text};

/// Most parameters of a class.
const PARAMETERS_MAX: usize = 512;
/// Most bytes of the names and values of parameters.
const PARAMETER_BYTES_MAX: usize = 256 * 1024;

pub(in crate::rules) fn check_storage_class(report: &mut Report<'_>) {
    check_provisioner(report, "provisioner");
    check_parameters(report);
    check_topologies(report, items(report.at("/allowedTopologies")));
    for name in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
        report.immutable(&format!("/{name}"));
    }
}

pub(in crate::rules) fn check_volume_attributes_class(report: &mut Report<'_>) {
    check_provisioner(report, "driverName");
    check_parameters(report);
    if report.at("/parameters").as_object().is_none_or(Map::is_empty) {
        report.required("parameters", "must contain at least one key/value pair");
    }
    let Some(old) = report.old else { return };
    for name in ["driverName", "parameters"] {
        if old[name] != report.resource[name] {
            report.forbidden(name, &format!("updates to {name} are forbidden."));
        }
    }
}

/// Checks the name of the program that makes volumes.
fn check_provisioner(report: &mut Report<'_>, name: &str) {
    let provisioner = report.at(&format!("/{name}"));
    if provisioner != "" {
        report.qualified_in_any_case(name, provisioner);
    }
}

fn check_parameters(report: &mut Report<'_>) {
    let Some(parameters) = report.at("/parameters").as_object() else { return };
    if parameters.len() > PARAMETERS_MAX {
        return report.too_long("parameters", PARAMETERS_MAX);
    }
    let length = |value: &Value| value.as_str().map_or(0, str::len);
    let bytes: usize = parameters.iter().map(|(name, value)| name.len() + length(value)).sum();
    if parameters.contains_key("") {
        report.invalid("parameters", &"".into(), "field can not be empty.");
    }
    if bytes > PARAMETER_BYTES_MAX {
        report.too_long("parameters", PARAMETER_BYTES_MAX);
    }
}

/// The values of a topology by their keys.
type Topology<'t> = BTreeMap<&'t str, BTreeSet<&'t str>>;

/// Checks the topologies in which a class has volumes. They are distinct, and one without expressions is no topology.
fn check_topologies(report: &mut Report<'_>, topologies: &[Value]) {
    let mut known: Vec<Topology<'_>> = vec![Topology::new()];
    for (at, topology) in topologies.iter().enumerate() {
        let path = format!("allowedTopologies[{at}].matchLabelExpressions");
        let topology = check_topology(report, topology, &path);
        if known.contains(&topology) {
            report.duplicate(path, &"".into());
        }
        known.push(topology);
    }
}

fn check_topology<'t>(report: &mut Report<'_>, topology: &'t Value, path: &str) -> Topology<'t> {
    let mut found = Topology::new();
    for (at, expression) in items(&topology["matchLabelExpressions"]).iter().enumerate() {
        let path = format!("{path}[{at}]");
        let values = items(&expression["values"]);
        if values.is_empty() {
            report.required(format!("{path}.values"), "");
        }
        let mut distinct = BTreeSet::new();
        for (at, value) in values.iter().enumerate() {
            if !distinct.insert(text(value)) {
                report.duplicate(format!("{path}.values[{at}]"), value);
            }
        }
        let key = text(&expression["key"]);
        report.qualified(format!("{path}.key"), &key.into());
        if found.insert(key, distinct).is_some() {
            report.duplicate(format!("{path}.key"), &key.into());
        }
    }
    found
}
