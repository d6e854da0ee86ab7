//! The server: accepts connections, bounds them, and shuts them down gracefully.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use homeostat_runtime::Host;
use homeostat_store::embedded::EmbeddedStore;
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use jiff::Timestamp;
use tokio::sync::{Mutex, Semaphore};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::body::BodyLimits;
use crate::body_drain::UnreadBody;
use crate::client::Client;
use crate::connection_timeouts::{CloseReason, ConnectionTimeouts, StallGuardBody, TimeoutOptions};
use crate::document_cache::DocumentCache;
use crate::event_cache::EncodedEventCache;
use crate::forwarder::Forwarder;
use crate::limiter::Limiter;
use crate::limits::Limits;
use crate::listen::{Listener, Stream};
use crate::metrics::LimitKind;
use crate::reloading_file::ReloadingFile;
use crate::role_watch::RoleWatch;
use crate::router::ApiService;
use crate::service_accounts::ServiceAccountTokens;
use crate::state::Api;
use crate::tls::TlsIdentity;
use crate::tokens::Tokens;
use crate::{Address, Check, Error, Metrics, Options};

/// Maximum size of a request's head, in bytes. A longer one is refused.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Concurrent requests over one HTTP/2 connection. Further requests wait in the client.
const STREAMS_MAX: u32 = 256;

/// HTTP/2 flow control: bytes that a client may send of one body, and of all bodies over one connection,
/// before the server reads them.
const UNREAD_BYTES_MAX: u32 = 64 * 1024;
const UNREAD_BYTES_ALL_MAX: u32 = 128 * 1024;

/// Bytes of one response that HTTP/2 buffers until the client has room for them.
const SEND_BYTES_MAX: usize = 128 * 1024;

/// How long a connection stays open without a request. API servers of Kubernetes use the same value.
const IDLE_MAX: Duration = Duration::from_secs(90);

/// The interval of HTTP/2 pings, and how long a client may take to answer one.
const PING_EVERY: Duration = Duration::from_secs(30);
const PONG_MAX: Duration = Duration::from_secs(20);

/// The share of one client: so many times the watches, or connections, that are left free. It is generous
/// because one program may watch many kinds, and a proxy is one address for all its users.
const WATCHES_OF_ONE: usize = 8;
const CONNECTIONS_OF_ONE: usize = 8;

/// The pause after a failed accept, usually for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A running server. Clones refer to the same server; dropping the last one does not stop it.
#[derive(Clone, Debug)]
pub struct Handle {
    address: Address,
    fingerprint: Option<String>,
    stopped: CancellationToken,
    accepting: Arc<Mutex<Option<JoinHandle<JoinSet<()>>>>>,
}

impl Handle {
    /// Returns the bound address, with the port that the system chose for port 0.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Returns SHA-256 of the certificate at the start, as pairs of hexadecimal digits with colons; `None`
    /// without TLS.
    pub fn fingerprint(&self) -> Option<&str> {
        self.fingerprint.as_deref()
    }

    /// Stops accepting connections, ends watches, and lets requests finish until the deadline cuts them off.
    ///
    /// *Cancel safety*: if cancelled, running requests are cut off. A second call returns at once.
    pub async fn stop(&self, deadline: Duration) {
        self.stopped.cancel();
        let Some(accepting) = self.accepting.lock().await.take() else { return };
        let Ok(mut connections) = accepting.await else { return };
        let finished = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(deadline, finished).await.is_err() {
            tracing::warn!(connections = connections.len(), "requests did not finish in time and are cut off");
            connections.shutdown().await;
        }
    }
}

/// Maximum requests to webhooks that are being answered. More requests wait.
const WEBHOOKS_MAX: usize = 64;
/// Maximum size of the bodies of webhooks together, in bytes.
const WEBHOOK_BODIES_BYTES_MAX: usize = 8 << 20;

/// The parts that the server gives access to.
pub struct ServerBackend {
    /// The host.
    pub host: Host,
    /// The host's metrics. Those of reconciles need this as the host's observer as well.
    pub metrics: Metrics,
    /// Additional readiness checks.
    pub checks: Vec<Check>,
    /// The host's store, if it supports backups.
    pub backups: Option<Arc<EmbeddedStore>>,
}

impl From<Host> for ServerBackend {
    /// Serves a host that has no observer.
    fn from(host: Host) -> Self {
        Self { host, metrics: Metrics::default(), checks: Vec::new(), backups: None }
    }
}

