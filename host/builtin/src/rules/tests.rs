//! Tests of the defaults and rules, through the schema as the store uses it.

mod grace;
mod subresources;
pub(super) mod support;

use homeostat_store::schema::Schema;
use serde_json::{Value, json};

use crate::{find, rules};
use support::defaulted;

fn built_in(api_version: &str, name: &str) -> Schema {
    let kind = homeostat_store::Kind::parse(api_version, name).expect("it is a kind");
    crate::schema(&kind).expect("it is built in")
}

fn violations(document: &Value, old: Option<&Value>) -> Vec<String> {
    let kind = homeostat_store::Kind::parse(
        document["apiVersion"].as_str().expect("it has a version"),
        document["kind"].as_str().expect("it has a kind"),
    );
    let known = find(&kind.expect("it is a kind")).expect("it is built in");
    rules::of(known).check(document, old, None).iter().map(ToString::to_string).collect()
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
        "spec": {
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "web", "image": "nginx" }] },
            },
        },
    })
}

#[test]
fn a_deployment_gets_the_defaults_of_kubernetes() {
    let document = defaulted(deployment());
    let spec = json!({
        "progressDeadlineSeconds": 600, "replicas": 1, "revisionHistoryLimit": 10,
        "selector": { "matchLabels": { "app": "web" } },
        "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": "25%", "maxUnavailable": "25%" } },
        "template": {
            "metadata": { "labels": { "app": "web" } },
            "spec": {
                "containers": [{
                    "name": "web", "image": "nginx", "imagePullPolicy": "Always", "resources": {},
                    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                }],
                "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
                "securityContext": {}, "terminationGracePeriodSeconds": 30,
            },
        },
    });
    assert_eq!(document["spec"], spec);
    assert_eq!(violations(&document, None), [""; 0]);
    assert_eq!(built_in("apps/v1", "Deployment").check(&document), []);
}

#[test]
fn a_selector_matches_its_template_and_never_changes() {
    let old = defaulted(deployment());
    let mut changed = old.clone();
    changed["spec"]["selector"]["matchLabels"]["app"] = "other".into();
    let found = violations(&changed, Some(&old));
    let wanted = [
        "spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`",
        "spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"other\"}}: field is immutable",
    ];
    assert_eq!(found, wanted);
}

#[test]
fn a_job_selects_its_own_pods() {
    let job = defaulted(json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "j", "uid": "u" },
        "spec": { "template": { "spec": { "restartPolicy": "Never", "containers": [{ "name": "a", "image": "b:1" }] } } },
    }));
    assert_eq!(job["spec"]["selector"], json!({ "matchLabels": { "batch.kubernetes.io/controller-uid": "u" } }));
    assert_eq!(job["spec"]["template"]["metadata"]["labels"]["job-name"], "j");
    assert_eq!((&job["spec"]["completions"], &job["spec"]["backoffLimit"]), (&json!(1), &json!(6)));
    assert_eq!(violations(&job, None), [""; 0]);
}

#[test]
fn texts_of_a_secret_become_data_and_its_type_stays() {
    let secret = defaulted(json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" }, "stringData": { "a": "b" },
    }));
    assert_eq!((&secret["data"], &secret["type"]), (&json!({ "a": "Yg==" }), &json!("Opaque")));
    assert!(secret.get("stringData").is_none());
    let mut changed = secret.clone();
    changed["type"] = "kubernetes.io/tls".into();
    let found = violations(&changed, Some(&secret));
    assert_eq!(
        found.last().map(String::as_str),
        Some("type: Invalid value: \"kubernetes.io/tls\": field is immutable")
    );
}

#[test]
fn a_secret_and_a_config_map_have_at_most_a_mebibyte() {
    let text = |bytes: usize| "a".repeat(bytes);
    let map = |bytes: usize| {
        let data = json!({ "a": text(bytes - 1), "b": "b" });
        defaulted(json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "c" }, "data": data }))
    };
    assert!(violations(&map(1 << 20), None).is_empty());
    assert_eq!(violations(&map((1 << 20) + 1), None), [": Too long: may not be more than 1048576 bytes"]);
    let secret = |bytes: usize| {
        let texts = json!({ "a": text(bytes) });
        defaulted(json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" }, "stringData": texts }))
    };
    assert!(violations(&secret(1 << 20), None).is_empty());
    let too_long = violations(&secret((1 << 20) + 1), None);
    assert_eq!(too_long, ["data: Too long: may not be more than 1048576 bytes"]);
}

