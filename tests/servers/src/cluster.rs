//! A Kubernetes without nodes: etcd, an apiserver with TLS and RBAC, and kube-controller-manager on demand.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use homeostat_testing::eventually_built;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_rustls::rustls::ClientConfig;

use super::Permit;
use super::certificates::{Authority, CertificatePair, signing_keys};
use super::etcd::{Etcd, Flush};
use super::http::{Answer, Client, Request};
use super::ports::ReservedPort;
use super::proxy::Proxy;
use super::server::Server;
use crate::tools;

/// The users with a token. Only the first one may do something before a role says so, and no limit of requests in
/// flight applies to it. Others come by certificates ([`Authority::client`]) and by service accounts.
pub const CLUSTER_USERS: [&str; 4] = [ADMIN, "ann", "bob", "eve"];

/// The user who may do everything.
const ADMIN: &str = "admin";

/// The controllers that collect garbage, end namespaces and make the service account of each namespace.
const CONTROLLERS: &str = "garbage-collector-controller,namespace-controller,serviceaccount-controller";

/// The revisions by which a restored cluster is ahead of its snapshot. Source: the disaster recovery guide of etcd.
const REVISIONS_BUMP: u64 = 1_000_000_000;

/// How a cluster is started.
#[derive(Clone, Debug, Default)]
pub struct ClusterOptions {
    /// Whether kube-controller-manager runs. Without it nobody collects dependents, and namespaces never end. It
    /// notices a new kind within 30 seconds.
    pub with_controllers: bool,
    /// Feature gates of the apiserver, such as `("WatchList", false)`.
    pub feature_gates: Vec<(&'static str, bool)>,
    /// The most requests in flight, once for reads and once for writes. Those above it are answered with 429 at
    /// once. Watches do not count, and the administrator's requests neither. `None` is the apiserver's default,
    /// with its queues.
    pub requests_in_flight_max: Option<u32>,
    /// How often the apiserver compacts the history; `None` is every five minutes.
    pub compaction_interval: Option<Duration>,
    /// When etcd flushes its files.
    pub flush: Flush,
    /// Further arguments of the apiserver.
    pub arguments: Vec<String>,
}

impl ClusterOptions {
    /// Returns the options of a cluster with controllers whose pods need no service account, which a client that makes
    /// a namespace and then a pod in it would have to wait for.
    pub fn without_accounts() -> Self {
        let arguments = vec!["--disable-admission-plugins=ServiceAccount".to_owned()];
        Self { with_controllers: true, arguments, ..Self::default() }
    }
}

/// A Kubernetes without nodes. Its servers are killed when this is dropped.
pub struct Cluster {
    // Fields are dropped in this order: the servers end before their folder goes.
    controllers: Option<Server>,
    apiserver: ApiServer,
    etcd: Etcd,
    files: Files,
    authority: Authority,
    options: ClusterOptions,
    _folder: TempDir,
    _permit: Option<Permit>,
}

/// An apiserver of a cluster.
pub struct ApiServer {
    server: Server,
    port: ReservedPort,
    trust: Arc<ClientConfig>,
}

/// The files that the servers share.
struct Files {
    folder: PathBuf,
    authority: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
    tokens: PathBuf,
    accounts_private: PathBuf,
    accounts_public: PathBuf,
}

impl Files {
    fn write(folder: &Path, authority: &Authority) -> Self {
        let file = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::write(&path, text).expect("files can be written");
            path
        };
        let CertificatePair { certificate, key } = authority.server();
        let (private, public) = signing_keys();
        let group = |user| if user == ADMIN { "system:masters" } else { "people" };
        let tokens = CLUSTER_USERS.map(|user| format!("{},{user},{user},{}\n", Cluster::token(user), group(user)));
        Self {
            folder: folder.to_owned(),
            authority: file("authority.pem", &authority.pem()),
            certificate: file("server.pem", &certificate),
            key: file("server.key", &key),
            tokens: file("tokens.csv", &tokens.concat()),
            accounts_private: file("accounts.key", &private),
            accounts_public: file("accounts.pub", &public),
        }
    }
}

impl Cluster {
    /// Starts a private cluster, and waits until it answers. Waits first while two other private clusters exist in
    /// this process; so a test that holds one starts no second one.
    ///
    /// # Panics
    /// When it cannot be built or started.
    pub fn start(options: ClusterOptions) -> Self {
        Self::start_with(options, Some(Permit::acquire()))
    }

