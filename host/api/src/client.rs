//! Who asks, as far as bounds go: whatever a client has to share out among its own requests.

use std::net::{IpAddr, Ipv6Addr};

use axum::http::Extensions;

/// Whoever shows a token is who it says, wherever it asks from; anybody else is an address, or a user of this machine.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Client {
    /// By the name that its token has.
    Token(String),
    /// By its address; of one of IPv6 by the upper half, which is what one network has at least.
    Address(IpAddr),
    /// By its number, over a unix socket.
    User(u32),
    /// The system does not say.
    Unknown,
}

impl Client {
    /// Returns who has sent a request.
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
    fn a_network_of_ipv6_is_one_client_and_what_is_mapped_is_its_address() {
        let at = |text: &str| Client::at(text.parse().unwrap());
        assert_eq!(at("2001:db8::1"), at("2001:db8::ffff"));
        assert_ne!(at("2001:db8::1"), at("2001:db8:0:1::1"));
        assert_eq!(at("::ffff:192.0.2.1"), at("192.0.2.1"));
        assert_ne!(at("192.0.2.1"), at("192.0.2.2"));
    }
}
