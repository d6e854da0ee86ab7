//! The parts of a URL, as Go parses it.

use std::net::Ipv6Addr;

/// The parts of a URL that the rules look at.
#[derive(Default)]
pub(super) struct Url<'t> {
    /// In lower case.
    pub(super) scheme: String,
    pub(super) user: Option<&'t str>,
    pub(super) host: &'t str,
    pub(super) query: &'t str,
    pub(super) fragment: &'t str,
}

impl<'t> Url<'t> {
    /// Parses a URL, which may lack any of its parts. Source: `net/url` of Go.
    pub(super) fn parse(text: &'t str) -> Result<Self, &'static str> {
        const ESCAPE: &str = "invalid URL escape";
        let (text, fragment) = text.split_once('#').unwrap_or((text, ""));
        if text.bytes().any(|byte| byte.is_ascii_control()) {
            return Err("net/url: invalid control character in URL");
        }
        if !is_escaped(fragment) {
            return Err(ESCAPE);
        }
        let is_scheme = |text: &str| {
            text.starts_with(|first: char| first.is_ascii_alphabetic())
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
        };
        let (scheme, rest) = match text.split_once(':') {
            Some(("", _)) => return Err("missing protocol scheme"),
            Some((scheme, rest)) if is_scheme(scheme) => (scheme.to_ascii_lowercase(), rest),
            _ => (String::new(), text),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let url = Self { scheme, query, fragment, ..Self::default() };
        if !rest.starts_with('/') {
            return match (url.scheme.is_empty(), rest.split('/').next()) {
                (true, Some(first)) if first.contains(':') => Err("first path segment in URL cannot contain colon"),
                (true, _) if !is_escaped(rest) => Err(ESCAPE),
                _ => Ok(url),
            };
        }
        let authority = rest.strip_prefix("//").filter(|_| !url.scheme.is_empty() || !rest.starts_with("///"));
        let (authority, route) = match authority {
            Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
            None => ("", rest),
        };
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        if !is_host(host, matches!(url.scheme.as_str(), "http" | "https")) {
            return Err("invalid host or port");
        }
        let is_of_user = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
        if !user.is_none_or(|user| user.chars().all(is_of_user) && is_escaped(user)) {
            return Err("net/url: invalid userinfo");
        }
        if is_escaped(route) { Ok(Self { user, host, ..url }) } else { Err(ESCAPE) }
    }
}

/// Returns whether each `%` of a text stands before two hexadecimal digits.
fn is_escaped(text: &str) -> bool {
    text.split('%').skip(1).all(|rest| rest.len() >= 2 && rest.bytes().take(2).all(|byte| byte.is_ascii_hexdigit()))
}

/// Returns whether a text is a host with an optional port. A strict host has one colon at most. Source: `net/url` of Go.
fn is_host(text: &str, is_strict: bool) -> bool {
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let is_rest = |rest: &str| rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port);
    if let Some(inner) = text.strip_prefix('[').filter(|inner| !inner.contains('[')) {
        let Some((address, rest)) = inner.rsplit_once(']') else { return false };
        let (address, zone) = address.split_once("%25").unwrap_or((address, "1"));
        return address.parse::<Ipv6Addr>().is_ok() && !zone.is_empty() && is_escaped(zone) && is_rest(rest);
    }
    let colon = if is_strict { text.find(':') } else { text.rfind(':') };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:]<>\"%".contains(&byte);
    // An escaped byte of a host is no letter of ASCII, or the mark of an escape itself.
    let is_foreign =
        |rest: &str| rest.starts_with("25") || !rest.starts_with(|digit: char| ('0'..='7').contains(&digit));
    colon.is_none_or(|at| is_rest(&text[at..]))
        && text.bytes().all(|byte| !byte.is_ascii() || is_plain(byte))
        && is_escaped(text)
        && text.split('%').skip(1).all(is_foreign)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed_as_in_go() {
        for text in [
            "",
            "*",
            "a",
            "10",
            "https:a",
            "https://",
            "https://a.b:80/c",
            "https://[::1]:80",
            "https://[fe80::1%25en0]/c",
            "https://%C3%A4/b",
            "///a",
            "https://u:p@a",
            "https://a/%20",
            "https://a?#",
        ] {
            assert!(Url::parse(text).is_ok(), "{text}");
        }
        for text in [
            ":a",
            "a b:c",
            "https://a:b",
            "https://a:1:2",
            "https://[::1",
            "https://[1.2.3.4]",
            "https://a b",
            "https://%20",
            "https://a/%2",
            "https://a#%",
            "https://a/\u{7f}",
            "https://u v@a",
            "//a%",
        ] {
            assert!(Url::parse(text).is_err(), "{text}");
        }
        let url = Url::parse("HTTPS://u@a.b:80/c?d#e").expect("it is one");
        let parts = (url.scheme.as_str(), url.user, url.host, url.query, url.fragment);
        assert_eq!(parts, ("https", Some("u"), "a.b:80", "d", "e"));
    }
}
