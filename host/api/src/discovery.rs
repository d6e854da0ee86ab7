//! Discovery: groups, kinds and the server version.

use std::collections::{BTreeMap, BTreeSet};

use aws_lc_rs::digest::{SHA256, digest};
use axum::Json;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use homeostat_runtime::{Host, KindInfo};
use homeostat_store::{Kind, VersionRank};
use serde_json::{Value, json};

use crate::path::{HEALTH, METRICS};
use crate::status::Failure;
use crate::{binding, event_versions, events, reviews, token_request};

/// The verbs of every stored kind.
const VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// The kind whose resources are deleted one by one.
const NAMESPACES: &str = "namespaces";

/// The verbs of namespaces. Source: their registry in Kubernetes.
const VERBS_ONE_BY_ONE: [&str; 7] = ["create", "delete", "get", "list", "patch", "update", "watch"];

/// The verbs of every kind of a definition, in the order of Kubernetes.
const VERBS_OF_DEFINED: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

/// The verbs of a kind that clients cannot write.
const READ_VERBS: [&str; 3] = ["get", "list", "watch"];

/// The verbs of a subresource.
const PART_VERBS: [&str; 3] = ["get", "patch", "update"];

/// The groups of Kubernetes in the order of discovery, in which clients look for the group of a name. All other groups follow
/// by their names.
///
/// Source: `DefaultGenericAPIServicePriorities` and `apiVersionPriorities` of Kubernetes.
const GROUPS: [&str; 20] = [
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
];

/// The content type of aggregated discovery.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The Kubernetes version whose API the server implements, as `/version` reports it.
const DIALECT: (&str, &str) = ("1", "36");

pub(crate) async fn version() -> Json<Value> {
    let (major, minor) = DIALECT;
    let release = env!("CARGO_PKG_VERSION");
    Json(json!({
        "major": major, "minor": minor, "gitVersion": format!("v{major}.{minor}.0+homeostat-{release}"), "homeostat": release,
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
        // Clients that validate the response require these fields.
        "buildDate": "", "compiler": "rustc", "gitCommit": "", "gitTreeState": "", "goVersion": "",
    }))
}

/// Returns the kinds that discovery lists.
pub(crate) fn kinds(host: &Host) -> Vec<KindInfo> {
    let mut kinds = host.kinds().list();
    kinds.retain(KindInfo::is_established);
    kinds
}

/// Responds with the paths of the server.
pub(crate) fn paths(kinds: &[KindInfo]) -> Response {
    let mut paths: BTreeSet<String> =
        ["/api", "/api/v1", "/apis", "/apis/", METRICS, "/openapi/v2", "/openapi/v3", "/openapi/v3/", "/version"]
            .into_iter()
            .chain(HEALTH)
            .map(str::to_owned)
            .collect();
    for (group, versions) in versions_by_group(kinds).into_iter().filter(|(group, _)| !group.is_empty()) {
        paths.insert(format!("/apis/{group}"));
        paths.extend(versions.iter().map(|version| format!("/apis/{group}/{}", version.name())));
    }
    Json(json!({ "paths": paths })).into_response()
}

