//! Tests of the defaults and rules of services.

use homeostat_store::Kind;
use serde_json::{Value, json};

use crate::find;
use crate::rules;
use crate::rules::tests::support::causes;

fn service(spec: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "s", "uid": "u" }, "spec": spec })
}

/// Returns a service with its defaults. `old` is what it replaces.
fn completed(spec: &Value, old: Option<&Value>) -> Value {
    let mut service = service(spec);
    let kind = find(&Kind::parse("v1", "Service").expect("it is a kind")).expect("it is built in");
    rules::of(kind).set_defaults(&mut service, old);
    service
}

fn port(number: u16) -> Value {
    json!({ "name": format!("p{number}"), "port": number, "protocol": "TCP" })
}

#[test]
fn a_service_keeps_its_addresses_where_an_update_leaves_one_empty() {
    let plain = json!({ "type": "ClusterIP", "sessionAffinity": "None", "ports": [port(80)] });
    let old = completed(&plain, None);
    for (name, value) in [("clusterIP", json!("")), ("clusterIPs", json!([]))] {
        let mut spec = old["spec"].clone();
        spec[name] = value;
        let now = completed(&spec, Some(&old));
        assert_eq!(now["spec"], old["spec"], "{name}");
        assert_eq!(causes(now.clone(), Some(&old)), [""; 0]);
    }
    let mut named = old["spec"].clone();
    named["type"] = json!("ExternalName");
    named["externalName"] = json!("a.example.com");
    named["clusterIP"] = json!("");
    let now = completed(&named, Some(&old));
    assert_eq!((&now["spec"]["clusterIPs"], &now["spec"]["ipFamilies"]), (&Value::Null, &Value::Null));
    assert_eq!(causes(now.clone(), Some(&old)), [""; 0]);
}

#[test]
fn ports_of_nodes_are_distinct_whatever_ports_come_and_go() {
    let spec = |ports: &[u16]| {
        let ports: Vec<Value> = ports.iter().map(|number| port(*number)).collect();
        json!({ "type": "NodePort", "sessionAffinity": "None", "ports": ports })
    };
    let mut service = completed(&spec(&[80]), None);
    for ports in [&[443, 80][..], &[443], &[443, 80, 8443]] {
        service = completed(&spec(ports), Some(&service));
        assert_eq!(causes(service.clone(), None), [""; 0], "{service}");
    }
    let shared = json!({
        "type": "NodePort", "sessionAffinity": "None",
        "ports": [port(53), { "name": "u", "port": 53, "protocol": "UDP" }],
    });
    let ports = &completed(&shared, None)["spec"]["ports"];
    assert_eq!(ports[0]["nodePort"], ports[1]["nodePort"]);
}

#[test]
fn a_change_of_the_type_drops_what_the_former_one_needed() {
    let balanced = json!({
        "type": "LoadBalancer", "sessionAffinity": "None", "externalTrafficPolicy": "Local",
        "healthCheckNodePort": 31_000, "loadBalancerClass": "a.b/c", "ports": [port(80)],
    });
    let old = completed(&balanced, None);
    let mut replaced = balanced.clone();
    replaced.as_object_mut().expect("it is an object").remove("healthCheckNodePort");
    assert_eq!(completed(&replaced, Some(&old))["spec"]["healthCheckNodePort"], 31_000);
    let mut spec = old["spec"].clone();
    spec["type"] = json!("ClusterIP");
    let now = completed(&spec, Some(&old));
    for name in ["healthCheckNodePort", "loadBalancerClass", "externalTrafficPolicy", "allocateLoadBalancerNodePorts"] {
        assert_eq!(now["spec"][name], Value::Null, "{name}");
    }
    assert_eq!(now["spec"]["ports"][0]["nodePort"], Value::Null);
    assert_eq!(causes(now.clone(), Some(&old)), [""; 0]);
}
