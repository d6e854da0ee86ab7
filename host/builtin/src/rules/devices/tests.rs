//! Tests of the rules of classes of devices, claims, templates and slices.

use homeostat_store::schema::Schema;
use serde_json::{Value, json};

use crate::rules;

/// Returns the document of a claim for two devices.
fn claim() -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": { "name": "c", "namespace": "n" },
        "spec": { "devices": {
            "requests": [
                { "name": "r", "exactly": {
                    "deviceClassName": "c.example.com", "allocationMode": "ExactCount", "count": 2,
                    "selectors": [{ "cel": { "expression": "device.driver == 'd.example.com'" } }],
                } },
                { "name": "s", "firstAvailable": [
                    { "name": "a", "deviceClassName": "c", "allocationMode": "All" },
                    { "name": "b", "deviceClassName": "c", "allocationMode": "ExactCount", "count": 1 },
                ] },
            ],
            "constraints": [{ "requests": ["r", "s/a"], "matchAttribute": "d.example.com/a" }],
            "config": [{
                "requests": ["s"], "opaque": { "driver": "d.example.com", "parameters": { "a": 1 } },
            }],
        } },
    })
}

fn slice() -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": { "name": "s" },
        "spec": {
            "driver": "d.example.com", "nodeName": "n",
            "pool": { "name": "p", "generation": 1, "resourceSliceCount": 1 },
            "devices": [{
                "name": "g",
                "attributes": { "a": { "string": "b" }, "d.example.com/v": { "version": "1.0.0-rc.1+b.01" } },
                "capacity": { "memory": { "value": "8Gi" } },
            }],
        },
    })
}

fn class() -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": { "name": "c" },
        "spec": {
            "selectors": [{ "cel": { "expression": "true" } }], "extendedResourceName": "example.com/gpu",
            "config": [{ "opaque": { "driver": "d.example.com", "parameters": {} } }],
        },
    })
}

fn known(document: &Value) -> &'static crate::BuiltInKind {
    let kind = document["kind"].as_str().expect("it has a kind");
    let kind = homeostat_store::Kind::parse("resource.k8s.io/v1", kind).expect("it is a kind");
    crate::find(&kind).expect("it is built in")
}

/// Returns the paths and the reasons of the violations of the rules, sorted.
fn causes(document: &Value, old: Option<&Value>) -> Vec<String> {
    let found = rules::of(known(document)).check(document, old, None);
    let mut causes: Vec<String> = found.iter().map(|found| format!("{}: {}", found.path, found.reason)).collect();
    causes.sort();
    causes.dedup();
    causes
}

/// Checks that a document becomes invalid when the value at a JSON pointer is replaced.
fn refuses(document: &Value, pointer: &str, value: Value, wanted: &[&str]) {
    let mut changed = document.clone();
    let (parent, name) = pointer.rsplit_once('/').expect("it is a pointer");
    let parent = changed.pointer_mut(parent).expect("it has the place");
    match parent {
        Value::Array(items) => items[name.parse::<usize>().expect("it is an index")] = value,
        parent => parent[&name.replace("~1", "/")] = value,
    }
    assert_eq!(causes(&changed, None), wanted, "{pointer}: {changed}");
}

#[test]
fn devices_that_are_sound_have_no_violation() {
    for document in [claim(), slice(), class()] {
        assert_eq!(causes(&document, None), [""; 0]);
        assert_eq!(causes(&document, Some(&document)), [""; 0]);
    }
}

