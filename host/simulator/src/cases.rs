//! Test cases as written in a file: resources, steps and expectations.

use std::collections::BTreeMap;
use std::time::Duration;

use homeostat_component::{Fault, Grants, Outcome, Retry, Severity, StoreError};
use homeostat_store::{Error as OfStore, Key, Kind, Query};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::difference::differences;
use crate::effects::{InjectedFault, Operation, RecordedEvent};
use crate::reconciler::Reconciler;
use crate::simulator::{Error, Run, Simulator};

/// One test case.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Case {
    /// The name, for the report and for `--filter`.
    pub name: String,
    /// The settings of the controller, as `spec.config` of its manifest.
    #[serde(default)]
    pub config: BTreeMap<String, String>,
    /// The grants; `None` grants everything.
    #[serde(default)]
    pub grants: Option<Grants>,
    /// The resources before the first step, in the order of their creation.
    #[serde(default)]
    pub given: Vec<Value>,
    /// The steps, in their order.
    pub steps: Vec<Step>,
}

/// One step: an action, the faults meanwhile, and the expectations after it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Step {
    /// Resources that another client creates or replaces first.
    pub apply: Vec<Value>,
    /// Resources that another client deletes then.
    pub delete: Vec<Reference>,
    /// Faults of the store during this step.
    pub faults: Vec<StoreFault>,
    /// Reconciles this resource once.
    pub reconcile: Option<Reference>,
    /// Reconciles every queued key until none is ready.
    pub settle: bool,
    /// Moves the clock, as `1m30s`, and reconciles the keys that are due meanwhile.
    #[serde(deserialize_with = "span")]
    pub advance: Option<Duration>,
    /// The expectations after the step.
    pub expect: Expectation,
}

/// The name of a resource.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Reference {
    /// `group/version`, or the version alone.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The namespace; empty outside of namespaces.
    #[serde(default)]
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// A fault as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StoreFault {
    /// The operations that fail.
    pub on: Operation,
    /// The kind whose resources are concerned; `None` for every kind.
    #[serde(default)]
    pub kind: Option<String>,
    /// The answer.
    pub error: FaultName,
    /// How often; `None` for the whole step.
    #[serde(default)]
    pub times: Option<u32>,
    /// Whether the write happens although its answer is lost.
    #[serde(default)]
    pub after_write: bool,
}

/// The name of an error of the store.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum FaultName {
    /// The store is unavailable.
    Unavailable,
    /// A precondition does not hold.
    Conflict,
    /// There is no such resource.
    NotFound,
    /// The store refuses it.
    Forbidden,
}

/// The expectations after a step.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Expectation {
    /// The result of the last reconcile of the step: `settled`, `again`, `failed` or `never`.
    pub outcome: Option<OutcomeName>,
    /// A part of the message of its failure.
    pub message: Option<String>,
    /// The delay that it asked for, as `30s`.
    #[serde(deserialize_with = "span")]
    pub again_after: Option<Duration>,
    /// The number of reconciles of the step.
    pub reconciles: Option<usize>,
    /// Resources that exist, each with the fields that count.
    pub resources: Vec<Value>,
    /// Resources that do not exist.
    pub absent: Vec<Reference>,
    /// How many resources of a kind there are, by `KIND.GROUP`, or `KIND` for the core group.
    pub counts: BTreeMap<String, usize>,
    /// Events of the step: each matches `type`, `reason` and a part of `message`.
    pub events: Option<Vec<ExpectedEvent>>,
}

/// The name of a result.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum OutcomeName {
    /// The world matches the resource.
    Settled,
    /// Asked to run again.
    Again,
    /// Failed, and is retried.
    Failed,
    /// Failed, and is not retried.
    Never,
}

/// An event as expected.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExpectedEvent {
    /// `Normal` or `Warning`.
    #[serde(rename = "type", default)]
    pub severity: Option<String>,
    /// The reason.
    pub reason: String,
    /// A part of the message.
    #[serde(default)]
    pub message: Option<String>,
}

