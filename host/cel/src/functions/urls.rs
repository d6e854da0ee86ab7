//! URLs. Source: Kubernetes' library of URLs, which parses as Go's `url.ParseRequestURI`.

use super::text_of;
use crate::evaluate::EvaluationError;
use crate::value::Value;

type Outcome<'a> = Result<Value<'a>, EvaluationError>;

/// A URL with a scheme, or a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Url {
    scheme: String,
    /// With the port.
    host: String,
    /// Escaped.
    path: String,
    query: String,
}

impl Url {
    fn parse(text: &str) -> Option<Self> {
        if text.is_empty() || text.chars().any(|c| c.is_control() || c == ' ') {
            return None;
        }
        let (scheme, rest) = scheme(text)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        if scheme.is_empty() && !rest.starts_with('/') {
            return None;
        }
        let (authority, path) = match rest.strip_prefix("//").filter(|_| !scheme.is_empty() || !rest.starts_with("///"))
        {
            Some(rest) if !scheme.is_empty() => rest.split_at(rest.find('/').unwrap_or(rest.len())),
            _ => ("", rest),
        };
        if !scheme.is_empty() && !rest.starts_with('/') {
            // An opaque URL, such as `mailto:someone`, has neither host nor path.
            let scheme = scheme.to_ascii_lowercase();
            return Some(Self { scheme, host: String::new(), path: String::new(), query: query.to_owned() });
        }
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        (is_host(host) && has_valid_escapes(path)).then(|| Self {
            scheme: scheme.to_ascii_lowercase(),
            host: host.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
        })
    }

    /// Returns the host without its port and brackets, and the port.
    fn host_and_port(&self) -> (&str, &str) {
        let end = self.host.rfind(']').map_or(0, |end| end + 1);
        match self.host[end..].rfind(':') {
            Some(colon) => (unbracketed(&self.host[..end + colon]), &self.host[end + colon + 1..]),
            None => (unbracketed(&self.host), ""),
        }
    }
}

fn unbracketed(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

/// Splits the scheme off; `None` if the text cannot be a URL.
fn scheme(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.')));
    match end {
        Some(0) if text.starts_with(':') => None,
        Some(end) if text[end..].starts_with(':') && text.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            Some((&text[..end], &text[end + 1..]))
        }
        _ => Some(("", text)),
    }
}

fn is_host(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, port)) if address.parse::<std::net::Ipv6Addr>().is_ok() => ("", port),
            _ => return false,
        },
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port = |port: &str| port.strip_prefix(':').is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()));
    let is_name = name.chars().all(|c| c.is_alphanumeric() || "-._~!$&'()*+,;=%".contains(c));
    is_name && has_valid_escapes(name) && (port.is_empty() || is_port(port))
}

fn has_valid_escapes(text: &str) -> bool {
    let escapes = text.match_indices('%');
    escapes.into_iter().all(|(at, _)| {
        text.get(at + 1..at + 3).is_some_and(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
    })
}

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
    let mut names: Vec<(String, Vec<Value<'a>>)> = Vec::new();
    for pair in url.query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (Some(name), Some(value)) = (unescaped(name), unescaped(value)) else { continue };
        let value = Value::text(value);
        match names.iter_mut().find(|(known, _)| *known == name) {
            Some((_, values)) => values.push(value),
            None => names.push((name, vec![value])),
        }
    }
    let entries = names.into_iter().map(|(name, values)| (Value::text(name), Value::list(values))).collect();
    Ok(Value::Map(crate::value::Map::Owned(std::rc::Rc::new(entries))))
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

/// Returns whether a text is a URL.
pub(super) fn is_valid(text: &str) -> bool {
    Url::parse(text).is_some()
}
