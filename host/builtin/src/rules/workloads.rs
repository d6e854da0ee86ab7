//! The kinds of the group `apps`, and replication controllers.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::defaults::{default, labels_of_template, object_at};
use super::pods::{check_template, template_defaults};
use super::report::{Report, text, without};
use super::storage::check_claim;

const ALWAYS: &[&str] = &["Always"];
pub(super) const MISMATCH: &str = "`selector` does not match template `labels`";

fn template_of(resource: &mut Value) {
    if let Some(template) = resource.pointer_mut("/spec/template") {
        template_defaults(template);
    }
}

/// Sets the parameters of a rolling update, where the strategy is one.
fn rolling_update(resource: &mut Value, pointer: &str, parameters: Value) {
    let Some(strategy) = object_at(resource, pointer) else { return };
    if strategy.get("type").is_some_and(|name| name == "RollingUpdate") {
        let given = strategy.entry("rollingUpdate").or_insert_with(|| json!({}));
        if let (Some(given), Value::Object(parameters)) = (given.as_object_mut(), parameters) {
            parameters.into_iter().for_each(|(name, value)| default(given, &name, value));
        }
    }
}

pub(super) fn deployment_defaults(deployment: &mut Value, _old: Option<&Value>) {
    template_of(deployment);
    rolling_update(deployment, "/spec/strategy", json!({ "maxSurge": "25%", "maxUnavailable": "25%" }));
}

pub(super) fn replica_set_defaults(replica_set: &mut Value, _old: Option<&Value>) {
    template_of(replica_set);
}

pub(super) fn replication_controller_defaults(controller: &mut Value, _old: Option<&Value>) {
    template_of(controller);
    labels_of_template(controller);
    let labels = controller.pointer("/spec/template/metadata/labels").cloned();
    if let (Some(labels), Some(spec)) = (labels, object_at(controller, "/spec")) {
        default(spec, "selector", labels);
    }
}

pub(super) fn stateful_set_defaults(stateful_set: &mut Value, old: Option<&Value>) {
    template_of(stateful_set);
    const UNAVAILABLE: &str = "/spec/updateStrategy/rollingUpdate/maxUnavailable";
    let has_it = old.is_some_and(|old| old.pointer(UNAVAILABLE).is_some());
    if let Some(parameters) = object_at(stateful_set, "/spec/updateStrategy/rollingUpdate").filter(|_| !has_it) {
        // Its gate is off.
        parameters.remove("maxUnavailable");
    }
    if let Some(strategy) = object_at(stateful_set, "/spec/updateStrategy") {
        // A strategy that was named keeps what it lacks.
        if !strategy.contains_key("type") {
            strategy.insert("type".to_owned(), "RollingUpdate".into());
            default(strategy, "rollingUpdate", json!({}));
        }
        if strategy["type"] == "RollingUpdate"
            && let Some(parameters) = strategy.get_mut("rollingUpdate").and_then(Value::as_object_mut)
        {
            default(parameters, "partition", 0);
        }
    }
    let claims = stateful_set.pointer_mut("/spec/volumeClaimTemplates").and_then(Value::as_array_mut);
    for claim in claims.into_iter().flatten().filter_map(Value::as_object_mut) {
        default(claim, "apiVersion", "v1");
        default(claim, "kind", "PersistentVolumeClaim");
    }
}

pub(super) fn daemon_set_defaults(daemon_set: &mut Value, old: Option<&Value>) {
    template_of(daemon_set);
    count_templates(daemon_set, old);
    rolling_update(daemon_set, "/spec/updateStrategy", json!({ "maxSurge": 0, "maxUnavailable": 1 }));
}

/// Counts the templates of a daemon set, in an annotation that old clients read.
fn count_templates(daemon_set: &mut Value, old: Option<&Value>) {
    const GENERATION: &str = "deprecated.daemonset.template.generation";
    let before = old.and_then(|old| old["metadata"]["annotations"][GENERATION].as_str()?.parse::<u64>().ok());
    let is_new = old.is_none_or(|old| old["spec"]["template"] != daemon_set["spec"]["template"]);
    let count = before.unwrap_or(0) + u64::from(is_new);
    let Some(metadata) = object_at(daemon_set, "/metadata") else { return };
    let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
    if let Some(annotations) = annotations.as_object_mut().filter(|_| count > 0) {
        annotations.insert(GENERATION.to_owned(), count.to_string().into());
    }
}

pub(super) fn check_deployment(report: &mut Report<'_>) {
    report.not_negative("/spec", &["replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"]);
    check_selector(report, "deployment");
    check_endless_template(report, "ReplicaSet", &[]);
    let (deadline, ready) = (report.at("/spec/progressDeadlineSeconds"), report.at("/spec/minReadySeconds"));
    if deadline.as_i64().is_some_and(|deadline| deadline <= ready.as_i64().unwrap_or(0)) {
        report.invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds");
    }
    let strategy = report.at("/spec/strategy");
    match text(&strategy["type"]) {
        "Recreate" if strategy.get("rollingUpdate").is_some() => {
            let detail = "may not be specified when strategy `type` is 'Recreate'";
            report.forbidden("spec.strategy.rollingUpdate", detail);
        }
        "Recreate" => {}
        "RollingUpdate" => check_rolling_update(report, &strategy["rollingUpdate"]),
        _ => report.unsupported("spec.strategy", strategy, &["Recreate", "RollingUpdate"]),
    }
    report.immutable("/spec/selector");
}

