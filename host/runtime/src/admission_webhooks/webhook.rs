//! One webhook of a configuration, as it is stored and as it acts.

use std::time::Duration;

use homeostat_cel::{Budget, Expression, Output, Type, Variable};
use homeostat_store::definition::{WebhookClient, WebhookTarget};
use homeostat_store::{Key, Resource, Revision, Selector};
use serde_json::Value;

use super::reviewed_write::ReviewedWrite;
use crate::webhook_connection::WebhookConnection;

/// The time of a webhook that states none.
const TIMEOUT_S: u64 = 10;

/// The variables of a match condition. `authorizer` does not exist here.
const VARIABLES: [&str; 3] = ["object", "oldObject", "request"];

/// What all match conditions of a webhook may cost. Source: `RuntimeCELCostBudgetMatchConditions` of Kubernetes.
const CONDITIONS_COST_MAX: u64 = 2_500_000;

/// A webhook that is called for the writes that it matches.
pub(super) struct AdmissionWebhook {
    /// The configuration, and the revision at which it was read.
    pub(super) configuration: (Key, Revision),
    pub(super) name: String,
    /// The first known version of a review that it reads.
    pub(super) review_version: Option<&'static str>,
    pub(super) ignores_failures: bool,
    /// It may be called for a dry run.
    pub(super) is_free_of_side_effects: bool,
    /// It is called again if a later webhook changes the document.
    pub(super) is_called_again: bool,
    pub(super) timeout: Duration,
    pub(super) connection: WebhookConnection,
    pub(super) namespaces: Selector,
    rules: Vec<Rule>,
    matches_equivalent: bool,
    objects: Selector,
    conditions: Vec<MatchCondition>,
}

struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    scope: String,
}

struct MatchCondition {
    source: String,
    expression: Result<Expression, String>,
}

/// Returns the webhooks of a configuration that can be called: those with a URL.
pub(super) fn webhooks(configuration: &Resource) -> Vec<AdmissionWebhook> {
    let webhooks = configuration.document()["webhooks"].as_array().into_iter().flatten();
    webhooks.filter_map(|webhook| AdmissionWebhook::new(configuration, webhook)).collect()
}

impl AdmissionWebhook {
    fn new(configuration: &Resource, webhook: &Value) -> Option<Self> {
        let client = &webhook["clientConfig"];
        let url = client["url"].as_str()?.to_owned();
        let ca_bundle = client["caBundle"].as_str().filter(|bundle| !bundle.is_empty()).map(str::to_owned);
        let timeout = Duration::from_secs(webhook["timeoutSeconds"].as_u64().unwrap_or(TIMEOUT_S));
        let versions = texts(&webhook["admissionReviewVersions"]);
        let known = |version: &String| ["v1", "v1beta1"].into_iter().find(|known| version == known);
        let conditions = webhook["matchConditions"].as_array().into_iter().flatten();
        Some(Self {
            configuration: (configuration.key().clone(), configuration.revision()),
            name: webhook["name"].as_str().unwrap_or_default().to_owned(),
            review_version: versions.iter().find_map(known),
            ignores_failures: webhook["failurePolicy"] == "Ignore",
            is_free_of_side_effects: ["None", "NoneOnDryRun"].iter().any(|effects| webhook["sideEffects"] == *effects),
            is_called_again: webhook["reinvocationPolicy"] == "IfNeeded",
            timeout,
            connection: WebhookConnection::new(WebhookClient { target: WebhookTarget::Url(url), ca_bundle }, timeout),
            namespaces: Selector::of_labels(&webhook["namespaceSelector"])?,
            rules: webhook["rules"].as_array().into_iter().flatten().map(Rule::new).collect(),
            matches_equivalent: webhook["matchPolicy"] != "Exact",
            objects: Selector::of_labels(&webhook["objectSelector"])?,
            conditions: conditions.map(MatchCondition::new).collect(),
        })
    }

    /// Returns whether a rule matches the resource of a write in some version, whatever the operation is.
    pub(super) fn may_match(&self, write: &ReviewedWrite) -> bool {
        self.rules.iter().any(|rule| rule.matches_resource(write))
    }

