//! Address ranges outside of the public Internet.
//!
//! A guest with a grant for `https://*/*` must not reach services on its host or in its network, whichever
//! name resolves to them. So names are irrelevant here: only the resolved address counts.
//!
//! Source: IANA's registries of special-purpose addresses for IPv4 and IPv6, and the documentation of the
//! large clouds' metadata services.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

/// Addresses that need a grant of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AddressRange {
    /// The host's own machine: `127.0.0.0/8`, `::1`.
    Loopback,
    /// Private networks: `10.0.0.0/8`, `172.16.0.0/12`, `192.168.0.0/16`, `100.64.0.0/10`, `198.18.0.0/15`,
    /// `fc00::/7`, `fec0::/10`, `64:ff9b:1::/48`.
    Private,
    /// The local network link: `169.254.0.0/16`, `fe80::/10`.
    LinkLocal,
    /// Metadata services, through which clouds hand out credentials, in any of the ranges: `169.254.169.254`,
    /// `169.254.170.2`, `169.254.170.23`, `100.100.100.200`, `168.63.129.16`, `192.0.0.192`, `fd00:ec2::254`,
    /// `fd00:ec2::23`, `fd20:ce::254`.
    Metadata,
}

impl AddressRange {
    /// All ranges.
    pub const ALL: [Self; 4] = [Self::Loopback, Self::Private, Self::LinkLocal, Self::Metadata];
}

impl fmt::Display for AddressRange {
    /// Writes the manifest's word.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loopback => "loopback",
            Self::Private => "private",
            Self::LinkLocal => "link-local",
            Self::Metadata => "metadata",
        })
    }
}

/// The scope of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressScope {
    /// The public Internet.
    Public,
    /// One of the ranges that can be granted.
    Within(AddressRange),
    /// No single machine: multicast, reserved or unassigned. No request may go there.
    Nowhere,
}

const METADATA_V4: [Ipv4Addr; 6] = [
    Ipv4Addr::new(169, 254, 169, 254),
    Ipv4Addr::new(169, 254, 170, 2),
    Ipv4Addr::new(169, 254, 170, 23),
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(192, 0, 0, 192),
];
const METADATA_V6: [Ipv6Addr; 3] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
];

impl AddressScope {
    /// Returns the scope of `address`. An IPv6 address that embeds an IPv4 address has the scope of that one.
    pub(crate) fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => of_v4(address),
            IpAddr::V6(address) => of_v6(address),
        }
    }

    /// Returns the range to grant, if there is one.
    pub(crate) fn range(self) -> Option<AddressRange> {
        match self {
            Self::Within(range) => Some(range),
            Self::Public | Self::Nowhere => None,
        }
    }
}

fn of_v4(address: Ipv4Addr) -> AddressScope {
    if METADATA_V4.contains(&address) {
        return AddressScope::Within(AddressRange::Metadata);
    }
    match address.octets() {
        [127, ..] => AddressScope::Within(AddressRange::Loopback),
        [169, 254, ..] => AddressScope::Within(AddressRange::LinkLocal),
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] | [100, 64..=127, ..] | [198, 18..=19, ..] => {
            AddressScope::Within(AddressRange::Private)
        }
        // "This network", protocol assignments, multicast, and reserved addresses including broadcast.
        [0, ..] | [192, 0, 0, _] | [224..=255, ..] => AddressScope::Nowhere,
        _ => AddressScope::Public,
    }
}

fn of_v6(address: Ipv6Addr) -> AddressScope {
    if METADATA_V6.contains(&address) {
        return AddressScope::Within(AddressRange::Metadata);
    }
    let [a, b, c, d, e, f, g, h] = address.segments();
    let v4 = |high: u16, low: u16| of_v4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)));
    match [a, b, c, d, e, f] {
        [0, 0, 0, 0, 0, 0] if (g, h) == (0, 1) => AddressScope::Within(AddressRange::Loopback),
        // Mapped, compatible, translated (RFC 6052) and tunnelled (6to4) forms of IPv4 addresses.
        [0, 0, 0, 0, 0, 0 | 0xffff] | [0, 0, 0, 0, 0xffff, 0] | [0x64, 0xff9b, 0, 0, 0, 0] => v4(g, h),
        [0x2002, high, low, ..] => v4(high, low),
        [0x64, 0xff9b, 1, ..] => AddressScope::Within(AddressRange::Private),
        [0xfc00..=0xfdff | 0xfec0..=0xfeff, ..] => AddressScope::Within(AddressRange::Private),
        [0xfe80..=0xfebf, ..] => AddressScope::Within(AddressRange::LinkLocal),
        // Of the remaining space only 2000::/3 is assigned. Within it, Teredo (2001::/32) embeds IPv4
        // addresses.
        [0x2001, 0, ..] => AddressScope::Nowhere,
        [0x2000..=0x3fff, ..] => AddressScope::Public,
        _ => AddressScope::Nowhere,
    }
}

#[cfg(test)]
mod tests;