#[test]
fn a_service_gets_ports_and_policies() {
    let service = defaulted(json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "s" },
        "spec": { "selector": { "a": "b" }, "ports": [{ "port": 80 }] },
    }));
    let ports = json!([{ "port": 80, "protocol": "TCP", "targetPort": 80 }]);
    assert_eq!((&service["spec"]["ports"], &service["spec"]["type"]), (&ports, &json!("ClusterIP")));
    let address = service["spec"]["clusterIP"].as_str().expect("it has an address");
    assert!(address.starts_with("10."), "{address}");
    assert_eq!(service["spec"]["clusterIPs"], json!([address]));
    assert_eq!(violations(&service, None), [""; 0]);
}

#[test]
fn labels_and_annotations_of_a_template_are_checked() {
    let mut document = defaulted(deployment());
    assert_eq!(violations(&document, None), Vec::<String>::new());
    document["spec"]["template"]["metadata"]["labels"]["tier"] = "not a value".into();
    document["spec"]["template"]["metadata"]["annotations"] = json!({ "not a name": "x" });
    let found = violations(&document, None).join("\n");
    assert!(found.contains("spec.template.labels: Invalid value: \"not a value\""), "{found}");
    assert!(found.contains("spec.template.annotations: Invalid value: \"not a name\""), "{found}");
}

#[test]
fn an_indexed_job_changes_its_completions_with_its_parallelism() {
    let template = json!({ "spec": { "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }] } });
    let job = |completions: u32, parallelism: u32| {
        json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "j", "namespace": "n" },
            "spec": {
                "completionMode": "Indexed", "completions": completions, "parallelism": parallelism, "template": template,
            },
        })
    };
    let words = |new: &Value| -> Vec<String> {
        violations(new, Some(&job(3, 2))).into_iter().filter(|text| text.starts_with("spec.completions: ")).collect()
    };
    assert_eq!(
        words(&job(5, 2)),
        ["spec.completions: Invalid value: 5: can only be modified in tandem with spec.parallelism"]
    );
    assert_eq!(words(&job(5, 5)), [""; 0]);
    assert_eq!(words(&job(3, 7)), [""; 0]);
}

#[test]
fn allocated_fields_are_those_that_the_written_resource_lacks() {
    let service = find(&homeostat_store::Kind::parse("v1", "Service").expect("it is a kind")).expect("it is built in");
    let written =
        json!({ "spec": { "clusterIP": "None", "ports": [{ "port": 80 }, { "port": 81, "nodePort": 30_001 }] } });
    let allocated = rules::of(service).allocated(&written);
    let wanted = ["clusterIPs", "healthCheckNodePort", "ipFamilies", "ipFamilyPolicy", "ports/0/nodePort"];
    assert_eq!(allocated, wanted.map(|field| format!("/spec/{field}")));
}

fn pod_with(volume: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "a" },
        "spec": {
            "restartPolicy": "Always", "serviceAccountName": "s", "containers": [{ "name": "a", "image": "i" }],
            "volumes": [volume],
        },
    })
}

#[test]
fn sources_of_volumes_are_checked() {
    for (volume, wanted) in [
        (json!({ "configMap": { "name": "c", "defaultMode": 512 } }), "configMap.defaultMode: Invalid"),
        (json!({ "secret": { "secretName": "s", "items": [{ "path": "p" }] } }), "secret.items[0].key: Required"),
        (
            json!({ "secret": { "secretName": "s", "items": [{ "key": "k", "path": "../p" }] } }),
            "must not contain '..'",
        ),
        (
            json!({ "secret": { "secretName": "s", "items": [{ "key": "k", "path": "..p" }] } }),
            "must not start with '..'",
        ),
        (
            json!({ "secret": { "secretName": "s", "items": [{ "key": "k", "path": "/p" }] } }),
            "must be a relative path",
        ),
        (json!({ "emptyDir": { "sizeLimit": "-1" } }), "emptyDir.sizeLimit: Forbidden"),
        (json!({ "hostPath": { "path": "/a/../b" } }), "hostPath.path: Invalid"),
        (json!({ "hostPath": { "path": "/a", "type": "Disk" } }), "hostPath.type: Unsupported"),
        (json!({ "nfs": { "server": "s", "path": "a" } }), "must be an absolute path"),
        (json!({ "downwardAPI": { "items": [{ "path": "p" }] } }), "one of fieldRef and resourceFieldRef is required"),
        (
            json!({ "projected": { "sources": [{ "serviceAccountToken": { "path": "t", "expirationSeconds": 599 } }] } }),
            "sources[0].serviceAccountToken.expirationSeconds: Invalid",
        ),
        (
            json!({ "projected": { "sources": [{ "configMap": { "name": "c" }, "secret": { "name": "s" } }] } }),
            "sources[0]: Forbidden",
        ),
    ] {
        let mut named = volume.clone();
        named["name"] = json!("v");
        let found = violations(&pod_with(&named), None);
        assert!(found.len() == 1 && found[0].contains(wanted), "{volume}: {found:?}");
    }
    let sound =
        json!({ "name": "v", "secret": { "secretName": "s", "items": [{ "key": "k", "path": "a/b", "mode": 511 }] } });
    assert_eq!(violations(&pod_with(&sound), None), [""; 0]);
}

