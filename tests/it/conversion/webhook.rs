//! A conversion webhook over TLS, which also misbehaves.
//!
//! Of the kind `Site`, `v1` has `spec.address`, and `v1beta1` has `spec.host` and `spec.port` in its place. Of the kind
//! `Measured`, `v1` has `spec.text`, and `v1alpha1` has `spec.words`.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
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

/// What a webhook does with a review.
#[derive(Clone)]
pub(super) enum Behaviour {
    /// Converts, and changes the answer.
    Converts(fn(&mut Value)),
    /// Answers this text.
    Says(String),
    /// Never answers.
    Hangs,
}

/// A webhook. It stops when it is dropped.
pub(super) struct Webhook {
    authority: Authority,
    address: SocketAddr,
    shared: Arc<Shared>,
    task: tokio::task::JoinHandle<()>,
}

struct Shared {
    behaviour: Mutex<Behaviour>,
    reviews: AtomicUsize,
}

impl Webhook {
    pub(super) async fn start() -> Self {
        let (authority, inner) = (Authority::new(), TcpListener::bind("127.0.0.1:0").await.unwrap());
        let (address, acceptor) = (inner.local_addr().unwrap(), TlsAcceptor::from(authority.server_config()));
        let behaviour = Mutex::new(Behaviour::Converts(|_| {}));
        let shared = Arc::new(Shared { behaviour, reviews: AtomicUsize::new(0) });
        let routes = Router::new().route("/convert", post(answer)).layer(DefaultBodyLimit::disable());
        let routes = routes.with_state(Arc::clone(&shared));
        let serving = async move { axum::serve(TlsListener { inner, acceptor }, routes).await.unwrap() };
        Self { authority, address, shared, task: tokio::spawn(serving) }
    }

    pub(super) fn set(&self, behaviour: Behaviour) {
        *self.shared.behaviour.lock() = behaviour;
    }

    /// Converts, and changes each answer.
    pub(super) fn alters(&self, change: fn(&mut Value)) {
        self.set(Behaviour::Converts(change));
    }

    /// Returns the number of reviews so far.
    pub(super) fn reviews(&self) -> usize {
        self.shared.reviews.load(Ordering::SeqCst)
    }

    /// Returns `spec.conversion` of a definition that uses this webhook.
    pub(super) fn conversion(&self) -> Value {
        let bundle = STANDARD.encode(self.authority.pem());
        self.trusted_by(&bundle)
    }

    /// As [`Webhook::conversion`], with the authority of another webhook.
    pub(super) fn conversion_with_authority_of(&self, other: &Self) -> Value {
        self.trusted_by(&STANDARD.encode(other.authority.pem()))
    }

    fn trusted_by(&self, bundle: &str) -> Value {
        let client = json!({ "url": format!("https://{}/convert", self.address), "caBundle": bundle });
        json!({ "strategy": "Webhook", "webhook": { "conversionReviewVersions": ["v1"], "clientConfig": client } })
    }
}

impl Drop for Webhook {
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

async fn answer(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    shared.reviews.fetch_add(1, Ordering::SeqCst);
    let behaviour = shared.behaviour.lock().clone();
    match behaviour {
        Behaviour::Hangs => std::future::pending().await,
        Behaviour::Says(text) => text.into_response(),
        Behaviour::Converts(change) => {
            let review: Value = serde_json::from_slice(&body).unwrap();
            let request = &review["request"];
            let desired = request["desiredAPIVersion"].as_str().unwrap();
            let objects = request["objects"].as_array().unwrap().iter();
            let converted: Vec<Value> = objects.map(|object| converted(object.clone(), desired)).collect();
            let response = json!({
                "uid": request["uid"], "result": { "status": "Success" }, "convertedObjects": converted,
            });
            let mut answer = json!({
                "apiVersion": review["apiVersion"], "kind": review["kind"], "response": response,
            });
            change(&mut answer);
            axum::Json(answer).into_response()
        }
    }
}

fn converted(mut document: Value, desired: &str) -> Value {
    let is_stable = desired.ends_with("/v1");
    let is_measured = document["kind"] == "Measured";
    if let Some(spec) = document["spec"].as_object_mut() {
        if is_measured {
            let (from, to) = if is_stable { ("words", "text") } else { ("text", "words") };
            let text = spec.remove(from);
            spec.extend(text.map(|text| (to.to_owned(), text)));
        } else if is_stable {
            let (host, port) = (spec.remove("host"), spec.remove("port"));
            if let (Some(host), Some(port)) = (host.as_ref().and_then(Value::as_str), port) {
                spec.insert("address".to_owned(), format!("{host}:{port}").into());
            }
        } else if let Some(address) = spec.remove("address") {
            let (host, port) = address.as_str().unwrap().split_once(':').unwrap();
            spec.insert("host".to_owned(), host.into());
            spec.insert("port".to_owned(), port.parse::<u16>().unwrap().into());
        }
    }
    document["apiVersion"] = desired.into();
    document
}
