//! The capabilities of a controller, as its manifest grants them. Everything else is refused.
//!
//! Grants contain no quantities: those are [`crate::Limits`]. They contain no subject either: a `Grants`
//! belongs to one controller.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use homeostat_store::{Key, Kind};
use serde::{Deserialize, Serialize};

mod address;
mod advice;
mod attempt;
mod check;
mod controllers;
mod inclusion;
mod learn;
mod needs;
mod pattern;
mod watch;

pub use address::AddressRange;
pub(crate) use address::AddressScope;
pub(crate) use advice::{missing_address, missing_http, resource_lines};
pub(crate) use attempt::Attempt;
pub use attempt::Capability;
pub use check::is_secret_name;
pub use controllers::{CREATED_CONTROLLERS_MAX, ComponentPattern, ControllerGrant};
pub use learn::LearnedGrants;
pub use needs::{BYTES_MAX as NEEDS_BYTES_MAX, HttpNeed, Needs, NeedsSnapshot, ResourceNeed};
pub use pattern::matches_glob;
use pattern::matches_url;
pub use watch::Disclosure;

/// All capabilities of one controller. The default grants nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Grants {
    /// Resource grants: one that covers a call is enough.
    pub resources: Vec<ResourceGrant>,
    /// HTTP grants: one that covers a request is enough.
    pub http: Vec<HttpGrant>,
    /// Controllers that this controller may create. Each has no more grants than this one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub controllers: Vec<ControllerGrant>,
    /// Further grants that must also cover each request, see [`Grants::limited_to`]. Not a part of manifests.
    #[serde(skip)]
    pub limited_to: Option<Arc<Grants>>,
}

/// Permission for some verbs on resources of some kinds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceGrant {
    /// `GROUP/KIND`, or `KIND` for the core group, each part a pattern: `apps/Deployment`, `Pod`, `apps/*`. A
    /// single `*` means every kind of every group.
    pub kinds: Vec<String>,
    /// The granted verbs.
    pub verbs: Vec<Verb>,
    /// Patterns of namespaces; `*` means all. Cluster-scoped resources are covered by `*` and by the empty
    /// pattern.
    #[serde(default = "everything")]
    pub namespaces: Vec<String>,
    /// Patterns of names; absent means all.
    #[serde(default = "everything")]
    pub names: Vec<String>,
}

/// A verb on resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    /// Read one.
    Get,
    /// Read many.
    List,
    /// Receive changes: of the managed kind, of the watches in `describe`, of followed resources.
    Watch,
    /// Create one.
    Create,
    /// Replace everything but the status.
    Update,
    /// Replace the status.
    UpdateStatus,
    /// Change in place.
    Patch,
    /// Server-side apply: create, or set the named fields.
    Apply,
    /// Delete one.
    Delete,
    /// Put a key on the controller's own queue, whose resource need not exist. The kind is the managed one.
    Enqueue,
    /// All of these.
    #[serde(rename = "*")]
    Any,
}

impl Verb {
    /// Returns the verb as manifests have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::UpdateStatus => "update-status",
            Self::Patch => "patch",
            Self::Apply => "apply",
            Self::Delete => "delete",
            Self::Enqueue => "enqueue",
            Self::Any => "*",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Permission for some HTTP requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpGrant {
    /// Patterns of whole URLs: `https://api.example.com/v1/*`. Scheme, host and port must be the same. In the
    /// host, a leading `*.` stands for one or more labels, and a host `*` for any host; a `*` in the path
    /// stands for any text.
    pub urls: Vec<String>,
    /// Methods; absent means `GET` and `HEAD`. `*` means all but `TRACE`, `TRACK` and `CONNECT`, which are
    /// never granted.
    #[serde(default = "safe_methods")]
    pub methods: Vec<String>,
    /// Non-public address ranges that requests may connect to, whichever name resolves to them; absent means
    /// none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<AddressRange>,
    /// Headers that the host adds. The guest never sees them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, HeaderSource>,
}

/// The source of a header's value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum HeaderSource {
    /// A literal text.
    Value(String),
    /// The secret of this name: 1 to 253 of the characters `a` to `z`, `A` to `Z`, `0` to `9`, `-`, `_` and
    /// `.`, a dot never first.
    Secret(String),
}

