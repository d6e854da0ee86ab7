//! `homeostat doctor`: checks whether this machine can run a host, and which languages it can build.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::build::{Check, check_tools};
use crate::exit::ExitReason;
use crate::global::{Format, Global};
use crate::language::Language;
use crate::output;

/// Virtual memory that a host with 256 instances needs: the pool reserves two memories of 4 GiB for each, and uses what
/// they touch.
const VIRTUAL_BYTES_MIN: u64 = 2_100 << 30;
/// Open files that a host with some controllers and clients needs.
const FILES_MIN: u64 = 1024;

/// Check this machine: the tools of each language, and the limits of the system
///
/// The exit code is 0 if a host can run and at least one language can be built, else 1.
#[derive(Args, Clone, Debug)]
pub(crate) struct DoctorArgs {}

/// One line of the report.
#[derive(Debug, PartialEq, Eq)]
struct CheckResult {
    /// The language or the limit of the system.
    subject: String,
    check: Check,
    /// Whether a host cannot run without it. The others are languages, of which one is enough.
    is_vital: bool,
}

/// Runs `homeostat doctor`.
///
/// # Errors
/// When the report cannot be printed.
pub(crate) async fn run(_: &DoctorArgs, global: &Global) -> Result<ExitCode> {
    let format = global.format(&[Format::Table, Format::Json])?;
    let mut results = Vec::new();
    for language in Language::value_variants() {
        let check = check_tools(*language).await;
        results.push(CheckResult { subject: language.name().to_owned(), check, is_vital: false });
    }
    results.extend(limits());
    match format {
        Format::Json => output::print(&output::json(&document(&results)))?,
        _ => output::print(&report(&results))?,
    }
    Ok(if is_healthy(&results) { ExitCode::SUCCESS } else { ExitReason::Failed.into() })
}

/// Checks the limits of this process, which a host would inherit.
fn limits() -> Vec<CheckResult> {
    use rustix::process::{Resource, getrlimit};
    let memory = check_limit(
        getrlimit(Resource::As).current,
        VIRTUAL_BYTES_MIN,
        "run `ulimit -v unlimited`, or the host with fewer --instances",
    );
    // A host raises the soft limit to the hard limit.
    let files = check_limit(getrlimit(Resource::Nofile).maximum, FILES_MIN, "raise the hard limit, `ulimit -Hn`");
    let result = |subject: &str, check| CheckResult { subject: subject.to_owned(), check, is_vital: true };
    vec![result("virtual memory", memory), result("open files", files)]
}

/// Compares a limit with the least that a host needs. `None` is unlimited.
fn check_limit(limit: Option<u64>, least: u64, advice: &str) -> Check {
    match limit {
        None => Check::Found("unlimited".to_owned()),
        Some(limit) if limit >= least => Check::Found(limit.to_string()),
        Some(limit) => Check::Missing(format!("the limit is {limit}, and a host needs {least}: {advice}")),
    }
}

/// Returns whether a host can run, and a language can be built.
fn is_healthy(results: &[CheckResult]) -> bool {
    let found = |result: &&CheckResult| matches!(result.check, Check::Found(_));
    let vital = results.iter().filter(|result| result.is_vital).all(|result| found(&result));
    vital && results.iter().filter(|result| !result.is_vital).any(|result| found(&result))
}

fn report(results: &[CheckResult]) -> String {
    let width = results.iter().map(|result| result.subject.len()).max().unwrap_or_default();
    let line = |result: &CheckResult| {
        let (mark, text) = match &result.check {
            Check::Found(text) => ("ok     ", text),
            Check::Missing(text) => ("missing", text),
        };
        format!("{mark}  {:width$}  {text}\n", result.subject)
    };
    results.iter().map(line).collect()
}

fn document(results: &[CheckResult]) -> Value {
    let item = |result: &CheckResult| match &result.check {
        Check::Found(text) => json!({"subject": result.subject, "ok": true, "found": text}),
        Check::Missing(text) => json!({"subject": result.subject, "ok": false, "advice": text}),
    };
    json!({"ok": is_healthy(results), "checks": results.iter().map(item).collect::<Vec<_>>()})
}

#[cfg(test)]
mod tests;