pub(crate) fn versions() -> Response {
    Json(json!({ "kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [] })).into_response()
}

pub(crate) fn groups(kinds: &[KindInfo]) -> Response {
    let groups: Vec<Value> =
        in_order(versions_by_group(kinds)).map(|(name, versions)| group_document(name, versions)).collect();
    Json(json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })).into_response()
}

pub(crate) fn group(kinds: &[KindInfo], name: &str) -> Result<Response, Failure> {
    let versions = versions_by_group(kinds).remove(name);
    let versions = versions.ok_or_else(Failure::unknown_page)?;
    let mut document = group_document(name, versions);
    document["kind"] = "APIGroup".into();
    document["apiVersion"] = "v1".into();
    Ok(Json(document).into_response())
}

/// Responds with the kinds of a version of a group; `None` if there is none.
pub(crate) fn resources(kinds: &[KindInfo], group: &str, version: &str) -> Option<Response> {
    let served = kinds.iter().filter(|info| info.kind.group == group && info.kind.version == version);
    let reviews = reviews::of_group(group).filter(|_| version == "v1").map(|(plural, kind, namespaced)| {
        json!({
            "name": plural, "singularName": kind.to_lowercase(), "namespaced": namespaced, "kind": kind,
            "verbs": ["create"],
        })
    });
    let bindings = has_bindings(kinds).then(|| {
        json!({ "name": binding::PLURAL, "singularName": "binding", "namespaced": true, "kind": "Binding", "verbs": ["create"] })
    });
    let bindings = bindings.filter(|_| group.is_empty() && version == "v1");
    let mut resources: Vec<Value> =
        served.flat_map(|info| resource_documents(kinds, info)).chain(reviews).chain(bindings).collect();
    // As in an API server, a definition's subresources keep their order.
    let has_built_in = kinds.iter().any(|info| info.kind.group == group && info.built_in().is_some());
    resources.sort_by_cached_key(|resource| {
        let name = resource["name"].as_str().unwrap_or_default();
        if has_built_in { name.to_owned() } else { name.split('/').next().unwrap_or_default().to_owned() }
    });
    if resources.is_empty() && !(group.is_empty() && version == "v1") {
        return None;
    }
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let mut document = json!({ "kind": "APIResourceList", "groupVersion": group_version, "resources": resources });
    // As in Kubernetes, the list of the core group has no version of its own.
    if !group.is_empty() {
        document["apiVersion"] = "v1".into();
    }
    Some(Json(document).into_response())
}

/// Returns groups in the order of discovery.
fn in_order<V>(groups: BTreeMap<&str, V>) -> impl Iterator<Item = (&str, V)> {
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(name, _)| GROUPS.iter().position(|known| known == name).unwrap_or(GROUPS.len()));
    groups.into_iter()
}

/// Sorts resources or subresources by their names.
fn sort_by_name(resources: &mut [Value], field: &str) {
    resources.sort_by(|one, other| one[field].as_str().cmp(&other[field].as_str()));
}

fn versions_by_group(kinds: &[KindInfo]) -> BTreeMap<&str, BTreeSet<VersionRank<'_>>> {
    let mut groups: BTreeMap<&str, BTreeSet<VersionRank<'_>>> = BTreeMap::new();
    for kind in kinds.iter().filter(|info| !info.keys_only).map(|info| &info.kind) {
        if !kind.group.is_empty() {
            groups.entry(&kind.group).or_default().insert(VersionRank::of(&kind.version));
        }
    }
    for group in reviews::groups() {
        groups.entry(group).or_default().insert(VersionRank::of("v1"));
    }
    groups
}

fn group_document(name: &str, versions: BTreeSet<VersionRank<'_>>) -> Value {
    let version = |rank: VersionRank<'_>| {
        let version = rank.name();
        json!({ "groupVersion": format!("{name}/{version}"), "version": version })
    };
    let versions: Vec<Value> = versions.into_iter().map(version).collect();
    json!({ "name": name, "preferredVersion": versions.first(), "versions": versions })
}

/// Returns whether there are pods that can be bound.
fn has_bindings(kinds: &[KindInfo]) -> bool {
    kinds.iter().any(|info| info.built_in().is_some_and(|known| known.has("binding")))
}

/// Returns the verbs of a kind.
pub(crate) fn verbs(info: &KindInfo) -> &'static [&'static str] {
    let group = info.kind.group.as_str();
    match info.plural.as_str() {
        events::PLURAL if group.is_empty() && info.built_in().is_none() => &READ_VERBS,
        _ if info.is_read_only() => &READ_VERBS,
        _ if info.is_of_definition() => &VERBS_OF_DEFINED,
        NAMESPACES if group.is_empty() && info.built_in().is_some() => &VERBS_ONE_BY_ONE,
        _ => &VERBS,
    }
}

