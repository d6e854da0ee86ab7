//! The measured servers of the Kubernetes API, each with the same certificate authority and the same kind of token.

use std::ffi::{OsStr, OsString};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use homeostat_servers::{Authority, CertificatePair, Cluster, ClusterOptions, Flush};
use hyper::{Method, StatusCode};
use tempfile::TempDir;

use crate::connection::{Connection, Endpoint};
use crate::host_process::HostProcess;
use crate::measure::resident_bytes_of;

/// The user of the requests.
const USER: &str = "admin";
/// The token of a host; it refuses shorter ones than 16 characters.
const TOKEN: &str = "a-token-of-the-contender";
/// The interval between questions whether the host is ready.
const ASKED_EVERY: Duration = Duration::from_millis(1);
/// The text of the host before its address.
const SERVING: &str = " on https://127.0.0.1:";

/// A running server, which ends when this is dropped.
pub(super) struct MeasuredServer {
    /// Where it is.
    pub(super) endpoint: Endpoint,
    /// From the start of its processes until it was ready.
    pub(super) ready_after: Duration,
    processes: Processes,
}

/// The processes of a server.
enum Processes {
    /// The process with its data, in the order in which they are dropped.
    Host(Box<(HostProcess, TempDir)>),
    Cluster(Box<Cluster>),
}

impl MeasuredServer {
    /// Starts the server of a system, and waits until it is ready. `flush` is etcd's; a host always flushes.
    pub(super) async fn start(system: &str, program: &str, flush: Flush) -> Result<Self> {
        match system {
            "homeostat" => host(Path::new(program)).await,
            "kube-apiserver" => cluster(flush).await,
            _ => bail!("{system} has no Kubernetes API"),
        }
    }

    /// Returns the resident memory of its processes in MiB.
    pub(super) fn resident_mib(&self) -> Result<f64> {
        let bytes = match &self.processes {
            Processes::Host(host) => resident_bytes_of(&host.0.id()?)?,
            Processes::Cluster(cluster) => {
                let servers = [cluster.apiserver().server(), cluster.etcd().server()];
                servers.map(|server| resident_bytes_of(&server.id().to_string())).into_iter().sum::<Result<u64>>()?
            }
        };
        Ok(bytes as f64 / f64::from(1 << 20))
    }
}

/// Starts kube-apiserver and etcd.
async fn cluster(flush: Flush) -> Result<MeasuredServer> {
    let start = Instant::now();
    let started = move || Cluster::start(ClusterOptions { flush, ..ClusterOptions::default() });
    let cluster = Box::new(tokio::task::spawn_blocking(started).await?);
    let ready_after = start.elapsed();
    let endpoint = Endpoint {
        address: SocketAddr::from((Ipv4Addr::LOCALHOST, cluster.apiserver().port())),
        trust: Some(cluster.authority().client_config()),
        token: Some(Cluster::token(USER)),
    };
    Ok(MeasuredServer { endpoint, ready_after, processes: Processes::Cluster(cluster) })
}

/// Starts `homeostat run` with an empty folder of manifests.
async fn host(program: &Path) -> Result<MeasuredServer> {
    let folder = tempfile::tempdir().context("no folder for the host can be created")?;
    let manifests = folder.path().join("manifests");
    std::fs::create_dir(&manifests).context("no folder for manifests can be created")?;
    let authority = Authority::new();
    let CertificatePair { certificate, key } = authority.server();
    let token = TOKEN.to_owned();
    let mut arguments: Vec<OsString> = ["--listen", "https://127.0.0.1:0"].map(OsString::from).into();
    let tokens = format!("- {{name: {USER}, token: {token}, access: write}}\n");
    for (option, name, text) in
        [("--tls-cert", "tls.pem", certificate), ("--tls-key", "tls.key", key), ("--tokens", "tokens.yaml", tokens)]
    {
        arguments.extend([option.into(), private(folder.path(), name, &text)?.into()]);
    }
    let arguments: Vec<&OsStr> = arguments.iter().map(OsString::as_os_str).collect();
    let start = Instant::now();
    let mut process = HostProcess::start(program, &manifests, &folder.path().join("data"), &arguments)?;
    let port = process.line_after(SERVING).await?.trim().parse()?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let endpoint = Endpoint { address, trust: Some(authority.client_config()), token: Some(token) };
    let mut connection = Connection::open(&endpoint).await?;
    while connection.ask(Method::GET, "/readyz", String::new()).await? != StatusCode::OK {
        tokio::time::sleep(ASKED_EVERY).await;
    }
    let ready_after = start.elapsed();
    let processes = Processes::Host(Box::new((process, folder)));
    Ok(MeasuredServer { endpoint, ready_after, processes })
}

/// Writes a file for its owner alone, and returns its path.
fn private(folder: &Path, name: &str, text: &str) -> Result<PathBuf> {
    let path = folder.join(name);
    std::fs::write(&path, text).with_context(|| format!("{name} cannot be written"))?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    Ok(path)
}
