//! The expressions in CEL of webhooks and policies.

use homeostat_builtin::ADMISSION_VARIABLES;
use homeostat_cel::{Budget, CompileError, Definitions, EvaluationError, Expression, Output, Type, Variable};
use homeostat_store::Resource;
use serde_json::Value;

/// What one expression may cost. Source: `PerCallLimit` of Kubernetes.
const EXPRESSION_COST_MAX: u64 = 1_000_000;

/// What all match conditions of a webhook may cost. Source: `RuntimeCELCostBudgetMatchConditions` of Kubernetes.
const CONDITIONS_COST_MAX: u64 = 2_500_000;

/// The values of the variables.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'a> {
    /// The request of a review, with the objects.
    request: &'a Value,
    params: &'a Value,
    namespace: &'a Value,
}

impl<'a> Inputs<'a> {
    /// Returns those of a policy.
    pub(super) fn new(request: &'a Value, params: Option<&'a Resource>, namespace: Option<&'a Resource>) -> Self {
        let document = |resource: Option<&'a Resource>| resource.map_or(&Value::Null, |resource| resource.document());
        Self { request, params: document(params), namespace: document(namespace) }
    }

    /// Returns those of a webhook.
    pub(super) fn of_request(request: &'a Value) -> Self {
        Self { request, params: &Value::Null, namespace: &Value::Null }
    }

    fn variables(self) -> Vec<(&'static str, Variable<'a>)> {
        let Self { request, params, namespace } = self;
        // The authorizer of Kubernetes does not exist here: an expression that uses it fails.
        let values = [&request["object"], &request["oldObject"], request, params, namespace];
        let known = ADMISSION_VARIABLES.iter().zip(values);
        known.map(|((name, _), value)| (*name, Variable::Document(value, &Type::Dyn))).collect()
    }
}

/// An expression with its text.
pub(super) struct NamedExpression {
    pub(super) source: String,
    expression: Result<Expression, String>,
}

impl NamedExpression {
    /// Compiles an expression.
    pub(super) fn new(source: &Value, definitions: &Definitions) -> Self {
        Self::compiled(source, |source| Expression::compile_with(source, &*ADMISSION_VARIABLES, definitions))
    }

    /// Compiles an expression that returns a patch.
    pub(super) fn patch(source: &Value, definitions: &Definitions) -> Self {
        Self::compiled(source, |source| Expression::compile_patch(source, &*ADMISSION_VARIABLES, definitions))
    }

    fn compiled(source: &Value, compile: impl FnOnce(&str) -> Result<Expression, CompileError>) -> Self {
        let source = source.as_str().unwrap_or_default().to_owned();
        let expression = compile(&source);
        Self {
            source,
            expression: expression.map_err(|error| format!("compilation error: compilation failed: {error}")),
        }
    }

    /// Evaluates the expression, and takes its cost from a budget.
    ///
    /// # Errors
    /// Why there is no result, for a person.
    pub(super) fn evaluate(
        &self,
        inputs: Inputs<'_>,
        definitions: &Definitions,
        budget: &mut Budget,
    ) -> Result<Output, String> {
        self.evaluated(budget, |expression, budget| expression.evaluate_with(&inputs.variables(), definitions, budget))
    }

    /// As [`NamedExpression::evaluate`], for an expression that returns a patch.
    ///
    /// # Errors
    /// As [`NamedExpression::evaluate`].
    pub(super) fn evaluate_patch(
        &self,
        inputs: Inputs<'_>,
        definitions: &Definitions,
        budget: &mut Budget,
    ) -> Result<Value, String> {
        self.evaluated(budget, |expression, budget| expression.evaluate_patch(&inputs.variables(), definitions, budget))
    }

    fn evaluated<T>(
        &self,
        budget: &mut Budget,
        evaluate: impl FnOnce(&Expression, &mut Budget) -> Result<T, EvaluationError>,
    ) -> Result<T, String> {
        let expression = self.expression.as_ref().map_err(Clone::clone)?;
        let mut own = Budget::new(budget.left().min(EXPRESSION_COST_MAX));
        let before = own.left();
        let result = evaluate(expression, &mut own);
        *budget = Budget::new(budget.left().saturating_sub(before - own.left()));
        result.map_err(|error| match error {
            EvaluationError::NoPatch(reason) => reason,
            error => format!("expression '{}' resulted in error: {error}", self.source.trim()),
        })
    }
}

/// Compiles the variables of a policy. One that does not compile is missing, and so is what uses it.
pub(super) fn definitions(variables: &Value) -> Definitions {
    let mut definitions = Definitions::default();
    for variable in variables.as_array().into_iter().flatten() {
        let text = |field: &str| variable[field].as_str().unwrap_or_default();
        if let Err(error) = definitions.define(text("name"), text("expression"), &*ADMISSION_VARIABLES) {
            tracing::debug!(variable = text("name"), %error, "a variable of an admission policy does not compile");
        }
    }
    definitions
}

/// The match conditions of a webhook or a policy.
pub(super) struct MatchConditions(Vec<NamedExpression>);

impl MatchConditions {
    /// Compiles conditions.
    pub(super) fn new(conditions: &Value, definitions: &Definitions) -> Self {
        let conditions = conditions.as_array().into_iter().flatten();
        Self(conditions.map(|condition| NamedExpression::new(&condition["expression"], definitions)).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether all conditions hold.
    ///
    /// # Errors
    /// The failures of conditions, if none of the others is false, for a person.
    pub(super) fn hold(&self, inputs: Inputs<'_>, definitions: &Definitions) -> Result<bool, String> {
        let mut budget = Budget::new(CONDITIONS_COST_MAX);
        let mut failures = Vec::new();
        for condition in &self.0 {
            match condition.evaluate(inputs, definitions, &mut budget) {
                Ok(Output::Bool(true)) => {}
                Ok(Output::Bool(false)) => return Ok(false),
                Ok(_) => failures.push("must evaluate to bool".to_owned()),
                Err(failure) => failures.push(failure),
            }
        }
        match failures.as_slice() {
            [] => Ok(true),
            [failure] => Err(failure.clone()),
            failures => Err(format!("[{}]", failures.join(", "))),
        }
    }
}
