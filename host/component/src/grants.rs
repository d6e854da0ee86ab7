//! What a controller may do, as its manifest says it. Everything that is not granted is refused.
//!
//! Grants say nothing of how much: that is [`crate::Limits`]. Who asks is not looked at either: a `Grants` belongs to one
//! controller already.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use homeostat_store::{Key, Kind};
use serde::{Deserialize, Serialize};

mod address;
mod advice;
mod ask;
mod check;
mod learn;
mod needs;
mod pattern;
mod watch;

pub use address::AddressRange;
pub(crate) use address::AddressScope;
pub(crate) use advice::{missing_address, missing_http, resource_lines};
pub(crate) use ask::Attempt;
pub use ask::Capability;
pub use check::is_secret_name;
pub use learn::LearnedGrants;
pub use needs::{HttpNeed, Needs, NeedsSnapshot, ResourceNeed};
use pattern::{matches_glob, matches_url};
pub use watch::Disclosure;

/// All capabilities of one controller. The default grants nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Grants {
    /// Resources: one that covers a call is enough.
    pub resources: Vec<ResourceGrant>,
    /// HTTP requests: one that covers a request is enough.
    pub http: Vec<HttpGrant>,
    /// Grants that have to cover the same as well, see [`Grants::limited_to`]. Not a part of what people write.
    #[serde(skip)]
    pub limited_to: Option<Arc<Grants>>,
}

/// Leave to do some things to resources of some kinds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceGrant {
    /// `GROUP/KIND`, or `KIND` for the core group, each part a pattern: `apps/Deployment`, `Pod`, `apps/*`. A single `*` means
    /// every kind of every group.
    pub kinds: Vec<String>,
    /// What may be done.
    pub verbs: Vec<Verb>,
    /// Patterns of namespaces; `*` means all. Resources outside of namespaces are covered by `*` and by the empty pattern.
    #[serde(default = "everything")]
    pub namespaces: Vec<String>,
    /// Patterns of names; absent means all.
    #[serde(default = "everything")]
    pub names: Vec<String>,
}

/// What can be done to a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    /// Read one.
    Get,
    /// Read many.
    List,
    /// Be told of changes: of a watch that `describe` names, of the managed kind, of what is followed.
    Watch,
    /// Make one.
    Create,
    /// Replace all but the status.
    Update,
    /// Replace the status.
    UpdateStatus,
    /// Change in place.
    Patch,
    /// Create, or set the fields that are named.
    Apply,
    /// Delete one.
    Delete,
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
            Self::Any => "*",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Leave to send some HTTP requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpGrant {
    /// Patterns of whole addresses: `https://api.example.com/v1/*`. Scheme, host and port must be the same; a leading `*.` of the
    /// host stands for one or more labels and a host `*` for any; a `*` in the path stands for any text.
    pub urls: Vec<String>,
    /// Methods; absent means `GET` and `HEAD`, `*` means all but `TRACE`, `TRACK` and `CONNECT`, which nobody is granted.
    #[serde(default = "safe_methods")]
    pub methods: Vec<String>,
    /// Which addresses may be connected to beside the public ones, whatever name leads there; absent means none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<AddressRange>,
    /// Headers that the host adds. The guest never sees them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, HeaderSource>,
}

/// Where the value of a header comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum HeaderSource {
    /// The text that stands here.
    Value(String),
    /// The secret of this name: 1 to 253 of the characters `a` to `z`, `A` to `Z`, `0` to `9`, `-`, `_` and `.`, a dot never first.
    Secret(String),
}

fn everything() -> Vec<String> {
    vec!["*".to_owned()]
}

fn safe_methods() -> Vec<String> {
    vec!["GET".to_owned(), "HEAD".to_owned()]
}

/// One thing that a controller wants to do to resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessRequest<'a> {
    /// What.
    pub verb: Verb,
    /// To resources of which kind. The version does not matter.
    pub kind: &'a Kind,
    /// In which namespace; `None`: in all of them. Empty: outside of namespaces.
    pub namespace: Option<&'a str>,
    /// To the resource of which name; `None`: to all of them.
    pub name: Option<&'a str>,
}

impl Grants {
    /// Returns everything that is wrong with these grants as they are written: patterns that can never cover anything. Each begins with
    /// the path of the field: `resources[0].kinds[1]: …`.
    pub fn problems(&self) -> Vec<String> {
        check::problems(self)
    }

    /// Returns these grants, as far as `wanted` has them too: what one of both does not cover is refused. Only these say what is watched and
    /// what [`Grants::learn`] may leave out. What they were kept to before does not count any more.
    #[must_use]
    pub fn limited_to(&self, wanted: &Self) -> Self {
        let Self { resources, http, limited_to: _ } = self;
        let is_there = resources.iter().all(|grant| wanted.resources.contains(grant))
            && http.iter().all(|grant| wanted.http.contains(grant));
        let kept_to = (!is_there).then(|| Arc::new(Self { limited_to: None, ..wanted.clone() }));
        Self { resources: resources.clone(), http: http.clone(), limited_to: kept_to }
    }

    /// Says whether other grants have the same lines, whatever both are kept to.
    pub fn has_lines_of(&self, other: &Self) -> bool {
        self.resources == other.resources && self.http == other.http
    }

    fn all_allow(&self, says: impl Fn(&Self) -> bool) -> bool {
        says(self) && self.limited_to.as_deref().is_none_or(says)
    }

    /// Returns the names of the secrets that these grants use.
    pub fn secrets(&self) -> BTreeSet<&str> {
        let headers = self.http.iter().flat_map(|grant| grant.headers.values());
        headers
            .filter_map(|source| match source {
                HeaderSource::Secret(name) => Some(name.as_str()),
                HeaderSource::Value(_) => None,
            })
            .collect()
    }

    /// Says whether some grant covers `request`.
    pub fn allows(&self, request: &AccessRequest<'_>) -> bool {
        self.all_allow(|grants| grants.resources.iter().any(|grant| grant.covers(request)))
    }

    /// Says whether some grant covers a part of what `request` asks for: its verb and kind, and its namespace and name as far as they
    /// are given.
    pub fn allows_some(&self, request: &AccessRequest<'_>) -> bool {
        self.all_allow(|grants| grants.resources.iter().any(|grant| grant.touches(request)))
    }

    /// Says whether anything at all may be done to a resource.
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

    /// Returns the smallest grants that would have allowed what was seen, out of these; see [`LearnedGrants`].
    pub fn learn(&self, seen: &NeedsSnapshot) -> LearnedGrants {
        learn::learn(self, seen)
    }

    /// Returns the grant that covers an HTTP request, if there is one. The first one wins. Of grants that are kept to others, it is theirs, with
    /// the headers that are wanted now.
    pub fn http_grant(&self, method: &str, url: &str) -> Option<&HttpGrant> {
        let own = self.http.iter().find(|grant| grant.covers(method, url))?;
        self.limited_to.as_deref().map_or(Some(own), |wanted| wanted.http_grant(method, url))
    }

    /// Returns the ranges of addresses to which a request may go beside the public ones: those of all grants that cover it.
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

/// Methods that nobody is granted: the answer to the first two has the headers that the host adds, secrets among them, and behind the last one
/// is a connection that no grant sees into.
const NEVER_SENT: [&str; 3] = ["TRACE", "TRACK", "CONNECT"];

fn is_never_sent(method: &str) -> bool {
    NEVER_SENT.iter().any(|never| never.eq_ignore_ascii_case(method))
}

/// Says whether one of `patterns` covers `text`; all texts at once (`None`) are covered by `*` alone.
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
