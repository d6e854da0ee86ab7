//! Functions of IP addresses and ranges. Source: Kubernetes' libraries of IP addresses and CIDRs.

use std::net::IpAddr;

use super::text_of;
use crate::error::EvaluationError;
use crate::objects::addresses::{Range, parse};
use crate::value::Value;

type Outcome<'a> = Result<Value<'a>, EvaluationError>;

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