/// Checks how many pods a deployment replaces at a time.
fn check_rolling_update(report: &mut Report<'_>, update: &Value) {
    report.count_or_part("spec.strategy.rollingUpdate.maxUnavailable", &update["maxUnavailable"]);
    report.count_or_percent("spec.strategy.rollingUpdate.maxSurge", &update["maxSurge"]);
    let is_zero = |name: &str| update[name].as_i64() == Some(0) || update[name] == "0%";
    if is_zero("maxSurge") && is_zero("maxUnavailable") {
        let shown = &update["maxUnavailable"];
        report.invalid("spec.strategy.rollingUpdate.maxUnavailable", shown, "may not be 0 when `maxSurge` is 0");
    }
}

pub(super) fn check_replica_set(report: &mut Report<'_>) {
    report.not_negative("/spec", &["replicas", "minReadySeconds"]);
    check_selector(report, "deployment");
    check_endless_template(report, "ReplicaSet", &[]);
    report.immutable("/spec/selector");
}

pub(super) fn check_replication_controller(report: &mut Report<'_>) {
    report.not_negative("/spec", &["replicas", "minReadySeconds"]);
    let selector = report.at("/spec/selector");
    if selector.as_object().is_none_or(Map::is_empty) {
        report.required("spec.selector", "");
    }
    if report.at("/spec/template").is_null() {
        report.required("spec.template", "");
        return;
    }
    check_labels(report, &json!({ "matchLabels": selector }));
    check_endless_template(report, "ReplicationController", &[]);
}

/// The fields of a stateful set that can change.
const MUTABLE_FIELDS: [&str; 7] = [
    "replicas",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
    "ordinals",
];

pub(super) fn check_stateful_set(report: &mut Report<'_>) {
    let policy = report.at("/spec/podManagementPolicy");
    match text(policy) {
        "" => report.required("spec.podManagementPolicy", ""),
        "OrderedReady" | "Parallel" => {}
        _ => report.invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'"),
    }
    let strategy = report.at("/spec/updateStrategy");
    match text(&strategy["type"]) {
        "" => report.required("spec.updateStrategy", ""),
        "RollingUpdate" => report.not_negative("/spec/updateStrategy/rollingUpdate", &["partition"]),
        "OnDelete" if strategy["rollingUpdate"].is_object() => {
            let detail = "only allowed for updateStrategy 'RollingUpdate'";
            report.invalid("spec.updateStrategy.rollingUpdate", &strategy["rollingUpdate"], detail);
        }
        "OnDelete" => {}
        _ => report.invalid("spec.updateStrategy", strategy, "must be 'RollingUpdate' or 'OnDelete'"),
    }
    check_retention(report);
    // An update cannot change them.
    let count = report.at("/spec/volumeClaimTemplates").as_array().filter(|_| report.old.is_none()).map_or(0, Vec::len);
    for at in 0..count {
        let (pointer, path) = (format!("/spec/volumeClaimTemplates/{at}"), format!("spec.volumeClaimTemplates[{at}]"));
        check_claim(report, &pointer, &format!("{path}.spec"));
    }
    report.not_negative("/spec", &["replicas", "minReadySeconds"]);
    check_ordinals(report);
    check_selector(report, "statefulset");
    check_endless_template(report, "StatefulSet", &claimed_volumes(report));
    let Some(old) = report.old else { return };
    let fixed = |spec: &Value| without(spec, &MUTABLE_FIELDS);
    if fixed(report.at("/spec")) != fixed(&old["spec"]) {
        let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
            'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are \
            forbidden";
        report.forbidden("spec", detail);
    }
}

/// Checks the template of pods that run until somebody deletes them. They get `further` volumes.
fn check_endless_template(report: &mut Report<'_>, kind: &str, further: &[Value]) {
    check_template(report, "/spec/template", "spec.template", Some(ALWAYS), further);
    if !report.at("/spec/template/spec/activeDeadlineSeconds").is_null() {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        report.forbidden("spec.template.spec.activeDeadlineSeconds", &detail);
    }
}

/// Checks the number of the first pod of a stateful set, and the name of its service.
fn check_ordinals(report: &mut Report<'_>) {
    let (first, service) = (report.at("/spec/ordinals/start"), report.at("/spec/serviceName"));
    if first.as_i64().is_some_and(|first| first < 0) {
        report.invalid("spec.ordinals.start", first, "must be greater than or equal to 0");
    }
    if report.old.is_none() && !text(service).is_empty() {
        report.label("spec.serviceName".to_owned(), service);
    }
}

