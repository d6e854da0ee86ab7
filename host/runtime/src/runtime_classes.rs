//! The runtime class of a new pod: its overhead, and the nodes that have it.
//!
//! Deliberately absent: tolerations that cover others; all of them stay.
//!
//! Source: the admission plug-in `RuntimeClass` of Kubernetes.

use homeostat_store::schema::quantity_in_nanos;
use homeostat_store::{Key, Kind};
use serde_json::{Map, Value, json};

use crate::Error;
use crate::error::found;
use crate::new_resource::NewResource;

fn classes() -> Kind {
    Kind::new("node.k8s.io", "v1", "RuntimeClass")
}

/// Gives a new pod what its runtime class says, and leaves resources of other kinds as they are.
///
/// # Errors
/// [`Error::Forbidden`] for a class that does not exist, for an overhead that is not that of the class, and for a selector of
/// nodes that contradicts the class; [`Error::Store`].
pub(crate) async fn admit(new: NewResource<'_>, document: &mut Value) -> Result<(), Error> {
    if !new.is_pod || !new.kinds.has_built_in_schema(&classes()) {
        return Ok(());
    }
    let Some(spec) = document.get_mut("spec").and_then(Value::as_object_mut) else { return Ok(()) };
    let refused = |reason: String| new.refused(&reason);
    let class = match spec.get("runtimeClassName").and_then(Value::as_str) {
        None => None,
        Some(named) => {
            let class = found(new.store.get(&Key::new(classes(), "", named)).await)?;
            let missing = || refused(format!("pod rejected: RuntimeClass {named:?} not found"));
            Some(class.ok_or_else(missing)?)
        }
    };
    let class = class.as_ref().map_or(&Value::Null, |class| class.document());
    set_overhead(spec, &class["overhead"]["podFixed"]).map_err(refused)?;
    set_scheduling(spec, &class["scheduling"]).map_err(refused)
}

fn set_overhead(spec: &mut Map<String, Value>, of_class: &Value) -> Result<(), String> {
    let stated = spec.get("overhead").filter(|stated| stated.as_object().is_some_and(|amounts| !amounts.is_empty()));
    match (stated, of_class.is_object()) {
        (Some(_), false) => {
            Err("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead".to_owned())
        }
        (Some(stated), true) if !are_equal(stated, of_class) => {
            Err("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead".to_owned())
        }
        (_, true) => {
            spec.insert("overhead".to_owned(), of_class.clone());
            Ok(())
        }
        (None, false) => Ok(()),
    }
}

/// Returns whether two maps have the same amounts.
fn are_equal(left: &Value, right: &Value) -> bool {
    let amounts = |map: &Value| -> Vec<(String, Option<i128>)> {
        let entries = map.as_object().into_iter().flatten();
        entries.map(|(name, amount)| (name.clone(), quantity_in_nanos(amount))).collect()
    };
    amounts(left) == amounts(right)
}

fn set_scheduling(spec: &mut Map<String, Value>, of_class: &Value) -> Result<(), String> {
    if let Some(wanted) = of_class["nodeSelector"].as_object() {
        let selector = spec.entry("nodeSelector").or_insert_with(|| json!({}));
        let Some(selector) = selector.as_object_mut() else { return Ok(()) };
        for (label, value) in wanted {
            if let Some(other) = selector.get(label).filter(|other| *other != value) {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let (value, other) = (text(value), text(other));
                return Err(format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{label}] = {value}; pod.spec.nodeSelector[{label}] = {other}"
                ));
            }
            selector.insert(label.clone(), value.clone());
        }
    }
    if let Some(wanted) = of_class["tolerations"].as_array() {
        let tolerations = spec.entry("tolerations").or_insert_with(|| json!([]));
        let Some(tolerations) = tolerations.as_array_mut() else { return Ok(()) };
        for toleration in wanted {
            if !tolerations.contains(toleration) {
                tolerations.push(toleration.clone());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scheduled(spec: Value, class: &Value) -> Result<Value, String> {
        let Value::Object(mut spec) = spec else { panic!("no object") };
        set_overhead(&mut spec, &class["overhead"]["podFixed"])?;
        set_scheduling(&mut spec, &class["scheduling"])?;
        Ok(Value::Object(spec))
    }

    #[test]
    fn a_pod_gets_the_overhead_and_the_nodes_of_its_class() {
        let class = json!({
            "overhead": { "podFixed": { "cpu": "250m" } },
            "scheduling": { "nodeSelector": { "vm": "yes" }, "tolerations": [{ "key": "vm", "operator": "Exists" }] },
        });
        let whole = json!({
            "overhead": { "cpu": "250m" }, "nodeSelector": { "a": "b", "vm": "yes" },
            "tolerations": [{ "key": "vm", "operator": "Exists" }],
        });
        assert_eq!(scheduled(json!({ "nodeSelector": { "a": "b" } }), &class), Ok(whole.clone()));
        assert_eq!(scheduled(whole.clone(), &class), Ok(whole));
        assert!(scheduled(json!({ "overhead": { "cpu": "0.25" } }), &class).is_ok());
        for (spec, class, reason) in [
            (json!({ "overhead": { "cpu": "1" } }), &class, "doesn't match"),
            (json!({ "overhead": { "cpu": "1" } }), &Value::Null, "without corresponding"),
            (
                json!({ "nodeSelector": { "vm": "no" } }),
                &class,
                "nodeSelector[vm] = yes; pod.spec.nodeSelector[vm] = no",
            ),
        ] {
            let refused = scheduled(spec, class).unwrap_err();
            assert!(refused.contains(reason), "{refused}");
        }
        assert_eq!(scheduled(json!({}), &Value::Null), Ok(json!({})));
    }
}
