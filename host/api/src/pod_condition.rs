//! The conditions of a pod that the API itself reports.

use homeostat_store::{Change, Key, Resource, Write};
use jiff::{Timestamp, Unit};
use serde_json::{Value, json};

/// A condition that is true.
pub(crate) struct PodCondition {
    /// The type, as `PodScheduled`.
    pub(crate) name: &'static str,
    pub(crate) reason: Option<&'static str>,
    pub(crate) message: Option<&'static str>,
}

impl PodCondition {
    /// Returns whether a pod has the condition already.
    pub(crate) fn is_in(&self, pod: &Resource) -> bool {
        is_true(pod, self.name)
    }

    /// Returns the write that adds the condition to exactly this state of a pod.
    pub(crate) fn write(&self, pod: &Resource) -> Write {
        let mut conditions: Vec<Value> =
            conditions(pod).iter().filter(|found| found["type"] != self.name).cloned().collect();
        let mut condition = json!({ "type": self.name, "status": "True", "lastTransitionTime": this_second() });
        for (name, text) in [("reason", self.reason), ("message", self.message)] {
            if let Some(text) = text {
                condition[name] = text.into();
            }
        }
        conditions.push(condition);
        let metadata = json!({ "uid": pod.uid(), "resourceVersion": pod.revision().to_string() });
        let change = json!({ "metadata": metadata, "status": { "conditions": conditions } });
        Write::PatchStatus { key: Key::clone(pod.key()), change: Change::Merge(change) }
    }
}

/// Returns whether a condition of a pod is true.
pub(crate) fn is_true(pod: &Resource, name: &str) -> bool {
    conditions(pod).iter().any(|found| found["type"] == name && found["status"] == "True")
}

/// Returns the time in whole seconds, as Kubernetes writes it.
pub(crate) fn this_second() -> String {
    let now = Timestamp::now();
    now.round(Unit::Second).unwrap_or(now).to_string()
}

fn conditions(pod: &Resource) -> &[Value] {
    pod.status()["conditions"].as_array().map_or(&[], Vec::as_slice)
}
