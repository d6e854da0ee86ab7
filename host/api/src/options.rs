//! What the server is asked for.

use std::path::PathBuf;

use serde::Deserialize;

use crate::Certificate;

/// What the server is asked for.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Options {
    /// Where to listen, as `unix:PATH`, `http://127.0.0.1:PORT` or `https://HOST:PORT`.
    pub address: String,
    /// The certificate for an `https` address.
    pub certificate: Option<Certificate>,
    /// A file with the tokens of those who may ask; without one, every program of this machine may. What is in it stands in
    /// `docs/security.md`.
    pub tokens: Option<PathBuf>,
    /// Connections at once, of one address or user eight ninths of them. More wait in the system's backlog; those of one client beyond its share
    /// are closed.
    pub connections_max: usize,
    /// Watches, and other answers that go on and on, at once. Never more than half of the connections, so that requests always find one.
    pub watches_max: usize,
    /// Requests at once that are being answered, over all connections, watches not counted. More wait.
    pub requests_max: usize,
    /// Lists at once that are being sent. Each has 4 MiB of documents in memory at most. More wait.
    pub lists_max: usize,
    /// Bytes of a request's body; a larger one is refused.
    pub body_bytes_max: usize,
    /// Bytes of the bodies of all requests together; at least those of one. Requests beyond wait before their bodies are read.
    pub bodies_bytes_max: usize,
    /// Milliseconds in which TLS must have been agreed on, and a request's head, and then its body, must have come. So long a request also waits for
    /// each sort of room; then it is asked to come back.
    pub request_ms_max: u64,
    /// Milliseconds in which an answer must have begun; backups may take longer.
    pub answer_ms_max: u64,
    /// Milliseconds that a watch lasts at most, when it does not say; at least half of that. A client asks again then.
    pub watch_ms_max: u64,
    /// Milliseconds in which a client must take 64 KiB of an answer. One that does not loses its connection.
    pub stall_ms_max: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            address: "http://127.0.0.1:0".into(),
            certificate: None,
            tokens: None,
            connections_max: 2048,
            watches_max: 1024,
            requests_max: 512,
            lists_max: 64,
            body_bytes_max: 2 * 1024 * 1024,
            bodies_bytes_max: 64 * 1024 * 1024,
            request_ms_max: 30_000,
            answer_ms_max: 60_000,
            watch_ms_max: 3_600_000,
            stall_ms_max: 30_000,
        }
    }
}
