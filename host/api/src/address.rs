//! Where a host is: a socket in the file system, or a port of this machine.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// An address that a host serves and that a client connects to.
///
/// Written as `unix:PATH` or `http://HOST:PORT`, where the scheme may be left out and the host is `localhost` or a number.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Address {
    /// A socket in the file system.
    Unix(PathBuf),
    /// A TCP port.
    Tcp(SocketAddr),
}

/// A text that is not an address.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{text}` is not an address: write unix:PATH or http://127.0.0.1:PORT{}", .why.map(|why| format!(" ({why})")).unwrap_or_default())]
pub struct BadAddress {
    /// What was written.
    pub text: String,
    /// What is wrong with it, where that is known.
    pub why: Option<&'static str>,
}

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        let bad = |why| BadAddress { text: text.to_owned(), why };
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return if path.is_empty() { Err(bad(Some("the path is empty"))) } else { Ok(Self::Unix(path.into())) };
        }
        if text.starts_with("https://") {
            return Err(bad(Some("a host speaks plain HTTP, on this machine alone")));
        }
        let rest = text.strip_prefix("http://").unwrap_or(text);
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if let Some(port) = rest.strip_prefix("localhost:") {
            let port = port.parse().map_err(|_| bad(Some("the port is not a number up to 65535")))?;
            return Ok(Self::Tcp((Ipv4Addr::LOCALHOST, port).into()));
        }
        rest.parse().map(Self::Tcp).map_err(|_| bad(None))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "http://{address}"),
        }
    }
}

#[cfg(test)]
mod tests;
