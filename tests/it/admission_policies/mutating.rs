//! Mutating admission policies beside a real kube-apiserver: the same policies, bindings and parameters are on both, and the
//! same requests go to both.

use homeostat_testing::eventually_blocking;
use homeostat_tests::Request;
use regex::Regex;
use serde_json::{Value, json};

use super::{GROUP, of_case};
use crate::comparison::{MERGE, Pair, answer_difference, with};

/// Policies of a namespace of its own. `CASE` is replaced by the name of the namespace.
struct Case {
    what: String,
    /// Each with its bindings.
    policies: Vec<(Value, Vec<Value>)>,
}

/// Returns a mutation by the fields that an expression applies.
fn apply(expression: &str) -> Value {
    json!({ "patchType": "ApplyConfiguration", "applyConfiguration": { "expression": expression } })
}

/// Returns a mutation by the operations of an expression.
fn patch(expression: &str) -> Value {
    json!({ "patchType": "JSONPatch", "jsonPatch": { "expression": expression } })
}

/// Returns a case with a policy of mutations and further fields, and the fields of its one binding.
fn case(mutations: &[&Value], policy: &Value, binding: Value) -> Case {
    let policy = with(json!({ "mutations": mutations }), policy);
    Case { what: format!("{policy} bound by {binding}"), policies: vec![(policy, vec![binding])] }
}

fn plain(mutation: Value) -> Case {
    case(&[&mutation], &json!({}), json!({}))
}

fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = [
        "Object{spec: Object.spec{replicas: object.spec.replicas + 1}}",
        "Object{metadata: Object.metadata{labels: {'added': 'yes', 'case': string(object.metadata.name)}}}",
        "Object{metadata: Object.metadata{annotations: Object.metadata.annotations{a: 'b'}, finalizers: ['demo.dev/f']}}",
        "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{
           initContainers: [Object.spec.template.spec.initContainers{name: 'beside', image: 'b', restartPolicy: 'Always'}],
           containers: [Object.spec.template.spec.containers{name: 'c', env: [Object.spec.template.spec.containers.env{name: 'A', value: 'b'}]}]
         }}}}",
        "Object{spec: Object.spec{?paused: object.spec.?paused, ?minReadySeconds: optional.of(3)}}",
        "object.metadata.name == 'b' ? Object{spec: Object.spec{replicas: 0}} : Object{}",
        "Object{}",
        "Object{spec: Object.spec{selector: Object.spec.selector{matchLabels: {'x': 'y'}}}}",
        "Object{spec: Object.spec{replicasx: 1}}",
        "Object{spec: Object.spec{replicas: 'many'}}",
        "Object{spec: Object.spec{replicas: -1}}",
        "Object{spec: Object.specx{replicas: 1}}",
        "Object{spec: Object.spec{replicas: object.spec.none}}",
        "Object{metadata: Object.metadata{name: request.name == '' ? 'made' : request.name}}",
        "Object{status: Object.status{replicas: 3}}",
        "Object{spec: Object.spec{replicas: namespaceObject.metadata.labels.case == 'CASE' ? 9 : 1}}",
        "Object{metadata: Object.metadata{labels: {'operation': request.operation, 'old': string(oldObject != null)}}}\n",
        "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{tolerations: [
           Object.spec.template.spec.tolerations{key: 'a'}]}}}}",
    ]
    .map(|expression| plain(apply(expression)))
    .into();
    cases.extend(
        [
            "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a~b/c'), value: 'x'}]",
            "[JSONPatch{op: 'replace', path: '/spec/replicas', value: 7}, JSONPatch{op: 'add', path: '/spec/paused', value: true}]",
            "[JSONPatch{op: 'test', path: '/spec/replicas', value: 1}, JSONPatch{op: 'replace', path: '/spec/replicas', value: 4}]",
            "[JSONPatch{op: 'remove', path: '/spec/replicas'}]",
            "[JSONPatch{op: 'add', path: '/spec/template/spec/containers/-', value: Object.spec.template.spec.containers{name: 'd', image: 'e'}}]",
            "[JSONPatch{op: 'add', path: '/spec/template/spec/containers/0/args', value: ['-v', '2']}]",
            "[JSONPatch{op: 'copy', from: '/spec/replicas', path: '/spec/minReadySeconds'}]",
            "[JSONPatch{op: 'move', from: '/spec/template/metadata/labels', path: '/spec/template/metadata/annotations'}]",
            "object.metadata.name == 'a' ? [JSONPatch{op: 'add', path: '/metadata/labels/is', value: 'a'}] : []",
            "[JSONPatch{op: 'add', path: '/spec/none', value: 1}]",
            "[JSONPatch{op: 'add', path: '/spec/replicas', value: 'many'}]",
            "[JSONPatch{op: 'add', path: '/metadata/labels', value: {'whole': 'map'}}]",
            "[JSONPatch{op: 'add', path: '/spec/template/spec/containers/0/resources', value: {'limits': {'cpu': '1500m'}}}]",
            "[JSONPatch{op: 'add', path: '/metadata/labels/late', value: Object.spec{x: Object.y{}}}]",
        ]
        .map(|expression| plain(patch(expression))),
    );
    let label = |name: &str, value: &str| {
        apply(&format!("Object{{metadata: Object.metadata{{labels: {{'{name}': {value}}}}}}}"))
    };
    let more = apply("Object{spec: Object.spec{replicas: object.spec.replicas + 1}}");
    let failing = apply("Object{spec: Object.spec{replicas: object.spec.none}}");
    let none = json!({});
    let condition = |text: &str| json!({ "matchConditions": [{ "name": "c", "expression": text }] });
    let ignored = json!({ "failurePolicy": "Ignore" });
    let again = json!({ "reinvocationPolicy": "IfNeeded" });
    let variables = json!({ "variables": [
        { "name": "count", "expression": "object.spec.replicas" },
        { "name": "more", "expression": "variables.count + 2" },
        { "name": "fails", "expression": "object.spec.none" },
    ] });
    let params = json!({ "paramKind": { "apiVersion": "v1", "kind": "ConfigMap" } });
    let by_name = |name: &str, action: &str| json!({ "paramRef": { "name": name, "parameterNotFoundAction": action } });
    let selected = json!({ "paramRef": {
        "selector": { "matchLabels": { "params": "yes" } }, "parameterNotFoundAction": "Deny",
    } });
    let rules = |operations: Value, resources: Value| {
        let rule = json!({
            "operations": operations, "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": resources,
        });
        json!({ "matchConstraints": { "resourceRules": [rule] } })
    };
    let of_params = label("params", "params == null ? 'none' : params.metadata.name");
    cases.extend([
        case(&[&more, &more], &none, json!({})),
        case(&[&more, &failing, &more], &none, json!({})),
        case(&[&more, &failing, &more], &ignored, json!({})),
        // Without `Ignore`, each server has its own words for this type.
        case(&[&label("n", "object.spec.replicas"), &more], &ignored, json!({})),
        case(&[&failing, &patch("[JSONPatch{op: 'remove', path: '/spec/x/y'}]")], &ignored, json!({})),
        case(&[&more], &condition("object.metadata.name == 'b'"), json!({})),
        case(&[&more], &condition("object.spec.none == 1"), json!({})),
        case(&[&more], &with(condition("object.spec.none == 1"), &ignored), json!({})),
        case(&[&apply("Object{spec: Object.spec{replicas: variables.more}}")], &variables, json!({})),
        case(&[&apply("Object{spec: Object.spec{replicas: variables.fails}}")], &variables, json!({})),
        case(&[&of_params], &params, json!({})),
        case(&[&of_params], &params, by_name("small", "Deny")),
        case(&[&of_params], &params, by_name("none", "Deny")),
        case(&[&of_params], &with(params.clone(), &ignored), by_name("none", "Deny")),
        case(&[&of_params], &params, by_name("none", "Allow")),
        case(&[&more], &params, selected.clone()),
        case(&[&more], &with(params, &again), selected),
        case(&[&more], &again, json!({})),
        case(&[&more], &with(again.clone(), &condition("object.spec.replicas < 3")), json!({})),
        case(&[&more], &rules(json!(["UPDATE"]), json!(["deployments"])), json!({})),
        case(&[&more], &rules(json!(["*"]), json!(["*"])), json!({})),
        case(&[&apply("Object{status: Object.status{observedGeneration: 9}}")],
            &rules(json!(["UPDATE"]), json!(["deployments/status"])),
            json!({}),
        ),
        case(&[&more], &none, json!({ "matchResources": {
            "namespaceSelector": { "matchLabels": { "case": "CASE" } }, "objectSelector": { "matchLabels": { "big": "yes" } },
        } })),
    ]);
    let one = |mutation: &Value, more: &Value| (with(json!({ "mutations": [mutation] }), more), vec![json!({})]);
    let seen = label("seen", "string(object.spec.replicas)");
    // An API server has no order of policies.
    cases.push(Case { what: "two policies".to_owned(), policies: vec![one(&more, &none), one(&more, &none)] });
    cases.push(Case {
        what: "one sees the other, and is called again".to_owned(),
        policies: vec![one(&seen, &again), one(&more, &none)],
    });
    cases.push(Case {
        what: "two bindings".to_owned(),
        policies: vec![(json!({ "mutations": [more.clone()] }), vec![json!({}), json!({})])],
    });
    cases.push(Case { what: "no binding".to_owned(), policies: vec![(json!({ "mutations": [more] }), Vec::new())] });
    // Once both servers follow the last one, they know the others.
    cases.push(plain(label("last", "'yes'")));
    cases
}

