use homeostat_store::{Kind, Resource, Subresource};
use serde_json::{Value, json};

use super::warnings;
use crate::find;

/// Returns the warnings of a resource with these fields; `old` has the fields of the resource before.
fn warned(api_version: &str, kind: &str, fields: &Value, old: Option<&Value>) -> Vec<String> {
    written(api_version, kind, fields, old, None)
}

fn written(
    api_version: &str,
    kind: &str,
    fields: &Value,
    old: Option<&Value>,
    part: Option<Subresource>,
) -> Vec<String> {
    let resource = |fields: &Value| {
        let mut document = json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": "web" } });
        for (name, value) in fields.as_object().unwrap() {
            document[name] = value.clone();
        }
        Resource::from_document(document).unwrap()
    };
    let known = find(&Kind::parse(api_version, kind).unwrap()).unwrap();
    warnings(known, &resource(fields), old.map(resource).as_ref(), part)
}

/// A pod with a container of these fields.
fn with_container(fields: Value) -> Value {
    json!({ "spec": { "containers": [fields] } })
}

#[test]
fn a_pod_warns_of_ports_and_variables_that_hide_each_other() {
    let ports = json!([
        { "containerPort": 80, "protocol": "TCP", "name": "a" },
        { "containerPort": 80, "protocol": "TCP", "name": "a" },
        { "containerPort": 80, "protocol": "TCP", "hostPort": 8080, "hostIP": "10.0.0.1" },
        { "containerPort": 80, "protocol": "TCP", "hostPort": 8080 },
        { "containerPort": 81, "protocol": "UDP", "hostIP": "10.0.0.1" },
    ]);
    let found = warned("v1", "Pod", &with_container(json!({ "name": "c", "ports": ports })), None);
    let port = |at: usize| format!("spec.containers[0].ports[{at}]");
    let expected = [
        format!("{}: duplicate port definition with {}", port(1), port(0)),
        format!("{}: overlapping port definition with {}", port(2), port(0)),
        format!("{}: overlapping port definition with {}", port(2), port(1)),
        format!("{}: overlapping port definition with {}", port(3), port(0)),
        format!("{}: overlapping port definition with {}", port(3), port(1)),
        format!("{}: dangerously ambiguous port definition with {}", port(3), port(2)),
        format!(
            "{}: hostIP set without hostPort: {{Name: HostPort:0 ContainerPort:81 Protocol:UDP HostIP:10.0.0.1}}",
            port(4)
        ),
        format!(
            "{}: duplicate port name \"a\" with {}, services and probes that select ports by name will use {}",
            port(1),
            port(0),
            port(0)
        ),
    ];
    assert_eq!(found, expected);
    let variables = json!([
        { "name": "A", "value": "1" }, { "name": "A", "value": "$(A)2" }, { "name": "A", "value": "$(A)" },
        { "name": "A", "value": "3" },
    ]);
    let found = warned("v1", "Pod", &with_container(json!({ "name": "c", "env": variables })), None);
    let hides = |at: usize| {
        format!(
            "spec.containers[0].env[{at}]: hides previous definition of \"A\", which may be dropped when using apply"
        )
    };
    assert_eq!(found, [hides(2), hides(3)]);
}

