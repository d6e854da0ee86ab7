//! Tests of the rules of admission, after the schema and the defaults as the store applies them.

use serde_json::{Value, json};

use crate::rules::tests::support::{causes, check, defaulted, set};

fn webhooks() -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": { "name": "x" },
        "webhooks": [{
            "name": "a.b.c", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": { "service": { "name": "s", "namespace": "n", "path": "/p" } },
            "matchConditions": [{ "name": "m", "expression": "true" }],
            "rules": [{
                "apiGroups": ["nothing.dev"], "apiVersions": ["v1"], "resources": ["widgets"], "operations": ["CREATE"],
            }],
        }],
    })
}

fn validating_policy() -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": { "name": "x" },
        "spec": {
            "paramKind": { "apiVersion": "v1", "kind": "ConfigMap" },
            "matchConstraints": { "resourceRules": [{
                "apiGroups": ["nothing.dev"], "apiVersions": ["v1"], "resources": ["widgets"], "operations": ["CREATE"],
            }] },
            "matchConditions": [{ "name": "m", "expression": "true" }],
            "variables": [{ "name": "v", "expression": "1" }],
            "validations": [{ "expression": "true", "message": "no", "reason": "Forbidden" }],
            "auditAnnotations": [{ "key": "k", "valueExpression": "'v'" }],
        },
    })
}

fn mutating_policy() -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy",
        "metadata": { "name": "x" },
        "spec": {
            "reinvocationPolicy": "IfNeeded",
            "matchConstraints": { "resourceRules": [{
                "apiGroups": ["nothing.dev"], "apiVersions": ["v1"], "resources": ["widgets"], "operations": ["CREATE"],
            }] },
            "mutations": [{ "patchType": "JSONPatch", "jsonPatch": { "expression": "[JSONPatch{op: 'remove', path: '/a'}]" } }],
        },
    })
}

fn validating_binding() -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": { "name": "x" },
        "spec": {
            "policyName": "p", "validationActions": ["Deny", "Audit"],
            "paramRef": { "name": "c", "parameterNotFoundAction": "Deny" }, "matchResources": {},
        },
    })
}

fn mutating_binding() -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
        "metadata": { "name": "x" }, "spec": { "policyName": "p" },
    })
}

