//! Accepts connections, bounds them, and ends them in good order.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use homeostat_runtime::Host;
use homeostat_store::embedded::EmbeddedStore;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde::Deserialize;
use tokio::sync::{Mutex, Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};

use crate::listen::{Listener, Stream};
use crate::router::{self, Api};
use crate::{Address, Check, Metrics};

/// Bytes kept of a connection's request head; a longer one is refused.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// The wait after a failed accept, which is a lack of file descriptors as a rule.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What the server is asked for.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Options {
    /// Where to listen, as `unix:PATH` or `http://127.0.0.1:PORT`.
    pub address: String,
    /// Connections at once. More wait in the system's backlog.
    pub connections_max: usize,
    /// Bytes of a request's body; a larger one is refused.
    pub body_bytes_max: usize,
    /// Milliseconds in which a request's head, and then its body, must have come.
    pub request_ms_max: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            address: "http://127.0.0.1:0".into(),
            connections_max: 256,
            body_bytes_max: 2 * 1024 * 1024,
            request_ms_max: 30_000,
        }
    }
}

/// Why the server does not serve.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address does not read as one.
    #[error(transparent)]
    Address(#[from] crate::BadAddress),
    /// The address could be reached from other machines.
    #[error(
        "{address} could be reached from other machines, and there is no authentication yet: use 127.0.0.1 or a unix socket"
    )]
    NotLoopback {
        /// What was asked for.
        address: SocketAddr,
    },
    /// Another host, or another program, has the address.
    #[error("something else answers on {address}: stop it, or choose another address")]
    InUse {
        /// What was asked for.
        address: Address,
    },
    /// Others could replace the socket by theirs.
    #[error("other users can write to the folder {}: take a folder of mode 0700 that is yours", .folder.display())]
    OpenFolder {
        /// Where the socket was to be.
        folder: PathBuf,
    },
    /// A file that is no socket is in the way.
    #[error("{} is there already and is not a socket: remove it, or choose another path", .path.display())]
    NotASocket {
        /// What is in the way.
        path: PathBuf,
    },
    /// The system refused.
    #[error("cannot listen on {address}")]
    Bind {
        /// What was asked for.
        address: Address,
        /// The system's reason.
        source: std::io::Error,
    },
}

/// A running server. Clones are the same server; dropping the last one lets it run on.
#[derive(Clone, Debug)]
pub struct Handle {
    address: Address,
    stop: watch::Sender<bool>,
    accepting: Arc<Mutex<Option<JoinHandle<JoinSet<()>>>>>,
}

impl Handle {
    /// Returns where the server listens, with the port that the system chose.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Stops: takes no connection any more, ends watches, and lets requests finish until the deadline cuts them off.
    ///
    /// *Cancel safety*: cancelled, requests that still run are cut off. A second call returns at once.
    pub async fn stop(&self, deadline: Duration) {
        self.stop.send_replace(true);
        let Some(accepting) = self.accepting.lock().await.take() else { return };
        let Ok(mut connections) = accepting.await else { return };
        let finished = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(deadline, finished).await.is_err() {
            tracing::warn!(connections = connections.len(), "requests did not finish in time and are cut off");
            connections.shutdown().await;
        }
    }
}

/// What is served.
pub struct Served {
    /// The host that is asked.
    pub host: Host,
    /// Its metrics. Those that observe reconciles are there when it is the host's observer as well.
    pub metrics: Metrics,
    /// What has to hold besides before the host is ready.
    pub checks: Vec<Check>,
    /// The store of the host, where it is one that backups can be made of.
    pub backups: Option<Arc<EmbeddedStore>>,
}

impl From<Host> for Served {
    /// Serves a host that nobody observes.
    fn from(host: Host) -> Self {
        Self { host, metrics: Metrics::default(), checks: Vec::new(), backups: None }
    }
}

/// Listens, and serves a host until [`Handle::stop`].
///
/// # Errors
/// An [`Error`] when the address is bad, taken, or could be reached by others.
pub async fn serve(options: Options, served: impl Into<Served>) -> Result<Handle, Error> {
    let Served { host, metrics, checks, backups } = served.into();
    let Options { address, connections_max, body_bytes_max, request_ms_max } = options;
    let address: Address = address.parse()?;
    let listener = Listener::bind(&address).await?;
    let address = listener.address().map_err(|source| Error::Bind { address, source })?;
    let (stop, stopped) = watch::channel(false);
    let request_max = Duration::from_millis(request_ms_max);
    let api = Api {
        host,
        metrics,
        checks: checks.into(),
        backups,
        backing_up: Arc::default(),
        stopped: stopped.clone(),
        body_bytes_max,
        request_max,
    };
    let router = router::router(api);
    let server = Server { listener, router, stopped, request_max, permits: Arc::new(Semaphore::new(connections_max)) };
    let accepting = Arc::new(Mutex::new(Some(tokio::spawn(server.accept()))));
    Ok(Handle { address, stop, accepting })
}

struct Server {
    listener: Listener,
    router: axum::Router,
    stopped: watch::Receiver<bool>,
    request_max: Duration,
    permits: Arc<Semaphore>,
}

impl Server {
    /// Accepts until the stop, and returns the connections that are open then.
    async fn accept(self) -> JoinSet<()> {
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            let next = async {
                let permit = self.permits.clone().acquire_owned().await.expect("the semaphore is never closed");
                (permit, self.listener.accept().await)
            };
            let (permit, stream) = tokio::select! {
                biased;
                () = stop(&self.stopped) => return connections,
                next = next => next,
            };
            match stream {
                Ok(stream) => {
                    let connection = connection(stream, self.router.clone(), self.stopped.clone(), self.request_max);
                    connections.spawn(async move {
                        connection.await;
                        drop(permit);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// Waits for the stop; for ever when the handle is gone, and with it everyone who could stop the server.
pub(crate) async fn stop(stopped: &watch::Receiver<bool>) {
    if stopped.clone().wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Serves one connection until the client leaves or the server stops.
async fn connection(stream: Box<dyn Stream>, router: axum::Router, stopped: watch::Receiver<bool>, head_max: Duration) {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(head_max).max_buf_size(HEAD_BYTES_MAX);
    let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = std::pin::pin!(connection);
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = stop(&stopped) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "a connection ended early");
    }
}
