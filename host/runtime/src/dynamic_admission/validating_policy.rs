//! A policy that refuses writes, as it is stored and as it acts.
//!
//! Source: `pkg/admission/plugin/policy/validating` of `k8s.io/apiserver`, with its messages.

use homeostat_cel::{Budget, Definitions, Output};
use homeostat_store::Resource;
use serde_json::Value;

use super::expressions::{Inputs, NamedExpression};
use super::policy::{Binding, Policy};

/// The largest cost of the validations of a policy for one binding and one parameter. Source: `RuntimeCELCostBudget` of
/// Kubernetes.
const COST_MAX: u64 = 10_000_000;

/// The longest message that an expression makes, in bytes. Source: Kubernetes.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;

/// A policy that validates the writes which it matches, where a binding says so.
pub(super) struct ValidatingPolicy {
    pub(super) policy: Policy,
    validations: Vec<Validation>,
    /// Of audit annotations, only the failures count: a host writes no audit log.
    annotations: Vec<NamedExpression>,
}

struct Validation {
    expression: NamedExpression,
    message: Option<String>,
    message_expression: Option<NamedExpression>,
    reason: Option<String>,
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

impl AsRef<Policy> for ValidatingPolicy {
    fn as_ref(&self) -> &Policy {
        &self.policy
    }
}

impl ValidatingPolicy {
    /// Returns a policy with its bindings; `None` if a selector is malformed.
    pub(super) fn new(policy: &Resource, bindings: Vec<Binding>) -> Option<Self> {
        let spec = &policy.document()["spec"];
        let policy = Policy::new(policy, bindings)?;
        let definitions = &policy.definitions;
        let list = |name: &str| spec[name].as_array().into_iter().flatten();
        Some(Self {
            validations: list("validations").map(|validation| Validation::new(validation, definitions)).collect(),
            annotations: list("auditAnnotations")
                .map(|annotation| NamedExpression::new(&annotation["valueExpression"], definitions))
                .collect(),
            policy,
        })
    }

    /// Returns what is wrong with a write.
    pub(super) fn violations(&self, inputs: Inputs<'_>) -> Vec<Violation> {
        match self.policy.meets_conditions(inputs) {
            Ok(true) => {}
            Ok(false) => return Vec::new(),
            Err(failure) => return self.failed(failure, false).into_iter().collect(),
        }
        let mut budget = Budget::new(COST_MAX);
        let mut found = Vec::new();
        for validation in &self.validations {
            match validation.expression.evaluate(inputs, &self.policy.definitions, &mut budget) {
                Ok(Output::Bool(true)) => {}
                Ok(_) => found.push(Violation {
                    message: validation.message(inputs, &self.policy.definitions, &mut budget),
                    reason: validation.reason.clone(),
                    is_fatal: false,
                }),
                Err(failure) => found.extend(self.failed(failure, false)),
            }
        }
        let mut budget = Budget::new(COST_MAX);
        for annotation in &self.annotations {
            if let Err(failure) = annotation.evaluate(inputs, &self.policy.definitions, &mut budget) {
                found.extend(self.failed(failure, true));
            }
        }
        found
    }

    /// Returns a failure as a violation, unless failures are ignored.
    pub(super) fn failed(&self, message: String, is_fatal: bool) -> Option<Violation> {
        (!self.policy.ignores_failures).then_some(Violation { message, reason: None, is_fatal })
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
