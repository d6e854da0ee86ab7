use std::net::IpAddr;

use super::AddressRange::{LinkLocal, Loopback, Metadata, Private};
use super::AddressScope::{self, Nowhere, Public, Within};

fn of(text: &str) -> AddressScope {
    AddressScope::of(text.parse::<IpAddr>().unwrap())
}

#[test]
fn every_range_of_addresses_ends_where_it_should() {
    let cases = [
        (Within(Loopback), "127.0.0.1 127.0.0.0 127.255.255.255 ::1"),
        (
            Within(Private),
            "10.0.0.0 10.255.255.255 172.16.0.1 172.31.255.255 192.168.0.0 100.64.0.0 100.127.255.255 198.19.255.255",
        ),
        (Within(Private), "fc00::1 fdff:ffff::1 fec0::1 64:ff9b:1::1"),
        (Within(LinkLocal), "169.254.0.0 169.254.255.255 fe80::1 febf::1"),
        (Within(Metadata), "169.254.169.254 169.254.170.2 100.100.100.200 168.63.129.16 192.0.0.192 fd00:ec2::254"),
        (Nowhere, "0.0.0.0 0.255.255.255 192.0.0.1 224.0.0.1 239.255.255.255 240.0.0.0 255.255.255.255"),
        (Nowhere, ":: ff02::1 ff0e::1 2001::1 100::1 4000::1"),
        (Public, "1.1.1.1 9.255.255.255 11.0.0.0 172.15.255.255 172.32.0.0 192.167.255.255 192.169.0.0 100.63.255.255"),
        (
            Public,
            "100.128.0.0 169.253.255.255 169.255.0.0 126.255.255.255 128.0.0.0 223.255.255.255 2606:4700::1111 2001:db9::1",
        ),
    ];
    for (expected, addresses) in cases {
        for address in addresses.split(' ') {
            assert_eq!(of(address), expected, "{address}");
        }
    }
}

#[test]
fn an_ipv4_address_mapped_into_ipv6_is_checked_as_ipv4() {
    for (expected, inner) in [
        (Within(Loopback), "127.0.0.1"),
        (Within(Private), "10.1.2.3"),
        (Within(Metadata), "169.254.169.254"),
        (Nowhere, "0.0.0.0"),
        (Public, "1.1.1.1"),
    ] {
        for prefix in ["::ffff:", "::ffff:0:", "64:ff9b::"] {
            assert_eq!(of(&format!("{prefix}{inner}")), expected, "{prefix}{inner}");
        }
    }
    assert_eq!(
        (of("::127.0.0.2"), of("2002:7f00:1::1"), of("2002:101:101::1")),
        (Within(Loopback), Within(Loopback), Public)
    );
}

#[test]
fn refusals_name_ranges_in_the_words_of_the_manifest() {
    for range in super::AddressRange::ALL {
        assert_eq!(serde_json::to_value(range).unwrap(), range.to_string());
    }
}