impl Case {
    fn prepare(&self, pair: &Pair, name: &str) {
        let makes = |path: &str, document: &Value| pair.make(path, &of_case(document, name));
        makes("/api/v1/namespaces", &json!({ "metadata": { "name": name, "labels": { "case": name } } }));
        for size in ["small", "large"] {
            let metadata = json!({ "name": size, "labels": { "params": "yes" } });
            makes(&format!("/api/v1/namespaces/{name}/configmaps"), &json!({ "metadata": metadata }));
        }
        for (number, (policy, bindings)) in self.policies.iter().enumerate() {
            let policy_name = format!("{name}-{number}");
            let spec = json!({
                "failurePolicy": "Fail", "reinvocationPolicy": "Never",
                "matchConstraints": { "resourceRules": [{
                    "operations": ["CREATE", "UPDATE"], "apiGroups": ["apps"], "apiVersions": ["v1"],
                    "resources": ["deployments"],
                }] },
            });
            let document = json!({ "metadata": { "name": policy_name }, "spec": with(spec, policy) });
            makes(&format!("{GROUP}/mutatingadmissionpolicies"), &document);
            for (number, binding) in bindings.iter().enumerate() {
                let spec = json!({
                    "policyName": policy_name,
                    "matchResources": { "namespaceSelector": { "matchLabels": { "case": "CASE" } } },
                });
                let metadata = json!({ "name": format!("{policy_name}-{number}") });
                let document = json!({ "metadata": metadata, "spec": with(spec, binding) });
                makes(&format!("{GROUP}/mutatingadmissionpolicybindings"), &document);
            }
        }
    }
}

