//! Selectors of resources.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bindings::imports::homeostat::reconciler::types::{self as wit, LabelRequirement};

/// Selects resources of a kind. All conditions must hold; the host evaluates them.
///
/// ```
/// use homeostat_sdk::Selector;
///
/// let mine = Selector::everything().in_namespace("shop").label("app", "web").without_label("retired");
/// ```
#[derive(Debug, Clone)]
pub struct Selector {
    pub(crate) selector: wit::Selector,
}

impl Selector {
    /// Selects every resource of the kind, in every namespace that the controller may read.
    #[must_use]
    pub fn everything() -> Self {
        Self { selector: wit::Selector { namespace: None, labels: Vec::new(), fields: Vec::new(), owner: None } }
    }

    /// Selects only one namespace.
    #[must_use]
    pub fn in_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.selector.namespace = Some(namespace.into());
        self
    }

    /// Selects resources whose label has this value.
    #[must_use]
    pub fn label(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.requirement(LabelRequirement::Equals((name.into(), value.into())))
    }

    /// Selects resources whose label is absent or has another value.
    #[must_use]
    pub fn label_not(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.requirement(LabelRequirement::NotEquals((name.into(), value.into())))
    }

    /// Selects resources whose label has one of these values. At most 64.
    #[must_use]
    pub fn label_in<V: Into<String>>(self, name: impl Into<String>, values: impl IntoIterator<Item = V>) -> Self {
        self.requirement(LabelRequirement::OneOf((name.into(), values.into_iter().map(Into::into).collect())))
    }

    /// Selects resources whose label is absent or has none of these values. At most 64.
    #[must_use]
    pub fn label_not_in<V: Into<String>>(self, name: impl Into<String>, values: impl IntoIterator<Item = V>) -> Self {
        self.requirement(LabelRequirement::NoneOf((name.into(), values.into_iter().map(Into::into).collect())))
    }

    /// Selects resources that have the label, with any value.
    #[must_use]
    pub fn with_label(self, name: impl Into<String>) -> Self {
        self.requirement(LabelRequirement::Exists(name.into()))
    }

    /// Selects resources that do not have the label.
    #[must_use]
    pub fn without_label(self, name: impl Into<String>) -> Self {
        self.requirement(LabelRequirement::Absent(name.into()))
    }

    /// Selects resources with this string at this JSON pointer (RFC 6901): `("/spec/nodeName", "a")`. At most
    /// 16.
    #[must_use]
    pub fn field(mut self, pointer: impl Into<String>, value: impl Into<String>) -> Self {
        self.selector.fields.push((pointer.into(), value.into()));
        self
    }

    /// Selects resources that match a document's label selector. One without conditions matches every
    /// resource.
    #[must_use]
    pub fn matching(mut self, labels: &LabelSelector) -> Self {
        for (name, value) in &labels.match_labels {
            self = self.label(name, value);
        }
        for expression in &labels.match_expressions {
            let Expression { key, operator, values } = expression;
            self = match operator {
                Operator::In => self.label_in(key, values),
                Operator::NotIn => self.label_not_in(key, values),
                Operator::Exists => self.with_label(key),
                Operator::DoesNotExist => self.without_label(key),
            };
        }
        self
    }

    fn requirement(mut self, requirement: LabelRequirement) -> Self {
        self.selector.labels.push(requirement);
        self
    }

    pub(crate) fn into_wit(self) -> wit::Selector {
        self.selector
    }
}

/// A label selector of a document, like `spec.selector` of a Deployment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// Labels and their values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Further conditions. All must hold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<Expression>,
}

/// One condition of a [`LabelSelector`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Expression {
    /// The label.
    pub key: String,
    /// The comparison.
    pub operator: Operator,
    /// The values to compare with, if the operator takes any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// The comparison of an [`Expression`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Operator {
    /// The label has one of the values.
    In,
    /// The label is absent or has none of the values.
    NotIn,
    /// The label exists.
    Exists,
    /// The label is absent.
    DoesNotExist,
}

impl LabelSelector {
    /// Returns whether it has no conditions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }

    /// Returns whether these labels meet every condition.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let equal = self.match_labels.iter().all(|(name, value)| labels.get(name) == Some(value));
        equal
            && self.match_expressions.iter().all(|Expression { key, operator, values }| match operator {
                Operator::In => labels.get(key).is_some_and(|value| values.contains(value)),
                Operator::NotIn => labels.get(key).is_none_or(|value| !values.contains(value)),
                Operator::Exists => labels.contains_key(key),
                Operator::DoesNotExist => !labels.contains_key(key),
            })
    }
}

#[cfg(test)]
mod tests;
