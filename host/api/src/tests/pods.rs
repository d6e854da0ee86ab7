//! Bindings and evictions of pods.

use super::*;

const PODS: &str = "/api/v1/namespaces/default/pods";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
const MERGE: &str = "application/merge-patch+json";

async fn with_pod(name: &str) -> Server {
    let server = Server::with_built_in().await;
    create(&server, name).await;
    server
}

async fn create(server: &Server, name: &str) {
    let metadata = json!({ "name": name, "labels": { "app": "web" } });
    let spec = json!({ "containers": [{ "name": "c", "image": "i" }] });
    let created = server.ask("POST", PODS, &json!({ "metadata": metadata, "spec": spec })).await;
    assert_eq!(created.code, 201, "{}", created.body);
}

fn binding(name: &str, node: &str) -> Value {
    let metadata = json!({ "name": name, "annotations": { "by": "us" } });
    json!({ "apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": { "kind": "Node", "name": node } })
}

#[tokio::test]
async fn a_binding_gives_a_pod_its_node_once() {
    let server = with_pod("a").await;
    let path = format!("{PODS}/a/binding");
    let bound = server.ask("POST", &path, &binding("a", "n1")).await;
    assert_eq!((bound.code, &bound.body["status"]), (201, &json!("Success")), "{}", bound.body);
    let pod = server.get(&format!("{PODS}/a")).await;
    assert_eq!((&pod["spec"]["nodeName"], &pod["metadata"]["annotations"]["by"]), (&json!("n1"), &json!("us")));
    assert_eq!(pod["metadata"]["generation"], 1, "a binding does not count");
    let scheduled = &pod["status"]["conditions"][0];
    assert_eq!((&scheduled["type"], &scheduled["status"]), (&json!("PodScheduled"), &json!("True")));
    let again = server.ask("POST", &path, &binding("a", "n2")).await;
    let words = "Operation cannot be fulfilled on pods/binding \"a\": pod a is already assigned to node \"n1\"";
    assert_eq!((again.code, &again.body["message"]), (409, &json!(words)));
    assert_eq!(server.ask("POST", &path, &binding("b", "n1")).await.code, 400);
    assert_eq!(server.ask("POST", &format!("{PODS}/x/binding"), &binding("x", "n1")).await.code, 404);
    create(&server, "b").await;
    let bound = server.ask("POST", "/api/v1/namespaces/default/bindings", &binding("b", "n2")).await;
    assert_eq!(bound.code, 201, "{}", bound.body);
    assert_eq!(server.get(&format!("{PODS}/b")).await["spec"]["nodeName"], "n2");
    let image = json!({ "spec": { "containers": [{ "name": "c", "image": "other:1" }] } }).to_string();
    let strategic = "application/strategic-merge-patch+json";
    let changed = answer(server.send("PATCH", &format!("{PODS}/b"), strategic, &image).await).await;
    assert_eq!((changed.code, &changed.body["metadata"]["generation"]), (200, &json!(2)), "{}", changed.body);
}

#[tokio::test]
async fn a_patch_gives_no_pod_a_node() {
    let server = with_pod("a").await;
    let patch = async |node: &str| {
        let body = json!({ "spec": { "nodeName": node } }).to_string();
        answer(server.send("PATCH", &format!("{PODS}/a"), MERGE, &body).await).await
    };
    let refused = patch("n1").await;
    assert_eq!(
        (refused.code, &refused.body["details"]["causes"][0]["field"]),
        (422, &json!("spec")),
        "{}",
        refused.body
    );
    server.ask("POST", &format!("{PODS}/a/binding"), &binding("a", "n1")).await;
    assert_eq!(patch("n2").await.code, 422);
}

#[tokio::test]
async fn an_eviction_takes_one_of_the_allowed_disruptions() {
    let server = with_pod("a").await;
    let evict = async |name: &str| {
        let eviction = json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": name } });
        server.ask("POST", &format!("{PODS}/{name}/eviction"), &eviction).await
    };
    let set_status = async |path: String, status: Value| {
        let body = json!({ "status": status }).to_string();
        let patched = answer(server.send("PATCH", &format!("{path}/status"), MERGE, &body).await).await;
        assert_eq!(patched.code, 200, "{}", patched.body);
    };
    let budget = json!({
        "metadata": { "name": "web" }, "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "web" } } },
    });
    assert_eq!(server.ask("POST", BUDGETS, &budget).await.code, 201);
    // Nobody waits for a pod that does not run yet.
    assert_eq!(evict("a").await.code, 201);
    assert_eq!(server.ask("GET", &format!("{PODS}/a"), &Value::Null).await.code, 404);
    create(&server, "b").await;
    set_status(
        format!("{PODS}/b"),
        json!({ "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] }),
    )
    .await;
    let refused = evict("b").await;
    assert_eq!((refused.code, &refused.body["details"]["retryAfterSeconds"]), (429, &json!(10)), "{}", refused.body);
    let observed = json!({ "observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1 });
    set_status(format!("{BUDGETS}/web"), observed).await;
    let refused = evict("b").await;
    let cause = "The disruption budget web needs 1 healthy pods and has 1 currently";
    assert_eq!(refused.body["message"], "Cannot evict pod as it would violate the pod's disruption budget.");
    assert_eq!((refused.code, &refused.body["details"]["causes"][0]["message"]), (429, &json!(cause)));
    set_status(format!("{BUDGETS}/web"), json!({ "disruptionsAllowed": 1 })).await;
    assert_eq!(evict("b").await.code, 201);
    let budget = server.get(&format!("{BUDGETS}/web")).await;
    assert_eq!(budget["status"]["disruptionsAllowed"], 0);
    assert!(budget["status"]["disruptedPods"]["b"].is_string(), "{budget}");
    assert_eq!(server.ask("GET", &format!("{PODS}/b"), &Value::Null).await.code, 404);
}

#[tokio::test]
async fn the_priority_classes_of_the_system_stay() {
    let server = Server::with_built_in().await;
    let path = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let kept = server.ask("DELETE", &format!("{path}/system-node-critical"), &Value::Null).await;
    assert_eq!(kept.code, 403, "{}", kept.body);
    let document = json!({ "metadata": { "name": "system-other" }, "value": 5 });
    let refused = server.ask("POST", path, &document).await;
    assert_eq!((refused.code, &refused.body["details"]["causes"][0]["field"]), (422, &json!("metadata.name")));
}
