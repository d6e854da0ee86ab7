//! Autoscalers and disruption budgets.

use serde_json::{Value, json};

use super::defaults::{default, object_at};
use super::report::Report;

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
    let target = &spec["scaleTargetRef"];
    for name in ["kind", "name"] {
        if target[name].as_str().is_none_or(str::is_empty) {
            report.required(format!("spec.scaleTargetRef.{name}"), "");
        }
    }
    let version = target["apiVersion"].as_str().unwrap_or_default();
    let detail = match version.split('/').collect::<Vec<_>>()[..] {
        [group, _] if !group.is_empty() => None,
        [_] | [_, _] => Some("apiVersion must specify API group".to_owned()),
        _ => Some(format!("unexpected GroupVersion string: {version}")),
    };
    if let Some(detail) = detail {
        report.invalid("spec.scaleTargetRef.apiVersion", &version.into(), &detail);
    }
    for (at, metric) in spec["metrics"].as_array().into_iter().flatten().enumerate() {
        check_metric(report, metric, &format!("spec.metrics[{at}]"));
    }
    let is_outside = |metric: &Value| metric["type"] == "Object" || metric["type"] == "External";
    if least == 0 && !spec["metrics"].as_array().into_iter().flatten().any(is_outside) {
        let detail = "must specify at least one Object or External metric to support scaling to zero replicas";
        report.forbidden("spec.metrics", detail);
    }
    for direction in ["scaleUp", "scaleDown"] {
        let window = &spec["behavior"][direction]["stabilizationWindowSeconds"];
        if window.as_i64().is_some_and(|seconds| !(0..=WINDOW_SECONDS_MAX).contains(&seconds)) {
            let detail = format!("must be between 0 and {WINDOW_SECONDS_MAX}, inclusive");
            report.invalid(format!("spec.behavior.{direction}.stabilizationWindowSeconds"), window, &detail);
        }
        let policies = spec["behavior"][direction]["policies"].as_array();
        for (at, policy) in policies.into_iter().flatten().enumerate() {
            let kind = policy["type"].as_str().unwrap_or_default();
            if !["Percent", "Pods"].contains(&kind) {
                let path = format!("spec.behavior.{direction}.policies[{at}].type");
                report.unsupported(path, &kind.into(), &["Percent", "Pods"]);
            }
            for name in ["value", "periodSeconds"] {
                if policy[name].as_i64().unwrap_or(0) <= 0 {
                    let path = format!("spec.behavior.{direction}.policies[{at}].{name}");
                    report.invalid(path, &policy[name].as_i64().unwrap_or(0).into(), "must be greater than zero");
                }
            }
            if policy["periodSeconds"].as_i64().is_some_and(|seconds| seconds > PERIOD_SECONDS_MAX) {
                let path = format!("spec.behavior.{direction}.policies[{at}].periodSeconds");
                let detail = format!("must be less than or equal to {PERIOD_SECONDS_MAX}");
                report.invalid(path, &policy["periodSeconds"], &detail);
            }
        }
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
    let kind = metric["type"].as_str().unwrap_or_default();
    if kind.is_empty() {
        report.required(format!("{path}.type"), "must specify a metric source type");
    }
    let present = SOURCES.iter().map(|(_, field)| *field).filter(|field| metric[*field].is_object());
    let present: Vec<&str> = present.collect();
    if let Some(source) = present.first() {
        check_target(report, source, &metric[*source]["target"], &format!("{path}.{source}.target"));
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

fn check_target(report: &mut Report<'_>, source: &str, target: &Value, path: &str) {
    const TYPES: [&str; 3] = ["Utilization", "Value", "AverageValue"];
    let kind = target["type"].as_str().unwrap_or_default();
    if kind.is_empty() {
        report.required(format!("{path}.type"), "must specify a metric target type");
    }
    if !TYPES.contains(&kind) {
        let detail = "must be either Utilization, Value, or AverageValue";
        report.invalid(format!("{path}.type"), &kind.into(), detail);
    }
    if source == "resource" && target["averageUtilization"].is_null() && target["averageValue"].is_null() {
        let detail = "must set either a target raw value or a target utilization";
        report.required(format!("{path}.averageUtilization"), detail);
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
    report.labels("spec.selector.matchLabels", &spec["selector"]["matchLabels"]);
    for name in ["minAvailable", "maxUnavailable"] {
        report.count_or_part(&format!("spec.{name}"), &spec[name]);
    }
}