#[test]
fn policies_and_bindings_select_everything_by_default() {
    let everything = json!({ "matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {} });
    assert_eq!(defaulted(validating_binding())["spec"]["matchResources"], everything);
    assert_eq!(defaulted(mutating_binding())["spec"].get("matchResources"), None);
    for policy in [validating_policy(), mutating_policy()] {
        let constraints = &defaulted(policy)["spec"]["matchConstraints"];
        assert_eq!((&constraints["namespaceSelector"], &constraints["objectSelector"]), (&json!({}), &json!({})));
    }
}

#[test]
fn webhooks_are_checked() {
    let twice = json!([webhooks()["webhooks"][0], webhooks()["webhooks"][0]]);
    let many: Vec<Value> = (0..65).map(|at| json!({ "name": format!("m{at}"), "expression": "true" })).collect();
    check(
        webhooks,
        &[
            ("/webhooks", twice, &["webhooks[1].name FieldValueDuplicate"]),
            ("/webhooks/0/name", json!("a.b"), &["webhooks[0].name FieldValueInvalid"]),
            ("/webhooks/0/name", json!("A.b.c"), &["webhooks[0].name FieldValueInvalid"]),
            ("/webhooks/0/sideEffects", json!("Some"), &["webhooks[0].sideEffects FieldValueNotSupported"]),
            ("/webhooks/0/timeoutSeconds", json!(31), &["webhooks[0].timeoutSeconds FieldValueInvalid"]),
            ("/webhooks/0/timeoutSeconds", json!(0), &["webhooks[0].timeoutSeconds FieldValueInvalid"]),
            (
                "/webhooks/0/admissionReviewVersions",
                json!(["v1", "v1"]),
                &["webhooks[0].admissionReviewVersions[1] FieldValueInvalid"],
            ),
            (
                "/webhooks/0/admissionReviewVersions",
                json!(["v2"]),
                &["webhooks[0].admissionReviewVersions FieldValueInvalid"],
            ),
            (
                "/webhooks/0/clientConfig/service/port",
                json!(0),
                &["webhooks[0].clientConfig.service.port FieldValueInvalid"],
            ),
            (
                "/webhooks/0/clientConfig/service/path",
                json!("p"),
                &["webhooks[0].clientConfig.service.path FieldValueInvalid"],
            ),
            (
                "/webhooks/0/clientConfig/service/path",
                json!("/a//b"),
                &["webhooks[0].clientConfig.service.path FieldValueInvalid"],
            ),
            ("/webhooks/0/clientConfig/service/path", json!("/a/b/"), &[]),
            ("/webhooks/0/clientConfig/url", json!("https://a.b"), &["webhooks[0].clientConfig FieldValueRequired"]),
            ("/webhooks/0/matchConditions", json!(many), &["webhooks[0].matchConditions FieldValueTooMany"]),
            (
                "/webhooks/0/matchConditions/0",
                json!({ "name": "-", "expression": " " }),
                &[
                    "webhooks[0].matchConditions[0].expression FieldValueRequired",
                    "webhooks[0].matchConditions[0].name FieldValueInvalid",
                ],
            ),
        ],
    );
}

#[test]
fn a_webhook_keeps_what_it_had_before_the_rule() {
    let mut old = webhooks();
    old["webhooks"][0]["sideEffects"] = json!("Unknown");
    old["webhooks"][0]["admissionReviewVersions"] = json!(["v2"]);
    old["webhooks"][0]["matchConditions"][0]["name"] = json!("-");
    let expression = json!({ "key": "a", "operator": "In", "values": ["-"] });
    old["webhooks"][0]["objectSelector"] = json!({ "matchExpressions": [expression] });
    let old = defaulted(old);
    let mut changed = old.clone();
    changed["webhooks"][0]["timeoutSeconds"] = json!(3);
    assert_eq!(causes(changed.clone(), Some(&old)), [""; 0]);
    assert_eq!(causes(changed.clone(), None).len(), 4);
    // A webhook is no longer free of a rule once it obeys it.
    let sound = defaulted(webhooks());
    assert_eq!(causes(changed, Some(&sound)).len(), 4);
}

#[test]
fn rules_of_webhooks_and_policies_are_checked() {
    let path = |name: &str| format!("/spec/matchConstraints/resourceRules/0/{name}");
    for (name, values, wanted) in [
        ("operations", json!([]), vec!["operations FieldValueRequired"]),
        ("operations", json!(["*", "CREATE"]), vec!["operations FieldValueInvalid"]),
        ("operations", json!(["READ"]), vec!["operations[0] FieldValueNotSupported"]),
        ("apiGroups", json!(["*", "a"]), vec!["apiGroups FieldValueInvalid"]),
        ("apiGroups", json!([""]), vec![]),
        ("apiVersions", json!([""]), vec!["apiVersions[0] FieldValueRequired"]),
        ("resources", json!([""]), vec!["resources[0] FieldValueRequired"]),
        ("resources", json!(["a/*", "a/b"]), vec!["resources[1] FieldValueInvalid"]),
        ("resources", json!(["*/b", "a/b"]), vec!["resources[1] FieldValueInvalid"]),
        ("resources", json!(["*/*", "a"]), vec!["resources FieldValueInvalid"]),
        ("resources", json!(["*", "a"]), vec!["resources FieldValueInvalid"]),
        ("resources", json!(["*", "a/b"]), vec![]),
        ("resourceNames", json!(["a", "a"]), vec!["resourceNames[1] FieldValueDuplicate"]),
        ("resourceNames", json!(["a/b"]), vec!["resourceNames[0] FieldValueInvalid"]),
    ] {
        let mut policy = validating_policy();
        set(&mut policy, &path(name), values.clone());
        let wanted: Vec<String> =
            wanted.iter().map(|cause| format!("spec.matchConstraints.resourceRules[0].{cause}")).collect();
        assert_eq!(causes(policy, None), wanted, "{name}: {values}");
    }
}

#[test]
fn validating_policies_are_checked() {
    let long = "a".repeat(64);
    check(
        validating_policy,
        &[
            ("/spec/matchConstraints", Value::Null, &["spec.matchConstraints FieldValueRequired"]),
            ("/spec/matchConstraints", json!({}), &["spec.matchConstraints.resourceRules FieldValueRequired"]),
            (
                "/spec",
                json!({}),
                &[
                    "spec.auditAnnotations FieldValueRequired",
                    "spec.matchConstraints FieldValueRequired",
                    "spec.validations FieldValueRequired",
                ],
            ),
            (
                "/spec/paramKind",
                json!({}),
                &["spec.paramKind.apiVersion FieldValueRequired", "spec.paramKind.kind FieldValueRequired"],
            ),
            ("/spec/paramKind/apiVersion", json!("a/b/c"), &["spec.paramKind.apiVersion FieldValueInvalid"]),
            ("/spec/paramKind/apiVersion", json!("a.b/"), &["spec.paramKind.apiVersion FieldValueInvalid"]),
            ("/spec/paramKind/apiVersion", json!("A/v1"), &["spec.paramKind.apiVersion FieldValueInvalid"]),
            ("/spec/paramKind/apiVersion", json!("a.b/v1"), &[]),
            ("/spec/paramKind/kind", json!("500m"), &["spec.paramKind.kind FieldValueInvalid"]),
            ("/spec/variables/0/name", json!("in"), &["spec.variables[0].name FieldValueInvalid"]),
            ("/spec/variables/0/name", json!("1a"), &["spec.variables[0].name FieldValueInvalid"]),
            ("/spec/variables/0/name", json!(" "), &["spec.variables[0].name FieldValueRequired"]),
            ("/spec/variables/0/expression", json!(" "), &["spec.variables[0].expression FieldValueRequired"]),
            ("/spec/validations/0/expression", json!(""), &["spec.validations[0].expression FieldValueRequired"]),
            ("/spec/validations/0/message", json!(" "), &["spec.validations[0].message FieldValueInvalid"]),
            ("/spec/validations/0/message", json!("a\nb"), &["spec.validations[0].message FieldValueInvalid"]),
            ("/spec/validations/0/reason", json!("Gone"), &["spec.validations[0].reason FieldValueNotSupported"]),
            ("/spec/auditAnnotations/0/key", json!(long), &["spec.auditAnnotations[0].key FieldValueInvalid"]),
            (
                "/spec/auditAnnotations",
                json!([{ "key": "k", "valueExpression": "''" }, { "key": "k", "valueExpression": "''" }]),
                &["spec.auditAnnotations[1].key FieldValueDuplicate"],
            ),
        ],
    );
}

#[test]
fn conditions_of_a_policy_are_checked_when_they_change() {
    let mut old = validating_policy();
    old["spec"]["matchConditions"][0]["name"] = json!("-");
    let old = defaulted(old);
    let mut changed = old.clone();
    changed["spec"]["failurePolicy"] = json!("Ignore");
    assert_eq!(causes(changed.clone(), Some(&old)), [""; 0]);
    set(&mut changed, "/spec/paramKind", Value::Null);
    assert_eq!(causes(changed, Some(&old)), ["spec.matchConditions[0].name FieldValueInvalid"]);
}

#[test]
fn mutating_policies_are_checked() {
    check(
        mutating_policy,
        &[
            ("/spec/reinvocationPolicy", Value::Null, &["spec.reinvocationPolicy FieldValueRequired"]),
            ("/spec/mutations", json!([]), &["spec.mutations FieldValueRequired"]),
            ("/spec/mutations/0/jsonPatch", Value::Null, &["spec.mutations[0].jsonPatch FieldValueRequired"]),
            ("/spec/mutations/0/jsonPatch", json!({}), &["spec.mutations[0].jsonPatch.expression FieldValueRequired"]),
            (
                "/spec/mutations/0/jsonPatch/expression",
                json!("[]"),
                &["spec.mutations[0].jsonPatch.expression FieldValueInvalid"],
            ),
            (
                "/spec/mutations/0",
                json!({ "patchType": "ApplyConfiguration", "applyConfiguration": { "expression": "Object.spec{}" } }),
                &["spec.mutations[0].applyConfiguration.expression FieldValueInvalid"],
            ),
            (
                "/spec/mutations/0/patchType",
                json!("ApplyConfiguration"),
                &[
                    "spec.mutations[0].applyConfiguration FieldValueRequired",
                    "spec.mutations[0].jsonPatch FieldValueInvalid",
                ],
            ),
            (
                "/spec/matchConstraints/resourceRules/0/operations",
                json!(["DELETE"]),
                &["spec.matchConstraints.resourceRules.operations FieldValueNotSupported"],
            ),
        ],
    );
}

#[test]
fn bindings_are_checked() {
    check(
        validating_binding,
        &[
            ("/spec/policyName", Value::Null, &["spec.policyName FieldValueRequired"]),
            ("/spec/policyName", json!("P"), &["spec.policyName FieldValueInvalid"]),
            ("/spec/validationActions", json!([]), &["spec.validationActions FieldValueRequired"]),
            ("/spec/validationActions", json!(["Deny", "Warn"]), &["spec.validationActions FieldValueInvalid"]),
            ("/spec/validationActions", json!(["Deny", "Deny"]), &["spec.validationActions[1] FieldValueDuplicate"]),
            ("/spec/paramRef/name", Value::Null, &["spec.paramRef FieldValueRequired"]),
            ("/spec/paramRef/name", json!(".."), &["spec.paramRef.name FieldValueInvalid"]),
            (
                "/spec/paramRef/selector",
                json!({}),
                &["spec.paramRef.name FieldValueForbidden", "spec.paramRef.selector FieldValueForbidden"],
            ),
            (
                "/spec/paramRef/parameterNotFoundAction",
                Value::Null,
                &["spec.paramRef.parameterNotFoundAction FieldValueRequired"],
            ),
            (
                "/spec/paramRef/parameterNotFoundAction",
                json!("Warn"),
                &["spec.paramRef.parameterNotFoundAction FieldValueNotSupported"],
            ),
            (
                "/spec/matchResources/objectSelector",
                json!({ "matchLabels": { "-": "a" } }),
                &["spec.matchResources.objectSelector.matchLabels FieldValueInvalid"],
            ),
        ],
    );
    let deletes = json!({ "resourceRules": [{
        "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["DELETE"],
    }] });
    check(
        mutating_binding,
        &[
            ("/spec", json!({}), &["spec.policyName FieldValueRequired"]),
            ("/spec/matchResources", deletes, &["spec.matchResources.resourceRules.operations FieldValueNotSupported"]),
        ],
    );
}
