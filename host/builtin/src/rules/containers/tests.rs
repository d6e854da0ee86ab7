//! Tests of the rules of containers.

use serde_json::{Value, json};

use crate::rules::tests::support::{causes, check};

const INVALID: &str = "FieldValueInvalid";

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "a", "namespace": "n" },
        "spec": {
            "containers": [
                { "name": "a", "image": "i:1", "volumeMounts": [{ "name": "d", "mountPath": "/d" }], "env": [],
                    "ports": [{ "containerPort": 80 }], "resources": { "limits": { "cpu": "1" } }, "lifecycle": {} },
                { "name": "b", "image": "i:1" },
            ],
            "initContainers": [{ "name": "c", "image": "i:1" }],
            "volumes": [{ "name": "d", "emptyDir": {} }, { "name": "p", "persistentVolumeClaim": { "claimName": "p" } }],
        },
    })
}

fn in_first(path: &str, reason: &str) -> String {
    format!("spec.containers[0].{path} {reason}")
}

#[test]
fn names_and_images_are_checked() {
    check(
        pod,
        &[
            ("/spec/containers/1/name", json!("a"), &["spec.containers[1].name FieldValueDuplicate"]),
            ("/spec/initContainers/0/name", json!("a"), &["spec.initContainers[0].name FieldValueDuplicate"]),
            ("/spec/containers/0/name", json!("A"), &["spec.containers[0].name FieldValueInvalid"]),
            ("/spec/containers/0/image", json!(" i"), &["spec.containers[0].image FieldValueInvalid"]),
            ("/spec/containers/0/image", json!(""), &["spec.containers[0].image FieldValueRequired"]),
        ],
    );
}

#[test]
fn only_containers_that_run_beside_others_have_probes() {
    let probe = json!({ "tcpSocket": { "port": 80 }, "successThreshold": 2 });
    let mut document = pod();
    document["spec"]["initContainers"][0]["livenessProbe"] = probe.clone();
    assert_eq!(causes(document.clone(), None), ["spec.initContainers[0].livenessProbe FieldValueForbidden"]);
    document["spec"]["initContainers"][0]["restartPolicy"] = "Always".into();
    let wanted = ["spec.initContainers[0].livenessProbe.successThreshold FieldValueInvalid"];
    assert_eq!(causes(document, None), wanted);
    let readiness = json!({ "exec": { "command": ["a"] }, "terminationGracePeriodSeconds": 1 });
    let mut document = pod();
    document["spec"]["containers"][0]["readinessProbe"] = readiness;
    assert_eq!(causes(document, None), [in_first("readinessProbe.terminationGracePeriodSeconds", INVALID)]);
}

#[test]
fn hooks_are_checked() {
    for (hook, wanted) in [
        (json!({ "sleep": { "seconds": 31 } }), in_first("lifecycle.preStop.sleep", INVALID)),
        (
            json!({ "httpGet": { "port": 80, "httpHeaders": [{ "name": "a b" }] } }),
            in_first("lifecycle.preStop.httpGet.httpHeaders", INVALID),
        ),
        (
            json!({ "exec": { "command": ["a"] }, "tcpSocket": { "port": 0 } }),
            in_first("lifecycle.preStop.tcpSocket", "FieldValueForbidden"),
        ),
        (json!({}), in_first("lifecycle.preStop", "FieldValueRequired")),
    ] {
        let mut document = pod();
        document["spec"]["containers"][0]["lifecycle"]["preStop"] = hook;
        assert_eq!(causes(document, None), [wanted]);
    }
}

