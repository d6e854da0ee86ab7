//! A `HorizontalPodAutoscaler` in `autoscaling/v1`, which has no fields for most metrics: annotations have what v1 lacks.
//! The stored version is v2.
//!
//! Source: `pkg/apis/autoscaling/v1/conversion.go` of Kubernetes.

use homeostat_store::Kind;
use serde_json::{Map, Value, json};

/// The annotations: of metrics, of their current values, of conditions, and of the behavior.
const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// The share of the processor time in percent, if an autoscaler in v1 names no metric.
const UTILIZATION: u64 = 80;

/// The fields that have the same names in both versions.
const SPEC: [&str; 3] = ["scaleTargetRef", "minReplicas", "maxReplicas"];
const STATUS: [&str; 4] = ["observedGeneration", "lastScaleTime", "currentReplicas", "desiredReplicas"];

/// The fields of one type of metric: the JSON pointer in v2, and the name in v1.
type Fields = &'static [(&'static str, &'static str)];

/// The types of metrics, by the names of their fields.
const TARGETS: [(&str, Fields); 5] = [
    (
        "object",
        &[
            ("/describedObject", "target"),
            ("/metric/name", "metricName"),
            ("/metric/selector", "selector"),
            ("/target/value", "targetValue"),
            ("/target/averageValue", "averageValue"),
        ],
    ),
    (
        "pods",
        &[
            ("/metric/name", "metricName"),
            ("/metric/selector", "selector"),
            ("/target/averageValue", "targetAverageValue"),
        ],
    ),
    (
        "resource",
        &[
            ("/name", "name"),
            ("/target/averageUtilization", "targetAverageUtilization"),
            ("/target/averageValue", "targetAverageValue"),
        ],
    ),
    (
        "containerResource",
        &[
            ("/name", "name"),
            ("/container", "container"),
            ("/target/averageUtilization", "targetAverageUtilization"),
            ("/target/averageValue", "targetAverageValue"),
        ],
    ),
    (
        "external",
        &[
            ("/metric/name", "metricName"),
            ("/metric/selector", "metricSelector"),
            ("/target/value", "targetValue"),
            ("/target/averageValue", "targetAverageValue"),
        ],
    ),
];

/// The current values of the types of metrics.
const CURRENT: [(&str, Fields); 5] = [
    (
        "object",
        &[
            ("/describedObject", "target"),
            ("/metric/name", "metricName"),
            ("/metric/selector", "selector"),
            ("/current/value", "currentValue"),
            ("/current/averageValue", "averageValue"),
        ],
    ),
    (
        "pods",
        &[
            ("/metric/name", "metricName"),
            ("/metric/selector", "selector"),
            ("/current/averageValue", "currentAverageValue"),
        ],
    ),
    (
        "resource",
        &[
            ("/name", "name"),
            ("/current/averageUtilization", "currentAverageUtilization"),
            ("/current/averageValue", "currentAverageValue"),
        ],
    ),
    (
        "containerResource",
        &[
            ("/name", "name"),
            ("/container", "container"),
            ("/current/averageUtilization", "currentAverageUtilization"),
            ("/current/averageValue", "currentAverageValue"),
        ],
    ),
    (
        "external",
        &[
            ("/metric/name", "metricName"),
            ("/metric/selector", "metricSelector"),
            ("/current/value", "currentValue"),
            ("/current/averageValue", "currentAverageValue"),
        ],
    ),
];

/// Returns the kind in v1.
pub fn kind() -> Kind {
    Kind::new("autoscaling", "v1", "HorizontalPodAutoscaler")
}

/// Returns the kind in v2, which is stored.
pub fn stored_kind() -> Kind {
    Kind::new("autoscaling", "v2", "HorizontalPodAutoscaler")
}

