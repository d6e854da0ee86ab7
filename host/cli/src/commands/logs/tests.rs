use serde_json::json;

use super::*;

#[test]
fn a_log_line_has_time_level_key_and_message() {
    let line = json!({
        "sequence": 1, "time": "2026-11-20T08:00:00.123Z", "controller": "c", "level": "warn", "message": "scaled\u{1b}",
        "key": { "kind": { "group": "", "version": "v1", "name": "Pod" }, "namespace": "default", "name": "web" },
        "fields": [["replicas", "3"]],
    });
    assert_eq!(readable(&line), "2026-11-20T08:00:00.123Z WARN  default/web scaled\\u{1b} replicas=3\n");
}

#[test]
fn a_log_line_outside_of_a_reconcile_has_no_key() {
    let line = json!({ "time": "t", "level": "info", "message": "started", "key": null, "fields": [] });
    assert_eq!(readable(&line), "t INFO  started\n");
}