fn everything() -> Vec<String> {
    vec!["*".to_owned()]
}

fn safe_methods() -> Vec<String> {
    vec!["GET".to_owned(), "HEAD".to_owned()]
}

/// An access to resources that a controller asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessRequest<'a> {
    /// The verb.
    pub verb: Verb,
    /// The kind of the resources. The version does not matter.
    pub kind: &'a Kind,
    /// The namespace; `None` for all of them. Empty: outside of namespaces.
    pub namespace: Option<&'a str>,
    /// The name; `None` for all of them.
    pub name: Option<&'a str>,
}

impl Grants {
    /// Returns grants of everything: for questions about a component, and for tests of its author.
    pub fn everything() -> Self {
        let all = || vec!["*".to_owned()];
        Self {
            resources: vec![ResourceGrant { kinds: all(), verbs: vec![Verb::Any], namespaces: all(), names: all() }],
            http: vec![HttpGrant {
                urls: all(),
                methods: all(),
                addresses: AddressRange::ALL.to_vec(),
                headers: BTreeMap::new(),
            }],
            controllers: Vec::new(),
            limited_to: None,
        }
    }

    /// Returns all problems of these grants as written: patterns that can never match. Each message begins
    /// with the path of the field: `resources[0].kinds[1]: …`.
    pub fn problems(&self) -> Vec<String> {
        check::problems(self)
    }

    /// Returns these grants limited to those of `wanted`: a request that one of both does not cover is
    /// refused. Watches, and the results of [`Grants::learn`], follow these grants alone. An earlier limit is
    /// replaced.
    #[must_use]
    pub fn limited_to(&self, wanted: &Self) -> Self {
        let Self { resources, http, controllers, limited_to: _ } = self.clone();
        let is_there = resources.iter().all(|grant| wanted.resources.contains(grant))
            && http.iter().all(|grant| wanted.http.contains(grant))
            && controllers.iter().all(|grant| wanted.controllers.contains(grant));
        let limited_to = (!is_there).then(|| Arc::new(Self { limited_to: None, ..wanted.clone() }));
        Self { resources, http, controllers, limited_to }
    }

    /// Returns whether other grants have the same lines, regardless of their limits.
    pub fn has_lines_of(&self, other: &Self) -> bool {
        self.resources == other.resources && self.http == other.http && self.controllers == other.controllers
    }

    /// Returns the grant by which this controller may create controllers of a name, if there is one.
    pub fn controller_grant(&self, name: &str) -> Option<&ControllerGrant> {
        let own = self.controllers.iter().find(|grant| grant.covers_name(name))?;
        let is_kept = self.limited_to.as_deref().is_none_or(|wanted| wanted.controllers.contains(own));
        is_kept.then_some(own)
    }

    /// Returns the first line of `other` that these grants do not include, as a path: `resources[0]`. `None` when
    /// `other` allows nothing that these grants refuse.
    pub fn first_excess(&self, other: &Self) -> Option<String> {
        inclusion::first_excess(self, other)
    }

    fn all_allow(&self, says: impl Fn(&Self) -> bool) -> bool {
        says(self) && self.limited_to.as_deref().is_none_or(says)
    }

    /// Returns the names of the secrets in these grants.
    pub fn secrets(&self) -> BTreeSet<&str> {
        let headers = self.http.iter().flat_map(|grant| grant.headers.values());
        headers
            .filter_map(|source| match source {
                HeaderSource::Secret(name) => Some(name.as_str()),
                HeaderSource::Value(_) => None,
            })
            .collect()
    }

    /// Returns whether some grant covers `request`.
    pub fn allows(&self, request: &AccessRequest<'_>) -> bool {
        self.all_allow(|grants| grants.resources.iter().any(|grant| grant.covers(request)))
    }

    /// Returns whether some grant covers a part of `request`: its verb and kind, and its namespace and name
    /// if they are given.
    pub fn allows_some(&self, request: &AccessRequest<'_>) -> bool {
        self.all_allow(|grants| grants.resources.iter().any(|grant| grant.touches(request)))
    }