#[test]
fn devices_of_a_claim_are_checked() {
    let requests = "/spec/devices/requests";
    let at = |rest: &str| format!("{requests}{rest}");
    let label = "spec.devices.requests[0].exactly";
    refuses(
        &claim(),
        &at("/0/exactly/deviceClassName"),
        json!(""),
        &[&format!("{label}.deviceClassName: Required value")],
    );
    refuses(&claim(), &at("/0/exactly/count"), json!(-1), &[&format!("{label}.count: Invalid value")]);
    refuses(&claim(), &at("/0/exactly/allocationMode"), json!("All"), &[&format!("{label}.count: Invalid value")]);
    refuses(
        &claim(),
        &at("/0/exactly/selectors/0"),
        json!({}),
        &[&format!("{label}.selectors[0].cel: Required value")],
    );
    refuses(&claim(), &at("/0/exactly"), Value::Null, &["spec.devices.requests[0]: Required value"]);
    refuses(&claim(), &at("/0/firstAvailable"), json!([{ "name": "a" }]), &["spec.devices.requests[0]: Invalid value"]);
    refuses(
        &claim(),
        &at("/1/firstAvailable/1/name"),
        json!("a"),
        &["spec.devices.requests[1].firstAvailable[1]: Duplicate value"],
    );
    refuses(
        &claim(),
        &at("/0/exactly/tolerations"),
        json!([{ "operator": "Exists", "value": "v", "effect": "No" }]),
        &[
            &format!("{label}.tolerations[0].effect: Unsupported value"),
            &format!("{label}.tolerations[0].value: Invalid value"),
        ],
    );
    refuses(
        &claim(),
        "/spec/devices/requests",
        json!(vec![json!({}); 33]),
        &[
            "spec.devices.config[0].requests[0]: Invalid value",
            "spec.devices.constraints[0].requests[0]: Invalid value",
            "spec.devices.constraints[0].requests[1]: Invalid value",
            "spec.devices.requests: Too many",
        ],
    );
}

#[test]
fn constraints_and_configurations_name_requests_of_their_claim() {
    let (constraint, config) = ("/spec/devices/constraints/0", "/spec/devices/config/0");
    for name in ["", "t", "r/a", "s/c", "s/a/b"] {
        refuses(
            &claim(),
            &format!("{constraint}/requests"),
            json!([name]),
            &["spec.devices.constraints[0].requests[0]: Invalid value"],
        );
    }
    refuses(
        &claim(),
        &format!("{config}/requests"),
        json!(["r", "r"]),
        &["spec.devices.config[0].requests[1]: Duplicate value"],
    );
    refuses(
        &claim(),
        &format!("{constraint}/matchAttribute"),
        Value::Null,
        &["spec.devices.constraints[0]: Required value"],
    );
    for name in ["a", "/a", "d.example.com/", "d.example.com/1", "d_/a"] {
        refuses(
            &claim(),
            &format!("{constraint}/matchAttribute"),
            json!(name),
            &["spec.devices.constraints[0].matchAttribute: Invalid value"],
        );
    }
    refuses(&claim(), &format!("{config}/opaque"), Value::Null, &["spec.devices.config[0].opaque: Required value"]);
    for parameters in [json!(""), json!(1), json!([])] {
        refuses(
            &claim(),
            &format!("{config}/opaque/parameters"),
            parameters,
            &["spec.devices.config[0].opaque.parameters: Invalid value"],
        );
    }
}

#[test]
fn a_claim_and_the_claims_of_a_template_never_change() {
    let (old, mut changed) = (claim(), claim());
    changed["spec"]["devices"]["requests"][0]["name"] = json!("");
    assert_eq!(causes(&changed, Some(&old)), ["spec: Invalid value"]);
    let template = |claim: &Value| {
        let mut template = claim.clone();
        template["kind"] = json!("ResourceClaimTemplate");
        template["spec"] = json!({ "metadata": { "labels": { "a": "b" } }, "spec": claim["spec"] });
        template
    };
    assert_eq!(causes(&template(&old), None), [""; 0]);
    assert_eq!(
        causes(&template(&changed), Some(&template(&old))),
        [
            "spec.spec.devices.constraints[0].requests[0]: Invalid value",
            "spec.spec.devices.requests[0].name: Invalid value",
            "spec: Invalid value",
        ]
    );
    refuses(
        &template(&old),
        "/spec/metadata",
        json!({ "labels": { "a": "-" }, "name": "n" }),
        &["spec.metadata.labels: Invalid value", "spec.metadata.name: Forbidden"],
    );
}