    /// Returns the version in which the webhook is called for a write, by its rules and selectors; `None` if it is not.
    /// `namespace` is the namespace of the resource.
    pub(super) fn version_for<'w>(&self, write: &'w ReviewedWrite, namespace: Option<&Value>) -> Option<&'w str> {
        let is_selected = match namespace {
            _ if self.namespaces.is_unconditional() => true,
            Some(namespace) => self.namespaces.matches_labels(namespace),
            // Of cluster-scoped resources, only namespaces are selected.
            None => write.namespace.is_empty() || self.namespaces.matches_labels(&Value::Null),
        };
        let mut objects = [&write.object, &write.old_object].into_iter().flatten();
        if !is_selected
            || !(self.objects.is_unconditional() || objects.any(|object| self.objects.matches_labels(object)))
        {
            return None;
        }
        let matching: Vec<&Rule> = self.rules.iter().filter(|rule| rule.matches(write)).collect();
        let of_version = |version: &&str| matching.iter().any(|rule| includes(&rule.versions, version));
        let own = write.kind.version.as_str();
        if of_version(&own) {
            return Some(own);
        }
        if !self.matches_equivalent {
            return None;
        }
        let first =
            |rule: &&Rule| write.versions.iter().map(String::as_str).find(|version| includes(&rule.versions, version));
        matching.iter().find_map(first)
    }

    /// Returns whether the match conditions hold.
    ///
    /// # Errors
    /// The failures of conditions, if none of the others is false, for a person.
    pub(super) fn meets_conditions(&self, request: &Value) -> Result<bool, String> {
        let mut budget = Budget::new(CONDITIONS_COST_MAX);
        let mut failures = Vec::new();
        for condition in &self.conditions {
            match condition.holds(request, &mut budget) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(failure) => failures.push(failure),
            }
        }
        match failures.as_slice() {
            [] => Ok(true),
            _ if self.ignores_failures => Ok(false),
            [failure] => Err(failure.clone()),
            failures => Err(format!("[{}]", failures.join(", "))),
        }
    }

    pub(super) fn has_conditions(&self) -> bool {
        !self.conditions.is_empty()
    }
}

impl Rule {
    fn new(rule: &Value) -> Self {
        Self {
            operations: texts(&rule["operations"]),
            groups: texts(&rule["apiGroups"]),
            versions: texts(&rule["apiVersions"]),
            resources: texts(&rule["resources"]),
            scope: rule["scope"].as_str().unwrap_or("*").to_owned(),
        }
    }

    fn matches(&self, write: &ReviewedWrite) -> bool {
        includes(&self.operations, write.operation) && self.matches_resource(write)
    }

    fn matches_resource(&self, write: &ReviewedWrite) -> bool {
        let is_in_scope = match self.scope.as_str() {
            "Namespaced" => !write.namespace.is_empty() && !write.is_of_namespace(),
            "Cluster" => write.namespace.is_empty() || write.is_of_namespace(),
            _ => true,
        };
        let is_resource = |resource: &String| {
            let (plural, part) = resource.split_once('/').unwrap_or((resource, ""));
            (plural == "*" || plural == write.plural) && (part == "*" || part == write.part)
        };
        is_in_scope && includes(&self.groups, &write.kind.group) && self.resources.iter().any(is_resource)
    }
}

impl MatchCondition {
    fn new(condition: &Value) -> Self {
        let source = condition["expression"].as_str().unwrap_or_default().to_owned();
        let expression = Expression::compile(&source, &VARIABLES.map(|name| (name, Type::Dyn)));
        Self {
            source,
            expression: expression.map_err(|error| format!("compilation error: compilation failed: {error}")),
        }
    }

    fn holds(&self, request: &Value, budget: &mut Budget) -> Result<bool, String> {
        let expression = self.expression.as_ref().map_err(Clone::clone)?;
        let [object, old, request] = [&request["object"], &request["oldObject"], request];
        let values = [object, old, request].map(|value| Variable::Document(value, &Type::Dyn));
        let variables: Vec<(&str, Variable<'_>)> = VARIABLES.into_iter().zip(values).collect();
        match expression.evaluate(&variables, budget) {
            Ok(Output::Bool(holds)) => Ok(holds),
            Ok(_) => Err("must evaluate to bool".to_owned()),
            Err(error) => Err(format!("expression '{}' resulted in error: {error}", self.source)),
        }
    }
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn includes(list: &[String], wanted: &str) -> bool {
    list.iter().any(|item| item == "*" || item == wanted)
}
