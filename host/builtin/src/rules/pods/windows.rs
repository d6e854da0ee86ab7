//! The operating system of a pod, and the fields that Windows has or lacks.

use homeostat_cel::names::DNS_1123_SUBDOMAIN;
use serde_json::Value;

use super::spec::PodSpec;
use crate::rules::report::{Report, text};

/// Fields of a pod on Linux alone.
const LINUX_POD_FIELDS: [&str; 2] = ["hostUsers", "shareProcessNamespace"];
const LINUX_POD_FLAGS: [&str; 2] = ["hostPID", "hostIPC"];
/// Fields of the security context of a pod on Linux alone.
const LINUX_POD_CONTEXT: [&str; 11] = [
    "appArmorProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "runAsGroup",
    "runAsUser",
    "seLinuxChangePolicy",
    "seLinuxOptions",
    "seccompProfile",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "sysctls",
];
/// Fields of the security context of a container on Linux alone.
const LINUX_CONTAINER_CONTEXT: [&str; 10] = [
    "allowPrivilegeEscalation",
    "appArmorProfile",
    "capabilities",
    "privileged",
    "procMount",
    "readOnlyRootFilesystem",
    "runAsGroup",
    "runAsUser",
    "seLinuxOptions",
    "seccompProfile",
];
const NOT_ON_WINDOWS: &str = "cannot be set for a windows pod";
const CREDENTIAL_BYTES_MAX: usize = 64 * 1024;
/// The bytes of a domain are fewer.
const DOMAIN_BYTES_END: usize = 256;
const USER_BYTES_MAX: usize = 104;
const NETBIOS_CHARS_MAX: usize = 15;
const DNS_LABEL_BYTES_MAX: usize = 63;

/// Checks the operating system of a pod, and the containers that are processes of a host with Windows.
pub(super) fn check(report: &mut Report<'_>, pod: &PodSpec<'_>) {
    check_host_processes(report, pod);
    let os = &pod.fields["os"];
    if !os.is_object() {
        return;
    }
    match text(&os["name"]) {
        "" => report.required(format!("{}.os.name", pod.path), ""),
        "linux" => check_linux(report, pod),
        "windows" => check_windows(report, pod),
        name => report.unsupported(format!("{}.os", pod.path), &name.into(), &["linux", "windows"]),
    }
}

fn check_linux(report: &mut Report<'_>, pod: &PodSpec<'_>) {
    let whole = (pod.path.to_owned(), pod.fields);
    for (path, holder) in [whole].into_iter().chain(pod.containers()) {
        if holder["securityContext"]["windowsOptions"].is_object() {
            let path = format!("{path}.securityContext.windowsOptions");
            report.forbidden(path, "windows options cannot be set for a linux pod");
        }
    }
}

fn check_windows(report: &mut Report<'_>, pod: &PodSpec<'_>) {
    let fields = LINUX_POD_FIELDS.iter().filter(|name| !pod.fields[**name].is_null());
    let flags = LINUX_POD_FLAGS.iter().filter(|name| pod.fields[**name] == true);
    for name in fields.chain(flags) {
        report.forbidden(format!("{}.{name}", pod.path), NOT_ON_WINDOWS);
    }
    forbid(report, &pod.fields["securityContext"], pod.path, &LINUX_POD_CONTEXT);
    for (path, container) in pod.containers() {
        forbid(report, &container["securityContext"], &path, &LINUX_CONTAINER_CONTEXT);
    }
}

/// Forbids fields of the security context of a pod or container.
fn forbid(report: &mut Report<'_>, context: &Value, path: &str, names: &[&str]) {
    for name in names.iter().filter(|name| !context[**name].is_null()) {
        report.forbidden(format!("{path}.securityContext.{name}"), NOT_ON_WINDOWS);
    }
}

/// Returns whether a pod or container says that it is a process of the host.
fn host_process(holder: &Value) -> Option<bool> {
    holder["securityContext"]["windowsOptions"]["hostProcess"].as_bool()
}

fn check_host_processes(report: &mut Report<'_>, pod: &PodSpec<'_>) {
    let (containers, of_pod) = (pod.containers(), host_process(pod.fields));
    for (path, container) in &containers {
        if let (Some(of_pod), Some(own)) = (of_pod, host_process(container))
            && of_pod != own
        {
            let detail = format!("pod hostProcess value must be identical if both are specified, was {of_pod}");
            report.invalid(format!("{path}.securityContext.windowsOptions.hostProcess"), &own.into(), &detail);
        }
    }
    let is_process = |container: &Value| host_process(container).or(of_pod) == Some(true);
    match containers.iter().filter(|(_, container)| is_process(container)).count() {
        0 => {}
        count => forbid_host_processes(report, pod, count == containers.len()),
    }
}

