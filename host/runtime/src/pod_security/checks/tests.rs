//! Tests of the checks of each level.

use serde_json::json;

use super::*;

/// Returns what a level says of the `spec` of a pod.
fn said(level: Level, spec: &Value) -> String {
    let words = |CheckResult { reason, detail }: CheckResult| format!("{reason} ({detail})");
    findings(level, &Value::Null, spec).into_iter().map(words).collect::<Vec<_>>().join(", ")
}

fn safe() -> Value {
    json!({
        "securityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
        "containers": [{
            "name": "c", "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
        }],
        "volumes": [{ "name": "v", "emptyDir": {} }],
    })
}

#[test]
fn a_plain_pod_violates_the_restricted_level_alone() {
    let plain = json!({ "containers": [{ "name": "a" }, { "name": "b" }] });
    assert_eq!(said(Level::Privileged, &plain), "");
    assert_eq!(said(Level::Baseline, &plain), "");
    let words = "allowPrivilegeEscalation != false (containers \"a\", \"b\" must set \
        securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (containers \"a\", \"b\" must set \
        securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or containers \"a\", \"b\" must set \
        securityContext.runAsNonRoot=true), seccompProfile (pod or containers \"a\", \"b\" must set \
        securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")";
    assert_eq!(said(Level::Restricted, &plain), words);
    assert_eq!(said(Level::Restricted, &safe()), "");
}

#[test]
fn the_baseline_level_forbids_each_way_to_the_node() {
    let with = |context: Value| json!({ "containers": [{ "name": "c", "securityContext": context }] });
    let of_container = |fields: Value| {
        let mut container = json!({ "name": "c" });
        container.as_object_mut().unwrap().extend(fields.as_object().cloned().unwrap());
        json!({ "containers": [container] })
    };
    for (spec, words) in [
        (
            with(json!({ "privileged": true })),
            "privileged (container \"c\" must not set securityContext.privileged=true)",
        ),
        (json!({ "hostNetwork": true, "hostIPC": true }), "host namespaces (hostNetwork=true, hostIPC=true)"),
        (json!({ "volumes": [{ "name": "v", "hostPath": { "path": "/" } }] }), "hostPath volumes (volume \"v\")"),
        (
            of_container(json!({ "ports": [{ "hostPort": 80 }, { "hostPort": 443 }, { "containerPort": 1 }] })),
            "hostPort (container \"c\" uses hostPorts 443, 80)",
        ),
        (
            of_container(json!({ "livenessProbe": { "httpGet": { "host": "10.0.0.1" } } })),
            "probe or lifecycle host (container \"c\" uses probe or lifecycle host \"10.0.0.1\")",
        ),
        (
            with(json!({ "capabilities": { "add": ["CHOWN", "SYS_ADMIN", "NET_RAW"] } })),
            "non-default capabilities (container \"c\" must not include \"NET_RAW\", \"SYS_ADMIN\" in \
             securityContext.capabilities.add)",
        ),
        (
            with(json!({ "appArmorProfile": { "type": "Unconfined" } })),
            "forbidden AppArmor profile (container \"c\" must not set AppArmor profile type to \"Unconfined\")",
        ),
        (
            json!({ "securityContext": { "seLinuxOptions": { "type": "spc_t", "user": "u" } } }),
            "seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: type \"spc_t\"; user may not be set)",
        ),
        (
            with(json!({ "procMount": "Unmasked" })),
            "procMount (container \"c\" must not set securityContext.procMount to \"Unmasked\")",
        ),
        (
            with(json!({ "seccompProfile": { "type": "Unconfined" } })),
            "seccompProfile (container \"c\" must not set securityContext.seccompProfile.type to \"Unconfined\")",
        ),
        (
            json!({ "securityContext": { "sysctls": [{ "name": "kernel.msgmax" }, { "name": "net.ipv4.tcp_rmem" }] } }),
            "forbidden sysctls (kernel.msgmax)",
        ),
        (
            json!({ "securityContext": { "windowsOptions": { "hostProcess": true } } }),
            "hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)",
        ),
    ] {
        assert_eq!(said(Level::Baseline, &spec), words, "{spec}");
        assert_eq!(said(Level::Privileged, &spec), "", "{spec}");
    }
    let annotated = json!({ "annotations": { "container.apparmor.security.beta.kubernetes.io/c": "unconfined" } });
    let found = findings(Level::Baseline, &annotated, &safe());
    let words = "annotation must not set AppArmor profile type to \
                 \"container.apparmor.security.beta.kubernetes.io/c=\"unconfined\"\"";
    assert_eq!((found.len(), found[0].detail.as_str()), (1, words));
}

#[test]
fn the_restricted_level_names_what_is_set_before_what_is_missing() {
    let restricted = |pointer: &str, value: Value| {
        let mut spec = safe();
        *spec.pointer_mut(pointer).unwrap() = value;
        said(Level::Restricted, &spec)
    };
    for (pointer, value, words) in [
        (
            "/securityContext/runAsNonRoot",
            json!(false),
            "runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false)",
        ),
        (
            "/volumes/0",
            json!({ "name": "v", "hostPath": { "path": "/" } }),
            "restricted volume types (volume \"v\" uses restricted volume type \"hostPath\")",
        ),
        (
            "/containers/0/securityContext/capabilities",
            json!({ "drop": ["ALL"], "add": ["CHOWN", "NET_BIND_SERVICE"] }),
            "unrestricted capabilities (container \"c\" must not include \"CHOWN\" in securityContext.capabilities.add)",
        ),
        (
            "/securityContext/seccompProfile/type",
            json!("Unconfined"),
            "seccompProfile (pod must not set securityContext.seccompProfile.type to \"Unconfined\")",
        ),
    ] {
        assert_eq!(restricted(pointer, value), words);
    }
    let mut root = safe();
    root["containers"][0]["securityContext"]["runAsUser"] = 0.into();
    assert_eq!(said(Level::Restricted, &root), "runAsUser=0 (container \"c\" must not set runAsUser=0)");
    root["hostUsers"] = false.into();
    assert_eq!(said(Level::Restricted, &root), "");
}

#[test]
fn a_pod_for_windows_needs_nothing_that_linux_alone_has() {
    let windows = json!({
        "os": { "name": "windows" }, "securityContext": { "runAsNonRoot": true }, "containers": [{ "name": "c" }],
    });
    assert_eq!(said(Level::Restricted, &windows), "");
}
