//! A policy that changes writes, as it is stored and as it acts.
//!
//! Source: `pkg/admission/plugin/policy/mutating` of `k8s.io/apiserver`, with its messages.

use homeostat_cel::{Budget, Definitions};
use homeostat_store::Resource;
use homeostat_store::semantics::{Mutation, MutationError};
use serde_json::Value;

use super::expressions::{Inputs, NamedExpression};
use super::policy::{Binding, Policy};

/// The largest cost of a mutation. Source: `RuntimeCELCostBudget` of Kubernetes.
const COST_MAX: u64 = 10_000_000;

/// A policy that mutates the writes which it matches, where it is bound.
pub(super) struct MutatingPolicy {
    pub(super) policy: Policy,
    /// It is called again if something changes the document afterwards.
    pub(super) is_called_again: bool,
    mutations: Vec<MutationExpression>,
}

/// An expression that returns a mutation.
enum MutationExpression {
    JsonPatch(NamedExpression),
    ApplyConfiguration(NamedExpression),
}

/// The outcome of a policy for a write.
#[derive(Default)]
pub(super) struct PolicyOutcome {
    /// The conditions of the policy hold.
    pub(super) is_met: bool,
    /// The document after the mutations; `None` if none of them could be applied.
    pub(super) object: Option<Value>,
    /// The failures of conditions and mutations, for a person.
    pub(super) failures: Vec<String>,
}

impl AsRef<Policy> for MutatingPolicy {
    fn as_ref(&self) -> &Policy {
        &self.policy
    }
}

impl MutatingPolicy {
    /// Returns a policy with its bindings; `None` if a selector is malformed.
    pub(super) fn new(policy: &Resource, bindings: Vec<Binding>) -> Option<Self> {
        let spec = &policy.document()["spec"];
        let policy = Policy::new(policy, bindings)?;
        let mutations = spec["mutations"].as_array().into_iter().flatten();
        let mutations = mutations.filter_map(|mutation| MutationExpression::new(mutation, &policy.definitions));
        Some(Self { mutations: mutations.collect(), is_called_again: spec["reinvocationPolicy"] == "IfNeeded", policy })
    }

    /// Mutates the object of a request with `apply`, one mutation after the other, if the conditions hold and `is_called`.
    ///
    /// # Errors
    /// The reason why a mutation leaves no document of its kind.
    pub(super) fn mutate(
        &self,
        request: &mut Value,
        params: Option<&Resource>,
        namespace: Option<&Resource>,
        is_called: bool,
        apply: impl Fn(&Value, &Mutation) -> Result<Value, MutationError>,
    ) -> Result<PolicyOutcome, String> {
        let mut outcome = PolicyOutcome::default();
        match self.policy.meets_conditions(Inputs::new(request, params, namespace)) {
            Ok(is_met) => outcome.is_met = is_met,
            Err(failure) => outcome.failures.push(failure),
        }
        if !outcome.is_met || !is_called {
            return Ok(outcome);
        }
        let mut is_changed = false;
        for mutation in &self.mutations {
            let made = mutation.evaluate(Inputs::new(request, params, namespace), &self.policy.definitions);
            let applied = made.and_then(|mutation| match apply(&request["object"], &mutation) {
                Ok(object) => Ok(Ok(object)),
                Err(MutationError::Undecodable(reason)) => Ok(Err(reason)),
                Err(MutationError::Unfit(failure)) => Err(failure),
            });
            match applied {
                Ok(object) => {
                    request["object"] = object?;
                    is_changed = true;
                }
                Err(failure) => outcome.failures.push(failure),
            }
        }
        outcome.object = is_changed.then(|| request["object"].take());
        Ok(outcome)
    }
}

impl MutationExpression {
    fn new(mutation: &Value, definitions: &Definitions) -> Option<Self> {
        let compiled = |name: &str| NamedExpression::patch(&mutation[name]["expression"], definitions);
        match mutation["patchType"].as_str()? {
            "JSONPatch" => Some(Self::JsonPatch(compiled("jsonPatch"))),
            "ApplyConfiguration" => Some(Self::ApplyConfiguration(compiled("applyConfiguration"))),
            _ => None,
        }
    }

    fn evaluate(&self, inputs: Inputs<'_>, definitions: &Definitions) -> Result<Mutation, String> {
        let mut budget = Budget::new(COST_MAX);
        Ok(match self {
            Self::JsonPatch(expression) => {
                Mutation::JsonPatch(expression.evaluate_patch(inputs, definitions, &mut budget)?)
            }
            Self::ApplyConfiguration(expression) => {
                Mutation::ApplyConfiguration(expression.evaluate_patch(inputs, definitions, &mut budget)?)
            }
        })
    }
}
