//! Calls a component's `describe`, and checks the answer.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use crate::bindings::reconciler as wit;
use crate::call::{self, Sandbox, new_call};
use crate::code::LinkedCode;
use crate::contract;
use crate::effect::{Effects, EntryPoint};
use crate::engine::Engine;
use crate::imports::store::from_kind;
use crate::instances::ExecutionPermit;
use crate::instances::Machine;
use crate::layers::SealedWorld;
use crate::limits::LimitName;
use crate::limits::Limits;
use crate::load_error::{LoadError, Reason};
use crate::outcome::{CallReport, Cost, Fault};
use crate::spec::{BackoffSpec, Changes, ControllerSpec, DuringDelay, KindDeclaration, Mapping, Role, Watch};

const NAME_BYTES_MAX: usize = 63;
const WATCHES_MAX: usize = 32;
const POLL_EVERY_MS_MIN: u64 = 100;
const RESYNC_EVERY_MS_MIN: u64 = 1000;
const CONCURRENCY_MAX: u32 = 1024;

/// The wall time that `describe` may take, regardless of the controller's limits: a person waits for it.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// Returns the limits of `describe`: those of a call of the controller, or the defaults if they are larger.
///
/// A guest with an expensive language runtime needs the controller's larger limits here too. A manifest with
/// tight limits on reconciles must not prevent its component from loading.
pub(super) fn limits(controller: &Limits) -> Limits {
    Limits { deadline: DEADLINE, ..controller.larger(&Limits::default()) }
}

/// Runs `describe` in a [`SealedWorld`] with these settings. Returns the description and the cost of the call.
///
/// # Errors
/// `Describe` when it returned no answer, otherwise `Description` for every value out of range.
pub(super) async fn describe(
    engine: &Engine,
    machine: &Arc<Machine>,
    LinkedCode { pre, entries }: &LinkedCode,
    limits: &Limits,
    config: &BTreeMap<String, String>,
) -> Result<(ControllerSpec, Cost), LoadError> {
    let sealed = Arc::new(SealedWorld::new(config.clone()));
    let call = new_call(&Arc::from(""), EntryPoint::Describe, None);
    let effects: Arc<dyn Effects> = sealed.clone();
    let leave = ExecutionPermit::acquire(machine, &engine.0.instances, &call.controller).await;
    let sandbox = Sandbox::new(&leave, call, limits, effects);
    let report = sandbox.run(async {
        let (mut store, instance) = sandbox.open(pre).await?;
        let guest = entries.reconciler.load(&mut store, &instance)?;
        guest.call_describe(&mut store).await.map(Ok)
    });
    let CallReport { result, cost } = report.await;
    let (refused, told) = sealed.used();
    if told {
        let reason =
            "it used events.emit; describe may not emit events, because the controller does not run yet".to_owned();
        return Err(Reason::Describe { reason }.into());
    }
    let spec = result.map_err(|fault| Reason::Describe { reason: with_used(&failure(&fault), &refused) })?;
    if !refused.is_empty() {
        tracing::warn!(imports = refused.join(", "), "describe used forbidden imports, which returned errors");
    }
    let exports = AvailableExports { mapper: entries.mapper.is_some(), poller: entries.poller.is_some() };
    let spec = check(spec, exports).map_err(|reasons| LoadError { reasons })?;
    Ok((spec, cost))
}

/// Returns a hint where the manifest can raise a limit, to follow the message; empty if it cannot.
pub(super) fn where_more(limit: LimitName) -> String {
    match limit {
        LimitName::Cpu | LimitName::Memory | LimitName::Memories | LimitName::Tables => {
            format!("; its manifest can allow more: `spec.limits.{limit}`")
        }
        _ => String::new(),
    }
}

fn failure(fault: &Fault) -> String {
    match fault {
        Fault::Limit { limit, .. } => format!("{fault}{}", where_more(*limit)),
        _ => fault.to_string(),
    }
}

/// Adds the refused effects before a failure to its message.
fn with_used(failure: &str, refused: &[&str]) -> String {
    if refused.is_empty() {
        return failure.to_owned();
    }
    let refused = refused.join(", ");
    format!(
        "{failure}\nbefore that it used {refused}, which describe may not use: its answer must be the same each time"
    )
}