/// Converts a stored autoscaler to v1.
pub fn to_v1(mut document: Value) -> Value {
    let Some(fields) = document.as_object_mut() else { return document };
    fields.insert("apiVersion".to_owned(), kind().api_version().into());
    let (spec, status) = (fields.remove("spec").unwrap_or_default(), fields.remove("status").unwrap_or_default());
    let metrics = spec["metrics"].as_array().cloned().unwrap_or_default();
    let utilization =
        |metric: &Value| processor(metric).and_then(|cpu| cpu["target"].get("averageUtilization")).cloned();
    let mut simple = kept(&spec, &SPEC);
    if let Some(percent) = metrics.iter().find_map(utilization) {
        simple.insert("targetCPUUtilizationPercentage".to_owned(), percent);
    }
    let others = metrics.iter().filter(|metric| utilization(metric).is_none());
    let others: Vec<Value> = others.map(|metric| metric_to_v1(metric, &TARGETS)).collect();
    let current = status["currentMetrics"].as_array().cloned().unwrap_or_default();
    let mut simple_status = kept(&status, &STATUS);
    let used = |metric: &Value| processor(metric).and_then(|cpu| cpu["current"].get("averageUtilization")).cloned();
    if let Some(percent) = current.iter().rev().find_map(used) {
        simple_status.insert("currentCPUUtilizationPercentage".to_owned(), percent);
    }
    let current: Vec<Value> = current.iter().map(|metric| metric_to_v1(metric, &CURRENT)).collect();
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    fields.insert("spec".to_owned(), simple.into());
    if !status.is_null() {
        // In v1 they are never left out.
        for name in ["currentReplicas", "desiredReplicas"] {
            simple_status.entry(name).or_insert(json!(0));
        }
        fields.insert("status".to_owned(), simple_status.into());
    }
    let behavior =
        spec.get("behavior").filter(|behavior| !behavior.is_null()).map(|it| in_case(it, char::to_ascii_uppercase));
    let lists = [(METRICS, others), (CURRENT_METRICS, current), (CONDITIONS, conditions)];
    let lists = lists.into_iter().filter(|(_, list)| !list.is_empty()).map(|(name, list)| (name, Value::from(list)));
    annotate(fields, lists.chain(behavior.map(|behavior| (BEHAVIOR, behavior))));
    document
}

/// Converts an autoscaler in v1 to the stored version. An annotation that cannot be read is dropped.
pub fn to_v2(mut document: Value) -> Value {
    let Some(fields) = document.as_object_mut() else { return document };
    fields.insert("apiVersion".to_owned(), stored_kind().api_version().into());
    let annotations =
        fields.get("metadata").and_then(|metadata| metadata.get("annotations")).cloned().unwrap_or_default();
    let read = |name: &str| serde_json::from_str::<Value>(annotations.get(name)?.as_str()?).ok();
    let list = |name: &str| read(name).and_then(|found| found.as_array().cloned());
    let (spec, status) = (fields.remove("spec").unwrap_or_default(), fields.remove("status").unwrap_or_default());
    let mut whole = kept(&spec, &SPEC);
    let mut metrics: Vec<Value> =
        list(METRICS).unwrap_or_default().iter().map(|metric| metric_to_v2(metric, &TARGETS, "target")).collect();
    let percent = spec.get("targetCPUUtilizationPercentage").filter(|percent| !percent.is_null()).cloned();
    let percent = percent.or_else(|| metrics.is_empty().then(|| UTILIZATION.into()));
    metrics.extend(percent.map(|percent| {
        let target = json!({ "type": "Utilization", "averageUtilization": percent });
        json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } })
    }));
    whole.insert("metrics".to_owned(), metrics.into());
    if let Some(behavior) = read(BEHAVIOR).filter(|behavior| behavior.as_object().is_some_and(|it| !it.is_empty())) {
        whole.insert("behavior".to_owned(), in_case(&behavior, char::to_ascii_lowercase));
    }
    let mut whole_status = kept(&status, &STATUS);
    let current = list(CURRENT_METRICS)
        .map(|current| current.iter().map(|metric| metric_to_v2(metric, &CURRENT, "current")).collect::<Vec<Value>>());
    let used = status.get("currentCPUUtilizationPercentage").filter(|percent| !percent.is_null()).map(|percent| {
        let current = json!({ "averageUtilization": percent });
        vec![json!({ "type": "Resource", "resource": { "name": "cpu", "current": current } })]
    });
    if let Some(current) = current.or(used) {
        whole_status.insert("currentMetrics".to_owned(), current.into());
    }
    if let Some(conditions) = list(CONDITIONS) {
        whole_status.insert("conditions".to_owned(), conditions.into());
    }
    fields.insert("spec".to_owned(), whole.into());
    if !status.is_null() {
        fields.insert("status".to_owned(), whole_status.into());
    }
    annotate(fields, []);
    document
}

