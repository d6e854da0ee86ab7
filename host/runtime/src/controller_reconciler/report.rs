//! The status of a controller, as the host writes it. Pure except for writing.
//!
//! It contains only fields that change with actions of the host. Counts, which change all the time, are added
//! when a client reads the status.

use std::sync::Arc;

use homeostat_store::{Precondition, Resource, Store, Write};
use serde_json::{Map, Value, json};

use super::sync_results::SyncOutcome;
use crate::conditions::{Condition, dated, known};
use crate::feeders::{SCHEDULES, retained_run_records};
use crate::rollout::{RolloutPhase, RolloutStatus, Share};
use crate::stores::StoresReadiness;
use crate::{ControllerState, ControllerStatus, SwapRecord};

/// The inputs of a status.
pub(super) struct StatusInputs<'f> {
    /// Generation of the reconciled resource.
    pub(super) generation: u64,
    pub(super) outcome: &'f SyncOutcome,
    /// The digest that the resource names.
    pub(super) wanted: Option<&'f str>,
    /// `None` if nothing runs.
    pub(super) running: Option<ControllerStatus>,
    /// The controller was added just now, as after a restart of the host.
    pub(super) is_new: bool,
    /// The installed revision.
    pub(super) revision: Option<u64>,
    /// The annotated cause of the change.
    pub(super) cause: Option<&'f str>,
    /// The rollout.
    pub(super) rollout: Option<RolloutStatus>,
    /// Whether other hosts roll out a version that the manifest of this host does not have.
    pub(super) is_elsewhere: bool,
    /// Whether its stores can be used; `None` if nothing runs, or if the host has one store.
    pub(super) stores: Option<StoresReadiness>,
}

/// Returns the new status. Unchanged conditions keep their transition times.
pub(super) fn status(before: &Value, facts: &StatusInputs<'_>, now: &str) -> Value {
    let mut status = Map::new();
    status.insert("observedGeneration".to_owned(), facts.generation.into());
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            status.insert(name.to_owned(), value);
        }
    };
    set("wantedDigest", facts.wanted.map(Value::from));
    set("revision", facts.revision.map(Value::from));
    if let Some(running) = &facts.running {
        set("digest", Some(running.digest.as_str().into()));
        set("generation", Some(running.generation.into()));
        set("leases", Some(json!(running.leases)).filter(|_| !running.leases.is_empty()));
    }
    let swapped = facts.running.as_ref().and_then(|running| running.last_swap.as_ref());
    let known = before.get("lastSwap");
    set("lastSwap", swapped.map(|swap| explained(known, swap, facts.cause)).or_else(|| known.cloned()));
    set(SCHEDULES, run_records(before, facts));
    set("rollout", facts.rollout.as_ref().map(|record| json!(record)));
    let conditions = conditions(facts).into_iter().chain(stores_ready(facts));
    let conditions = conditions.map(|condition| dated(before, condition, now));
    let conditions = conditions
        .map(|condition| if condition["type"] == "Ready" { held(before, condition, facts) } else { condition });
    set("conditions", Some(conditions.collect::<Vec<_>>().into()));
    Value::Object(status)
}

/// Returns the last runs of the schedules, which their feeders write. Those of removed feeders are dropped.
fn run_records(before: &Value, facts: &StatusInputs<'_>) -> Option<Value> {
    match &facts.running {
        None => before.get(SCHEDULES).cloned(),
        Some(running) => retained_run_records(before, running.feeders.iter().map(|feeder| &*feeder.name)),
    }
}

/// Returns a swap with its reason; an already written one stays as it was.
fn explained(known: Option<&Value>, swap: &SwapRecord, cause: Option<&str>) -> Value {
    if let Some(known) = known.filter(|known| known["time"] == swap.time.as_str()) {
        return known.clone();
    }
    let why = if swap.from == swap.to { "it was restarted" } else { "its component changed" };
    let mut written = json!(swap);
    written["why"] = cause.unwrap_or(why).into();
    written
}

