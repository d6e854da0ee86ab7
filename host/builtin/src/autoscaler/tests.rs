use serde_json::json;

use super::{BEHAVIOR, CONDITIONS, METRICS, to_v1, to_v2};

#[test]
fn an_autoscaler_survives_the_way_to_v1_and_back() {
    let metrics = json!([
        { "type": "Pods", "pods": { "metric": { "name": "p" }, "target": { "type": "AverageValue", "averageValue": "5" } } },
        { "type": "Object", "object": {
            "describedObject": { "kind": "Service", "name": "s" }, "metric": { "name": "o", "selector": { "matchLabels": { "a": "b" } } },
            "target": { "type": "Value", "value": "7" },
        } },
        { "type": "External", "external": { "metric": { "name": "e" }, "target": { "type": "AverageValue", "averageValue": "3" } } },
        { "type": "ContainerResource", "containerResource": {
            "name": "memory", "container": "c", "target": { "type": "Utilization", "averageUtilization": 60 },
        } },
        { "type": "Resource", "resource": { "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 50 } } },
    ]);
    let current = json!([{ "type": "Resource", "resource": { "name": "cpu", "current": { "averageValue": "9", "averageUtilization": 4 } } }]);
    let stored = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": { "name": "web", "annotations": { "own": "stays" } },
        "spec": {
            "scaleTargetRef": { "kind": "Deployment", "name": "web" }, "minReplicas": 1, "maxReplicas": 9, "metrics": metrics,
            "behavior": { "scaleUp": { "selectPolicy": "Max", "policies": [{ "type": "Pods", "value": 4, "periodSeconds": 15 }] } },
        },
        "status": {
            "currentReplicas": 1, "desiredReplicas": 2, "currentMetrics": current,
            "conditions": [{ "type": "ScalingActive", "status": "True" }],
        },
    });
    let shown = to_v1(stored.clone());
    assert_eq!(shown["apiVersion"], "autoscaling/v1");
    assert_eq!(shown["spec"]["targetCPUUtilizationPercentage"], 50);
    assert_eq!(shown["status"]["currentCPUUtilizationPercentage"], 4);
    assert!(shown["spec"].get("metrics").is_none() && shown["spec"].get("behavior").is_none());
    let annotation = |name: &str| shown["metadata"]["annotations"][name].as_str().unwrap_or_default().to_owned();
    assert!(annotation(METRICS).contains("\"targetAverageValue\":\"5\""), "{}", annotation(METRICS));
    assert!(annotation(BEHAVIOR).contains("\"PeriodSeconds\":15") && annotation(CONDITIONS).contains("ScalingActive"));
    assert_eq!(to_v2(shown), stored);
}

#[test]
fn an_autoscaler_in_v1_without_a_metric_is_for_the_processor_time() {
    let document = json!({ "apiVersion": "autoscaling/v1", "metadata": {}, "spec": { "maxReplicas": 3 } });
    let metric = &to_v2(document)["spec"]["metrics"][0]["resource"];
    assert_eq!(*metric, json!({ "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 80 } }));
    let document = json!({ "metadata": { "annotations": { METRICS: "{", "own": "1" } }, "spec": { "targetCPUUtilizationPercentage": 7 } });
    let converted = to_v2(document);
    assert_eq!(converted["spec"]["metrics"].as_array().map(Vec::len), Some(1));
    assert_eq!(converted["metadata"]["annotations"], json!({ "own": "1" }));
}