/// The optional exports that a description may refer to.
#[derive(Clone, Copy)]
pub(super) struct AvailableExports {
    pub(super) mapper: bool,
    pub(super) poller: bool,
}

/// Checks a description against the bounds of the contract.
///
/// # Errors
/// All problems.
pub(super) fn check(spec: wit::ControllerSpec, has: AvailableExports) -> Result<ControllerSpec, Vec<Reason>> {
    let wit::ControllerSpec { manages, changes, watches, poll_every, resync_every, backoff, concurrency, during_delay } =
        spec;
    let mut check = SpecChecker { reasons: Vec::new() };
    check.that("watches", watches.len() <= WATCHES_MAX, || format!("{} of them, at most {WATCHES_MAX}", watches.len()));
    check.unique_names(&watches);
    check.one_role_for_each_kind(&watches);
    for (at, watch) in watches.iter().enumerate() {
        check.scopes(at, &manages, watch);
    }
    let manages = check.kind("manages", manages);
    let watches: Vec<Option<Watch>> =
        watches.into_iter().enumerate().map(|(at, watch)| check.watch(at, watch, has)).collect();
    let poll_every = check.interval("pollEvery", poll_every, POLL_EVERY_MS_MIN);
    check.that("pollEvery", poll_every.is_none() || has.poller, || format!("needs the export {}", contract::POLLER));
    let resync_every = check.interval("resyncEvery", resync_every, RESYNC_EVERY_MS_MIN);
    let backoff = backoff.map(|backoff| check.backoff(backoff));
    check.that("concurrency", concurrency.is_none_or(|at_once| (1..=CONCURRENCY_MAX).contains(&at_once)), || {
        format!("must be 1 to {CONCURRENCY_MAX}")
    });
    let during_delay = match during_delay {
        wit::DuringDelay::RunNow => DuringDelay::RunNow,
        wit::DuringDelay::Hold => DuringDelay::Hold,
    };
    let watches: Option<Vec<Watch>> = watches.into_iter().collect();
    match (manages, watches, check.reasons.is_empty()) {
        (Some(manages), Some(watches), true) => {
            let changes = self::changes(changes);
            Ok(ControllerSpec {
                manages,
                changes,
                watches,
                poll_every,
                resync_every,
                backoff,
                concurrency,
                during_delay,
            })
        }
        _ => Err(check.reasons),
    }
}

fn changes(changes: wit::Changes) -> Changes {
    match changes {
        wit::Changes::All => Changes::All,
        wit::Changes::ButStatus => Changes::ButStatus,
    }
}

/// Collects the problems of a description.
struct SpecChecker {
    reasons: Vec<Reason>,
}

impl SpecChecker {
    fn that(&mut self, path: &str, holds: bool, reason: impl FnOnce() -> String) {
        if !holds {
            self.reasons.push(Reason::Description { path: path.to_owned(), reason: reason() });
        }
    }

    fn unique_names(&mut self, watches: &[wit::Watch]) {
        let mut names = HashSet::new();
        for (at, watch) in watches.iter().enumerate() {
            self.that(&format!("watches[{at}].name"), names.insert(&watch.name), || {
                format!("{:?} is also the name of another watch", watch.name)
            });
        }
    }

    /// A kind declared both as read-only and as written is a mistake whose intent the host cannot know.
    fn one_role_for_each_kind(&mut self, watches: &[wit::Watch]) {
        for (at, watch) in watches.iter().enumerate() {
            let same_kind = |other: &&wit::Watch| {
                other.of.kind.group == watch.of.kind.group && other.of.kind.name == watch.of.kind.name
            };
            let other = watches[..at].iter().filter(same_kind).find(|other| other.role != watch.role);
            self.that(&format!("watches[{at}].role"), other.is_none(), || {
                let other = other.map_or("", |other| &other.name);
                format!("the watch {other:?} of the same kind has the other role; a kind has one role")
            });
        }
    }