fn conditions(facts: &StatusInputs<'_>) -> [Condition; 4] {
    let goes_on = if facts.running.is_some() { "the current version keeps running" } else { "nothing runs" };
    let (loaded, progressing, degraded): (Condition, Condition, Condition) = match facts.outcome {
        SyncOutcome::Refused(reason) => (
            ("Loaded", false, "Refused", reason.clone()),
            ("Progressing", true, "Retrying", "the definition is retried".to_owned()),
            ("Degraded", true, "Refused", format!("the definition cannot run; {goes_on}")),
        ),
        SyncOutcome::Waiting(reason) => (
            ("Loaded", false, "Waiting", reason.clone()),
            ("Progressing", false, "Waiting", "it starts when the missing part is there".to_owned()),
            ("Degraded", false, "Waiting", String::new()),
        ),
        SyncOutcome::Paused => (
            ("Loaded", facts.running.is_some(), "Paused", goes_on.to_owned()),
            ("Progressing", false, "Paused", "changes are ignored until it is resumed".to_owned()),
            ("Degraded", false, "Paused", String::new()),
        ),
        SyncOutcome::RollingOut { from, to, .. }
            if facts.rollout.as_ref().is_some_and(|it| it.phase == RolloutPhase::Shadow) =>
        {
            (
                ("Loaded", true, "Loaded", String::new()),
                (
                    "Progressing",
                    true,
                    "Shadow",
                    format!("revision {to} is a shadow of revision {from}: none of its effects is applied"),
                ),
                ("Degraded", false, "Shadow", String::new()),
            )
        }
        SyncOutcome::RollingOut { from, to, share } => (
            ("Loaded", true, "Loaded", String::new()),
            ("Progressing", true, "Canary", tried(*from, *to, *share) + &waits(facts)),
            ("Degraded", false, "Canary", String::new()),
        ),
        SyncOutcome::Replaced => (
            ("Loaded", true, "Loaded", String::new()),
            ("Progressing", true, "Replaced", "another definition replaces the rollout and is being loaded".to_owned()),
            ("Degraded", false, "Replaced", String::new()),
        ),
        SyncOutcome::RolledBack(reason) => (
            ("Loaded", true, "RolledBack", String::new()),
            ("Progressing", false, "RolledBack", "the definition was rolled back and is not tried again".to_owned()),
            ("Degraded", true, "RolledBack", reason.clone()),
        ),
        SyncOutcome::Put(_) | SyncOutcome::Removed(_) => (
            ("Loaded", true, "Loaded", String::new()),
            ("Progressing", false, "Complete", installed(facts)),
            ("Degraded", false, "AsWanted", String::new()),
        ),
    };
    [loaded, ready(facts), progressing, degraded]
}

/// Keeps the previous `Ready` condition while a restarted controller may become ready again, so that a
/// restart of the host writes no unchanged status. A new generation is not ready until it was ready itself.
fn held(before: &Value, ready: Value, facts: &StatusInputs<'_>) -> Value {
    let begins = matches!(ready["reason"].as_str(), Some("Starting" | "Syncing"));
    let known = known(before, "Ready").filter(|known| known["reason"] == "Ready" || known["reason"] == "Suspended");
    let is_same = before["observedGeneration"] == facts.generation;
    known.filter(|_| facts.is_new && is_same && begins).cloned().unwrap_or(ready)
}

fn installed(facts: &StatusInputs<'_>) -> String {
    let more = "; other hosts roll out a version that the manifest of this host does not have";
    format!("the definition is installed{}", if facts.is_elsewhere { more } else { "" })
}

/// Returns why this host decides no step of a rollout, to follow another text.
fn waits(facts: &StatusInputs<'_>) -> String {
    let waits = facts.rollout.as_ref().and_then(|rollout| rollout.waits.as_ref());
    waits.map(|reason| format!("; {reason}")).unwrap_or_default()
}

fn tried(from: u64, to: u64, share: Option<Share>) -> String {
    match share {
        Some(share) => format!("revision {to} has {share} of the keys, revision {from} the others"),
        None => format!("revision {to} gets keys after the first lists of its watches; revision {from} has all keys"),
    }
}