/// Checks what becomes of the claims of the pods that a stateful set had.
fn check_retention(report: &mut Report<'_>) {
    let policy = report.at("/spec/persistentVolumeClaimRetentionPolicy");
    for name in ["whenDeleted", "whenScaled"].iter().filter(|_| policy.is_object()) {
        if !["Retain", "Delete"].contains(&text(&policy[*name])) {
            let path = format!("spec.persistentVolumeClaimRetentionPolicy.{name}");
            report.unsupported(path, &policy[*name], &["Retain", "Delete"]);
        }
    }
}

/// Returns the volumes that each pod of a stateful set has for its claims.
fn claimed_volumes(report: &Report<'_>) -> Vec<Value> {
    let mut names = BTreeSet::new();
    let claims = report.at("/spec/volumeClaimTemplates").as_array().into_iter().flatten();
    let claimed = claims.map(|claim| claim["metadata"]["name"].as_str().unwrap_or_default());
    let volume = |name: &str| json!({ "name": name, "persistentVolumeClaim": { "claimName": name } });
    claimed.filter(|name| names.insert(*name)).map(volume).collect()
}

pub(super) fn check_controller_revision(report: &mut Report<'_>) {
    match report.at("/data") {
        _ if report.old.is_some() => {}
        Value::Null => report.required("data", "data is mandatory"),
        Value::Object(_) => {}
        _ => report.required("data", "data must be a valid JSON object"),
    }
    report.not_negative("", &["revision"]);
    report.immutable("/data");
}

pub(super) fn check_daemon_set(report: &mut Report<'_>) {
    report.immutable("/spec/selector");
    report.not_negative("/spec", &["minReadySeconds", "revisionHistoryLimit"]);
    check_selector(report, "daemonset");
    check_endless_template(report, "DaemonSet", &[]);
    check_daemon_set_strategy(report);
}

fn check_daemon_set_strategy(report: &mut Report<'_>) {
    let strategy = report.at("/spec/updateStrategy");
    match strategy["type"].as_str().unwrap_or_default() {
        "RollingUpdate" => {}
        "OnDelete" => return,
        _ => return report.unsupported("spec.updateStrategy", strategy, &["RollingUpdate", "OnDelete"]),
    }
    let update = report.at("/spec/updateStrategy/rollingUpdate");
    if !update.is_object() {
        return;
    }
    let path = "spec.updateStrategy.rollingUpdate";
    let (surge, missing) = (&update["maxSurge"], &update["maxUnavailable"]);
    report.count_or_part(&format!("{path}.maxUnavailable"), missing);
    report.count_or_part(&format!("{path}.maxSurge"), surge);
    let is_zero = |value: &Value| match value {
        Value::String(text) => text.trim_end_matches('%').parse::<i64>().unwrap_or(0) == 0,
        other => other.as_i64().unwrap_or(0) == 0,
    };
    match (is_zero(missing), is_zero(surge)) {
        (false, false) => {
            report.invalid(format!("{path}.maxSurge"), surge, "may not be set when maxUnavailable is non-zero");
        }
        (true, true) => report.required(format!("{path}.maxUnavailable"), "cannot be 0 when maxSurge is 0"),
        _ => {}
    }
}

/// Checks that a selector is not empty, and matches the labels of the template.
fn check_selector(report: &mut Report<'_>, kind: &str) {
    let selector = report.at("/spec/selector");
    let is_empty = |name: &str| match &selector[name] {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => true,
    };
    if selector.is_null() {
        if kind != "daemonset" {
            report.required("spec.selector", "");
        }
        // No selector matches nothing.
        let labels = report.at("/spec/template/metadata/labels");
        return report.invalid("spec.template.metadata.labels", labels, MISMATCH);
    }
    if is_empty("matchLabels") && is_empty("matchExpressions") {
        let shown = json!({});
        return report.invalid("spec.selector", &shown, &format!("empty selector is invalid for {kind}"));
    }
    let before = report.found.len();
    report.selector("spec.selector", selector);
    match kind {
        // An invalid selector matches nothing that could be said.
        _ if report.found.len() == before => check_labels(report, selector),
        "deployment" => report.invalid("spec.selector", selector, "invalid label selector"),
        "statefulset" => report.invalid("spec.selector", selector, ""),
        _ => {}
    }
}

pub(super) fn check_labels(report: &mut Report<'_>, selector: &Value) {
    let labels = report.at("/spec/template/metadata/labels");
    if !matches(selector, labels) {
        report.invalid("spec.template.metadata.labels", labels, MISMATCH);
    }
}

/// Returns whether a label selector matches labels.
pub(super) fn matches(selector: &Value, labels: &Value) -> bool {
    let mut wanted = selector["matchLabels"].as_object().into_iter().flatten();
    let mut conditions = selector["matchExpressions"].as_array().into_iter().flatten();
    let holds = |condition: &Value| {
        let label = labels.get(condition["key"].as_str().unwrap_or_default());
        let is_listed =
            label.is_some_and(|label| condition["values"].as_array().is_some_and(|values| values.contains(label)));
        match condition["operator"].as_str().unwrap_or_default() {
            "In" => is_listed,
            "NotIn" => !is_listed,
            "Exists" => label.is_some(),
            "DoesNotExist" => label.is_none(),
            _ => false,
        }
    };
    wanted.all(|(name, value)| labels.get(name) == Some(value)) && conditions.all(holds)
}
