//! Tests of the normal form, over a small schema of a built-in kind.

use serde_json::{Value, json};

use crate::Subresource;
use crate::schema::{KindRules, Schema, Violation};

struct NoRules;

impl KindRules for NoRules {
    fn set_defaults(&self, _: &mut Value, _: Option<&Value>) {}
    fn check(&self, _: &Value, _: Option<&Value>, _: Option<Subresource>) -> Vec<Violation> {
        Vec::new()
    }
    fn first_status(&self, _: &Value) -> Value {
        json!({})
    }
}

fn schema() -> Schema {
    let omitted = |kind: Value| {
        let mut schema = kind;
        schema["x-homeostat-omit-empty"] = true.into();
        schema
    };
    let spec = json!({
        "type": "object",
        "properties": {
            "flag": omitted(json!({ "type": "boolean" })),
            "replicas": { "type": "integer" },
            "args": omitted(json!({ "type": "array", "items": { "type": "string" } })),
            "limits": { "type": "object", "additionalProperties": { "x-homeostat-quantity": true } },
            "at": { "type": "string", "format": "date-time" },
            "renewed": { "type": "string", "format": "x-homeostat-micro-time" },
            "raw": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
        },
    });
    built_in(spec)
}

/// Returns the schema of a built-in kind without rules, whose `spec` is this.
pub(crate) fn built_in(spec: Value) -> Schema {
    let source = json!({ "type": "object", "properties": { "spec": spec } });
    Schema::parse_built_in(&source, &NoRules, |_, _| Ok(())).expect("it is structural")
}

#[test]
fn documents_of_built_in_kinds_have_one_form() {
    let mut document = json!({ "spec": {
        "flag": false, "replicas": 0, "args": [], "limits": { "cpu": 0.5, "memory": "1024Mi" },
        "at": "2026-01-02T03:04:05.678+01:00", "renewed": "2026-01-02T03:04:05Z", "raw": { "a": null }, "gone": 1,
    }});
    assert_eq!(schema().prune(&mut document), ["spec.gone"]);
    let wanted = json!({ "spec": {
        "replicas": 0, "limits": { "cpu": "500m", "memory": "1Gi" },
        "at": "2026-01-02T02:04:05Z", "renewed": "2026-01-02T03:04:05.000000Z", "raw": { "a": null },
    }});
    assert_eq!(document, wanted);
}

#[test]
fn texts_that_are_no_quantities_are_violations() {
    let violations = schema().check(&json!({ "spec": { "limits": { "cpu": "much" } } }));
    let paths: Vec<&str> = violations.iter().map(|violation| violation.path.as_str()).collect();
    assert_eq!(paths, ["spec.limits[cpu]"]);
}
