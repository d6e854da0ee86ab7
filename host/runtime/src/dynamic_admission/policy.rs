//! The common part of validating and mutating policies: their matches, bindings and parameters.
//!
//! Source: `pkg/admission/plugin/policy/generic` of `k8s.io/apiserver`, with its messages.

use homeostat_cel::Definitions;
use homeostat_store::{Kind, Resource, Selector};
use serde_json::Value;

use super::configurations::Origin;
use super::constraints::{Constraints, texts};
use super::expressions::{Inputs, MatchConditions, definitions};

/// A policy with its bindings.
pub(super) struct Policy {
    pub(super) origin: Origin,
    pub(super) name: String,
    pub(super) constraints: Constraints,
    pub(super) ignores_failures: bool,
    /// The kind of the parameters, if it has some.
    pub(super) params: Option<Kind>,
    pub(super) bindings: Vec<Binding>,
    pub(super) definitions: Definitions,
    conditions: MatchConditions,
}

/// Where a policy acts, and what follows from a violation.
pub(super) struct Binding {
    pub(super) origin: Origin,
    pub(super) name: String,
    pub(super) constraints: Constraints,
    pub(super) denies: bool,
    pub(super) warns: bool,
    pub(super) params: Option<ParamRef>,
}

/// The parameters that a binding names.
pub(super) struct ParamRef {
    pub(super) name: Option<String>,
    pub(super) namespace: Option<String>,
    pub(super) selector: Option<Selector>,
    /// The binding refuses writes if there are none.
    pub(super) must_exist: bool,
}

impl Policy {
    /// Returns a policy with its bindings; `None` if a selector is malformed.
    pub(super) fn new(policy: &Resource, bindings: Vec<Binding>) -> Option<Self> {
        let spec = &policy.document()["spec"];
        let definitions = definitions(&spec["variables"]);
        Some(Self {
            origin: Origin::of(policy),
            name: policy.key().name().to_owned(),
            constraints: Constraints::of_policy(&spec["matchConstraints"])?,
            ignores_failures: spec["failurePolicy"] == "Ignore",
            params: param_kind(&spec["paramKind"]),
            bindings,
            conditions: MatchConditions::new(&spec["matchConditions"], &definitions),
            definitions,
        })
    }

    /// Returns whether the match conditions hold.
    ///
    /// # Errors
    /// As [`MatchConditions::hold`].
    pub(super) fn meets_conditions(&self, inputs: Inputs<'_>) -> Result<bool, String> {
        self.conditions.hold(inputs, &self.definitions)
    }
}

impl Binding {
    /// Returns a binding with the name of its policy; `None` if a selector is malformed.
    pub(super) fn new(binding: &Resource) -> Option<(String, Self)> {
        let spec = &binding.document()["spec"];
        let actions = texts(&spec["validationActions"]);
        let acts = |action: &str| actions.iter().any(|named| named == action);
        let params = match &spec["paramRef"] {
            Value::Null => None,
            params => Some(ParamRef::new(params)?),
        };
        let binding = Self {
            origin: Origin::of(binding),
            name: binding.key().name().to_owned(),
            constraints: Constraints::of_policy(&spec["matchResources"])?,
            denies: acts("Deny"),
            warns: acts("Warn"),
            params,
        };
        Some((spec["policyName"].as_str().unwrap_or_default().to_owned(), binding))
    }
}

impl ParamRef {
    fn new(params: &Value) -> Option<Self> {
        let text = |field: &str| params[field].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let selector = match &params["selector"] {
            Value::Null => None,
            selector => Some(Selector::of_labels(selector)?),
        };
        let must_exist = params["parameterNotFoundAction"] == "Deny";
        Some(Self { name: text("name"), namespace: text("namespace"), selector, must_exist })
    }
}

fn param_kind(kind: &Value) -> Option<Kind> {
    Kind::parse(kind["apiVersion"].as_str()?, kind["kind"].as_str()?).ok()
}
