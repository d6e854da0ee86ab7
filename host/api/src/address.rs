//! The address of a host: a unix socket, a loopback port, or a port that other machines can reach.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use tokio_rustls::rustls::pki_types::ServerName;

/// An address that a host serves and that a client connects to.
///
/// Written as `unix:PATH`, `http://HOST:PORT` or `https://HOST:PORT`. The scheme `http` may be left out, and
/// its host is `localhost` or an IP address. The host of `https` may be any name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Address {
    /// A unix socket.
    Unix(PathBuf),
    /// A TCP port, for plain HTTP.
    Tcp(SocketAddr),
    /// A TCP port, for HTTP over TLS.
    Tls {
        /// A name, or an IP address without brackets. Clients compare it with the certificate.
        host: String,
        /// The port.
        port: u16,
    },
}

/// A text that is not an address.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{text}` is not an address: write unix:PATH, http://127.0.0.1:PORT or https://HOST:PORT{}", .why.map(|why| format!(" ({why})")).unwrap_or_default())]
pub struct BadAddress {
    /// The text as it was given.
    pub text: String,
    /// The reason, if it is known.
    pub why: Option<&'static str>,
}

/// The reason for a port that does not parse.
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

/// Parses `HOST:PORT`. The host is a name, an IPv4 address, or an IPv6 address in brackets.
fn tls(text: &str) -> Result<Address, &'static str> {
    let (host, port) = text.rsplit_once(':').ok_or("the port is missing")?;
    let port = port.parse().map_err(|_| BAD_PORT)?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if ServerName::try_from(bare).is_err() || (bare.contains(':') && bare == host) {
        return Err("the host is neither a name nor an IP address");
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
