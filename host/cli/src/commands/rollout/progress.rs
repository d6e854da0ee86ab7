//! The progress of a controller's rollout, from its status. Pure.

use serde_json::Value;

use super::shadow;
use crate::document::text;

/// The progress of a rollout.
#[derive(Debug, PartialEq)]
pub(super) enum Progress {
    /// The desired revision runs.
    Done(String),
    /// The desired definition was refused, with the reason.
    Refused(String),
    /// The canary was rolled back, with the reason.
    WentBack(String),
    /// The rollout is still in progress.
    Waits(String),
}

/// Derives the progress from a controller's status.
pub(super) fn of(document: &Value) -> Progress {
    let waits = |text: &str| Progress::Waits(text.to_owned());
    let condition = |name: &str| {
        let conditions = document.pointer("/status/conditions").and_then(Value::as_array);
        conditions.into_iter().flatten().find(|condition| condition["type"] == name)
    };
    let generation = |pointer: &str| document.pointer(pointer).and_then(Value::as_u64).unwrap_or_default();
    if generation("/status/observedGeneration") < generation("/metadata/generation") {
        return waits("the host has not processed it yet");
    }
    let (Some(loaded), Some(ready), Some(progressing)) =
        (condition("Loaded"), condition("Ready"), condition("Progressing"))
    else {
        return waits("the host has not processed it yet");
    };
    let rollout = &document["status"]["rollout"];
    if progressing["reason"] == "Paused" {
        return match rollout["phase"].as_str() {
            Some("canary" | "listing") => Progress::Waits(format!("it is paused: {}", step(rollout))),
            Some("shadow") => Progress::Waits(format!("it is paused: {}", shadowing(rollout))),
            _ => waits("it is paused: changes are not applied"),
        };
    }
    match progressing["reason"].as_str() {
        Some("Canary") => return Progress::Waits(step(rollout)),
        Some("Shadow") => return Progress::Waits(shadowing(rollout)),
        Some("RolledBack") => {
            let (to, from, why) = (&rollout["to"], &rollout["from"], text(document, "/status/rollout/reason"));
            return Progress::WentBack(format!("revision {to} was rolled back to revision {from}: {why}"));
        }
        _ => {}
    }
    if loaded["status"] != "True" {
        return Progress::Refused(text(loaded, "/message").trim().to_owned());
    }
    if ready["status"] == "True" || ready["reason"] == "Suspended" {
        let revision = generation("/status/revision");
        return Progress::Done(format!("successfully rolled out: revision {revision} runs"));
    }
    Progress::Waits(format!("it is {}: {}", text(ready, "/reason").to_lowercase(), text(ready, "/message")))
}

/// Describes the current step of a canary.
fn step(rollout: &Value) -> String {
    let (to, from, share) = (&rollout["to"], &rollout["from"], rollout["share"].as_str().unwrap_or("none"));
    let (step, steps) = (&rollout["step"], &rollout["steps"]);
    format!("revision {to} has {share} of the keys (step {step} of {steps}), revision {from} the others")
}

/// Describes the state of a shadow.
fn shadowing(rollout: &Value) -> String {
    let (to, from, counts) = (&rollout["to"], &rollout["from"], shadow::counts(&rollout["shadow"]));
    format!("revision {to} is a shadow of revision {from}: {counts}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document(observed: u64, loaded: &str, ready: (&str, &str), progressing: &str) -> Value {
        json!({
            "metadata": { "generation": 2 },
            "status": { "observedGeneration": observed, "revision": 3, "conditions": [
                { "type": "Loaded", "status": loaded, "message": "  - no" },
                { "type": "Ready", "status": ready.0, "reason": ready.1, "message": "waits" },
                { "type": "Progressing", "status": "False", "reason": progressing },
            ] },
        })
    }

    #[test]
    fn a_rollout_is_done_when_the_desired_revision_runs() {
        let done = Progress::Done("successfully rolled out: revision 3 runs".to_owned());
        assert_eq!(of(&document(2, "True", ("True", "Ready"), "Complete")), done);
        assert_eq!(of(&document(2, "True", ("False", "Suspended"), "Complete")), done);
        assert!(matches!(of(&document(1, "True", ("True", "Ready"), "Complete")), Progress::Waits(_)), "of before");
        assert!(matches!(of(&document(2, "True", ("True", "Ready"), "Paused")), Progress::Waits(_)));
        assert!(matches!(of(&json!({ "metadata": { "generation": 1 } })), Progress::Waits(_)));
        let syncing = of(&document(2, "True", ("False", "Syncing"), "Complete"));
        assert_eq!(syncing, Progress::Waits("it is syncing: waits".to_owned()));
        assert_eq!(of(&document(2, "False", ("True", "Ready"), "Retrying")), Progress::Refused("- no".to_owned()));
    }

    #[test]
    fn a_canary_is_waited_for_and_a_rollback_shows_its_reason() {
        let with = |progressing: &str, phase: &str| {
            let mut document = document(2, "True", ("True", "Ready"), progressing);
            document["status"]["rollout"] = json!({
                "phase": phase, "from": 3, "to": 4, "share": "10%", "step": 1, "steps": 2, "reason": "it trapped",
            });
            of(&document)
        };
        let step = "revision 4 has 10% of the keys (step 1 of 2), revision 3 the others";
        assert_eq!(with("Canary", "canary"), Progress::Waits(step.to_owned()));
        let Progress::Waits(told) = with("Shadow", "shadow") else { panic!("it is waited for") };
        assert!(told.starts_with("revision 4 is a shadow of revision 3: 0 compared"), "{told}");
        assert_eq!(with("Paused", "shadow"), Progress::Waits(format!("it is paused: {told}")));
        assert_eq!(with("Paused", "canary"), Progress::Waits(format!("it is paused: {step}")));
        let back = Progress::WentBack("revision 4 was rolled back to revision 3: it trapped".to_owned());
        assert_eq!(with("RolledBack", "rolledBack"), back);
        assert!(matches!(with("Complete", "complete"), Progress::Done(_)));
    }
}
