use homeostat_store::Kind;

use super::{Group, GroupVersions, Root, catalog, root, version};
use crate::catalog::Catalog;

const AGGREGATED: &str = r#"{"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": [
    {"metadata": {"name": "apps"}, "versions": [
        {"version": "v1", "freshness": "Current", "resources": [
            {"resource": "deployments", "responseKind": {"group": "apps", "version": "v1", "kind": "Deployment"},
             "scope": "Namespaced", "singularResource": "deployment", "shortNames": ["deploy"], "categories": ["all"],
             "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"],
             "subresources": [{"subresource": "scale", "responseKind": {"kind": "Scale"}, "verbs": ["get"]},
                              {"subresource": "status", "verbs": ["get", "patch", "update"]}]}]},
        {"version": "v1beta2", "resources": [
            {"resource": "deployments", "responseKind": {"kind": "Deployment"}, "scope": "Namespaced",
             "verbs": ["get", "list"]}]}]},
    {"metadata": {"name": "authentication.k8s.io"}, "versions": [{"version": "v1", "resources": [
        {"resource": "tokenreviews", "responseKind": {"kind": "TokenReview"}, "scope": "Cluster", "verbs": ["create"]}
    ]}]},
    {"metadata": {"name": "metrics.k8s.io"}, "versions": [{"version": "v1beta1", "freshness": "Stale"}]}
]}"#;

fn parse(text: &str, before: &Catalog) -> Catalog {
    match root(text.as_bytes()).unwrap() {
        Root::Aggregated(groups) => catalog(groups, before),
        Root::Versions(groups) => panic!("{groups:?}"),
    }
}

#[test]
fn an_aggregated_document_has_every_kind_that_can_be_read() {
    let catalog = parse(AGGREGATED, &Catalog::default());
    assert_eq!(catalog.kinds().count(), 1, "a kind that cannot be listed is no kind of resources");
    let deployments = catalog.find(&Kind::new("apps", "v1", "Deployment")).unwrap();
    assert_eq!(deployments.kind.version, "v1");
    assert_eq!(deployments.versions, ["v1", "v1beta2"]);
    assert_eq!((deployments.plural.as_str(), deployments.singular.as_str()), ("deployments", "deployment"));
    assert_eq!(
        (deployments.short_names.as_slice(), deployments.categories.as_slice()),
        (&["deploy".to_owned()][..], &["all".to_owned()][..])
    );
    assert!(deployments.namespaced && deployments.status && deployments.verbs.watch);
    assert!(deployments.has_scale("v1") && !deployments.has_scale("v1beta2"), "each version has its own subresources");
}

#[test]
fn a_group_whose_server_is_away_keeps_its_kinds() {
    let fresh = AGGREGATED.replace(
        r#""freshness": "Stale"}"#,
        r#""resources": [{"resource": "pods", "responseKind": {"kind": "PodMetrics"}, "verbs": ["get", "list"]}]}"#,
    );
    let before = parse(&fresh, &Catalog::default());
    let metrics = Kind::new("metrics.k8s.io", "v1beta1", "PodMetrics");
    assert!(before.find(&metrics).is_some_and(|kind| !kind.verbs.watch));
    assert!(parse(AGGREGATED, &before).find(&metrics).is_some());
    assert!(parse(AGGREGATED, &Catalog::default()).find(&metrics).is_none());
}

#[test]
fn an_older_server_names_its_groups_and_versions() {
    let core = root(br#"{"kind": "APIVersions", "versions": ["v1"]}"#).unwrap();
    let groups = root(
        br#"{"kind": "APIGroupList", "apiVersion": "v1", "groups": [{"name": "batch",
            "versions": [{"groupVersion": "batch/v1beta1", "version": "v1beta1"}, {"groupVersion": "batch/v1", "version": "v1"}],
            "preferredVersion": {"groupVersion": "batch/v1", "version": "v1"}}]}"#,
    );
    let Root::Versions(core) = core else { panic!("{core:?}") };
    assert_eq!(core, [GroupVersions { group: String::new(), versions: vec!["v1".to_owned()] }]);
    let Root::Versions(groups) = groups.unwrap() else { panic!() };
    assert_eq!(groups[0].versions, ["v1", "v1beta1"], "the preferred version comes first");
}

#[test]
fn a_document_of_one_version_has_kinds_with_their_subresources() {
    let body = br#"{"kind": "APIResourceList", "groupVersion": "v1", "resources": [
        {"name": "pods", "singularName": "pod", "namespaced": true, "kind": "Pod", "verbs": ["get", "list", "watch"], "shortNames": ["po"]},
        {"name": "pods/status", "namespaced": true, "kind": "Pod", "verbs": ["get", "patch"]},
        {"name": "bindings", "namespaced": true, "kind": "Binding", "verbs": ["create"]}]}"#;
    let versions = vec![version("", "v1", body).unwrap()];
    let catalog = catalog(vec![Group { name: String::new(), versions }], &Catalog::default());
    let pods = catalog.find(&Kind::new("", "v1", "Pod")).unwrap();
    assert!(pods.namespaced && pods.status && !pods.has_scale("v1"));
    assert_eq!(pods.short_names, ["po"]);
    assert_eq!(catalog.kinds().count(), 1);
}

#[test]
fn anything_else_is_refused_with_what_it_is() {
    assert!(root(b"<html>").is_err());
    assert_eq!(root(br#"{"kind": "Status"}"#).unwrap_err(), r#"the discovery document has the kind "Status""#);
}
