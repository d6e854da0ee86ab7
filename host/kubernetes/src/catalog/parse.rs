//! Parses the discovery documents of a server: aggregated (Kubernetes 1.26 and later), and one group at a time.

use std::collections::BTreeMap;

use homeostat_store::Kind;
use serde::Deserialize;

use super::{Catalog, ServedKind, Verbs};

/// Asks for an aggregated document; an older server answers with the list of its groups.
pub(crate) const ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
    application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

/// What `/api` or `/apis` answered.
#[derive(Debug)]
pub(crate) enum Root {
    /// All kinds of all groups.
    Aggregated(Vec<Group>),
    /// The groups with their versions, preferred first. Each version has a document of its own.
    Versions(Vec<GroupVersions>),
}

/// A group and its versions, without kinds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct GroupVersions {
    /// The name; empty for the core group.
    pub(crate) group: String,
    /// The versions, preferred first.
    pub(crate) versions: Vec<String>,
}

/// A group with its kinds.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// The name; empty for the core group.
    pub(crate) name: String,
    /// The versions, preferred first.
    pub(crate) versions: Vec<GroupVersion>,
}

/// A version of a group with its kinds.
#[derive(Debug, Default)]
pub(crate) struct GroupVersion {
    /// The name, as `v1`.
    pub(crate) name: String,
    /// Whether the kinds are old or missing, because the server that has them did not answer.
    pub(crate) stale: bool,
    /// The kinds.
    pub(crate) kinds: Vec<ServedKind>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnyRoot {
    kind: String,
    #[serde(default)]
    items: Vec<WireGroup>,
    #[serde(default)]
    groups: Vec<WireGroupVersions>,
    #[serde(default)]
    versions: Vec<String>,
}

#[derive(Deserialize)]
struct WireGroup {
    #[serde(default)]
    metadata: WireMetadata,
    #[serde(default)]
    versions: Vec<WireVersion>,
}

#[derive(Deserialize, Default)]
struct WireMetadata {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct WireVersion {
    version: String,
    #[serde(default)]
    resources: Vec<WireResource>,
    #[serde(default)]
    freshness: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireResource {
    resource: String,
    response_kind: Option<WireKind>,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    singular_resource: String,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    short_names: Vec<String>,
    #[serde(default)]
    categories: Vec<String>,
    #[serde(default)]
    subresources: Vec<WireSubresource>,
}

#[derive(Deserialize)]
struct WireKind {
    kind: String,
}

#[derive(Deserialize)]
struct WireSubresource {
    subresource: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireGroupVersions {
    name: String,
    #[serde(default)]
    versions: Vec<WireGroupVersion>,
    preferred_version: Option<WireGroupVersion>,
}

#[derive(Deserialize)]
struct WireGroupVersion {
    version: String,
}

#[derive(Deserialize)]
struct WireResources {
    #[serde(default)]
    resources: Vec<WireLegacyResource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireLegacyResource {
    name: String,
    kind: String,
    #[serde(default)]
    singular_name: String,
    #[serde(default)]
    namespaced: bool,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    short_names: Vec<String>,
    #[serde(default)]
    categories: Vec<String>,
}

/// Parses the answer of `/api` or `/apis`.
///
/// # Errors
/// The reason, for a person.
pub(crate) fn root(body: &[u8]) -> Result<Root, String> {
    let AnyRoot { kind, items, groups, versions } = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    match kind.as_str() {
        "APIGroupDiscoveryList" => Ok(Root::Aggregated(items.into_iter().map(group).collect())),
        "APIVersions" => Ok(Root::Versions(vec![GroupVersions { group: String::new(), versions }])),
        "APIGroupList" => Ok(Root::Versions(groups.into_iter().map(group_versions).collect())),
        other => Err(format!("the discovery document has the kind {other:?}")),
    }
}

/// Parses the document of one version of a group, as `/apis/apps/v1` answers it.
///
/// # Errors
/// The reason, for a person.
pub(crate) fn version(group: &str, name: &str, body: &[u8]) -> Result<GroupVersion, String> {
    let WireResources { resources } = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let (subresources, resources): (Vec<_>, Vec<_>) =
        resources.into_iter().partition(|resource| resource.name.contains('/'));
    let has = |resource: &str, subresource: &str| {
        subresources.iter().any(|one| one.name.split_once('/') == Some((resource, subresource)))
    };
    let kinds = resources.into_iter().map(|resource| ServedKind {
        singular: resource.singular_name,
        short_names: resource.short_names,
        categories: resource.categories,
        namespaced: resource.namespaced,
        verbs: Verbs::of(&resource.verbs),
        status: has(&resource.name, "status"),
        scale_versions: versions_if(has(&resource.name, "scale"), name),
        plural: resource.name,
        ..ServedKind::new(Kind::new(group, name, &resource.kind))
    });
    Ok(GroupVersion { name: name.to_owned(), stale: false, kinds: kinds.collect() })
}

/// Makes a catalog of the groups. Groups that did not answer keep the kinds of the catalog before.
pub(crate) fn catalog(groups: Vec<Group>, before: &Catalog) -> Catalog {
    let mut kinds = BTreeMap::<(String, String), ServedKind>::new();
    for Group { name: group, versions } in groups {
        for version in versions {
            let known = before.kinds().filter(|kind| version.stale && kind.kind.group == group);
            let kept = known.filter(|kind| kind.versions.contains(&version.name)).cloned();
            for kind in version.kinds.into_iter().chain(kept.collect::<Vec<_>>()) {
                add(&mut kinds, kind);
            }
        }
    }
    Catalog::new(kinds.into_values())
}

/// Adds a kind, or a further version of it. The first version is the preferred one.
fn add(kinds: &mut BTreeMap<(String, String), ServedKind>, kind: ServedKind) {
    if !(kind.verbs.get && kind.verbs.list) {
        return;
    }
    let known = kinds.entry((kind.kind.group.clone(), kind.kind.name.clone())).or_insert_with(|| kind.clone());
    merge(&mut known.versions, kind.versions);
    merge(&mut known.scale_versions, kind.scale_versions);
}

/// Adds the versions that are not among the known ones.
fn merge(known: &mut Vec<String>, versions: Vec<String>) {
    for version in versions {
        if !known.contains(&version) {
            known.push(version);
        }
    }
}

fn versions_if(is_so: bool, version: &str) -> Vec<String> {
    is_so.then(|| version.to_owned()).into_iter().collect()
}

fn group(WireGroup { metadata: WireMetadata { name }, versions }: WireGroup) -> Group {
    let versions = versions.into_iter().map(|WireVersion { version, resources, freshness }| GroupVersion {
        kinds: resources.into_iter().filter_map(|resource| kind(&name, &version, resource)).collect(),
        stale: freshness == "Stale",
        name: version,
    });
    let versions = versions.collect();
    Group { name, versions }
}

fn kind(group: &str, version: &str, resource: WireResource) -> Option<ServedKind> {
    let has = |name: &str| resource.subresources.iter().any(|one| one.subresource == name);
    let named = Kind::new(group, version, resource.response_kind.as_ref()?.kind.as_str());
    Some(ServedKind {
        status: has("status"),
        scale_versions: versions_if(has("scale"), version),
        plural: resource.resource,
        singular: resource.singular_resource,
        short_names: resource.short_names,
        categories: resource.categories,
        namespaced: resource.scope == "Namespaced",
        verbs: Verbs::of(&resource.verbs),
        ..ServedKind::new(named)
    })
}

fn group_versions(WireGroupVersions { name, versions, preferred_version }: WireGroupVersions) -> GroupVersions {
    let preferred = preferred_version.map(|preferred| preferred.version);
    let others = versions.into_iter().map(|one| one.version).filter(|one| Some(one) != preferred.as_ref());
    let versions = preferred.clone().into_iter().chain(others).collect();
    GroupVersions { group: name, versions }
}

#[cfg(test)]
mod tests;
