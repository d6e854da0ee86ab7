//! An in-memory registry on loopback: the part of the OCI distribution specification that pulling and pushing
//! need, with faults.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, LOCATION, WWW_AUTHENTICATE};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use homeostat_component::Digest;
use parking_lot::Mutex;
use tokio::runtime::Runtime;

/// Bytes of one request, at most.
const BODY_MAX: usize = 64 << 20;
/// The bearer token that a registry with tokens issues.
const TOKEN: &str = "token-of-the-registry";

/// The authentication of a registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// No authentication.
    Open,
    /// Basic authentication with this `name:password` in base64.
    Basic(&'static str),
    /// A bearer token, issued for this `name:password` in base64.
    Bearer(&'static str),
}

/// A fault of a registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegistryFault {
    /// Blobs have content that does not match their digest.
    OtherBytes,
    /// Blobs are longer than their manifest states.
    Longer,
    /// Blobs are truncated.
    CutOff,
    /// Manifests have another digest in their header.
    OtherManifest,
    /// Every response has status 500.
    Broken,
    /// Blobs redirect to another name of this machine.
    Elsewhere,
    /// Blobs redirect to another machine, without TLS.
    FarAway,
    /// Blobs redirect to themselves.
    Circle,
}

/// One request: its method, path and credentials.
#[derive(Clone, Debug)]
pub struct RegistryRequest {
    /// As `GET`.
    pub method: String,
    /// With its query.
    pub path: String,
    /// The authorization header.
    pub authorization: Option<String>,
}

/// A registry that runs until this is dropped.
pub struct TestRegistry {
    port: u16,
    shared: Arc<Shared>,
    runtime: Option<Runtime>,
}

struct Shared {
    port: u16,
    access: Access,
    kept: Mutex<RegistryState>,
}

#[derive(Default)]
struct RegistryState {
    blobs: BTreeMap<String, Bytes>,
    /// Media type and bytes, by repository and by tag or digest.
    manifests: BTreeMap<(String, String), (String, Bytes)>,
    amiss: Option<RegistryFault>,
    asked: VecDeque<RegistryRequest>,
}

impl TestRegistry {
    /// Starts a registry on a free port.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start(access: Access) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("threads can be started");
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a port is free");
        let port = listener.local_addr().expect("it listens").port();
        let shared = Arc::new(Shared { port, access, kept: Mutex::default() });
        let router = Router::new().fallback(answer).with_state(shared.clone());
        runtime.spawn(async move { axum::serve(listener, router).await });
        Self { port, shared, runtime: Some(runtime) }
    }

    /// Returns the reference of an artifact in it: `end` is its repository with a tag or a digest.
    pub fn reference(&self, end: &str) -> String {
        format!("127.0.0.1:{}/{end}", self.port)
    }

    /// Turns a fault on, or all faults off.
    pub fn set_fault(&self, amiss: Option<RegistryFault>) {
        self.shared.kept.lock().amiss = amiss;
    }

    /// Returns the requests since the last call.
    pub fn take_requests(&self) -> Vec<RegistryRequest> {
        self.shared.kept.lock().asked.drain(..).collect()
    }

    /// Stores an artifact without checks. [`blob`](Self::blob) stores the blobs of the manifest.
    pub fn put(&self, repository: &str, tag: &str, media_type: &str, manifest: &serde_json::Value) {
        let bytes = Bytes::from(manifest.to_string());
        self.shared.kept.lock().put(repository, tag, media_type, bytes);
    }

    /// Stores a blob. Returns its descriptor for a manifest.
    pub fn blob(&self, media_type: &str, bytes: &[u8]) -> serde_json::Value {
        let digest = Digest::of(bytes).to_string();
        self.shared.kept.lock().blobs.insert(digest.clone(), Bytes::copy_from_slice(bytes));
        serde_json::json!({ "mediaType": media_type, "digest": digest, "size": bytes.len() })
    }
}

