//! The containers of a pod.

use std::collections::BTreeSet;

use homeostat_store::schema::quantity_in_nanos;
use serde_json::{Value, json};

use super::names::is_qualified;
use super::report::Report;

/// Amounts that a container may ask for, besides those with a domain in their name.
const RESOURCES: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// Fields that an ephemeral container cannot have.
const FORBIDDEN: [&str; 9] = [
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];
const HANDLERS: [&str; 5] = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];

/// Checks one container. `volumes` are those of its pod.
pub(super) fn check(report: &mut Report<'_>, container: &Value, path: &str, volumes: &[&Value]) {
    if container["image"].as_str().is_none_or(str::is_empty) {
        report.required(format!("{path}.image"), "");
    }
    check_ports(report, &container["ports"], &format!("{path}.ports"));
    check_variables(report, container, path);
    check_mounts(report, container, path, volumes);
    check_resources(report, &container["resources"], &format!("{path}.resources"));
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        check_probe(report, &container[name], &format!("{path}.{name}"));
    }
    for name in ["postStart", "preStop"] {
        let handler = &container["lifecycle"][name];
        if handler.is_object() {
            check_handler(report, handler, &format!("{path}.lifecycle.{name}"));
        }
    }
}

/// Checks what an ephemeral container cannot have. `others` are the names of the other containers of its pod.
pub(super) fn check_ephemeral(report: &mut Report<'_>, container: &Value, others: &BTreeSet<&str>, path: &str) {
    const ERROR: &str = "cannot be set for an Ephemeral Container";
    let target = &container["targetContainerName"];
    if target.as_str().is_some_and(|name| !name.is_empty() && !others.contains(name)) {
        report.not_found(format!("{path}.targetContainerName"), target);
    }
    for name in FORBIDDEN {
        let is_empty = |value: &Value| match value {
            Value::Null => true,
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            _ => false,
        };
        if !is_empty(&container[name]) {
            report.forbidden(format!("{path}.{name}"), ERROR);
        }
    }
    for (at, mount) in container["volumeMounts"].as_array().into_iter().flatten().enumerate() {
        for name in ["subPath", "subPathExpr"] {
            if mount[name].as_str().is_some_and(|text| !text.is_empty()) {
                report.forbidden(format!("{path}.volumeMounts[{at}].{name}"), ERROR);
            }
        }
    }
}

fn check_ports(report: &mut Report<'_>, ports: &Value, path: &str) {
    let mut names = BTreeSet::new();
    for (at, port) in ports.as_array().into_iter().flatten().enumerate() {
        let path = format!("{path}[{at}]");
        if let Some(name) = port["name"].as_str().filter(|name| !name.is_empty()) {
            let before = report.found.len();
            report.port_or_name(format!("{path}.name"), &port["name"]);
            if report.found.len() == before && !names.insert(name) {
                report.duplicate(format!("{path}.name"), &port["name"]);
            }
        }
        match port["containerPort"].as_i64() {
            None | Some(0) => report.required(format!("{path}.containerPort"), ""),
            Some(_) => report.port(format!("{path}.containerPort"), &port["containerPort"]),
        }
        if port["hostPort"].as_i64().is_some_and(|number| number != 0) {
            report.port(format!("{path}.hostPort"), &port["hostPort"]);
        }
    }
}

fn check_variables(report: &mut Report<'_>, container: &Value, path: &str) {
    for (at, variable) in container["env"].as_array().into_iter().flatten().enumerate() {
        let path = format!("{path}.env[{at}]");
        let has_value = variable["value"].as_str().is_some_and(|value| !value.is_empty());
        let from = &variable["valueFrom"];
        let count = from.as_object().map_or(0, serde_json::Map::len);
        let path = format!("{path}.valueFrom");
        if from.is_object() && count == 0 {
            let detail = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or \
                `fileKeyRef`";
            report.invalid(path, &json!(""), detail);
        } else if count > 0 && has_value {
            report.invalid(path, &json!(""), "may not be specified when `value` is not empty");
        } else if count > 1 {
            report.invalid(path, &json!(""), "may not have more than one field specified at a time");
        }
    }
}

