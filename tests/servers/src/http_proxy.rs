//! A proxy that reads the requests to an apiserver: it counts them, and answers some itself as a test asks.

mod script;

use std::collections::{BTreeMap, VecDeque};
use std::error::Error;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use futures_util::{StreamExt, stream};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, BodyStream, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, RETRY_AFTER};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio::task::AbortHandle;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::certificates::Authority;
use super::proxy::listen;
use script::OwnAnswer;
pub use script::{HttpReply, HttpRule};

/// Requests whose times are kept.
const ARRIVALS_MAX: usize = 10_000;

type AnyError = Box<dyn Error + Send + Sync>;
type Body = UnsyncBoxBody<Bytes, AnyError>;

/// A proxy to an apiserver, with TLS on both sides and HTTP/1.1. Clients that know the authority of the apiserver know
/// the proxy. A client is known to the apiserver by its token, never by a certificate. Its connections are closed when
/// this is dropped.
pub struct HttpProxy {
    port: u16,
    shared: Arc<Shared>,
    accepting: AbortHandle,
    /// Connections end when this is dropped.
    _open: watch::Sender<()>,
}

struct Shared {
    server: u16,
    connector: TlsConnector,
    acceptor: TlsAcceptor,
    rules: Mutex<Vec<HttpRule>>,
    /// The requests by verb and path.
    requests: Mutex<BTreeMap<(String, String), u64>>,
    /// The last requests: verb, path and when they came.
    arrivals: Mutex<VecDeque<(String, String, Instant)>>,
    watches: Arc<AtomicUsize>,
}

impl HttpProxy {
    /// Starts a proxy to the port of a server with a certificate of this authority.
    ///
    /// # Panics
    /// When no port is free.
    pub fn to(server: u16, authority: &Authority) -> Self {
        let trust: Arc<ClientConfig> = authority.client_config();
        let shared = Arc::new(Shared {
            server,
            connector: trust.into(),
            acceptor: authority.server_config().into(),
            rules: Mutex::default(),
            requests: Mutex::default(),
            arrivals: Mutex::default(),
            watches: Arc::default(),
        });
        let (open, is_open) = watch::channel(());
        let for_connections = shared.clone();
        let (port, accepting) = listen(move |near| {
            let (shared, mut is_open) = (for_connections.clone(), is_open.clone());
            async move {
                tokio::select! {
                    ended = shared.serve(near) => ended,
                    _ = is_open.changed() => Ok(()),
                }
            }
        });
        Self { port, shared, accepting, _open: open }
    }

    /// Returns its URL.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// Adds a rule. The first rule that applies to a request decides, and rules that came earlier are asked first.
    pub fn add(&self, rule: HttpRule) {
        self.shared.rules.lock().push(rule);
    }

    /// Removes all rules.
    pub fn clear(&self) {
        self.shared.rules.lock().clear();
    }

    /// Returns the number of requests with this verb whose path contains a text, those included that the proxy
    /// answered itself. The verb is the HTTP method, or `WATCH`. The path has no query.
    pub fn count(&self, verb: &str, path: &str) -> u64 {
        let requests = self.shared.requests.lock();
        let counted = requests.iter().filter(|((is_verb, is_path), _)| is_verb == verb && is_path.contains(path));
        counted.map(|(_, count)| count).sum()
    }

    /// Returns when those requests came that [`HttpProxy::count`] counts, among the last 10,000 requests.
    pub fn arrivals(&self, verb: &str, path: &str) -> Vec<Instant> {
        let arrivals = self.shared.arrivals.lock();
        let named = arrivals.iter().filter(|(is_verb, is_path, _)| is_verb == verb && is_path.contains(path));
        named.map(|(_, _, at)| *at).collect()
    }

    /// Returns the requests so far by verb and path, as [`HttpProxy::count`] names them.
    pub fn requests(&self) -> BTreeMap<(String, String), u64> {
        self.shared.requests.lock().clone()
    }

    /// Returns the number of watches that are answered now.
    pub fn open_watches(&self) -> usize {
        self.shared.watches.load(Ordering::SeqCst)
    }
}

impl Drop for HttpProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Shared {
    /// Serves one connection, with one connection to the server.
    async fn serve(&self, near: TcpStream) -> io::Result<()> {
        near.set_nodelay(true)?;
        let near = TokioIo::new(self.acceptor.accept(near).await?);
        let far = AsyncMutex::new(None);
        let service = service_fn(|request| self.answer(&far, request));
        http1::Builder::new().serve_connection(near, service).await.map_err(io::Error::other)
    }

