//! The stored roles and bindings, by whom they are about.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use homeostat_builtin::USER_ROLES;
use serde_json::Value;

use super::{Attributes, PolicyRule, RULES_MAX, Subject};
use crate::caller::{Caller, service_account_user};

/// The group whose members may do everything. Source: Kubernetes.
const MASTERS: &str = "system:masters";
/// Most rules that stored bindings give together. Further bindings have no effect.
pub(crate) const GIVEN_RULES_MAX: usize = 100_000;

/// The rights that stored bindings give, by user and by group.
#[derive(Debug, Default)]
pub(crate) struct RoleBook {
    users: HashMap<String, Vec<PolicyRule>>,
    groups: HashMap<String, Vec<PolicyRule>>,
    /// Cluster roles and roles by namespace and name, for bindings. Those of the cluster have no namespace.
    roles: HashMap<(String, String), Vec<PolicyRule>>,
    /// Bindings that have no effect, because there are too many rules.
    pub(crate) left_out: usize,
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
            let Some(rules) = book.role(namespace, &binding["roleRef"]) else { continue };
            let rules: Vec<PolicyRule> = match namespace {
                "" => rules.to_vec(),
                namespace => rules.iter().map(|rule| rule.clone().within(namespace)).collect(),
            };
            for subject in binding["subjects"].as_array().into_iter().flatten() {
                let name = subject["name"].as_str().unwrap_or_default();
                let (list, name) = match subject["kind"].as_str() {
                    Some("User") => (&mut book.users, name.to_owned()),
                    Some("Group") => (&mut book.groups, name.to_owned()),
                    Some("ServiceAccount") => {
                        let of = subject["namespace"].as_str().unwrap_or(namespace);
                        (&mut book.users, service_account_user(of, name))
                    }
                    _ => continue,
                };
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