    pub(super) fn start_with(options: ClusterOptions, permit: Option<Permit>) -> Self {
        let folder = tempfile::tempdir().expect("folders can be made");
        let authority = Authority::new();
        let files = Files::write(folder.path(), &authority);
        let etcd = Etcd::start(folder.path(), options.flush);
        let apiserver = ApiServer::start("kube-apiserver", &options, &files, &authority, &etcd.url());
        let cluster =
            Self { controllers: None, apiserver, etcd, files, authority, options, _folder: folder, _permit: permit };
        if cluster.options.with_controllers { cluster.with_controllers() } else { cluster }
    }

    fn with_controllers(self) -> Self {
        let arguments = vec![
            format!("--kubeconfig={}", self.kubeconfig(ADMIN).display()),
            format!("--controllers={CONTROLLERS}"),
            format!("--service-account-private-key-file={}", self.files.accounts_private.display()),
            "--leader-elect=false".to_owned(),
            // It serves nothing.
            "--secure-port=0".to_owned(),
        ];
        let program = tools::kube_controller_manager();
        let server = Server::new("kube-controller-manager", program, arguments, &self.files.folder, || true);
        server.start();
        eventually_built("a controller to do something", || {
            let answer = self.request("GET", "/api/v1/namespaces/default/serviceaccounts/default", None);
            (answer.status == 200).then_some(())
        });
        Self { controllers: Some(server), ..self }
    }

    /// Starts another apiserver over the same etcd. Frozen and thawed again, it serves a past state, until its
    /// watches of etcd have caught up.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn second_apiserver(&self) -> ApiServer {
        self.another_apiserver(&self.etcd.url())
    }

    /// Starts another apiserver behind a proxy to etcd. Its watches lag behind those of the first one by the delay of
    /// the proxy.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn second_apiserver_behind(&self, etcd: &Proxy) -> ApiServer {
        self.another_apiserver(&format!("http://{}", etcd.address()))
    }

    fn another_apiserver(&self, etcd: &str) -> ApiServer {
        ApiServer::start("kube-apiserver-2", &self.options, &self.files, &self.authority, etcd)
    }

    /// Returns the URL of the apiserver.
    pub fn url(&self) -> String {
        self.apiserver.url()
    }

    /// Returns the apiserver.
    pub fn apiserver(&self) -> &ApiServer {
        &self.apiserver
    }

    /// Returns the store of the apiserver.
    pub fn etcd(&self) -> &Etcd {
        &self.etcd
    }

    /// Restores a snapshot of etcd ([`Etcd::snapshot`]) as the guides of Kubernetes say: nothing runs meanwhile, and all
    /// revisions are above the former ones. Waits until the apiserver answers again.
    ///
    /// # Panics
    /// When the snapshot cannot be restored, or a server does not start.
    pub fn restore(&self, snapshot: &Path) {
        self.apiserver.server.kill();
        self.etcd.server().kill();
        self.etcd.restore(snapshot, REVISIONS_BUMP);
        self.etcd.server().start();
        self.apiserver.server.start();
    }

    /// Returns kube-controller-manager.
    ///
    /// # Panics
    /// When the options have none.
    pub fn controllers(&self) -> &Server {
        self.controllers.as_ref().expect("the options ask for controllers")
    }

    /// Returns the authority of the servers' certificates. The apiserver knows clients by its certificates too.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Returns the token of one of [`CLUSTER_USERS`].
    pub fn token(user: &str) -> String {
        format!("token-of-{user}")
    }

    /// Writes a kubeconfig for one of [`CLUSTER_USERS`], with its token, and returns its path.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn kubeconfig(&self, user: &str) -> PathBuf {
        self.kubeconfig_with(&self.url(), &json!({ "token": Self::token(user) }))
    }

    /// Writes a kubeconfig for the server at `url`, which may be a proxy, and returns its path. `credentials` is the
    /// `user` in it: a token, a file with a token, a certificate, a plugin.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn kubeconfig_with(&self, url: &str, credentials: &Value) -> PathBuf {
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{
                "name": "test",
                "cluster": { "server": url, "certificate-authority": self.files.authority },
            }],
            "users": [{ "name": "user", "user": credentials }],
            "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "user" } }],
            "current-context": "test",
        });
        let file = tempfile::Builder::new().prefix("kubeconfig-").tempfile_in(&self.files.folder);
        let path = file.and_then(|file| Ok(file.keep()?.1)).expect("files can be made");
        // JSON is valid YAML.
        fs::write(&path, config.to_string()).expect("files can be written");
        path
    }

    /// Sends a request as the administrator, with a JSON body. A `PATCH` is a merge patch.
    ///
    /// # Panics
    /// When there is no whole answer.
    pub fn request(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let answer = self.apiserver.ask(ADMIN, method, path, body);
        answer.unwrap_or_else(|| {
            panic!("{method} {path} is not answered; it said:\n{}", self.apiserver.server.end_of_log())
        })
    }

    /// Returns a client of the API server. Its requests need the [token](Self::admin_token) of a user.
    pub fn client(&self) -> Client {
        Client::secured(self.apiserver.port(), self.apiserver.trust.clone())
    }

    /// Returns the token of the administrator.
    pub fn admin_token() -> String {
        Self::token(ADMIN)
    }

    /// Runs `kubectl` as the administrator. Returns its standard output, or what it said when it failed.
    ///
    /// # Errors
    /// Its standard error if its exit code is not 0.
    ///
    /// # Panics
    /// When it cannot be built or started.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new(tools::kubectl());
        command.arg("--server").arg(self.url()).arg("--certificate-authority").arg(&self.files.authority);
        command.arg("--token").arg(Self::token(ADMIN)).args(arguments);
        command.env_clear().env("HOME", &self.files.folder).current_dir(&self.files.folder);
        let output = command.output().expect("kubectl starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }
}

