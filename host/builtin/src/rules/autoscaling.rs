//! Autoscalers and disruption budgets.

use homeostat_store::schema::quantity_in_nanos;
use serde_json::{Value, json};

use super::defaults::{default, object_at};
use super::report::{Report, items, text};
use super::resource_names::check_container_resource;

/// Longest window over which an autoscaler looks back.
const WINDOW_SECONDS_MAX: i64 = 3600;
/// The longest period of a policy, in seconds.
const PERIOD_SECONDS_MAX: i64 = 1800;

pub(super) fn autoscaler_defaults(autoscaler: &mut Value, _old: Option<&Value>) {
    let Some(spec) = object_at(autoscaler, "/spec") else { return };
    let target = json!({ "type": "Utilization", "averageUtilization": 80 });
    default(spec, "metrics", json!([{ "type": "Resource", "resource": { "name": "cpu", "target": target } }]));
    let Some(behavior) = spec.get_mut("behavior").and_then(Value::as_object_mut) else { return };
    let policy = |kind: &str, value: u32| json!({ "type": kind, "value": value, "periodSeconds": 15 });
    let up = json!({
        "stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [policy("Pods", 4), policy("Percent", 100)],
    });
    let down = json!({ "selectPolicy": "Max", "policies": [policy("Percent", 100)] });
    for (name, rules) in [("scaleUp", up), ("scaleDown", down)] {
        let given = behavior.entry(name).or_insert_with(|| json!({}));
        if let (Some(given), Value::Object(rules)) = (given.as_object_mut(), rules) {
            rules.into_iter().for_each(|(name, rule)| default(given, &name, rule));
        }
    }
}

pub(super) fn check_autoscaler(report: &mut Report<'_>) {
    let spec = report.at("/spec");
    let (least, most) = (&spec["minReplicas"], &spec["maxReplicas"]);
    if least.as_i64().is_some_and(|least| least < 1) {
        report.invalid("spec.minReplicas", least, "must be greater than or equal to 1");
    }
    let count = most.as_i64().unwrap_or(0);
    if count == 0 {
        report.required("spec.maxReplicas", "must be set and greater than 0");
    } else if count < 0 {
        report.invalid("spec.maxReplicas", most, "must be greater than 0");
    }
    if least.as_i64().is_some_and(|least| count < least) {
        report.invalid("spec.maxReplicas", &count.into(), "must be greater than or equal to `minReplicas`");
    }
    check_reference(report, &spec["scaleTargetRef"], "spec.scaleTargetRef", true);
    for (at, metric) in spec["metrics"].as_array().into_iter().flatten().enumerate() {
        check_metric(report, metric, &format!("spec.metrics[{at}]"));
    }
    let is_outside = |metric: &Value| metric["type"] == "Object" || metric["type"] == "External";
    if least == 0 && !spec["metrics"].as_array().into_iter().flatten().any(is_outside) {
        let detail = "must specify at least one Object or External metric to support scaling to zero replicas";
        report.forbidden("spec.metrics", detail);
    }
    for direction in ["scaleUp", "scaleDown"] {
        check_scaling(report, &spec["behavior"][direction], &format!("spec.behavior.{direction}"));
    }
}

/// Checks a reference to a resource, of a group if one is needed.
fn check_reference(report: &mut Report<'_>, reference: &Value, path: &str, needs_group: bool) {
    for name in ["kind", "name"] {
        if text(&reference[name]).is_empty() {
            report.required(format!("{path}.{name}"), "");
        } else {
            report.path_segment(&format!("{path}.{name}"), &reference[name]);
        }
    }
    let version = text(&reference["apiVersion"]);
    let detail = match version.split('/').collect::<Vec<_>>()[..] {
        [group, _] if !group.is_empty() => return,
        [_] | [_, _] if !needs_group => return,
        [_] | [_, _] => "apiVersion must specify API group".to_owned(),
        _ => format!("unexpected GroupVersion string: {version}"),
    };
    report.invalid(format!("{path}.apiVersion"), &version.into(), &detail);
}

/// Checks how fast an autoscaler scales in a direction.
fn check_scaling(report: &mut Report<'_>, scaling: &Value, path: &str) {
    if !scaling.is_object() {
        return;
    }
    let window = &scaling["stabilizationWindowSeconds"];
    let fault = match window.as_i64() {
        Some(..0) => Some("must be greater than or equal to zero".to_owned()),
        Some(seconds) if seconds > WINDOW_SECONDS_MAX => {
            Some(format!("must be less than or equal to {WINDOW_SECONDS_MAX}"))
        }
        _ => None,
    };
    if let Some(fault) = fault {
        report.invalid(format!("{path}.stabilizationWindowSeconds"), window, &fault);
    }
    let select = &scaling["selectPolicy"];
    if select.is_string() && !["Disabled", "Max", "Min"].contains(&text(select)) {
        report.unsupported(format!("{path}.selectPolicy"), select, &["Disabled", "Max", "Min"]);
    }
    if scaling["policies"].as_array().is_none_or(Vec::is_empty) {
        report.required(format!("{path}.policies"), "must specify at least one Policy");
    }
    for (at, policy) in items(&scaling["policies"]).iter().enumerate() {
        let path = format!("{path}.policies[{at}]");
        if !["Percent", "Pods"].contains(&text(&policy["type"])) {
            report.unsupported(format!("{path}.type"), &text(&policy["type"]).into(), &["Percent", "Pods"]);
        }
        for name in ["value", "periodSeconds"] {
            if policy[name].as_i64().unwrap_or(0) <= 0 {
                let number = policy[name].as_i64().unwrap_or(0).into();
                report.invalid(format!("{path}.{name}"), &number, "must be greater than zero");
            }
        }
        if policy["periodSeconds"].as_i64().is_some_and(|seconds| seconds > PERIOD_SECONDS_MAX) {
            let detail = format!("must be less than or equal to {PERIOD_SECONDS_MAX}");
            report.invalid(format!("{path}.periodSeconds"), &policy["periodSeconds"], &detail);
        }
    }
    let tolerance = &scaling["tolerance"];
    if quantity_in_nanos(tolerance).is_some_and(|amount| amount < 0) {
        report.invalid(format!("{path}.tolerance"), tolerance, "must be greater than or equal to 0");
    }
}

