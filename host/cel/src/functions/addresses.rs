//! IP addresses and ranges of them. Source: Kubernetes' libraries of IP addresses and CIDRs.

use std::net::IpAddr;

use super::text_of;
use crate::evaluate::EvaluationError;
use crate::value::Value;

type Outcome<'a> = Result<Value<'a>, EvaluationError>;

/// An IP address.
pub(crate) type Address = IpAddr;

/// A range of IP addresses, as `10.0.0.0/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) address: IpAddr,
    pub(crate) prefix: u8,
}

impl Range {
    fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        let address = parse(address)?;
        let is_plain = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit());
        let prefix: u8 = prefix.parse().ok().filter(|_| is_plain && (prefix == "0" || !prefix.starts_with('0')))?;
        (prefix <= bits(address)).then_some(Self { address, prefix })
    }

    fn masked(self) -> Self {
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

    fn contains(self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4()
            && Self { address, ..self }.masked().address == self.masked().address
    }
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Parses an address; one of IPv4 within IPv6 and one with a zone are refused, as in Kubernetes.
fn parse(text: &str) -> Option<IpAddr> {
    let address: IpAddr = text.parse().ok()?;
    match address {
        IpAddr::V6(inner) if inner.to_ipv4_mapped().is_some() => None,
        _ => Some(address),
    }
}

fn no_address(text: &str) -> EvaluationError {
    EvaluationError::Invalid(format!(
        "IP Address {text:?} parse error during conversion from string: ParseAddr({text:?}): unable to parse IP"
    ))
}

pub(super) fn is_ip<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(parse(text_of(&arguments[0])?).is_some()))
}

/// `ip` of a text, or of a range.
pub(super) fn ip<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    if let Value::Cidr(range) = arguments[0] {
        return Ok(Value::Ip(range.address));
    }
    let text = text_of(&arguments[0])?;
    parse(text).map(Value::Ip).ok_or_else(|| no_address(text))
}

/// `ip.isCanonical`.
pub(super) fn is_canonical<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let text = text_of(&arguments[0])?;
    let address = parse(text).ok_or_else(|| no_address(text))?;
    Ok(Value::Bool(address.to_string() == text))
}

pub(super) fn is_cidr<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(Range::parse(text_of(&arguments[0])?).is_some()))
}

pub(super) fn cidr<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let text = text_of(&arguments[0])?;
    Range::parse(text).map(Value::Cidr).ok_or_else(|| EvaluationError::Invalid(format!("{text:?} is not a CIDR")))
}

fn address_of(value: &Value<'_>) -> Result<IpAddr, EvaluationError> {
    match value {
        Value::Ip(address) => Ok(*address),
        _ => Err(EvaluationError::NoSuchOverload),
    }
}

fn range_of(value: &Value<'_>) -> Result<Range, EvaluationError> {
    match value {
        Value::Cidr(range) => Ok(*range),
        _ => Err(EvaluationError::NoSuchOverload),
    }
}

pub(super) fn family<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Int(if address_of(&arguments[0])?.is_ipv4() { 4 } else { 6 }))
}

pub(super) fn is_unspecified<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(address_of(&arguments[0])?.is_unspecified()))
}

pub(super) fn is_loopback<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(address_of(&arguments[0])?.is_loopback()))
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.segments()[0] & 0xffc0 == 0xfe80,
    }
}

pub(super) fn is_link_local_unicast<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(is_link_local(address_of(&arguments[0])?)))
}

pub(super) fn is_link_local_multicast<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(match address_of(&arguments[0])? {
        IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
        IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
    }))
}

pub(super) fn is_global_unicast<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let address = address_of(&arguments[0])?;
    let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    let is_other =
        address.is_unspecified() || address.is_loopback() || address.is_multicast() || is_link_local(address);
    Ok(Value::Bool(!is_broadcast && !is_other))
}

pub(super) fn contains_ip<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let range = range_of(&arguments[0])?;
    let address = match &arguments[1] {
        Value::Ip(address) => *address,
        _ => address_of(&ip(&arguments[1..])?)?,
    };
    Ok(Value::Bool(range.contains(address)))
}

pub(super) fn contains_cidr<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let range = range_of(&arguments[0])?;
    let other = match &arguments[1] {
        Value::Cidr(other) => *other,
        _ => range_of(&cidr(&arguments[1..])?)?,
    };
    Ok(Value::Bool(range.prefix <= other.prefix && range.contains(other.address)))
}

pub(super) fn masked<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Cidr(range_of(&arguments[0])?.masked()))
}

pub(super) fn prefix_length<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Int(i64::from(range_of(&arguments[0])?.prefix)))
}
