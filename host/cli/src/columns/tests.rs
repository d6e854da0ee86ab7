use serde_json::json;

use super::*;
use crate::client::tests_kinds;

fn cells(word: &str, document: &Value, is_wide: bool) -> Vec<(&'static str, String)> {
    let kinds = tests_kinds();
    let columns = of(kinds.find(word).unwrap(), &[document], is_wide);
    let now = "2026-11-20T08:00:00Z".parse().unwrap();
    columns.iter().map(|column| (column.name, column.cell(document, now))).collect()
}

fn owned<'c>(cells: &[(&'c str, &str)]) -> Vec<(&'c str, String)> {
    cells.iter().map(|(name, cell)| (*name, (*cell).to_owned())).collect()
}

#[test]
fn a_deployment_shows_its_replicas() {
    let document = json!({
        "metadata": { "creationTimestamp": "2026-11-20T07:57:00Z" },
        "spec": {
            "replicas": 3, "selector": { "matchLabels": { "app": "web" } },
            "template": { "spec": { "containers": [{ "name": "main", "image": "web:1" }, { "name": "side", "image": "side:2" }] } },
        },
        "status": { "readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 1 },
    });
    let narrow = [("READY", "2/3"), ("UP-TO-DATE", "3"), ("AVAILABLE", "1"), ("AGE", "3m")];
    assert_eq!(cells("deploy", &document, false), owned(&narrow));
    let wide = cells("deploy", &document, true);
    assert_eq!(wide[4..], owned(&[("CONTAINERS", "main,side"), ("IMAGES", "web:1,side:2"), ("SELECTOR", "app=web")]));
}

#[test]
fn a_resource_without_a_status_has_cells_too() {
    let cells = cells("deploy", &json!({ "metadata": {} }), false);
    assert_eq!(cells, owned(&[("READY", "0/1"), ("UP-TO-DATE", "0"), ("AVAILABLE", "0"), ("AGE", "<unknown>")]));
}

#[test]
fn a_pod_shows_its_containers_and_its_termination() {
    let mut document = json!({
        "metadata": { "creationTimestamp": "2026-11-20T07:59:50Z" },
        "spec": { "containers": [{}, {}] },
        "status": { "phase": "Running", "containerStatuses": [{ "ready": true, "restartCount": 2 }, { "restartCount": 1 }] },
    });
    let expected = [("READY", "1/2"), ("STATUS", "Running"), ("RESTARTS", "3"), ("AGE", "10s")];
    assert_eq!(cells("pods", &document, false), owned(&expected));
    document["metadata"]["deletionTimestamp"] = "2026-11-20T08:00:00Z".into();
    assert_eq!(cells("pods", &document, false)[1].1, "Terminating");
}

#[test]
fn a_controller_shows_its_queue() {
    let document = json!({ "status": {
        "state": "ready", "manages": { "group": "apps", "version": "v1", "name": "Deployment" }, "reconciles": 12, "failures": 1,
        "counts": { "waiting": 2, "ready": 3, "running": 1, "parked": 0 }, "generation": 2,
    } });
    let expected = [
        ("STATE", "Ready"),
        ("MANAGES", "deployment.apps"),
        ("RECONCILES", "12"),
        ("FAILURES", "1"),
        ("RUNNING", "1"),
        ("QUEUED", "5"),
        ("PARKED", "0"),
        ("GENERATION", "2"),
    ];
    assert_eq!(cells("controllers", &document, false), owned(&expected));
}

#[test]
fn a_compiling_controller_shows_the_duration() {
    let state = |status: Value| controller_state(&json!({ "status": status }));
    assert_eq!(state(json!({ "state": "ready" })), "Ready");
    assert_eq!(state(json!({ "state": "compiling", "compilingForMs": 12_345 })), "Compiling 12s");
    assert_eq!(state(json!({ "state": "ready", "compilingForMs": 2_000 })), "Ready, compiling 2.0s");
}

#[test]
fn a_controller_without_a_running_version_shows_the_reason() {
    let refused = json!({ "type": "Loaded", "status": "False", "reason": "Refused", "message": "no watch" });
    let document =
        json!({ "status": { "conditions": [{ "type": "Ready", "status": "False", "reason": "Other" }, refused] } });
    let cells = cells("controllers", &document, true);
    let cell = |name: &str| cells.iter().find(|(column, _)| *column == name).unwrap().1.clone();
    assert_eq!((cell("STATE").as_str(), cell("MESSAGE").as_str()), ("Refused", "no watch"));
}
