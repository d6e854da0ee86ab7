use super::*;

#[test]
fn an_event_shows_its_reason_and_object() {
    let key = json!({ "kind": { "group": "apps", "version": "v1", "name": "Deployment" }, "namespace": "default", "name": "web" });
    let event = json!({
        "sequence": 4, "firstSeen": "2026-11-20T07:00:00Z", "lastSeen": "2026-11-20T07:59:00Z", "count": 3,
        "controller": "deployments", "source": "guest", "key": key, "severity": "warning", "reason": "Failed", "message": "no",
    });
    let mut table = table();
    table.row(row(&event, "2026-11-20T08:00:00Z".parse().unwrap()));
    let expected = "LAST SEEN   COUNT   TYPE      REASON   OBJECT           CONTROLLER    FROM    MESSAGE\n\
                    60s         3       Warning   Failed   deployment/web   deployments   guest   no\n";
    assert_eq!(table.to_string(), expected);
}

#[test]
fn an_event_without_a_key_is_about_its_controller() {
    assert_eq!(object(&json!({ "controller": "deployments", "key": null })), "controller/deployments");
}
