//! Makes the resources of one instance of a composition, whose kind is known at run time only.
//!
//! The templates are the setting `resources`. They are applied in their order. An expression that has no value yet, as a
//! field of the status of an earlier resource, ends the reconcile; the host runs it again when that resource changes.

use homeostat_sdk::prelude::*;
use homeostat_sdk::raw::store::{self, Precondition, View};
use serde_json::{Value, json};

mod template;

use template::{MissingValue, Scope};

/// A resource of each instance.
#[derive(Deserialize)]
struct Template {
    id: String,
    template: Value,
}

/// The managed kind is that of the manifest. This one takes its place in `describe`.
#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "composed.homeostat.dev", version = "v1", status = Value, schema = "disabled")]
struct Instance {}

struct Instances;

impl Reconciler for Instances {
    fn describe() -> Spec {
        Spec::manages::<Instance>().ignore_status()
    }

    fn reconcile(key: Key) -> Result<Outcome, Failure> {
        let instance = match store::get(&key, View::Whole) {
            Ok(instance) => read(&instance.json)?,
            // The host garbage-collects its resources.
            Err(store::StoreError::NotFound(_)) => return Ok(Outcome::settled()),
            Err(error) => return Err(Error::from(error).into()),
        };
        if !instance["metadata"]["deletionTimestamp"].is_null() {
            return Ok(Outcome::settled());
        }
        let text = config::get("resources")?.unwrap_or_else(|| "[]".to_owned());
        let templates: Vec<Template> =
            serde_json::from_str(&text).map_err(|error| Failure::never(format!("the setting resources: {error}")))?;
        let mut scope = Scope::of(&instance);
        let mut missing = None;
        for Template { id, template } in templates {
            match scope.fill(&template) {
                Ok(document) => scope.add(&id, apply(&instance, document)?),
                Err(MissingValue(expression)) => {
                    missing = Some(format!("{id} waits for {expression}"));
                    break;
                }
            }
        }
        report(&key, &instance, missing)?;
        Ok(Outcome::settled())
    }
}

/// Applies a resource of an instance, and follows it. Returns it as stored.
fn apply(instance: &Value, mut document: Value) -> Result<Value, Failure> {
    let metadata = &instance["metadata"];
    document["metadata"]["namespace"] = metadata["namespace"].clone();
    document["metadata"]["ownerReferences"] = json!([{
        "apiVersion": instance["apiVersion"], "kind": instance["kind"], "name": metadata["name"],
        "uid": metadata["uid"], "controller": true, "blockOwnerDeletion": true,
    }]);
    let stored = store::apply(&document.to_string(), true).map_err(Error::from)?;
    watches::follow(&stored.key)?;
    read(&stored.json)
}

/// Writes the condition `Ready` of an instance, if it changed.
fn report(key: &Key, instance: &Value, missing: Option<String>) -> Result<(), Failure> {
    let (status, reason) = if missing.is_none() { ("True", "Composed") } else { ("False", "Waiting") };
    let message = missing.unwrap_or_else(|| "all resources are applied".to_owned());
    let ready = json!({ "type": "Ready", "status": status, "reason": reason, "message": message });
    let status = json!({ "conditions": [ready] });
    if instance["status"] != status {
        let precondition = Precondition { revision: None, uid: None };
        store::update_status(key, &status.to_string(), &precondition).map_err(Error::from)?;
    }
    Ok(())
}

fn read(json: &str) -> Result<Value, Failure> {
    serde_json::from_str(json).map_err(|error| Failure::never(error.to_string()))
}

homeostat_sdk::export!(Instances);

#[cfg(test)]
mod tests;
