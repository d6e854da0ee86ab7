//! Where a host is: a socket in the file system, a port of this machine, or a port that other machines reach.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use tokio_rustls::rustls::pki_types::ServerName;

/// An address that a host serves and that a client connects to.
///
/// Written as `unix:PATH`, as `http://HOST:PORT`, where the scheme may be left out and the host is `localhost` or a number, or as
/// `https://HOST:PORT`, where the host may be any name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Address {
    /// A socket in the file system.
    Unix(PathBuf),
    /// A TCP port, for plain HTTP.
    Tcp(SocketAddr),
    /// A TCP port, for HTTP in TLS.
    Tls {
        /// A name or a number, without brackets: what a certificate is compared with.
        host: String,
        /// The port.
        port: u16,
    },
}

/// A text that is not an address.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{text}` is not an address: write unix:PATH, http://127.0.0.1:PORT or https://HOST:PORT{}", .why.map(|why| format!(" ({why})")).unwrap_or_default())]
pub struct BadAddress {
    /// What was written.
    pub text: String,
    /// What is wrong with it, where that is known.
    pub why: Option<&'static str>,
}

/// What is said of a port that is none.
const BAD_PORT: &str = "the port is not a number up to 65535";

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        let bad = |why| BadAddress { text: text.to_owned(), why };
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return if path.is_empty() { Err(bad(Some("the path is empty"))) } else { Ok(Self::Unix(path.into())) };
        }
        if let Some(rest) = text.strip_prefix("https://") {
            return tls(rest.strip_suffix('/').unwrap_or(rest)).map_err(|why| bad(Some(why)));
        }
        let rest = text.strip_prefix("http://").unwrap_or(text);
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if let Some(port) = rest.strip_prefix("localhost:") {
            let port = port.parse().map_err(|_| bad(Some(BAD_PORT)))?;
            return Ok(Self::Tcp((Ipv4Addr::LOCALHOST, port).into()));
        }
        rest.parse().map(Self::Tcp).map_err(|_| bad(None))
    }
}

/// Reads `HOST:PORT`, where the host is a name, a number, or a number in brackets.
fn tls(text: &str) -> Result<Address, &'static str> {
    let (host, port) = text.rsplit_once(':').ok_or("the port is missing")?;
    let port = port.parse().map_err(|_| BAD_PORT)?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if ServerName::try_from(bare).is_err() || (bare.contains(':') && bare == host) {
        return Err("the host is neither a name nor a number");
    }
    Ok(Address::Tls { host: bare.to_owned(), port })
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "http://{address}"),
            Self::Tls { host, port } => match host.parse() {
                Ok(IpAddr::V6(number)) => write!(f, "https://[{number}]:{port}"),
                _ => write!(f, "https://{host}:{port}"),
            },
        }
    }
}

#[cfg(test)]
mod tests;