#[test]
fn a_template_warns_of_what_is_deprecated_in_pods() {
    let template = json!({
        "metadata": { "annotations": {
            "container.apparmor.security.beta.kubernetes.io/c": "runtime/default",
            "scheduler.alpha.kubernetes.io/critical-pod": "",
        } },
        "spec": {
            "containers": [{ "name": "c", "resources": { "limits": { "memory": "1500m" } } }],
            "nodeSelector": { "beta.kubernetes.io/os": "linux" },
            "topologySpreadConstraints": [{ "topologyKey": "zone" }],
            "hostAliases": [{ "ip": "FD00::1" }, { "ip": "FD00::1" }],
            "imagePullSecrets": [{ "name": "" }],
            "volumes": [{ "name": "v", "gitRepo": {} }],
        },
    });
    let spec = "spec.template.spec";
    let expected = [
        format!("{spec}.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead"),
        format!(
            "{spec}.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod"
        ),
        "spec.template.metadata.annotations[scheduler.alpha.kubernetes.io/critical-pod]: non-functional in v1.16+; use the \"priorityClassName\" field instead"
            .to_owned(),
        format!("{spec}.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+"),
        format!("{spec}.hostAliases[1].ip: duplicate ip \"FD00::1\""),
        format!("{spec}.imagePullSecrets[0].name: invalid empty name \"\""),
        "spec.template.metadata.annotations[container.apparmor.security.beta.kubernetes.io/c]: deprecated since v1.30; use the \"appArmorProfile\" field instead"
            .to_owned(),
        format!(
            "{spec}.containers[0].resources.limits[memory]: fractional byte value \"1500m\" is invalid, must be an integer"
        ),
        format!("{spec}.hostAliases[0].ip: IPv6 address \"FD00::1\" should be in RFC 5952 canonical format (\"fd00::1\")"),
        format!("{spec}.hostAliases[1].ip: IPv6 address \"FD00::1\" should be in RFC 5952 canonical format (\"fd00::1\")"),
    ];
    let deployment = |generation: u64| json!({ "metadata": { "name": "web", "generation": generation }, "spec": { "template": template } });
    assert_eq!(warned("apps/v1", "Deployment", &deployment(1), None), expected);
    assert_eq!(warned("apps/v1", "Deployment", &deployment(2), Some(&deployment(1))), expected);
    let found = warned("apps/v1", "Deployment", &deployment(1), Some(&deployment(1)));
    assert!(found.is_empty(), "only its metadata has changed: {found:?}");
}

#[test]
fn files_of_a_volume_that_hide_each_other_are_told() {
    let volumes = json!([
        { "name": "m", "configMap": { "name": "c", "items": [{ "path": "a" }, { "path": "a/b" }, { "path": "ab" }] } },
        { "name": "p", "projected": { "sources": [
            { "secret": { "name": "s", "items": [{ "path": "t" }] } }, { "serviceAccountToken": { "path": "t" } },
        ] } },
    ]);
    let expected = [
        r#"volume "m" (ConfigMap "c"): overlapping paths: "a/b" with "a""#,
        r#"volume "p" (Projected): overlapping paths: "t" (ServiceAccountToken) with "t" (Secret "s")"#,
    ];
    assert_eq!(warned("v1", "Pod", &json!({ "spec": { "volumes": volumes } }), None), expected);
}

#[test]
fn a_pod_has_a_bounded_number_of_warnings() {
    let ports: Vec<Value> = (0..2000).map(|_| json!({ "containerPort": 80, "protocol": "TCP" })).collect();
    let files: Vec<Value> = (0..2000).map(|_| json!({ "path": "a" })).collect();
    let nothing = vec![json!({}); 2000];
    let volumes = json!([
        { "name": "m", "configMap": { "name": "c", "items": files } }, { "name": "p", "projected": { "sources": nothing } },
    ]);
    let pod = json!({ "spec": {
        "containers": [{ "name": "c", "ports": ports }], "volumes": volumes, "imagePullSecrets": nothing, "hostAliases": nothing,
    } });
    assert_eq!(warned("v1", "Pod", &pod, None).len(), 512);
}

