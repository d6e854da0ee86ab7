//! IP addresses and ranges of them.

use std::net::IpAddr;

/// An IP address.
pub(crate) type Address = IpAddr;

/// A range of IP addresses, as `10.0.0.0/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) address: IpAddr,
    pub(crate) prefix: u8,
}

impl Range {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        let address = parse(address)?;
        let is_plain = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit());
        let prefix: u8 = prefix.parse().ok().filter(|_| is_plain && (prefix == "0" || !prefix.starts_with('0')))?;
        (prefix <= bits(address)).then_some(Self { address, prefix })
    }

    pub(crate) fn masked(self) -> Self {
        let kept = |bits: u32| u32::from(self.prefix).min(bits);
        let address = match self.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - kept(32)).unwrap_or(0);
                IpAddr::V4((u32::from(address) & mask).into())
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - kept(128)).unwrap_or(0);
                IpAddr::V6((u128::from(address) & mask).into())
            }
        };
        Self { address, ..self }
    }

    pub(crate) fn contains(self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4()
            && Self { address, ..self }.masked().address == self.masked().address
    }
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Parses an address; one of IPv4 within IPv6 and one with a zone are refused, as in Kubernetes.
pub(crate) fn parse(text: &str) -> Option<IpAddr> {
    let address: IpAddr = text.parse().ok()?;
    match address {
        IpAddr::V6(inner) if inner.to_ipv4_mapped().is_some() => None,
        _ => Some(address),
    }
}
