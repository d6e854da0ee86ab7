//! URLs. Source: Go's `url.ParseRequestURI`.

/// A URL with a scheme, or a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) scheme: String,
    /// With the port.
    pub(crate) host: String,
    /// Escaped.
    pub(crate) path: String,
    pub(crate) query: String,
}

impl Url {
    pub(crate) fn parse(text: &str) -> Option<Self> {
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
    pub(crate) fn host_and_port(&self) -> (&str, &str) {
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