/// Why a case cannot be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaseError {
    /// The simulation ended.
    #[error("{place}: {source}")]
    Simulation {
        /// The step, as `step 2`.
        place: String,
        /// The reason.
        source: Error,
    },
    /// The case names something wrongly.
    #[error("{place}: {reason}")]
    Malformed {
        /// The step.
        place: String,
        /// The reason.
        reason: String,
    },
}

/// Runs the steps of a case in a simulator, and returns a line for each expectation that does not hold.
///
/// # Errors
/// [`CaseError`] when a step cannot be done.
pub async fn run<R: Reconciler>(case: &Case, mut simulator: Simulator<R>) -> Result<Vec<String>, CaseError> {
    let failed = |place: &str| {
        let place = place.to_owned();
        move |source| CaseError::Simulation { place, source }
    };
    for (at, document) in case.given.iter().enumerate() {
        simulator.put(document.clone()).await.map_err(failed(&format!("given[{at}]")))?;
    }
    let mut lines = Vec::new();
    for (at, step) in case.steps.iter().enumerate() {
        let place = format!("step {}", at + 1);
        let runs = act(step, &place, &mut simulator).await?;
        let found = check(&step.expect, &place, &runs, &mut simulator).await?;
        lines.extend(found.into_iter().map(|line| format!("{place}: {line}")));
    }
    Ok(lines)
}

async fn act<R: Reconciler>(step: &Step, place: &str, simulator: &mut Simulator<R>) -> Result<Vec<Run>, CaseError> {
    let failed = |source| CaseError::Simulation { place: place.to_owned(), source };
    for document in &step.apply {
        simulator.put(document.clone()).await.map_err(failed)?;
    }
    for reference in &step.delete {
        simulator.delete(&key(reference, place)?).await.map_err(failed)?;
    }
    step.faults.iter().for_each(|fault| simulator.inject(injected(fault)));
    let mut runs = Vec::new();
    if let Some(reference) = &step.reconcile {
        runs.push(simulator.reconcile(&key(reference, place)?).await.map_err(failed)?);
    }
    if step.settle {
        runs.extend(simulator.settle().await.map_err(failed)?);
    }
    if let Some(by) = step.advance {
        runs.extend(simulator.advance(by).await.map_err(failed)?);
    }
    simulator.heal();
    Ok(runs)
}

async fn check<R: Reconciler>(
    expect: &Expectation,
    place: &str,
    runs: &[Run],
    simulator: &mut Simulator<R>,
) -> Result<Vec<String>, CaseError> {
    let mut lines = of_result(expect, runs);
    for expected in &expect.resources {
        let reference = Reference::deserialize(identity(expected))
            .map_err(|error| CaseError::Malformed { place: place.to_owned(), reason: error.to_string() })?;
        let key = key(&reference, place)?;
        match simulator.get(&key).await {
            Ok(resource) => {
                lines.extend(differences(expected, resource.document()).iter().map(|line| format!("{key}: {line}")));
            }
            Err(Error::Store(OfStore::NotFound { .. })) => lines.push(format!("{key}: expected, but does not exist")),
            Err(source) => return Err(CaseError::Simulation { place: place.to_owned(), source }),
        }
    }
    for reference in &expect.absent {
        let key = key(reference, place)?;
        if simulator.get(&key).await.is_ok() {
            lines.push(format!("{key}: expected to be absent, but exists"));
        }
    }
    for (name, expected) in &expect.counts {
        let (kind, group) = name.split_once('.').unwrap_or((name, ""));
        let query = Query::all(Kind::new(group, "v1", kind));
        let listed = simulator.store().list(&query).await;
        let found = listed.map_err(|error| CaseError::Simulation { place: place.to_owned(), source: error.into() })?;
        if found.items.len() != *expected {
            lines.push(format!("{name}: expected {expected} resources, got {}", found.items.len()));
        }
    }
    let events = simulator.take_events();
    if let Some(expected) = &expect.events {
        lines.extend(of_events(expected, &events));
    }
    Ok(lines)
}

