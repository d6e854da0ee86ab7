//! Definitions in the style of popular operators: which values they accept, default, prune and reject.

use serde_json::{Value, json};

use crate::definition::{Definition, Version};
use crate::schema::Schema;

fn definition(text: &str) -> Definition {
    Definition::parse(&serde_json::from_str(text).expect("JSON")).expect("well formed")
}

fn document(spec: Value) -> Value {
    json!({"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "a", "annotations": {"delivery.example.dev/team": "blue"}}, "spec": spec})
}

/// Prunes, defaults and validates a spec. Returns the result, the dropped fields and the violations.
fn admitted(version: &Version, spec: Value) -> (Value, Vec<String>, Vec<String>) {
    let schema = version.schema.as_ref().expect("it has one");
    let mut document = document(spec);
    let dropped = schema.prune(&mut document);
    schema.set_defaults(&mut document).expect("small");
    let wrong = schema.check(&document).iter().map(ToString::to_string).collect();
    (document["spec"].take(), dropped, wrong)
}

/// S14: the schema and the columns of another project's definition hold.
#[test]
fn the_definition_of_cert_managers_certificate_holds() {
    let definition = definition(include_str!("certificate.json"));
    assert_eq!(definition.names.short_names, ["cert", "certs"]);
    assert_eq!(definition.names.categories, ["certs"]);
    let version = definition.stored();
    assert!(version.has_status && version.scale.is_none());
    assert_eq!(version.selectable_fields[0].to_string(), ".spec.secretName");
    let ready = json!({"status": {"conditions": [{"type": "Issuing", "status": "False"}, {"type": "Ready", "status": "True"}]}});
    assert_eq!(version.columns[0].path.evaluate(&ready), [&json!("True")]);

    let (spec, dropped, wrong) = admitted(
        version,
        json!({
            "secretName": "web-tls", "issuerRef": {"name": "ca"}, "duration": "2160h0m0s", "privateKey": {"size": 256}, "usages": ["signing"],
            "keystore": {"jks": {}},
        }),
    );
    assert_eq!((dropped, wrong), (vec!["spec.keystore".to_owned()], Vec::new()));
    assert_eq!(spec["issuerRef"], json!({"name": "ca", "kind": "Issuer"}));
    assert_eq!(spec["privateKey"], json!({"size": 256, "rotationPolicy": "Always"}));

    let (_, _, wrong) = admitted(
        version,
        json!({
            "secretName": "Web", "duration": "90 moons", "privateKey": {"size": 257, "algorithm": "DSA"},
            "usages": ["signing", "signing", "cooking"],
        }),
    );
    let starts = [
        "spec.issuerRef: Required value",
        "spec.duration: Invalid value: \"90 moons\": spec.duration in body must be of type duration",
        "spec.privateKey.algorithm: Unsupported value: \"DSA\": supported values: \"RSA\", \"ECDSA\", \"Ed25519\"",
        "spec.privateKey.size: Invalid value: 257: spec.privateKey.size in body should be a multiple of 64",
        "spec.secretName: Invalid value: \"Web\": spec.secretName in body should match",
        "spec.usages[2]: Unsupported value: \"cooking\"",
        "spec.usages[1]: Duplicate value: \"signing\"",
    ];
    assert_eq!(wrong.len(), starts.len(), "{wrong:#?}");
    assert!(wrong.iter().zip(starts).all(|(wrong, start)| wrong.starts_with(start)), "{wrong:#?}");
}

/// S14: the schema and the columns of another project's definition hold.
#[test]
fn the_definition_of_prometheus_operators_service_monitor_holds() {
    let definition = definition(include_str!("monitor.json"));
    let version = definition.stored();
    assert!(!version.has_status);
    let selector = version.schema.as_ref().and_then(|schema| schema.field("spec")?.field("selector"));
    assert!(selector.is_some_and(Schema::is_atomic_map));
    let (spec, dropped, wrong) = admitted(
        version,
        json!({
            "selector": {"matchLabels": {"app": "web"}},
            "endpoints": [
                {"port": "http", "interval": "1m30s", "params": {"match[]": ["a"]}, "relabelings": [{"sourceLabels": ["__name__"]}]},
                {"targetPort": 80, "bearerTokenSecret": {"key": "token"}}, {"targetPort": "web"},
            ],
            "limits": {"memory": "1.5Gi", "cpu": 2},
        }),
    );
    assert_eq!((dropped.len(), wrong.len()), (0, 0), "{dropped:?} {wrong:?}");
    assert_eq!(spec["endpoints"][0]["relabelings"][0]["action"], json!("replace"));
    assert_eq!(spec["endpoints"][1]["bearerTokenSecret"], json!({"key": "token", "name": ""}));
    let (_, _, wrong) = admitted(
        version,
        json!({"endpoints": [{"interval": "soon", "targetPort": true, "params": {"a": "b"}}], "limits": {"memory": "much"}}),
    );
    let paths: Vec<&str> = wrong.iter().filter_map(|wrong| wrong.split(": ").next()).collect();
    assert_eq!(
        paths,
        [
            "spec.selector",
            "spec.endpoints[0].interval",
            "spec.endpoints[0].params.a",
            "spec.endpoints[0].targetPort",
            // As in Kubernetes, the failure of `anyOf` as a whole names no field.
            "<nil>",
            "spec.endpoints[0].targetPort",
            "spec.limits.memory"
        ]
    );
}

/// S14: the schema and the columns of another project's definition hold.
#[test]
fn the_definition_of_argo_cds_application_holds() {
    let definition = definition(include_str!("application.json"));
    let version = definition.stored();
    assert_eq!(version.columns[3].path.evaluate(&document(json!({}))), [&json!("blue")]);
    assert_eq!(version.columns[2].priority, 10);
    let template =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": {"y": [1]}}});
    let free = json!({"anything": {"goes": [1, {"here": null}]}});
    let (spec, dropped, wrong) = admitted(
        version,
        json!({
            "project": "default", "destination": {}, "source": {"repoURL": "u", "helm": {"valuesObject": free, "old": 1}}, "template": template,
        }),
    );
    assert_eq!((dropped, wrong), (vec!["spec.source.helm.old".to_owned()], Vec::new()));
    assert_eq!((&spec["source"]["helm"]["valuesObject"], &spec["template"]), (&free, &template));
}

/// S14: the schema and the columns of another project's definition hold.
#[test]
fn the_definition_of_gateway_apis_route_holds() {
    let definition = definition(include_str!("route.json"));
    assert_eq!(definition.stored().name, "v1");
    let old = definition.version("v1beta1").expect("it is there");
    assert_eq!(
        old.deprecation.as_deref(),
        Some("net.example.dev/v1beta1 HTTPRoute is deprecated; use net.example.dev/v1 HTTPRoute")
    );
    assert!(old.scale.as_ref().is_some_and(|scale| scale.label_selector.is_some()));
    let version = definition.stored();
    assert!(version.schema.as_ref().is_some_and(Schema::has_rules));
    let root = json!([{"path": {"type": "PathPrefix", "value": "/"}}]);
    let (spec, _, wrong) = admitted(version, json!({"hostnames": ["*.example.dev"], "parentRefs": [{"name": "gate"}]}));
    assert_eq!(wrong, [""; 0]);
    assert_eq!(spec["rules"], json!([{"matches": root}]));
    assert_eq!(spec["parentRefs"][0], json!({"name": "gate", "group": "gateway.networking.k8s.io", "kind": "Gateway"}));
    let (spec, _, wrong) = admitted(
        version,
        json!({"rules": [
            {"backendRefs": [{"name": "web", "port": 80}], "filters": [{"type": "RequestMirror", "requestMirror": {}}]},
            {"matches": [{"headers": [{"name": "x-a", "value": "1"}, {"name": "x-a", "value": "2"}]}], "filters": [{"type": "RequestMirror"}]},
        ]}),
    );
    assert_eq!(spec["rules"][0]["matches"], root);
    assert_eq!(spec["rules"][0]["backendRefs"][0]["weight"], json!(1));
    assert_eq!(spec["rules"][1]["matches"][0]["headers"][0]["type"], json!("Exact"));
    assert_eq!(
        wrong,
        [
            "<nil>: Invalid value: \"\": \"spec.rules[1].filters[0]\" must validate one and only one schema (oneOf). Found none valid",
            "spec.rules[1].filters[0].requestMirror: Required value",
            "spec.rules[1].matches[0].headers[1]: Duplicate value: {\"name\":\"x-a\"}",
        ]
    );
}
