//! Client certificates that end while a store writes, and that are replaced some time later.

use std::fs;
use std::path::{Path, PathBuf};

use homeostat_nats::settings::Tls;
use homeostat_tests::{CertificatePair, NatsOptions};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use super::expired::asks_seldom;
use super::*;

/// How long the certificates of an agent are good. A certificate has whole seconds, so it may be one less.
const LIFETIME: Duration = Duration::from_secs(6);
/// How often an agent replaces the certificate.
const ROTATION: Duration = Duration::from_secs(2);

/// Writes a file in one step, so that no reader finds half of it.
fn replace(file: &Path, text: &str) {
    let new = file.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::rename(new, file).unwrap();
}

/// Replaces the short-lived certificate of a store again and again, as an agent on the store's machine does.
struct Agent<F> {
    give: Arc<F>,
    rotating: JoinHandle<()>,
}

impl<F: Fn(Option<Duration>) + Send + Sync + 'static> Agent<F> {
    /// Starts an agent. `give` writes a certificate with a lifetime to where the store finds it.
    fn start(give: F) -> Self {
        give(Some(LIFETIME));
        let give = Arc::new(give);
        let rotates = Arc::clone(&give);
        let rotating = tokio::spawn(async move {
            loop {
                tokio::time::sleep(ROTATION).await;
                rotates(Some(LIFETIME));
            }
        });
        Self { give, rotating }
    }

    /// Stops the agent. Its last certificate stays where it is.
    async fn stop(&mut self) {
        self.rotating.abort();
        assert!((&mut self.rotating).await.unwrap_err().is_cancelled());
    }

    /// Writes a certificate that is good for ever.
    fn give_lasting(&self) {
        (self.give)(None);
    }
}

/// Waits until a store that is away tells this reason. It may tell that of an earlier fault until it has tried again.
async fn tells(store: &CachedStore, expected: &str) {
    let tells = || async {
        let Availability::Away { reason, .. } = store.status().remove(0).availability else { return None };
        reason.contains(expected).then_some(())
    };
    eventually(expected, tells).await;
}

/// Lets the certificate of a store in a cluster end while the store writes. `give` writes one to where the store finds
/// it, as `user` says.
async fn outlives_its_certificate(user: &Value, give: impl Fn(CertificatePair) + Send + Sync + 'static) {
    let cluster = shared_cluster();
    let proxy = Proxy::to(cluster.apiserver().port());
    let mut agent = Agent::start(move |lifetime| {
        give(cluster.authority().client("host", Some("system:masters"), lifetime));
    });
    let url = format!("https://{}", proxy.address());
    let hosts = Hosts::cluster_as(cluster, &url, &namespace(cluster), user);
    let store = Arc::clone(&hosts.near);
    survives(hosts, async |ledger: Arc<Ledger>| {
        agent.stop().await;
        let attempts = || proxy.traffic().connections + store.status()[0].requests.sent;
        asks_seldom(&store, &ledger, attempts).await;
        tells(&store, "does not accept the credentials").await;
        agent.give_lasting();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_store_in_a_cluster_survives_a_certificate_that_expires_in_its_file() {
    let folder = tempfile::tempdir().unwrap();
    // One file for both, as that of a kubelet.
    let file = folder.path().join("client.pem");
    let user = json!({ "client-certificate": file, "client-key": file });
    outlives_its_certificate(&user, move |CertificatePair { certificate, key }| {
        replace(&file, &format!("{certificate}{key}"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_store_in_a_cluster_survives_a_certificate_of_a_plugin_that_expires() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("printed.json");
    let version = "client.authentication.k8s.io/v1";
    let user = json!({ "exec": {
        "apiVersion": version, "command": "cat", "args": [file], "interactiveMode": "Never",
    } });
    outlives_its_certificate(&user, move |CertificatePair { certificate, key }| {
        let status = json!({ "clientCertificateData": certificate, "clientKeyData": key });
        let printed = json!({ "apiVersion": version, "kind": "ExecCredential", "status": status });
        replace(&file, &printed.to_string());
    })
    .await;
}

/// The files of a client of a NATS server that asks for certificates.
struct ClientFiles {
    folder: TempDir,
}

impl ClientFiles {
    fn new(nats: &Nats) -> Self {
        let files = Self { folder: tempfile::tempdir().unwrap() };
        fs::write(files.path("authority.pem"), nats.authority().pem()).unwrap();
        files.give(nats, None);
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Replaces the certificate by one with this lifetime.
    fn give(&self, nats: &Nats, lifetime: Option<Duration>) {
        let CertificatePair { certificate, key } = nats.authority().client("host", None, lifetime);
        replace(&self.path("client.pem"), &format!("{certificate}{key}"));
    }

    fn tls(&self) -> Tls {
        let certificate = Some((self.path("client.pem"), self.path("client.pem")));
        Tls { authority: Some(self.path("authority.pem")), certificate, ..Tls::default() }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_store_in_nats_survives_a_certificate_that_expires() {
    let settings = json!({ "tls": { "verify": true } }).as_object().unwrap().clone();
    let nats = Nats::start_with(NatsOptions { tls: true, settings, ..NatsOptions::default() });
    let proxy = Proxy::to(nats.port());
    let [current, lasting] = [ClientFiles::new(&nats), ClientFiles::new(&nats)];
    let logins = [&current, &lasting].map(|files| (None, files.tls()));
    let hosts = Hosts::nats_as(&nats, &proxy, Create::default(), logins);
    let store = Arc::clone(&hosts.near);
    survives(hosts, async |ledger: Arc<Ledger>| {
        current.give(&nats, Some(Duration::ZERO));
        // The server looks at a certificate when a connection begins.
        until_a_write_fails(&proxy, NetworkFault::Reset, &ledger).await;
        let attempts = || proxy.traffic().connections + store.status()[0].requests.sent;
        asks_seldom(&store, &ledger, attempts).await;
        tells(&store, "CertificateExpired").await;
        current.give(&nats, None);
    })
    .await;
}
