//! The stored roles and bindings, by whom they are about.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use homeostat_builtin::USER_ROLES;
use serde_json::Value;

use super::{Attributes, PolicyRule, RULES_MAX, Subject};
use crate::caller::{Caller, service_account_user};

/// The group whose members may do everything. Source: Kubernetes.
const MASTERS: &str = "system:masters";
/// Most bindings to missing roles that are remembered.
const MISSING_ROLES_MAX: usize = 1000;
/// Most rules that stored bindings give together. Further bindings have no effect.
pub(crate) const GIVEN_RULES_MAX: usize = 100_000;

/// The rights that stored bindings give, by user and by group.
#[derive(Debug, Default)]
pub(crate) struct RoleBook {
    users: HashMap<String, Vec<PolicyRule>>,
    groups: HashMap<String, Vec<PolicyRule>>,
    /// Cluster roles and roles by namespace and name, for bindings. Those of the cluster have no namespace.
    roles: HashMap<(String, String), Vec<PolicyRule>>,
    /// The roles of bindings that do not exist.
    missing: Vec<MissingRole>,
    /// Bindings that have no effect, because there are too many rules.
    pub(crate) left_out: usize,
}

/// A role that a binding refers to, and that does not exist.
#[derive(Debug)]
struct MissingRole {
    /// The namespace of the binding; empty for one of the cluster.
    namespace: String,
    /// Why the binding gives no rights.
    reason: String,
    users: Vec<String>,
    groups: Vec<String>,
}

/// The stored documents of the four kinds.
#[derive(Debug, Default)]
pub(crate) struct RoleDocuments {
    pub(crate) roles: Vec<Value>,
    pub(crate) cluster_roles: Vec<Value>,
    pub(crate) bindings: Vec<Value>,
    pub(crate) cluster_bindings: Vec<Value>,
}

impl RoleBook {
    /// Builds the book. A binding to a role that does not exist gives no rights.
    pub(crate) fn new(documents: &RoleDocuments) -> Self {
        let mut book = Self::default();
        for role in documents.roles.iter().chain(&documents.cluster_roles) {
            book.roles.insert((namespace_of(role).to_owned(), name_of(role).to_owned()), rules_of(role));
        }
        for (name, rules) in USUAL_ROLES.iter() {
            book.roles.entry((String::new(), name.clone())).or_insert_with(|| rules.clone());
        }
        let mut given = 0;
        for binding in documents.bindings.iter().chain(&documents.cluster_bindings) {
            let namespace = namespace_of(binding);
            let (users, groups) = subjects_of(binding);
            let Some(rules) = book.role(namespace, &binding["roleRef"]) else {
                if book.missing.len() < MISSING_ROLES_MAX {
                    let (namespace, reason) = (namespace.to_owned(), missing_reason(&binding["roleRef"]));
                    book.missing.push(MissingRole { namespace, reason, users, groups });
                }
                continue;
            };
            let rules: Vec<PolicyRule> = match namespace {
                "" => rules.to_vec(),
                namespace => rules.iter().map(|rule| rule.clone().within(namespace)).collect(),
            };
            let users = users.into_iter().map(|name| (true, name));
            for (is_user, name) in users.chain(groups.into_iter().map(|name| (false, name))) {
                let list = if is_user { &mut book.users } else { &mut book.groups };
                given += rules.len();
                if given > GIVEN_RULES_MAX {
                    book.left_out += 1;
                    continue;
                }
                list.entry(name).or_default().extend(rules.iter().cloned());
            }
        }
        book
    }

    /// Returns the rules of the role that a binding refers to; `None` if there is no such role.
    pub(crate) fn role(&self, namespace: &str, reference: &Value) -> Option<&[PolicyRule]> {
        let name = reference["name"].as_str()?.to_owned();
        let namespace = match reference["kind"].as_str()? {
            "ClusterRole" => String::new(),
            "Role" if !namespace.is_empty() => namespace.to_owned(),
            _ => return None,
        };
        self.roles.get(&(namespace, name)).map(Vec::as_slice)
    }