#[test]
fn variables_are_checked() {
    let from = |field: &str| json!({ "name": "A", "valueFrom": { "fieldRef": { "fieldPath": field } } });
    let of = |resource: &str, divisor: &str| {
        let reference = json!({ "resource": resource, "divisor": divisor });
        json!({ "name": "A", "valueFrom": { "resourceFieldRef": reference } })
    };
    for (variable, wanted) in [
        (json!({ "name": "a b", "value": "c" }), None),
        (json!({ "name": "a=b" }), Some(("name", INVALID))),
        (from("metadata.labels['a']"), None),
        (from("spec.host"), None),
        (from("metadata.labels['-']"), Some(("valueFrom.fieldRef", INVALID))),
        (from("metadata.name['a']"), Some(("valueFrom.fieldRef.fieldPath", INVALID))),
        (from("metadata.labels"), Some(("valueFrom.fieldRef.fieldPath", "FieldValueNotSupported"))),
        (from("spec.nodeSelector"), Some(("valueFrom.fieldRef.fieldPath", INVALID))),
        (of("limits.hugepages-2Mi", "1Ki"), None),
        (of("limits.cpu", "1k"), Some(("valueFrom.resourceFieldRef.divisor", INVALID))),
        (of("limits.gpu", "0"), Some(("valueFrom.resourceFieldRef.resource", "FieldValueNotSupported"))),
        (
            json!({ "name": "A", "valueFrom": { "secretKeyRef": { "name": "s", "key": "..a" } } }),
            Some(("valueFrom.secretKeyRef.key", INVALID)),
        ),
        (
            json!({ "name": "A", "valueFrom": { "fileKeyRef": { "volumeName": "p", "path": "f", "key": "k" } } }),
            Some(("valueFrom.fileKeyRef.volumeName", INVALID)),
        ),
    ] {
        let mut document = pod();
        document["spec"]["containers"][0]["env"] = json!([variable]);
        let wanted = wanted.map(|(path, reason)| in_first(&format!("env[0].{path}"), reason));
        assert_eq!(causes(document, None), Vec::from_iter(wanted), "{variable}");
    }
}

#[test]
fn mounts_and_devices_are_checked() {
    let on = |place: &str| json!({ "name": "d", "mountPath": place });
    let with = |field: &str, value: &str| {
        let mut mount = on("/d");
        mount[field] = value.into();
        json!([mount])
    };
    let list = "spec.containers[0].volumeMounts";
    for (mounts, path, reason) in [
        (json!([on("/d"), on("/d")]), "[1].mountPath", INVALID),
        (json!([{ "name": "x", "mountPath": "/x" }]), "[0].name", "FieldValueNotFound"),
        (with("subPath", "../a"), ".subPath", INVALID),
        (with("mountPropagation", "Bidirectional"), ".mountPropagation", "FieldValueForbidden"),
        (with("recursiveReadOnly", "Enabled"), ".recursiveReadOnly", "FieldValueForbidden"),
        (with("recursiveReadOnly", "Yes"), ".recursiveReadOnly", "FieldValueNotSupported"),
    ] {
        let mut document = pod();
        document["spec"]["containers"][0]["volumeMounts"] = mounts.clone();
        assert_eq!(causes(document, None), [format!("{list}{path} {reason}")], "{mounts}");
    }
    for (device, wanted) in [
        (json!({ "name": "p", "devicePath": "/p" }), None),
        (json!({ "name": "p", "devicePath": "/d" }), Some("devicePath")),
        (json!({ "name": "p", "devicePath": "a/../b" }), Some("devicePath")),
        (json!({ "name": "d", "devicePath": "/p" }), Some("name")),
    ] {
        let mut document = pod();
        document["spec"]["containers"][1]["volumeDevices"] = json!([device]);
        document["spec"]["containers"][1]["volumeMounts"] = json!([{ "name": "d", "mountPath": "/d" }]);
        let found = causes(document, None);
        assert_eq!(found.is_empty(), wanted.is_none(), "{device}: {found:?}");
        let path = wanted.map(|field| format!("spec.containers[1].volumeDevices[0].{field} {INVALID}"));
        assert!(path.is_none_or(|path| found.contains(&path)), "{device}: {found:?}");
    }
}