#[test]
fn a_class_is_checked() {
    for expression in ["", " ", "10", "UPPER_x", "500m"] {
        refuses(
            &class(),
            "/spec/selectors/0/cel/expression",
            json!(expression),
            &["spec.selectors[0].cel.expression: Invalid value"],
        );
    }
    refuses(
        &class(),
        "/spec/selectors/0/cel/expression",
        json!("a && ".repeat(2100)),
        &["spec.selectors[0].cel.expression: Too long"],
    );
    for name in ["", "gpu", "kubernetes.io/gpu", "requests.example.com/gpu"] {
        refuses(&class(), "/spec/extendedResourceName", json!(name), &["spec.extendedResourceName: Invalid value"]);
    }
    refuses(
        &class(),
        "/spec/config/0/opaque/driver",
        json!("a".repeat(300)),
        &["spec.config[0].opaque.driver: Invalid value", "spec.config[0].opaque.driver: Too long"],
    );
    let mut long = class();
    long["spec"]["config"][0]["opaque"]["parameters"] = json!({ "a": "b".repeat(20_000) });
    assert_eq!(causes(&long, None), ["spec.config[0].opaque.parameters: Too long"]);
    assert_eq!(causes(&long, Some(&long)), [""; 0], "one that is stored stays valid");
}

#[test]
fn a_slice_selects_nodes_in_one_way() {
    refuses(&slice(), "/spec/nodeName", Value::Null, &["spec: Required value"]);
    refuses(&slice(), "/spec/nodeName", json!(""), &["spec.nodeName: Invalid value", "spec: Required value"]);
    refuses(&slice(), "/spec/allNodes", json!(true), &["spec: Invalid value"]);
    refuses(&slice(), "/spec/allNodes", json!(false), &["spec.allNodes: Invalid value"]);
    refuses(&slice(), "/spec/devices/0/allNodes", json!(true), &["spec.devices[0]: Invalid value"]);
    let mut each = slice();
    each["spec"]["nodeName"] = Value::Null;
    each["spec"]["perDeviceNodeSelection"] = json!(true);
    assert_eq!(causes(&each, None), ["spec.devices[0]: Required value"]);
    let term = json!({ "matchExpressions": [{ "key": "a", "operator": "Gt", "values": ["1", "2"] }] });
    refuses(
        &each,
        "/spec/devices/0/nodeSelector",
        json!({ "nodeSelectorTerms": [term] }),
        &["spec.devices[0].nodeSelector.nodeSelectorTerms[0].matchExpressions[0].values: Required value"],
    );
}

#[test]
fn the_devices_of_a_slice_are_checked() {
    let device = "/spec/devices/0";
    refuses(&slice(), &format!("{device}/name"), json!(""), &["spec.devices[0].name: Invalid value"]);
    refuses(&slice(), &format!("{device}/attributes/a"), json!({}), &["spec.devices[0].attributes[a]: Invalid value"]);
    refuses(
        &slice(),
        &format!("{device}/attributes/a"),
        json!({ "int": 1, "bool": true }),
        &["spec.devices[0].attributes[a]: Invalid value"],
    );
    for version in ["1", "1.0", "01.0.0", "1.0.0-", "1.0.0-01", "1.0.0+", "v1.0.0"] {
        refuses(
            &slice(),
            &format!("{device}/attributes/a"),
            json!({ "version": version }),
            &["spec.devices[0].attributes[a].version: Invalid value"],
        );
    }
    refuses(
        &slice(),
        &format!("{device}/attributes/a-b"),
        json!({ "int": 1 }),
        &["spec.devices[0].attributes: Invalid value"],
    );
    refuses(
        &slice(),
        &format!("{device}/taints"),
        json!([{ "key": "", "effect": "NoExecute" }]),
        &["spec.devices[0].taints[0].key: Invalid value"],
    );
    refuses(
        &slice(),
        &format!("{device}/consumesCounters"),
        json!([{ "counterSet": "s" }, { "counterSet": "s" }]),
        &[
            "spec.devices[0].consumesCounters[0].counters: Required value",
            "spec.devices[0].consumesCounters[1].counters: Required value",
            "spec.devices[0].consumesCounters[1]: Duplicate value",
        ],
    );
    refuses(
        &slice(),
        &format!("{device}/bindingConditions"),
        json!(["a"]),
        &["spec.devices[0].bindingFailureConditions: Invalid value"],
    );
}

