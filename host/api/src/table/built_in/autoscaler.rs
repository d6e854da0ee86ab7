//! The columns of a `HorizontalPodAutoscaler`, as kubectl shows them.
//!
//! Source: `printHorizontalPodAutoscaler` in `pkg/printers/internalversion/printers.go` of Kubernetes.

use serde_json::Value;

use crate::table::TableColumn;
use crate::table::cells::{elements, or_none, plain, text};
use crate::table::columns::{age, column, computed, count};

/// Targets that a cell shows.
const TARGETS_MAX: usize = 2;

/// Returns the columns of autoscalers, besides the name.
pub(super) fn columns() -> Vec<TableColumn> {
    let reference = |autoscaler: &Value| {
        let part = |name| text(autoscaler, name);
        format!("{}/{}", part("/spec/scaleTargetRef/kind"), part("/spec/scaleTargetRef/name")).into()
    };
    vec![
        column("Reference", "string", computed(reference)),
        column("Targets", "string", computed(targets)),
        column("MinPods", "string", computed(least)),
        column("MaxPods", "string", count("/spec/maxReplicas")),
        column("Replicas", "string", count("/status/currentReplicas")),
        age(),
    ]
}

fn least(autoscaler: &Value) -> Value {
    autoscaler.pointer("/spec/minReplicas").map_or_else(|| "<unset>".to_owned(), plain).into()
}

/// Returns the current and the wanted value of each metric: `cpu: 50%/80%`.
fn targets(autoscaler: &Value) -> Value {
    let metrics: Vec<&Value> = elements(autoscaler, "/spec/metrics").collect();
    let statuses: Vec<&Value> = elements(autoscaler, "/status/currentMetrics").collect();
    let shown = metrics.iter().enumerate().map(|(at, metric)| target(metric, statuses.get(at).copied()));
    let shown = shown.take(TARGETS_MAX).collect::<Vec<_>>().join(", ");
    match metrics.len().saturating_sub(TARGETS_MAX) {
        0 => or_none(&shown),
        more => format!("{shown} + {more} more...").into(),
    }
}

fn target(metric: &Value, status: Option<&Value>) -> String {
    let source = match text(metric, "/type") {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let wanted = &metric[source]["target"];
    let current = |field: &str| {
        let value = status.and_then(|status| status[source]["current"][field].as_str());
        value.unwrap_or("<unknown>").to_owned()
    };
    let average = wanted["averageValue"].as_str();
    if let Some(name) = metric[source]["name"].as_str() {
        let percent = |value: &Value| value.as_u64().map(|percent| format!("{percent}%"));
        return match average {
            Some(average) => format!("{name}: {}/{average}", current("averageValue")),
            None => {
                let now = status.and_then(|status| percent(&status[source]["current"]["averageUtilization"]));
                let now = now.unwrap_or_else(|| "<unknown>".to_owned());
                format!(
                    "{name}: {now}/{}",
                    percent(&wanted["averageUtilization"]).unwrap_or_else(|| "<auto>".to_owned())
                )
            }
        };
    }
    match average {
        Some(average) if source == "pods" => format!("{}/{average}", current("averageValue")),
        Some(average) => format!("{}/{average} (avg)", current("averageValue")),
        None => format!("{}/{}", current("value"), text(wanted, "/value")),
    }
}
