//! The columns of the kinds that run pods.
//!
//! Source: `pkg/printers/internalversion/printers.go` of Kubernetes.

use jiff::Timestamp;
use serde_json::Value;

use crate::age as ages;
use crate::table::cells::{condition, elements, is_deleting, joined, label_selector, number, or_none, plain, text};
use crate::table::columns::{age, column, computed, count, labels_at, length, text_at, text_or, wide};
use crate::table::{Cell, TableColumn};

pub(super) fn deployment() -> Vec<TableColumn> {
    let mut columns = vec![
        column("Ready", "string", computed(ready_replicas)),
        column("Up-to-date", "string", count("/status/updatedReplicas")),
        column("Available", "string", count("/status/availableReplicas")),
        age(),
    ];
    columns.extend(containers("/spec/template/spec/containers"));
    columns.push(selector("/spec/selector"));
    columns
}

pub(super) fn replica_set() -> Vec<TableColumn> {
    let mut columns = replicas();
    columns.push(selector("/spec/selector"));
    columns
}

pub(super) fn replication_controller() -> Vec<TableColumn> {
    let mut columns = replicas();
    columns.push(wide("Selector", "string", labels_at("/spec/selector")));
    columns
}

pub(super) fn stateful_set() -> Vec<TableColumn> {
    let mut columns = vec![column("Ready", "string", computed(ready_replicas)), age()];
    columns.extend(containers("/spec/template/spec/containers"));
    columns
}

pub(super) fn daemon_set() -> Vec<TableColumn> {
    let mut columns = vec![
        column("Desired", "integer", count("/status/desiredNumberScheduled")),
        column("Current", "integer", count("/status/currentNumberScheduled")),
        column("Ready", "integer", count("/status/numberReady")),
        column("Up-to-date", "integer", count("/status/updatedNumberScheduled")),
        column("Available", "integer", count("/status/numberAvailable")),
        column("Node Selector", "string", labels_at("/spec/template/spec/nodeSelector")),
        age(),
    ];
    columns.extend(containers("/spec/template/spec/containers"));
    columns.push(selector("/spec/selector"));
    columns
}

pub(super) fn job() -> Vec<TableColumn> {
    let mut columns = vec![
        column("Status", "string", computed(job_status)),
        column("Completions", "string", computed(completions)),
        column("Duration", "string", computed(job_duration)),
        age(),
    ];
    columns.extend(containers("/spec/template/spec/containers"));
    columns.push(selector("/spec/selector"));
    columns
}

pub(super) fn cron_job() -> Vec<TableColumn> {
    let is_suspended = |cron_job: &Value| match cron_job["spec"]["suspend"].as_bool() {
        None => "<unset>".into(),
        Some(true) => "True".into(),
        Some(false) => "False".into(),
    };
    let mut columns = vec![
        column("Schedule", "string", text_at("/spec/schedule")),
        column("Timezone", "string", text_or("/spec/timeZone", "<none>")),
        column("Suspend", "boolean", computed(is_suspended)),
        column("Active", "integer", length("/status/active")),
        column("Last Schedule", "string", computed(last_schedule)),
        age(),
    ];
    columns.extend(containers("/spec/jobTemplate/spec/template/spec/containers"));
    columns.push(selector("/spec/jobTemplate/spec/selector"));
    columns
}

pub(super) fn pod_template() -> Vec<TableColumn> {
    let [names, images] = containers("/template/spec/containers");
    vec![
        TableColumn { priority: 0, ..names },
        TableColumn { priority: 0, ..images },
        column("Pod Labels", "string", labels_at("/template/metadata/labels")),
    ]
}

pub(super) fn controller_revision() -> Vec<TableColumn> {
    vec![
        column("Controller", "string", computed(|revision| or_none(&controller(revision)))),
        column("Revision", "string", count("/revision")),
        age(),
    ]
}

pub(super) fn pod_disruption_budget() -> Vec<TableColumn> {
    let or_not_applicable = |pointer: &'static str| {
        computed(move |budget: &Value| budget.pointer(pointer).map_or_else(|| "N/A".to_owned(), plain).into())
    };
    vec![
        column("Min Available", "string", or_not_applicable("/spec/minAvailable")),
        column("Max Unavailable", "string", or_not_applicable("/spec/maxUnavailable")),
        column("Allowed Disruptions", "integer", count("/status/disruptionsAllowed")),
        age(),
    ]
}

fn replicas() -> Vec<TableColumn> {
    let mut columns = vec![
        column("Desired", "integer", computed(|document| desired_replicas(document).into())),
        column("Current", "integer", count("/status/replicas")),
        column("Ready", "integer", count("/status/readyReplicas")),
        age(),
    ];
    columns.extend(containers("/spec/template/spec/containers"));
    columns
}

/// Returns the desired number of replicas: one if the document does not state it.
fn desired_replicas(document: &Value) -> u64 {
    document.pointer("/spec/replicas").and_then(Value::as_u64).unwrap_or(1)
}

/// Returns the ready and the desired number of replicas: `2/3`.
fn ready_replicas(document: &Value) -> Value {
    format!("{}/{}", number(document, "/status/readyReplicas"), desired_replicas(document)).into()
}

/// Returns the columns of the names and the images of containers.
fn containers(pointer: &'static str) -> [TableColumn; 2] {
    let each = |field: &'static str| -> Cell {
        computed(move |document| {
            let containers = elements(document, pointer);
            joined(containers.map(|container| container[field].as_str().unwrap_or_default().to_owned())).into()
        })
    };
    [wide("Containers", "string", each("name")), wide("Images", "string", each("image"))]
}

fn selector(pointer: &'static str) -> TableColumn {
    wide("Selector", "string", computed(move |document| label_selector(document, pointer)))
}

fn job_status(job: &Value) -> Value {
    const CONDITIONS: [&str; 5] = ["Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"];
    let holds = |name: &str| condition(job, name).is_some_and(|condition| condition["status"] == "True");
    let word = CONDITIONS.into_iter().find(|name| holds(name)).unwrap_or("Running");
    if is_deleting(job) && !matches!(word, "Complete" | "Failed") { "Terminating".into() } else { word.into() }
}

fn completions(job: &Value) -> Value {
    let succeeded = number(job, "/status/succeeded");
    let parallelism = number(job, "/spec/parallelism");
    match job.pointer("/spec/completions").and_then(Value::as_u64) {
        Some(wanted) => format!("{succeeded}/{wanted}").into(),
        None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}").into(),
        None => format!("{succeeded}/1").into(),
    }
}

fn job_duration(job: &Value) -> Value {
    let moment = |pointer| text(job, pointer).parse::<Timestamp>().ok();
    let Some(start) = moment("/status/startTime") else { return "".into() };
    let end = moment("/status/completionTime").unwrap_or_else(Timestamp::now);
    ages::short(end.as_second() - start.as_second()).into()
}

fn last_schedule(cron_job: &Value) -> Value {
    match text(cron_job, "/status/lastScheduleTime") {
        "" => or_none(""),
        time => ages::since(time, Timestamp::now()).into(),
    }
}

/// Returns kind, group and name of the owner that controls a resource: `daemonset.apps/web`.
fn controller(document: &Value) -> String {
    let mut owners = elements(document, "/metadata/ownerReferences");
    let Some(owner) = owners.find(|owner| owner["controller"] == true) else { return String::new() };
    let kind = text(owner, "/kind").to_lowercase();
    match text(owner, "/apiVersion").split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{}", text(owner, "/name")),
        None => format!("{kind}/{}", text(owner, "/name")),
    }
}