/// A kind or one of its subresources, as discovery lists it.
struct DiscoveryEntry<'k> {
    info: &'k KindInfo,
    /// For example `status`; empty for the resource itself.
    subresource: &'static str,
    /// Group, version and kind of the response.
    kind: (&'k str, &'k str, &'k str),
    verbs: &'static [&'static str],
}

/// Returns the discovery entries of a kind: its resources, and the subresources that can be read and written.
fn discovery_entries(info: &KindInfo) -> Vec<DiscoveryEntry<'_>> {
    let Kind { group, version, name } = &info.kind;
    let own = (group.as_str(), version.as_str(), name.as_str());
    if info.keys_only {
        return Vec::new();
    }
    let mut entries = vec![DiscoveryEntry { info, subresource: "", kind: own, verbs: verbs(info) }];
    if !verbs(info).contains(&"update") {
        return entries;
    }
    let has = |part| info.built_in().is_some_and(|known| known.has(part));
    if has("binding") {
        let kind = ("", "v1", "Binding");
        entries.push(DiscoveryEntry { info, subresource: "binding", kind, verbs: &["create"] });
    }
    if has("eviction") {
        let kind = ("policy", "v1", "Eviction");
        entries.push(DiscoveryEntry { info, subresource: "eviction", kind, verbs: &["create"] });
    }
    for part in ["ephemeralcontainers", "resize"].into_iter().filter(|part| has(part)) {
        entries.push(DiscoveryEntry { info, subresource: part, kind: own, verbs: &PART_VERBS });
    }
    if has("finalize") {
        entries.push(DiscoveryEntry { info, subresource: "finalize", kind: own, verbs: &["update"] });
    }
    if has("token") {
        entries.push(DiscoveryEntry { info, subresource: "token", kind: token_request::KIND, verbs: &["create"] });
    }
    if has("approval") {
        entries.push(DiscoveryEntry { info, subresource: "approval", kind: own, verbs: &PART_VERBS });
    }
    if info.has_status {
        entries.push(DiscoveryEntry { info, subresource: "status", kind: own, verbs: &PART_VERBS });
    }
    if info.scale.is_some() {
        entries.push(DiscoveryEntry {
            info,
            subresource: "scale",
            kind: ("autoscaling", "v1", "Scale"),
            verbs: &PART_VERBS,
        });
    }
    entries
}

/// Returns a kind and its subresources in the form of `APIResourceList`.
fn resource_documents(kinds: &[KindInfo], info: &KindInfo) -> Vec<Value> {
    let document = |entry: DiscoveryEntry<'_>| {
        let DiscoveryEntry { info, subresource: part, kind: (group, version, kind), verbs } = entry;
        let KindInfo { plural, singular, namespaced, .. } = info;
        let (name, singular) =
            if part.is_empty() { (plural.clone(), &**singular) } else { (format!("{plural}/{part}"), "") };
        let mut document =
            json!({ "name": name, "singularName": singular, "namespaced": namespaced, "kind": kind, "verbs": verbs });
        if part.is_empty() {
            document["storageVersionHash"] = storage_version_hash(kinds, info).into();
            name_further(&mut document, info);
        } else if (group, version) != (&*info.kind.group, &*info.kind.version) {
            document["group"] = group.into();
            document["version"] = version.into();
        }
        document
    };
    discovery_entries(info).into_iter().map(document).collect()
}

/// Adds the short names and the categories of a kind that has some.
fn name_further(document: &mut Value, info: &KindInfo) {
    for (name, list) in [("shortNames", &info.short_names), ("categories", &info.categories)] {
        if !list.is_empty() {
            document[name] = json!(list);
        }
    }
}

/// Returns what changes when the resources of a kind are stored in another version.
///
/// Source: `StorageVersionHash` of Kubernetes' apiserver.
fn storage_version_hash(kinds: &[KindInfo], info: &KindInfo) -> String {
    // Events are stored in the core group, and the version that is stored comes first.
    let stored = kinds.iter().find(|other| other.kind.same_type(&info.kind)).unwrap_or(info);
    let stored =
        if stored.kind == event_versions::kind() { event_versions::stored_kind() } else { stored.kind.clone() };
    let Kind { group, version, name } = stored;
    STANDARD.encode(&digest(&SHA256, format!("{group}/{version}/{name}").as_bytes()).as_ref()[..8])
}

