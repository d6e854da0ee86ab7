//! Makes a kind of a composition: the definition of the kind, and a controller for its instances.
//!
//! A `Composition` names a kind and templates of resources. The composer applies a `CustomResourceDefinition` of that
//! kind, and a `Controller` that runs `instances.wasm` over it with the templates as its settings. Both have the
//! composition as their owner, so they end with it. The controller has the rights of `spec.grants` of the composition,
//! and the host refuses those that the composer itself lacks.

use homeostat_sdk::prelude::*;
use serde_json::{Map, Value, json};

/// The group of the kinds that compositions make.
const GROUP: &str = "composed.homeostat.dev";
/// The most templates of a composition.
const TEMPLATES_MAX: usize = 32;

/// A kind that is made of other resources.
#[derive(Resource, Serialize, Deserialize, JsonSchema)]
#[resource(group = "compose.homeostat.dev", version = "v1", scope = "Cluster", status = CompositionStatus)]
#[resource(printcolumn(name = "Kind", type = "string", json_path = ".spec.kind"))]
#[resource(printcolumn(name = "Age", type = "date", json_path = ".metadata.creationTimestamp"))]
struct Composition {
    /// The name of the kind, in CamelCase.
    kind: String,
    /// The plural of the kind, in lower case.
    plural: String,
    /// The fields of the spec of an instance, each with its type: `string`, `integer`, `number` or `boolean`.
    fields: Map<String, Value>,
    /// The resources of an instance, in the order in which they are applied.
    resources: Vec<Template>,
    /// Further kinds whose changes run instances again, as in `spec.watches` of a controller.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    watches: Vec<Value>,
    /// The grants of resources of the controller of the instances, as in `spec.grants.resources` of a controller.
    grants: Value,
}

/// A resource of each instance.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Template {
    /// The name by which later templates refer to the resource.
    id: String,
    /// The document, with expressions as `${name}`, `${spec.image}` and `${resources.db.status.address}`.
    template: Value,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct CompositionStatus {
    conditions: Conditions,
}

/// The definition of a kind.
#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "apiextensions.k8s.io", version = "v1", scope = "Cluster", status = Value, schema = "disabled")]
struct CustomResourceDefinition(Value);

/// A controller of the host.
#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "homeostat.dev", version = "v1alpha1", scope = "Cluster", status = Value, schema = "disabled")]
struct Controller(Value);

impl Composition {
    /// Returns what is wrong, for the author.
    fn problem(&self) -> Option<String> {
        if self.resources.len() > TEMPLATES_MAX {
            return Some(format!("spec.resources: at most {TEMPLATES_MAX} templates"));
        }
        let known = |of_field: &Value| ["string", "integer", "number", "boolean"].iter().any(|word| of_field == word);
        let unknown = self.fields.iter().find(|(_, of_field)| !known(of_field));
        unknown.map(|(name, of_field)| format!("spec.fields.{name}: {of_field} is no type"))
    }

    fn definition(&self) -> Value {
        let fields: Map<String, Value> =
            self.fields.iter().map(|(name, of_field)| (name.clone(), json!({ "type": of_field }))).collect();
        let schema = json!({
            "type": "object",
            "properties": {
                "spec": { "type": "object", "properties": fields },
                "status": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
            },
        });
        json!({
            "group": GROUP,
            "scope": "Namespaced",
            "names": { "kind": self.kind, "plural": self.plural, "singular": self.kind.to_lowercase() },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": schema },
                "subresources": { "status": {} },
            }],
        })
    }

    fn controller(&self) -> Value {
        let own = json!({
            "kinds": [format!("{GROUP}/{}", self.kind)],
            "verbs": ["get", "list", "watch", "update-status"],
        });
        let mut grants = vec![own];
        grants.extend(self.grants.as_array().into_iter().flatten().cloned());
        json!({
            "component": { "file": "instances.wasm" },
            "manages": { "apiVersion": format!("{GROUP}/v1"), "kind": self.kind },
            "watches": self.watches,
            "config": { "resources": json!(self.resources).to_string() },
            "grants": { "resources": grants },
        })
    }
}

struct Composer;

impl Reconciler for Composer {
    fn describe() -> Spec {
        Spec::manages::<Composition>().owns::<CustomResourceDefinition>().ignore_status()
    }

    fn reconcile(key: Key) -> Result<Outcome, Failure> {
        let Some(mut composition) = Composition::get_opt(&key)? else {
            // The host garbage-collects the definition and the controller.
            return Ok(Outcome::settled());
        };
        let mut conditions = composition.status.take().map(|status| status.conditions).unwrap_or_default();
        if let Some(problem) = composition.spec.problem() {
            conditions.set(Condition::new("Ready", false).because("Invalid", &problem));
            composition.set_status(CompositionStatus { conditions })?;
            return Err(Failure::never(problem));
        }
        let plural = &composition.spec.plural;
        let definition = CustomResourceDefinition(composition.spec.definition());
        Resource::new("", &format!("{plural}.{GROUP}"), definition).owned_by(&composition).apply_by_force()?;
        let controller = Controller(composition.spec.controller());
        let controller =
            Resource::new("", &format!("composed-{plural}"), controller).owned_by(&composition).apply_by_force()?;
        let is_ready = controller.status.as_ref().is_some_and(runs);
        conditions.set(if is_ready {
            Condition::new("Ready", true).because("Running", "the controller of the instances runs")
        } else {
            Condition::new("Ready", false).because("Starting", "the controller of the instances does not run yet")
        });
        composition.set_status(CompositionStatus { conditions })?;
        // A controller cannot be watched.
        Ok(if is_ready { Outcome::settled() } else { Outcome::again_after(Duration::from_secs(1)) })
    }
}

/// Returns whether the status of a controller says that it is ready.
fn runs(status: &Value) -> bool {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

homeostat_sdk::export!(Composer);

#[cfg(test)]
mod tests;
