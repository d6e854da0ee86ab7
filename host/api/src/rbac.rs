//! Rights in the words of Kubernetes' role-based access control: rules of verbs, groups, resources and namespaces. Pure.
//!
//! Source: the group `rbac.authorization.k8s.io` of Kubernetes. Rights add up, and nothing takes one away.

pub(crate) mod role_book;

use serde::Deserialize;

/// Most rules of one role or token.
pub(crate) const RULES_MAX: usize = 1_000;

/// A rule of a role or a token.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PolicyRule {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, or `*` for all.
    #[serde(default)]
    pub(crate) verbs: Vec<String>,
    /// API groups; `""` is the core group, and `*` all.
    #[serde(default)]
    pub(crate) api_groups: Vec<String>,
    /// `pods`, `pods/status`, `*/status`, or `*` for all.
    #[serde(default)]
    pub(crate) resources: Vec<String>,
    /// Names of resources; empty for all.
    #[serde(default)]
    pub(crate) resource_names: Vec<String>,
    /// Paths outside of resources, as `/metrics` or `/openapi/*`.
    #[serde(default, rename = "nonResourceURLs")]
    pub(crate) paths: Vec<String>,
    /// Namespaces; empty for all, and for resources without one.
    #[serde(default)]
    pub(crate) namespaces: Vec<String>,
}

/// Verb and object of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Attributes<'r> {
    pub(crate) verb: &'r str,
    pub(crate) about: Subject<'r>,
}

/// The object of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Subject<'r> {
    Resource {
        group: &'r str,
        plural: &'r str,
        subresource: Option<&'r str>,
        namespace: Option<&'r str>,
        name: Option<&'r str>,
    },
    Path(&'r str),
}

impl PolicyRule {
    /// Returns a rule that allows these verbs everywhere.
    pub(crate) fn everywhere(verbs: &[&str]) -> Self {
        let all = || vec!["*".to_owned()];
        let verbs = verbs.iter().map(|verb| (*verb).to_owned()).collect();
        Self { verbs, api_groups: all(), resources: all(), paths: all(), ..Self::default() }
    }

    /// Returns the rule for one namespace alone.
    pub(crate) fn within(mut self, namespace: &str) -> Self {
        self.namespaces = vec![namespace.to_owned()];
        // A role in a namespace says nothing of paths.
        self.paths.clear();
        self
    }

    /// Returns whether the rule allows a request.
    pub(crate) fn allows(&self, request: &Attributes<'_>) -> bool {
        if !has(&self.verbs, request.verb) {
            return false;
        }
        match request.about {
            Subject::Path(path) => self.paths.iter().any(|allowed| covers_path(allowed, path)),
            Subject::Resource { group, plural, subresource, namespace, name } => {
                has(&self.api_groups, group)
                    && self.resources.iter().any(|resource| covers_resource(resource, plural, subresource))
                    && (self.resource_names.is_empty()
                        || name.is_some_and(|name| self.resource_names.iter().any(|allowed| allowed == name)))
                    && (self.namespaces.is_empty()
                        || namespace.is_some_and(|namespace| self.namespaces.iter().any(|one| one == namespace)))
            }
        }
    }

    /// Returns the requests that the rule allows, each with one verb, group, resource and name. They are a finite list,
    /// because a `*` stands for itself.
    pub(crate) fn requests(&self) -> Vec<Attributes<'_>> {
        let mut all = Vec::new();
        let names: Vec<Option<&str>> = match self.resource_names.is_empty() {
            true => vec![None],
            false => self.resource_names.iter().map(|name| Some(&**name)).collect(),
        };
        let namespaces: Vec<Option<&str>> = match self.namespaces.is_empty() {
            true => vec![None],
            false => self.namespaces.iter().map(|namespace| Some(&**namespace)).collect(),
        };
        for verb in &self.verbs {
            for group in &self.api_groups {
                for resource in &self.resources {
                    let (plural, subresource) = match resource.split_once('/') {
                        Some((plural, subresource)) => (plural, Some(subresource)),
                        None => (&**resource, None),
                    };
                    for name in &names {
                        for namespace in &namespaces {
                            let (name, namespace) = (*name, *namespace);
                            let about = Subject::Resource { group, plural, subresource, namespace, name };
                            all.push(Attributes { verb, about });
                        }
                    }
                }
            }
            all.extend(self.paths.iter().map(|path| Attributes { verb, about: Subject::Path(path) }));
        }
        all
    }
}

/// Returns the first request that some rules would allow and others do not: a caller with the others must not give the
/// former away.
pub(crate) fn escalation<'r>(
    given: &'r [PolicyRule],
    is_allowed: impl Fn(&Attributes<'_>) -> bool,
) -> Option<Attributes<'r>> {
    given.iter().flat_map(PolicyRule::requests).find(|request| !is_allowed(request))
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|one| one == "*" || one == wanted)
}

fn covers_resource(allowed: &str, plural: &str, subresource: Option<&str>) -> bool {
    match (allowed, allowed.split_once('/'), subresource) {
        ("*", ..) => true,
        (_, Some((of, part)), Some(subresource)) => (of == "*" || of == plural) && part == subresource,
        (_, None, None) => allowed == plural,
        _ => false,
    }
}

fn covers_path(allowed: &str, path: &str) -> bool {
    match allowed.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => allowed == path,
    }
}

#[cfg(test)]
mod tests;
