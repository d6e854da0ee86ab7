//! Who the host is to a server.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use homeostat_kubernetes::{Cluster, ClusterSettings, Credentials};
use homeostat_store::cached::Upstream;
use homeostat_store::{Error, Kind, Query};
use homeostat_testing::eventually;
use homeostat_tests::{Cluster as Server, shared_cluster};
use serde_json::{Value, json};

use super::{connected, settings_of, two_kubeconfigs};

/// A store whose kubeconfig has these credentials.
async fn store_of(credentials: &Value) -> Arc<Cluster> {
    let server = shared_cluster();
    connected(settings_of(server.kubeconfig_with(&server.url(), credentials))).await
}

/// Asserts that the store may do everything.
async fn assert_admin(store: &Cluster) {
    store.list(&Query::all(Kind::new("", "v1", "Secret"))).await.unwrap();
}

/// Asserts that the store is known, and may do nothing.
async fn assert_nobody(store: &Cluster) {
    let refused = store.list(&Query::all(Kind::new("", "v1", "Secret"))).await;
    assert!(matches!(refused, Err(Error::Forbidden { .. })), "{refused:?}");
}

/// Writes what a plugin prints, and returns the credentials that name the plugin.
fn plugin(folder: &Path, status: &Value) -> Value {
    let printed = json!({"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "status": status});
    let file = folder.join("printed.json");
    fs::write(&file, printed.to_string()).unwrap();
    json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "cat", "args": [file],
        "interactiveMode": "Never"}})
}

fn lasting(token: &str) -> Value {
    json!({"token": token, "expirationTimestamp": "2999-01-01T00:00:00Z"})
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_client_certificate_is_used() {
    let certified = shared_cluster().authority().client("root", Some("system:masters"), None);
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (folder.path().join("client.pem"), folder.path().join("client.key"));
    fs::write(&certificate, &certified.certificate).unwrap();
    fs::write(&key, &certified.key).unwrap();
    assert_admin(&*store_of(&json!({"client-certificate": certificate, "client-key": key})).await).await;
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_plugin_gives_a_token_or_a_certificate() {
    let folder = tempfile::tempdir().unwrap();
    assert_admin(&*store_of(&plugin(folder.path(), &lasting(&Server::token("admin")))).await).await;
    let certified = shared_cluster().authority().client("root", Some("system:masters"), None);
    let certificate = json!({"clientCertificateData": certified.certificate, "clientKeyData": certified.key});
    assert_admin(&*store_of(&plugin(folder.path(), &certificate)).await).await;
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn refused_credentials_are_read_again() {
    let (server, folder) = (shared_cluster(), tempfile::tempdir().unwrap());
    let file = folder.path().join("token");
    let give = |token: &str| {
        fs::write(&file, token).unwrap();
        plugin(folder.path(), &lasting(token))
    };
    fs::write(folder.path().join("ca.crt"), server.authority().pem()).unwrap();
    let pod = Credentials::Pod { server: server.url(), folder: folder.path().to_owned() };
    let kubeconfig = |credentials: &Value| settings_of(server.kubeconfig_with(&server.url(), credentials));
    for settings in
        [kubeconfig(&give("expired")), kubeconfig(&json!({ "tokenFile": file })), ClusterSettings::new("cluster", pod)]
    {
        give("expired");
        let store = Cluster::new(settings);
        assert!(store.connect().await.is_err(), "the server refuses the token");
        give(&Server::token("admin"));
        eventually("the new token is used", || async { store.connect().await.ok() }).await;
        assert_admin(&store).await;
    }
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn the_account_of_a_pod_is_used() {
    let server = shared_cluster();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("token"), Server::token("bob")).unwrap();
    fs::write(folder.path().join("ca.crt"), server.authority().pem()).unwrap();
    let pod = Credentials::Pod { server: server.url(), folder: folder.path().to_owned() };
    assert_nobody(&*connected(ClusterSettings::new("cluster", pod)).await).await;
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_context_is_found_in_several_files_that_are_merged() {
    let folder = tempfile::tempdir().unwrap();
    let files = two_kubeconfigs(shared_cluster(), folder.path());
    let of = |context: Option<&str>| {
        let credentials = Credentials::Kubeconfig { files: files.clone(), context: context.map(str::to_owned) };
        ClusterSettings::new("cluster", credentials)
    };
    assert_admin(&*connected(of(Some("second"))).await).await;
    // As in kubectl, the current context is that of the first file.
    assert!(Cluster::new(of(None)).connect().await.is_err(), "the server refuses its token");
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn the_id_of_a_cluster_is_read_only_with_the_right_to_it() {
    let of = |user: &str| Cluster::new(settings_of(shared_cluster().kubeconfig(user)));
    assert!(of("admin").connect().await.unwrap().id.is_some());
    let bob = of("bob");
    assert_eq!(bob.connect().await.unwrap().id, None);
    assert_nobody(&bob).await;
}