#[test]
fn a_stateful_set_that_names_its_strategy_keeps_what_the_strategy_lacks() {
    let strategy = |given: Value| {
        let mut document = deployment();
        document["kind"] = json!("StatefulSet");
        document["spec"]["updateStrategy"] = given;
        defaulted(document)["spec"]["updateStrategy"].clone()
    };
    let full = json!({ "type": "RollingUpdate", "rollingUpdate": { "partition": 0 } });
    assert_eq!(strategy(json!({})), full);
    assert_eq!(strategy(json!({ "type": "RollingUpdate", "rollingUpdate": {} })), full);
    assert_eq!(strategy(json!({ "type": "RollingUpdate" })), json!({ "type": "RollingUpdate" }));
    assert_eq!(strategy(json!({ "type": "OnDelete" })), json!({ "type": "OnDelete" }));
}

#[test]
fn the_volumes_of_claims_come_before_those_of_the_template() {
    let mut document = defaulted(deployment());
    document["kind"] = json!("StatefulSet");
    document["spec"]["podManagementPolicy"] = json!("Parallel");
    document["spec"]["updateStrategy"] = json!({ "type": "OnDelete" });
    document["spec"]["volumeClaimTemplates"] = json!([{ "metadata": { "name": "data" }, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
    } }]);
    let template = &mut document["spec"]["template"]["spec"];
    template["volumes"] = json!([{ "name": "data", "emptyDir": {} }, { "name": "v", "configMap": {} }]);
    template["containers"][0]["volumeMounts"] = json!([{ "name": "data", "mountPath": "/d" }]);
    let found = violations(&document, None);
    assert!(found.len() == 1 && found[0].starts_with("spec.template.spec.volumes[1].configMap.name"), "{found:?}");
}

#[test]
fn label_selectors_are_checked() {
    for (selector, wanted) in [
        (json!({ "matchLabels": { "app": "-" } }), "spec.podSelector.matchLabels: Invalid"),
        (json!({ "matchExpressions": [{ "key": "a", "operator": "In" }] }), "matchExpressions[0].values: Required"),
        (
            json!({ "matchExpressions": [{ "key": "a", "operator": "Exists", "values": ["b"] }] }),
            "matchExpressions[0].values: Forbidden",
        ),
        (json!({ "matchExpressions": [{ "key": "a", "operator": "Is" }] }), "matchExpressions[0].operator: Invalid"),
        (json!({ "matchExpressions": [{ "key": "-", "operator": "Exists" }] }), "matchExpressions[0].key: Invalid"),
    ] {
        let policy = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": { "name": "a" },
            "spec": { "podSelector": selector },
        });
        let found = violations(&policy, None);
        assert!(!found.is_empty() && found.iter().all(|found| found.contains(wanted)), "{policy}: {found:?}");
    }
}

#[test]
fn the_url_of_a_webhook_is_checked() {
    for (url, wanted) in [
        ("http://a.b", "'https' is the only allowed URL scheme"),
        ("https:///c", "host must be specified"),
        ("https://u@a.b/c", "user information"),
        ("https://a.b/c#d", "fragments"),
        ("https://a.b/c?d=e", "query parameters"),
    ] {
        let webhooks = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": { "name": "a" },
            "webhooks": [{
                "name": "a.b.c", "clientConfig": { "url": url }, "admissionReviewVersions": ["v1"], "sideEffects": "None",
            }],
        });
        let found = violations(&webhooks, None);
        assert!(found.len() == 1 && found[0].contains(wanted), "{url}: {found:?}");
    }
}

#[test]
fn a_rollout_may_surge_by_more_than_all_and_miss_at_most_all() {
    for (name, value, is_valid) in [
        ("maxSurge", "200%", true),
        ("maxSurge", "b", false),
        ("maxUnavailable", "100%", true),
        ("maxUnavailable", "101%", false),
    ] {
        let mut document = defaulted(deployment());
        document["spec"]["strategy"]["rollingUpdate"][name] = json!(value);
        let found = violations(&document, None);
        assert_eq!(found.is_empty(), is_valid, "{name} {value}: {found:?}");
    }
}