/// Binds the address, and serves a host until [`Handle::stop`].
///
/// # Errors
/// An [`Error`] if the address does not parse, is in use or is not safe, or if the certificate, the tokens or the key of
/// service accounts cannot be used.
pub async fn serve(options: Options, served: impl Into<ServerBackend>) -> Result<Handle, Error> {
    let ServerBackend { host, metrics, checks, backups } = served.into();
    let Options {
        address,
        certificate,
        tokens,
        service_account_key,
        fleet_authority,
        connections_max,
        watches_max,
        requests_max,
        lists_max,
        body_bytes_max,
        bodies_bytes_max,
        request_ms_max,
        answer_ms_max,
        watch_ms_max,
        stall_ms_max,
    } = options;
    let address: Address = address.parse()?;
    if matches!(address, Address::Tls { .. }) != certificate.is_some() {
        return Err(Error::NoCertificate { address });
    }
    let identity = certificate.map(|certificate| TlsIdentity::open(certificate, metrics.clone())).transpose()?;
    let tokens = tokens.map(|path| Tokens::open(path, metrics.clone())).transpose()?;
    let service_accounts = Arc::new(ServiceAccountTokens::open(service_account_key, host.clone())?);
    let forwarder = Forwarder::new(fleet_authority.as_deref())?;
    let listener = Listener::bind(&address, tokens.is_some()).await?;
    let address = listener.address().map_err(|source| Error::Bind { address, source })?;
    let stopped = CancellationToken::new();
    let (request_max, stall) = (Duration::from_millis(request_ms_max), Duration::from_millis(stall_ms_max));
    let limiter = |kind, size, wait| Limiter::new(kind, size, wait, metrics.clone());
    let connections =
        limiter(LimitKind::Connections, connections_max, Duration::ZERO).with_client_factor(CONNECTIONS_OF_ONE);
    let limits = Limits {
        // A watch is refused at once, because watches may take long to end.
        watches: limiter(LimitKind::Watches, watches_max.min(connections_max / 2), Duration::ZERO)
            .with_client_factor(WATCHES_OF_ONE),
        requests: limiter(LimitKind::Requests, requests_max, request_max),
        lists: limiter(LimitKind::Lists, lists_max, request_max),
        bodies: BodyLimits {
            all: limiter(LimitKind::Bodies, bodies_bytes_max.max(body_bytes_max), request_max),
            bytes_max: body_bytes_max,
            // The first parts of all bodies together fit into half of the limit.
            beginning_bytes_max: bodies_bytes_max.max(body_bytes_max) / 2 / requests_max.max(1),
            time_max: request_max,
        },
        webhooks: limiter(LimitKind::Webhooks, WEBHOOKS_MAX, request_max),
        webhook_bodies: BodyLimits {
            all: limiter(LimitKind::WebhookBodies, WEBHOOK_BODIES_BYTES_MAX, request_max),
            bytes_max: body_bytes_max,
            beginning_bytes_max: WEBHOOK_BODIES_BYTES_MAX / 2 / WEBHOOKS_MAX,
            time_max: request_max,
        },
        watch_max: Duration::from_millis(watch_ms_max),
        answer_max: Duration::from_millis(answer_ms_max),
    };
    let identity = identity.map(Arc::new);
    let mut checks = checks;
    if let Some(identity) = identity.clone() {
        identity.last_value().warn_if_invalid();
        let holds = Arc::new(move || identity.last_value().check(Timestamp::now()));
        checks.push(Check { name: "certificate", holds });
    }
    let roles = RoleWatch::new(host.clone(), stopped.clone());
    if tokens.is_some() {
        let roles = roles.clone();
        tokio::spawn(async move { roles.book().await });
    }
    let api = Api {
        host,
        metrics,
        checks,
        backups,
        backup_lock: Arc::default(),
        stopped: stopped.clone(),
        tokens: tokens.map(Arc::new),
        service_accounts,
        roles,
        scheme: if identity.is_some() { "https" } else { "http" },
        limits,
        forwarder,
        event_cache: EncodedEventCache::default(),
        openapi: DocumentCache::default(),
    };
    let fingerprint = identity.as_ref().map(|identity| identity.last_value().fingerprint.clone());
    let handler =
        ConnectionHandler { identity, api: ApiService::new(api), stopped: stopped.clone(), request_max, stall };
    let server = Server { listener, handler, permits: Arc::new(Semaphore::new(connections_max)), connections };
    let accepting = Arc::new(Mutex::new(Some(tokio::spawn(server.accept()))));
    Ok(Handle { address, fingerprint, stopped, accepting })
}