#[test]
fn services_and_networks_warn_of_what_is_ignored_and_of_odd_addresses() {
    let service = json!({ "spec": {
        "type": "ClusterIP", "clusterIP": "None", "sessionAffinity": "ClientIP", "externalIPs": ["::FFFF:10.0.0.1"],
        "externalName": "a.dev", "trafficDistribution": "PreferClose",
    } });
    let expected = [
        "spec.externalIPs is ignored for headless services",
        "spec.SessionAffinity is ignored for headless services",
        r#"spec.externalIPs[0]: non-standard IP address "::FFFF:10.0.0.1" is invalid: use "10.0.0.1""#,
        r#"spec.externalName is ignored when spec.type is not "ExternalName""#,
        r#"spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone""#,
    ];
    assert_eq!(warned("v1", "Service", &service, None), expected);
    let blocks = json!([
        { "ipBlock": { "cidr": "10.0.0.1/8", "except": ["10.01.0.0/16"] } }, { "ipBlock": { "cidr": "FD00::/8" } },
        { "ipBlock": { "cidr": "10.0.0.0/0" } }, { "ipBlock": { "cidr": "not one" } },
    ]);
    let path = |at: usize| format!("spec.ingress[0].from[{at}].ipBlock");
    let expected = [
        format!(
            r#"{}.cidr: CIDR value "10.0.0.1/8" is ambiguous in this context (should be "10.0.0.0/8" or "10.0.0.1/32"?)"#,
            path(0)
        ),
        format!(r#"{}.except[0]: non-standard CIDR value "10.01.0.0/16" is invalid: use "10.1.0.0/16""#, path(0)),
        format!(r#"{}.cidr: IPv6 CIDR value "FD00::/8" should be in RFC 5952 canonical format ("fd00::/8")"#, path(1)),
        format!(
            r#"{}.cidr: CIDR value "10.0.0.0/0" is ambiguous in this context (should be "0.0.0.0/0" or "10.0.0.0/32"?)"#,
            path(2)
        ),
    ];
    let policy = json!({ "spec": { "ingress": [{ "from": blocks }] } });
    assert_eq!(warned("networking.k8s.io/v1", "NetworkPolicy", &policy, None), expected);
    let status = json!({ "status": { "podIPs": [{ "ip": "FD00::1" }] } });
    let found = written("v1", "Pod", &status, Some(&status), Some(Subresource::Status));
    assert_eq!(
        found,
        [r#"status.podIPs[0].ip: IPv6 address "FD00::1" should be in RFC 5952 canonical format ("fd00::1")"#]
    );
}

#[test]
fn other_kinds_warn_of_what_is_deprecated_or_odd() {
    let annotated = |name: &str| json!({ "metadata": { "name": "web", "annotations": { name: "x" } } });
    let first = |api_version: &str, kind: &str, fields: Value| warned(api_version, kind, &fields, None).remove(0);
    assert_eq!(
        first("networking.k8s.io/v1", "Ingress", annotated("kubernetes.io/ingress.class")),
        r#"annotation "kubernetes.io/ingress.class" is deprecated, please use 'spec.ingressClassName' instead"#
    );
    let quota = json!({ "spec": { "hard": { "cpu": "2", "limits.cpu": "1" } } });
    assert_eq!(first("v1", "ResourceQuota", quota), "ResourceQuota cpu (2) should be less than limits.cpu (1)");
    let secret = json!({ "type": "kubernetes.io/tls", "data": { "tls.crt": "AAEC" } });
    assert_eq!(first("v1", "Secret", secret), "tls: failed to find any PEM data in certificate input");
    let claim = json!({ "spec": { "resources": { "requests": { "storage": "500m" } } } });
    assert_eq!(
        first("v1", "PersistentVolumeClaim", claim),
        r#"spec.resources.requests[storage]: fractional byte value "500m" is invalid, must be an integer"#
    );
    let volume = json!({ "spec": { "cephfs": {} } });
    assert_eq!(first("v1", "PersistentVolume", volume), "spec.cephfs: deprecated in v1.28, non-functional in v1.31+");
    let account = annotated("kubernetes.io/enforce-mountable-secrets");
    assert_eq!(warned("v1", "ServiceAccount", &account, None).len(), 1);
    assert!(warned("v1", "ServiceAccount", &account, Some(&account)).is_empty(), "it was told before");
    let dotted = json!({ "metadata": { "name": "a.b" } });
    assert!(first("v1", "Pod", dotted).starts_with("metadata.name: this is used in the Pod's hostname"));
}

/// Fields of a resource, with the beginnings of its warnings.
type Case = (&'static str, &'static str, Value, &'static [&'static str]);

#[test]
fn each_warning_of_a_new_resource_has_its_words() {
    let annotated = |name: &str| json!({ "metadata": { "name": "web", "annotations": { name: "x" } } });
    let pod = |spec: Value| json!({ "spec": spec });
    let selects = json!({ "matchLabels": { "beta.kubernetes.io/os": "a" }, "matchExpressions": [{ "key": "beta.kubernetes.io/arch" }] });
    let preferred = json!([{ "preference": { "matchExpressions": [{ "key": "a", "values": ["-"] }] } }]);
    let preferred = json!({ "nodeAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": preferred } });
    let apart = json!({
        "requiredDuringSchedulingIgnoredDuringExecution": [{}],
        "preferredDuringSchedulingIgnoredDuringExecution": [{ "podAffinityTerm": {} }],
    });
    let cases: Vec<Case> = vec![
        (
            "v1",
            "Service",
            annotated("service.kubernetes.io/topology-aware-hints"),
            &["annotation service.kubernetes.io/topology"],
        ),
        (
            "discovery.k8s.io/v1",
            "EndpointSlice",
            json!({ "addressType": "FQDN" }),
            &["spec.addressType: FQDN endpoints"],
        ),
        (
            "discovery.k8s.io/v1",
            "EndpointSlice",
            json!({ "endpoints": [{ "addresses": ["FD00::1"] }] }),
            &["endpoints[0].addresses[0]: IPv6"],
        ),
        (
            "v1",
            "Endpoints",
            json!({ "subsets": [{ "notReadyAddresses": [{ "ip": "FD00::1" }] }] }),
            &["subsets[0].notReadyAddresses[0].ip: IPv6"],
        ),
        (
            "v1",
            "Node",
            json!({ "spec": { "externalID": "x", "configSource": {}, "podCIDRs": ["10.0.0.1/8"] } }),
            &["spec.configSource: the feature", "spec.externalID: this field", "spec.podCIDRs[0]: CIDR value"],
        ),
        (
            "node.k8s.io/v1",
            "RuntimeClass",
            json!({ "scheduling": { "nodeSelector": { "beta.kubernetes.io/os": "a" } } }),
            &["scheduling.nodeSelector: deprecated"],
        ),
        (
            "storage.k8s.io/v1",
            "CSIStorageCapacity",
            json!({ "nodeTopology": selects }),
            &[
                "nodeTopology.matchExpressions[0].key: beta.kubernetes.io/arch is deprecated",
                "nodeTopology.matchLabels.beta.kubernetes.io/os: ",
            ],
        ),
        (
            "storage.k8s.io/v1",
            "StorageClass",
            json!({ "allowedTopologies": [{ "matchLabelExpressions": [{ "key": "beta.kubernetes.io/os" }] }] }),
            &["allowedTopologies[0].matchLabelExpressions[0].key: deprecated"],
        ),
        (
            "storage.k8s.io/v1",
            "CSIDriver",
            json!({ "spec": { "tokenRequests": [{}] } }),
            &["spec.serviceAccountTokenInSecrets is unset"],
        ),
        (
            "resource.k8s.io/v1",
            "ResourceSlice",
            json!({ "spec": { "driver": "A.dev" } }),
            &["spec.driver: driver names"],
        ),
        (
            "v1",
            "PersistentVolume",
            annotated("volume.beta.kubernetes.io/storage-class"),
            &["metadata.annotations[volume.beta"],
        ),
        (
            "v1",
            "PersistentVolume",
            annotated("volume.beta.kubernetes.io/mount-options"),
            &["metadata.annotations[volume.beta"],
        ),
        (
            "v1",
            "PersistentVolume",
            pod(json!({ "persistentVolumeReclaimPolicy": "Recycle" })),
            &["spec.persistentVolumeReclaimPolicy: The Recycle"],
        ),
        (
            "v1",
            "PersistentVolumeClaim",
            annotated("volume.beta.kubernetes.io/storage-class"),
            &["metadata.annotations[volume.beta"],
        ),
        (
            "v1",
            "Secret",
            json!({ "type": "kubernetes.io/tls", "data": { "tls.crt": "LS0tLS1CRUdJTiA=" } }),
            &["tls: failed to find any PEM data in key"],
        ),
        (
            "admissionregistration.k8s.io/v1",
            "ValidatingWebhookConfiguration",
            json!({ "metadata": { "name": "a.static.k8s.io" } }),
            &["metadata.name: names ending"],
        ),
        (
            "apps/v1",
            "StatefulSet",
            pod(
                json!({ "revisionHistoryLimit": -1, "volumeClaimTemplates": [{ "spec": { "resources": { "limits": { "storage": "1m" } } } }] }),
            ),
            &[
                "spec.volumeClaimTemplates[0].resources.limits[storage]: fractional",
                "spec.revisionHistoryLimit: a negative",
            ],
        ),
        (
            "batch/v1",
            "Job",
            pod(json!({ "completionMode": "Indexed", "completions": 100_001, "parallelism": 10_001 })),
            &["spec: In Indexed Jobs"],
        ),
        (
            "v1",
            "Pod",
            annotated("seccomp.security.alpha.kubernetes.io/pod"),
            &["metadata.annotations[seccomp.security"],
        ),
        (
            "v1",
            "Pod",
            annotated("security.alpha.kubernetes.io/sysctls"),
            &["metadata.annotations[security.alpha.kubernetes.io/sysctls]: "],
        ),
        (
            "v1",
            "Pod",
            annotated("security.alpha.kubernetes.io/unsafe-sysctls"),
            &["metadata.annotations[security.alpha.kubernetes.io/unsafe"],
        ),
        (
            "v1",
            "Pod",
            pod(json!({ "terminationGracePeriodSeconds": -1 })),
            &["spec.terminationGracePeriodSeconds: must be >= 0"],
        ),
        (
            "v1",
            "Pod",
            pod(json!({ "overhead": { "ephemeral-storage": "1m" } })),
            &["spec.overhead[ephemeral-storage]: fractional"],
        ),
        (
            "v1",
            "Pod",
            pod(json!({ "dnsConfig": { "nameservers": ["FD00::1"] } })),
            &["spec.dnsConfig.nameservers[0]: IPv6"],
        ),
        (
            "v1",
            "Pod",
            pod(json!({ "affinity": preferred })),
            &[
                "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].values[0]: - is invalid",
            ],
        ),
        (
            "v1",
            "Pod",
            pod(json!({ "affinity": { "podAntiAffinity": apart } })),
            &[
                "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector: a null",
                "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.labelSelector: a null",
            ],
        ),
    ];
    for (api_version, kind, fields, wanted) in cases {
        let found = warned(api_version, kind, &fields, None);
        assert_eq!(found.len(), wanted.len(), "{fields}: {found:?}");
        let pairs = found.iter().zip(wanted);
        pairs.for_each(|(found, wanted)| assert!(found.starts_with(wanted), "{fields}: {found}"));
    }
}

#[test]
fn changes_warn_of_what_they_change() {
    let schedule = json!({ "spec": { "schedule": "TZ=UTC 0 0 * * *" } });
    assert!(warned("batch/v1", "CronJob", &schedule, None).is_empty());
    assert!(warned("batch/v1", "CronJob", &schedule, Some(&schedule))[0].starts_with("cannot use TZ or CRON_TZ"));
    let generation = |kind: &str, generation: u64, zone: &str| {
        let template = json!({ "spec": { "nodeSelector": { zone: "a" } } });
        let metadata = json!({ "name": "web", "generation": generation });
        (
            kind.to_owned(),
            json!({ "metadata": metadata, "spec": { "template": template, "minReadySeconds": generation } }),
        )
    };
    let (old, new) = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone");
    let (_, before) = generation("DaemonSet", 1, old);
    let (_, same) = generation("DaemonSet", 2, old);
    assert!(warned("apps/v1", "DaemonSet", &same, Some(&before)).is_empty(), "its template is the same");
    let (_, changed) = generation("ReplicationController", 2, new);
    let found = warned("v1", "ReplicationController", &changed, Some(&before));
    assert_eq!(found.len(), 1, "as there, it is the old template that counts: {found:?}");
    let tokens = json!({ "spec": { "tokenRequests": [{}] } });
    assert!(warned("storage.k8s.io/v1", "CSIDriver", &tokens, Some(&tokens)).is_empty());
    let ingress = json!({ "status": { "loadBalancer": { "ingress": [{ "ip": "FD00::1" }] } } });
    let found = written("networking.k8s.io/v1", "Ingress", &ingress, Some(&ingress), Some(Subresource::Status));
    assert!(found[0].starts_with("status.loadBalancer.ingress[0]: IPv6"), "{found:?}");
    let hosts = json!({ "status": { "hostIPs": [{ "ip": "FD00::1" }] } });
    assert_eq!(written("v1", "Pod", &hosts, Some(&hosts), Some(Subresource::Status)).len(), 1);
    let managed = json!({
        "metadata": { "name": "web", "labels": { "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io" } },
        "endpoints": [{ "addresses": ["FD00::1"] }],
    });
    assert!(warned("discovery.k8s.io/v1", "EndpointSlice", &managed, None).is_empty());
}
