use serde_json::json;

use super::*;

#[test]
fn a_page_tells_metadata_spec_status_and_conditions() {
    let document = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "web", "namespace": "default", "uid": "u", "generation": 2, "resourceVersion": "7",
            "labels": { "app": "web", "tier": "front" }, "creationTimestamp": "2026-11-20T07:55:00Z",
            "ownerReferences": [{ "kind": "Site", "name": "main", "controller": true }],
        },
        "spec": { "replicas": 3 },
        "status": {
            "readyReplicas": 1,
            "conditions": [{ "type": "Available", "status": "False", "reason": "TooFew", "message": "1 of 3" }],
        },
    });
    let page = page(&document, "2026-11-20T08:00:00Z".parse().unwrap()).unwrap();
    let expected = "\
Name:         web
Namespace:    default
Kind:         Deployment (apps/v1)
Labels:       app=web
              tier=front
Created:      2026-11-20T07:55:00Z (5m ago)
UID:          u
Generation:   2
Revision:     7
Owners:       site/main (controls it)
Spec:
  replicas: 3
Status:
  readyReplicas: 1
Conditions:
  TYPE        STATUS   REASON   SINCE   MESSAGE
  Available   False    TooFew   -       1 of 3
";
    assert_eq!(page, expected);
}

#[test]
fn what_is_not_there_has_no_line() {
    let page =
        page(&json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "a" } }), Timestamp::now()).unwrap();
    assert_eq!(page, "Name:         a\nKind:         Pod (v1)\n");
}
