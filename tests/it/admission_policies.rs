//! Validating admission policies beside a real kube-apiserver: the same policies, bindings and parameters are on both, and
//! the same requests go to both. Statuses, documents, messages, details and warnings are compared.

mod alone;
mod mutating;

use homeostat_testing::eventually_blocking;
use serde_json::{Value, json};

use crate::comparison::{Pair, answer_difference, with};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

/// A policy with its bindings, in a namespace of its own. `CASE` is replaced by the name of the namespace.
struct Case {
    what: String,
    policy: Value,
    bindings: Vec<Value>,
}

/// Returns a case with some fields of the policy and of its one binding.
fn case(policy: Value, binding: Value) -> Case {
    Case { what: format!("{policy} bound by {binding}"), policy, bindings: vec![binding] }
}

/// Returns the validations of a policy.
fn validations(list: &[Value]) -> Value {
    json!({ "validations": list })
}

fn not_huge() -> Value {
    json!({ "expression": "object.data.size != 'huge'" })
}

/// Returns a policy with one validation, and further fields.
fn one(validation: Value, more: Value) -> Value {
    with(validations(&[validation]), &more)
}

fn of_reason(reason: &str) -> Value {
    json!({ "expression": "object.data.size != 'huge'", "reason": reason, "message": " too large " })
}

fn cases() -> Vec<Case> {
    let none = || json!({});
    let acts = |actions: &[&str]| json!({ "validationActions": actions });
    let expression = |text: &str| json!({ "expression": text });
    let message = |text: &str| json!({ "expression": "object.data.size != 'huge'", "messageExpression": text });
    let variables = json!({ "variables": [
        { "name": "size", "expression": "object.data.size" },
        { "name": "huge", "expression": "variables.size == 'huge'" },
        { "name": "fails", "expression": "object.data.none" },
    ] });
    let params = json!({ "paramKind": { "apiVersion": "v1", "kind": "ConfigMap" } });
    let by_name = |name: &str, action: &str| json!({ "paramRef": { "name": name, "parameterNotFoundAction": action } });
    let selected = |action: &str, value: &str| {
        let selector = json!({ "matchLabels": { "params": value } });
        json!({ "paramRef": { "selector": selector, "parameterNotFoundAction": action } })
    };
    let rules = |operations: Value, names: Value| {
        let rule = json!({
            "operations": operations, "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
            "resourceNames": names,
        });
        json!({ "matchConstraints": { "resourceRules": [rule] } })
    };
    let mut excluded = rules(json!(["*"]), json!([]));
    excluded["matchConstraints"]["excludeResourceRules"] =
        rules(json!(["UPDATE"]), json!([]))["matchConstraints"]["resourceRules"].clone();
    let condition = |text: &str| json!({ "matchConditions": [{ "name": "c", "expression": text }] });
    let ignored = json!({ "failurePolicy": "Ignore" });
    let narrow = json!({ "matchResources": {
        "namespaceSelector": { "matchLabels": { "case": "CASE" } }, "objectSelector": { "matchLabels": { "big": "yes" } },
    } });
    let annotation = |text: &str| json!({ "auditAnnotations": [{ "key": "k", "valueExpression": text }] });
    let mut cases = vec![
        case(one(not_huge(), none()), none()),
        case(one(of_reason("Forbidden"), none()), none()),
        case(one(of_reason("RequestEntityTooLarge"), none()), none()),
        case(one(message("'the size is ' + object.data.size"), none()), none()),
        case(one(message("'none is ' + object.data.none"), none()), none()),
        case(one(not_huge(), none()), acts(&["Warn"])),
        case(one(not_huge(), none()), acts(&["Audit"])),
        case(one(not_huge(), none()), acts(&["Deny", "Audit"])),
        case(one(not_huge(), none()), acts(&["Warn", "Audit"])),
        case(one(expression("!variables.huge"), variables.clone()), none()),
        case(one(expression("true || variables.fails == ''"), variables.clone()), none()),
        case(one(expression("variables.fails == ''"), variables), none()),
        case(one(expression("object.data.none == 'x'"), none()), none()),
        case(one(expression("object.data.none == 'x'"), ignored.clone()), none()),
        case(one(not_huge(), condition("object.metadata.name != 'b'")), none()),
        case(one(not_huge(), condition("object.data.none == 'x'")), none()),
        case(one(not_huge(), with(condition("object.data.none == 'x'"), &ignored)), none()),
        case(one(expression("params == null || object.data.size == params.data.size"), params.clone()), none()),
        case(one(expression("object.data.size == params.data.size"), params.clone()), by_name("small", "Deny")),
        case(one(expression("object.data.size == params.data.size"), params.clone()), by_name("none", "Deny")),
        case(one(expression("object.data.size == params.data.size"), params.clone()), by_name("none", "Allow")),
        case(one(expression("object.data.size == params.data.size"), params.clone()), selected("Deny", "yes")),
        case(one(expression("object.data.size == params.data.size"), params.clone()), selected("Deny", "no")),
        case(one(expression("object.data.size == params.data.size"), params), selected("Allow", "no")),
        case(one(expression("namespaceObject.metadata.labels['dark'] == 'yes'"), none()), none()),
        case(one(expression("namespaceObject.metadata.name != request.namespace"), none()), none()),
        case(
            one(expression("request.operation == 'CREATE' && request.resource.resource == 'configmaps'"), none()),
            none(),
        ),
        case(one(expression("oldObject == null || oldObject.data.size == object.data.size"), none()), none()),
        case(one(expression("oldObject.data.size != 'small'"), rules(json!(["DELETE"]), json!([]))), none()),
        case(one(expression("false"), rules(json!(["*"]), json!(["b"]))), none()),
        case(one(expression("false"), excluded), none()),
        case(one(expression("false"), none()), narrow),
        case(annotation("'none: ' + object.data.none"), none()),
        case(annotation("'size: ' + object.data.size"), none()),
        case(validations(&[not_huge(), of_reason("Forbidden"), expression("object.metadata.name != 'b'")]), none()),
        case(validations(&[not_huge(), expression("object.data.none == ''")]), acts(&["Warn"])),
        case(
            one(
                expression("object.metadata.labels.exists(name, name == 'big') || object.data.size == 'small'"),
                none(),
            ),
            none(),
        ),
    ];
    let bindings = vec![acts(&["Warn"]), acts(&["Deny"])];
    cases.push(Case { what: "two bindings".to_owned(), policy: one(not_huge(), none()), bindings });
    cases.push(Case { what: "no binding".to_owned(), policy: one(not_huge(), none()), bindings: Vec::new() });
    // Once both servers follow the last one, they know the others.
    cases.push(case(one(expression("false"), none()), none()));
    cases
}