fn check_mounts(report: &mut Report<'_>, container: &Value, path: &str, volumes: &[&Value]) {
    let mut places = BTreeSet::new();
    for (at, mount) in container["volumeMounts"].as_array().into_iter().flatten().enumerate() {
        let path = format!("{path}.volumeMounts[{at}]");
        let name = mount["name"].as_str().unwrap_or_default();
        if !volumes.iter().any(|volume| volume["name"] == name) || name.is_empty() {
            report.not_found(format!("{path}.name"), &name.into());
        }
        let place = mount["mountPath"].as_str().unwrap_or_default();
        if !places.insert(place) {
            report.invalid(format!("{path}.mountPath"), &mount["mountPath"], "must be unique");
        }
    }
}

pub(super) fn check_resources(report: &mut Report<'_>, resources: &Value, path: &str) {
    for list in ["limits", "requests"] {
        for (name, amount) in resources[list].as_object().into_iter().flatten() {
            let path = format!("{path}.{list}[{name}]");
            check_resource_name(report, name, &path);
            if quantity_in_nanos(amount).is_some_and(|amount| amount < 0) {
                report.invalid(path, amount, "must be greater than or equal to 0");
            }
        }
    }
    for (name, request) in resources["requests"].as_object().into_iter().flatten() {
        let limit = &resources["limits"][name.as_str()];
        let is_more = quantity_in_nanos(request).zip(quantity_in_nanos(limit)).is_some_and(|(more, less)| more > less);
        if is_more {
            let shown = limit.as_str().unwrap_or_default();
            let detail = format!("must be less than or equal to {name} limit of {shown}");
            report.invalid(format!("{path}.requests"), request, &detail);
        }
    }
}

/// Checks the name of an amount that a container may ask for.
pub(super) fn check_resource_name(report: &mut Report<'_>, name: &str, path: &str) {
    if !is_qualified(name) {
        report.qualified(path.to_owned(), &name.into());
    } else if !name.contains('/') && !RESOURCES.contains(&name) && !name.starts_with("hugepages-") {
        report.invalid(path, &name.into(), "must be a standard resource type or fully qualified");
        report.invalid(path, &name.into(), "must be a standard resource for containers");
    }
}

fn check_probe(report: &mut Report<'_>, probe: &Value, path: &str) {
    if !probe.is_object() {
        return;
    }
    check_handler(report, probe, path);
    for name in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"] {
        if probe[name].as_i64().is_some_and(|number| number < 0) {
            report.invalid(format!("{path}.{name}"), &probe[name], "must be greater than or equal to 0");
        }
    }
    let grace = &probe["terminationGracePeriodSeconds"];
    if grace.as_i64().is_some_and(|seconds| seconds <= 0) {
        report.invalid(format!("{path}.terminationGracePeriodSeconds"), grace, "must be greater than 0");
    }
    if !path.contains("readinessProbe") && probe["successThreshold"].as_i64().is_some_and(|count| count != 1) {
        report.invalid(format!("{path}.successThreshold"), &probe["successThreshold"], "must be 1");
    }
}

fn check_handler(report: &mut Report<'_>, holder: &Value, path: &str) {
    let given: Vec<&str> = HANDLERS.into_iter().filter(|name| holder[*name].is_object()).collect();
    for name in given.iter().skip(1) {
        report.forbidden(format!("{path}.{name}"), "may not specify more than 1 handler type");
    }
    let Some(name) = given.first() else { return report.required(path, "must specify a handler type") };
    let (handler, path) = (&holder[*name], format!("{path}.{name}"));
    match *name {
        "exec" if handler["command"].as_array().is_none_or(Vec::is_empty) => {
            report.required(format!("{path}.command"), "");
        }
        "httpGet" => {
            if handler["path"].as_str().is_none_or(str::is_empty) {
                report.required(format!("{path}.path"), "");
            }
            report.port_or_name(format!("{path}.port"), &handler["port"]);
        }
        "tcpSocket" => report.port_or_name(format!("{path}.port"), &handler["port"]),
        "grpc" => report.port(format!("{path}.port"), &handler["port"]),
        _ => {}
    }
}