fn ready(facts: &StatusInputs<'_>) -> Condition {
    let Some(running) = &facts.running else { return ("Ready", false, "NotRunning", "nothing runs".to_owned()) };
    let (is_ready, reason) = match running.state {
        ControllerState::Ready => (true, "Ready"),
        ControllerState::Starting => (false, "Starting"),
        ControllerState::Syncing => (false, "Syncing"),
        ControllerState::Suspended => (false, "Suspended"),
        ControllerState::Standby => (true, "Standby"),
        ControllerState::Stopping => (false, "Stopping"),
    };
    // Feeder errors of a ready controller are omitted: they are transient, and nothing would rewrite the
    // status when they clear.
    let message = if is_ready { None } else { running.message.clone() };
    ("Ready", is_ready, reason, message.unwrap_or_default())
}

/// Returns whether the stores can be used in which the controller's kinds live.
fn stores_ready(facts: &StatusInputs<'_>) -> Option<Condition> {
    Some(match facts.stores.clone()? {
        StoresReadiness::Ready => ("StoresReady", true, "StoresReady", String::new()),
        StoresReadiness::Waiting { reason, message } => ("StoresReady", false, reason, message),
    })
}

/// Writes the status of this revision of the resource. Returns the new resource.
///
/// # Errors
/// Those of the store; `Conflict` if the resource has changed meanwhile.
pub(super) async fn write(
    store: &dyn Store,
    resource: &Resource,
    status: Value,
) -> homeostat_store::Result<Arc<Resource>> {
    let precondition = Precondition { uid: Some(resource.uid().to_owned()), revision: Some(resource.revision()) };
    let write = Write::UpdateStatus { key: resource.key().clone(), status, precondition };
    Ok(store.write(write).await?.resource)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Put;

    fn facts(outcome: &SyncOutcome) -> StatusInputs<'_> {
        StatusInputs {
            generation: 2,
            outcome,
            wanted: Some("sha256:a"),
            running: None,
            is_new: false,
            revision: None,
            cause: None,
            rollout: None,
            is_elsewhere: false,
            stores: None,
        }
    }

    fn condition<'s>(status: &'s Value, name: &str) -> &'s Value {
        status["conditions"].as_array().unwrap().iter().find(|condition| condition["type"] == name).unwrap()
    }

    #[test]
    fn unchanged_conditions_keep_their_time_and_equal_inputs_give_equal_status() {
        let refused = SyncOutcome::Refused("no".to_owned());
        let first = status(&Value::Null, &facts(&refused), "one");
        assert_eq!(first["observedGeneration"], 2);
        assert_eq!(status(&first, &facts(&refused), "two"), first, "nothing is written in a loop");
        let other = SyncOutcome::Refused("other".to_owned());
        let second = status(&first, &facts(&other), "two");
        assert_eq!(condition(&second, "Loaded")["message"], "other");
        assert_eq!(condition(&second, "Loaded")["lastTransitionTime"], "one", "it is as false as before");
        let put = SyncOutcome::Put(Put::Added);
        let third = status(&second, &facts(&put), "three");
        assert_eq!(condition(&third, "Loaded")["status"], "True");
        assert_eq!(condition(&third, "Loaded")["lastTransitionTime"], "three");
        assert_eq!(condition(&third, "Degraded")["status"], "False");
    }

    #[test]
    fn a_controller_whose_store_is_away_has_a_condition_that_says_so() {
        let put = SyncOutcome::Put(Put::Added);
        let at = |before: &Value, stores: Option<StoresReadiness>, now: &str| {
            status(before, &StatusInputs { stores, ..facts(&put) }, now)
        };
        let one = at(&Value::Null, None, "one");
        assert!(one["conditions"].as_array().unwrap().iter().all(|condition| condition["type"] != "StoresReady"));
        let waiting = StoresReadiness::Waiting { reason: "StoreAway", message: "store bus: no route".to_owned() };
        let away = at(&one, Some(waiting), "two");
        let shown = condition(&away, "StoresReady");
        assert_eq!((&shown["status"], &shown["reason"]), (&json!("False"), &json!("StoreAway")));
        assert_eq!((&shown["message"], &shown["lastTransitionTime"]), (&json!("store bus: no route"), &json!("two")));
        let back = at(&away, Some(StoresReadiness::Ready), "three");
        assert_eq!(condition(&back, "StoresReady")["status"], "True");
        assert_eq!(at(&back, Some(StoresReadiness::Ready), "four"), back, "nothing is written in a loop");
    }

    #[test]
    fn a_host_without_the_version_that_the_others_roll_out_says_so() {
        let put = SyncOutcome::Put(Put::Added);
        let elsewhere = status(&Value::Null, &StatusInputs { is_elsewhere: true, ..facts(&put) }, "one");
        let message = condition(&elsewhere, "Progressing")["message"].as_str().unwrap();
        assert!(message.contains("other hosts roll out"), "{message}");
        let alone = status(&elsewhere, &facts(&put), "two");
        assert_eq!(condition(&alone, "Progressing")["message"], "the definition is installed");
    }

    #[test]
    fn a_swap_is_written_once_with_its_reason() {
        let swap = |time: &str, to: &str| SwapRecord {
            time: time.to_owned(),
            from: "a".to_owned(),
            to: to.to_owned(),
            generation: 2,
        };
        let first = explained(None, &swap("one", "b"), None);
        assert_eq!((&first["to"], &first["why"]), (&json!("b"), &json!("its component changed")));
        assert_eq!(explained(Some(&first), &swap("one", "b"), Some("later")), first);
        assert_eq!(explained(Some(&first), &swap("two", "b"), Some("faster"))["why"], "faster");
        assert_eq!(explained(Some(&first), &swap("two", "a"), None)["why"], "it was restarted");
    }

    #[test]
    fn a_restarted_controller_stays_ready_unless_the_start_takes_long() {
        let put = SyncOutcome::Put(Put::Added);
        let at = |before: &Value, state, is_new| {
            let running = Some(running(state));
            status(before, &StatusInputs { running, is_new, ..facts(&put) }, if is_new { "new" } else { "later" })
        };
        for state in [ControllerState::Ready, ControllerState::Suspended] {
            let was = at(&Value::Null, state, false);
            for begins in [ControllerState::Starting, ControllerState::Syncing] {
                assert_eq!(at(&was, begins, true), was, "nothing is written");
                assert_eq!(condition(&at(&was, begins, false), "Ready")["status"], "False", "it takes long");
            }
        }
        let other = at(&at(&Value::Null, ControllerState::Ready, false), ControllerState::Suspended, true);
        assert_eq!(condition(&other, "Ready")["reason"], "Suspended", "it is something else by now");
        let mut changed = at(&Value::Null, ControllerState::Ready, false);
        changed["observedGeneration"] = 1.into();
        let next = at(&changed, ControllerState::Syncing, true);
        assert_eq!(condition(&next, "Ready")["reason"], "Syncing", "something else was asked for since");
        let first = at(&Value::Null, ControllerState::Syncing, true);
        assert_eq!(condition(&first, "Ready")["reason"], "Syncing", "nothing is known of before");
    }

    fn running(state: ControllerState) -> ControllerStatus {
        ControllerStatus {
            name: "web".into(),
            state,
            message: None,
            digest: String::new(),
            code: crate::CodeStatus::default(),
            generation: 1,
            answered: None,
            manages: homeostat_store::Kind::new("apps", "v1", "Deployment"),
            watches: Vec::new(),
            concurrency: 4,
            counts: crate::QueueCounts::default(),
            reconciles: 0,
            failures: 0,
            last_swap: None,
            leases: Vec::new(),
            feeders: Vec::new(),
        }
    }

    #[test]
    fn a_refused_definition_reports_the_retry_and_that_nothing_runs() {
        let refused = SyncOutcome::Refused("no".to_owned());
        let status = status(&Value::Null, &facts(&refused), "now");
        assert_eq!(condition(&status, "Ready")["reason"], "NotRunning");
        assert_eq!(condition(&status, "Progressing")["reason"], "Retrying");
        assert_eq!(condition(&status, "Degraded")["message"], "the definition cannot run; nothing runs");
    }
}
