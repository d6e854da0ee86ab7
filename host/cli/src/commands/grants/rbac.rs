//! Converts grants to Kubernetes Roles. Pure. The Roles never allow more than the grants, except where a note
//! says so.

use std::collections::{BTreeMap, BTreeSet};

use homeostat_component::{Grants, ResourceGrant, Verb};
use serde_json::{Value, json};

/// Returns the plural of a kind by group and name, if known.
pub(super) type Plural<'a> = dyn Fn(&str, &str) -> Option<String> + 'a;

/// Roles, and notes about what they do not cover.
#[derive(Debug, Default)]
pub(super) struct Roles {
    /// ClusterRoles and Roles.
    pub(super) documents: Vec<Value>,
    /// One sentence each.
    pub(super) notes: Vec<String>,
}

/// The subject of one rule: its API group, and the names to which it is limited, if any.
pub(super) type Subject = (String, BTreeSet<String>);
/// Resources by subject and verbs, for example `deployments` and `deployments/status`.
pub(super) type Rules = BTreeMap<(Subject, Vec<&'static str>), BTreeSet<String>>;

impl Roles {
    /// Adds the Roles of one controller: a ClusterRole for its cluster-wide grants, and a Role for each
    /// namespace.
    pub(super) fn add(&mut self, controller: &str, grants: &Grants, plural: &Plural<'_>) {
        // The empty namespace stands for the whole cluster.
        let mut places: BTreeMap<String, Rules> = BTreeMap::new();
        for grant in &grants.resources {
            let rules = self.rules(controller, grant, plural);
            for namespace in self.namespaces(controller, grant) {
                let place = places.entry(namespace).or_default();
                for (key, resources) in &rules {
                    place.entry(key.clone()).or_default().extend(resources.iter().cloned());
                }
            }
        }
        self.documents.extend(places.into_iter().map(|(namespace, rules)| role(controller, &namespace, rules)));
    }

    pub(super) fn note(&mut self, controller: &str, text: String) {
        let note = format!("{controller}: {text}");
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Returns the namespaces of a grant. The empty namespace stands for all, and for cluster-scoped
    /// resources.
    pub(super) fn namespaces(&mut self, controller: &str, grant: &ResourceGrant) -> Vec<String> {
        if grant.namespaces.iter().any(|namespace| namespace == "*") {
            return vec![String::new()];
        }
        let mut places = Vec::new();
        for namespace in &grant.namespaces {
            if namespace.contains('*') {
                self.note(controller, format!("left out: Kubernetes has no pattern of namespaces like {namespace:?}"));
                continue;
            }
            if namespace.is_empty() {
                self.note(
                    controller,
                    "cluster-scoped resources need a ClusterRole, which covers all namespaces too".to_owned(),
                );
            }
            places.push(namespace.clone());
        }
        places
    }

    fn rules(&mut self, controller: &str, grant: &ResourceGrant, plural: &Plural<'_>) -> Rules {
        let Some(names) = self.names(controller, grant) else { return Rules::new() };
        let (mut whole, status) = verbs(&grant.verbs);
        if !names.is_empty() && whole.contains(&"create") {
            whole.retain(|verb| *verb != "create");
            self.note(controller, "left out: Kubernetes cannot allow creating by name".to_owned());
        }
        let mut rules = Rules::new();
        for kind in &grant.kinds {
            let Some((group, resource)) = self.resource(controller, kind, plural) else { continue };
            let subject = (group, names.clone());
            if whole.contains(&"watch") && !whole.contains(&"list") {
                self.note(
                    controller,
                    format!("{kind} may be watched and not listed: a client of Kubernetes lists before it watches, and is shown whole documents by both"),
                );
            }
            if !whole.is_empty() {
                rules.entry((subject.clone(), whole.clone())).or_default().insert(resource.clone());
            }
            if !status.is_empty() {
                rules.entry((subject, status.clone())).or_default().insert(format!("{resource}/status"));
            }
        }
        rules
    }

    /// Returns the names of a grant; an empty set means all names. Returns `None` if the grant has only
    /// patterns, which Kubernetes does not support.
    pub(super) fn names(&mut self, controller: &str, grant: &ResourceGrant) -> Option<BTreeSet<String>> {
        if grant.names.iter().any(|name| name == "*") {
            return Some(BTreeSet::new());
        }
        let (patterns, names): (Vec<&String>, Vec<&String>) = grant.names.iter().partition(|name| name.contains('*'));
        for pattern in patterns {
            self.note(controller, format!("left out: Kubernetes has no pattern of names like {pattern:?}"));
        }
        (!names.is_empty()).then(|| names.into_iter().cloned().collect())
    }

    /// Returns the API group and the resource of a kind.
    pub(super) fn resource(&mut self, controller: &str, kind: &str, plural: &Plural<'_>) -> Option<(String, String)> {
        let (group, name) = if kind == "*" { ("*", "*") } else { kind.split_once('/').unwrap_or(("", kind)) };
        if [group, name].iter().any(|part| part.contains('*') && *part != "*") {
            self.note(controller, format!("left out: Kubernetes has no pattern of kinds like {kind:?}"));
            return None;
        }
        if name == "*" {
            self.note(
                controller,
                format!("{kind:?} covers every subresource in Kubernetes, such as pods/exec; name the kinds"),
            );
            return Some((group.to_owned(), name.to_owned()));
        }
        let known = plural(group, name);
        let resource = known.unwrap_or_else(|| {
            let guess = guess(name);
            self.note(controller, format!("the plural of {kind} is assumed to be {guess}"));
            guess
        });
        Some((group.to_owned(), resource))
    }
}

/// Returns the verbs for a resource, and those for its status.
///
/// An apply is a patch, or a create if the resource does not exist. Source: Kubernetes' PATCH handler, which
/// checks both verbs.
pub(super) fn verbs(granted: &[Verb]) -> (Vec<&'static str>, Vec<&'static str>) {
    const ORDER: [&str; 7] = ["get", "list", "watch", "create", "update", "patch", "delete"];
    let has = |verbs: &[Verb]| granted.iter().any(|verb| *verb == Verb::Any || verbs.contains(verb));
    let is_granted = |verb: &&str| match *verb {
        "get" => has(&[Verb::Get]),
        "list" => has(&[Verb::List]),
        "watch" => has(&[Verb::Watch]),
        "create" => has(&[Verb::Create, Verb::Apply]),
        "update" => has(&[Verb::Update]),
        "patch" => has(&[Verb::Patch, Verb::Apply]),
        _ => has(&[Verb::Delete]),
    };
    let status = if has(&[Verb::UpdateStatus]) { vec!["update", "patch"] } else { Vec::new() };
    (ORDER.into_iter().filter(is_granted).collect(), status)
}

pub(super) fn role(controller: &str, namespace: &str, rules: Rules) -> Value {
    let rules: Vec<Value> = rules
        .into_iter()
        .map(|(((group, names), verbs), resources)| {
            let mut rule = json!({ "apiGroups": [group], "resources": resources, "verbs": verbs });
            if !names.is_empty() {
                rule["resourceNames"] = json!(names);
            }
            rule
        })
        .collect();
    let (kind, metadata) = if namespace.is_empty() {
        ("ClusterRole", json!({ "name": controller }))
    } else {
        ("Role", json!({ "name": controller, "namespace": namespace }))
    };
    json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata, "rules": rules })
}

/// Guesses the plural of a kind: the regular English one, in lower case.
fn guess(kind: &str) -> String {
    let word = kind.to_lowercase();
    let ends_in_vowel_and_y = ["ay", "ey", "iy", "oy", "uy"].iter().any(|end| word.ends_with(end));
    if word.ends_with("endpoints") {
        return word;
    }
    match word.strip_suffix('y') {
        Some(stem) if !ends_in_vowel_and_y => format!("{stem}ies"),
        _ if ["s", "x", "ch", "sh"].iter().any(|end| word.ends_with(end)) => format!("{word}es"),
        _ => format!("{word}s"),
    }
}
