//! The Kubernetes store against a real apiserver: each request by itself, without a cache.

mod events;
mod fairness;
mod faults;
mod follow;
mod identity;
mod metadata;
mod scale;
mod unreadable;
mod writes;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use homeostat_kubernetes::{Cluster, ClusterSettings, Credentials};
use homeostat_store::cached::{CachedState, Upstream, UpstreamResponse};
use homeostat_store::{Error, Key, Kind, Query, Resource, Write};
use homeostat_testing::{eventually, eventually_blocking, soon};
use homeostat_tests::{Cluster as Server, shared_cluster};
use serde_json::{Value, json};

/// The settings of a store on the shared cluster, for one of its users.
pub(super) fn cluster_settings(user: &str) -> ClusterSettings {
    settings_of(shared_cluster().kubeconfig(user))
}

pub(super) fn settings_of(file: PathBuf) -> ClusterSettings {
    ClusterSettings::new("cluster", Credentials::Kubeconfig { files: vec![file], context: None })
}

/// Writes two files of kubectl to a folder, and returns their paths. The first file has the cluster, and its
/// current context has a token that the server refuses. The second file has the administrator, and the context
/// `second` of that cluster. So the context needs both files.
pub(super) fn two_kubeconfigs(server: &Server, folder: &Path) -> Vec<PathBuf> {
    let authority = folder.join("ca.pem");
    std::fs::write(&authority, server.authority().pem()).unwrap();
    let context = |name: &str, user: &str| json!({"name": name, "context": {"cluster": "test", "user": user}});
    let user = |name: &str, token: &str| json!({"name": name, "user": {"token": token}});
    let cluster = json!({"server": server.url(), "certificate-authority": authority});
    let first = json!({
        "apiVersion": "v1", "kind": "Config", "clusters": [{"name": "test", "cluster": cluster}],
        "users": [user("nobody", "token-of-nobody")], "contexts": [context("first", "nobody")],
        "current-context": "first",
    });
    let second = json!({
        "apiVersion": "v1", "kind": "Config", "users": [user("admin", &Server::token("admin"))],
        "contexts": [context("second", "admin")], "current-context": "second",
    });
    let write = |(name, config): (&str, Value)| {
        let path = folder.join(name);
        // JSON is valid YAML.
        std::fs::write(&path, config.to_string()).unwrap();
        path
    };
    [("first", first), ("second", second)].map(write).into()
}

/// Connects to a cluster.
pub(super) async fn connected(settings: ClusterSettings) -> Arc<Cluster> {
    let store = Arc::new(Cluster::new(settings));
    soon(store.connect()).await.unwrap();
    store
}

/// A kind with a status apart from the rest.
pub(super) fn widgets() -> Kind {
    Kind::new("example.dev", "v1", "Widget")
}

/// A kind with its status in the document.
fn notes() -> Kind {
    Kind::new("example.dev", "v1", "Note")
}

/// The definition of a kind of `example.dev`.
fn definition(kind: &str, subresources: &Value) -> Value {
    let spec = json!({"type": "object", "properties": {
        "size": {"type": "integer", "maximum": 100}, "replicas": {"type": "integer"}}});
    let status = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": status}});
    let (singular, plural) = (kind.to_lowercase(), format!("{}s", kind.to_lowercase()));
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.dev")},
        "spec": {
            "group": "example.dev", "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": singular},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                "subresources": subresources}],
        },
    })
}

/// Defines a kind on a server, and waits until its resources can be listed.
fn define(server: &Server, kind: &str, subresources: &Value) {
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let answer = server.request("POST", path, Some(&definition(kind, subresources)));
    assert!(matches!(answer.status, 201 | 409), "{}", answer.status);
    let path = format!("/apis/example.dev/v1/{}s", kind.to_lowercase());
    let is_served = || (server.request("GET", &path, None).status == 200).then_some(());
    eventually_blocking("the kind is served", is_served);
}

/// A store on the shared cluster, which serves widgets and notes.
pub(super) async fn cluster_store() -> Arc<Cluster> {
    cluster_store_with(cluster_settings("admin")).await
}

/// A store with these settings of the shared cluster, which serves widgets and notes.
async fn cluster_store_with(settings: ClusterSettings) -> Arc<Cluster> {
    let scale = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
    define(shared_cluster(), "Widget", &json!({"status": {}, "scale": scale}));
    define(shared_cluster(), "Note", &json!({}));
    let store = connected(settings).await;
    for kind in [widgets(), notes()] {
        let list = || async { store.list(&Query::all(kind.clone())).await.ok() };
        eventually("the kind is discovered", list).await;
    }
    store
}

/// Makes a change of which no cache knows the resource.
async fn send(store: &Cluster, write: Write) -> Result<UpstreamResponse, Error> {
    store.submit(write.into(), CachedState::Unknown).await
}

async fn sent(store: &Cluster, write: Write) -> Arc<Resource> {
    send(store, write).await.unwrap().response.resource
}

/// What a cache knows that has seen the resource.
fn known(resource: &Arc<Resource>) -> CachedState {
    CachedState::Known { resource: Some(Arc::clone(resource)), at: resource.revision() }
}

pub(super) fn document(key: &Key) -> Value {
    let kind = key.kind();
    json!({"apiVersion": kind.api_version(), "kind": kind.name, "spec": {"size": 1},
        "metadata": {"name": key.name(), "namespace": key.namespace()}})
}

async fn created(store: &Cluster, key: &Key) -> Arc<Resource> {
    sent(store, Write::Create { document: document(key) }).await
}

/// Makes a namespace for one test.
pub(super) async fn namespace(store: &Cluster) -> String {
    let document = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "test-"}});
    sent(store, Write::Create { document }).await.key().name().to_owned()
}
