//! Tests of the defaults and rules, through the schema as the store uses it.

use homeostat_store::schema::Schema;
use serde_json::{Value, json};

use crate::{find, rules};

fn built_in(api_version: &str, name: &str) -> Schema {
    let kind = homeostat_store::Kind::parse(api_version, name).expect("it is a kind");
    crate::schema(&kind).expect("it is built in")
}

/// Returns a document with the defaults of the schema and of the rules.
fn defaulted(mut document: Value) -> Value {
    let kind = homeostat_store::Kind::parse(
        document["apiVersion"].as_str().expect("it has a version"),
        document["kind"].as_str().expect("it has a kind"),
    );
    let kind = kind.expect("it is a kind");
    let schema = crate::schema(&kind).expect("it is built in");
    schema.prune(&mut document);
    schema.set_defaults(&mut document).expect("the defaults are small");
    rules::of(find(&kind).expect("it is built in")).set_defaults(&mut document, None);
    schema.set_defaults(&mut document).expect("the defaults are small");
    document
}

fn violations(document: &Value, old: Option<&Value>) -> Vec<String> {
    let kind = homeostat_store::Kind::parse(
        document["apiVersion"].as_str().expect("it has a version"),
        document["kind"].as_str().expect("it has a kind"),
    );
    let known = find(&kind.expect("it is a kind")).expect("it is built in");
    rules::of(known).check(document, old).iter().map(ToString::to_string).collect()
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
fn allocated_fields_are_those_that_the_written_resource_lacks() {
    let service = find(&homeostat_store::Kind::parse("v1", "Service").expect("it is a kind")).expect("it is built in");
    let written =
        json!({ "spec": { "clusterIP": "None", "ports": [{ "port": 80 }, { "port": 81, "nodePort": 30_001 }] } });
    let allocated = rules::of(service).allocated(&written);
    assert_eq!(allocated, ["/spec/clusterIPs", "/spec/ipFamilies", "/spec/ipFamilyPolicy", "/spec/ports/0/nodePort"]);
}