impl ApiServer {
    fn start(name: &str, options: &ClusterOptions, files: &Files, authority: &Authority, etcd: &str) -> Self {
        let (port, trust) = (ReservedPort::new(), authority.client_config());
        let number = port.number();
        let is_up = {
            let trust = trust.clone();
            move |path: &str| {
                let token = Cluster::token(ADMIN);
                let request = Request { token: Some(&token), ..Request::get(path) };
                request.send_tls(number, trust.clone()).is_some_and(|answer| answer.status == 200)
            }
        };
        // The namespace is made after the server is ready.
        let is_ready = move || is_up("/readyz") && is_up("/api/v1/namespaces/default");
        let arguments = arguments(options, files, etcd, number);
        let server = Server::new(name, tools::kube_apiserver(), arguments, &files.folder, is_ready);
        server.start();
        Self { server, port, trust }
    }

    /// Returns the server, to kill it or to freeze it.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Returns its URL.
    pub fn url(&self) -> String {
        format!("https://{}", self.port.address())
    }

    /// Returns its port.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Sends a request as one of [`CLUSTER_USERS`], with a JSON body. A `PATCH` is a merge patch. `None` if there
    /// is no whole answer.
    pub fn ask(&self, user: &str, method: &str, path: &str, body: Option<&Value>) -> Option<Answer> {
        let (token, body) = (Cluster::token(user), body.map(Value::to_string).unwrap_or_default());
        let content_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let body = body.as_bytes();
        Request { method, token: Some(&token), content_type, body, ..Request::get(path) }
            .send_tls(self.port(), self.trust.clone())
    }
}

/// Returns the arguments of an apiserver over the etcd at a URL.
fn arguments(options: &ClusterOptions, files: &Files, etcd: &str, port: u16) -> Vec<String> {
    let Files { folder, authority, certificate, key, tokens, accounts_private, accounts_public } = files;
    let files = [
        ("cert-dir", &folder.join("certificates")),
        ("tls-cert-file", certificate),
        ("tls-private-key-file", key),
        ("client-ca-file", authority),
        ("token-auth-file", tokens),
        ("service-account-key-file", accounts_public),
        ("service-account-signing-key-file", accounts_private),
    ];
    let mut arguments: Vec<String> = files.map(|(name, path)| format!("--{name}={}", path.display())).into();
    arguments.extend([
        format!("--etcd-servers={etcd}"),
        format!("--secure-port={port}"),
        "--bind-address=127.0.0.1".to_owned(),
        // No service is the way to it, and a loopback address would not do as one.
        "--advertise-address=127.0.0.1".to_owned(),
        "--endpoint-reconciler-type=none".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
        // As kubeadm sets it.
        "--allow-privileged=true".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        "--service-cluster-ip-range=10.96.0.0/12".to_owned(),
    ]);
    if !options.with_controllers {
        // Nobody makes the accounts that it demands of pods.
        arguments.push("--disable-admission-plugins=ServiceAccount".to_owned());
    }
    if !options.feature_gates.is_empty() {
        let gates: Vec<String> = options.feature_gates.iter().map(|(name, on)| format!("{name}={on}")).collect();
        arguments.push(format!("--feature-gates={}", gates.join(",")));
    }
    if let Some(most) = options.requests_in_flight_max {
        arguments.push("--enable-priority-and-fairness=false".to_owned());
        arguments.extend(["", "mutating-"].map(|which| format!("--max-{which}requests-inflight={most}")));
    }
    if let Some(interval) = options.compaction_interval {
        arguments.push(format!("--etcd-compaction-interval={}ms", interval.as_millis()));
    }
    arguments.extend(options.arguments.iter().cloned());
    arguments
}
