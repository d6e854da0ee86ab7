//! Credentials that end while a store writes, and that are replaced some time later.

use std::fs;
use std::path::Path;

use homeostat_nats::settings::SecretSource;
use homeostat_tests::{NatsAccess, NatsOptions, NatsUser};

use super::*;

/// Requests and connections that a store with bad credentials may make in a second.
const ATTEMPTS_MAX: u64 = 10;

/// Waits until a store cannot be used because of its credentials, and asks seldom, although writers never rest.
/// `attempts` counts what reaches the server.
pub(super) async fn asks_seldom(store: &CachedStore, ledger: &Ledger, attempts: impl Fn() -> u64) {
    const WINDOW: Duration = Duration::from_secs(2);
    ledger.fails().await;
    let is_quiet = || async {
        let before = (attempts(), ledger.count.load(Ordering::SeqCst));
        tokio::time::sleep(WINDOW).await;
        let is_away = matches!(store.status()[0].availability, Availability::Away { .. });
        let has_written = ledger.count.load(Ordering::SeqCst) > before.1;
        (is_away && !has_written && attempts() - before.0 <= ATTEMPTS_MAX * WINDOW.as_secs()).then_some(())
    };
    eventually("a store that is away to ask seldom", is_quiet).await;
    ledger.fails().await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_store_in_nats_survives_credentials_that_expire() {
    let users = vec![NatsUser::new("ann", "team")];
    let nats = Nats::start_with(NatsOptions { access: NatsAccess::Credentials, users, ..NatsOptions::default() });
    let current = Arc::new(Mutex::new(nats.credentials("ann", None)));
    let source = |path: Arc<Mutex<std::path::PathBuf>>| -> SecretSource {
        Arc::new(move || fs::read_to_string(&*path.lock()).map_err(|error| error.to_string()))
    };
    let lasting = Arc::new(Mutex::new(nats.credentials("ann", None)));
    let logins = [Arc::clone(&current), lasting].map(|path| (Some(Login::File(source(path))), Tls::default()));
    let proxy = Proxy::to(nats.port());
    let hosts = Hosts::nats_as(&nats, &proxy, Create::default(), logins);
    let store = Arc::clone(&hosts.near);
    survives(hosts, async |ledger: Arc<Ledger>| {
        *current.lock() = nats.credentials("ann", Some(Duration::from_secs(3)));
        // The store logs in with the credentials of the moment. The server ends that connection with them.
        until_a_write_fails(&proxy, NetworkFault::Reset, &ledger).await;
        let attempts = || proxy.traffic().connections + store.status()[0].requests.sent;
        asks_seldom(&store, &ledger, attempts).await;
        *current.lock() = nats.credentials("ann", None);
    })
    .await;
}

/// An account of a cluster with tokens that end before their time.
struct Account<'a> {
    cluster: &'a Cluster,
    namespace: String,
}

impl<'a> Account<'a> {
    /// Makes an account that may do everything in its namespace.
    fn new(cluster: &'a Cluster) -> Self {
        let namespace = namespace(cluster);
        let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "host" } });
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": "host" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
            "subjects": [{ "kind": "ServiceAccount", "name": "host", "namespace": namespace }],
        });
        let bindings = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings");
        for (path, body) in [(format!("/api/v1/namespaces/{namespace}/serviceaccounts"), account), (bindings, binding)]
        {
            let made = cluster.request("POST", &path, Some(&body));
            assert_eq!(made.status, 201, "{made:?}");
        }
        Self { cluster, namespace }
    }

    fn secrets(&self) -> String {
        format!("/api/v1/namespaces/{}/secrets", self.namespace)
    }

    /// Returns a token that is good as long as a secret of this name exists, which is made.
    fn token(&self, secret: &str) -> String {
        let made = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": secret } });
        let made = self.cluster.request("POST", &self.secrets(), Some(&made));
        assert_eq!(made.status, 201, "{made:?}");
        let bound = json!({
            "apiVersion": "v1", "kind": "Secret", "name": secret, "uid": made.json()["metadata"]["uid"],
        });
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": { "audiences": [], "expirationSeconds": 3600, "boundObjectRef": bound },
        });
        let path = format!("/api/v1/namespaces/{}/serviceaccounts/host/token", self.namespace);
        let given = self.cluster.request("POST", &path, Some(&request));
        assert_eq!(given.status, 201, "{given:?}");
        given.json()["status"]["token"].as_str().unwrap().to_owned()
    }

    /// Ends a token before its time.
    fn end(&self, secret: &str) {
        let gone = self.cluster.request("DELETE", &format!("{}/{secret}", self.secrets()), None);
        assert_eq!(gone.status, 200, "{gone:?}");
    }
}

/// Ends the token of a store while it writes, and gives it another one. `give` writes a token to where the store finds
/// it.
async fn outlives_its_token(account: &Account<'_>, user: &Value, give: impl Fn(&str)) {
    let proxy = HttpProxy::to(account.cluster.apiserver().port(), account.cluster.authority());
    give(&account.token("first"));
    let hosts = Hosts::cluster_as(account.cluster, &proxy.url(), &account.namespace, user);
    let store = Arc::clone(&hosts.near);
    survives(hosts, async |ledger: Arc<Ledger>| {
        account.end("first");
        asks_seldom(&store, &ledger, || proxy.requests().values().sum()).await;
        give(&account.token("second"));
    })
    .await;
}

fn write_token(file: &Path, text: &str) {
    fs::write(file, text).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_store_in_a_cluster_survives_a_token_that_ends_and_a_new_one_in_its_file() {
    let (account, folder) = (Account::new(shared_cluster()), tempfile::tempdir().unwrap());
    let file = folder.path().join("token");
    outlives_its_token(&account, &json!({ "tokenFile": file }), |token| write_token(&file, token)).await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_store_in_a_cluster_survives_a_token_that_ends_and_a_plugin_that_prints_another() {
    let (account, folder) = (Account::new(shared_cluster()), tempfile::tempdir().unwrap());
    let file = folder.path().join("printed.json");
    let version = "client.authentication.k8s.io/v1";
    let user = json!({ "exec": {
        "apiVersion": version, "command": "cat", "args": [file], "interactiveMode": "Never",
    } });
    let give = |token: &str| {
        let status = json!({ "token": token, "expirationTimestamp": "2999-01-01T00:00:00Z" });
        let printed = json!({ "apiVersion": version, "kind": "ExecCredential", "status": status });
        write_token(&file, &printed.to_string());
    };
    outlives_its_token(&account, &user, give).await;
}