impl Case {
    fn prepare(&self, pair: &Pair, name: &str) {
        let makes = |path: &str, document: &Value| pair.make(path, &of_case(document, name));
        let labels = json!({ "case": name, "dark": "yes" });
        makes("/api/v1/namespaces", &json!({ "metadata": { "name": name, "labels": labels } }));
        for size in ["small", "large"] {
            let metadata = json!({ "name": size, "labels": { "params": "yes" } });
            makes(&maps(name), &json!({ "metadata": metadata, "data": { "size": "small" } }));
        }
        let spec = json!({ "matchConstraints": { "resourceRules": [{
            "operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
        }] } });
        let policy = json!({ "metadata": { "name": name }, "spec": with(spec, &self.policy) });
        makes(&format!("{GROUP}/validatingadmissionpolicies"), &policy);
        for (number, binding) in self.bindings.iter().enumerate() {
            let spec = json!({
                "policyName": name, "validationActions": ["Deny"],
                "matchResources": { "namespaceSelector": { "matchLabels": { "case": "CASE" } } },
            });
            let metadata = json!({ "name": format!("{name}-{number}") });
            let binding = json!({ "metadata": metadata, "spec": with(spec, binding) });
            makes(&format!("{GROUP}/validatingadmissionpolicybindings"), &binding);
        }
    }
}

/// Returns a document of a case in this namespace.
fn of_case(document: &Value, namespace: &str) -> Value {
    serde_json::from_str(&document.to_string().replace("CASE", namespace)).unwrap()
}

/// Returns the path of the config maps of a case.
fn maps(name: &str) -> String {
    format!("/api/v1/namespaces/{name}/configmaps")
}