/// Returns a metric of the processor time.
fn processor(metric: &Value) -> Option<&Value> {
    let is_meant = metric["type"] == "Resource" && metric["resource"]["name"] == "cpu";
    is_meant.then(|| &metric["resource"])
}

fn kept(from: &Value, names: &[&str]) -> Map<String, Value> {
    let fields = from.as_object().into_iter().flatten().filter(|(name, _)| names.contains(&name.as_str()));
    fields.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Replaces the annotations of the conversion by these.
fn annotate(fields: &mut Map<String, Value>, made: impl IntoIterator<Item = (&'static str, Value)>) {
    let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
    let Some(metadata) = metadata.as_object_mut() else { return };
    let mut annotations =
        metadata.remove("annotations").and_then(|found| found.as_object().cloned()).unwrap_or_default();
    for name in [METRICS, CURRENT_METRICS, CONDITIONS, BEHAVIOR] {
        annotations.remove(name);
    }
    annotations.extend(made.into_iter().map(|(name, value)| (name.to_owned(), value.to_string().into())));
    if !annotations.is_empty() {
        metadata.insert("annotations".to_owned(), annotations.into());
    }
}

fn metric_to_v1(metric: &Value, types: &[(&str, Fields)]) -> Value {
    let mut converted = json!({ "type": metric["type"] });
    for (name, fields) in types {
        let Some(source) = metric.get(*name).filter(|source| source.is_object()) else { continue };
        let moved =
            fields.iter().filter_map(|(pointer, field)| Some(((*field).to_owned(), source.pointer(pointer)?.clone())));
        let mut moved: Map<String, Value> = moved.collect();
        if *name == "object" && fields.iter().any(|(_, field)| *field == "targetValue") {
            // The field has no form for "none".
            moved.entry("targetValue").or_insert_with(|| "0".into());
        }
        converted[*name] = moved.into();
    }
    converted
}

/// Converts a metric. `part` is the object of its values: `target` or `current`.
fn metric_to_v2(metric: &Value, types: &[(&str, Fields)], part: &str) -> Value {
    let mut converted = json!({ "type": metric["type"] });
    for (name, fields) in types {
        let Some(source) = metric.get(*name).filter(|source| source.is_object()) else { continue };
        let mut moved = json!({ part: {} });
        for (pointer, field) in *fields {
            let Some(value) = source.get(*field).filter(|value| !value.is_null()) else { continue };
            match pointer.trim_start_matches('/').split_once('/') {
                Some((object, inner)) => moved[object][inner] = value.clone(),
                None => moved[pointer.trim_start_matches('/')] = value.clone(),
            }
        }
        if part == "target" {
            let target = &mut moved["target"];
            let has = |field: &str| target.get(field).is_some();
            let of = match *name {
                "object" if has("averageValue") => "AverageValue",
                "object" => "Value",
                "external" if has("value") => "Value",
                "resource" | "containerResource" if has("averageUtilization") => "Utilization",
                _ => "AverageValue",
            };
            if *name == "object" && of == "AverageValue" && target["value"] == "0" {
                target.as_object_mut().and_then(|target| target.remove("value"));
            }
            target["type"] = of.into();
        }
        converted[*name] = moved;
    }
    converted
}

/// Changes the first letter of each name. The annotation of the behavior has the names of a Go struct.
fn in_case(value: &Value, case: fn(&char) -> char) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| {
                let mut letters = name.chars();
                let first = letters.next().map(|letter| case(&letter));
                (first.into_iter().chain(letters).collect::<String>(), in_case(value, case))
            });
            Value::Object(fields.collect())
        }
        Value::Array(items) => items.iter().map(|item| in_case(item, case)).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests;
