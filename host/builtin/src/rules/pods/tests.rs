//! Tests of the rules of the specification of a pod, of its creation and of its updates.

use serde_json::{Value, json};

use crate::rules::pods;
use crate::rules::report::Report;
use crate::rules::tests::support::{check, defaulted, set};

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p", "labels": { "app": "a" } },
        "spec": {
            "containers": [{ "name": "c", "image": "i", "securityContext": {}, "ports": [{ "containerPort": 80 }] }],
            "securityContext": {},
            "affinity": {},
        },
    })
}

/// Checks the messages for a pod with a value at a pointer into its specification.
fn check_messages(pointer: &str, value: Value, wanted: &[&str]) {
    let mut pod = pod();
    set(&mut pod["spec"], pointer, value);
    assert_eq!(messages(pod, None), wanted, "{pointer}");
}

fn messages(pod: Value, old: Option<&Value>) -> Vec<String> {
    let pod = defaulted(pod);
    let mut report = Report::new(&pod, old, None);
    pods::check(&mut report);
    report.found.iter().map(ToString::to_string).collect()
}

#[test]
fn a_node_selector_is_checked() {
    const PATH: &str = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    for (term, wanted) in [
        (json!({ "matchExpressions": [{ "key": "a", "operator": "In" }] }), "matchExpressions[0].values: Required"),
        (
            json!({ "matchExpressions": [{ "key": "a", "operator": "Gt", "values": ["1", "2"] }] }),
            "matchExpressions[0].values: Required",
        ),
        (json!({ "matchExpressions": [{ "key": "a", "operator": "" }] }), "matchExpressions[0].operator: Invalid"),
        (
            json!({ "matchExpressions": [{ "key": "a", "operator": "In", "values": ["-"] }] }),
            "matchExpressions[0].values[0]: Invalid",
        ),
        (
            json!({ "matchFields": [{ "key": "metadata.name", "operator": "Exists" }] }),
            "matchFields[0].operator: Invalid",
        ),
        (json!({ "matchFields": [{ "key": "a", "operator": "In", "values": ["b"] }] }), "matchFields[0].key: Invalid"),
        (
            json!({ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["B"] }] }),
            "matchFields[0].values[0]: Invalid",
        ),
    ] {
        let mut pod = pod();
        pod["spec"]["affinity"]["nodeAffinity"] =
            json!({ "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [term] } });
        let found = messages(pod, None);
        assert!(found.len() == 1 && found[0].starts_with(&format!("{PATH}[0].{wanted}")), "{term}: {found:?}");
    }
    check_messages(
        "/affinity/nodeAffinity",
        json!({ "requiredDuringSchedulingIgnoredDuringExecution": {} }),
        &[&format!("{PATH}: Required value: must have at least one node selector term")],
    );
}

#[test]
fn affinity_to_pods_and_weights_are_checked() {
    const WEIGHTED: &str = "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]";
    let term = json!({ "topologyKey": "zone", "namespaces": ["N"], "matchLabelKeys": ["a"] });
    let affinity = json!({ "preferredDuringSchedulingIgnoredDuringExecution": [{ "podAffinityTerm": term }] });
    let mut pod = pod();
    pod["spec"]["affinity"]["podAffinity"] = affinity;
    let found = messages(pod, None);
    assert_eq!(found[0], format!("{WEIGHTED}.weight: Invalid value: 0: must be in the range 1-100"));
    assert!(found[1].starts_with(&format!("{WEIGHTED}.podAffinityTerm.namespace: Invalid value: \"N\"")), "{found:?}");
    let unset = "Forbidden: must not be specified when labelSelector is not set";
    assert_eq!(found[2], format!("{WEIGHTED}.podAffinityTerm.matchLabelKeys: {unset}"));
    assert_eq!(found.len(), 3);
}

#[test]
fn a_new_pod_selects_by_its_own_labels_once() {
    let constraint = |selector: Value| {
        json!([{
            "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "matchLabelKeys": ["app", "absent"], "labelSelector": selector,
        }])
    };
    let mut first = pod();
    first["spec"]["topologySpreadConstraints"] = constraint(json!({ "matchLabels": { "tier": "b" } }));
    let first = defaulted(first);
    let added = json!([{ "key": "app", "operator": "In", "values": ["a"] }]);
    assert_eq!(first["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchExpressions"], added);
    assert_eq!(messages(first, None), [""; 0]);
    check_messages(
        "/topologySpreadConstraints",
        constraint(json!({ "matchLabels": { "app": "b" } })),
        &[
            "spec.topologySpreadConstraints[0][0]: Invalid value: \"app\": exists in both matchLabelKeys and labelSelector",
        ],
    );
}

#[test]
fn spread_constraints_are_checked() {
    let constraint = json!({ "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway" });
    check_messages(
        "/topologySpreadConstraints",
        json!([constraint, constraint]),
        &[
            "spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value: \"{zone, ScheduleAnyway}\"",
        ],
    );
    check_messages(
        "/topologySpreadConstraints",
        json!([{ "minDomains": 1 }]),
        &[
            "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
            "spec.topologySpreadConstraints[0].topologyKey: Required value: can not be empty",
            "spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: \"\": supported values: \
                \"DoNotSchedule\", \"ScheduleAnyway\"",
            "spec.topologySpreadConstraints[0].minDomains: Invalid value: 1: can only use minDomains if \
                whenUnsatisfiable=DoNotSchedule, not ",
        ],
    );
}

#[test]
fn fields_of_a_pod_are_checked() {
    check(
        pod,
        &[
            ("/spec/dnsPolicy", json!("None"), &["spec.dnsConfig FieldValueRequired"]),
            (
                "/spec/dnsConfig",
                json!({ "searches": [".", "_a.b.", "A"] }),
                &["spec.dnsConfig.searches[2] FieldValueInvalid"],
            ),
            (
                "/spec/dnsConfig",
                json!({ "nameservers": ["01.2.3.4"] }),
                &["spec.dnsConfig.nameservers[0] FieldValueInvalid"],
            ),
            ("/spec/dnsConfig", json!({ "options": [{}] }), &["spec.dnsConfig.options[0] FieldValueRequired"]),
            ("/spec/hostAliases", json!([{ "ip": "" }]), &["spec.hostAliases[0].ip FieldValueInvalid"]),
            ("/spec/hostname", json!("a.b"), &["spec.hostname FieldValueInvalid"]),
            ("/spec/hostnameOverride", json!(""), &["spec.hostnameOverride FieldValueInvalid"]),
            ("/spec/os", json!({ "name": "plan9" }), &["spec.os FieldValueNotSupported"]),
            ("/spec/os", json!({}), &["spec.os.name FieldValueRequired"]),
            (
                "/spec/schedulingGates",
                json!([{ "name": "a" }, { "name": "a" }]),
                &["spec.schedulingGates[1] FieldValueDuplicate"],
            ),
            ("/spec/readinessGates", json!([{}]), &["spec.readinessGates[0].conditionType FieldValueInvalid"]),
            ("/spec/preemptionPolicy", json!(""), &["spec.preemptionPolicy FieldValueRequired"]),
            ("/spec/runtimeClassName", json!(""), &["spec.runtimeClassName FieldValueInvalid"]),
            ("/spec/resourceClaims", json!([{ "name": "a" }]), &["spec.resourceClaims[0] FieldValueInvalid"]),
            (
                "/spec/tolerations",
                json!([{ "operator": "Exists", "effect": "No" }]),
                &["spec.tolerations[0].effect FieldValueNotSupported"],
            ),
        ],
    );
}

#[test]
fn security_contexts_are_checked() {
    const CONTAINER: &str = "/spec/containers/0/securityContext";
    let path = |name: &str| format!("spec.containers[0].securityContext{name}");
    check(
        pod,
        &[
            ("/spec/securityContext/fsGroup", json!(-1), &["spec.securityContext.fsGroup FieldValueInvalid"]),
            (
                "/spec/securityContext/sysctls",
                json!([{ "name": "a..b" }]),
                &["spec.securityContext.sysctls[0].name FieldValueInvalid"],
            ),
            (
                "/spec/securityContext/seLinuxChangePolicy",
                json!("MountOption"),
                &["spec.securityContext.seLinuxChangePolicy FieldValueNotSupported"],
            ),
            (
                "/spec/securityContext/seccompProfile",
                json!({}),
                &["spec.securityContext.seccompProfile.type FieldValueRequired"],
            ),
            (
                "/spec/securityContext/appArmorProfile",
                json!({ "type": "Localhost" }),
                &["spec.securityContext.appArmorProfile.localhostProfile FieldValueRequired"],
            ),
            (
                "/spec/securityContext/windowsOptions",
                json!({ "runAsUserName": r"a\b\c" }),
                &["spec.securityContext.windowsOptions.runAsUserName FieldValueInvalid"],
            ),
            (&format!("{CONTAINER}/procMount"), json!("Unmasked"), &[&*path(".procMount FieldValueInvalid")]),
            (
                CONTAINER,
                json!({ "allowPrivilegeEscalation": false, "capabilities": { "add": ["CAP_SYS_ADMIN"] } }),
                &[&*path(" FieldValueInvalid")],
            ),
            // A user who may create pods may create such ones, as in clusters that kubeadm makes.
            (CONTAINER, json!({ "privileged": true }), &[]),
        ],
    );
}

#[test]
fn ports_of_the_host_are_unique_and_those_of_the_container() {
    let mut on_host = pod();
    on_host["spec"]["hostNetwork"] = json!(true);
    on_host["spec"]["containers"][0]["ports"] =
        json!([{ "containerPort": 80, "hostPort": 81 }, { "containerPort": 81, "hostPort": 81 }]);
    let wanted = [
        "spec.containers[0].ports[1].hostPort: Duplicate value: \"TCP//81\"",
        "spec.containers[0].ports[0].hostPort: Invalid value: 81: must match `containerPort` when `hostNetwork` is true",
    ];
    assert_eq!(messages(on_host, None), wanted);
}

#[test]
fn a_pod_that_waits_says_so_and_only_narrows_its_nodes() {
    let mut gated = pod();
    gated["metadata"]["creationTimestamp"] = json!("2026-01-02T03:04:05Z");
    gated["spec"]["schedulingGates"] = json!([{ "name": "a" }]);
    gated["spec"]["nodeSelector"] = json!({ "zone": "b" });
    let gated = defaulted(gated);
    let condition = &pods::first_status(&gated)["conditions"][0];
    assert_eq!(
        (&condition["reason"], &condition["lastTransitionTime"]),
        (&json!("SchedulingGated"), &json!("2026-01-02T03:04:05Z"))
    );
    for (pointer, value, wanted) in [
        ("/spec/nodeSelector/disk", json!("c"), None),
        ("/spec/affinity", json!({ "nodeAffinity": {} }), None),
        ("/spec/schedulingGates", json!([]), None),
        ("/spec/nodeSelector/zone", json!("c"), Some("spec.nodeSelector: Invalid")),
        ("/spec/schedulingGates", json!([{ "name": "b" }]), Some("spec.schedulingGates[0].name: Forbidden")),
        ("/spec/hostname", json!("d"), Some("spec: Forbidden")),
    ] {
        let mut changed = gated.clone();
        set(&mut changed, pointer, value);
        let found = messages(changed, Some(&gated));
        assert_eq!(found.len(), usize::from(wanted.is_some()), "{pointer}: {found:?}");
        assert!(found.iter().all(|found| found.starts_with(wanted.unwrap_or_default())), "{pointer}: {found:?}");
    }
}

#[test]
fn users_and_processes_of_windows_are_checked() {
    const USER: &str = "spec.securityContext.windowsOptions.runAsUserName: Invalid value";
    for (user, detail) in [
        (r"a\b", None),
        (r"a.b\c", None),
        (r".a\b", Some("runAsUserName's Domain doesn't match the NetBios nor the DNS format")),
        (r"a\", Some("runAsUserName's User cannot be empty")),
        ("..", Some("runAsUserName's User cannot contain only periods or spaces")),
        ("a\n", Some("runAsUserName cannot contain control characters")),
    ] {
        let wanted: Vec<String> =
            detail.map(|detail| format!("{USER}: {}: {detail}", json!(user))).into_iter().collect();
        let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
        check_messages("/securityContext/windowsOptions", json!({ "runAsUserName": user }), &wanted);
    }
    check_messages(
        "/securityContext/windowsOptions",
        json!({ "hostProcess": true }),
        &[
            "spec.hostNetwork: Invalid value: false: hostNetwork must be true if pod contains any hostProcess containers",
        ],
    );
}

#[test]
fn annotations_of_profiles_are_those_of_the_fields() {
    const PROFILE: &str = "spec.containers[0].securityContext.appArmorProfile";
    for (annotation, profile, wanted) in [
        ("localhost/a", json!({ "type": "Localhost", "localhostProfile": "a" }), None),
        (
            "localhost/a",
            json!({ "type": "Localhost", "localhostProfile": "b" }),
            Some(format!("{PROFILE}.localhostProfile: Forbidden")),
        ),
        ("unconfined", json!({ "type": "RuntimeDefault" }), Some(format!("{PROFILE}.type: Forbidden"))),
        (
            "else",
            json!(null),
            Some("metadata.annotations[container.apparmor.security.beta.kubernetes.io/c]: Invalid".to_owned()),
        ),
    ] {
        let mut pod = pod();
        pod["metadata"]["annotations"] = json!({ "container.apparmor.security.beta.kubernetes.io/c": annotation });
        pod["spec"]["securityContext"]["appArmorProfile"] = profile;
        let found = messages(pod, None);
        assert_eq!(found.len(), usize::from(wanted.is_some()), "{annotation}: {found:?}");
        assert!(
            found.iter().all(|found| found.starts_with(&wanted.clone().unwrap_or_default())),
            "{annotation}: {found:?}"
        );
    }
}
