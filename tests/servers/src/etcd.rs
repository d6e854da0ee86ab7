//! etcd, of the version that this Kubernetes wants, as one server without TLS on loopback.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::http::Request;
use super::ports::ReservedPort;
use super::server::Server;
use crate::tools;

/// When a server flushes a write to the disk.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Flush {
    /// It leaves that to the operating system. The data survive the end of the process, not that of the machine.
    #[default]
    Never,
    /// Before it acknowledges the write, as in production.
    Always,
}

/// An etcd server.
pub struct Etcd {
    server: Server,
    client: ReservedPort,
    _peer: ReservedPort,
}

impl Etcd {
    /// Starts a server with its data and its log in `folder`.
    ///
    /// # Panics
    /// When it cannot be built or started.
    pub fn start(folder: &Path, flush: Flush) -> Self {
        let (client, peer) = (ReservedPort::new(), ReservedPort::new());
        let url = |port: &ReservedPort| format!("http://{}", port.address());
        let mut arguments = vec![
            format!("--data-dir={}", folder.join("etcd").display()),
            format!("--listen-client-urls={}", url(&client)),
            format!("--advertise-client-urls={}", url(&client)),
            format!("--listen-peer-urls={}", url(&peer)),
            format!("--initial-advertise-peer-urls={}", url(&peer)),
            format!("--initial-cluster=default={}", url(&peer)),
            "--log-level=warn".to_owned(),
        ];
        if flush == Flush::Never {
            arguments.push("--unsafe-no-fsync".to_owned());
        }
        let port = client.number();
        let is_ready = move || Request::get("/health").send(port).is_some_and(|answer| answer.status == 200);
        let server = Server::new("etcd", tools::etcd(), arguments, folder, is_ready);
        server.start();
        Self { server, client, _peer: peer }
    }

    /// Returns the server, to kill it or to freeze it.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Returns the URL for clients.
    pub fn url(&self) -> String {
        format!("http://{}", self.client.address())
    }

    /// Compacts the history up to now. A watch that an apiserver has to begin in it is answered with 410.
    ///
    /// # Panics
    /// When it does not answer.
    pub fn compact(&self) {
        let key = STANDARD.encode("/");
        let revision = self.ask("/v3/kv/range", &json!({ "key": key, "limit": 1 }))["header"]["revision"].clone();
        self.ask("/v3/kv/compaction", &json!({ "revision": revision, "physical": true }));
    }

    /// Sends a request to the JSON gateway.
    fn ask(&self, path: &str, body: &Value) -> Value {
        let body = body.to_string();
        let request = Request { method: "POST", body: &body, ..Request::get(path) };
        let answer = request.send(self.client.number()).expect("etcd answers");
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }
}
