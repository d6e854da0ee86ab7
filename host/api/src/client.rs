//! The client of a request, as the unit that limits are shared between.

use std::net::{IpAddr, Ipv6Addr};

use axum::http::Extensions;

/// A client with a token is identified by its name, from any address. Any other client is an IP address, or a
/// local user.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Client {
    /// The name of its token.
    Token(String),
    /// Its IP address. Of an IPv6 address only the upper 64 bits, because one network has at least that much.
    Address(IpAddr),
    /// The user id of the peer of a unix socket.
    User(u32),
    /// The system did not report the peer's user id.
    Unknown,
}

impl Client {
    /// Returns the client that sent a request.
    pub(crate) fn of(extensions: &Extensions) -> Self {
        extensions.get().cloned().unwrap_or(Self::Unknown)
    }

    pub(crate) fn at(address: IpAddr) -> Self {
        Self::Address(match address.to_canonical() {
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
            address @ IpAddr::V4(_) => address,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv6_network_is_one_client_and_mapped_ipv4_is_its_address() {
        let at = |text: &str| Client::at(text.parse().unwrap());
        assert_eq!(at("2001:db8::1"), at("2001:db8::ffff"));
        assert_ne!(at("2001:db8::1"), at("2001:db8:0:1::1"));
        assert_eq!(at("::ffff:192.0.2.1"), at("192.0.2.1"));
        assert_ne!(at("192.0.2.1"), at("192.0.2.2"));
    }
}
