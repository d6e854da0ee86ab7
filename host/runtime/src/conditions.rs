//! The conditions in the status of a resource. Pure.

use serde_json::{Value, json};

/// One condition: type, status, reason and message.
pub(crate) type Condition = (&'static str, bool, &'static str, String);

/// Returns a condition in Kubernetes' form. The transition time of an unchanged one is that in the status `before`.
pub(crate) fn dated(before: &Value, (name, holds, reason, message): Condition, now: &str) -> Value {
    let status = if holds { "True" } else { "False" };
    let known = known(before, name).filter(|known| known["status"] == status);
    let since = known.and_then(|known| known["lastTransitionTime"].as_str()).unwrap_or(now);
    json!({ "type": name, "status": status, "reason": reason, "message": message, "lastTransitionTime": since })
}

/// Returns whether the condition of this type is true in a status.
pub(crate) fn holds(status: &Value, name: &str) -> bool {
    known(status, name).is_some_and(|known| known["status"] == "True")
}

/// Returns the condition of this type in a status.
pub(crate) fn known<'s>(status: &'s Value, name: &str) -> Option<&'s Value> {
    status["conditions"].as_array().into_iter().flatten().find(|known| known["type"] == name)
}
