use serde_json::json;

use super::*;

#[test]
fn a_page_shows_metadata_spec_status_and_conditions() {
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
fn a_controller_shows_its_leases_as_a_table() {
    let mut document = json!({
        "apiVersion": "homeostat.dev/v1alpha1", "kind": "Controller", "metadata": { "name": "web" },
        "status": {
            "state": "Ready",
            "leases": [
                { "shard": 0, "store": "bus", "holder": "a_1", "isHeld": true, "epoch": 7 },
                { "shard": 1, "store": "bus", "isHeld": false, "error": "refused" },
                { "shard": 2, "store": "bus", "holder": "b_2", "isHeld": false },
                { "shard": 3, "store": "bus", "holder": "b_2", "isHeld": false },
            ],
        },
    });
    let told = [
        json!({ "cpuMillicores": 350, "holder": "a_1", "epoch": 7, "since": "2026-11-29T10:00:00Z" }),
        json!({}),
        json!({ "holder": "b_2", "epoch": 9, "since": "2026-11-29T10:01:00Z" }),
        // The term of an earlier holder.
        json!({ "holder": "a_1", "epoch": 8, "since": "2026-11-29T10:00:00Z" }),
    ];
    let leases = document["status"]["leases"].as_array_mut().unwrap();
    for (lease, told) in leases.iter_mut().zip(&told) {
        add_held_lease(lease.as_object_mut().unwrap(), told.as_object().unwrap());
    }
    let expected = "\
Status:
  state: Ready
Leases:
  SHARD   STORE   HOLDER   HELD   EPOCH   SINCE   LOAD   ERROR
  0       bus     a_1      yes    7       2m      0.35   -
  1       bus     -        -      -       -       -      refused
  2       bus     b_2      -      9       60s     -      -
  3       bus     b_2      -      -       -       -      -
";
    let now = "2026-11-29T10:02:00Z".parse().unwrap();
    let shown = page(&document, now).unwrap();
    assert!(shown.ends_with(expected), "{shown}");
    // The leases of any other kind are a part of its status.
    let mut other = document.clone();
    other["kind"] = "Flat".into();
    let shown = page(&other, Timestamp::now()).unwrap();
    assert!(shown.contains("  leases:\n") && !shown.contains("Leases:"), "{shown}");
}

#[test]
fn empty_fields_have_no_line() {
    let page =
        page(&json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "a" } }), Timestamp::now()).unwrap();
    assert_eq!(page, "Name:         a\nKind:         Pod (v1)\n");
}

#[test]
fn events_about_keys_are_merged_by_reason() {
    let about = |name: &str, reason: &str, count: u64| json!({ "key": { "name": name }, "reason": reason, "count": count, "message": name });
    let own = |number: usize| json!({ "key": null, "reason": "Canary", "count": 1, "message": number.to_string() });
    let mut events: Vec<Value> = (0..40).map(|number| about(&format!("k{number}"), "ReconcileFailed", 2)).collect();
    events.push(about("a", "Trapped", 3));
    events.extend((0..OWN_EVENTS_MAX + 4).map(own));
    events.push(about("b", "Trapped", 4));
    let shown = merge_key_events(events);
    assert_eq!(shown.len(), OWN_EVENTS_MAX + 2);
    let told = |event: &Value| (event["message"].as_str().unwrap().to_owned(), event["count"].as_u64().unwrap());
    assert_eq!(told(&shown[0]), ("k39".to_owned(), 80));
    assert_eq!(told(&shown[1]), ("4".to_owned(), 1), "the oldest of its own are left out");
    assert_eq!(told(shown.last().unwrap()), ("b".to_owned(), 7), "it stands where its last one does");
}

#[test]
fn dependents_in_a_store_that_is_away_are_unknown_and_the_reason_is_shown() {
    let message = "the store is unavailable: store bus: refused".to_owned();
    let error = |code| anyhow::Error::new(ApiError { code, reason: String::new(), message: message.clone() });
    assert_eq!(unknown_dependents(error(503)).unwrap(), format!("Dependents:\n  unknown: {message}\n"));
    assert!(unknown_dependents(error(500)).is_err());
}
