//! Jobs and cron jobs.

use serde_json::{Map, Value, json};

use super::defaults::{absent, default, labels_of_template, object_at};
use super::pods::{check_template, template_defaults};
use super::report::Report;
use super::workloads::{MISMATCH, check_labels};

const POLICIES: &[&str] = &["OnFailure", "Never"];
/// Longest name of a cron job: its jobs have names with eleven more bytes.
const CRON_NAME_BYTES_MAX: usize = 52;

/// The labels of the pods of a job: its name and its uid, each under an old and a new name.
const LABELS: [&str; 4] =
    ["job-name", "batch.kubernetes.io/job-name", "controller-uid", "batch.kubernetes.io/controller-uid"];

pub(super) fn job_defaults(job: &mut Value, old: Option<&Value>) {
    if let Some(template) = job.pointer_mut("/spec/template") {
        template_defaults(template);
    }
    let Some(spec) = object_at(job, "/spec") else { return };
    if !spec.contains_key("completions") && !spec.contains_key("parallelism") {
        spec.insert("completions".to_owned(), 1.into());
    }
    default(spec, "parallelism", 1);
    let attempts = if spec.contains_key("backoffLimitPerIndex") { i64::from(i32::MAX) } else { 6 };
    default(spec, "backoffLimit", attempts);
    default(spec, "completionMode", "NonIndexed");
    default(spec, "suspend", false);
    default(spec, "manualSelector", false);
    let replaced = if spec.contains_key("podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    default(spec, "podReplacementPolicy", replaced);
    let is_manual = spec.get("manualSelector") == Some(&Value::Bool(true));
    if old.is_none() && !is_manual {
        generate_selector(job);
    }
    // The labels of the selector are among them.
    labels_of_template(job);
}

/// Returns the fields by which an API server selects the pods of a job.
pub(super) fn allocated(job: &Value) -> Vec<String> {
    if job["spec"]["manualSelector"] == true {
        return Vec::new();
    }
    let mut pointers = absent(job, &[&["spec", "selector"]]);
    for holder in [&["metadata"][..], &["spec", "template", "metadata"]] {
        for label in LABELS {
            let path = [holder, &["labels", label]].concat();
            pointers.extend(absent(job, &[&path]));
        }
    }
    pointers.dedup();
    pointers
}

/// Gives a new job a selector of its own, and its template the labels that it selects.
fn generate_selector(job: &mut Value) {
    let [old_name_label, name_label, old_uid_label, uid_label] = LABELS;
    let (name, uid) = (job["metadata"]["name"].clone(), job["metadata"]["uid"].clone());
    let Some(template) = object_at(job, "/spec/template") else { return };
    let metadata = template.entry("metadata").or_insert_with(|| json!({}));
    let labels = metadata.as_object_mut().map(|metadata| metadata.entry("labels").or_insert_with(|| json!({})));
    if let Some(labels) = labels.and_then(Value::as_object_mut) {
        for label in [old_name_label, name_label] {
            default(labels, label, name.clone());
        }
        for label in [old_uid_label, uid_label] {
            default(labels, label, uid.clone());
        }
    }
    let Some(spec) = object_at(job, "/spec") else { return };
    let selector = spec.entry("selector").or_insert_with(|| json!({}));
    let wanted = selector.as_object_mut().map(|selector| selector.entry("matchLabels").or_insert_with(|| json!({})));
    if let Some(wanted) = wanted.and_then(Value::as_object_mut) {
        default(wanted, uid_label, uid);
    }
}

pub(super) fn cron_job_defaults(cron_job: &mut Value, _old: Option<&Value>) {
    if let Some(template) = cron_job.pointer_mut("/spec/jobTemplate/spec/template") {
        template_defaults(template);
    }
}

pub(super) fn check_job(report: &mut Report<'_>) {
    check_job_numbers(report, "/spec");
    let selector = report.at("/spec/selector");
    if selector.is_null() {
        report.required("spec.selector", "");
        // No selector matches nothing.
        report.invalid("spec.template.metadata.labels", report.at("/spec/template/metadata/labels"), MISMATCH);
    } else {
        check_labels(report, selector);
        check_generated_labels(report);
    }
    check_template(report, "/spec/template", "spec.template", Some(POLICIES), &[]);
    let indexed = report.at("/spec/completionMode") == "Indexed";
    if indexed && report.at("/spec/completions").is_null() {
        report.required("spec.completions", "when completion mode is Indexed");
    } else if !indexed {
        report.immutable("/spec/completions");
    }
    for name in ["selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"]
    {
        report.immutable(&format!("/spec/{name}"));
    }
    if report.old.is_some_and(|old| old["spec"]["suspend"] != true) {
        report.immutable("/spec/template");
    }
}

/// Checks the labels by which a job selects its own pods.
fn check_generated_labels(report: &mut Report<'_>) {
    // A job without a name gets no labels.
    if report.at("/spec/manualSelector") == true || report.at("/metadata/uid").as_str().is_none_or(str::is_empty) {
        return;
    }
    let (name, uid) = (report.at("/metadata/name"), report.at("/metadata/uid"));
    let labels = report.at("/spec/template/metadata/labels");
    for (label, wanted) in [
        ("controller-uid", uid),
        ("batch.kubernetes.io/controller-uid", uid),
        ("job-name", name),
        ("batch.kubernetes.io/job-name", name),
    ] {
        let (path, detail) =
            (format!("spec.template.metadata.labels[{label}]"), format!("must be '{}'", wanted.as_str().unwrap_or("")));
        match labels.get(label) {
            None => report.required(path, &detail),
            Some(found) if found != wanted => report.invalid(path, found, &detail),
            Some(_) => {}
        }
    }
}

fn check_job_numbers(report: &mut Report<'_>, pointer: &str) {
    let names = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ];
    report.not_negative(pointer, &names);
}

pub(super) fn check_cron_job(report: &mut Report<'_>) {
    let schedule = report.at("/spec/schedule");
    match schedule.as_str().unwrap_or_default() {
        "" => report.required("spec.schedule", ""),
        text if text.contains("TZ") => {
            report.invalid(
                "spec.schedule",
                schedule,
                "cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
            );
        }
        text if !text.starts_with('@') && text.split_whitespace().count() != 5 => {
            let found = text.split_whitespace().count();
            report.invalid(
                "spec.schedule",
                schedule,
                &format!("expected exactly 5 fields, found {found}: [{}]", fields(text).join(" ")),
            );
        }
        _ => {}
    }
    report.not_negative("/spec", &["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"]);
    check_job_numbers(report, "/spec/jobTemplate/spec");
    let path = "spec.jobTemplate.spec.template";
    check_template(report, "/spec/jobTemplate/spec/template", path, Some(POLICIES), &[]);
    let template = report.at("/spec/jobTemplate/spec");
    if template["manualSelector"] == true {
        let supported = ["false"];
        report.unsupported("spec.jobTemplate.spec.manualSelector", &template["manualSelector"], &supported);
    }
    if template["selector"].as_object().is_some_and(|selector: &Map<String, Value>| !selector.is_empty()) {
        let detail = "`selector` will be auto-generated";
        report.invalid("spec.jobTemplate.spec.selector", &template["selector"], detail);
    }
    let name = report.at("/metadata/name");
    if name.as_str().is_some_and(|name| name.len() > CRON_NAME_BYTES_MAX) {
        let detail = format!("must be no more than {CRON_NAME_BYTES_MAX} characters");
        report.invalid("metadata.name", name, &detail);
    }
}

fn fields(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}