impl Drop for TestRegistry {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl RegistryState {
    fn put(&mut self, repository: &str, name: &str, media_type: &str, bytes: Bytes) -> String {
        let digest = Digest::of(&bytes).to_string();
        for name in [name, &digest] {
            let key = (repository.to_owned(), name.to_owned());
            self.manifests.insert(key, (media_type.to_owned(), bytes.clone()));
        }
        digest
    }
}

impl Shared {
    /// Returns the response to a request without valid credentials.
    fn challenge(&self, authorization: Option<&str>) -> Option<Response> {
        let (wanted, challenge) = match self.access {
            Access::Open => return None,
            Access::Basic(pair) => (format!("Basic {pair}"), "Basic realm=\"test\"".to_owned()),
            Access::Bearer(_) => {
                let realm = format!("http://127.0.0.1:{}/token", self.port);
                (
                    format!("Bearer {TOKEN}"),
                    format!("Bearer realm=\"{realm}\",service=\"test\",scope=\"repository:a:pull,push\""),
                )
            }
        };
        let refused = || (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, challenge)]).into_response();
        (authorization != Some(wanted.as_str())).then(refused)
    }

    fn token(&self, authorization: Option<&str>) -> Response {
        match self.access {
            Access::Bearer(pair) if authorization == Some(&format!("Basic {pair}")) => {
                serde_json::json!({ "token": TOKEN }).to_string().into_response()
            }
            _ => StatusCode::UNAUTHORIZED.into_response(),
        }
    }

    fn blob(&self, digest: &str, is_elsewhere: bool) -> Response {
        let kept = self.kept.lock();
        let Some(bytes) = kept.blobs.get(digest).cloned() else { return StatusCode::NOT_FOUND.into_response() };
        let to = |location: String| (StatusCode::TEMPORARY_REDIRECT, [(LOCATION, location)]).into_response();
        match kept.amiss {
            Some(RegistryFault::OtherBytes) => vec![b'x'; bytes.len()].into_response(),
            Some(RegistryFault::Longer) => {
                let pieces = [Ok::<_, std::io::Error>(bytes), Ok(Bytes::from_static(b"more"))];
                Body::from_stream(futures_util::stream::iter(pieces)).into_response()
            }
            Some(RegistryFault::CutOff) => {
                let half = bytes.slice(..bytes.len() / 2);
                let pieces = [Ok(half), Err(std::io::Error::other("cut off"))];
                Body::from_stream(futures_util::stream::iter(pieces)).into_response()
            }
            Some(RegistryFault::Elsewhere) if !is_elsewhere => {
                to(format!("http://localhost:{}/elsewhere/{digest}", self.port))
            }
            Some(RegistryFault::FarAway) => to(format!("http://registry.example/{digest}")),
            Some(RegistryFault::Circle) => to(format!("/v2/a/blobs/{digest}")),
            _ => ([(CONTENT_LENGTH, bytes.len())], bytes).into_response(),
        }
    }

    fn manifest(&self, repository: &str, name: &str) -> Response {
        let kept = self.kept.lock();
        let Some((media_type, bytes)) = kept.manifests.get(&(repository.to_owned(), name.to_owned())).cloned() else {
            return StatusCode::NOT_FOUND.into_response();
        };
        let of =
            if kept.amiss == Some(RegistryFault::OtherManifest) { Digest::of(b"other") } else { Digest::of(&bytes) };
        let headers = [("docker-content-digest", of.to_string()), (CONTENT_TYPE.as_str(), media_type)];
        (headers, bytes).into_response()
    }
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let header = |name| parts.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let authorization = header(AUTHORIZATION);
    let path = parts.uri.path().to_owned();
    let query = parts.uri.query().unwrap_or_default().to_owned();
    shared.kept.lock().asked.push_back(RegistryRequest {
        method: parts.method.to_string(),
        path: parts.uri.to_string(),
        authorization: authorization.clone(),
    });
    if shared.kept.lock().amiss == Some(RegistryFault::Broken) {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    }
    if path == "/token" {
        return shared.token(authorization.as_deref());
    }
    if let Some(digest) = path.strip_prefix("/elsewhere/") {
        return shared.blob(digest, true);
    }
    if let Some(refused) = shared.challenge(authorization.as_deref()) {
        return refused;
    }
    let Ok(body) = axum::body::to_bytes(body, BODY_MAX).await else { return StatusCode::BAD_REQUEST.into_response() };
    let Some(rest) = path.strip_prefix("/v2/") else { return StatusCode::NOT_FOUND.into_response() };
    if let Some((repository, name)) = rest.split_once("/manifests/") {
        if parts.method == Method::PUT {
            let kind = header(CONTENT_TYPE).unwrap_or_default();
            let digest = shared.kept.lock().put(repository, name, &kind, body);
            return (StatusCode::CREATED, [("docker-content-digest", digest)]).into_response();
        }
        return shared.manifest(repository, name);
    }
    let Some((repository, name)) = rest.split_once("/blobs/") else { return StatusCode::NOT_FOUND.into_response() };
    match parts.method {
        Method::POST => {
            let location = format!("/v2/{repository}/blobs/uploads/1?state=begun");
            (StatusCode::ACCEPTED, [(LOCATION, location)]).into_response()
        }
        Method::PUT => {
            let digest = Digest::of(&body).to_string();
            let named = query.replace("%3A", ":");
            if !named.contains(&format!("digest={digest}")) || !named.contains("state=begun") {
                return StatusCode::BAD_REQUEST.into_response();
            }
            shared.kept.lock().blobs.insert(digest, body);
            StatusCode::CREATED.into_response()
        }
        _ => shared.blob(name, false),
    }
}
