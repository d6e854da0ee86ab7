//! A token server for registries: it issues signed, short-lived tokens for the requested scopes.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use axum::Router;
use axum::extract::{Query, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// The lifetime of a token in seconds.
const GOOD_FOR: u64 = 300;

/// Issues tokens until this is dropped.
pub struct Tokens {
    port: u16,
    shared: Arc<Shared>,
    runtime: Option<Runtime>,
}

struct Shared {
    key: Ed25519KeyPair,
    /// The expected credentials, as `Basic …`.
    wanted: String,
    scopes: Mutex<Vec<String>>,
}

impl Tokens {
    /// Starts a server that issues tokens for this `name:password` in base64.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start(pair: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("threads can be started");
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a port is free");
        let port = listener.local_addr().expect("it listens").port();
        let key = Ed25519KeyPair::generate().expect("the system has randomness");
        let shared = Arc::new(Shared { key, wanted: format!("Basic {pair}"), scopes: Mutex::default() });
        let router = Router::new().fallback(give).with_state(shared.clone());
        runtime.spawn(async move { axum::serve(listener, router).await });
        Self { port, shared, runtime: Some(runtime) }
    }

    /// Returns the registry configuration that accepts these tokens. Its key is written to `folder`.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn auth(&self, folder: &Path) -> Value {
        let x = URL_SAFE_NO_PAD.encode(self.shared.key.public_key().as_ref());
        let key = json!({ "kty": "OKP", "crv": "Ed25519", "kid": "tests", "alg": "EdDSA", "use": "sig", "x": x });
        let file = folder.join("keys.json");
        fs::write(&file, json!({ "keys": [key] }).to_string()).expect("files can be written");
        let realm = format!("http://127.0.0.1:{}/token", self.port);
        json!({ "token": { "realm": realm, "service": "registry", "issuer": "tests", "jwks": file } })
    }

    /// Returns the scopes of the tokens issued since the last call, as `repository:a:pull`.
    pub fn scopes(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.scopes.lock())
    }
}

impl Drop for Tokens {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn give(
    State(shared): State<Arc<Shared>>,
    Query(query): Query<Vec<(String, String)>>,
    headers: HeaderMap,
) -> Response {
    let said = headers.get(AUTHORIZATION).and_then(|said| said.to_str().ok());
    if said != Some(shared.wanted.as_str()) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let scopes: Vec<String> = query.into_iter().filter(|(name, _)| name == "scope").map(|(_, scope)| scope).collect();
    shared.scopes.lock().extend(scopes.iter().cloned());
    json!({ "token": shared.token(&scopes) }).to_string().into_response()
}

impl Shared {
    /// Source: Docker's token authentication, and RFC 7519.
    fn token(&self, scopes: &[String]) -> String {
        let access = scopes.iter().filter_map(|scope| {
            let (kind, rest) = scope.split_once(':')?;
            let (name, actions) = rest.rsplit_once(':')?;
            Some(json!({ "type": kind, "name": name, "actions": actions.split(',').collect::<Vec<_>>() }))
        });
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_secs();
        let head = json!({ "typ": "JWT", "alg": "EdDSA", "kid": "tests" });
        let claims = json!({
            "iss": "tests", "sub": "user", "aud": "registry", "jti": "1", "iat": now, "nbf": now, "exp": now + GOOD_FOR,
            "access": access.collect::<Vec<_>>(),
        });
        let encoded = |part: &[u8]| URL_SAFE_NO_PAD.encode(part);
        let message = format!("{}.{}", encoded(head.to_string().as_bytes()), encoded(claims.to_string().as_bytes()));
        let signature = encoded(self.key.sign(message.as_bytes()).as_ref());
        format!("{message}.{signature}")
    }
}
