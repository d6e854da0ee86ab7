//! The security contexts of a pod and of its containers.

use std::collections::BTreeSet;

use serde_json::Value;

use super::spec::PodSpec;
use super::windows;
use crate::rules::report::{Report, items, text};
use crate::rules::volumes::paths::check_descending;

/// The ids of users and groups.
const IDS: std::ops::RangeInclusive<i64> = 0..=i32::MAX as i64;
const SYSCTL_BYTES_MAX: usize = 253;
/// Most bytes of the name of a profile of AppArmor.
const PROFILE_BYTES_MAX: usize = 4095;
/// Parameters of the kernel that are those of a namespace of processes.
const IPC_SYSCTLS: [&str; 10] = [
    "kernel.msg",
    "kernel.msgmax",
    "kernel.msgmnb",
    "kernel.msgmni",
    "kernel.sem",
    "kernel.shm",
    "kernel.shm_rmid_forced",
    "kernel.shmall",
    "kernel.shmmax",
    "kernel.shmmni",
];

/// Checks the security contexts of a pod and of its containers.
pub(super) fn check(report: &mut Report<'_>, pod: &PodSpec<'_>) {
    check_pod_context(report, pod);
    check_host_users(report, pod);
    for (path, container) in pod.containers() {
        let context = &container["securityContext"];
        if context.is_object() {
            check_container_context(report, context, &format!("{path}.securityContext"), has_host_users(pod.fields));
        }
    }
}

/// Returns whether the users of a pod are those of its host.
fn has_host_users(spec: &Value) -> bool {
    spec["hostUsers"] != false
}

fn check_pod_context(report: &mut Report<'_>, pod: &PodSpec<'_>) {
    let (context, path) = (&pod.fields["securityContext"], format!("{}.securityContext", pod.path));
    for name in ["fsGroup", "runAsUser", "runAsGroup"] {
        check_id(report, &context[name], format!("{path}.{name}"));
    }
    for (at, group) in items(&context["supplementalGroups"]).iter().enumerate() {
        check_id(report, group, format!("{path}.supplementalGroups[{at}]"));
    }
    if pod.fields["shareProcessNamespace"] == true && pod.fields["hostPID"] == true {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        report.invalid(format!("{path}.shareProcessNamespace"), &true.into(), detail);
    }
    check_sysctls(report, pod, &format!("{path}.sysctls"));
    check_profiles(report, context, &path);
    check_selinux_change_policy(report, pod, format!("{path}.seLinuxChangePolicy"));
}

/// Checks the id of a user or group.
fn check_id(report: &mut Report<'_>, id: &Value, path: String) {
    if id.as_i64().is_some_and(|number| !IDS.contains(&number)) {
        report.invalid(path, id, "must be between 0 and 2147483647, inclusive");
    }
}

/// Checks what a pod and a container have in common.
fn check_profiles(report: &mut Report<'_>, context: &Value, path: &str) {
    check_seccomp_profile(report, &context["seccompProfile"], &format!("{path}.seccompProfile"));
    windows::check_options(report, &context["windowsOptions"], &format!("{path}.windowsOptions"));
    check_app_armor_profile(report, &context["appArmorProfile"], &format!("{path}.appArmorProfile"));
}

fn check_seccomp_profile(report: &mut Report<'_>, profile: &Value, path: &str) {
    if !profile.is_object() {
        return;
    }
    let (local, local_path) = (&profile["localhostProfile"], format!("{path}.localhostProfile"));
    if text(&profile["type"]).is_empty() {
        report.required(format!("{path}.type"), "type is required when seccompProfile is set");
    }
    match (profile["type"] == "Localhost", local.as_str()) {
        (true, None) => report.required(local_path, "must be set when seccomp type is Localhost"),
        (true, Some(_)) => check_descending(report, local, &local_path),
        (false, Some(_)) => report.invalid(local_path, profile, "can only be set when seccomp type is Localhost"),
        (false, None) => {}
    }
}

fn check_app_armor_profile(report: &mut Report<'_>, profile: &Value, path: &str) {
    if !profile.is_object() {
        return;
    }
    let (local, local_path) = (&profile["localhostProfile"], format!("{path}.localhostProfile"));
    match text(&profile["type"]) {
        "" => report.required(format!("{path}.type"), "type is required when appArmorProfile is set"),
        "Localhost" => check_app_armor_name(report, local, local_path),
        "RuntimeDefault" | "Unconfined" if local.is_string() => {
            report.invalid(local_path, local, "can only be set when AppArmor type is Localhost");
        }
        "RuntimeDefault" | "Unconfined" => {}
        _ => {
            report.unsupported(format!("{path}.type"), &profile["type"], &["Localhost", "RuntimeDefault", "Unconfined"])
        }
    }
}

fn check_app_armor_name(report: &mut Report<'_>, value: &Value, path: String) {
    let name = text(value);
    if name.trim() != name {
        report.invalid(path.clone(), value, "must not be padded with whitespace");
    } else if name.is_empty() {
        report.required(path.clone(), "must be set when AppArmor type is Localhost");
    }
    if name.len() > PROFILE_BYTES_MAX {
        report.too_long(path, PROFILE_BYTES_MAX);
    }
}

