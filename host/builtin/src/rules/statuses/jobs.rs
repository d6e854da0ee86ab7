//! The status of a job: its numbers, and the order in which it ends.
//!
//! Source: `getStatusValidationOptions` in `pkg/registry/batch/job/strategy.go`, and `validateJobStatus` and
//! `ValidateJobStatusUpdate` in `pkg/apis/batch/validation/validation.go`.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::{condition, holds};
use crate::rules::batch::{count_indexes, first_common_index};
use crate::rules::report::{Report, items, text};

/// A job before and after a write of its status.
struct JobChange<'j> {
    spec: &'j Value,
    now: &'j Value,
    before: &'j Value,
}

impl<'j> JobChange<'j> {
    /// Returns whether a field has another value than before.
    fn changes(&self, field: &str) -> bool {
        self.now[field] != self.before[field]
    }

    /// Returns whether a condition holds now and did not before, or the other way round.
    fn turns(&self, condition: &str) -> bool {
        holds(self.now, condition) != holds(self.before, condition)
    }

    fn number(&self, field: &str) -> i64 {
        self.now[field].as_i64().unwrap_or(0)
    }

    fn is_finished(status: &Value) -> bool {
        holds(status, "Complete") || holds(status, "Failed")
    }

    fn turns_finished(&self) -> bool {
        Self::is_finished(self.now) != Self::is_finished(self.before)
    }

    fn is_indexed(&self) -> bool {
        self.spec["completionMode"] == "Indexed"
    }
}

pub(in crate::rules) fn check_job(report: &mut Report<'_>) {
    let before = report.old.map_or(&Value::Null, |old| &old["status"]);
    let change = JobChange { spec: report.at("/spec"), now: report.at("/status"), before };
    report.not_negative("/status", &["active", "succeeded", "failed", "ready", "terminating"]);
    check_uncounted(report, &change);
    check_end(report, &change);
    check_indexes(report, &change);
    check_running(report, &change);
    check_success(report, &change);
    check_progress(report, &change);
}

fn of_conditions(report: &mut Report<'_>, detail: &str) {
    report.invalid_whole("status.conditions", detail);
}

/// Checks the pods that are not counted yet.
fn check_uncounted(report: &mut Report<'_>, change: &JobChange<'_>) {
    let mut seen = BTreeSet::new();
    for field in ["succeeded", "failed"] {
        for (at, uid) in items(&change.now["uncountedTerminatedPods"][field]).iter().enumerate() {
            let path = format!("status.uncountedTerminatedPods.{field}[{at}]");
            if text(uid).is_empty() {
                report.invalid(path, uid, "must not be empty");
            } else if !seen.insert(text(uid)) {
                report.duplicate(path, uid);
            }
        }
    }
}

/// Checks the conditions and the times of a job that ends.
fn check_end(report: &mut Report<'_>, change: &JobChange<'_>) {
    let now = change.now;
    let (complete, failed) = (holds(now, "Complete"), holds(now, "Failed"));
    let turns = |condition| change.turns(condition);
    if (turns("Complete") || turns("Failed")) && complete && failed {
        of_conditions(report, "cannot set Complete=True and Failed=true conditions");
    }
    if (turns("Complete") || turns("FailureTarget")) && complete && holds(now, "FailureTarget") {
        of_conditions(report, "cannot set Complete=True and FailureTarget=true conditions");
    }
    let (start, end) = (&now["startTime"], &now["completionTime"]);
    if turns("Complete") || change.changes("completionTime") {
        if !end.is_null() && !complete {
            let detail = "cannot set completionTime when there is no Complete=True condition";
            report.invalid("status.completionTime", end, detail);
        }
        if end.is_null() && complete {
            report.required("status.completionTime", "completionTime is required for Complete jobs");
        }
    }
    let moment = |value: &Value| text(value).parse::<Timestamp>().ok();
    let is_reversed = moment(start).zip(moment(end)).is_some_and(|(start, end)| end < start);
    if (change.changes("startTime") || change.changes("completionTime")) && is_reversed {
        report.invalid("status.completionTime", end, "must be equal to or after `startTime`");
    }
    if (turns("Failed") || change.changes("failedIndexes")) && failed && !holds(now, "FailureTarget") {
        of_conditions(report, "cannot set Failed=True condition without the FailureTarget=true condition");
    }
    if (turns("Complete") || turns("SuccessCriteriaMet")) && complete && !holds(now, "SuccessCriteriaMet") {
        of_conditions(report, "cannot set Complete=True condition without the SuccessCriteriaMet=true condition");
    }
    let is_finished = JobChange::is_finished(now);
    if (change.turns_finished() || change.changes("active")) && is_finished && change.number("active") > 0 {
        report.invalid("status.active", &now["active"], "active>0 is invalid for finished job");
    }
    let is_empty = change.spec["suspend"] == true && change.spec["completions"].as_i64() == Some(0);
    let starts = (change.turns_finished() || change.changes("startTime")) && !is_empty;
    if starts && is_finished && start.is_null() {
        report.required("status.startTime", "startTime is required for finished job");
    }
    let uncounted = &now["uncountedTerminatedPods"];
    let has_uncounted = ["failed", "succeeded"].iter().any(|field| !items(&uncounted[*field]).is_empty());
    if (change.turns_finished() || change.changes("uncountedTerminatedPods")) && is_finished && has_uncounted {
        report.invalid("status.uncountedTerminatedPods", uncounted, "must be empty for finished job");
    }
}

