//! Autoscalers and disruption budgets.

use serde_json::{Value, json};

use super::defaults::{default, object_at};
use super::report::Report;

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
    if target["apiVersion"].as_str().is_none_or(str::is_empty) {
        let detail = "apiVersion must specify API group";
        report.invalid("spec.scaleTargetRef.apiVersion", &"".into(), detail);
    }
    for (at, metric) in spec["metrics"].as_array().into_iter().flatten().enumerate() {
        check_metric(report, metric, &format!("spec.metrics[{at}]"));
    }
}

fn check_metric(report: &mut Report<'_>, metric: &Value, path: &str) {
    const TARGETS: [&str; 3] = ["Utilization", "Value", "AverageValue"];
    let source = match metric["type"].as_str().unwrap_or_default() {
        "ContainerResource" => "containerResource",
        "External" => "external",
        "Object" => "object",
        "Pods" => "pods",
        "Resource" => "resource",
        _ => return,
    };
    if !metric[source].is_object() {
        let detail = "must populate information for the given metric source";
        return report.required(format!("{path}.{source}"), detail);
    }
    let (target, path) = (&metric[source]["target"], format!("{path}.{source}.target"));
    let kind = target["type"].as_str().unwrap_or_default();
    if kind.is_empty() {
        report.required(format!("{path}.type"), "must specify a metric target type");
    }
    if !TARGETS.contains(&kind) {
        let detail = "must be either Utilization, Value, or AverageValue";
        report.invalid(format!("{path}.type"), &kind.into(), detail);
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
    for name in ["minAvailable", "maxUnavailable"] {
        check_count(report, &spec[name], &format!("spec.{name}"));
    }
}

/// Checks a count or a percentage.
fn check_count(report: &mut Report<'_>, value: &Value, path: &str) {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match value {
        Value::String(text) if !text.strip_suffix('%').is_some_and(digits) => {
            let detail = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or \
                '93%', regex used for validation is '[0-9]+%')";
            report.invalid(path, value, detail);
        }
        Value::String(text) if text.trim_end_matches('%').parse::<u64>().is_ok_and(|percent| percent > 100) => {
            report.invalid(path, value, "must not be greater than 100%");
        }
        Value::Number(number) if number.as_i64().is_some_and(|count| count < 0) => {
            report.invalid(path, value, "must be greater than or equal to 0");
        }
        _ => {}
    }
}
