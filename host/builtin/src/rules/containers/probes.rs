//! The probes of containers, and their hooks at the start and at the stop.

use serde_json::Value;

use super::Pod;
use crate::rules::report::{Report, items, text};

/// The actions of a probe or a hook, in the order of Kubernetes.
const HANDLERS: [&str; 5] = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];
const NUMBERS: [&str; 5] =
    ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"];
const SCHEMES: [&str; 2] = ["HTTP", "HTTPS"];

/// Checks the hooks and the probes of a container.
pub(super) fn check(report: &mut Report<'_>, pod: &Pod<'_>, container: &Value, path: &str) {
    let grace = pod.spec["terminationGracePeriodSeconds"].as_i64();
    for name in ["postStart", "preStop"] {
        let hook = &container["lifecycle"][name];
        if hook.is_object() {
            check_handler(report, hook, grace, &format!("{path}.lifecycle.{name}"));
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if container[name].is_object() {
            check_probe(report, &container[name], grace, &format!("{path}.{name}"));
            check_kind(report, name, &container[name], &format!("{path}.{name}"));
        }
    }
}

fn check_probe(report: &mut Report<'_>, probe: &Value, grace: Option<i64>, path: &str) {
    check_handler(report, probe, grace, path);
    for name in NUMBERS.into_iter().filter(|name| probe[*name].as_i64().is_some_and(|number| number < 0)) {
        report.invalid(format!("{path}.{name}"), &probe[name], "must be greater than or equal to 0");
    }
    let grace = &probe["terminationGracePeriodSeconds"];
    if grace.as_i64().is_some_and(|seconds| seconds <= 0) {
        report.invalid(format!("{path}.terminationGracePeriodSeconds"), grace, "must be greater than 0");
    }
}

/// Checks what only some kinds of probes can have.
fn check_kind(report: &mut Report<'_>, kind: &str, probe: &Value, path: &str) {
    let (count, grace) = (&probe["successThreshold"], &probe["terminationGracePeriodSeconds"]);
    if kind == "readinessProbe" {
        if !grace.is_null() {
            let detail = "must not be set for readinessProbes";
            report.invalid(format!("{path}.terminationGracePeriodSeconds"), grace, detail);
        }
    } else if count.as_i64().is_some_and(|count| count != 1) {
        report.invalid(format!("{path}.successThreshold"), count, "must be 1");
    }
}

fn check_handler(report: &mut Report<'_>, holder: &Value, grace: Option<i64>, path: &str) {
    let given: Vec<&str> = HANDLERS.into_iter().filter(|name| holder[*name].is_object()).collect();
    for name in given.iter().skip(1) {
        report.forbidden(format!("{path}.{name}"), "may not specify more than 1 handler type");
    }
    let Some(name) = given.first() else { return report.required(path, "must specify a handler type") };
    let (handler, path) = (&holder[*name], format!("{path}.{name}"));
    match *name {
        "exec" if items(&handler["command"]).is_empty() => report.required(format!("{path}.command"), ""),
        "httpGet" => check_request(report, handler, &path),
        "tcpSocket" => report.port_or_name(format!("{path}.port"), &handler["port"]),
        "grpc" => report.port(format!("{path}.port"), &handler["port"]),
        "sleep" => check_sleep(report, handler, grace, &path),
        _ => {}
    }
}

/// Checks a request of HTTP.
fn check_request(report: &mut Report<'_>, request: &Value, path: &str) {
    if text(&request["path"]).is_empty() {
        report.required(format!("{path}.path"), "");
    }
    report.port_or_name(format!("{path}.port"), &request["port"]);
    if !SCHEMES.contains(&text(&request["scheme"])) {
        report.unsupported(format!("{path}.scheme"), &text(&request["scheme"]).into(), &SCHEMES);
    }
    for header in items(&request["httpHeaders"]) {
        let name = text(&header["name"]);
        if name.is_empty() || !name.bytes().all(|byte| byte == b'-' || byte.is_ascii_alphanumeric()) {
            let detail = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', \
                regex used for validation is '[-A-Za-z0-9]+')";
            report.invalid(format!("{path}.httpHeaders"), &name.into(), detail);
        }
    }
}

/// Checks that a pause ends within the time that the pod may take for its end.
fn check_sleep(report: &mut Report<'_>, sleep: &Value, grace: Option<i64>, path: &str) {
    let (seconds, Some(grace)) = (sleep["seconds"].as_i64().unwrap_or_default(), grace) else { return };
    if seconds < 0 || seconds > grace {
        let detail = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        report.invalid(path, &seconds.into(), &detail);
    }
}