struct Server {
    listener: Listener,
    handler: ConnectionHandler,
    /// One permit per connection. Further connections wait in the system's backlog.
    permits: Arc<Semaphore>,
    /// The same limit by client, checked after the accept: connections beyond a client's share are closed.
    connections: Limiter,
}

impl Server {
    /// Accepts connections until the stop, and returns those that are open then.
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
                () = self.handler.stopped.cancelled() => return connections,
                next = next => next,
            };
            match stream {
                Ok((stream, client)) => {
                    // Without waiting; the client learns of the refusal when its connection closes.
                    let Ok(held) = self.connections.acquire(&client, 1).await else { continue };
                    let connection = self.handler.clone().serve(stream, client);
                    connections.spawn(async move {
                        connection.await;
                        drop((held, permit));
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

/// Handles one connection.
#[derive(Clone)]
struct ConnectionHandler {
    /// `None` for plain HTTP.
    identity: Option<Arc<ReloadingFile<TlsIdentity>>>,
    api: ApiService,
    stopped: CancellationToken,
    request_max: Duration,
    stall: Duration,
}

impl ConnectionHandler {
    /// Serves one connection until the client disconnects, a timeout closes it, or the server stops.
    async fn serve(self, stream: Box<dyn Stream>, client: Client) {
        let Some(identity) = &self.identity else { return self.serve_http(stream, client).await };
        let handshake = async {
            let identity = identity.current().await;
            identity.warn_if_invalid();
            identity.acceptor.accept(stream).await
        };
        let result = tokio::select! {
            result = tokio::time::timeout(self.request_max, handshake) => result,
            () = self.stopped.cancelled() => return,
        };
        match result {
            Ok(Ok(stream)) => self.serve_http(stream, client).await,
            Ok(Err(error)) => tracing::debug!(%error, "the TLS handshake failed"),
            Err(_) => tracing::debug!("the TLS handshake timed out"),
        }
    }

    /// Serves HTTP/1 or HTTP/2, as the client chooses.
    async fn serve_http(self, stream: impl Stream + 'static, client: Client) {
        let Self { identity: _, api, stopped, request_max, stall } = self;
        let timeouts = ConnectionTimeouts::new(TimeoutOptions { first: request_max, idle: IDLE_MAX, stall });
        let service = service(api, timeouts.clone(), client);
        let builder = builder(request_max);
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let result = tokio::select! {
            result = connection.as_mut() => result,
            () = stopped.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
            end = timeouts.expired() => match end {
                CloseReason::Idle => {
                    connection.as_mut().graceful_shutdown();
                    // A client that does not read the shutdown either is cut off.
                    tokio::time::timeout(stall, connection).await.unwrap_or(Ok(()))
                }
                CloseReason::Stalled => {
                    tracing::debug!("a client does not read its response and is cut off");
                    Ok(())
                }
            },
        };
        if let Err(error) = result {
            tracing::debug!(%error, "a connection ended early");
        }
    }
}

/// Returns the service of one connection, which tracks its requests and responses.
fn service(
    api: ApiService,
    timeouts: Arc<ConnectionTimeouts>,
    client: Client,
) -> impl Service<Request<Incoming>, Response = Response<StallGuardBody>, Error = Infallible, Future: Send> {
    service_fn(move |request: Request<Incoming>| {
        let (in_flight, api, client) = (timeouts.begin_request(), api.clone(), client.clone());
        async move {
            let (mut request, unread) = UnreadBody::of(request);
            // A client with a token replaces this one.
            request.extensions_mut().insert(client);
            let response = api.answer(request).await;
            unread.drain().await;
            Ok(response.map(|body| in_flight.body(body)))
        }
    })
}

/// Returns the HTTP settings of a connection.
fn builder(head_max: Duration) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(head_max).max_buf_size(HEAD_BYTES_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_BYTES_MAX as u32)
        .initial_stream_window_size(UNREAD_BYTES_MAX)
        .initial_connection_window_size(UNREAD_BYTES_ALL_MAX)
        .max_send_buf_size(SEND_BYTES_MAX)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PONG_MAX);
    builder
}