    /// Returns whether any verb is granted on a resource.
    pub fn allows_any(&self, key: &Key) -> bool {
        let (namespace, name) = (Some(key.namespace()), Some(key.name()));
        let is_about = |grant: &ResourceGrant| {
            !grant.verbs.is_empty()
                && grant.covers_kind(key.kind())
                && covers_text(&grant.namespaces, namespace)
                && covers_text(&grant.names, name)
        };
        self.all_allow(|grants| grants.resources.iter().any(is_about))
    }

    /// Returns the smallest subset of these grants that allows the recorded accesses; see [`LearnedGrants`].
    pub fn learn(&self, seen: &NeedsSnapshot) -> LearnedGrants {
        learn::learn(self, seen)
    }

    /// Returns the first grant that covers an HTTP request, if there is one. Of limited grants, it is the
    /// limit's grant, with its current headers.
    pub fn http_grant(&self, method: &str, url: &str) -> Option<&HttpGrant> {
        let own = self.http.iter().find(|grant| grant.covers(method, url))?;
        self.limited_to.as_deref().map_or(Some(own), |wanted| wanted.http_grant(method, url))
    }

    /// Returns the non-public address ranges to which a request may go: those of all grants that cover it.
    pub(crate) fn http_addresses(&self, method: &str, url: &str) -> BTreeSet<AddressRange> {
        let covering = self.http.iter().filter(|grant| grant.covers(method, url));
        let own: BTreeSet<AddressRange> = covering.flat_map(|grant| grant.addresses.iter().copied()).collect();
        let Some(wanted) = self.limited_to.as_deref() else { return own };
        own.intersection(&wanted.http_addresses(method, url)).copied().collect()
    }
}

impl ResourceGrant {
    fn covers(&self, request: &AccessRequest<'_>) -> bool {
        self.covers_verb_and_kind(request)
            && covers_text(&self.namespaces, request.namespace)
            && covers_text(&self.names, request.name)
    }

    fn touches(&self, request: &AccessRequest<'_>) -> bool {
        self.covers_verb_and_kind(request)
            && (request.namespace.is_none() || covers_text(&self.namespaces, request.namespace))
            && (request.name.is_none() || covers_text(&self.names, request.name))
    }

    fn covers_verb_and_kind(&self, request: &AccessRequest<'_>) -> bool {
        let verb = self.verbs.iter().any(|verb| *verb == Verb::Any || *verb == request.verb);
        verb && self.covers_kind(request.kind)
    }

    fn covers_kind(&self, kind: &Kind) -> bool {
        self.kinds.iter().any(|pattern| covers_kind(pattern, kind))
    }
}

impl HttpGrant {
    fn covers(&self, method: &str, url: &str) -> bool {
        self.has_method(method) && self.urls.iter().any(|pattern| matches_url(pattern, url))
    }

    fn has_method(&self, method: &str) -> bool {
        !is_never_sent(method)
            && self.methods.iter().any(|granted| granted == "*" || granted.eq_ignore_ascii_case(method))
    }
}

/// Methods that no grant covers. The responses to the first two echo the headers that the host adds, secrets
/// among them. The last one opens a tunnel that grants cannot inspect.
const NEVER_SENT: [&str; 3] = ["TRACE", "TRACK", "CONNECT"];

fn is_never_sent(method: &str) -> bool {
    NEVER_SENT.iter().any(|never| never.eq_ignore_ascii_case(method))
}

/// Returns whether one of `patterns` covers `text`; all texts (`None`) are covered by `*` alone.
fn covers_text(patterns: &[String], text: Option<&str>) -> bool {
    match text {
        Some(text) => patterns.iter().any(|pattern| matches_glob(pattern, text)),
        None => patterns.iter().any(|pattern| pattern == "*"),
    }
}

fn covers_kind(pattern: &str, kind: &Kind) -> bool {
    covers_kind_name(pattern, &kind.group, &kind.name)
}

fn covers_kind_name(pattern: &str, group: &str, name: &str) -> bool {
    if pattern == "*" {
        return true;
    }
    let (group_pattern, name_pattern) = pattern.split_once('/').unwrap_or(("", pattern));
    matches_glob(group_pattern, group) && matches_glob(name_pattern, name)
}

#[cfg(test)]
mod tests;
