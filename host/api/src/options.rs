//! The options of the server.

use std::path::PathBuf;

use serde::Deserialize;

use crate::Certificate;

/// The options of the server.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Options {
    /// The address to listen on, as `unix:PATH`, `http://127.0.0.1:PORT` or `https://HOST:PORT`.
    pub address: String,
    /// The certificate for an `https` address.
    pub certificate: Option<Certificate>,
    /// A file of tokens; without one, every program on this machine has full access. `docs/security.md`
    /// describes its format.
    pub tokens: Option<PathBuf>,
    /// The file of the key that signs the tokens of service accounts, in PEM. It is generated when the first token is
    /// requested, and read once. Without one, the key is lost when the server stops.
    pub service_account_key: Option<PathBuf>,
    /// A file with the certificates, in PEM, by which the certificates of other hosts are verified. Without
    /// one, no other host is asked over TLS.
    pub fleet_authority: Option<PathBuf>,
    /// Maximum connections. One address or user gets at most eight ninths of them, and its further
    /// connections are closed. Connections beyond the total wait in the system's backlog.
    pub connections_max: usize,
    /// Maximum watches and other streams. Never more than half of the connections, so that other requests
    /// always find one.
    pub watches_max: usize,
    /// Maximum requests that are being answered, over all connections, without watches. More requests wait.
    pub requests_max: usize,
    /// Maximum lists that are being sent. Each holds at most 4 MiB of documents in memory. More lists wait.
    pub lists_max: usize,
    /// Maximum length of a request's body, in bytes. A longer body is refused.
    pub body_bytes_max: usize,
    /// Maximum size of the bodies of all requests together, in bytes; at least one whole body. More requests
    /// wait before their bodies are read.
    pub bodies_bytes_max: usize,
    /// Maximum time in milliseconds for the TLS handshake, for a request's head, and for its body. A request
    /// also waits at most so long for each limiter, and is then told to retry.
    pub request_ms_max: u64,
    /// Maximum time in milliseconds until a response starts. Backups may take longer.
    pub answer_ms_max: u64,
    /// Maximum duration in milliseconds of a watch without `timeoutSeconds`; it lasts at least half of that.
    /// Clients watch again afterwards.
    pub watch_ms_max: u64,
    /// Maximum time in milliseconds for a client to read 64 KiB of a response. A slower client loses its
    /// connection.
    pub stall_ms_max: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            address: "http://127.0.0.1:0".into(),
            certificate: None,
            tokens: None,
            service_account_key: None,
            fleet_authority: None,
            connections_max: 4096,
            watches_max: 2048,
            requests_max: 512,
            lists_max: 64,
            body_bytes_max: 3 * 1024 * 1024,
            bodies_bytes_max: 64 * 1024 * 1024,
            request_ms_max: 30_000,
            answer_ms_max: 60_000,
            watch_ms_max: 3_600_000,
            stall_ms_max: 30_000,
        }
    }
}
