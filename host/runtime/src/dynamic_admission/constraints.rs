//! Which writes a webhook, a policy or the binding of a policy is for.

use homeostat_store::Selector;
use serde_json::Value;

use super::reviewed_write::ReviewedWrite;

/// Rules and selectors; all of them must hold.
pub(super) struct Constraints {
    pub(super) namespaces: Selector,
    objects: Selector,
    /// `None` matches every resource.
    rules: Option<Vec<Rule>>,
    excluded: Vec<Rule>,
    matches_equivalent: bool,
}

struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    scope: String,
    /// Empty for all names.
    names: Vec<String>,
}

impl Constraints {
    /// Returns those of a webhook; `None` if a selector is malformed.
    pub(super) fn of_webhook(webhook: &Value) -> Option<Self> {
        Some(Self {
            namespaces: Selector::of_labels(&webhook["namespaceSelector"])?,
            objects: Selector::of_labels(&webhook["objectSelector"])?,
            rules: Some(rules(&webhook["rules"])),
            excluded: Vec::new(),
            matches_equivalent: webhook["matchPolicy"] != "Exact",
        })
    }

    /// Returns the `matchConstraints` of a policy, or the `matchResources` of a binding; `None` if a selector is malformed.
    pub(super) fn of_policy(constraints: &Value) -> Option<Self> {
        Some(Self {
            namespaces: Selector::of_labels(&constraints["namespaceSelector"])?,
            objects: Selector::of_labels(&constraints["objectSelector"])?,
            rules: Some(rules(&constraints["resourceRules"])).filter(|rules| !rules.is_empty()),
            excluded: rules(&constraints["excludeResourceRules"]),
            matches_equivalent: constraints["matchPolicy"] != "Exact",
        })
    }

    /// Returns whether a rule matches the resource of a write in some version, whatever the operation is.
    pub(super) fn may_match(&self, write: &ReviewedWrite) -> bool {
        self.rules.as_ref().is_none_or(|rules| rules.iter().any(|rule| rule.matches_resource(write)))
    }

    /// Returns the version of the kind in which a write matches; `None` if it does not. `namespace` is the namespace of the
    /// resource.
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
        if self.version_by(&self.excluded, write).is_some() {
            return None;
        }
        self.rules.as_ref().map_or(Some(&write.kind.version), |rules| self.version_by(rules, write))
    }

    /// Returns the version in which a rule matches, that of the write first.
    fn version_by<'w>(&self, rules: &[Rule], write: &'w ReviewedWrite) -> Option<&'w str> {
        let matching: Vec<&Rule> = rules.iter().filter(|rule| rule.matches(write)).collect();
        let own = write.kind.version.as_str();
        if matching.iter().any(|rule| includes(&rule.versions, own)) {
            return Some(own);
        }
        if !self.matches_equivalent {
            return None;
        }
        let first =
            |rule: &&Rule| write.versions.iter().map(String::as_str).find(|version| includes(&rule.versions, version));
        matching.iter().find_map(first)
    }
}

fn rules(list: &Value) -> Vec<Rule> {
    list.as_array().into_iter().flatten().map(Rule::new).collect()
}

impl Rule {
    fn new(rule: &Value) -> Self {
        Self {
            operations: texts(&rule["operations"]),
            groups: texts(&rule["apiGroups"]),
            versions: texts(&rule["apiVersions"]),
            resources: texts(&rule["resources"]),
            scope: rule["scope"].as_str().unwrap_or("*").to_owned(),
            names: texts(&rule["resourceNames"]),
        }
    }

    fn matches(&self, write: &ReviewedWrite) -> bool {
        let is_named = self.names.is_empty() || self.names.contains(&write.name);
        includes(&self.operations, write.operation) && is_named && self.matches_resource(write)
    }

    fn matches_resource(&self, write: &ReviewedWrite) -> bool {
        let is_in_scope = match self.scope.as_str() {
            "Namespaced" => !write.namespace.is_empty() && !write.is_of_namespace(),
            "Cluster" => write.namespace.is_empty() || write.is_of_namespace(),
            _ => true,
        };
        let is_resource = |resource: &String| {
            let (plural, part) = resource.split_once('/').unwrap_or((resource, ""));
            (plural == "*" || plural == write.plural) && (part == "*" || part == write.part_name())
        };
        is_in_scope && includes(&self.groups, &write.kind.group) && self.resources.iter().any(is_resource)
    }
}

/// Returns the texts in a list.
pub(super) fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn includes(list: &[String], wanted: &str) -> bool {
    list.iter().any(|item| item == "*" || item == wanted)
}