fn check_sysctls(report: &mut Report<'_>, pod: &PodSpec<'_>, path: &str) {
    let was_host_valid =
        pod.old.is_none_or(|old| sysctls(old).iter().all(|one| host_fault(old, name_of(one)).is_none()));
    let mut names = BTreeSet::new();
    for (at, sysctl) in sysctls(pod.fields).iter().enumerate() {
        let (path, name) = (format!("{path}[{at}].name"), name_of(sysctl));
        if name.is_empty() {
            report.required(path.clone(), "");
        } else if !is_sysctl(name) {
            let detail = "must have at most 253 characters and match regex \
                ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            report.invalid(path.clone(), &name.into(), detail);
        } else if !names.insert(name) {
            report.duplicate(path.clone(), &name.into());
        }
        if let Some(fault) = host_fault(pod.fields, name).filter(|_| was_host_valid) {
            report.invalid(path, &name.into(), fault);
        }
    }
}

fn sysctls(spec: &Value) -> &[Value] {
    items(&spec["securityContext"]["sysctls"])
}

fn name_of(sysctl: &Value) -> &str {
    text(&sysctl["name"])
}

fn is_sysctl(name: &str) -> bool {
    let is_end = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_segment = |segment: &str| {
        let bytes = segment.as_bytes();
        bytes.first().is_some_and(is_end)
            && bytes.last().is_some_and(is_end)
            && bytes.iter().all(|byte| is_end(byte) || matches!(byte, b'-' | b'_'))
    };
    name.len() <= SYSCTL_BYTES_MAX && name.split(['.', '/']).all(is_segment)
}

/// Returns why a pod that shares a namespace with its host cannot set a parameter of the kernel.
fn host_fault(spec: &Value, name: &str) -> Option<&'static str> {
    let name = dotted(name);
    let name = name.split('*').next().unwrap_or_default();
    if spec["hostNetwork"] == true && name.starts_with("net.") {
        Some("may not be specified when 'hostNetwork' is true")
    } else if spec["hostIPC"] == true && (IPC_SYSCTLS.contains(&name) || name.starts_with("fs.mqueue.")) {
        Some("may not be specified when 'hostIPC' is true")
    } else {
        None
    }
}

/// Returns the name of a parameter of the kernel with dots between its parts, where it has slashes.
fn dotted(name: &str) -> String {
    if name.find(['.', '/']).is_none_or(|at| name[at..].starts_with('.')) {
        return name.to_owned();
    }
    let swapped = |c: char| match c {
        '.' => '/',
        '/' => '.',
        other => other,
    };
    name.chars().map(swapped).collect()
}

/// Checks how the volumes of a pod get their labels. The gate of one way is off, but a pod that chose a way before can
/// change it.
fn check_selinux_change_policy(report: &mut Report<'_>, pod: &PodSpec<'_>, path: String) {
    let policy = &pod.fields["securityContext"]["seLinuxChangePolicy"];
    let had_one = pod.old.is_some_and(|old| old["securityContext"]["seLinuxChangePolicy"].is_string());
    let supported: &[&str] = if had_one { &["MountOption", "Recursive"] } else { &["Recursive"] };
    if policy.as_str().is_some_and(|name| !supported.contains(&name)) {
        report.unsupported(path, policy, supported);
    }
}

/// Checks what a pod with users of its own cannot have.
fn check_host_users(report: &mut Report<'_>, pod: &PodSpec<'_>) {
    const DETAIL: &str = "when `hostUsers` is false";
    if has_host_users(pod.fields) {
        return;
    }
    let old = pod.old.filter(|old| !has_host_users(old));
    if pod.is_on_host_network() && old.is_none_or(|old| old["hostNetwork"] != true) {
        report.forbidden(format!("{}.hostNetwork", pod.path), DETAIL);
    }
    for (name, shown) in [("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if pod.fields[name] == true {
            report.forbidden(format!("{}.{shown}", pod.path), DETAIL);
        }
    }
    let had_devices = old.is_some_and(|old| PodSpec { fields: old, ..*pod }.containers().iter().any(has_devices));
    for (path, _) in pod.containers().iter().filter(|container| !had_devices && has_devices(container)) {
        report.forbidden(format!("{path}.volumeDevices"), DETAIL);
    }
}

fn has_devices((_, container): &(String, &Value)) -> bool {
    !items(&container["volumeDevices"]).is_empty()
}

fn check_container_context(report: &mut Report<'_>, context: &Value, path: &str, has_host_users: bool) {
    for name in ["runAsUser", "runAsGroup"] {
        check_id(report, &context[name], format!("{path}.{name}"));
    }
    let mount = &context["procMount"];
    if mount == "Unmasked" && has_host_users {
        report.invalid(format!("{path}.procMount"), mount, "`hostUsers` must be false to use `Unmasked`");
    }
    check_escalation(report, context, path);
    check_profiles(report, context, path);
}

/// Checks that a container that cannot get more privileges does not have them.
fn check_escalation(report: &mut Report<'_>, context: &Value, path: &str) {
    if context["allowPrivilegeEscalation"] != false {
        return;
    }
    if context["privileged"] == true {
        let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        report.invalid(path, context, detail);
    }
    for _ in items(&context["capabilities"]["add"]).iter().filter(|name| *name == "CAP_SYS_ADMIN") {
        let detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
        report.invalid(path, context, detail);
    }
}