/// Checks the indexes that are completed and those that failed.
fn check_indexes(report: &mut Report<'_>, change: &JobChange<'_>) {
    let (completed, failed) = (&change.now["completedIndexes"], &change.now["failedIndexes"]);
    let (completes, fails) = (change.changes("completedIndexes"), change.changes("failedIndexes"));
    let completions = change.spec["completions"].as_i64();
    let has_limit = !change.spec["backoffLimitPerIndex"].is_null();
    for (field, is_checked) in [("completedIndexes", completes), ("failedIndexes", fails && has_limit)] {
        let fault = completions.filter(|_| is_checked).map(|most| count_indexes(text(&change.now[field]), most));
        if let Some(Err(fault)) = fault {
            let detail = format!("error parsing {field}: {fault}");
            report.invalid(format!("status.{field}"), &change.now[field], &detail);
        }
    }
    if completes && !text(completed).is_empty() && !change.is_indexed() {
        let detail = "cannot set non-empty completedIndexes when non-indexed completion mode";
        report.invalid("status.completedIndexes", completed, detail);
    }
    if fails && !has_limit && !failed.is_null() {
        let detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        report.invalid("status.failedIndexes", failed, detail);
    }
    let overlap = completions
        .filter(|_| fails || completes)
        .and_then(|most| first_common_index(text(completed), text(failed), most));
    if let Some(index) = overlap {
        let detail = format!("failedIndexes and completedIndexes overlap at index: {index}");
        report.invalid("status.failedIndexes", failed, &detail);
    }
}

/// Checks the numbers of pods that run.
fn check_running(report: &mut Report<'_>, change: &JobChange<'_>) {
    let now = change.now;
    let ends = change.turns_finished() || change.changes("terminating");
    if ends && JobChange::is_finished(now) && change.number("terminating") > 0 {
        report.invalid("status.terminating", &now["terminating"], "terminating>0 is invalid for finished job");
    }
    let counts = change.changes("ready") || change.changes("active");
    if counts && !now["ready"].is_null() && change.number("ready") > change.number("active") {
        report.invalid("status.ready", &now["ready"], "cannot set more ready pods than active");
    }
}

/// Checks a job that has succeeded before all of its pods have.
fn check_success(report: &mut Report<'_>, change: &JobChange<'_>) {
    let now = change.now;
    let succeeds = holds(now, "SuccessCriteriaMet");
    if succeeds && holds(now, "Failed") {
        of_conditions(report, "cannot set SuccessCriteriaMet=True and Failed=true conditions");
    }
    if succeeds && holds(now, "FailureTarget") {
        of_conditions(report, "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions");
    }
    if !change.spec["successPolicy"].is_null() && !succeeds && holds(now, "Complete") {
        let detail = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True";
        of_conditions(report, detail);
    }
}

/// Checks what never goes back.
fn check_progress(report: &mut Report<'_>, change: &JobChange<'_>) {
    let (now, before) = (change.now, change.before);
    for name in ["Failed", "Complete", "FailureTarget"] {
        if holds(before, name) && !holds(now, name) {
            of_conditions(report, &format!("cannot disable the terminal {name}=True condition"));
        }
    }
    let falls = |field: &str| change.number(field) < before[field].as_i64().unwrap_or(0);
    if falls("failed") {
        report.invalid("status.failed", &change.number("failed").into(), "cannot decrease the failed counter");
    }
    let is_elastic = change.is_indexed() && change.spec["completions"] == change.spec["parallelism"];
    if !is_elastic && falls("succeeded") {
        report.invalid("status.succeeded", &change.number("succeeded").into(), "cannot decrease the succeeded counter");
    }
    let (end, end_before) = (&now["completionTime"], &before["completionTime"]);
    if !end.is_null() && !end_before.is_null() && end != end_before {
        report.invalid("status.completionTime", end, "field is immutable");
    }
    let is_resumed = holds(before, "Suspended")
        && condition(now, "Suspended").is_some_and(|condition| condition["status"] == "False");
    let restarts = change.changes("startTime") && !is_resumed && !before["startTime"].is_null();
    if restarts && change.spec["suspend"] != true {
        let detail = "field is immutable for unsuspended job once set";
        report.invalid("status.startTime", &now["startTime"], detail);
    }
    let (succeeds, succeeded) = (holds(now, "SuccessCriteriaMet"), holds(before, "SuccessCriteriaMet"));
    if succeeded && !succeeds {
        of_conditions(report, "cannot disable the SuccessCriteriaMet=True condition");
    }
    if holds(before, "Complete") && !succeeded && succeeds {
        of_conditions(report, "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions");
    }
}
