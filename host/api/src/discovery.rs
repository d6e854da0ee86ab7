//! What is here: groups, kinds, version.

use std::collections::BTreeMap;

use axum::Json;
use axum::response::{IntoResponse, Response};
use homeostat_runtime::KindInfo;
use serde_json::{Value, json};

use crate::controllers;
use crate::status::Failure;

/// The verbs that every stored kind has.
const VERBS: [&str; 7] = ["create", "delete", "get", "list", "patch", "update", "watch"];

/// The version of the dialect that is spoken, for clients that ask.
const DIALECT: (&str, &str) = ("1", "34");

pub(crate) async fn version() -> Json<Value> {
    let (major, minor) = DIALECT;
    let release = env!("CARGO_PKG_VERSION");
    Json(json!({
        "major": major, "minor": minor, "gitVersion": format!("v{major}.{minor}.0+homeostat-{release}"), "homeostat": release,
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    }))
}

pub(crate) fn versions() -> Response {
    Json(json!({ "kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [] })).into_response()
}

pub(crate) fn groups(kinds: &[KindInfo]) -> Response {
    let groups: Vec<Value> =
        versions_by_group(kinds).iter().map(|(name, versions)| group_document(name, versions)).collect();
    Json(json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })).into_response()
}

pub(crate) fn group(kinds: &[KindInfo], name: &str) -> Result<Response, Failure> {
    let groups = versions_by_group(kinds);
    let versions = groups.get(name).ok_or_else(|| Failure::not_found(format!("there is no group {name}")))?;
    let mut document = group_document(name, versions);
    document["kind"] = "APIGroup".into();
    document["apiVersion"] = "v1".into();
    Ok(Json(document).into_response())
}

pub(crate) fn resources(kinds: &[KindInfo], group: &str, version: &str) -> Result<Response, Failure> {
    let wanted = kinds.iter().filter(|info| info.kind.group == group && info.kind.version == version);
    let resources: Vec<Value> = wanted.flat_map(resource_documents).collect();
    if resources.is_empty() && !(group.is_empty() && version == "v1") {
        return Err(Failure::not_found(format!("there is no {group}/{version}")));
    }
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    Ok(Json(
        json!({ "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources }),
    )
    .into_response())
}

fn versions_by_group(kinds: &[KindInfo]) -> BTreeMap<&str, Vec<&str>> {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for kind in kinds.iter().map(|info| &info.kind).filter(|kind| !kind.group.is_empty()) {
        let versions = groups.entry(&kind.group).or_default();
        if !versions.contains(&kind.version.as_str()) {
            versions.push(&kind.version);
        }
    }
    groups
}

fn group_document(name: &str, versions: &[&str]) -> Value {
    let version = |version: &&str| json!({ "groupVersion": format!("{name}/{version}"), "version": version });
    let versions: Vec<Value> = versions.iter().map(version).collect();
    json!({ "name": name, "preferredVersion": versions.last(), "versions": versions })
}

/// Returns a kind, and its status where it can be written by itself.
fn resource_documents(info: &KindInfo) -> Vec<Value> {
    let KindInfo { kind, plural, singular, short_names, namespaced, keys_only, .. } = info;
    if *keys_only {
        return Vec::new();
    }
    let document = |name: &str, verbs: &[&str]| {
        json!({
            "name": name, "singularName": singular, "namespaced": namespaced, "kind": kind.name,
            "verbs": verbs, "shortNames": short_names,
        })
    };
    if kind.group == controllers::GROUP && plural == controllers::PLURAL {
        return vec![document(plural, &["get", "list"])];
    }
    vec![document(plural, &VERBS), document(&format!("{plural}/status"), &["get", "update"])]
}
