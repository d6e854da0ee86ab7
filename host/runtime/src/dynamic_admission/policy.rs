//! A validating policy with its bindings, as they are stored and as they act.
//!
//! Source: `pkg/admission/plugin/policy/validating` of `k8s.io/apiserver`, with its messages.

use homeostat_cel::{Budget, Definitions, Output};
use homeostat_store::{Kind, Resource, Selector};
use serde_json::Value;

use super::Origin;
use super::constraints::{Constraints, texts};
use super::expressions::{Inputs, MatchConditions, NamedExpression, definitions};

/// What the validations of a policy may cost for one binding and one parameter. Source: `RuntimeCELCostBudget` of
/// Kubernetes.
const COST_MAX: u64 = 10_000_000;

/// The longest message that an expression makes, in bytes. Source: Kubernetes.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;

/// A policy that validates the writes which it matches, where a binding says so.
pub(super) struct ValidatingPolicy {
    pub(super) origin: Origin,
    pub(super) name: String,
    pub(super) constraints: Constraints,
    pub(super) ignores_failures: bool,
    /// The kind of the parameters, if it has some.
    pub(super) params: Option<Kind>,
    pub(super) bindings: Vec<Binding>,
    conditions: MatchConditions,
    validations: Vec<Validation>,
    /// Of audit annotations, only the failures count: a host writes no audit log.
    annotations: Vec<NamedExpression>,
    definitions: Definitions,
}

struct Validation {
    expression: NamedExpression,
    message: Option<String>,
    message_expression: Option<NamedExpression>,
    reason: Option<String>,
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

/// A violation of a policy, or a failure of one of its expressions.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) message: String,
    /// The reason of the refusal; `None` for the usual one.
    pub(super) reason: Option<String>,
    /// It refuses the write whatever the binding says.
    pub(super) is_fatal: bool,
}

impl ValidatingPolicy {
    /// Returns a policy with its bindings; `None` if a selector is malformed.
    pub(super) fn new(policy: &Resource, bindings: Vec<Binding>) -> Option<Self> {
        let spec = &policy.document()["spec"];
        let definitions = definitions(&spec["variables"]);
        let list = |name: &str| spec[name].as_array().into_iter().flatten();
        Some(Self {
            origin: Origin::of(policy),
            name: policy.key().name().to_owned(),
            constraints: Constraints::of_policy(&spec["matchConstraints"])?,
            ignores_failures: spec["failurePolicy"] == "Ignore",
            params: param_kind(&spec["paramKind"]),
            bindings,
            conditions: MatchConditions::new(&spec["matchConditions"], &definitions),
            validations: list("validations").map(|validation| Validation::new(validation, &definitions)).collect(),
            annotations: list("auditAnnotations")
                .map(|annotation| NamedExpression::new(&annotation["valueExpression"], &definitions))
                .collect(),
            definitions,
        })
    }

    /// Returns what is wrong with a write.
    pub(super) fn violations(&self, inputs: Inputs<'_>) -> Vec<Violation> {
        match self.conditions.hold(inputs, &self.definitions) {
            Ok(true) => {}
            Ok(false) => return Vec::new(),
            Err(failure) => return self.failed(failure, false).into_iter().collect(),
        }
        let mut budget = Budget::new(COST_MAX);
        let mut found = Vec::new();
        for validation in &self.validations {
            match validation.expression.evaluate(inputs, &self.definitions, &mut budget) {
                Ok(Output::Bool(true)) => {}
                Ok(_) => found.push(Violation {
                    message: validation.message(inputs, &self.definitions, &mut budget),
                    reason: validation.reason.clone(),
                    is_fatal: false,
                }),
                Err(failure) => found.extend(self.failed(failure, false)),
            }
        }
        let mut budget = Budget::new(COST_MAX);
        for annotation in &self.annotations {
            if let Err(failure) = annotation.evaluate(inputs, &self.definitions, &mut budget) {
                found.extend(self.failed(failure, true));
            }
        }
        found
    }

    /// Returns a failure as a violation, unless failures are ignored.
    pub(super) fn failed(&self, message: String, is_fatal: bool) -> Option<Violation> {
        (!self.ignores_failures).then_some(Violation { message, reason: None, is_fatal })
    }
}

impl Validation {
    fn new(validation: &Value, definitions: &Definitions) -> Self {
        let text = |field: &str| validation[field].as_str().filter(|text| !text.trim().is_empty());
        let message_expression = &validation["messageExpression"];
        Self {
            expression: NamedExpression::new(&validation["expression"], definitions),
            message: text("message").map(|text| text.trim().to_owned()),
            message_expression: text("messageExpression")
                .map(|_| NamedExpression::new(message_expression, definitions)),
            reason: text("reason").map(str::to_owned),
        }
    }

    /// Returns the message of a violation.
    fn message(&self, inputs: Inputs<'_>, definitions: &Definitions, budget: &mut Budget) -> String {
        let made = self.message_expression.as_ref().and_then(|expression| {
            match expression.evaluate(inputs, definitions, budget) {
                Ok(Output::Text(text)) => Some(text.trim().to_owned()),
                _ => None,
            }
        });
        let is_fit = |text: &String| !text.is_empty() && text.len() <= MESSAGE_BYTES_MAX && !text.contains('\n');
        let made = made.filter(is_fit).or_else(|| self.message.clone());
        made.unwrap_or_else(|| format!("failed expression: {}", self.expression.source.trim()))
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