    fn record(&self, name: (String, String)) {
        let mut arrivals = self.arrivals.lock();
        if arrivals.len() == ARRIVALS_MAX {
            arrivals.pop_front();
        }
        arrivals.push_back((name.0.clone(), name.1.clone(), Instant::now()));
        *self.requests.lock().entry(name).or_default() += 1;
    }

    /// An error closes the connection without an answer.
    async fn answer(
        &self,
        far: &AsyncMutex<Option<SendRequest<Incoming>>>,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, AnyError> {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let verb = script::verb(request.method().as_str(), request.uri().query()).to_owned();
        let name = (verb.clone(), request.uri().path().to_owned());
        self.record(name);
        let reply = script::take(&mut self.rules.lock(), &verb, &path);
        if let Some(answer) = reply.as_ref().and_then(script::own_answer) {
            return own_response(&answer);
        }
        if let Some(HttpReply::Late(wait)) = reply {
            tokio::time::sleep(wait).await;
        }
        let response = self.send(&mut *far.lock().await, request).await?;
        if let Some(HttpReply::NoAnswer) = reply {
            return Err("the script wants no answer".into());
        }
        let (head, body) = response.into_parts();
        let mut body = body.map_err(AnyError::from).boxed_unsync();
        if let Some(HttpReply::CutAfter(bytes)) = reply {
            body = cut(body, bytes);
        }
        if verb == script::WATCH {
            body = counted(body, &self.watches);
        }
        Ok(Response::from_parts(head, body))
    }

    /// Sends a request to the server, by the connection of the last one if it is still open.
    async fn send(
        &self,
        far: &mut Option<SendRequest<Incoming>>,
        request: Request<Incoming>,
    ) -> Result<Response<Incoming>, AnyError> {
        if let Some(sender) = far
            && sender.ready().await.is_ok()
        {
            return Ok(sender.send_request(request).await?);
        }
        let connection = TcpStream::connect((Ipv4Addr::LOCALHOST, self.server)).await?;
        connection.set_nodelay(true)?;
        let name = ServerName::from(std::net::IpAddr::from(Ipv4Addr::LOCALHOST));
        let connection = TokioIo::new(self.connector.connect(name, connection).await?);
        let (sender, connection) = handshake(connection).await?;
        // It ends when the sender and the body of the last answer are dropped.
        tokio::spawn(connection);
        Ok(far.insert(sender).send_request(request).await?)
    }
}

/// Returns an answer that the server has not given.
fn own_response(answer: &OwnAnswer) -> Result<Response<Body>, AnyError> {
    let OwnAnswer { status, retry_after, document } = answer;
    let mut response = Response::builder().status(*status).header(CONTENT_TYPE, "application/json");
    if let Some(seconds) = retry_after {
        response = response.header(RETRY_AFTER, *seconds);
    }
    let body = Full::new(Bytes::from(format!("{document}\n")));
    Ok(response.body(body.map_err(|never| match never {}).boxed_unsync())?)
}

/// Ends a body with an error after so many bytes. Those before it are sent.
fn cut(body: Body, bytes: usize) -> Body {
    let frames = stream::unfold(Some((BodyStream::new(body), bytes)), |state| async move {
        let (mut frames, left) = state?;
        if left == 0 {
            // hyper sends what it has while the body is pending.
            tokio::task::yield_now().await;
            return Some((Err("the script cuts the answer".into()), None));
        }
        let frame = match frames.next().await? {
            Ok(frame) => frame,
            Err(error) => return Some((Err(error), None)),
        };
        let data = frame.into_data().unwrap_or_default();
        let passing = data.len().min(left);
        Some((Ok(Frame::data(data.slice(..passing))), Some((frames, left - passing))))
    });
    BodyExt::boxed_unsync(StreamBody::new(frames))
}

/// Counts a body in `open` until it ends.
fn counted(body: Body, open: &Arc<AtomicUsize>) -> Body {
    /// Counts itself until it is dropped.
    struct One(Arc<AtomicUsize>);
    impl Drop for One {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }
    open.fetch_add(1, Ordering::SeqCst);
    let one = One(open.clone());
    let frames = BodyStream::new(body).map(move |frame| {
        let _counted = &one;
        frame
    });
    BodyExt::boxed_unsync(StreamBody::new(frames))
}