fn map(name: &str, size: &str) -> Value {
    json!({ "metadata": { "name": name, "labels": { "big": "yes" } }, "data": { "size": size } })
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn admission_policies_act_as_in_a_real_api_server() {
    let (pair, cases) = (Pair::start(), cases());
    let name = |number: usize| format!("shade-{number}");
    for (number, case) in cases.iter().enumerate() {
        case.prepare(&pair, &name(number));
    }
    let last = maps(&name(cases.len() - 1)) + "?dryRun=All";
    let refuse = || pair.ask("POST", &last, &map("a", "small")).iter().all(|answer| answer.status == 422).then_some(());
    eventually_blocking("both know the policies", refuse);
    let mut differences = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let all = maps(&name(number));
        let first = format!("{all}/a");
        let requests = [
            ("POST", &all, map("a", "small")),
            ("POST", &all, map("b", "huge")),
            ("PATCH", &first, json!({ "data": { "size": "huge" } })),
            ("PATCH", &first, json!({ "data": { "more": "x" } })),
            ("DELETE", &first, json!({})),
        ];
        for (method, path, body) in requests {
            let found = answer_difference(pair.ask(method, path, &body), &[], None);
            differences.extend(found.map(|found| format!("{}, {method} {body}:\n{found}", case.what)));
        }
    }
    assert!(differences.is_empty(), "{} differences\n{}", differences.len(), differences.join("\n"));
}

/// Returns policies of which an expression has a fault, or looks like it.
fn doubtful() -> Vec<Value> {
    let expression = |text: &str| one(json!({ "expression": text }), json!({}));
    let message = |text: &str| one(json!({ "expression": "true", "messageExpression": text }), json!({}));
    let annotation = |text: &str| json!({ "auditAnnotations": [{ "key": "k", "valueExpression": text }] });
    let variable = |text: &str, used: &str| {
        let variables = json!([{ "name": "v", "expression": text }, { "name": "w", "expression": "variables.v" }]);
        one(json!({ "expression": used }), json!({ "variables": variables }))
    };
    let condition = |text: &str| {
        one(json!({ "expression": "true" }), json!({ "matchConditions": [{ "name": "c", "expression": text }] }))
    };
    let mut all: Vec<Value> = [
        "object.",
        "object.data.size",
        "1 +",
        "none == 1",
        "params.x == 1",
        "variables.none == 1",
        "request.none == 1",
        "request.operation == 1",
        "request.kind.group == '' && request.userInfo.groups.exists(group, group == 'a')",
        "request.userInfo.extra['a'][0] == 'b' && request.dryRun",
        "namespaceObject.none == 1",
        "namespaceObject.metadata.labels.a == 'b' && namespaceObject.status.phase == 'Active'",
        "namespaceObject.metadata.creationTimestamp < timestamp('2030-01-01T00:00:00Z')",
        "object.metadata.name.none()",
        "object.spec.replicas + 1 > 'a'",
        "[1, 2].all(x, x > 0) && oldObject == null",
        "  true  ",
        "object.?b.orValue(false)",
        "[object.a, object.b].exists(x, x == 1) && '%s'.format([['a', object.b]]) == ''",
    ]
    .map(expression)
    .into();
    all.extend(
        ["1", "object.data.size", "'a' + object.data.size", "string(object.data.size)", "'a' + 1", "("].map(message),
    );
    all.extend(["1", "null", "'a'", "object.data.size", "string(1)", ")"].map(annotation));
    all.extend(
        [("(", "variables.v == 1"), ("1", "variables.v == 'a'"), ("1", "variables.w == 1")]
            .map(|(v, used)| variable(v, used)),
    );
    all.extend(["1", "object.data.size", "params.x == 1", "request.name == ''", "variables.v == 1"].map(condition));
    all
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn faults_in_the_expressions_of_policies_are_those_of_a_real_api_server() {
    let pair = Pair::start();
    let mut differences = Vec::new();
    for policy in doubtful() {
        let spec = json!({ "matchConstraints": { "resourceRules": [{
            "operations": ["CREATE"], "apiGroups": ["none.dev"], "apiVersions": ["v1"], "resources": ["nones"],
        }] } });
        let document = json!({ "metadata": { "name": "doubtful" }, "spec": with(spec, &policy) });
        let answers = pair.ask("POST", &format!("{GROUP}/validatingadmissionpolicies?dryRun=All"), &document);
        // After these words, the parser of each server speaks.
        let found = answer_difference(answers, &["Syntax error:"], None);
        differences.extend(found.map(|found| format!("{policy}:\n{found}")));
    }
    assert!(differences.is_empty(), "{} differences\n{}", differences.len(), differences.join("\n"));
}
