//! Tests of the rules of volumes.

use serde_json::{Value, json};

use crate::rules::tests::support::{causes, defaulted};

fn pod(volumes: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "a", "namespace": "n" },
        "spec": {
            "serviceAccountName": "s", "containers": [{ "name": "a", "image": "i:1" }], "volumes": volumes,
        },
    })
}

fn persistent(source: &Value) -> Value {
    let mut spec = json!({ "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1Gi" } });
    for (name, source) in source.as_object().into_iter().flatten() {
        spec[name] = source.clone();
    }
    json!({ "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": "a" }, "spec": spec })
}

/// Checks the causes of a pod with one volume. A path is that behind `spec.volumes[0]`.
fn check(source: &Value, wanted: &[&str]) {
    let mut volume = source.clone();
    volume["name"] = "v".into();
    let wanted: Vec<String> = wanted.iter().map(|cause| format!("spec.volumes[0]{cause}")).collect();
    assert_eq!(causes(pod(&json!([volume])), None), wanted, "{source}");
}

#[test]
fn a_source_has_the_path_that_kubernetes_gives_it() {
    for (source, wanted) in [
        (json!({ "gcePersistentDisk": {} }), vec![".persistentDisk.pdName FieldValueRequired"]),
        (json!({ "emptyDir": {}, "cephfs": {} }), vec![".cephFS FieldValueForbidden"]),
        (json!({ "secret": { "secretName": "s" }, "downwardAPI": {} }), vec![".downwarAPI FieldValueForbidden"]),
        (json!({ "hostPath": { "type": "a" } }), vec![".hostPath.path FieldValueRequired"]),
        (
            json!({ "csi": { "driver": "a", "nodePublishSecretRef": { "name": "-" } } }),
            vec![".csi.name FieldValueInvalid"],
        ),
        (
            json!({ "downwardAPI": { "items": [{ "fieldRef": { "fieldPath": "metadata.name" } }] } }),
            vec![".downwardAPI.path FieldValueRequired"],
        ),
        (
            json!({ "ephemeral": { "volumeClaimTemplate": { "metadata": { "name": "a" }, "spec": {} } } }),
            vec![
                ".ephemeral.volumeClaimTemplate.metadata.name FieldValueForbidden",
                ".ephemeral.volumeClaimTemplate.spec.accessModes FieldValueRequired",
                ".ephemeral.volumeClaimTemplate.spec.resources[storage] FieldValueRequired",
            ],
        ),
    ] {
        check(&source, &wanted);
    }
}

#[test]
fn the_names_of_iscsi_have_one_of_three_forms() {
    for (name, is_valid) in [
        ("iqn.2001-04.com.example:storage", true),
        ("iqn.2001-04.com.example", false),
        ("iqn.2001-4.com.example:storage", false),
        ("iqn.2001-04.com.example:a b", false),
        ("eui.0123456789abcdef", true),
        ("eui.0123456789abcde", false),
        ("naa.0123456789abcdef0123456789abcdef", true),
        ("abc", false),
    ] {
        let source = json!({ "iscsi": { "targetPortal": "a", "iqn": name, "lun": 0 } });
        check(&source, if is_valid { &[] } else { &[".iscsi.iqn FieldValueInvalid"] });
    }
}

#[test]
fn a_registry_is_a_list_of_hosts_and_ports() {
    for (registry, is_valid) in [("a:1", true), ("a:1,[::1]:2", true), ("a", false), ("::1:2", false), ("[a:1", false)]
    {
        let source = json!({ "quobyte": { "registry": registry, "volume": "v" } });
        check(&source, if is_valid { &[] } else { &[".quobyte.registry FieldValueInvalid"] });
    }
}

#[test]
fn the_files_of_a_projected_volume_have_different_paths() {
    let keys = json!({ "name": "c", "items": [{ "key": "k", "path": "p" }] });
    check(&json!({ "projected": { "sources": [{ "configMap": keys }] } }), &[]);
    let twice = json!({ "projected": { "sources": [{ "configMap": keys }, { "secret": keys }] } });
    check(&twice, &[".projected FieldValueInvalid"]);
    let token = json!({ "projected": { "sources": [{ "serviceAccountToken": {} }] } });
    check(&token, &[".projected.path FieldValueRequired"]);
}

#[test]
fn only_a_pod_with_an_account_has_its_token() {
    let token = json!({ "name": "v", "projected": { "sources": [{ "serviceAccountToken": { "path": "t" } }] } });
    let mut document = pod(&json!([token]));
    assert_eq!(causes(document.clone(), None), [""; 0]);
    document["spec"]["serviceAccountName"] = "".into();
    let wanted = ["spec.volumes[0].projected.sources[0].serviceAccountToken FieldValueForbidden"];
    assert_eq!(causes(document, None), wanted);
}

#[test]
fn a_claim_of_another_volume_is_not_mounted() {
    let template =
        json!({ "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1" } } } });
    let volumes = json!([
        { "name": "v", "ephemeral": { "volumeClaimTemplate": template } },
        { "name": "w", "persistentVolumeClaim": { "claimName": "a-v" } },
    ]);
    let wanted = ["spec.volumes[1].persistentVolumeClaim.claimName FieldValueInvalid"];
    assert_eq!(causes(pod(&volumes), None), wanted);
}

#[test]
fn sources_that_are_off_are_dropped() {
    let source = json!({ "configMap": { "name": "c" }, "clusterTrustBundle": {}, "podCertificate": {} });
    let document = pod(&json!([{ "name": "v", "projected": { "sources": [source] } }]));
    assert_eq!(causes(document.clone(), None), [""; 0]);
    let kept = &defaulted(document)["spec"]["volumes"][0]["projected"]["sources"][0];
    assert_eq!(kept.as_object().expect("it is an object").len(), 1);
}

#[test]
fn the_source_of_a_persistent_volume_is_checked() {
    for (source, wanted) in [
        (json!({ "nfs": { "server": "s", "path": "/p" } }), vec![]),
        (json!({}), vec!["spec FieldValueRequired"]),
        (json!({ "nfs": { "server": "s", "path": "/p" }, "cephfs": {} }), vec!["spec.cephFS FieldValueForbidden"]),
        (json!({ "local": { "path": "/p" } }), vec!["spec.nodeAffinity FieldValueRequired"]),
        (
            json!({ "csi": { "driver": "a", "nodePublishSecretRef": { "name": "-" } } }),
            vec![
                "spec.csi.nodePublishSecretRef.name FieldValueInvalid",
                "spec.csi.nodePublishSecretRef.namespace FieldValueRequired",
                "spec.csi.volumeHandle FieldValueRequired",
            ],
        ),
        (
            json!({ "hostPath": { "path": "/./" }, "persistentVolumeReclaimPolicy": "Recycle" }),
            vec!["spec.persistentVolumeReclaimPolicy FieldValueForbidden"],
        ),
    ] {
        assert_eq!(causes(persistent(&source), None), wanted, "{source}");
    }
}
