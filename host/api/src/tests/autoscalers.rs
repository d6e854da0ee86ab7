//! Autoscalers in `autoscaling/v1` and `autoscaling/v2`.

use super::*;

const V1: &str = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
const V2: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";

#[tokio::test]
async fn an_autoscaler_is_one_resource_in_both_versions() {
    let server = Server::with_built_in().await;
    let spec = json!({
        "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" }, "maxReplicas": 5, "targetCPUUtilizationPercentage": 60,
    });
    let document = json!({ "apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": { "name": "web" }, "spec": spec });
    let created = server.ask("POST", V1, &document).await;
    assert_eq!((created.code, &created.body["apiVersion"]), (201, &json!("autoscaling/v1")), "{}", created.body);
    assert_eq!(created.body["spec"]["targetCPUUtilizationPercentage"], 60);
    let stored = server.get(&format!("{V2}/web")).await;
    let target = &stored["spec"]["metrics"][0]["resource"]["target"];
    assert_eq!(*target, json!({ "type": "Utilization", "averageUtilization": 60 }));
    let merge = "application/merge-patch+json";
    let patch = json!({ "spec": { "targetCPUUtilizationPercentage": 70 } }).to_string();
    let patched = answer(server.send("PATCH", &format!("{V1}/web"), merge, &patch).await).await;
    assert_eq!(
        (patched.code, &patched.body["spec"]["targetCPUUtilizationPercentage"]),
        (200, &json!(70)),
        "{}",
        patched.body
    );
    let metric = json!({ "type": "Pods", "pods": { "metric": { "name": "p" }, "target": { "type": "AverageValue", "averageValue": "3" } } });
    let patch = json!({ "spec": { "metrics": [metric] } }).to_string();
    let patched = answer(server.send("PATCH", &format!("{V2}/web"), merge, &patch).await).await;
    assert_eq!(patched.code, 200, "{}", patched.body);
    let list = server.get(V1).await;
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("HorizontalPodAutoscalerList"), &json!("autoscaling/v1")));
    let annotation = &list["items"][0]["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/metrics"];
    assert!(annotation.as_str().is_some_and(|text| text.contains("\"metricName\":\"p\"")), "{list}");
    // An update with the annotation keeps the metric.
    let mut document = list["items"][0].clone();
    document["spec"]["maxReplicas"] = 9.into();
    let updated = server.ask("PUT", &format!("{V1}/web"), &document).await;
    assert_eq!(updated.code, 200, "{}", updated.body);
    let stored = server.get(&format!("{V2}/web")).await;
    assert_eq!((&stored["spec"]["metrics"], &stored["spec"]["maxReplicas"]), (&json!([metric]), &json!(9)));
}

#[tokio::test]
async fn both_versions_of_autoscalers_are_discovered_and_v2_is_preferred() {
    let server = Server::with_built_in().await;
    let group = server.get("/apis/autoscaling").await;
    assert_eq!(group["preferredVersion"]["version"], "v2");
    for version in ["v1", "v2"] {
        let resources = server.get(&format!("/apis/autoscaling/{version}")).await;
        assert_eq!(resources["resources"][0]["name"], "horizontalpodautoscalers", "{version}");
    }
}