#[test]
fn the_amounts_that_a_request_may_have_are_checked() {
    let policy = |policy: Value, wanted: &[&str]| {
        let wanted: Vec<String> =
            wanted.iter().map(|rest| format!("spec.devices[0].capacity[memory].requestPolicy{rest}")).collect();
        let mut document = slice();
        document["spec"]["devices"][0]["capacity"]["memory"]["requestPolicy"] = policy;
        let single = causes(&document, None);
        assert_eq!(single, ["spec.devices[0].capacity[memory].requestPolicy: Forbidden"]);
        document["spec"]["devices"][0]["allowMultipleAllocations"] = json!(true);
        assert_eq!(causes(&document, None), wanted);
    };
    policy(json!({ "default": "1Gi", "validValues": ["1Gi", "2Gi"] }), &[]);
    policy(json!({ "validValues": ["1Gi"] }), &[".default: Required value"]);
    policy(json!({ "default": "1Gi", "validValues": ["2Gi", "1Gi"] }), &[".validValues[1]: Invalid value"]);
    policy(
        json!({ "default": "3Gi", "validValues": ["1Gi", "9Gi"] }),
        &[".validValues: Invalid value", ".validValues[1]: Invalid value"],
    );
    policy(json!({ "default": "2Gi", "validRange": { "min": "1Gi", "max": "4Gi", "step": "1Gi" } }), &[]);
    policy(json!({ "default": "2Gi", "validRange": {} }), &[".validRange.min: Required value"]);
    policy(
        json!({ "default": "1", "validRange": { "min": "2", "max": "9Gi", "step": "0" } }),
        &[".validRange.max: Invalid value", ".validRange.min: Invalid value", ".validRange.step: Invalid value"],
    );
}

#[test]
fn the_pool_the_driver_and_the_node_of_a_slice_never_change() {
    let (old, mut changed) = (slice(), slice());
    changed["spec"]["pool"] = json!({ "name": "other", "generation": 2, "resourceSliceCount": 0 });
    changed["spec"]["driver"] = json!("UPPER_x");
    changed["spec"]["nodeName"] = json!("m");
    assert_eq!(
        causes(&changed, Some(&old)),
        [
            "spec.driver: Invalid value",
            "spec.nodeName: Invalid value",
            "spec.pool.name: Invalid value",
            "spec.pool.resourceSliceCount: Invalid value",
        ]
    );
}

#[test]
fn fields_of_devices_get_defaults_and_lose_what_a_gate_holds_back() {
    let defaulted = |mut document: Value| {
        let kind = homeostat_store::Kind::parse("resource.k8s.io/v1", document["kind"].as_str().expect("it has one"));
        let schema: Schema = crate::schema(&kind.expect("it is a kind")).expect("it is built in");
        schema.set_defaults(&mut document).expect("the defaults are small");
        rules::of(known(&document)).set_defaults(&mut document, None);
        document
    };
    let mut document = claim();
    document["spec"]["devices"]["requests"][0]["exactly"] = json!({ "deviceClassName": "c" });
    let exactly = defaulted(document)["spec"]["devices"]["requests"][0]["exactly"].clone();
    assert_eq!(exactly, json!({ "deviceClassName": "c", "allocationMode": "ExactCount", "count": 1 }));
    let mut document = slice();
    document["spec"]["devices"][0]["attributes"]["a"] = json!({ "ints": [1] });
    document["spec"]["devices"][0]["capacity"]["memory"] = json!({});
    let document = defaulted(document);
    assert_eq!(document["spec"]["devices"][0]["capacity"]["memory"], json!({ "value": "0" }));
    assert_eq!(causes(&document, None), ["spec.devices[0].attributes[a]: Invalid value"]);
}