/// The sources of metrics: the type, and the field with its parameters.
const SOURCES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];

fn check_metric(report: &mut Report<'_>, metric: &Value, path: &str) {
    let kind = text(&metric["type"]);
    if kind.is_empty() {
        report.required(format!("{path}.type"), "must specify a metric source type");
    }
    let present = SOURCES.iter().map(|(_, field)| *field).filter(|field| metric[*field].is_object());
    let present: Vec<&str> = present.collect();
    if let Some(source) = present.first() {
        check_source(report, source, &metric[*source], &format!("{path}.{source}"));
    }
    let wanted = SOURCES.iter().find(|(name, _)| *name == kind).map(|(_, field)| *field);
    match wanted {
        Some(field) if !present.contains(&field) => {
            report.required(format!("{path}.{field}"), "must populate information for the given metric source");
        }
        Some(_) => {}
        None => {
            let supported = ["ContainerResource", "External", "Object", "Pods", "Resource"];
            report.unsupported(format!("{path}.type"), &kind.into(), &supported);
        }
    }
    for field in present.iter().filter(|field| present.len() > 1 && Some(**field) != wanted) {
        report.forbidden(format!("{path}.{field}"), "must populate the given metric source only");
    }
}

/// Checks where the values of a metric come from, and their target.
fn check_source(report: &mut Report<'_>, source: &str, parameters: &Value, path: &str) {
    let (name, target) = (&parameters["name"], &parameters["target"]);
    if source == "object" {
        check_reference(report, &parameters["describedObject"], &format!("{path}.describedObject"), false);
    }
    match (source, text(name)) {
        ("resource" | "containerResource", "") => {
            report.required(format!("{path}.name"), "must specify a resource name");
        }
        ("resource", _) => {}
        ("containerResource", name) => check_container_resource(report, name, &format!("{path}.name")),
        _ => check_metric_name(report, &parameters["metric"], &format!("{path}.metric")),
    }
    if source == "containerResource" {
        match text(&parameters["container"]) {
            "" => report.required(format!("{path}.container"), "must specify a container"),
            _ => report.label(format!("{path}.container"), &parameters["container"]),
        }
    }
    let path = format!("{path}.target");
    check_target(report, target, &path);
    let has = |name: &str| !target[name].is_null();
    let lacking = match source {
        "object" if !has("value") && !has("averageValue") => Some("must set either a target value or averageValue"),
        "external" if !has("value") && !has("averageValue") => {
            Some("must set either a target value for metric or a per-pod target")
        }
        "pods" if !has("averageValue") => Some("must specify a positive target averageValue"),
        _ => None,
    };
    if let Some(detail) = lacking {
        report.required(format!("{path}.averageValue"), detail);
    }
    match source {
        "external" if has("value") && has("averageValue") => {
            report
                .forbidden(format!("{path}.value"), "may not set both a target value for metric and a per-pod target");
        }
        "resource" | "containerResource" if !has("averageUtilization") && !has("averageValue") => {
            let detail = "must set either a target raw value or a target utilization";
            report.required(format!("{path}.averageUtilization"), detail);
        }
        "resource" | "containerResource" if has("averageUtilization") && has("averageValue") => {
            let detail = "may not set both a target raw value and a target utilization";
            report.forbidden(format!("{path}.averageValue"), detail);
        }
        _ => {}
    }
}

fn check_metric_name(report: &mut Report<'_>, metric: &Value, path: &str) {
    match text(&metric["name"]) {
        "" => report.required(format!("{path}.name"), "must specify a metric name"),
        _ => report.path_segment(&format!("{path}.name"), &metric["name"]),
    }
}

fn check_target(report: &mut Report<'_>, target: &Value, path: &str) {
    const TYPES: [&str; 3] = ["Utilization", "Value", "AverageValue"];
    let kind = text(&target["type"]);
    if kind.is_empty() {
        report.required(format!("{path}.type"), "must specify a metric target type");
    }
    if !TYPES.contains(&kind) {
        let detail = "must be either Utilization, Value, or AverageValue";
        report.invalid(format!("{path}.type"), &kind.into(), detail);
    }
    for name in ["value", "averageValue"] {
        if quantity_in_nanos(&target[name]).is_some_and(|amount| amount <= 0) {
            report.invalid(format!("{path}.{name}"), &target[name], "must be positive");
        }
    }
    if target["averageUtilization"].as_i64().is_some_and(|percent| percent < 1) {
        report.invalid(format!("{path}.averageUtilization"), &target["averageUtilization"], "must be greater than 0");
    }
}

pub(super) fn check_disruption_budget(report: &mut Report<'_>) {
    let spec = report.at("/spec");
    if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
        report.invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set");
    }
    report.selector("spec.selector", &spec["selector"]);
    for name in ["minAvailable", "maxUnavailable"] {
        report.count_or_part(&format!("spec.{name}"), &spec[name]);
    }
}