    /// Only mappings that can name a namespace map a cluster-scoped resource to a namespaced one.
    fn scopes(&mut self, at: usize, manages: &wit::KindDeclaration, watch: &wit::Watch) {
        let names_alone =
            matches!(watch.mapping, wit::Mapping::Owner | wit::Mapping::SameName | wit::Mapping::Label(_));
        let leads_nowhere = manages.namespaced && !watch.of.namespaced && names_alone;
        self.that(&format!("watches[{at}].mapping"), !leads_nowhere, || {
            let (changed, managed) = (&watch.of.kind.name, &manages.kind.name);
            format!(
                "{changed:?} is cluster-scoped and {managed:?} is namespaced: only the mappings `annotation`, `field` and \
                 `guest` can name the namespace of their keys"
            )
        });
    }

    fn kind(&mut self, path: &str, declaration: wit::KindDeclaration) -> Option<KindDeclaration> {
        let wit::KindDeclaration { kind, plural, namespaced, keys_only, schema } = declaration;
        let plain =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        self.that(
            &format!("{path}.plural"),
            !plural.is_empty() && plural.len() <= NAME_BYTES_MAX && plain(&plural),
            || format!("must be 1 to {NAME_BYTES_MAX} lower-case letters, digits and hyphens, is {plural:?}"),
        );
        let schema = schema.map(|text| serde_json::from_str(&text)).transpose();
        let schema = schema
            .map_err(|error| self.that(&format!("{path}.schema"), false, || format!("not JSON: {error}")))
            .unwrap_or_default();
        match from_kind(kind) {
            Ok(kind) => Some(KindDeclaration { kind, plural, namespaced, keys_only, schema }),
            Err(error) => {
                self.that(&format!("{path}.kind"), false, || error.to_string());
                None
            }
        }
    }

    fn watch(&mut self, at: usize, watch: wit::Watch, has: AvailableExports) -> Option<Watch> {
        let wit::Watch { name, of, mapping, changes, role } = watch;
        let path = format!("watches[{at}]");
        self.that(&format!("{path}.name"), (1..=NAME_BYTES_MAX).contains(&name.len()), || {
            format!("must have 1 to {NAME_BYTES_MAX} bytes, has {}", name.len())
        });
        let place = format!("{path}.mapping");
        let mapping = match mapping {
            wit::Mapping::Owner => Mapping::Owner,
            wit::Mapping::SameName => Mapping::SameName,
            wit::Mapping::Label(label) => {
                self.that(&place, !label.is_empty(), || "the label must not be empty".to_owned());
                Mapping::Label(label)
            }
            wit::Mapping::Annotation(annotation) => {
                self.that(&place, !annotation.is_empty(), || "the annotation must not be empty".to_owned());
                Mapping::Annotation(annotation)
            }
            wit::Mapping::Field(pointer) => {
                self.that(&place, pointer.starts_with('/'), || {
                    format!("{pointer:?} is not a JSON pointer, which begins with /")
                });
                Mapping::Field(pointer)
            }
            wit::Mapping::Guest => {
                self.that(&place, has.mapper, || format!("`guest` needs the export {}", contract::MAPPER));
                Mapping::Guest
            }
        };
        let changes = self::changes(changes);
        let reads_status =
            matches!(&mapping, Mapping::Field(pointer) if pointer == "/status" || pointer.starts_with("/status/"));
        self.that(&format!("{path}.changes"), changes == Changes::All || !reads_status, || {
            "`but-status` cannot be combined with a mapping by a field of the status".to_owned()
        });
        let role = match role {
            wit::Role::Secondary => Role::Secondary,
            wit::Role::Tertiary => Role::Tertiary,
        };
        Some(Watch { name, of: self.kind(&format!("{path}.of"), of)?, mapping, changes, role })
    }

    /// Checks the lower bound of an interval and cuts it at the upper one.
    fn interval(&mut self, path: &str, every_ms: Option<u64>, every_ms_min: u64) -> Option<Duration> {
        let every_ms = every_ms?;
        self.that(path, every_ms >= every_ms_min, || format!("must be at least {every_ms_min} ms, is {every_ms} ms"));
        Some(call::delay(every_ms))
    }

    fn backoff(&mut self, backoff: wit::Backoff) -> BackoffSpec {
        let wit::Backoff { base, max, retries_max } = backoff;
        self.that("backoff.base", base >= 1, || "must be at least 1 ms".to_owned());
        self.that("backoff.max", max >= base, || format!("must not be below the base, {base} ms"));
        BackoffSpec { base: call::delay(base), max: call::delay(max), retries_max }
    }
}

#[cfg(test)]
mod tests;
