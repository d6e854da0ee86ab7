//! A server of webhooks over TLS: it answers reviews as a test says, and keeps them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::serve::Listener;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use homeostat_servers::Authority;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// What a server replies to a review.
pub(crate) enum Reply {
    /// A review.
    Review(Value),
    /// A text.
    Text(String),
    /// A status without a body.
    Failure(u16),
    /// Nothing, ever.
    Silence,
}

type Answer = dyn Fn(&str, &Value) -> Reply + Send + Sync;

/// A server. It stops when it is dropped.
pub(crate) struct ReviewServer {
    authority: Authority,
    address: SocketAddr,
    shared: Arc<Shared>,
    task: tokio::task::JoinHandle<()>,
}

struct Shared {
    answer: Box<Answer>,
    reviews: Mutex<Vec<Value>>,
}

impl ReviewServer {
    /// Starts a server that replies what `answer` says of a path without its slash, and of a review.
    pub(crate) async fn start(answer: impl Fn(&str, &Value) -> Reply + Send + Sync + 'static) -> Self {
        let (authority, inner) = (Authority::new(), TcpListener::bind("127.0.0.1:0").await.unwrap());
        let (address, acceptor) = (inner.local_addr().unwrap(), TlsAcceptor::from(authority.server_config()));
        let shared = Arc::new(Shared { answer: Box::new(answer), reviews: Mutex::default() });
        let routes = Router::new().route("/{path}", post(respond)).layer(DefaultBodyLimit::disable());
        let routes = routes.with_state(Arc::clone(&shared));
        let serving = async move { axum::serve(TlsListener { inner, acceptor }, routes).await.unwrap() };
        Self { authority, address, shared, task: tokio::spawn(serving) }
    }

    /// Returns the number of reviews so far.
    pub(crate) fn reviews(&self) -> usize {
        self.shared.reviews.lock().len()
    }

    /// Returns the reviews since the last call.
    pub(crate) fn take_reviews(&self) -> Vec<Value> {
        std::mem::take(&mut self.shared.reviews.lock())
    }

    /// Returns the authority that signed the certificate, as a bundle of a `clientConfig`.
    pub(crate) fn bundle(&self) -> String {
        STANDARD.encode(self.authority.pem())
    }

    /// Returns the `clientConfig` of a webhook at a path.
    pub(crate) fn client_config(&self, path: &str) -> Value {
        self.trusted_by(path, &self.bundle())
    }

    /// As [`ReviewServer::client_config`], with this bundle.
    pub(crate) fn trusted_by(&self, path: &str, bundle: &str) -> Value {
        json!({ "url": format!("https://{}/{path}", self.address), "caBundle": bundle })
    }
}

impl Drop for ReviewServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct TlsListener {
    inner: TcpListener,
    acceptor: TlsAcceptor,
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, address) = self.inner.accept().await.unwrap();
            // A client that does not trust the certificate ends the handshake.
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }
}

async fn respond(State(shared): State<Arc<Shared>>, Path(path): Path<String>, body: Bytes) -> Response {
    let review: Value = serde_json::from_slice(&body).unwrap();
    let reply = (shared.answer)(&path, &review);
    shared.reviews.lock().push(review);
    match reply {
        Reply::Review(review) => axum::Json(review).into_response(),
        Reply::Text(text) => text.into_response(),
        Reply::Failure(status) => StatusCode::from_u16(status).unwrap().into_response(),
        Reply::Silence => std::future::pending().await,
    }
}
