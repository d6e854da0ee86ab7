//! Tests of the protobuf encoding.

use serde_json::{Value, json};

use super::{Error, decode, encode, encode_event};

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "web", "namespace": "default", "labels": { "app": "web" },
            "creationTimestamp": "2026-01-02T03:04:05Z", "generation": 3,
            "managedFields": [{
                "apiVersion": "apps/v1", "fieldsType": "FieldsV1", "fieldsV1": { "f:spec": { "f:replicas": {} } },
                "manager": "kubectl", "operation": "Update", "time": "2026-01-02T03:04:05Z",
            }],
        },
        "spec": {
            "replicas": 0,
            "selector": { "matchLabels": { "app": "web" } },
            "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": "25%", "maxUnavailable": 1 } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": {
                    "containers": [{
                        "name": "web", "image": "nginx:1",
                        "resources": { "limits": { "cpu": "500m" } },
                        "env": [{ "name": "A", "valueFrom": { "configMapKeyRef": { "name": "c", "key": "k" } } }],
                        "livenessProbe": { "httpGet": { "path": "/", "port": 80, "scheme": "HTTP" } },
                    }],
                    "securityContext": { "supplementalGroups": [1, 2] },
                    "volumes": [{ "name": "v", "emptyDir": {} }],
                },
            },
        },
        "status": {},
    })
}

#[test]
fn a_deployment_survives_the_way_to_protobuf_and_back() {
    let document = deployment();
    let encoded = encode(&document).expect("it is a deployment");
    assert_eq!(decode(&encoded), Ok(document));
}

#[test]
fn bytes_times_and_leases_survive() {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" }, "data": { "a": "AAEC" }, "type": "Opaque",
    });
    assert_eq!(decode(&encode(&secret).expect("it is a secret")), Ok(secret));
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": "l" },
        "spec": { "holderIdentity": "me", "renewTime": "2026-01-02T03:04:05.000006Z" },
    });
    assert_eq!(decode(&encode(&lease).expect("it is a lease")), Ok(lease));
}

#[test]
fn a_definition_survives_with_all_forms_of_schemas() {
    let schema = json!({
        "type": "object",
        "properties": {
            "closed": { "type": "object", "additionalProperties": false },
            "open": { "type": "object", "additionalProperties": { "type": "string" } },
            "any": { "type": "object", "additionalProperties": true },
            "list": { "type": "array", "items": { "type": "integer", "minimum": 1, "maximum": 1.5 } },
            "pair": { "type": "array", "items": [{ "type": "string" }, { "type": "integer" }] },
            "one": { "enum": ["a", 1, null, { "b": [] }], "default": "a" },
        },
        "dependencies": { "open": ["closed"], "list": { "type": "object" } },
        "x-kubernetes-validations": [{ "rule": "true" }],
    });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "as.demo.dev" },
        "spec": {
            "group": "demo.dev", "scope": "Namespaced", "names": { "plural": "as", "kind": "A" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }],
        },
    });
    assert_eq!(decode(&encode(&definition).expect("it is a definition")), Ok(definition));
}

#[test]
fn a_message_inside_of_an_inlined_one_is_written_once() {
    let rule = json!({
        "operations": ["*"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"],
        "resourceNames": ["web"],
    });
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": { "name": "p" }, "spec": { "matchConstraints": { "resourceRules": [rule] } }, "status": {},
    });
    let encoded = encode(&policy).unwrap();
    let count = |word: &[u8]| encoded.windows(word.len()).filter(|found| *found == word).count();
    assert_eq!((count(b"deployments"), count(b"web")), (1, 1));
    let mut decoded = decode(&encoded).unwrap();
    let mut wanted = policy;
    for document in [&mut decoded, &mut wanted] {
        document["metadata"] = json!({ "name": document["metadata"]["name"] });
    }
    assert_eq!(decoded["spec"], wanted["spec"]);
}

#[test]
fn the_metadata_of_each_kind_has_a_message() {
    let metadata = json!({ "name": "w", "labels": { "a": "b" } });
    let partial = json!({ "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata });
    assert_eq!(decode(&encode(&partial).expect("it is metadata")), Ok(partial));
}

#[test]
fn lists_and_events_have_their_messages() {
    let item = json!({ "metadata": { "name": "c" }, "data": { "a": "b" } });
    let list = json!({
        "apiVersion": "v1", "kind": "ConfigMapList", "metadata": { "resourceVersion": "7" }, "items": [item],
    });
    let encoded = encode(&list).expect("it is a list of config maps");
    assert!(encoded.starts_with(b"k8s\0"));
    let document = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "c" } });
    let event = encode_event("ADDED", &document).expect("it is a config map");
    let length = u32::from_be_bytes(event[..4].try_into().expect("it has four bytes"));
    assert_eq!(usize::try_from(length).ok(), Some(event.len() - 4));
}

#[test]
fn other_kinds_and_malformed_bodies_are_refused() {
    let custom = json!({ "apiVersion": "demo.dev/v1", "kind": "Widget", "metadata": { "name": "w" } });
    assert!(matches!(encode(&custom), Err(Error::UnknownKind(_))));
    let encoded = encode(&deployment()).expect("it is a deployment");
    assert!(matches!(decode(b"{}"), Err(Error::Malformed(_))));
    for end in 4..encoded.len() {
        // A truncated body is malformed, or a shorter document.
        drop(decode(&encoded[..end]));
    }
    assert!(matches!(decode(&encoded[..encoded.len() - 5]), Err(Error::Malformed(_))));
}

/// Returns a field of a message: its number, and bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, bytes.len().try_into().expect("it is short")], bytes].concat()
}

#[test]
fn fields_that_this_version_of_kubernetes_does_not_know_are_skipped() {
    let text = |number: u8| field(number, b"later");
    // The number 15 as a varint.
    let number = [15 << 3, 1];
    let metadata = [field(1, b"a"), text(15), number.to_vec()].concat();
    let map = [field(1, &metadata), text(15), number.to_vec()].concat();
    let head = [field(1, b"v1"), field(2, b"ConfigMap"), text(15)].concat();
    let body = [b"k8s\0".to_vec(), field(1, &head), field(2, &map), text(15)].concat();
    let known = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" } });
    assert_eq!(decode(&body).ok(), Some(known));
}
