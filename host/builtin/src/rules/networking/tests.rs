//! Tests of the rules of classes, addresses and ranges.

use serde_json::{Value, json};

use super::fault_of_network;
use crate::rules::tests::support::{causes, check};

fn class() -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": { "name": "c" },
        "spec": {
            "controller": "example.com/c",
            "parameters": { "apiGroup": "a.b", "kind": "K", "name": "n", "scope": "Namespace", "namespace": "s" },
        },
    })
}

fn range() -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": { "name": "r" },
        "spec": { "cidrs": ["10.9.0.0/24"] },
    })
}

#[test]
fn parameters_of_a_class_are_in_a_namespace_only_if_its_scope_says_so() {
    check(
        class,
        &[
            ("/spec/controller", json!(""), &["spec.controller FieldValueRequired"]),
            ("/spec/controller", json!("c"), &["spec.controller FieldValueInvalid"]),
            ("/spec/parameters/namespace", json!(null), &["spec.parameters.namespace FieldValueRequired"]),
            ("/spec/parameters/scope", json!("Cluster"), &["spec.parameters.namespace FieldValueForbidden"]),
            ("/spec/parameters/scope", json!("Else"), &["spec.parameters.scope FieldValueNotSupported"]),
        ],
    );
    let mut changed = class();
    changed["spec"]["controller"] = "example.com/d".into();
    assert_eq!(causes(changed, Some(&class())), ["spec.controller FieldValueInvalid"]);
}

#[test]
fn a_range_has_one_network_of_each_family_and_gets_only_the_second_later() {
    check(
        range,
        &[
            ("/spec/cidrs", json!([]), &["spec.cidrs FieldValueRequired"]),
            ("/spec/cidrs", json!(["10.9.0.1/24"]), &["spec.cidrs[0] FieldValueInvalid"]),
            ("/spec/cidrs", json!(["10.9.0.0/24", "10.8.0.0/24"]), &["spec.cidrs FieldValueInvalid"]),
            ("/spec/cidrs", json!(["10.9.0.0/24", "fd00::/64"]), &[]),
        ],
    );
    let after = |cidrs: Value| {
        let mut changed = range();
        changed["spec"]["cidrs"] = cidrs;
        causes(changed, Some(&range()))
    };
    assert!(after(json!(["10.9.0.0/24", "fd00::/64"])).is_empty());
    assert_eq!(after(json!(["10.8.0.0/24"])), ["spec.cidrs[0] FieldValueInvalid"]);
    assert_eq!(after(json!([])), ["spec.cidrs FieldValueInvalid"]);
}

#[test]
fn a_network_in_its_shortest_form_has_no_bits_beyond_its_prefix() {
    for network in ["0.0.0.0/0", "10.0.0.0/8", "10.0.0.1/32", "::/0", "fd00::/64", "fd00::1/128"] {
        assert_eq!(fault_of_network(network), None);
    }
    for other in ["10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/08", "10.0.0.0", "fd00:0::/64", "fd00::1/64", "a/8", "/8"] {
        assert!(fault_of_network(other).is_some(), "{other}");
    }
}