/// Says what is wrong with a pod that has processes of the host.
fn forbid_host_processes(report: &mut Report<'_>, pod: &PodSpec<'_>, are_all: bool) {
    if !are_all {
        let detail = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        report.invalid(pod.path, &"".into(), detail);
    }
    if !pod.is_on_host_network() {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        report.invalid(format!("{}.hostNetwork", pod.path), &false.into(), detail);
    }
}

/// Checks the options of a security context for Windows.
pub(super) fn check_options(report: &mut Report<'_>, options: &Value, path: &str) {
    let name = &options["gmsaCredentialSpecName"];
    if name.is_string() {
        report.form(format!("{path}.gmsaCredentialSpecName"), name, &DNS_1123_SUBDOMAIN);
    }
    let credential = &options["gmsaCredentialSpec"];
    let fault = match credential.as_str().map(str::len) {
        Some(0) => Some("gmsaCredentialSpec cannot be an empty string"),
        Some(length) if length > CREDENTIAL_BYTES_MAX => Some("gmsaCredentialSpec size must be under 64 KiB"),
        _ => None,
    };
    if let Some(fault) = fault {
        report.invalid(format!("{path}.gmsaCredentialSpec"), credential, fault);
    }
    let user = &options["runAsUserName"];
    for fault in user.as_str().map(user_name_faults).unwrap_or_default() {
        report.invalid(format!("{path}.runAsUserName"), user, fault);
    }
}

/// Returns the faults of the name of a user of Windows: `user` or `domain\user`.
fn user_name_faults(name: &str) -> Vec<&'static str> {
    if name.is_empty() {
        return vec!["runAsUserName cannot be an empty string"];
    }
    if name.bytes().any(|byte| byte.is_ascii_control()) {
        return vec!["runAsUserName cannot contain control characters"];
    }
    match name.split('\\').collect::<Vec<_>>()[..] {
        [user] => user_faults(user),
        [domain, user] => domain_faults(domain).into_iter().chain(user_faults(user)).collect(),
        _ => vec!["runAsUserName cannot contain more than one backslash"],
    }
}

fn domain_faults(domain: &str) -> Vec<&'static str> {
    let length = "runAsUserName's Domain length must be under 256 characters";
    let format = "runAsUserName's Domain doesn't match the NetBios nor the DNS format";
    let is_named = is_netbios(domain) || domain.split('.').all(is_dns_label);
    let faults = [(domain.len() >= DOMAIN_BYTES_END, length), (!is_named, format)];
    faults.into_iter().filter_map(|(is_present, fault)| is_present.then_some(fault)).collect()
}

fn is_netbios(domain: &str) -> bool {
    let is_named = |c: char| !r#"\/:*?"<>|"#.contains(c);
    (1..=NETBIOS_CHARS_MAX).contains(&domain.chars().count())
        && domain.chars().all(is_named)
        && !domain.starts_with('.')
}

fn is_dns_label(label: &str) -> bool {
    let is_end = |c: char| c.is_ascii_alphanumeric();
    label.len() <= DNS_LABEL_BYTES_MAX
        && label.starts_with(is_end)
        && label.ends_with(is_end)
        && label.chars().all(|c| c == '-' || is_end(c))
}

fn user_faults(user: &str) -> Vec<&'static str> {
    let is_blank = !user.is_empty() && user.chars().all(|c| matches!(c, '.' | ' '));
    let has_sign = user.contains(|c| r#""/\:;|=,+*?<>@[]"#.contains(c));
    let faults = [
        (user.is_empty(), "runAsUserName's User cannot be empty"),
        (user.len() > USER_BYTES_MAX, "runAsUserName's User length must not be longer than 104 characters"),
        (is_blank, "runAsUserName's User cannot contain only periods or spaces"),
        (has_sign, r#"runAsUserName's User cannot contain the following characters: "/\:;|=,+*?<>@[]"#),
    ];
    faults.into_iter().filter_map(|(is_present, fault)| is_present.then_some(fault)).collect()
}
