//! Why a server cannot be started.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::{Address, BadFile};

/// Why the server does not serve.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address does not read as one.
    #[error(transparent)]
    Address(#[from] crate::BadAddress),
    /// The address could be reached from other machines, and what goes there be read on the way.
    #[error(
        "{address} could be reached from other machines, and plain HTTP is for this one alone: use https://{address} with `--tokens FILE`, \
         or 127.0.0.1, or a unix socket"
    )]
    NotLoopback {
        /// What was asked for.
        address: SocketAddr,
    },
    /// Everybody who reaches the address could ask.
    #[error(
        "{address} could be reached from other machines, where everybody could ask: name a file of tokens with `--tokens FILE`, or use \
         127.0.0.1 or a unix socket"
    )]
    NoTokens {
        /// What was asked for.
        address: Address,
    },
    /// An `https` address without a certificate, or a certificate for an address that has no use for it.
    #[error("{address} and the certificate do not go together: https needs one, and nothing else has a use for it")]
    NoCertificate {
        /// What was asked for.
        address: Address,
    },
    /// The certificate or its key cannot be used.
    #[error("the certificate file {} cannot be used", .path.display())]
    Certificate {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        source: BadFile,
    },
    /// The tokens cannot be used.
    #[error("the tokens in {} cannot be used", .path.display())]
    Tokens {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        source: BadFile,
    },
    /// Another host, or another program, has the address.
    #[error("something else answers on {address}: stop it, or name another address with `--listen`")]
    InUse {
        /// What was asked for.
        address: Address,
    },
    /// Others could replace the socket by theirs.
    #[error("other users can write to the folder {}: take a folder of mode 0700 that is yours", .folder.display())]
    OpenFolder {
        /// Where the socket was to be.
        folder: PathBuf,
    },
    /// A file that is no socket is in the way.
    #[error("{} is there already and is not a socket: remove it, or choose another path", .path.display())]
    NotASocket {
        /// What is in the way.
        path: PathBuf,
    },
    /// The system refused.
    #[error("cannot listen on {address}")]
    Bind {
        /// What was asked for.
        address: Address,
        /// The system's reason.
        source: std::io::Error,
    },
}
