//! The errors of starting a server.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::{Address, BadFile};

/// Why the server cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address does not parse.
    #[error(transparent)]
    Address(#[from] crate::BadAddress),
    /// Other machines could reach the address, and plain HTTP could be read on the way.
    #[error(
        "other machines can reach {address}, where plain HTTP is not allowed: use https://{address} with `--tokens FILE`, \
         or 127.0.0.1, or a unix socket"
    )]
    NotLoopback {
        /// The requested address.
        address: SocketAddr,
    },
    /// Without tokens, every machine that reaches the address would have full access.
    #[error(
        "other machines can reach {address}, with full access if there are no tokens: set `--tokens FILE`, or use \
         127.0.0.1 or a unix socket"
    )]
    NoTokens {
        /// The requested address.
        address: Address,
    },
    /// An `https` address without a certificate, or another address with one.
    #[error("{address} and the certificate do not match: https needs a certificate, and no other address may have one")]
    NoCertificate {
        /// The requested address.
        address: Address,
    },
    /// The certificate or its key cannot be used.
    #[error("the certificate file {} cannot be used", .path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: BadFile,
    },
    /// The tokens cannot be used.
    #[error("the tokens in {} cannot be used", .path.display())]
    Tokens {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: BadFile,
    },
    /// The key of the tokens of service accounts cannot be used.
    #[error("the key of service accounts in {} cannot be used", .path.display())]
    ServiceAccountKey {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: BadFile,
    },
    /// The certificates that other hosts of the fleet are verified by cannot be used.
    #[error("the CA file of the fleet {} cannot be used", .path.display())]
    FleetAuthority {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: BadFile,
    },
    /// The client that asks other hosts cannot be built.
    #[error("other hosts cannot be asked")]
    Client {
        /// The reason.
        source: reqwest::Error,
    },
    /// Another host, or another program, uses the address.
    #[error("{address} is in use: stop the other program, or choose another address with `--listen`")]
    InUse {
        /// The requested address.
        address: Address,
    },
    /// Other users could replace the socket by theirs.
    #[error("other users can write to the folder {}: use a folder of mode 0700 that you own", .folder.display())]
    OpenFolder {
        /// The folder of the socket.
        folder: PathBuf,
    },
    /// The path of the socket has another file.
    #[error("{} is there already and is not a socket: remove it, or choose another path", .path.display())]
    NotASocket {
        /// The file.
        path: PathBuf,
    },
    /// The system refused to bind the address.
    #[error("cannot listen on {address}")]
    Bind {
        /// The requested address.
        address: Address,
        /// The system's reason.
        source: std::io::Error,
    },
}
