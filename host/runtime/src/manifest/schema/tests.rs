//! The schemas and the types that they describe have the same fields.

use std::collections::BTreeSet;

use homeostat_store::schema::Schema;

use super::*;
use crate::manifest::Spec;

/// Compares the field names of a document and its schema, at every level where the schema has names.
fn same_names(path: &str, document: &Value, schema: &Value) {
    if let (Some(items), Some(schema)) = (document.as_array(), schema.get("items")) {
        return items.iter().for_each(|item| same_names(path, item, schema));
    }
    let (Some(fields), Some(properties)) = (document.as_object(), schema["properties"].as_object()) else { return };
    let (written, known): (BTreeSet<_>, BTreeSet<_>) = (fields.keys().collect(), properties.keys().collect());
    assert_eq!(written, known, "{path}");
    fields.iter().for_each(|(name, value)| same_names(&format!("{path}.{name}"), value, &properties[name]));
}

#[test]
fn every_field_of_a_controller_is_explained_and_no_other_is() {
    let text = json!({
        "component": { "file": "a.wasm", "digest": "sha256:0", "oci": "a" }, "config": { "a": "b" },
        "manages": { "apiVersion": "a/v1", "kind": "A", "plural": "as", "namespaced": true },
        "watches": [{
            "name": "b", "of": { "apiVersion": "a/v1", "kind": "B", "plural": "bs", "namespaced": true },
            "mapping": "owner", "changes": "all", "role": "secondary",
        }],
        "grants": {
            "resources": [{ "kinds": ["*"], "verbs": ["*"], "namespaces": ["*"], "names": ["*"] }],
            "http": [{
                "urls": ["https://a.example/*"], "methods": ["GET"], "addresses": ["loopback"],
                "headers": { "a": { "value": "b" } },
            }],
            "controllers": [{
                "names": ["a"], "components": [{ "file": "a.wasm", "digest": "sha256:0", "oci": "a" }], "max": 1,
            }],
        },
        "limits": {
            "deadline": "1s", "cpu": "1s", "memory": 1, "memories": 1, "tables": 1, "effects": 1, "writes": 1, "events": 1, "effectBytes": 1,
            "log": 1, "logLines": 1, "transfer": 1, "handles": 1, "result": 1, "keys": 1, "errorBytes": 1,
        },
        "concurrency": 1, "backoff": { "base": "1s", "max": "1s", "maxRetries": 1 }, "resync": "1s", "poll": "1s",
        "duringDelay": "hold", "reuseInstances": true, "suspend": true, "paused": true, "revisionHistoryLimit": 1,
        "rollout": {
            "strategy": "canary", "share": "10%", "steps": ["10%"], "selector": { "matchLabels": { "a": "b" } },
            "gate": {
                "errors": "1%", "traps": 1, "limits": 1, "duration": "2x", "writes": "2x", "hotLoops": "2x", "for": "1m",
                "reconciles": 1,
            },
            "shadow": { "for": "1m", "reconciles": 1, "differences": "any" },
        },
        "placement": "singleton",
        "feeders": [{
            "name": "a", "interval": { "every": "1m" },
            "cron": { "schedule": "@daily", "timeZone": "UTC", "missed": "once", "startingDeadline": "1h" },
            "webhook": {
                "auth": {
                    "hmac": { "secret": "a", "header": "a", "prefix": "a", "encoding": "hex" },
                    "token": { "secret": "a", "header": "a", "prefix": "a" },
                },
                "bodyMax": "1Mi", "dedupeHeader": "a", "inbox": true,
            }, "files": { "path": "a" },
            "nats": { "store": "a", "subject": "a", "stream": "a", "consumer": "a", "ack": "queued" }, "keys": "all", "delay": { "after": "1m", "hold": true },
            "priority": "low",
        }],
    });
    let full: Spec = serde_json::from_value(text.clone()).unwrap();
    // A new field must be added above, with an explanation in the schema.
    let Spec {
        component: _,
        manages: _,
        watches: _,
        config: _,
        grants: _,
        limits: _,
        concurrency: _,
        backoff: _,
        resync: _,
        poll: _,
        during_delay: _,
        reuse_instances: _,
        suspend: _,
        paused: _,
        revision_history_limit: _,
        rollout: _,
        placement: _,
        feeders: _,
    } = &full;
    same_names("spec", &json!(full), &spec());
    Schema::parse(&schema()).unwrap();
    Schema::parse(&revision_schema()).unwrap();
    Schema::parse(&host_schema()).unwrap();
}
