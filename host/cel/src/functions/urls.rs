//! Functions of URLs. Source: Kubernetes' library of URLs.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::text_of;
use crate::error::EvaluationError;
use crate::objects::urls::Url;
use crate::value::{Map, OwnedMap, Value};

type Outcome<'a> = Result<Value<'a>, EvaluationError>;

pub(super) fn url<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let text = text_of(&arguments[0])?;
    let url = Url::parse(text).ok_or_else(|| {
        EvaluationError::Invalid(format!(
            "URL parse error during conversion from string: parse {text:?}: invalid URI for request"
        ))
    })?;
    Ok(Value::Url(url.into()))
}

pub(super) fn is_url<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(Url::parse(text_of(&arguments[0])?).is_some()))
}

fn part<'a>(arguments: &[Value<'a>], part: impl FnOnce(&Url) -> String) -> Outcome<'a> {
    match &arguments[0] {
        Value::Url(url) => Ok(Value::text(part(url))),
        _ => Err(EvaluationError::NoSuchOverload),
    }
}

pub(super) fn get_scheme<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    part(arguments, |url| url.scheme.clone())
}

pub(super) fn get_host<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    part(arguments, |url| url.host.clone())
}

pub(super) fn get_hostname<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    part(arguments, |url| url.host_and_port().0.to_owned())
}

pub(super) fn get_port<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    part(arguments, |url| url.host_and_port().1.to_owned())
}

pub(super) fn get_escaped_path<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    part(arguments, |url| url.path.clone())
}

/// Returns the values of each name in the query.
pub(super) fn get_query<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let Value::Url(url) = &arguments[0] else { return Err(EvaluationError::NoSuchOverload) };
    let mut names: BTreeMap<String, Vec<Value<'a>>> = BTreeMap::new();
    for pair in url.query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (Some(name), Some(value)) = (unescaped(name), unescaped(value)) else { continue };
        names.entry(name).or_default().push(Value::text(value));
    }
    let mut map = OwnedMap::default();
    for (name, values) in names {
        map.insert(Value::text(name), Value::list(values))?;
    }
    Ok(Value::Map(Map::Owned(Rc::new(map))))
}

fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        bytes.push(match first {
            b'+' => b' ',
            b'%' => {
                let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
                rest = &rest[2..];
                u8::from_str_radix(digits, 16).ok()?
            }
            other => *other,
        });
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
