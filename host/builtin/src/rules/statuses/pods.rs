//! The status of a pod.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

use serde_json::{Map, Value, json};

use crate::rules::report::{Report, items, text};

/// Conditions whose names are not checked.
const CONDITIONS: [&str; 3] = ["PodScheduled", "Ready", "Initialized"];

/// Brings the addresses of a pod into one form, and keeps what no write of the status takes away.
pub(in crate::rules) fn pod_defaults(pod: &mut Value, old: &Value) {
    let Some(status) = pod.get_mut("status").and_then(Value::as_object_mut) else { return };
    unite_addresses(status);
    let before = &old["status"];
    if status.get("qosClass").is_none_or(|class| text(class).is_empty())
        && let Some(class) = before.get("qosClass")
    {
        status.insert("qosClass".to_owned(), class.clone());
    }
    keep_generation(status, before.get("observedGeneration"));
    // Several conditions may have one type.
    let mut stored: BTreeMap<&str, VecDeque<&Value>> = BTreeMap::new();
    for condition in items(&before["conditions"]) {
        stored.entry(text(&condition["type"])).or_default().push_back(&condition["observedGeneration"]);
    }
    let conditions = status.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten();
    for condition in conditions.filter_map(Value::as_object_mut) {
        let name = condition.get("type").map(text).unwrap_or_default();
        let before = stored.get_mut(name).and_then(VecDeque::pop_front);
        keep_generation(condition, before.filter(|before| !before.is_null()));
    }
}

/// Makes one of the address of a pod and the list of its addresses. The former counts where they differ.
fn unite_addresses(status: &mut Map<String, Value>) {
    let one = status.get("podIP").map(text).unwrap_or_default().to_owned();
    let first = status.get("podIPs").and_then(|list| list.get(0)).map(|first| text(&first["ip"]).to_owned());
    match first {
        Some(first) if one.is_empty() => {
            status.insert("podIP".to_owned(), first.into());
        }
        Some(first) if first == one => {}
        _ if one.is_empty() => {}
        _ => {
            status.insert("podIPs".to_owned(), json!([{ "ip": one }]));
        }
    }
}

/// Keeps the generation that a status is of, if the written one has none.
fn keep_generation(fields: &mut Map<String, Value>, before: Option<&Value>) {
    let is_missing = fields.get("observedGeneration").is_none_or(|generation| generation.as_i64() == Some(0));
    if let Some(before) = before.filter(|_| is_missing) {
        fields.insert("observedGeneration".to_owned(), before.clone());
    }
}

pub(in crate::rules) fn check_pod(report: &mut Report<'_>) {
    let old = report.old.unwrap_or(&Value::Null);
    let (status, before) = (report.at("/status"), &old["status"]);
    for (at, condition) in items(&status["conditions"]).iter().enumerate() {
        let path = format!("status.conditions[{at}]");
        not_negative(report, &condition["observedGeneration"], format!("{path}.observedGeneration"));
        if !CONDITIONS.contains(&text(&condition["type"])) {
            report.qualified(format!("{path}.Type"), &text(&condition["type"]).into());
        }
    }
    let (node, path) = (&status["nominatedNodeName"], "status.nominatedNodeName");
    if *node != before["nominatedNodeName"] && !text(node).is_empty() {
        report.subdomain(path.to_owned(), node);
        if !text(&old["spec"]["nodeName"]).is_empty() {
            report.forbidden(path, "may not be set on pods that are already bound to a node");
        }
    }
    not_negative(report, &status["observedGeneration"], "status.observedGeneration".to_owned());
    report.immutable("/status/qosClass");
    check_transitions(report, "containerStatuses", "containers", old);
    check_transitions(report, "initContainerStatuses", "initContainers", old);
    check_transitions(report, "ephemeralContainerStatuses", "", old);
    check_claims(report);
    check_addresses(report, "podIPs", old);
    if let Some(first) = items(&status["hostIPs"]).first() {
        if text(&first["ip"]) != text(&status["hostIP"]) {
            report.invalid("status.hostIPs[0].ip", &first["ip"], "must be equal to `hostIP`");
        }
        check_addresses(report, "hostIPs", old);
    }
}

fn not_negative(report: &mut Report<'_>, value: &Value, path: String) {
    if value.as_i64().is_some_and(|number| number < 0) {
        report.invalid(path, value, "must be a non-negative integer");
    }
}

