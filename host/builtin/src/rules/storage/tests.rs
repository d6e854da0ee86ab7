//! Tests of the rules of storage.

use serde_json::{Value, json};

use crate::rules::tests::support::{causes, check};

fn driver() -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": { "name": "d.example.com" },
        "spec": {
            "attachRequired": true, "volumeLifecycleModes": ["Persistent"],
            "tokenRequests": [{ "audience": "a", "expirationSeconds": 3600 }, { "audience": "" }],
        },
    })
}

fn node() -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": { "name": "n" },
        "spec": { "drivers": [
            { "name": "d.example.com", "nodeID": "n", "topologyKeys": ["a.b/c"], "allocatable": { "count": 5 } },
            { "name": "e.example.com", "nodeID": "n" },
        ] },
    })
}

fn attachment() -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": { "name": "a" },
        "spec": { "attacher": "d.example.com", "nodeName": "n", "source": { "persistentVolumeName": "p" } },
    })
}

fn class() -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass", "metadata": { "name": "c" },
        "driverName": "d.example.com", "parameters": { "a": "b" },
    })
}

#[test]
fn a_driver_asks_for_each_audience_once() {
    check(
        driver,
        &[
            ("/spec/tokenRequests/1/audience", json!("a"), &["spec.tokenRequests[1].audience FieldValueDuplicate"]),
            (
                "/spec/tokenRequests/0/expirationSeconds",
                json!(599),
                &["spec.tokenRequests[0].expirationSeconds FieldValueInvalid"],
            ),
            (
                "/spec/nodeAllocatableUpdatePeriodSeconds",
                json!(9),
                &["spec.nodeAllocatableUpdatePeriodSeconds FieldValueInvalid"],
            ),
        ],
    );
    let mut changed = driver();
    changed["spec"]["attachRequired"] = false.into();
    assert_eq!(causes(changed, Some(&driver())), ["spec.attachedRequired FieldValueInvalid"]);
}

#[test]
fn a_node_has_each_driver_once_and_keeps_it() {
    check(
        node,
        &[
            ("/spec/drivers/1/name", json!("d.example.com"), &["spec.drivers[1].name FieldValueDuplicate"]),
            ("/spec/drivers/0/name", json!("a_b"), &["spec.drivers[0].name FieldValueInvalid"]),
            ("/spec/drivers/0/allocatable/count", json!(-1), &["spec.drivers[0].allocatable.count FieldValueInvalid"]),
            ("/spec/drivers/0/topologyKeys", json!(["a", "a"]), &["spec.drivers[0] FieldValueDuplicate"]),
        ],
    );
    let mut changed = node();
    changed["spec"]["drivers"][0]["allocatable"]["count"] = 6.into();
    assert!(causes(changed.clone(), Some(&node())).is_empty());
    changed["spec"]["drivers"][0]["nodeID"] = "other".into();
    assert_eq!(causes(changed, Some(&node())), ["spec.drivers FieldValueInvalid"]);
}

#[test]
fn an_attachment_has_one_source_and_never_changes() {
    check(
        attachment,
        &[
            ("/spec/source", json!({}), &["spec.source FieldValueRequired"]),
            ("/spec/nodeName", json!(""), &["spec.nodeName FieldValueInvalid"]),
        ],
    );
    let mut changed = attachment();
    changed["spec"]["nodeName"] = "m".into();
    assert_eq!(causes(changed, Some(&attachment())), ["spec FieldValueInvalid"]);
}

#[test]
fn parameters_of_a_class_of_attributes_are_there_and_stay() {
    check(class, &[("/parameters", json!({}), &["parameters FieldValueRequired"])]);
    let mut changed = class();
    changed["parameters"]["a"] = "c".into();
    assert_eq!(causes(changed, Some(&class())), ["parameters FieldValueForbidden"]);
}