    /// Returns which bindings of a caller give no rights, because their roles do not exist; `None` if there are none. Without a
    /// namespace, those of the cluster count.
    pub(crate) fn missing(&self, caller: &Caller, namespace: Option<&str>) -> Option<String> {
        let is_of_caller = |missing: &&MissingRole| {
            let is_named = |group| missing.groups.iter().any(|named| named == group);
            missing.users.contains(&caller.name) || caller.all_groups().any(is_named)
        };
        let places = ["", namespace.unwrap_or_default()];
        let count = if places[0] == places[1] { 1 } else { 2 };
        let reasons: Vec<&str> = places[..count]
            .iter()
            .flat_map(|place| self.missing.iter().filter(move |missing| missing.namespace == *place))
            .filter(is_of_caller)
            .map(|missing| missing.reason.as_str())
            .collect();
        match reasons[..] {
            [] => None,
            [one] => Some(format!("RBAC: {one}")),
            _ => Some(format!("RBAC: [{}]", reasons.join(", "))),
        }
    }

    /// Returns the rules of a caller.
    pub(crate) fn rules<'b>(&'b self, caller: &'b Caller) -> impl Iterator<Item = &'b PolicyRule> {
        let of_groups = caller.all_groups().filter_map(|group| self.groups.get(group)).flatten();
        self.users.get(&caller.name).into_iter().flatten().chain(of_groups)
    }

    /// Returns whether stored bindings allow a request of a caller.
    pub(crate) fn allows(&self, caller: &Caller, request: &Attributes<'_>) -> bool {
        caller.groups.iter().any(|group| group == MASTERS) || self.rules(caller).any(|rule| rule.allows(request))
    }
}

/// Returns the users and the groups of a binding.
fn subjects_of(binding: &Value) -> (Vec<String>, Vec<String>) {
    let (mut users, mut groups) = (Vec::new(), Vec::new());
    for subject in binding["subjects"].as_array().into_iter().flatten() {
        let name = subject["name"].as_str().unwrap_or_default();
        match subject["kind"].as_str() {
            Some("User") => users.push(name.to_owned()),
            Some("Group") => groups.push(name.to_owned()),
            Some("ServiceAccount") => {
                let of = subject["namespace"].as_str().unwrap_or(namespace_of(binding));
                users.push(service_account_user(of, name));
            }
            _ => {}
        }
    }
    (users, groups)
}

/// Says that a role does not exist, in the words of Kubernetes.
fn missing_reason(reference: &Value) -> String {
    let kind = reference["kind"].as_str().unwrap_or_default().to_lowercase();
    let name = reference["name"].as_str().unwrap_or_default();
    format!("{kind}.rbac.authorization.k8s.io {name:?} not found")
}

fn name_of(document: &Value) -> &str {
    document["metadata"]["name"].as_str().unwrap_or_default()
}

fn namespace_of(document: &Value) -> &str {
    document["metadata"]["namespace"].as_str().unwrap_or_default()
}

/// Returns the rules of a stored role. One that is malformed gives no rights.
pub(crate) fn rules_of(role: &Value) -> Vec<PolicyRule> {
    let rules = role["rules"].as_array().into_iter().flatten().take(RULES_MAX);
    let rules = rules.filter_map(|rule| serde_json::from_value::<PolicyRule>(rule.clone()).ok());
    // Only the rules of tokens name namespaces.
    rules.map(|rule| PolicyRule { namespaces: Vec::new(), ..rule }).collect()
}

/// The cluster roles that every cluster has for its users, unless they are stored here.
static USUAL_ROLES: LazyLock<BTreeMap<String, Vec<PolicyRule>>> = LazyLock::new(|| {
    let mut roles: BTreeMap<String, Vec<PolicyRule>> = serde_json::from_str(USER_ROLES).expect("the data is JSON");
    roles.insert("cluster-admin".to_owned(), vec![PolicyRule::everywhere(&["*"])]);
    roles
});

impl<'r> Attributes<'r> {
    /// Returns the namespace of the resource that a request is about.
    pub(crate) fn namespace(&self) -> Option<&'r str> {
        match self.about {
            Subject::Resource { namespace, .. } => namespace,
            Subject::Path(_) => None,
        }
    }

    /// Returns the attributes of a review; `None` if it names none.
    pub(crate) fn of_review(spec: &'r Value) -> Option<Self> {
        let text = |value: &'r Value, name: &str| value[name].as_str().unwrap_or_default();
        if let Some(of) = spec.get("nonResourceAttributes") {
            return Some(Self { verb: text(of, "verb"), about: Subject::Path(text(of, "path")) });
        }
        let of = spec.get("resourceAttributes")?;
        let some = |name: &str| Some(text(of, name)).filter(|text| !text.is_empty());
        let about = Subject::Resource {
            group: text(of, "group"),
            plural: text(of, "resource"),
            subresource: some("subresource"),
            namespace: some("namespace"),
            name: some("name"),
        };
        Some(Self { verb: text(of, "verb"), about })
    }
}