#[test]
fn resources_are_checked() {
    for (resources, wanted) in [
        (json!({ "limits": { "example.com/a": "1500m" } }), vec!["limits[example.com/a]", "requests[example.com/a]"]),
        (json!({ "limits": { "example.com/a": "2" }, "requests": { "example.com/a": "1" } }), vec!["requests"]),
        (json!({ "limits": { "pods": "1" } }), vec!["limits[pods]", "requests[pods]"]),
        (
            json!({ "limits": { "hugepages-2Mi": "3Mi", "cpu": "1" } }),
            vec!["limits[hugepages-2Mi]", "requests[hugepages-2Mi]"],
        ),
        (json!({ "limits": { "cpu": "1" }, "requests": { "cpu": "2" } }), vec!["requests"]),
    ] {
        let mut document = pod();
        document["spec"]["containers"][0]["resources"] = resources.clone();
        let wanted: Vec<String> =
            wanted.into_iter().map(|path| in_first(&format!("resources.{path}"), INVALID)).collect();
        assert_eq!(causes(document, None), wanted, "{resources}");
    }
    check(
        pod,
        &[
            (
                "/spec/containers/0/resources",
                json!({ "limits": { "hugepages-2Mi": "2Mi" } }),
                &["spec.containers[0].resources FieldValueForbidden"],
            ),
            (
                "/spec/containers/0/resources",
                json!({ "requests": { "example.com/a": "1" } }),
                &["spec.containers[0].resources.limits FieldValueRequired"],
            ),
            (
                "/spec/containers/0/resources",
                json!({ "claims": [{ "name": "c" }] }),
                &["spec.containers[0].resources.claims[0] FieldValueNotFound"],
            ),
        ],
    );
}

#[test]
fn restarts_are_checked() {
    check(
        pod,
        &[
            (
                "/spec/containers/0/restartPolicyRules",
                json!([{ "action": "Restart", "exitCodes": { "operator": "In", "values": [1] } }]),
                &["spec.containers[0].restartPolicy FieldValueRequired"],
            ),
            (
                "/spec/containers/0/resizePolicy",
                json!([{ "resourceName": "cpu", "restartPolicy": "NotRequired" }, { "resourceName": "cpu" }]),
                &[
                    "spec.containers[0].resizePolicy FieldValueRequired",
                    "spec.containers[0].resizePolicy[1] FieldValueDuplicate",
                ],
            ),
            (
                "/spec/initContainers/0/resizePolicy",
                json!([{ "resourceName": "cpu", "restartPolicy": "RestartContainer" }]),
                &["spec.initContainers[0].resizePolicy[0].restartPolicy FieldValueInvalid"],
            ),
        ],
    );
}

#[test]
fn ports_of_the_host_are_used_once() {
    let port = json!([{ "containerPort": 80, "hostPort": 80 }]);
    let mut document = pod();
    document["spec"]["containers"][0]["ports"] = port.clone();
    document["spec"]["initContainers"][0]["ports"] = port.clone();
    assert_eq!(causes(document.clone(), None), [""; 0]);
    document["spec"]["containers"][1]["ports"] = port;
    assert_eq!(causes(document.clone(), None), ["spec.containers[1].ports[0].hostPort FieldValueDuplicate"]);
    document["spec"]["containers"][1]["ports"][0]["hostPort"] = 81.into();
    document["spec"]["hostNetwork"] = true.into();
    assert_eq!(causes(document, None), ["spec.containers[1].ports[0].hostPort FieldValueInvalid"]);
}

#[test]
fn an_ephemeral_container_has_no_hooks() {
    let mut document = pod();
    document["spec"]["ephemeralContainers"] =
        json!([{ "name": "e", "image": "i:1", "lifecycle": {}, "resources": {}, "targetContainerName": "c" }]);
    let wanted =
        ["spec.ephemeralContainers FieldValueForbidden", "spec.ephemeralContainers[0].lifecycle FieldValueForbidden"];
    assert_eq!(causes(document, None), wanted);
}
