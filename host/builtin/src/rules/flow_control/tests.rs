//! Tests of the rules of flow schemas and priority levels.

use serde_json::{Value, json};

use super::{check_level, check_schema, level_defaults, mandatory_schema, schema_defaults};
use crate::rules::report::Report;

fn flow_schema() -> Value {
    json!({
        "metadata": { "name": "x" },
        "spec": {
            "priorityLevelConfiguration": { "name": "p" }, "matchingPrecedence": 500,
            "distinguisherMethod": { "type": "ByUser" },
            "rules": [{
                "subjects": [
                    { "kind": "User", "user": { "name": "u" } },
                    { "kind": "ServiceAccount", "serviceAccount": { "name": "s", "namespace": "n" } },
                ],
                "resourceRules": [{ "verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "namespaces": ["n"] }],
                "nonResourceRules": [{ "verbs": ["get"], "nonResourceURLs": ["/x", "/x/*", "/"] }],
            }],
        },
    })
}

fn level() -> Value {
    json!({
        "metadata": { "name": "x" },
        "spec": { "type": "Limited", "limited": {
            "nominalConcurrencyShares": 10, "lendablePercent": 50,
            "limitResponse": { "type": "Queue", "queuing": { "queues": 16, "handSize": 4, "queueLengthLimit": 20 } },
        } },
    })
}

/// Returns the paths and the reasons of the violations of a document with another value at a JSON pointer, sorted.
fn causes(check: fn(&mut Report<'_>), document: &Value, pointer: &str, value: Value) -> Vec<String> {
    let mut document = document.clone();
    let (parent, name) = pointer.rsplit_once('/').expect("it is a pointer");
    match document.pointer_mut(parent).expect("it has the place") {
        Value::Array(items) => items[name.parse::<usize>().expect("it is an index")] = value,
        parent => parent[name] = value,
    }
    let mut report = Report::new(&document, None, None);
    check(&mut report);
    let mut causes: Vec<String> =
        report.found.iter().map(|found| format!("{}: {}", found.path, found.reason)).collect();
    causes.sort();
    causes.dedup();
    causes
}

#[test]
fn the_fields_of_a_flow_schema_are_checked() {
    let with = |pointer: &str, value: Value| causes(check_schema, &flow_schema(), &format!("/spec{pointer}"), value);
    assert_eq!(with("/matchingPrecedence", json!(2)), [""; 0]);
    for precedence in [-1, 1, 10_001] {
        assert_eq!(with("/matchingPrecedence", json!(precedence)), ["spec.matchingPrecedence: Invalid value"]);
    }
    let method = "spec.distinguisherMethod.type: Unsupported value";
    assert_eq!(with("/distinguisherMethod/type", json!("")), [method]);
    let level = "spec.priorityLevelConfiguration.name";
    assert_eq!(with("/priorityLevelConfiguration/name", json!("")), [format!("{level}: Required value")]);
    assert_eq!(with("/priorityLevelConfiguration/name", json!("A_")), [format!("{level}: Invalid value")]);
    assert_eq!(with("/rules/0/subjects", json!([])), ["spec.rules[0].subjects: Required value"]);
    let none = json!({ "subjects": [{ "kind": "Group", "group": { "name": "g" } }] });
    assert_eq!(with("/rules/0", none), ["spec.rules[0]: Required value"]);
}

#[test]
fn a_subject_has_the_field_of_its_kind_alone() {
    let with = |rest: &str, value: Value| {
        causes(check_schema, &flow_schema(), &format!("/spec/rules/0/subjects{rest}"), value)
    };
    let at = |rest: &str| format!("spec.rules[0].subjects{rest}");
    assert_eq!(with("/1/kind", json!("500m")), [at("[1].kind: Unsupported value")]);
    assert_eq!(with("/0/user", Value::Null), [at("[0].user: Required value")]);
    assert_eq!(with("/0/group", json!({})), [at("[0].group: Forbidden")]);
    assert_eq!(with("/1/serviceAccount/name", json!("*")), [""; 0]);
    assert_eq!(
        with("/1/serviceAccount", json!({ "name": "A_" })),
        [at("[1].serviceAccount.name: Invalid value"), at("[1].serviceAccount.namespace: Required value"),]
    );
}

#[test]
fn the_rules_of_a_flow_schema_are_checked() {
    let with = |rest: &str, value: Value| causes(check_schema, &flow_schema(), &format!("/spec/rules/0/{rest}"), value);
    let (resource, other) = ("spec.rules[0].resourceRules[0]", "spec.rules[0].nonResourceRules[0]");
    assert_eq!(
        with("resourceRules/0", json!({})),
        [
            format!("{resource}.apiGroups: Required value"),
            format!("{resource}.namespaces: Required value"),
            format!("{resource}.resources: Required value"),
            format!("{resource}.verbs: Required value"),
        ]
    );
    assert_eq!(with("resourceRules/0/verbs", json!(["get", "x"])), [format!("{resource}.verbs: Unsupported value")]);
    assert_eq!(with("resourceRules/0/verbs", json!(["*", "x"])), [format!("{resource}.verbs: Invalid value")]);
    assert_eq!(with("resourceRules/0/apiGroups", json!(["*", "x"])), [format!("{resource}.apiGroups: Invalid value")]);
    assert_eq!(with("resourceRules/0/namespaces/0", json!("A")), [format!("{resource}.namespaces[0]: Invalid value")]);
    let everywhere = json!({ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true });
    assert_eq!(with("resourceRules/0", everywhere), [""; 0]);
    for url in ["", "x", "/a b", "//", "/a*", "/*/*"] {
        let wanted = [format!("{other}.nonResourceURLs[0]: Invalid value")];
        assert_eq!(with("nonResourceRules/0/nonResourceURLs", json!([url])), wanted, "{url}");
    }
}

#[test]
fn the_fields_of_a_priority_level_are_checked() {
    let with = |pointer: &str, value: Value| causes(check_level, &level(), &format!("/spec{pointer}"), value);
    assert_eq!(with("/limited/lendablePercent", json!(100)), [""; 0]);
    assert_eq!(with("/type", json!("10")), ["spec.type: Unsupported value"]);
    assert_eq!(with("/type", json!("Exempt")), ["spec.limited: Forbidden", "spec.type: Invalid value"]);
    assert_eq!(with("/limited", Value::Null), ["spec.limited: Required value"]);
    assert_eq!(with("/exempt", json!({})), ["spec.exempt: Forbidden"]);
    for (name, value) in [("nominalConcurrencyShares", -1), ("lendablePercent", 101), ("borrowingLimitPercent", -1)] {
        assert_eq!(with(&format!("/limited/{name}"), json!(value)), [format!("spec.limited.{name}: Invalid value")]);
    }
    let response = "spec.limited.limitResponse";
    assert_eq!(with("/limited/limitResponse/type", json!("Reject")), [format!("{response}.queuing: Forbidden")]);
    assert_eq!(with("/limited/limitResponse/queuing", Value::Null), [format!("{response}.queuing: Required value")]);
    for (name, value) in [("queueLengthLimit", -1), ("handSize", -1), ("handSize", 17)] {
        let wanted = [format!("{response}.queuing.{name}: Invalid value")];
        assert_eq!(with(&format!("/limited/limitResponse/queuing/{name}"), json!(value)), wanted);
    }
    let many = json!({ "queues": 10_000_001, "handSize": 1, "queueLengthLimit": 1 });
    let wanted = [format!("{response}.queuing.queues: Invalid value")];
    assert_eq!(with("/limited/limitResponse/queuing", many), wanted);
    // 64 queues are chosen by 6 bits each.
    for (hand, is_valid) in [(10, true), (11, false)] {
        let queuing = json!({ "queues": 64, "handSize": hand, "queueLengthLimit": 1 });
        assert_eq!(with("/limited/limitResponse/queuing", queuing).is_empty(), is_valid, "{hand}");
    }
}

#[test]
fn mandatory_resources_have_a_fixed_specification() {
    for name in ["exempt", "catch-all"] {
        let schema = json!({ "metadata": { "name": name }, "spec": mandatory_schema(name) });
        assert_eq!(causes(check_schema, &schema, "/status", json!({})), [""; 0]);
        assert_eq!(causes(check_schema, &schema, "/spec/matchingPrecedence", json!(7)), ["spec: Invalid value"]);
    }
    let exempt = json!({ "metadata": { "name": "exempt" }, "spec": { "type": "Exempt" } });
    assert_eq!(causes(check_level, &exempt, "/spec/exempt", json!({ "lendablePercent": 5 })), [""; 0]);
    let mut other = level();
    other["metadata"]["name"] = json!("catch-all");
    assert_eq!(causes(check_level, &other, "/status", json!({})), ["spec: Invalid value"]);
}

#[test]
fn numbers_that_are_zero_get_their_default() {
    let mut schema = json!({ "spec": { "matchingPrecedence": 0 } });
    schema_defaults(&mut schema, None);
    assert_eq!(schema["spec"]["matchingPrecedence"], 1000);
    let mut level =
        json!({ "spec": { "limited": { "limitResponse": { "queuing": { "queues": 0, "handSize": 4 } } } } });
    level_defaults(&mut level, None);
    let queuing = json!({ "queues": 64, "handSize": 4, "queueLengthLimit": 50 });
    assert_eq!(level["spec"]["limited"]["limitResponse"]["queuing"], queuing);
}