fn deployment(name: &str) -> Value {
    let labels = json!({ "app": "a", "big": "yes" });
    let container = json!({ "name": "c", "image": "i" });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name, "labels": labels },
        "spec": {
            "replicas": 1, "selector": { "matchLabels": { "app": "a" } },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": [container] } },
        },
    })
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn mutating_policies_act_as_in_a_real_api_server() {
    let (pair, cases) = (Pair::start(), cases());
    let name = |number: usize| format!("tint-{number}");
    let all = |number: usize| format!("/apis/apps/v1/namespaces/{}/deployments", name(number));
    for (number, case) in cases.iter().enumerate() {
        case.prepare(&pair, &name(number));
    }
    let last = all(cases.len() - 1) + "?dryRun=All";
    let is_labelled = || {
        let answers = pair.ask("POST", &last, &deployment("a"));
        answers.iter().all(|answer| answer.json()["metadata"]["labels"]["last"] == "yes").then_some(())
    };
    eventually_blocking("both know the policies", is_labelled);
    let generated_name = Regex::new("g-[a-z0-9]{5}").unwrap();
    let mut differences = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let all = all(number);
        let (first, applied) = (format!("{all}/a"), format!("{all}/c?fieldManager=me"));
        let mut generated = deployment("a");
        generated["metadata"]["generateName"] = "g-".into();
        generated["metadata"].as_object_mut().unwrap().remove("name");
        let requests = [
            ("POST", all.clone(), "application/json", deployment("a")),
            ("POST", all.clone(), "application/json", deployment("b")),
            ("PATCH", first.clone(), MERGE, json!({ "metadata": { "labels": { "more": "x" } } })),
            ("PATCH", first.clone(), MERGE, json!({ "spec": { "replicas": 2 } })),
            ("PATCH", applied, "application/apply-patch+yaml", deployment("c")),
            ("PATCH", format!("{first}/status"), MERGE, json!({ "status": { "replicas": 1 } })),
            ("POST", format!("{all}?dryRun=All"), "application/json", generated),
            ("DELETE", first, "application/json", json!({})),
        ];
        for (method, path, content_type, body) in requests {
            let body = body.to_string();
            let answers = pair.send(&Request { method, content_type, body: body.as_bytes(), ..Request::get(&path) });
            // After these words, the library for JSON patches of each server speaks.
            let found = answer_difference(answers, &["JSON Patch: "], Some(&generated_name));
            differences.extend(found.map(|found| format!("{}, {method} {path}:\n{found}", case.what)));
        }
    }
    assert!(differences.is_empty(), "{} differences\n{}", differences.len(), differences.join("\n"));
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn faults_in_mutations_are_those_of_a_real_api_server() {
    let pair = Pair::start();
    let mut mutations: Vec<Value> = [
        "Object{",
        "Object{spec: 1}",
        "Object{spec: Object.spec{}}.spec",
        "Object.spec{}",
        "Other{}",
        "object",
        "object.spec",
        "Object{?spec: 1}",
        "Object{?spec: optional.of(Object.spec{})}",
        "object.a == 1 ? Object{} : Object.spec{}",
        "  Object{}  ",
        "Object{spec: Other.spec{}}",
        "has(Object{}.a) ? Object{} : Object{b: 1}",
        "variables.none",
        "params.x",
        "'a'",
        "",
        "Object{a: [1, 'b']}",
        "Object{a: 1, a: 2}",
        "object.?list.orValue(Object{})",
        "int{}",
        "object{}",
        "Object{metadata: {'labels': {'a': 'b'}}}",
    ]
    .map(apply)
    .into();
    mutations.extend(
        [
            "[]",
            "[JSONPatch{}]",
            "[JSONPatch{op: 1}]",
            "[JSONPatch{path: 'a', value: 1}]",
            "[JSONPatch{other: 1}]",
            "JSONPatch{op: 'add'}",
            "[Object{}]",
            "object.list.map(x, JSONPatch{op: 'remove', path: x})",
            "[JSONPatch{op: 'a'}] + [JSONPatch{op: 'b'}]",
            "true ? [JSONPatch{op: 'a'}] : []",
            "[JSONPatch{op: object.a, from: request.name, path: jsonpatch.escapeKey('a')}]",
            "[JSONPatch{op: 'add', value: Invalid{}}]",
            "[1]",
            "object",
            "[object]",
            "[dyn(JSONPatch{op: 'a'})]",
        ]
        .map(patch),
    );
    mutations.extend([
        json!({ "patchType": "JSONPatch", "applyConfiguration": { "expression": "Object{}" } }),
        json!({ "patchType": "Other", "applyConfiguration": { "expression": "Object{}" } }),
        json!({ "patchType": "ApplyConfiguration", "applyConfiguration": { "expression": "Object{}" }, "jsonPatch": { "expression": "[" } }),
    ]);
    let mut differences = Vec::new();
    for mutation in mutations {
        let rule = json!({
            "operations": ["CREATE"], "apiGroups": ["none.dev"], "apiVersions": ["v1"], "resources": ["nones"],
        });
        let spec = json!({
            "reinvocationPolicy": "Never", "matchConstraints": { "resourceRules": [rule] }, "mutations": [mutation],
        });
        let document = json!({ "metadata": { "name": "doubtful" }, "spec": spec });
        let answers = pair.ask("POST", &format!("{GROUP}/mutatingadmissionpolicies?dryRun=All"), &document);
        // After these words, the parser of each server speaks.
        let found = answer_difference(answers, &["Syntax error:"], None);
        differences.extend(found.map(|found| format!("{mutation}:\n{found}")));
    }
    assert!(differences.is_empty(), "{} differences\n{}", differences.len(), differences.join("\n"));
}