fn of_result(expect: &Expectation, runs: &[Run]) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(expected) = expect.reconciles.filter(|expected| *expected != runs.len()) {
        lines.push(format!("expected {expected} reconciles, got {}", runs.len()));
    }
    let last = runs.last().map(|run| &run.result);
    let text = match last {
        None => "nothing ran".to_owned(),
        Some(Ok(Outcome::Settled)) => "settled".to_owned(),
        Some(Ok(Outcome::AgainAfter(delay))) => format!("again after {delay:?}"),
        Some(Err(fault)) => format!("failed: {fault}"),
    };
    let is = match last {
        Some(Ok(Outcome::Settled)) => Some(OutcomeName::Settled),
        Some(Ok(Outcome::AgainAfter(_))) => Some(OutcomeName::Again),
        Some(Err(Fault::Failure { retry: Retry::Never, .. })) => Some(OutcomeName::Never),
        Some(Err(_)) => Some(OutcomeName::Failed),
        None => None,
    };
    if let Some(expected) = expect.outcome.filter(|expected| is != Some(*expected)) {
        lines.push(format!("outcome: expected {}, got {text}", format!("{expected:?}").to_lowercase()));
    }
    let delay = match last {
        Some(Ok(Outcome::AgainAfter(delay))) => Some(*delay),
        Some(Err(Fault::Failure { retry: Retry::After(delay), .. })) => Some(*delay),
        _ => None,
    };
    if let Some(expected) = expect.again_after.filter(|expected| delay != Some(*expected)) {
        lines.push(format!("againAfter: expected {expected:?}, got {text}"));
    }
    let has = |part: &String| matches!(last, Some(Err(fault)) if fault.to_string().contains(part));
    if let Some(expected) = expect.message.as_ref().filter(|part| !has(part)) {
        lines.push(format!("message: expected {expected:?} in it, got {text}"));
    }
    lines
}

fn of_events(expected: &[ExpectedEvent], events: &[RecordedEvent]) -> Vec<String> {
    let severity = |event: &RecordedEvent| if event.severity == Severity::Normal { "Normal" } else { "Warning" };
    let shown = || {
        let texts = events.iter().map(|event| format!("{} {} {:?}", severity(event), event.reason, event.message));
        if events.is_empty() { "no event".to_owned() } else { texts.take(20).collect::<Vec<_>>().join(", ") }
    };
    let is = |event: &RecordedEvent, expected: &ExpectedEvent| {
        event.reason == expected.reason
            && expected.severity.as_ref().is_none_or(|name| name == severity(event))
            && expected.message.as_ref().is_none_or(|part| event.message.contains(part))
    };
    let missing = expected.iter().filter(|expected| !events.iter().any(|event| is(event, expected)));
    let mut lines: Vec<String> =
        missing.map(|missing| format!("events: expected {}, got {}", missing.reason, shown())).collect();
    if expected.is_empty() && !events.is_empty() {
        lines.push(format!("events: expected none, got {}", shown()));
    }
    lines
}

/// Returns the part of a document that names it.
fn identity(document: &Value) -> Value {
    let metadata = &document["metadata"];
    json!({
        "apiVersion": document["apiVersion"], "kind": document["kind"], "name": metadata["name"],
        "namespace": metadata["namespace"].as_str().unwrap_or_default(),
    })
}

fn key(reference: &Reference, place: &str) -> Result<Key, CaseError> {
    let Reference { api_version, kind, namespace, name } = reference;
    let kind = Kind::parse(api_version, kind)
        .map_err(|error| CaseError::Malformed { place: place.to_owned(), reason: error.to_string() })?;
    Ok(Key::new(kind, namespace, name))
}

fn injected(given: &StoreFault) -> InjectedFault {
    let StoreFault { on, kind, error, times, after_write } = given;
    let reason = "a fault of the test".to_owned();
    let error = match error {
        FaultName::Unavailable => StoreError::Unavailable(reason),
        FaultName::Conflict => StoreError::Conflict(String::new()),
        FaultName::NotFound => StoreError::NotFound(reason),
        FaultName::Forbidden => StoreError::Forbidden(reason),
    };
    InjectedFault { operation: *on, kind: kind.clone(), error, times: *times, after_write: *after_write }
}

/// Reads a duration as people write it, as `1m30s`.
fn span<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    let span: jiff::SignedDuration = text.parse().map_err(serde::de::Error::custom)?;
    Duration::try_from(span).map(Some).map_err(serde::de::Error::custom)
}