/// Responds with aggregated discovery: the core group, or all other groups.
pub(crate) fn aggregated(kinds: &[KindInfo], core: bool) -> Response {
    let mut groups: BTreeMap<&str, BTreeMap<VersionRank<'_>, Vec<Value>>> = BTreeMap::new();
    for info in kinds.iter().filter(|info| info.kind.group.is_empty() == core && !info.keys_only) {
        let versions = groups.entry(&info.kind.group).or_default();
        versions.entry(VersionRank::of(&info.kind.version)).or_default().push(discovered(info));
    }
    for group in reviews::groups().into_iter().filter(|_| !core) {
        let reviews = reviews::of_group(group).map(|(plural, kind, namespaced)| {
            json!({
                "resource": plural, "responseKind": own_kind(kind),
                "scope": if namespaced { "Namespaced" } else { "Cluster" },
                "singularResource": kind.to_lowercase(), "verbs": ["create"],
            })
        });
        groups.entry(group).or_default().entry(VersionRank::of("v1")).or_default().extend(reviews);
    }
    if core && has_bindings(kinds) {
        let bindings = json!({
            "resource": binding::PLURAL, "responseKind": own_kind("Binding"),
            "scope": "Namespaced", "singularResource": "binding", "verbs": ["create"],
        });
        groups.entry("").or_default().entry(VersionRank::of("v1")).or_default().push(bindings);
    }
    let version = |(version, resources): (VersionRank<'_>, Vec<Value>)| json!({ "version": version.name(), "freshness": "Current", "resources": resources });
    let group = |(name, versions): (&str, BTreeMap<VersionRank<'_>, Vec<Value>>)| {
        let metadata = if name.is_empty() { json!({}) } else { json!({ "name": name }) };
        let versions: Vec<Value> = versions.into_iter().map(version).collect();
        json!({ "metadata": metadata, "versions": versions })
    };
    for resources in groups.values_mut().flat_map(BTreeMap::values_mut) {
        sort_by_name(resources, "resource");
    }
    let items: Vec<Value> = in_order(groups).map(group).collect();
    let document = json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
    });
    ([(header::CONTENT_TYPE, AGGREGATED)], document.to_string()).into_response()
}

/// Returns the kind of a resource that has the group and the version in which it is listed. Kubernetes names them for kinds
/// of definitions alone.
fn own_kind(kind: &str) -> Value {
    json!({ "group": "", "version": "", "kind": kind })
}

/// Returns a kind and its subresources in the form of `APIGroupDiscoveryList`.
fn discovered(info: &KindInfo) -> Value {
    let own_version = (info.kind.group.as_str(), info.kind.version.as_str());
    let response = |(group, version, kind): (&str, &str, &str)| {
        if info.is_typed() && (group, version) == own_version {
            return own_kind(kind);
        }
        json!({ "group": group, "version": version, "kind": kind })
    };
    let mut own = Value::Null;
    let mut parts = Vec::new();
    for entry in discovery_entries(info) {
        if entry.subresource.is_empty() {
            own = json!({
                "resource": info.plural, "responseKind": response(entry.kind),
                "scope": if info.namespaced { "Namespaced" } else { "Cluster" },
                "singularResource": info.singular, "verbs": entry.verbs,
            });
            name_further(&mut own, info);
        } else {
            parts.push(
                json!({ "subresource": entry.subresource, "responseKind": response(entry.kind), "verbs": entry.verbs }),
            );
        }
    }
    // As in an API server, a definition's subresources keep their order.
    if info.is_typed() {
        sort_by_name(&mut parts, "subresource");
    }
    if !parts.is_empty() {
        own["subresources"] = parts.into();
    }
    own
}

#[cfg(test)]
mod tests;