/// Checks that no container runs again that is not restarted. `containers` is the field of the pod with their restart policies;
/// without one, none is.
fn check_transitions(report: &mut Report<'_>, field: &str, containers: &str, old: &Value) {
    let restarts_all = ["initContainers", "containers"]
        .iter()
        .flat_map(|list| items(&old["spec"][*list]))
        .flat_map(|container| items(&container["restartPolicyRules"]))
        .any(|rule| rule["action"] == "RestartAllContainers");
    if restarts_all && !containers.is_empty() {
        return;
    }
    let now = first_by_name(&report.at("/status")[field]);
    let containers = first_by_name(&old["spec"][containers]);
    for (at, before) in items(&old["status"][field]).iter().enumerate() {
        let (name, terminated) = (text(&before["name"]), before["state"].get("terminated"));
        let (Some(terminated), Some(now)) = (terminated, now.get(name)) else { continue };
        let container = containers.get(name);
        let exit_code = terminated["exitCode"].as_i64().unwrap_or(0);
        let is_allowed = container.is_some_and(|container| restarts(container, &old["spec"], exit_code));
        if now["state"].get("terminated").is_none() && !is_allowed {
            report.forbidden(format!("status.{field}[{at}].state"), "may not be transitioned to non-terminated state");
        }
    }
}

/// Returns the items of a list by their names. Of several with one name, the first counts.
fn first_by_name(list: &Value) -> BTreeMap<&str, &Value> {
    items(list).iter().rev().map(|item| (text(&item["name"]), item)).collect()
}

/// Returns whether a container is started again after it has ended with this code.
fn restarts(container: &Value, spec: &Value, exit_code: i64) -> bool {
    let matches = |rule: &&Value| {
        let is_named = items(&rule["exitCodes"]["values"]).iter().any(|value| value.as_i64() == Some(exit_code));
        match text(&rule["exitCodes"]["operator"]) {
            "In" => is_named,
            "NotIn" => !is_named,
            _ => false,
        }
    };
    let policy = &container["restartPolicy"];
    let rule = items(&container["restartPolicyRules"]).iter().find(matches);
    if !policy.is_null() && rule.is_some_and(|rule| text(&rule["action"]).starts_with("Restart")) {
        return true;
    }
    match text(if policy.is_null() { &spec["restartPolicy"] } else { policy }) {
        "OnFailure" => exit_code != 0,
        "Never" => false,
        _ => true,
    }
}

fn check_claims(report: &mut Report<'_>) {
    let claims = first_by_name(report.at("/spec/resourceClaims"));
    let mut seen = BTreeSet::new();
    for (at, status) in items(report.at("/status/resourceClaimStatuses")).iter().enumerate() {
        let (path, name) = (format!("status.resourceClaimStatuses[{at}]"), &status["name"]);
        if !claims.contains_key(text(name)) {
            let detail = "must match the name of an entry in `spec.resourceClaims`";
            report.invalid(format!("{path}.name"), name, detail);
        }
        if !seen.insert(text(name)) {
            report.duplicate(format!("{path}.name"), name);
        }
        if status.get("resourceClaimName").is_some() {
            report.subdomain(format!("{path}.resourceClaimName"), &status["resourceClaimName"]);
        }
    }
}

/// Checks the addresses of a pod or of its node: at most one of each family. An address that is stored already stays valid.
fn check_addresses(report: &mut Report<'_>, field: &str, old: &Value) {
    let list = items(&report.at("/status")[field]);
    let stored: BTreeSet<&str> = items(&old["status"][field]).iter().map(|address| text(&address["ip"])).collect();
    let path = format!("status.{field}");
    for (at, address) in list.iter().enumerate() {
        if !stored.contains(text(&address["ip"])) {
            report.legacy_ip(format!("{path}[{at}]"), &text(&address["ip"]).into());
        }
    }
    if list.len() < 2 {
        return;
    }
    let parsed: Vec<Option<IpAddr>> = list.iter().map(|address| text(&address["ip"]).parse().ok()).collect();
    if let Some(at) = parsed.iter().position(Option::is_none) {
        let fault = format!("failed to check for dual stack with error:invalid IP[{at}]: {}", text(&list[at]["ip"]));
        report.internal(&*path, &fault);
    }
    let families: BTreeSet<bool> = parsed.iter().flatten().map(IpAddr::is_ipv6).collect();
    if families.len() < list.len() {
        report.invalid(
            path,
            &report.at("/status")[field].clone(),
            "may specify no more than one IP for each IP family",
        );
    }
}
