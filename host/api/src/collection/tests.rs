use serde_json::json;

use super::*;

#[test]
fn restarted_deletion_skips_new_and_deleting_resources() {
    let resource = |created: &str, deleted: Option<&str>| {
        let metadata = json!({ "name": "a", "creationTimestamp": created, "deletionTimestamp": deleted });
        Resource::from_document(json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata })).unwrap()
    };
    let began = "2026-05-01T10:00:00.5Z".parse().unwrap();
    assert!(is_left(&resource("2026-05-01T09:00:00Z", None), began, false));
    // Creation timestamps have whole seconds.
    assert!(is_left(&resource("2026-05-01T10:00:00Z", None), began, false));
    assert!(!is_left(&resource("2026-05-01T10:00:01Z", None), began, false));
    let deleted_before = resource("2026-05-01T09:00:00Z", Some("2026-05-01T09:30:00Z"));
    assert!(!is_left(&deleted_before, began, false));
    assert!(is_left(&deleted_before, began, true), "its time may become shorter");
}
