//! Liveness and readiness, for supervisors and monitoring.
//!
//! As in Kubernetes, the response is `ok`, or with `?verbose` one line for each check. A failure always lists
//! every check. `?exclude=NAME` excludes a check, and `/readyz/NAME` answers with one alone.
//!
//! A host that answers at all is alive: a restart does not repair a store. A host is ready if each of its stores
//! accepts writes and all controllers have their first lists. Controllers that ran before and fail to load
//! now count as not ready.

use std::fmt::Write;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use homeostat_runtime::{ControllerState, ControllerStatus};
use homeostat_store::StoreStatus;
use homeostat_store::routes::HOME;

use crate::params::{self, BoolParam};
use crate::state::Api;
use crate::status::Failure;

/// Answers as long as the server answers at all.
pub(crate) async fn live(uri: Uri) -> Result<Response, Failure> {
    Ok(HealthQuery::read(&uri)?.answer("livez", vec![ping()]))
}

/// Answers with one check of [`live`].
pub(crate) async fn live_check(Path(name): Path<String>) -> Result<Response, Failure> {
    single(vec![ping()], &name)
}

/// Answers with one check of [`ready`].
pub(crate) async fn ready_check(State(api): State<Arc<Api>>, Path(name): Path<String>) -> Result<Response, Failure> {
    single(readiness(&api), &name)
}

fn single(mut checked: Vec<CheckResult>, name: &str) -> Result<Response, Failure> {
    let at = checked.iter().position(|check| check.name == name).ok_or_else(Failure::unknown_page)?;
    Ok(match checked.swap_remove(at).result {
        Ok(()) => "ok".into_response(),
        Err(reason) => {
            (StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {reason}\n")).into_response()
        }
    })
}

/// The check that the server answers at all.
fn ping() -> CheckResult {
    CheckResult { name: "ping".to_owned(), result: Ok(()) }
}

/// Answers whether the stores accept writes and every controller has its first lists.
pub(crate) async fn ready(State(api): State<Arc<Api>>, uri: Uri) -> Result<Response, Failure> {
    let query = HealthQuery::read(&uri)?;
    Ok(query.answer("readyz", readiness(&api)))
}

/// Returns the checks of readiness.
fn readiness(api: &Api) -> Vec<CheckResult> {
    let mut checked = vec![ping()];
    checked.extend(api.host.store().status().iter().map(store));
    checked.extend(api.checks.iter().map(|check| CheckResult { name: check.name.into(), result: (check.holds)() }));
    checked.extend(api.host.controllers().into_iter().map(controller));
    checked.extend(api.host.down().into_iter().map(|(name, reason)| CheckResult {
        name: format!("controller/{name}"),
        result: Err(format!("it ran before and cannot be loaded: {}", in_one_line(&reason))),
    }));
    checked
}

/// Returns the check of one store. The host's own is called `store`.
fn store(status: &StoreStatus) -> CheckResult {
    let is_home = status.name.is_empty() || *status.name == *HOME;
    let name = if is_home { "store".to_owned() } else { format!("store/{}", status.name) };
    CheckResult { name, result: status.health().map_err(|error| in_one_line(&error.to_string())) }
}

fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns why an unknown kind may still become known: the host has not read everything yet, or a controller
/// that ran before is not loaded.
pub(crate) fn why_unknown(api: &Api) -> Option<String> {
    let unread = api.checks.iter().find_map(|check| (check.holds)().err());
    unread.map(|reason| format!("the host is not ready: {reason}")).or_else(|| {
        let (name, _) = api.host.down().into_iter().next()?;
        Some(format!(
            "controller/{name}, which may have declared it, ran before and cannot be loaded: /readyz says why"
        ))
    })
}

/// The result of one check.
struct CheckResult {
    name: String,
    result: Result<(), String>,
}

fn controller(status: ControllerStatus) -> CheckResult {
    let ControllerStatus { name, state, message, .. } = status;
    let result = match state {
        ControllerState::Ready | ControllerState::Suspended | ControllerState::Standby => Ok(()),
        ControllerState::Starting | ControllerState::Syncing => Err(message.unwrap_or_default()),
        ControllerState::Stopping => Err("it is being stopped".to_owned()),
    };
    CheckResult { name: format!("controller/{name}"), result }
}

/// The query of a health request.
#[derive(Debug, Default)]
struct HealthQuery {
    verbose: bool,
    exclude: Vec<String>,
}

impl HealthQuery {
    fn read(uri: &Uri) -> Result<Self, Failure> {
        let pairs: Vec<(String, String)> = params::parse(uri)?;
        let mut query = Self::default();
        for (name, value) in pairs {
            match name.as_str() {
                "verbose" => query.verbose = BoolParam::from(value).is_on(),
                "exclude" => query.exclude.push(value),
                _ => {}
            }
        }
        Ok(query)
    }

    fn answer(&self, endpoint: &str, checked: Vec<CheckResult>) -> Response {
        let counts = |check: &&CheckResult| !self.exclude.contains(&check.name);
        let holds = checked.iter().filter(counts).all(|check| check.result.is_ok());
        if holds && !self.verbose {
            return "ok".into_response();
        }
        let mut lines: String = checked.iter().map(|check| self.line(check)).collect();
        let word = if holds { "passed" } else { "failed" };
        writeln!(lines, "{endpoint} check {word}").expect("a string takes whatever is written to it");
        let code = if holds { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        (code, lines).into_response()
    }

    fn line(&self, CheckResult { name, result }: &CheckResult) -> String {
        match result {
            _ if self.exclude.contains(name) => format!("[+]{name} excluded: ok\n"),
            Ok(()) => format!("[+]{name} ok\n"),
            Err(reason) => format!("[-]{name} failed: {reason}\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_health_request_can_exclude_checks() {
        let read = |query: &str| HealthQuery::read(&format!("/readyz{query}").parse().unwrap()).unwrap();
        let all = read("?verbose&exclude=store&exclude=controller/a");
        assert!(all.verbose);
        assert_eq!(all.exclude, ["store", "controller/a"]);
        assert!(!read("").verbose && !read("?verbose=0").verbose && read("?verbose=1").verbose);
    }
}
